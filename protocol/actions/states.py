"""Training states of the store, looked at piece by piece."""

from dataclasses import dataclass

from protocol.actions.tensors import StoredTensor
from protocol.compute.step import TrainingState
from protocol.spec.containers import StateHeader


@dataclass(frozen=True)
class StoredState:
    """A state in the store, of which this process holds the pieces that it asks for: a `PiecewiseState`."""

    header: StateHeader
    tensors: tuple[StoredTensor, ...]
    """W, m, v."""

    @property
    def local_step(self) -> int:
        """Steps since m and v were zero."""
        return self.header.local_step

    @property
    def global_step(self) -> int:
        """Steps in the task."""
        return self.header.global_step

    @property
    def elements(self) -> int:
        """Of each vector."""
        return self.tensors[0].elements

    def cut(self, start: int, stop: int) -> TrainingState:
        """A copy of elements start .. stop of each vector."""
        weights, first, second = (tensor.cut(start, stop) for tensor in self.tensors)
        return TrainingState(weights, first, second, self.local_step, self.global_step)
