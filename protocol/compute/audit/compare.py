"""How far a claimed state lies from a replayed one, and whether a segment multiplies noise.

Distances are measured here; `protocol/spec/tolerance.py` alone judges them. Ratios are float64 and cover all
elements at once. A float64 ratio is off by less than 1e-12 of itself. So the element with the largest ratio,
judged exactly, decides for all elements, but for a tie that no honest or false state hits by chance.

Limits rest on what honest replays of a task's segments differ by. Now and then a segment multiplies a
difference in the last bit of a weight ten thousandfold. This happens mostly at the first position of a
sequence, in the first steps after a merge. Two honest machines then part far beyond any limits made from
other segments (docs/decisions/0024-conditioning.md). In numerical analysis such a problem is
ill-conditioned (Higham, "Accuracy and Stability of Numerical Algorithms", section 1.6).

A machine that replays such a segment can tell by itself. It trains the segment again from weights that are
shaken in their last bit, and sees how far its own two results lie apart. That distance is the segment's *own
noise*. The usual own noise is the median over the task's segments (`find_usual`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from statistics import median

import torch
from torch import Tensor

from touchstone.protocol.compute.program.step import PiecewiseState, TrainingState
from touchstone.protocol.compute.program.tensor_allocator import allocate, allocate_zeros, relax
from touchstone.protocol.spec.calibration_rules import LEAST_MAXIMUM, MARGIN
from touchstone.protocol.spec.containers import Limits
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.params import (
    LEAF_ELEMENTS,
    LEARNING_RATE_FRACTION_BITS,
    MAGNITUDE_LIMIT_UNITS,
    TAU_FRACTION_BITS,
    UNIT_EXPONENT,
)
from touchstone.protocol.spec.tolerance import Element, is_element_beyond

EXACT_JUDGEMENTS = 64
"""Worst elements judged in integers; one is enough but for ties."""
PART_ELEMENTS = 1 << 16
"""Elements that are compared at a time."""
OWN_MARGIN = 100.0
"""Times what an element wanders in own results. One element may by chance move little in four results and
far in a fifth. Of honest steps beyond the limits, 338 in the measurement, none had an element farther off
(0037)."""
NOISE_CAP = 100.0
"""In limits: noise excuses nothing beyond. Work that was not done lies hundreds of limits off (0016)."""
UNDONE_SHARE = 0.5
"""Of the distance of a step that was not taken, where that is nearer than NOISE_CAP: limits may be wide."""


MAGNITUDE_LIMIT = MAGNITUDE_LIMIT_UNITS * 2.0**UNIT_EXPONENT
"""2^64: limits do not tell larger elements apart."""


@dataclass(frozen=True)
class Floors:
    """What is taken from distances or added to scales before dividing (float64); tau_r times |W'|: see
    docs/spec.md, section 6."""

    eps_m: float
    floor_v: float
    tau_r: float


@dataclass(frozen=True)
class Distances:
    """Largest element-wise distances of a claimed from a replayed state, and where they lie.

    first_moment: |dm| / (sqrt(|v'|) + eps_m). second_moment: (|dv| - floor_v) / |v'|. weights: (|dW| - tau_r
    |W'|) / L. 0 where the floor covers all. Indices are elements of the flat vector."""

    first_moment: float
    second_moment: float
    weights: float
    first_moment_index: int
    second_moment_index: int
    weights_index: int


@dataclass(frozen=True)
class Verdict:
    """Whether a whole state lies beyond the limits, and its farthest element; `leaf` is what to open against
    the claim."""

    is_beyond: bool
    element: int
    excess: float

    @property
    def leaf(self) -> int:
        """Index of the state leaf that holds the element."""
        return self.element // LEAF_ELEMENTS


def measure_distances(
    claimed: TrainingState, replayed: TrainingState, learning_rate_sum: float, floors: Floors
) -> Distances:
    """The largest distances over all elements. Infinitely far are NaN, infinities, and a claimed v that alone
    is below zero. `learning_rate_sum` is L."""
    _require_same_place(claimed, replayed)
    ratios = list(_iterate_ratios(claimed, replayed, learning_rate_sum, floors))
    (first, first_index), (second, second_index), (weights, weights_index) = map(_find_largest, ratios)
    return Distances(first, second, weights, first_index, second_index, weights_index)


def measure_apart(
    claimed: PiecewiseState, replayed: PiecewiseState, learning_rate_sum: int, limits: Limits
) -> tuple[tuple[float, float], ...]:
    """Of first moment, second moment and weights: the largest distance, and the limit of the task that it is
    to be compared with. `learning_rate_sum` in units of 2^-64. Holds a part of the states at a time."""
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
    """|a - b| exactly in float64 (nearly so where the exponents lie 29 apart), of numbers cut off as units
    are; infinite where one is not finite."""
    return _cut_off(a).sub_(_cut_off(b)).abs_().nan_to_num_(nan=float("inf"))


def _cut_off(vector: Tensor) -> Tensor:
    """Float64, from -2^64 to 2^64; NaN where not finite. A look at the extremes tells what is to be done."""
    wide = vector.double()
    least, greatest = map(float, vector.aminmax())
    if not -MAGNITUDE_LIMIT <= least <= greatest <= MAGNITUDE_LIMIT:
        nan = float("nan")
        wide.nan_to_num_(nan=nan, posinf=nan, neginf=nan).clamp_(-MAGNITUDE_LIMIT, MAGNITUDE_LIMIT)
    return wide


def _measure_size(vector: Tensor) -> Tensor:
    """Magnitudes in float64; 0 where not finite, where every distance is infinite."""
    return vector.double().abs_().nan_to_num_(nan=0.0, posinf=0.0)


def _set_apart(ratios: Tensor, claimed: TrainingState, replayed: TrainingState) -> Tensor:
    """The ratios, infinite where the claimed v alone is below zero; why, `is_element_beyond` says."""
    if float(claimed.second_moment.min()) >= 0:
        return ratios
    is_alone = (claimed.second_moment < 0) & (replayed.second_moment >= 0)
    return ratios.masked_fill_(is_alone, float("inf"))


def _divide(distance: Tensor, allowance: Tensor) -> Tensor:
    """distance / allowance, where nothing is needed of nothing: 0 / 0 = 0; in the memory of the allowance,
    which is finite."""
    return torch.div(distance, allowance, out=allowance).nan_to_num_(nan=0.0, posinf=float("inf"))


def _find_largest(ratios: Tensor) -> tuple[float, int]:
    index = int(ratios.argmax())
    return float(ratios[index]), index


def compute_excess(
    claimed: TrainingState, replayed: TrainingState, learning_rate_sum: int, limits: Limits
) -> Tensor:
    """Largest of the three distances over its allowance, float64 by element: above 1 is outside the limits.

    `learning_rate_sum` in units of 2^-64, as in `ScheduleLeaf`. Infinite where an element is not finite or
    the claimed v alone is below zero."""
    _require_same_place(claimed, replayed)
    apart = [_differ(a, b) for a, b in zip(claimed.vectors, replayed.vectors, strict=True)]
    allowed = compute_allowances(replayed, learning_rate_sum, limits)
    # In place: a fresh page costs more than an operation on what is there.
    excess, *others = (_divide(*pair) for pair in zip(apart, allowed, strict=True))
    for other in others:
        torch.maximum(excess, other, out=excess)
    return _set_apart(excess, claimed, replayed)


def gather_excess(
    claimed: PiecewiseState, replayed: PiecewiseState, learning_rate_sum: int, limits: Limits
) -> Tensor:
    """What `compute_excess` says of all elements, in their order: float32, one number for each element. Works
    on a part of the states at a time."""
    gathered = allocate(claimed.elements)
    for start, excess in _iterate_excess(claimed, replayed, learning_rate_sum, limits):
        gathered[start : start + len(excess)] = excess
    return gathered


def compute_allowances(
    replayed: TrainingState, learning_rate_sum: int, limits: Limits
) -> tuple[Tensor, Tensor, Tensor]:
    """What the limits allow |dW|, |dm| and |dv| to be, by element: float64, in the units of W, m and v.
    `learning_rate_sum` in units of 2^-64."""
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
    """What `tolerance.is_element_beyond` says of the elements farthest outside: the first of them that is
    beyond, or the farthest. Holds a part of the states at a time."""
    _require_same_place(claimed, replayed)
    verdicts = [
        Verdict(_is_beyond(claimed, replayed, index, learning_rate_sum, limits), index, excess)
        for excess, index in _list_worst(claimed, replayed, learning_rate_sum, limits)
    ]
    return max(verdicts, key=lambda verdict: verdict.is_beyond)


def _list_worst(
    claimed: PiecewiseState, replayed: PiecewiseState, rate: int, limits: Limits
) -> list[tuple[float, int]]:
    """Excess and number of the worst elements. In parts: float64 takes many times a state's memory."""
    worst: list[tuple[float, int]] = []
    for start, excess in _iterate_excess(claimed, replayed, rate, limits):
        worst = _merge_worst(worst, excess, start)
    return worst


def _iterate_excess(
    claimed: PiecewiseState, replayed: PiecewiseState, rate: int, limits: Limits
) -> Iterator[tuple[int, Tensor]]:
    """`compute_excess` of a part at a time, with the number of its first element."""
    for start in range(0, claimed.elements, PART_ELEMENTS):
        theirs, mine = (state.cut(start, start + PART_ELEMENTS) for state in (claimed, replayed))
        yield start, compute_excess(theirs, mine, rate, limits)
        relax()


def _merge_worst(worst: list[tuple[float, int]], excess: Tensor, start: int) -> list[tuple[float, int]]:
    """The worst so far and those of a part that begins at element `start`."""
    if len(worst) == EXACT_JUDGEMENTS and float(excess.max()) < worst[-1][0]:
        return worst
    top = excess.topk(min(EXACT_JUDGEMENTS, excess.numel()))
    found = zip(top.values.tolist(), (top.indices + start).tolist(), strict=True)
    return nlargest(EXACT_JUDGEMENTS, [*worst, *found])


def _is_beyond(
    claimed: PiecewiseState, replayed: PiecewiseState, index: int, rate: int, limits: Limits
) -> bool:
    return is_element_beyond(_read_element(claimed, index), _read_element(replayed, index), rate, limits)


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


SHAKE = 2.0**-24
"""Each weight moves by this part of itself, up, down or not at all: by one unit in the last place at most."""
ILL_CONDITIONED_RATIO = 32
"""Times the median over a task's segments: own noise above it is that of an ill-conditioned segment. Of 35
segments after a merge all but two lay below 11 times it, those two above 200 times
(docs/decisions/0024-conditioning.md)."""


def shake(state: TrainingState, seed: int) -> TrainingState:
    """The state with weights shaken in their last bit; `seed` decides which way. Zeros stay zero."""
    weights = allocate(state.elements)
    for start, part in _iterate_shaken(state, seed):
        weights[start : start + PART_ELEMENTS] = part
    return replace(state, weights=weights)


def unshake(end: TrainingState, start: TrainingState, seed: int) -> TrainingState:
    """What came of `shake(start, seed)`, with each weight moved back by what it was shaken by: its distance
    from what comes of `start` is what the steps between made of that."""
    weights = allocate(end.elements)
    for first, part in _iterate_shaken(start, seed):
        place = slice(first, first + PART_ELEMENTS)
        weights[place] = end.weights[place] - (part - start.weights[place])
    return replace(end, weights=weights)


def _iterate_shaken(state: TrainingState, seed: int) -> Iterator[tuple[int, Tensor]]:
    """Parts of the shaken weights, and where each begins."""
    generator = torch.Generator().manual_seed(seed)
    for start in range(0, state.elements, PART_ELEMENTS):
        part = state.weights[start : start + PART_ELEMENTS]
        ways = torch.randint(-1, 2, part.shape, generator=generator).float()
        yield start, part + part * (ways * SHAKE)
        relax()


def find_usual(own_noise: Sequence[Distances]) -> Distances:
    """The median over segments of a task, quantity by quantity, and no less than limits can say."""
    rows = [(noise.first_moment, noise.second_moment, noise.weights) for noise in own_noise]
    first, second, weights = (max(median(values), float(LEAST_MAXIMUM)) for values in zip(*rows, strict=True))
    return Distances(first, second, weights, 0, 0, 0)


def is_well_conditioned(noise: Distances, usual: Distances) -> bool:
    """Whether limits may rest on a segment with this own noise."""
    pairs = (
        (noise.first_moment, usual.first_moment),
        (noise.second_moment, usual.second_moment),
        (noise.weights, usual.weights),
    )
    return all(own <= ILL_CONDITIONED_RATIO * middle for own, middle in pairs)


# --- A step's own noise -------------------------------------------------------------------------------------
def compute_cap(undone: float) -> float:
    """Up to how many limits noise excuses a step. undone: how far a step lies off that was not taken."""
    return max(1.0, min(NOISE_CAP, UNDONE_SHARE * undone))


def is_explained(excess: Tensor, noises: Iterable[Tensor], cap: float = NOISE_CAP) -> bool:
    """Whether the node's own noise explains a step of which an element lies beyond the limits. excess: how
    far each element lies from the own result, in limits; noises: the same of other own results, of which the
    farthest count, rank by rank and element by element; cap: as `compute_cap`. No noise is asked for where an
    element lies beyond the cap: none would excuse it."""
    # Inside the limits nothing stands out. So of a large model only the elements beyond them are held.
    is_over = ~(excess <= 1.0)
    over = _take(excess, is_over)
    if stands_out(over, over, 1.0, cap):
        return False
    ranked = _take_largest(over, len(over))
    farthest, farthest_ranked = allocate_zeros(len(over)), allocate_zeros(len(over))
    for noise in noises:
        torch.maximum(farthest, _take(noise, is_over), out=farthest)
        torch.maximum(farthest_ranked, _take_largest(noise, len(over)), out=farthest_ranked)
        is_ranked = not stands_out(ranked, farthest_ranked, MARGIN, cap)
        if is_ranked and not stands_out(over, farthest, OWN_MARGIN, cap):
            return True
    return False


def _take(values: Tensor, is_taken: Tensor) -> Tensor:
    """These elements, in their order. In parts: PyTorch holds 8 bytes beside each that it takes."""
    taken, place = allocate(int(is_taken.count_nonzero())), 0
    for part, chosen in zip(*(torch.split(one, PART_ELEMENTS) for one in (values, is_taken)), strict=True):
        found = part[chosen]
        taken[place : place + len(found)] = found
        place += len(found)
        relax()
    return taken


def _take_largest(values: Tensor, count: int) -> Tensor:
    """So many of the largest, in ascending order; what is no number is larger than all. PyTorch's sort and
    topk hold up to 16 bytes beside each element, this holds 4."""
    held, first = allocate(values.numel()).copy_(values).numpy(), values.numel() - count
    if count:
        held.partition(first)
    largest = held[first:]
    largest.sort()
    relax()
    return torch.from_numpy(largest)


def stands_out(excess: Tensor, own_noise: Tensor, margin: float, cap: float) -> bool:
    """Whether a place of `excess` lies beyond the limits, which are 1, and farther than `margin` times the
    noise there, or than `cap`. What is no number stands out."""
    for far, noise in zip(*(torch.split(one, PART_ELEMENTS) for one in (excess, own_noise)), strict=True):
        relax()
        if not bool((far <= (margin * noise).clamp_(1.0, cap)).all()):
            return True
    return False
