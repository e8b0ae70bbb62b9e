"""Measures how far a claimed state differs from a replayed one.

Distances are measured here; only `protocol/spec/tolerance.py` judges them. Ratios are float64 and cover all
elements at once. A float64 ratio errs by less than 1e-12 of itself. So the element with the largest ratio,
judged exactly, decides for all, except for a tie that does not occur by chance.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import nlargest

import torch
from torch import Tensor

from touchstone.protocol.compute.program.tensor_allocator import allocate, relax
from touchstone.protocol.compute.program.training_state import PiecewiseState, TrainingState
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.params import (
    LEAF_ELEMENTS,
    LEARNING_RATE_FRACTION_BITS,
    MAGNITUDE_LIMIT_UNITS,
    TAU_FRACTION_BITS,
    UNIT_EXPONENT,
)
from touchstone.protocol.spec.task_spec import Limits
from touchstone.protocol.spec.tolerance import Element, does_element_exceed

EXACT_JUDGEMENTS = 64
"""How many of the worst elements are judged in integers. One is enough, except for ties."""
PART_ELEMENTS = 1 << 16
"""Elements that are compared at a time."""
MAGNITUDE_LIMIT = MAGNITUDE_LIMIT_UNITS * 2.0**UNIT_EXPONENT
"""2^64. Limits do not tell larger elements apart."""


@dataclass(frozen=True)
class Floors:
    """Values subtracted from distances, or added to scales, before dividing (float64). tau_r is multiplied by
    |W'|: see docs/spec.md, section 6."""

    eps_m: float
    floor_v: float
    tau_r: float


@dataclass(frozen=True)
class Distances:
    """The largest distances of a claimed from a replayed state by element, and where they are.

    first_moment is |dm| / (sqrt(|v'|) + eps_m). second_moment is (|dv| - floor_v) / |v'|. weights is (|dW| -
    tau_r |W'|) / L. Each is 0 if the floor covers all. Indices are elements of the flat vector."""

    first_moment: float
    second_moment: float
    weights: float
    first_moment_index: int
    second_moment_index: int
    weights_index: int


@dataclass(frozen=True)
class Verdict:
    """Whether a whole state exceeds the limits, and its farthest element. `leaf` is the leaf to ask the
    claimant for."""

    exceeds_limits: bool
    element: int
    excess: float

    @property
    def leaf(self) -> int:
        """The index of the state leaf that holds the element."""
        return self.element // LEAF_ELEMENTS


def measure_distances(
    claimed: TrainingState, replayed: TrainingState, learning_rate_sum: float, floors: Floors
) -> Distances:
    """Returns the largest distances over all elements. They are infinite for NaN, infinities, and a claimed v
    that alone is below zero. `learning_rate_sum` is L."""
    _require_same_place(claimed, replayed)
    ratios = list(_iterate_ratios(claimed, replayed, learning_rate_sum, floors))
    (first, first_index), (second, second_index), (weights, weights_index) = map(_find_largest, ratios)
    return Distances(first, second, weights, first_index, second_index, weights_index)


def measure_apart(
    claimed: PiecewiseState, replayed: PiecewiseState, learning_rate_sum: int, limits: Limits
) -> tuple[tuple[float, float], ...]:
    """Returns, for first moment, second moment and weights, the largest distance and the task's limit for it.
    `learning_rate_sum` is in units of 2^-64. It holds a part of the states at a time."""
    _require_same_place(claimed, replayed)
    floors = Floors(_units(limits.eps_m), _units(limits.floor_v), _tau(limits.tau_r))
    farthest = [0.0, 0.0, 0.0]
    for start in range(0, claimed.elements, PART_ELEMENTS):
        theirs, mine = (state.cut(start, start + PART_ELEMENTS) for state in (claimed, replayed))
        found = measure_distances(theirs, mine, _tau(learning_rate_sum), floors)
        here = (found.first_moment, found.second_moment, found.weights)
        farthest = [max(pair) for pair in zip(farthest, here, strict=True)]
        relax()
    return tuple(zip(farthest, map(_tau, (limits.tau_m, limits.tau_v, limits.tau_w)), strict=True))


def _iterate_ratios(
    claimed: TrainingState, replayed: TrainingState, learning_rate_sum: float, floors: Floors
) -> Iterator[Tensor]:
    scale = _measure_size(replayed.second_moment)
    yield _differ(claimed.first_moment, replayed.first_moment) / (scale.sqrt() + floors.eps_m)
    beyond = (_differ(claimed.second_moment, replayed.second_moment) - floors.floor_v).clamp(min=0)
    ratios = _divide(beyond, scale.clamp_(max=MAGNITUDE_LIMIT))
    yield _set_apart(ratios, claimed, replayed)
    rounding = floors.tau_r * _measure_size(replayed.weights).clamp_(max=MAGNITUDE_LIMIT)
    yield (_differ(claimed.weights, replayed.weights) - rounding).clamp(min=0) / learning_rate_sum


def _differ(a: Tensor, b: Tensor) -> Tensor:
    """Returns |a - b| in float64, exact unless the exponents are 29 or more apart, of numbers cut to the
    range of limits. Infinite if one is not finite."""
    return _cut_off(a).sub_(_cut_off(b)).abs_().nan_to_num_(nan=float("inf"))


def _cut_off(vector: Tensor) -> Tensor:
    """Converts to float64, cut to -2^64 .. 2^64, NaN if not finite. Looks at the extremes first, because most
    parts need no change."""
    wide = vector.double()
    least, greatest = map(float, vector.aminmax())
    if not -MAGNITUDE_LIMIT <= least <= greatest <= MAGNITUDE_LIMIT:
        nan = float("nan")
        wide.nan_to_num_(nan=nan, posinf=nan, neginf=nan).clamp_(-MAGNITUDE_LIMIT, MAGNITUDE_LIMIT)
    return wide


def _measure_size(vector: Tensor) -> Tensor:
    """Returns magnitudes in float64; 0 if not finite, because every distance is infinite then."""
    return vector.double().abs_().nan_to_num_(nan=0.0, posinf=0.0)


def _set_apart(ratios: Tensor, claimed: TrainingState, replayed: TrainingState) -> Tensor:
    """Returns the ratios, made infinite if the claimed v alone is below zero. `does_element_exceed` says
    why."""
    if float(claimed.second_moment.min()) >= 0:
        return ratios
    is_alone = (claimed.second_moment < 0) & (replayed.second_moment >= 0)
    return ratios.masked_fill_(is_alone, float("inf"))


def _divide(distance: Tensor, allowance: Tensor) -> Tensor:
    """Returns distance / allowance, in the memory of the allowance, which is finite. 0 / 0 counts as 0:
    nothing is needed and nothing allowed."""
    return torch.div(distance, allowance, out=allowance).nan_to_num_(nan=0.0, posinf=float("inf"))


def _find_largest(ratios: Tensor) -> tuple[float, int]:
    index = int(ratios.argmax())
    return float(ratios[index]), index


def compute_excess(
    claimed: TrainingState, replayed: TrainingState, learning_rate_sum: int, limits: Limits
) -> Tensor:
    """Returns for each element the largest of the three distances over its allowance, float64. Above 1 is
    outside the limits.

    `learning_rate_sum` is in units of 2^-64, as in `ScheduleLeaf`. Infinite if an element is not finite or
    the claimed v alone is below zero."""
    _require_same_place(claimed, replayed)
    apart = [_differ(a, b) for a, b in zip(claimed.vectors, replayed.vectors, strict=True)]
    allowed = compute_allowances(replayed, learning_rate_sum, limits)
    # In place, because a new page costs more than the operation.
    excess, *others = (_divide(*pair) for pair in zip(apart, allowed, strict=True))
    for other in others:
        torch.maximum(excess, other, out=excess)
    return _set_apart(excess, claimed, replayed)


def gather_excess(
    claimed: PiecewiseState, replayed: PiecewiseState, learning_rate_sum: int, limits: Limits
) -> Tensor:
    """Returns the result of `compute_excess` for all elements in order, float32. It works on one part of the
    states at a time."""
    gathered = allocate(claimed.elements)
    for start, excess in _iterate_excess(claimed, replayed, learning_rate_sum, limits):
        gathered[start : start + len(excess)] = excess
    return gathered


def compute_allowances(
    replayed: TrainingState, learning_rate_sum: int, limits: Limits
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the largest |dW|, |dm| and |dv| that the limits allow for each element: float64, in units of W,
    m and v. `learning_rate_sum` is in units of 2^-64."""
    weights, second = (_measure_size(one) for one in (replayed.weights, replayed.second_moment))
    root = second.sqrt()
    moved = _tau(limits.tau_w) * learning_rate_sum * 2.0**-LEARNING_RATE_FRACTION_BITS
    return (
        weights.clamp_(max=MAGNITUDE_LIMIT).mul_(_tau(limits.tau_r)).add_(moved),
        root.add_(_units(limits.eps_m)).mul_(_tau(limits.tau_m)),
        second.clamp_(max=MAGNITUDE_LIMIT).mul_(_tau(limits.tau_v)).add_(_units(limits.floor_v)),
    )


def judge_state(
    claimed: PiecewiseState, replayed: PiecewiseState, learning_rate_sum: int, limits: Limits
) -> Verdict:
    """Judges the elements farthest outside with `tolerance.does_element_exceed`. Returns the first that
    exceeds the limits, else the farthest. It holds a part of the states at a time."""
    _require_same_place(claimed, replayed)
    verdicts = [
        Verdict(_exceeds_limits(claimed, replayed, index, learning_rate_sum, limits), index, excess)
        for excess, index in _list_worst(claimed, replayed, learning_rate_sum, limits)
    ]
    return max(verdicts, key=lambda verdict: verdict.exceeds_limits)


def _list_worst(
    claimed: PiecewiseState, replayed: PiecewiseState, rate: int, limits: Limits
) -> list[tuple[float, int]]:
    """Returns excess and number of the worst elements. It works in parts, because float64 takes many times a
    state's memory."""
    worst: list[tuple[float, int]] = []
    for start, excess in _iterate_excess(claimed, replayed, rate, limits):
        worst = _merge_worst(worst, excess, start)
    return worst


def _iterate_excess(
    claimed: PiecewiseState, replayed: PiecewiseState, rate: int, limits: Limits
) -> Iterator[tuple[int, Tensor]]:
    """Yields `compute_excess` of a part at a time, with the number of its first element."""
    for start in range(0, claimed.elements, PART_ELEMENTS):
        theirs, mine = (state.cut(start, start + PART_ELEMENTS) for state in (claimed, replayed))
        yield start, compute_excess(theirs, mine, rate, limits)
        relax()


def _merge_worst(worst: list[tuple[float, int]], excess: Tensor, start: int) -> list[tuple[float, int]]:
    """Returns the worst elements so far, joined with those of a part that begins at element `start`."""
    if len(worst) == EXACT_JUDGEMENTS and float(excess.max()) < worst[-1][0]:
        return worst
    top = excess.topk(min(EXACT_JUDGEMENTS, excess.numel()))
    found = zip(top.values.tolist(), (top.indices + start).tolist(), strict=True)
    return nlargest(EXACT_JUDGEMENTS, [*worst, *found])


def _exceeds_limits(
    claimed: PiecewiseState, replayed: PiecewiseState, index: int, rate: int, limits: Limits
) -> bool:
    return does_element_exceed(_read_element(claimed, index), _read_element(replayed, index), rate, limits)


def _read_element(state: PiecewiseState, index: int) -> Element:
    vectors = state.cut(index, index + 1).vectors
    return Element(*(int(vector.view(torch.int32)) & 0xFFFFFFFF for vector in vectors))


def _tau(value: int) -> float:
    return value * 2.0**-TAU_FRACTION_BITS


def _units(value: int) -> float:
    return value * 2.0**UNIT_EXPONENT


def _require_same_place(claimed: PiecewiseState, replayed: PiecewiseState) -> None:
    places = [(s.elements, s.local_step, s.global_step) for s in (claimed, replayed)]
    if places[0] != places[1]:
        raise InvalidInput(
            what="the two states are not of the same step",
            expected=f"(elements, local step, global step) = {places[1]}",
            actual=places[0],
            remedy="Replay the claimed segment from its own start.",
        )
