"""How far two states lie apart, what the limits say of it, and which segments are too shaky to set limits."""

from dataclasses import replace
from math import inf, nan
from pathlib import Path

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from touchstone.protocol.adapters.files.mapped_files import make_mapped
from touchstone.protocol.compute.audit.conditioning import (
    ILL_CONDITIONED_RATIO,
    find_usual,
    is_well_conditioned,
)
from touchstone.protocol.compute.program import tensor_allocator
from touchstone.protocol.compute.program.tensor_allocator import Room, use_room
from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.compute.tolerance import compare
from touchstone.protocol.compute.tolerance.compare import (
    PART_ELEMENTS,
    Distances,
    Floors,
    compute_excess,
    gather_excess,
    judge_state,
    measure_distances,
)
from touchstone.protocol.compute.tolerance.shaking import shake, unshake
from touchstone.protocol.compute.tolerance.step_noise import OWN_MARGIN, compute_cap, is_explained, stands_out
from touchstone.protocol.spec.calibration_rules import LEAST_MAXIMUM, MARGIN
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.task_spec import Limits
from touchstone.protocol.spec.tolerance import Element, does_element_exceed

NO_FLOORS = Floors(0.0, 0.0, 0.0)
RATE = 1 << 58
"""A summed learning rate of 2^-6."""


def limits(tau: float, floor: int = 0) -> Limits:
    scaled = int(tau * 2**64)
    return Limits(scaled, 1 << 120, scaled, floor, scaled, 0)


LIMITS = limits(1e-4)
QUIET = Distances(1e-6, 3e-6, 1e-6, 0, 0, 0)


@pytest.fixture
def trained() -> TrainingState:
    generator = torch.Generator().manual_seed(1)
    vectors = [torch.randn(1000, generator=generator) for _ in range(3)]
    return TrainingState(vectors[0], vectors[1] * 1e-3, vectors[2].square() * 1e-6, 3, 3)


def moved(state: TrainingState, field: str, index: int, by: float) -> TrainingState:
    vector = getattr(state, field).clone()
    vector[index] += by
    return replace(state, **{field: vector})


def test_distances_are_the_ratios_of_the_specification(trained: TrainingState) -> None:
    claimed = moved(
        moved(moved(trained, "weights", 7, 1e-3), "first_moment", 8, 1e-4), "second_moment", 9, 1e-6
    )
    found = measure_distances(claimed, trained, 0.5, Floors(1e-5, 1e-9, 1e-5))
    v, dv = float(trained.second_moment[8]), float(claimed.second_moment[9] - trained.second_moment[9])
    dm, dw = (
        float(getattr(claimed, f)[i] - getattr(trained, f)[i])
        for f, i in (("first_moment", 8), ("weights", 7))
    )
    assert found.first_moment == pytest.approx(dm / (v**0.5 + 1e-5)) and found.first_moment_index == 8
    assert found.second_moment == pytest.approx((dv - 1e-9) / float(trained.second_moment[9]), rel=1e-4)
    rounding = 1e-5 * abs(float(trained.weights[7]))
    assert found.weights == pytest.approx((dw - rounding) / 0.5, rel=1e-4) and found.weights_index == 7


def test_equal_states_are_not_apart(trained: TrainingState) -> None:
    zero = replace(trained, second_moment=torch.zeros(1000), first_moment=torch.zeros(1000))
    for state in (trained, zero):
        found = measure_distances(state, state, 1.0, Floors(1e-9, 0.0, 0.0))
        assert (found.first_moment, found.second_moment, found.weights) == (0, 0, 0)
        assert not judge_state(state, state, RATE, LIMITS).exceeds_limits


@pytest.mark.parametrize("field", ["weights", "first_moment", "second_moment"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_claims_that_are_not_finite_are_infinitely_far(
    trained: TrainingState, field: str, bad: float
) -> None:
    vector = getattr(trained, field).clone()
    vector[700] = bad
    claimed = replace(trained, **{field: vector})
    verdict = judge_state(claimed, trained, RATE, LIMITS)
    assert (verdict.exceeds_limits, verdict.element, verdict.leaf) == (True, 700, 2)
    assert verdict.excess == float("inf")
    # Nor is anything near a replay that went wrong, or two that did.
    for other in (trained, claimed):
        assert float(compute_excess(other, claimed, RATE, LIMITS)[700]) == float("inf")
    found = measure_distances(claimed, trained, 1.0, NO_FLOORS)
    assert getattr(found, field) == float("inf") and getattr(found, f"{field}_index") == 700


def test_a_second_moment_that_is_negative_alone_is_beyond(trained: TrainingState) -> None:
    claimed = replace(trained, second_moment=trained.second_moment.clone())
    claimed.second_moment[5] = -1e-30
    verdict = judge_state(claimed, trained, RATE, limits(1, 1 << 100))
    assert (verdict.exceeds_limits, verdict.element, verdict.excess) == (True, 5, float("inf"))
    assert measure_distances(claimed, trained, 1.0, Floors(0.0, 1e-9, 0.0)).second_moment == float("inf")


def test_honest_work_on_a_signed_vector_is_within_limits(trained: TrainingState) -> None:
    """An optimizer of one's own may keep anything in the second vector."""
    signed = replace(trained, second_moment=trained.second_moment * torch.tensor([1.0, -1.0]).repeat(500))
    assert not judge_state(signed, signed, RATE, LIMITS).exceeds_limits
    near = replace(signed, second_moment=signed.second_moment * (1 + 2.0**-20))
    verdict, found = judge_state(near, signed, RATE, LIMITS), measure_distances(near, signed, 1.0, NO_FLOORS)
    assert not verdict.exceeds_limits and verdict.excess == pytest.approx(2.0**-20 / 1e-4, rel=0.2)
    assert found.second_moment == pytest.approx(2.0**-20, rel=0.2)
    first = replace(signed, first_moment=signed.first_moment + 1e-9)
    assert measure_distances(first, signed, 1.0, Floors(1e-5, 0.0, 0.0)).first_moment < 2e-4
    turned = replace(signed, second_moment=-signed.second_moment)
    assert judge_state(turned, signed, RATE, LIMITS).exceeds_limits


@pytest.mark.parametrize("number", [2.0**64, -(2.0**64), 2.0**100, -3.4e38])
@pytest.mark.parametrize("field", ["weights", "first_moment", "second_moment"])
def test_honest_work_on_large_numbers_is_within_limits(
    trained: TrainingState, field: str, number: float
) -> None:
    """A hostile program may lead a weight anywhere that is finite."""
    vector = getattr(trained, field).clone()
    vector[300] = number
    large = replace(trained, **{field: vector})
    assert not judge_state(large, large, RATE, LIMITS).exceeds_limits
    # A float32 that is nearly the same is no farther: here all that is beyond 2^64 is one number.
    vector = vector.clone()
    vector[300] = number * (1 - 2.0**-20) if abs(number) > 2.0**65 else number * (1 + 2.0**-20)
    near = replace(trained, **{field: vector})
    verdict = judge_state(near, large, RATE, LIMITS)
    assert (verdict.exceeds_limits, verdict.excess) == (False, 0.0)
    assert judge_state(trained, large, RATE, LIMITS).exceeds_limits
    assert judge_state(large, trained, RATE, LIMITS).exceeds_limits


ANY = [
    0.0,
    -0.0,
    1e-45,
    1e-30,
    1e-9,
    1e-3,
    0.5,
    1.0,
    2.0**40,
    2.0**63.99,
    2.0**64,
    2.0**64.01,
    2.0**100,
    3.4e38,
]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("floor", [0, 1 << 60, 1 << 102])
def test_measured_and_exact_judgement_agree_on_every_finite_element(seed: int, floor: int) -> None:
    """The largest ratio above 1 is beyond and what is not is within, in whatever way numbers are cut off."""
    generator = torch.Generator().manual_seed(seed)

    def draw(values: torch.Tensor) -> torch.Tensor:
        signs = torch.randint(0, 2, (400,), generator=generator) * 2 - 1
        return values[torch.randint(0, len(values), (400,), generator=generator)] * signs

    replayed = TrainingState(draw(torch.tensor(ANY)), draw(torch.tensor(ANY)), draw(torch.tensor(ANY)), 1, 1)
    factors = torch.tensor([1.0, 1.0, 1 + 2.0**-22, 1 - 2.0**-14, 1 + 2.0**-10, 3.0, -1.0])
    w, m, v = ((one.double() * draw(factors)).clamp(-3.4e38, 3.4e38).float() for one in replayed.vectors)
    claimed, task = TrainingState(w, m, v, 1, 1), limits(1e-4, floor)
    excess = compute_excess(claimed, replayed, RATE, task)
    for index in range(400):
        pair = compare._read_element(claimed, index), compare._read_element(replayed, index)
        exact = does_element_exceed(*pair, RATE, task)
        ratio = float(excess[index])
        assert abs(ratio - 1) < 1e-9 or exact == (ratio > 1), (index, ratio)
    assert judge_state(claimed, replayed, RATE, task).exceeds_limits == bool((excess > 1).any())


@pytest.mark.parametrize("factor, exceeds_limits", [(0.99, False), (1.01, True)])
def test_one_moved_weight_decides(trained: TrainingState, factor: float, exceeds_limits: bool) -> None:
    zero = replace(trained, weights=torch.zeros(1000))
    claimed = moved(zero, "weights", 300, factor * 1e-4 * 2.0**-6)
    verdict = judge_state(claimed, zero, RATE, LIMITS)
    assert (verdict.exceeds_limits, verdict.element, verdict.leaf) == (exceeds_limits, 300, 1)
    assert verdict.excess == pytest.approx(factor, rel=1e-6)


def test_the_element_is_one_that_is_beyond_not_one_that_only_looks_so(
    trained: TrainingState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two that float64 takes for equally far the integers choose."""
    claimed = moved(moved(trained, "weights", 7, 1e-3), "weights", 701, 2e-3)
    at_seven = compare._read_element(claimed, 7)
    monkeypatch.setattr(compare, "does_element_exceed", lambda element, *_: element == at_seven)
    verdict = judge_state(claimed, trained, RATE, LIMITS)
    assert (verdict.exceeds_limits, verdict.element) == (True, 7)


@pytest.mark.parametrize("scale", [3e-5, 1e-4, 3e-4, 1e-3, 3e-3])
@pytest.mark.parametrize("seed", range(3))
def test_the_worst_element_decides_as_all_elements_would(scale: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    w, m, v = (torch.randn(60, generator=generator) for _ in range(3))
    replayed = TrainingState(w, m, v.square(), 1, 1)
    noise = [1 + scale * torch.randn(60, generator=generator) for _ in range(3)]
    claimed = TrainingState(w + (noise[0] - 1) / 64, m * noise[1], v.square() * noise[2], 1, 1)

    def bits(state: TrainingState, index: int) -> Element:
        vectors = (state.weights, state.first_moment, state.second_moment)
        return Element(*(int(x[index].view(torch.int32)) & 0xFFFFFFFF for x in vectors))

    everyone = {
        i for i in range(60) if does_element_exceed(bits(claimed, i), bits(replayed, i), RATE, LIMITS)
    }
    verdict = judge_state(claimed, replayed, RATE, LIMITS)
    assert verdict.exceeds_limits == bool(everyone) and (not everyone or verdict.element in everyone)


def test_excess_is_one_at_the_limit(trained: TrainingState) -> None:
    zero = replace(trained, weights=torch.zeros(1000))
    claimed = moved(zero, "weights", 3, 1e-4 * 2.0**-6)
    assert float(compute_excess(claimed, zero, RATE, LIMITS)[3]) == pytest.approx(1.0, rel=1e-6)


def test_states_of_different_steps_are_not_compared(trained: TrainingState) -> None:
    with pytest.raises(InvalidInput, match="same step"):
        measure_distances(replace(trained, local_step=4), trained, 1.0, NO_FLOORS)
    with pytest.raises(InvalidInput, match="same step"):
        compute_excess(replace(trained, weights=trained.weights[:-1]), trained, RATE, LIMITS)


def test_judge_state_in_parts_finds_the_same_element(
    trained: TrainingState, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed = moved(moved(trained, "weights", 7, 1e-3), "weights", 701, 2e-3)
    whole = judge_state(claimed, trained, RATE, LIMITS)
    monkeypatch.setattr(compare, "PART_ELEMENTS", 300)
    assert judge_state(claimed, trained, RATE, LIMITS) == whole
    assert (whole.element, whole.exceeds_limits) == (701, True)


# Conditioning: weights shaken in their last bit
@pytest.fixture
def start() -> TrainingState:
    generator = torch.Generator().manual_seed(1)
    weights = torch.randn(PART_ELEMENTS + 300, generator=generator)
    weights[::100] = 0.0
    return TrainingState(weights, torch.zeros_like(weights), torch.ones_like(weights), 3, 13)


def test_shake_moves_each_weight_by_one_unit_in_the_last_place_at_most(start: TrainingState) -> None:
    shaken = shake(start, 7)
    moved = shaken.weights.view(torch.int32) - start.weights.view(torch.int32)
    assert set(moved.tolist()) == {-1, 0, 1}
    for part in (moved[:PART_ELEMENTS], moved[PART_ELEMENTS:]):
        assert 0.3 < float((part != 0).float().mean()) < 0.7
    assert not bool(shaken.weights[::100].any())
    assert shaken.first_moment is start.first_moment and shaken.global_step == 13


def test_the_seed_decides_which_way(start: TrainingState) -> None:
    first, again, other = (shake(start, seed).weights for seed in (7, 7, 8))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_unshake_leaves_what_the_steps_made_of_it(start: TrainingState) -> None:
    shaken = shake(start, 7)
    assert torch.equal(unshake(shaken, start, 7).weights, start.weights)
    doubled = replace(shaken, weights=2 * shaken.weights)
    left = unshake(doubled, start, 7).weights - 2 * start.weights
    assert torch.allclose(left, shaken.weights - start.weights, rtol=0.0, atol=2.0**-20)


@pytest.mark.parametrize("name", ["first_moment", "second_moment", "weights"])
def test_limits_rest_on_no_segment_far_above_the_median(name: str) -> None:
    largest = getattr(QUIET, name) * ILL_CONDITIONED_RATIO
    noise = [QUIET, QUIET, replace(QUIET, **{name: 1.01 * largest}), QUIET, replace(QUIET, **{name: largest})]
    usual = find_usual(noise)
    assert [is_well_conditioned(own, usual) for own in noise] == [True, True, False, True, True]


def test_noise_below_what_limits_can_say_makes_no_segment_ill_conditioned() -> None:
    least = ILL_CONDITIONED_RATIO * float(LEAST_MAXIMUM)
    noise = [Distances(0.0, 0.0, 0.0, 0, 0, 0)] * 2 + [Distances(least, least, least, 0, 0, 0)]
    assert all(is_well_conditioned(own, find_usual(noise)) for own in noise)


# A step's own noise
@pytest.mark.parametrize(
    ("excess", "noise", "is_false"),
    [
        ([2], [0.1], True),
        ([2], [0.3], False),
        ([99], [50], False),
        ([101], [50], True),
        ([101], [inf], True),
        ([nan], [inf], True),
        ([1.5], [nan], True),
        ([30, 0.9, 0.1], [3, 0.01, 0], False),
        ([30, 30, 0.1], [3, 0.01, 0], True),
        ([40, 40], [4, 1], True),
        ([40, 5], [4, 1], False),
    ],
)
def test_ten_times_the_own_noise_is_drift_up_to_a_hundred_limits(
    excess: list[float], noise: list[float], is_false: bool
) -> None:
    """What is no number excuses nothing, and one element that wanders excuses no second one."""
    assert is_explained(torch.tensor(excess), [torch.tensor(noise)]) != is_false
    order = [*range(1, len(excess)), 0]
    moved = torch.tensor([excess[at] for at in order]), [torch.tensor([noise[at] for at in order])]
    assert is_explained(*moved) != is_false, "places do not count, as long as they are the same"


def test_an_element_that_wanders_excuses_none_at_another_place() -> None:
    noise = torch.tensor([3.0, 0.001, 0.0])
    assert is_explained(torch.tensor([25.0, 0.5, 0.0]), [noise])
    assert not is_explained(torch.tensor([0.5, 25.0, 0.0]), [noise])


FAR = st.sampled_from([0.0, 0.3, 1.0, 1.5, 4.0, 40.0, 99.0, 101.0, inf, nan])


@given(st.lists(st.tuples(FAR, FAR, FAR), min_size=1, max_size=6), st.sampled_from([1.0, 10.0, 100.0]))
def test_only_elements_beyond_the_limits_have_to_be_held(places: list[tuple[float, ...]], cap: float) -> None:
    """The same answer as from all elements, ranked by PyTorch. Who asks has found one beyond the limits."""
    excess, *noises = torch.tensor(places).T.contiguous()
    assume(not bool((excess <= 1).all()))
    farthest, ranks = torch.zeros(len(places)), torch.zeros(len(places))
    expected = False
    for noise in noises:
        farthest, ranks = farthest.maximum(noise), ranks.maximum(noise.sort(descending=True).values)
        is_ranked = not stands_out(excess.sort(descending=True).values, ranks, MARGIN, cap)
        expected |= is_ranked and not stands_out(excess, farthest, OWN_MARGIN, cap)
    assert is_explained(excess, noises, cap) == expected


def test_no_noise_is_computed_for_what_none_excuses() -> None:
    computed = (pytest.fail("a step is computed again") for _ in range(1))
    assert not is_explained(torch.tensor([0.5, 11.0]), computed, 10.0)


def test_judging_a_step_of_a_large_model_holds_nothing_as_long_as_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where all of it lies beyond the limits. A part of it is held at a time; the rest lies in files."""
    made: list[int] = []

    def make(size_bytes: int) -> memoryview:
        made.append(size_bytes)
        return make_mapped(tmp_path, size_bytes)

    count = 5 * PART_ELEMENTS
    monkeypatch.setattr(tensor_allocator, "LARGE_BYTES", 2 * 4 * PART_ELEMENTS)
    use_room(Room(make, lambda: None))
    try:
        excess, noise = torch.full((count,), 1.5), torch.full((count,), 0.5)
        state = TrainingState(torch.rand(count), torch.rand(count), torch.rand(count), 3, 3)
        with torch.profiler.profile(profile_memory=True) as seen:
            assert not gather_excess(state, state, RATE, LIMITS).any()
            assert is_explained(excess, [noise])
    finally:
        use_room(None)
    assert made == [4 * count] * 7
    most = max(event.self_cpu_memory_usage for event in seen.events() or ())
    assert 0 < most < 4 * count


@pytest.mark.parametrize(("undone", "cap"), [(1000.0, 100.0), (20.0, 10.0), (1.0, 1.0)])
def test_noise_excuses_less_than_a_step_that_was_not_taken(undone: float, cap: float) -> None:
    """Where limits are wide such a step lies twenty limits off."""
    assert compute_cap(undone) == cap
    assert not is_explained(torch.tensor([undone + 1]), [torch.tensor([1000.0])], compute_cap(undone))
