"""Optimizer consistency of a whole segment, from its two ends alone: what no gradients at all could do.

Between the ends of k steps the gradients are unknown, but the optimizer adds them into m and v with known
shares. With x_j what step j added to m, y_j = x_j^2 r what it added to v, r = (1 - beta2) / (1 - beta1)^2
(`screens.py`: the clip factor cancels), and e steps that had an effect,

    m' - beta1^e m = sum beta1^(e-j) x_j,      v' - beta2^e v = r sum beta2^(e-j) x_j^2,

so that by Cauchy and Schwarz, element by element,

    (m' - beta1^e m)^2 <= S / r (v' - beta2^e v),      S = sum (beta1^2 / beta2)^i, i < e.

After each step |m_j| <= beta1^j |m| + sqrt(S / r) sqrt(v_j), which bounds how far W can go. Clipping bounds
the norm of what was added. All rooms are for the worst case of rounding: an honest segment of any machine
is consistent. It is far weaker than a replay, and needs none.
"""

from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

from protocol.compute.plain import FLUSH_BELOW
from protocol.compute.room import relax
from protocol.compute.screens import NORM_ROOM, PART_ELEMENTS, ROUNDINGS
from protocol.compute.step import PiecewiseState, compute_scalars, require_state
from protocol.spec.containers import TrainingSpec
from protocol.spec.errors import InvalidInput
from protocol.spec.float32 import nearest

STEP_ROUNDING = 2.0**-22
"""Relative room a step: the two or three roundings of 2^-24 that each of m, v and W meets, with a margin."""


@dataclass(frozen=True)
class SegmentConsistency:
    """What the two ends say of the steps between them. Counts are elements.

    effective: steps with an effect that were assumed, the most that explain the ends (all of them where none
    does): the others had a gradient that is not finite, or were not taken. implied_norm: the least L2 norm
    that some clipped gradient of the segment must have had."""

    steps: int
    effective: int
    wrong_weights: int
    wrong_moments: int
    implied_norm: float
    norm_limit: float

    @property
    def is_consistent(self) -> bool:
        """Whether some gradients, clipped as the task says, explain the segment."""
        has_wrong = self.wrong_weights > 0 or self.wrong_moments > 0
        return not has_wrong and self.implied_norm <= self.norm_limit


def screen_segment(before: PiecewiseState, after: PiecewiseState, spec: TrainingSpec) -> SegmentConsistency:
    """Optimizer consistency of a segment of one or more steps, from its ends. Raises InvalidInput where the
    second state is not after the first, or one does not fit the task."""
    steps = _require_later(before, after, spec)
    first = _screen(before, after, spec, steps)
    found = first
    while not found.is_consistent and found.effective > 0:
        found = _screen(before, after, spec, found.effective - 1)
    return found if found.is_consistent else first


@dataclass(frozen=True)
class _Shares:
    """Of e steps: beta1^e, beta2^e, S / r, the rooms, and for W the decay and the rate of all k added up."""

    kept_first: float
    kept_second: float
    spread: float
    ratio: float
    rounding: float
    decay: float
    rate: float


def _screen(
    before: PiecewiseState, after: PiecewiseState, spec: TrainingSpec, effective: int
) -> SegmentConsistency:
    shares = _compute_shares(before, after, spec, effective)
    weights = moments = 0
    first_squares = second_sum = 0.0
    for start in range(0, before.elements, PART_ELEMENTS):
        old, new = _cut(before, start), _cut(after, start)
        weights += int(_find_far_weights(old, new, shares).sum())
        first, second, wrong = _imply_added(old, new, shares)
        moments += int(wrong.sum())
        first_squares += float(first.square().sum())
        second_sum += float(second.clamp(min=0).sum())
        relax()
    norm = _imply_norm(first_squares, second_sum, shares, spec)
    limit = spec.optimizer.clip_norm * (1 + NORM_ROOM)
    return SegmentConsistency(after.local_step - before.local_step, effective, weights, moments, norm, limit)


def _compute_shares(
    before: PiecewiseState, after: PiecewiseState, spec: TrainingSpec, effective: int
) -> _Shares:
    optimizer, steps = spec.optimizer, after.local_step - before.local_step
    beta1, beta2 = nearest(optimizer.beta1), nearest(optimizer.beta2)
    decay = rate = 0.0
    for step in range(steps if effective else 0):
        learning_rate, correction1, correction2 = compute_scalars(
            spec, before.local_step + step, before.global_step + step
        ).tolist()
        decay += learning_rate * optimizer.weight_decay
        rate += learning_rate * sqrt(correction2) / correction1
    ratio = nearest(1 - optimizer.beta2) / nearest(1 - optimizer.beta1) ** 2
    return _Shares(
        kept_first=beta1**effective,
        kept_second=beta2**effective,
        spread=sum((beta1 * beta1 / beta2) ** i for i in range(effective)) / ratio * (1 + 2 * ROUNDINGS),
        ratio=ratio,
        rounding=effective * STEP_ROUNDING,
        decay=decay,
        rate=rate,
    )


def _imply_added(
    old: tuple[Tensor, ...], new: tuple[Tensor, ...], shares: _Shares
) -> tuple[Tensor, Tensor, Tensor]:
    """The least that was added to m, in magnitude, and to v, and the elements where no gradients give both;
    NaN is wrong."""
    largest_v = torch.maximum(old[2], new[2] / shares.kept_second)
    largest_m = largest_v.clamp(min=0).mul_(shares.spread).sqrt_().add_(old[1].abs())
    flushed = FLUSH_BELOW if shares.rounding else 0.0
    # In place where it can be: a fresh page costs more than an operation on what is there.
    room_m = largest_m.mul_(shares.rounding).add_(flushed * shares.rounding / STEP_ROUNDING)
    room_v = largest_v.mul_(shares.rounding).add_(flushed * shares.rounding / STEP_ROUNDING)
    first = (shares.kept_first * old[1]).sub_(new[1]).abs_().sub_(room_m).clamp_(min=0).nan_to_num_()
    second = new[2] - shares.kept_second * old[2]
    most = second + room_v
    is_possible = (most >= 0) & (first.square() <= most.mul_(shares.spread))
    is_finite = new[1].isfinite() & new[2].isfinite()
    return first, second.sub_(room_v).nan_to_num_(), ~(is_possible & is_finite & (new[2] >= 0))


def _find_far_weights(old: tuple[Tensor, ...], new: tuple[Tensor, ...], shares: _Shares) -> Tensor:
    """Elements of W that moved further than m and v allow; NaN is wrong."""
    carried = old[1].abs().div_((shares.kept_second * old[2]).clamp_(min=FLUSH_BELOW).sqrt_())
    moved, size = carried.add_(sqrt(shares.spread)).mul_(shares.rate), old[0].abs()
    allowed = (size + moved).mul_(shares.decay).add_(moved)
    room = size.add_(allowed).mul_(shares.rounding)
    return ~((new[0] - old[0]).abs_() <= allowed.add_(room))


def _imply_norm(first_squares: float, second_sum: float, shares: _Shares, spec: TrainingSpec) -> float:
    """||x_j|| <= (1 - beta1) clip for each step, and the sum of y_j is at most (1 - beta2) clip^2."""
    if not shares.rounding:
        return 0.0
    by_first = sqrt(first_squares) / (1 - shares.kept_first)
    by_second = sqrt(second_sum / (1 - shares.kept_second))
    return max(by_first, by_second)


def _cut(state: PiecewiseState, start: int) -> tuple[Tensor, Tensor, Tensor]:
    weights, first, second = (vector.double() for vector in state.cut(start, start + PART_ELEMENTS).vectors)
    return weights, first, second


def _require_later(before: PiecewiseState, after: PiecewiseState, spec: TrainingSpec) -> int:
    require_state(before, spec)
    require_state(after, spec)
    steps = after.local_step - before.local_step
    if steps < 1 or after.global_step - before.global_step != steps:
        raise InvalidInput(
            what="the second state is not some steps after the first",
            expected=f"both counters the same number above {before.local_step} and {before.global_step}",
            actual=(after.local_step, after.global_step),
            remedy="Pass the two ends of a segment.",
        )
    return steps
