"""Trains with an error on purpose in one operation of every step, or on other data.

The traces hold the error and everything that follows from it, so the result can be defended as if it were
true.
"""

from collections.abc import Callable, Mapping

from torch import Tensor

from touchstone.node.records.compute import Compute
from touchstone.protocol.compute.bounds.retrace import Retraced, Show, ignore
from touchstone.protocol.compute.bounds.trace_tree import TraceTree, build_buffer_tree
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.step import compute_scalars
from touchstone.protocol.compute.program.training_state import Batch, GetBatch, TrainingState
from touchstone.protocol.spec.merkle import compute_levels
from touchstone.protocol.spec.program import Node, get_constant_roots
from touchstone.protocol.spec.program_addressing import locate, unravel
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.task_spec import TrainingSpec

Inputs = tuple[Tensor, Tensor, Tensor]
"""Tokens, labels, scalars."""
Twist = Callable[[Inputs], Inputs]
"""Takes other data than the task gives."""


def keep_inputs(inputs: Inputs) -> Inputs:
    """Returns the data that the task gives."""
    return inputs


def twist_input(buffer: int) -> Twist:
    """Returns a twist of one element of the tokens (3), labels (4) or scalars (5)."""

    def twist(inputs: Inputs) -> Inputs:
        changed = [tensor.clone() for tensor in inputs]
        flat = changed[buffer - 3].view(-1)
        flat[-1] = (flat[-1] + 1) % 7 if buffer < 5 else flat[-1] * 0.5
        return changed[0], changed[1], changed[2]

    return twist


def find_node(built: BuiltProgram, operation: Operation) -> int:
    """Returns the number of the last node of a kind."""
    return max(n for n, node in enumerate(built.program.nodes) if node.operation is operation)


def plant(node: Node, tensors: Mapping[int, Tensor]) -> None:
    """Puts an error into the last element of a node, far beyond its bound; if quantized values are written,
    into the first byte of their memory."""
    output = tensors[node.output.buffer]
    if not output.is_floating_point():
        output.view(-1)[0] ^= 1
        return
    place = locate(node.output, unravel(node.elements - 1, node.output_sizes))
    output[place] = output[place] * 1.5 + 0.25


def make_planting_compute(operation: Operation | None = None, twist: Twist = keep_inputs) -> Compute:
    """Returns what trains and traces with an error in the last node of a kind, or on other data."""

    def run(
        state: TrainingState, spec: TrainingSpec, batch: Batch
    ) -> tuple[Interpreter, TrainingState, float]:
        built = get_program(spec)
        target = None if operation is None else find_node(built, operation)
        interpreter = Interpreter(
            built.program, built.constants, keeps_all=True, numeric_format=spec.numeric_format
        )
        scalars = compute_scalars(spec, state.local_step, state.global_step)
        vectors = (state.weights, state.first_moment, state.second_moment)
        tokens, labels, scalars = twist((*batch, scalars))
        for number in interpreter.iterate(vectors, tokens, labels, scalars):
            if number == target:
                plant(built.program.nodes[number], interpreter.memory)
        outputs, tensors = built.program.outputs, interpreter.tensors
        results = (outputs.weights, outputs.first_moment, outputs.second_moment)
        weights, first, second = (tensors[buffer].clone() for buffer in results)
        end = TrainingState(weights, first, second, state.local_step + 1, state.global_step + 1)
        return interpreter, end.bring_home(), float(tensors[outputs.loss])

    def train(
        state: TrainingState, spec: TrainingSpec, get_batch: GetBatch, inner_step: int, steps: int
    ) -> tuple[TrainingState, list[float]]:
        losses = []
        for step in range(inner_step, inner_step + steps):
            _, state, loss = run(state, spec, get_batch(step))
            losses.append(loss)
        return state, losses

    def retrace(
        start: TrainingState, spec: TrainingSpec, get_batch: GetBatch, inner_step: int, show: Show = ignore
    ) -> Retraced:
        interpreter, end, _ = run(start, spec, get_batch(inner_step))
        program = interpreter.program
        tensors = {number: tensor.clone() for number, tensor in interpreter.tensors.items()}
        roots = get_constant_roots(program)
        for number in tensors.keys() - roots.keys():
            tree = build_buffer_tree(program, tensors.__getitem__, number)
            roots[number] = tree.root
            show(number, tree.data, tree.levels)
        levels = compute_levels([roots[number] for number in range(len(program.buffers))])
        return Retraced(TraceTree(program, levels, tensors.__getitem__), end)

    return Compute(train, retrace)
