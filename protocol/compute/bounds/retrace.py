"""Runs a step again and shows all its tensors, for a dispute.

    state, batch --> traced run --> each tensor into its tree, then forgotten --> roots in order --> trace

Only the roots are kept, because a trace is many times as large as a state. To open a run, the step is run
once more and one buffer is kept.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from touchstone.protocol.compute.bounds.trace_tree import TraceTree, build_buffer_tree
from touchstone.protocol.compute.program.interpreter import Interpreter, Keep, StepResult
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.step import compute_scalars
from touchstone.protocol.compute.program.training_state import Batch, GetBatch, TrainingState
from touchstone.protocol.spec.merkle import Levels, compute_levels
from touchstone.protocol.spec.program import INPUTS, get_constant_roots
from touchstone.protocol.spec.task_spec import TrainingSpec

Show = Callable[[int, memoryview, Levels], None]
"""(buffer, its little-endian elements, all levels of its tree), called while the elements are in memory."""


def ignore(number: int, data: memoryview, levels: Levels) -> None:
    """Does nothing: for a caller that needs no trees."""


class Retraced(NamedTuple):
    """The trace of a step, from which runs of any buffer can be opened, and the state after the step."""

    tree: TraceTree
    end: TrainingState


@dataclass(frozen=True)
class _Step:
    """A step of a task that can be run again."""

    spec: TrainingSpec
    start: TrainingState
    batch: Batch

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Returns the inputs of the program, flat: weights, both moments, tokens, labels, scalars
        (buffers 0 to 5)."""
        start, scalars = self.start, compute_scalars(self.spec, self.start.local_step, self.start.global_step)
        data = (tensor.reshape(-1) for tensor in self.batch)
        return start.weights, start.first_moment, start.second_moment, *data, scalars

    def run(self, keep: Keep) -> StepResult:
        """Runs the step, and shows each tensor once."""
        built = get_program(self.spec)
        weights, first, second, tokens, labels, scalars = self.inputs
        interpreter = Interpreter(
            built.program, built.constants, is_traced=True, numeric_format=self.spec.numeric_format
        )
        return interpreter.run((weights, first, second), tokens, labels, scalars, keep=keep)

    def get(self, buffer: int) -> Tensor:
        """Runs the step, and returns all elements of one buffer."""
        constants = get_program(self.spec).constants
        if buffer < len(INPUTS):
            return self.inputs[buffer]
        if buffer in constants:
            return constants[buffer]
        kept: list[Tensor] = []

        def keep(number: int, tensor: Tensor) -> None:
            """Copies the requested buffer."""
            if number == buffer:
                kept.append(tensor.clone())

        self.run(keep)
        return kept[0]


def retrace(
    start: TrainingState, spec: TrainingSpec, get_batch: GetBatch, inner_step: int, show: Show = ignore
) -> Retraced:
    """Runs one step from `start` on its batch and hashes all of it. `inner_step` is its number in the round.
    It gives the bits that `step.advance` gives on the same machine with the same kernels. Each tree is shown
    once."""
    step, program = _Step(spec, start, get_batch(inner_step)), get_program(spec).program
    roots = get_constant_roots(program)

    def keep(number: int, tensor: Tensor) -> None:
        """Hashes a buffer and shows its tree."""
        tree = build_buffer_tree(program, lambda _: tensor, number)
        roots[number] = tree.root
        show(number, tree.data, tree.levels)

    for number, tensor in enumerate(step.inputs):
        keep(number, tensor)
    result = step.run(keep)
    levels = compute_levels([roots[number] for number in range(len(program.buffers))])
    end = TrainingState(*result[:3], start.local_step + 1, start.global_step + 1).move("cpu")
    return Retraced(TraceTree(program, levels, step.get), end)


Retrace = Callable[[TrainingState, TrainingSpec, GetBatch, int, Show], Retraced]
"""A function with the signature of `retrace`."""
