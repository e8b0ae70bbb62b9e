"""What a look at one claim alone tells, and where two states part: screens, which turn an eye and convict
nobody.

Given W, m' and v' the new weights follow by separate IEEE-754 operations (`plain.update`), so they must come
out equal, bit by bit, on every machine. Of the gradient g only its traces in m' and v' are known:

    m' = fl(fl(beta1 m) + x),  x = fl(g a),            a = clip (1 - beta1)
    v' = fl(fl(beta2 v) + y),  y = fl(fl(g g) b),      b = clip^2 (1 - beta2)

The clip factor, one number for all elements, is not in the claim; but y = x^2 (1 - beta2) / (1 - beta1)^2 up
to a few roundings whatever it is. So each element has one interval for y from m' and one from v', and some
gradient gives both only where they meet. Clipping itself leaves |x / (1 - beta1)| <= clip_norm in norm.
"""

from dataclasses import dataclass
from math import hypot

import torch
from torch import Tensor

from protocol.compute.model import parameter_layout
from protocol.compute.plain import FLUSH_BELOW, UpdateFactors, compute_factors, move_weights
from protocol.compute.room import relax
from protocol.compute.step import PiecewiseState, compute_scalars, require_state
from protocol.spec.containers import ModelConfig, OptimizerConfig, TrainingSpec
from protocol.spec.errors import InvalidInput
from protocol.spec.float32 import nearest

PART_ELEMENTS = 1 << 16
"""Elements that are looked at at a time."""
NORM_ELEMENTS = 1 << 17
"""Elements whose norm is taken at once: longer tensors are looked at piece by piece."""
ROUNDINGS = 2.0**-20
"""Relative room between y and x^2 (1 - beta2) / (1 - beta1)^2: a rounding of x and one of a, which count
twice, and those of g g, of clip clip, of b and of y are eight of 2^-24; twice that is allowed."""
UNDERFLOW = 2.0**-148
"""Absolute room for products below the least normal number."""
NORM_ROOM = 1e-3
"""Relative room of the implied norm: the sum of squares of a million elements in chunks of 4,096 is off by
less than 3e-4 (Higham, 2nd ed., section 4.2), its root by half of that."""


@dataclass(frozen=True)
class Consistency:
    """What one step's claim says of itself. Counts are elements; indices are of the flat vector, -1: none.

    `implied_norm`: L2 norm of the clipped gradient that m' implies. A step without effect is what the program
    makes of a gradient that is not finite: consistent, and worth a replay."""

    wrong_weights: int
    wrong_weight_index: int
    wrong_moments: int
    wrong_moment_index: int
    implied_norm: float
    norm_limit: float
    is_without_effect: bool

    @property
    def is_consistent(self) -> bool:
        """Whether some gradient, clipped as the task says, explains the step."""
        has_wrong = self.wrong_weights > 0 or self.wrong_moments > 0
        return self.is_without_effect or (not has_wrong and self.implied_norm <= self.norm_limit)


def screen_step(before: PiecewiseState, after: PiecewiseState, spec: TrainingSpec) -> Consistency:
    """Optimizer consistency of one step, from the claim alone. Raises InvalidInput where the states are no
    step apart or do not fit the task."""
    _require_one_step(before, after, spec)
    factors = _compute_known_factors(before, spec)
    weights, moments, squares = _Finds(), _Finds(), 0.0
    is_equal = True
    for start in range(0, before.elements, PART_ELEMENTS):
        old, new = (state.cut(start, start + PART_ELEMENTS).vectors for state in (before, after))
        weights.add(_find_wrong_weights(old, new, factors), start)
        interval = _imply_first(old, new, spec.optimizer)
        moments.add(_find_wrong_moments(old, new, interval, spec.optimizer), start)
        squares += float((interval.middle / nearest(1 - spec.optimizer.beta1)).square().sum())
        is_equal = is_equal and all(map(torch.equal, old, new))
        relax()
    limit = spec.optimizer.clip_norm * (1 + NORM_ROOM)
    counts = (weights.count, weights.first, moments.count, moments.first)
    return Consistency(*counts, squares**0.5, limit, is_equal)


class _Finds:
    """How many elements were found, and the first of them."""

    def __init__(self) -> None:
        self.count, self.first = 0, -1

    def add(self, wrong: Tensor, start: int) -> None:
        """Elements of the part that begins at `start`."""
        places = wrong.nonzero()
        if self.count == 0 and len(places):
            self.first = start + int(places[0])
        self.count += len(places)


@dataclass(frozen=True)
class _Interval:
    """A real number by element, float64: between `low` and `high`."""

    low: Tensor
    high: Tensor

    @property
    def middle(self) -> Tensor:
        return (self.low + self.high) / 2


_Vectors = tuple[Tensor, Tensor, Tensor]
"""W, m, v"""


def _compute_known_factors(before: PiecewiseState, spec: TrainingSpec) -> UpdateFactors:
    """Decay, rate and epsilon of the step; its clip factor is not known: the one of no gradient stands in."""
    scalars = compute_scalars(spec, before.local_step, before.global_step)
    return compute_factors(torch.zeros(1), scalars, spec.optimizer)


def _find_wrong_weights(old: _Vectors, new: _Vectors, factors: UpdateFactors) -> Tensor:
    """Compared as numbers; NaN is wrong."""
    return ~(move_weights(old[0], new[1], new[2], factors) == new[0])


def _imply_first(old: _Vectors, new: _Vectors, optimizer: OptimizerConfig) -> _Interval:
    """x: what was added to beta1 m before rounding gave m'."""
    return _imply_added(old[1] * optimizer.beta1, new[1])


def _imply_added(kept: Tensor, result: Tensor) -> _Interval:
    """What `result` = fl(kept + added) says of `added`: half a unit in the last place each way, or the
    flushed."""
    half = 2.0**-24 * result.double().abs() + UNDERFLOW
    half = torch.where(result == 0, FLUSH_BELOW, half)
    added = result.double() - kept.double()
    return _Interval(added - half, added + half)


def _find_wrong_moments(old: _Vectors, new: _Vectors, first: _Interval, optimizer: OptimizerConfig) -> Tensor:
    """Elements whose two intervals for y do not meet; NaN is wrong."""
    second = _imply_added(old[2] * optimizer.beta2, new[2])
    ratio = nearest(1 - optimizer.beta2) / nearest(1 - optimizer.beta1) ** 2
    squares = (first.low.square(), first.high.square())
    has_zero = (first.low <= 0) & (first.high >= 0)
    least = torch.where(has_zero, 0.0, torch.minimum(*squares)) * ratio * (1 - ROUNDINGS) - UNDERFLOW
    most = torch.maximum(*squares) * ratio * (1 + ROUNDINGS) + UNDERFLOW
    return ~((second.high >= least) & (second.low <= most) & (new[2] >= 0))


def _require_one_step(before: PiecewiseState, after: PiecewiseState, spec: TrainingSpec) -> None:
    require_state(before, spec)
    require_state(after, spec)
    expected = (before.local_step + 1, before.global_step + 1)
    if (after.local_step, after.global_step) != expected:
        raise InvalidInput(
            what="the two states are not one step apart",
            expected=f"(local step, global step) = {expected}",
            actual=(after.local_step, after.global_step),
            remedy="Pass the states of two steps that follow each other.",
        )


# --- Where two states part ----------------------------------------------------------------------------------
@dataclass(frozen=True)
class TensorDistance:
    """How far one parameter tensor of a claim lies from a replay: L2 norms of the differences over those of
    what the replay changed (replayed - start), for W, m and v; 0 where nothing differs, infinite where
    the replay changed nothing and the claim something."""

    name: str
    weights: float
    first_moment: float
    second_moment: float

    @property
    def worst(self) -> float:
        """The largest of the three."""
        return max(self.weights, self.first_moment, self.second_moment)


def measure_tensors(
    claimed: PiecewiseState, replayed: PiecewiseState, start: PiecewiseState, model: ModelConfig
) -> tuple[TensorDistance, ...]:
    """The distances of each parameter tensor, in canonical order, from the state that both started from."""
    states = (claimed, replayed, start)
    return tuple(
        TensorDistance(p.name, *_relate(states, p.offset, p.offset + p.size)) for p in parameter_layout(model)
    )


def _relate(states: tuple[PiecewiseState, ...], start: int, stop: int) -> list[float]:
    """|claimed - replayed| / |replayed - begun| of elements start .. stop of W, m and v."""
    norms: list[list[tuple[float, float]]] = [[], [], []]
    for first in range(start, stop, NORM_ELEMENTS):
        pieces = [state.cut(first, min(stop, first + NORM_ELEMENTS)).vectors for state in states]
        for found, (claimed, replayed, begun) in zip(norms, zip(*pieces, strict=True), strict=True):
            found.append((_measure_apart(claimed, replayed), _measure_apart(replayed, begun)))
        relax()
    return [_divide(*(hypot(*side) for side in zip(*found, strict=True))) for found in norms]


def _measure_apart(one: Tensor, other: Tensor) -> float:
    return float(torch.linalg.vector_norm(one - other, dtype=torch.float64))


def _divide(apart: float, moved: float) -> float:
    if apart == 0:
        return 0.0
    ratio = apart / moved if moved else float("inf")
    return ratio if ratio == ratio else float("inf")
