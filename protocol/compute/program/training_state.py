"""Defines the inputs of a training step: its state, and its batch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from torch import Tensor

from touchstone.protocol.compute.program.devices import copy_to_host


@dataclass(frozen=True)
class TrainingState:
    """Flat float32 vectors W, m, v, and two step counters: since m and v were zero, and since the task
    began."""

    weights: Tensor
    first_moment: Tensor
    second_moment: Tensor
    local_step: int
    global_step: int

    @property
    def vectors(self) -> tuple[Tensor, Tensor, Tensor]:
        """The vectors W, m, v."""
        return self.weights, self.first_moment, self.second_moment

    @property
    def elements(self) -> int:
        """The number of elements of each vector."""
        return self.weights.numel()

    def move(self, device: str) -> "TrainingState":
        """Returns the same state on a device."""
        weights, first, second = (vector.to(device) for vector in self.vectors)
        return TrainingState(weights, first, second, self.local_step, self.global_step)

    def bring_home(self) -> "TrainingState":
        """Returns the same state in main memory, to be hashed, kept or compared. It does not wait for other
        work of a device."""
        weights, first, second = (copy_to_host(vector) for vector in self.vectors)
        return TrainingState(weights, first, second, self.local_step, self.global_step)

    def cut(self, start: int, stop: int) -> "TrainingState":
        """Returns elements start .. stop of each vector, on its device."""
        weights, first, second = (vector[start:stop] for vector in self.vectors)
        return TrainingState(weights, first, second, self.local_step, self.global_step)


class PiecewiseState(Protocol):
    """A state that is read piece by piece, in memory or in a store."""

    @property
    def local_step(self) -> int:
        """Steps since m and v were zero."""

    @property
    def global_step(self) -> int:
        """Steps in the task."""

    @property
    def elements(self) -> int:
        """The number of elements of each vector."""

    def cut(self, start: int, stop: int) -> TrainingState:
        """Returns elements start .. stop of each vector."""


class Batch(NamedTuple):
    """Tokens and labels, int64 [rows, tokens] each; labels are the next tokens."""

    tokens_BT: Tensor
    labels_BT: Tensor


GetBatch = Callable[[int], Batch]
"""Maps an inner step (0-based in the round) to its batch."""
