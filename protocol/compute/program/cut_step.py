"""Cuts a step among several workers of one node: rows of the batch, and leaves in the update.

Each worker holds its own leaves of the moments; new weights are put together. `planning/worker_program.py`
says which part of the program a worker runs.

    tokens --> own rows --> own partial sums --> all partial sums --> gradient --> own leaves --> all weights
                                           exchange                                        exchange
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from torch import Tensor

from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.planning.copy_folding import fold
from touchstone.protocol.compute.program.planning.worker_program import assign_leaves, cut_program
from touchstone.protocol.compute.program.step import compute_scalars
from touchstone.protocol.compute.program.tensor_allocator import allocate, allocate_zeros
from touchstone.protocol.compute.program.training_state import Batch, TrainingState
from touchstone.protocol.spec.task_spec import TrainingSpec


@dataclass(frozen=True)
class Workers:
    """The workers of a step. `own` is this worker's number among `count`. `gather` collects the tensors of
    all workers by number, all of one shape; all workers must call it in the same order."""

    count: int
    own: int
    gather: Callable[[Tensor], Sequence[Tensor]]


class CutStep:
    """Computes the steps of a task as one of several workers."""

    def __init__(self, spec: TrainingSpec, workers: Workers) -> None:
        """Prepares this worker's part. Raises as `cut_program` does."""
        built = get_program(spec)
        self._spec, self._workers = spec, workers
        self._cut = cut_program(fold(built.program, keeps_copies=False), workers.count, workers.own)
        self._interpreter = Interpreter(
            self._cut.program,
            built.constants,
            numeric_format=spec.numeric_format,
            after={buffer: partial(self._exchange, period) for buffer, period in self._cut.exchanges.items()},
        )

    @property
    def leaves(self) -> range:
        """The elements of m and v that this worker holds."""
        return self._cut.leaves

    def own(self, state: TrainingState) -> TrainingState:
        """Returns this worker's part of a whole state: all of W, and a copy of its leaves of m and v."""
        first, second = (vector[self.leaves.start : self.leaves.stop].clone() for vector in state.vectors[1:])
        return replace(state, first_moment=first, second_moment=second)

    def advance(self, state: TrainingState, batch: Batch) -> tuple[TrainingState, float]:
        """Computes one step as `step.advance` does, on this worker's part of the state. `batch` is the batch
        of all workers."""
        scalars = compute_scalars(self._spec, state.local_step, state.global_step)
        result = self._interpreter.run(state.vectors, *batch, scalars)
        weights, counters = self._join(result.weights), (state.local_step + 1, state.global_step + 1)
        stepped = TrainingState(weights, result.first_moment, result.second_moment, *counters)
        return stepped, float(result.loss)

    def _join(self, own: Tensor) -> Tensor:
        """Returns all leaves, each from its worker, in new memory."""
        elements = self._cut.program.buffers[0].size
        assigned = assign_leaves(elements, self._workers.count)
        padded, whole = allocate_zeros(max(map(len, assigned))), allocate(elements)
        padded[: len(own)] = own
        for part, leaves in zip(self._workers.gather(padded), assigned, strict=True):
            whole[leaves.start : leaves.stop] = part[: len(leaves)]
        return whole

    def _exchange(self, period: int, whole: Tensor) -> None:
        """Fills in the parts of the other workers in a tensor. Each period of it has one part of each worker,
        in order."""
        parts = whole.view(-1, self._workers.count, period // self._workers.count)
        for number, part in enumerate(self._workers.gather(parts[:, self._workers.own].contiguous())):
            parts[:, number] = part
