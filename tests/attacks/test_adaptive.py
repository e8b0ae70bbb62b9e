"""The adaptive adversary: its plans do what they say, and its figures are read as they should."""

import pytest
import torch

from tests.attacks import adaptive
from tests.attacks.adaptive import (
    FLIPS,
    JUST_INSIDE,
    PLANS,
    Adversary,
    Campaign,
    HonestRun,
    Knowledge,
    _move,
    find_first,
    play_round,
    ride_noisily,
    whisper,
)
from tests.attacks.adaptive_course import (
    CLAIMANT,
    ROUND_SEGMENTS,
    audit,
    calibrate,
    draw_audited,
    open_course,
)

COUNT = 5000


def know(move: int = 3) -> Knowledge:
    generator = torch.Generator().manual_seed(1)
    first, towards = (torch.randn(COUNT, generator=generator) for _ in range(2))
    return Knowledge(towards.sign(), first.sign(), 0.01, move)


@pytest.mark.parametrize("name", PLANS)
def test_plans_stay_just_inside_the_limit(name: str) -> None:
    step = PLANS[name].push(know())
    assert step.shape == (COUNT,) and 0 < float(step.abs().max()) <= JUST_INSIDE + 1e-6


def test_whisper_follows_the_gradient_below_noise() -> None:
    knowledge = know()
    assert torch.equal(whisper(knowledge).sign(), knowledge.towards)


def test_ride_noisily_turns_its_share_of_signs_anew_each_time() -> None:
    turned = [ride_noisily(know(move)).sign() != know().towards for move in (3, 4)]
    assert [float(t.double().mean()) for t in turned] == pytest.approx([FLIPS] * 2, abs=0.03)
    assert not torch.equal(*turned)


def test_move_is_left_where_rounding_would_leave_the_limit() -> None:
    vector, most = torch.tensor([1.0, 1e-3]), torch.tensor(1e-8)
    moved = _move(vector, torch.tensor([7e-8, 7e-9]), most)
    assert moved[0] == 1.0 and 0 < float(moved[1] - vector[1]) <= 1e-8


def test_draw_audited_segments_do_not_touch_on_the_circle() -> None:
    drawn = {frozenset(draw_audited(number)) for number in range(50)}
    assert drawn == {frozenset({0, 2}), frozenset({1, 3})}


def test_spread_is_the_largest_difference_in_the_run() -> None:
    losses = {"a": [(1.0, 5.0), (2.0, 5.0), (3.0, 5.0)], "b": [(1.0, 5.5), (2.3, 5.1), (3.1, 5.0)]}
    run = HonestRun(losses, None, 0.0, 0.0, 0.0)  # type: ignore[arg-type]
    assert run.spread(0) == pytest.approx(0.3) and run.spread(1) == pytest.approx(0.5)


def test_find_first_counts_from_one() -> None:
    assert find_first([0.1, 0.3], 0.2) == 2 and find_first([0.2], 0.2) is None


def test_riders_are_accepted_and_drift_voids_the_round_but_no_step_of_it_stands_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Limits of four segments are narrow: with some builds of PyTorch noise takes two thirds of them.
    monkeypatch.setattr(adaptive, "JUST_INSIDE", 0.5)
    course = open_course(40)
    states = [course.begin()]
    for _ in range(ROUND_SEGMENTS):
        states.append(course.train(states[-1], CLAIMANT))
    honest = HonestRun({}, calibrate(course, states[:-1]), 0.01, 0.0, 0.0)

    def play(name: str) -> tuple[Campaign, bool]:
        campaign = Campaign()
        end = play_round(Adversary(course, honest, PLANS[name]), campaign, course.begin(), 0)
        return campaign, torch.equal(end.weights, states[-1].weights)

    riding, is_honest = play("gradient at the limit")
    assert (riding.voided, is_honest) == (0, False) and max(one.excess for one in riding.audits) > 0.5
    drifting, is_honest = play("drift in each step, all segments")
    assert (drifting.voided, is_honest) == (1, True)
    assert drifting.step_excess < 1 < max(one.excess for one in drifting.audits)
    assert audit(course, honest.limits, states[0], states[1], 0).excess < 1
