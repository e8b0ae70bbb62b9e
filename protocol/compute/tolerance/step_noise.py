"""Whether a node's own noise explains a step of which an element lies beyond the limits.

It does if the distances of the node's own results cover the claim's, up to a cap:

    ranked       the claim's r-th farthest element by MARGIN times the own results' r-th farthest: so many
                 elements wander, and so far
    each         an element beyond the limits by OWN_MARGIN times what that very element wanders: elements
                 that wander excuse no others, at whatever place
    cap          NOISE_CAP limits, or half of what a step lies off that was not taken at all, if that is less

The cap is there because a cheat may make a state from which training is chaos, and must not be free to claim
anything after it.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from touchstone.protocol.compute.program.tensor_allocator import allocate, allocate_zeros, relax
from touchstone.protocol.compute.tolerance.compare import PART_ELEMENTS
from touchstone.protocol.spec.calibration_rules import MARGIN

OWN_MARGIN = 100.0
"""Times what an element wanders in own results. One element may by chance move little in four results and
far in a fifth. Of honest steps beyond the limits, 338 in the measurement, none had an element farther off
(0037)."""
NOISE_CAP = 100.0
"""In limits: noise excuses nothing beyond. Work that was not done lies hundreds of limits off (0016)."""
UNDONE_SHARE = 0.5
"""Of the distance of a step that was not taken, where that is nearer than NOISE_CAP: limits may be wide."""


def compute_cap(undone: float) -> float:
    """Returns up to how many limits noise excuses a step. undone: how far a step that was not taken lies
    off."""
    return max(1.0, min(NOISE_CAP, UNDONE_SHARE * undone))


def is_explained(excess: Tensor, noises: Iterable[Tensor], cap: float = NOISE_CAP) -> bool:
    """Returns whether the node's own noise explains a step of which an element lies beyond the limits.
    excess: how far each element lies from this machine's own result, in limits; noises: the same of other own
    results, of which the farthest count, rank by rank and element by element; cap: as `compute_cap`. No noise
    is asked for if an element lies beyond the cap: none would excuse it."""
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
    """Returns whether a place of `excess` lies beyond the limits, which are 1. It must also lie farther than
    `margin` times the noise there, or than `cap`. What is no number stands out."""
    for far, noise in zip(*(torch.split(one, PART_ELEMENTS) for one in (excess, own_noise)), strict=True):
        relax()
        if not bool((far <= (margin * noise).clamp_(1.0, cap)).all()):
            return True
    return False
