"""Programs written by hand: what a submitter may post who does not use our recorder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from touchstone.node.joining.task_step import refuse_costs
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.costs import measure_costs
from touchstone.protocol.compute.program.kernels.fused_update import UPDATE
from touchstone.protocol.compute.program.known_steps import TaskStep, learn_step, require_fit
from touchstone.protocol.compute.program.program_form import require_constants
from touchstone.protocol.compute.program.training_state import Batch
from touchstone.protocol.spec.data_trees import compute_data_root
from touchstone.protocol.spec.float32 import nearest
from touchstone.protocol.spec.params import PROTOCOL_VERSION
from touchstone.protocol.spec.program import Access, Buffer, Node, Outputs, Program, Role
from touchstone.protocol.spec.program_codec import compute_program_root, decode_program, encode_program
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.task_spec import NamedBytes, ScheduleConfig, TrainingSpec
from touchstone.protocol.spec.weights_layout import ParameterEntry, Start, WeightsLayout, encode_layout

ROWS, TOKENS, VOCABULARY = 2, 4, 13
W, M, V, TOKENS_IN, LABELS, SCALARS = range(6)
View = tuple[int, int, Sequence[int]]
"""Buffer, first element, stride of each loop."""
Operand = int | tuple[int, int]
"""A buffer, element by element, or one element of a buffer."""


class HandWritten:
    """A program of W with `parameters` elements, node after node."""

    def __init__(self, parameters: int) -> None:
        self.parameters = parameters
        sizes = (*3 * (parameters,), *2 * (ROWS * TOKENS,), 3)
        roles = (
            Role.WEIGHTS, Role.FIRST_MOMENT, Role.SECOND_MOMENT, Role.TOKENS, Role.LABELS, Role.SCALARS,
        )  # fmt: skip
        self.buffers = [Buffer(role, size) for role, size in zip(roles, sizes, strict=True)]
        self.nodes: list[Node] = []
        self.constants: dict[int, Tensor] = {}
        self.zero = self.constant([0.0])
        self.loss = self.flat(Operation.COPY, (W, 0), size=1)

    def constant(self, values: Sequence[float] | Tensor) -> int:
        """The buffer of a new constant."""
        data = torch.as_tensor(values, dtype=torch.float32).contiguous()
        root = compute_data_root(data.numpy().tobytes())
        self.buffers.append(Buffer(Role.CONSTANT, data.numel(), root))
        self.constants[len(self.buffers) - 1] = data
        return len(self.buffers) - 1

    def tensor(self, size: int, role: Role = Role.TENSOR) -> int:
        """A new buffer."""
        self.buffers.append(Buffer(role, size))
        return len(self.buffers) - 1

    def node(
        self,
        operation: Operation,
        sizes: Sequence[int],
        output: View,
        *operands: View,
        reduced: int = 0,
        selected: int = 0,
    ) -> int:
        """Add a node; gives the buffer that it writes."""
        made = [Access(buffer, offset, tuple(strides)) for buffer, offset, strides in (output, *operands)]
        self.nodes.append(Node(operation, tuple(sizes), reduced, made[0], tuple(made[1:]), selected))
        return output[0]

    def flat(
        self, operation: Operation, *operands: Operand, size: int | None = None, output: int | None = None
    ) -> int:
        """Add an elementwise node over `size` elements, by default those of W."""
        size = self.parameters if size is None else size
        output = self.tensor(size) if output is None else output
        views: list[View] = [
            (one, 0, (1,)) if isinstance(one, int) else (one[0], one[1], (0,)) for one in operands
        ]
        return self.node(operation, (size,), (output, 0, (1,)), *views)

    def quantize(self, buffer: int, rows: int, terms: int, bits: int) -> tuple[int, int]:
        """Quantized values of rows, and their scales."""
        scales = self.node(
            Operation.SCALE_OF, (rows, terms), (self.tensor(rows), 0, (1,)), (buffer, 0, (terms, 1)),
            reduced=1, selected=bits,
        )  # fmt: skip
        role = Role.INTEGER16 if bits <= 15 else Role.INTEGER32
        values = self.node(
            Operation.QUANTIZE, (rows, terms), (self.tensor(rows * terms, role), 0, (terms, 1)),
            (buffer, 0, (terms, 1)), (scales, 0, (1, 0)), selected=bits,
        )  # fmt: skip
        return values, scales

    def update(
        self, gradient: int, change: Mapping[str, Operand | str] | None = None, size: int | None = None
    ) -> Mapping[str, Operand]:
        """Add the nodes of AdamW as the recorder writes them; gives what each name is. change: other
        operands, by name, a text naming one that the nodes write."""
        numbers = self.constant([0.9, 0.1, 0.95, 0.05, 1e-12, 1e-20, 1e-8, 0.999, 1e-3, 1.0, 0.0])
        names = (
            "beta1", "first_scale", "beta2", "second_scale", "least_m", "least_v", "epsilon", "decay",
            "rate", "norm", "zero",
        )  # fmt: skip
        found: dict[str, Operand] = {name: (numbers, place) for place, name in enumerate(names)}
        found |= {"w": W, "m": M, "v": V, "g": gradient}
        changed = change or {}
        for operation, (written, *read) in UPDATE:
            operands = []
            for name in read:
                other = changed.get(name, found.get(name, name))
                operands.append(found[other] if isinstance(other, str) else other)
            given = changed.get(written)
            found[written] = self.flat(
                operation, *operands, size=size, output=given if isinstance(given, int) else None
            )
        return found

    def copies(self, *sources: int) -> list[int]:
        """A copy of each."""
        return [self.flat(Operation.COPY, one) for one in sources]

    def finish(self, weights: int, first_moment: int, second_moment: int, chunk_terms: int = 128) -> Program:
        """The program. What is not finite of its results becomes zero: that is a rule."""
        moved = (weights, first_moment, second_moment)
        finite = {
            node.output.buffer
            for node in self.nodes
            if node.operation is Operation.FINITE_SELECT and node.operands[0] == node.operands[1]
        }
        kept = [
            one if one in finite else self.flat(Operation.FINITE_SELECT, one, one, (self.zero, 0))
            for one in moved
        ]
        outputs = Outputs(self.loss, *kept)
        return Program(chunk_terms, tuple(self.buffers), tuple(self.nodes), outputs)


@dataclass(frozen=True)
class Judged:
    """A program that a node accepted, and the training of a task that names it."""

    training: TrainingSpec
    step: TaskStep


def judge(written: HandWritten, program: Program, numeric_format: str) -> Judged:
    """What a node does with a task's program before it computes anything. Raises InvalidInput as it does."""
    data = encode_program(program)
    program = decode_program(data)
    layout = WeightsLayout((ParameterEntry("w", (written.parameters,), Start.UNIFORM, 0.03125),))
    text = encode_layout(layout)
    program_bytes, layout_bytes = (NamedBytes(compute_data_root(one), len(one)) for one in (data, text))
    training = TrainingSpec(
        PROTOCOL_VERSION, numeric_format, compute_program_root(program), program_bytes, layout_bytes,
        VOCABULARY, nearest(0.9), nearest(0.95), ScheduleConfig(nearest(1e-3), 0, 10), ROWS, TOKENS, 1,
        bytes(32), 1000, 100,
    )  # fmt: skip
    require_fit(training, program, layout, written.parameters)
    refuse_costs(measure_costs(program))
    built = BuiltProgram(program, written.constants)
    require_constants(built)
    step = TaskStep(built, layout)
    learn_step(step)
    return Judged(training, step)


def draw_vectors(parameters: int) -> tuple[Tensor, Tensor, Tensor]:
    """W, m and v as in the middle of a training."""
    generator = torch.Generator().manual_seed(3)
    w, m = (torch.randn(parameters, generator=generator) for _ in range(2))
    return w, m * 1e-2, torch.rand(parameters, generator=generator) * 1e-3


def draw_rows() -> Batch:
    """Tokens and labels."""
    tokens, labels = torch.arange(2 * ROWS * TOKENS).view(2, ROWS, TOKENS) % VOCABULARY
    return Batch(tokens.contiguous(), labels.contiguous())
