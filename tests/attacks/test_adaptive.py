"""The adaptive adversary: its plans do what they say, and its figures are read as they should."""

from itertools import product

import pytest
import torch

from tests.attacks.adaptive import (
    FLIPS,
    JUST_INSIDE,
    PLANS,
    HonestRun,
    Knowledge,
    _move,
    find_first,
    hide,
    is_before,
    ride_noisily,
    whisper,
)
from tests.attacks.adaptive_course import APART, draw_audited

COUNT = 5000


def know(segment: int = 3) -> Knowledge:
    generator = torch.Generator().manual_seed(1)
    first, second, towards = (torch.randn(COUNT, generator=generator) for _ in range(3))
    known = (torch.ones(COUNT), first, second.sign(), first + second)
    return Knowledge(towards.sign(), second.sign(), known, 0.01, segment)


@pytest.mark.parametrize("name", PLANS)
def test_plans_stay_just_inside_the_limit(name: str) -> None:
    step = PLANS[name](know())
    assert step.shape == (COUNT,) and 0 < float(step.abs().max()) <= JUST_INSIDE + 1e-6


def test_hide_is_orthogonal_to_what_is_known_and_as_large_as_noise() -> None:
    knowledge = know()
    step = hide(knowledge).double()
    for direction in knowledge.known:
        cosine = step @ direction.double() / step.norm() / direction.double().norm()
        assert abs(float(cosine)) < 1e-6
    assert float(step.square().mean().sqrt()) == pytest.approx(0.01, rel=1e-4)
    assert float(step @ knowledge.towards.double()) > 0


def test_whisper_follows_the_gradient_below_noise() -> None:
    knowledge = know()
    assert torch.equal(whisper(knowledge).sign(), knowledge.towards)


def test_ride_noisily_turns_its_share_of_signs_anew_each_time() -> None:
    turned = [ride_noisily(know(segment)).sign() != know().towards for segment in (3, 4)]
    assert [float(t.double().mean()) for t in turned] == pytest.approx([FLIPS] * 2, abs=0.03)
    assert not torch.equal(*turned)


def test_move_is_left_where_rounding_would_leave_the_limit() -> None:
    vector, most = torch.tensor([1.0, 1e-3]), torch.tensor(1e-8)
    moved = _move(vector, torch.tensor([7e-8, 7e-9]), most)
    assert moved[0] == 1.0 and 0 < float(moved[1] - vector[1]) <= 1e-8


def test_draw_audited_segments_do_not_touch() -> None:
    drawn = {draw_audited(number) for number in range(50)}
    assert drawn == set(APART) and all(abs(a - b) > 1 for a, b in drawn)


def test_spread_is_the_largest_difference_so_far() -> None:
    losses = {"a": [(1.0, 5.0), (2.0, 5.0), (3.0, 5.0)], "b": [(1.0, 5.5), (2.3, 5.1), (3.1, 5.0)]}
    run = HonestRun([], losses, None, [], 0.0, 0.0)  # type: ignore[arg-type]
    assert run.spread(0) == pytest.approx([0.0, 0.3, 0.3]) and run.spread(1) == pytest.approx([0.5] * 3)


def test_find_first_counts_from_one() -> None:
    assert find_first([0.1, 0.3], [0.2, 0.2]) == 2 and find_first([0.2], [0.2]) is None


@pytest.mark.parametrize("flagged, crossing", list(product((None, 3, 5), (None, 4))))
def test_is_before_a_flag_after_the_gain_is_late(flagged: int | None, crossing: int | None) -> None:
    assert is_before(flagged, [crossing, None]) is (crossing is None or flagged == 3)
