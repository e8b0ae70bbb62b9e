"""Changes weights in their last bit, to see how much noise a step makes."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from touchstone.protocol.compute.program.tensor_allocator import allocate, relax
from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.compute.tolerance.compare import PART_ELEMENTS

SHAKE = 2.0**-24
"""Each weight moves by this share of itself, up, down or not at all: at most one unit in the last place."""


def shake(state: TrainingState, seed: int) -> TrainingState:
    """Returns the state with weights changed in their last bit; `seed` decides which way. Zeros stay zero."""
    weights = allocate(state.elements)
    for start, part in _iterate_shaken(state, seed):
        weights[start : start + PART_ELEMENTS] = part
    return replace(state, weights=weights)


def unshake(end: TrainingState, start: TrainingState, seed: int) -> TrainingState:
    """Takes the result of steps from `shake(start, seed)`, and moves each weight back by as much as `shake`
    had moved it. Its distance from the result of `start` shows how much the steps multiplied the change."""
    weights = allocate(end.elements)
    for first, part in _iterate_shaken(start, seed):
        place = slice(first, first + PART_ELEMENTS)
        weights[place] = end.weights[place] - (part - start.weights[place])
    return replace(end, weights=weights)


def _iterate_shaken(state: TrainingState, seed: int) -> Iterator[tuple[int, Tensor]]:
    """Yields parts of the changed weights, and where each begins."""
    generator = torch.Generator().manual_seed(seed)
    for start in range(0, state.elements, PART_ELEMENTS):
        part = state.weights[start : start + PART_ELEMENTS]
        ways = torch.randint(-1, 2, part.shape, generator=generator).float()
        yield start, part + part * (ways * SHAKE)
        relax()
