"""Decides whether a node's own noise explains a step in which an element lies beyond the limits.

The noise explains it if distances among the node's own results cover the claim's, up to a cap:

    ranked      the claim's r-th farthest element by MARGIN times the own results' r-th farthest: so many
                elements move, and so far
    each        an element beyond the limits by OWN_MARGIN times its own move in the own results: other
                elements' moves do not excuse it
    cap         NOISE_CAP limits, or half of the distance of a step that was not taken, if that is less

The cap is needed because a cheat may make a state from which training is chaos, and must not be free to claim
anything after it.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from touchstone.protocol.compute.program.tensor_allocator import allocate, allocate_zeros, relax
from touchstone.protocol.compute.tolerance.compare import PART_ELEMENTS
from touchstone.protocol.spec.calibration_rules import MARGIN

OWN_MARGIN = 100.0
"""An element may be off by up to this many times its own move in this machine's results, because by chance it
may move little in four results and far in a fifth. Of 338 measured honest steps beyond the limits, none had
an element farther off (decision 0037)."""
NOISE_CAP = 100.0
"""The farthest, in limits, that noise excuses. Work that was not done is hundreds of limits off (decision
0016)."""
UNDONE_SHARE = 0.5
"""The cap is this share of how far a step that was not taken is off, if that is less than NOISE_CAP, because
limits may be wide."""


def compute_cap(undone: float) -> float:
    """Returns the largest excess, in limits, that noise can excuse. `undone` is how far a step that was not
    taken is off."""
    return max(1.0, min(NOISE_CAP, UNDONE_SHARE * undone))


def is_explained(excess: Tensor, noises: Iterable[Tensor], cap: float = NOISE_CAP) -> bool:
    """Returns whether the node's own noise explains a step with elements beyond the limits. `excess` is how
    far each element is from this machine's own result, in limits. `noises` are such distances of other
    results of this machine; the farthest count, rank by rank and element by element. `cap` is from
    `compute_cap`. If an element is beyond the cap, no noise is asked for, because none would excuse it."""
    # Elements inside the limits need no excuse, so only those beyond them are held.
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
    """Returns the chosen elements in order. It works in parts, because PyTorch holds 8 bytes beside each
    selected element."""
    taken, place = allocate(int(is_taken.count_nonzero())), 0
    for part, chosen in zip(*(torch.split(one, PART_ELEMENTS) for one in (values, is_taken)), strict=True):
        found = part[chosen]
        taken[place : place + len(found)] = found
        place += len(found)
        relax()
    return taken


def _take_largest(values: Tensor, count: int) -> Tensor:
    """Returns the `count` largest elements, ascending; NaN counts as the largest. PyTorch's sort and topk
    hold up to 16 bytes beside each element, this holds 4."""
    held, first = allocate(values.numel()).copy_(values).numpy(), values.numel() - count
    if count:
        held.partition(first)
    largest = held[first:]
    largest.sort()
    relax()
    return torch.from_numpy(largest)


def stands_out(excess: Tensor, own_noise: Tensor, margin: float, cap: float) -> bool:
    """Returns whether an entry of `excess` is beyond the limits (1) and also beyond `margin` times the noise
    there, or beyond `cap`. NaN always counts."""
    for far, noise in zip(*(torch.split(one, PART_ELEMENTS) for one in (excess, own_noise)), strict=True):
        relax()
        if not bool((far <= (margin * noise).clamp_(1.0, cap)).all()):
            return True
    return False
