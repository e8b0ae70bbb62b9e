"""Whether a segment multiplies noise.

Limits rest on what honest replays of a task's segments differ by. Now and then a segment multiplies a
difference in the last bit of a weight ten thousandfold. This happens mostly at the first position of a
sequence, in the first steps after a merge. Two honest machines then part far beyond any limits made from
other segments (docs/decisions/0024-conditioning.md). In numerical analysis such a problem is
ill-conditioned (Higham, "Accuracy and Stability of Numerical Algorithms", section 1.6).

A machine that replays such a segment can tell by itself. It trains the segment again from weights that are
shaken in their last bit, and sees how far its own two results lie apart. That distance is the segment's *own
noise*. The usual own noise is the median over the task's segments (`find_usual`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median

import torch
from torch import Tensor

from touchstone.protocol.compute.audit.compare import PART_ELEMENTS, Distances
from touchstone.protocol.compute.program.tensor_allocator import allocate, relax
from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.spec.calibration_rules import LEAST_MAXIMUM

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
