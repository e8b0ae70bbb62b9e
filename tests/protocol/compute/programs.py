"""Small programs for tests: tensors go in as constants or indices, nodes are added, results come out."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.spec.data_trees import compute_data_root
from touchstone.protocol.spec.program import COMPUTED_ROLES, INPUTS, Buffer, Node, Outputs, Program, Role
from touchstone.protocol.spec.program_rules import require_valid
from touchstone.step.builder import Builder
from touchstone.step.lowering import Lowering
from touchstone.step.optimizers import AdamW, keep_finite, keep_finite_elements
from touchstone.step.programs import number_buffers
from touchstone.step.quantized import quantize_products
from touchstone.step.recorder import record
from touchstone.step.straight import straighten
from touchstone.step.views import View, make_contiguous

NOTHING = torch.zeros(1)
NO_INDEX = torch.zeros(1, dtype=torch.int64)
"""For inputs that no node reads."""


def read_view(view: View, flat: Tensor) -> Tensor:
    """The elements of a view of a buffer that holds `flat`, in the view's shape."""
    atoms = [atom for dimension in view.dimensions for atom in dimension]
    sizes, strides = [size for size, _ in atoms], [stride for _, stride in atoms]
    return flat.as_strided(sizes, strides, flat.storage_offset() + view.offset).reshape(view.shape)


class Bench:
    """A program under construction. `builder` writes the nodes; `read` runs them."""

    def __init__(self, chunk_terms: int = 128, shares_pieces: bool = True) -> None:
        self.builder = Builder(chunk_terms, shares_pieces=shares_pieces)
        self.constants: dict[int, Tensor] = {}
        self.tokens = NO_INDEX
        self.numbers: dict[int, int] = {}
        """Of buffers in the last finished program, by those in views."""

    def add(self, values: Tensor) -> View:
        """float32 becomes a constant, int64 the tokens (once)."""
        is_index = values.dtype == torch.int64
        buffer = self.builder.add_buffer(Role.TOKENS if is_index else Role.CONSTANT, values.numel())
        if is_index:
            self.tokens = values.reshape(-1)
        else:
            self.constants[buffer] = values.reshape(-1).contiguous()
        return make_contiguous(buffer, 0, values.shape)

    def lower(self, function: Callable[..., Sequence[Tensor]], *inputs: Tensor) -> tuple[View, ...]:
        """The nodes of `function`; views of its results."""
        recorded = record(function, [(tensor.shape, tensor.dtype) for tensor in inputs])
        return Lowering(self.builder).run(recorded, [self.add(tensor) for tensor in inputs])

    @property
    def nodes(self) -> list[Node]:
        """Nodes so far."""
        return self.builder.nodes

    def finish(
        self, results: Sequence[View] = (), product_bits: int = 0
    ) -> tuple[Program, dict[int, Tensor]]:
        """The program, valid, and its constants. Up to three results stand for new W, m, v. product_bits: of
        quantized products, in an exact program."""
        nodes = list(self.builder.nodes)
        loss = self.builder.copy(self.builder.add_number(1.0), self.builder.add_tensor(()))
        outputs = [view.buffer for view in results] + [loss.buffer] * (3 - len(results))
        constants = self._list_constants()
        buffers = list(self.builder.buffers)
        for number, values in constants.items():
            root = compute_data_root(values.numpy().tobytes())
            buffers[number] = Buffer(Role.CONSTANT, values.numel(), root)
        there = {buffer.role for buffer in buffers}
        buffers += [Buffer(role, 1) for role in INPUTS if role not in there]
        written = Program(
            self.builder.chunk_terms,
            tuple(buffers),
            (*nodes, *self.builder.nodes[len(nodes) :]),
            Outputs(loss.buffer, *outputs),
        )
        if product_bits:
            written = quantize_products(written, product_bits)
        program, self.numbers = number_buffers(straighten(written))
        require_valid(program)
        return program, {self.numbers[old]: t for old, t in constants.items() if old in self.numbers}

    def _list_constants(self) -> dict[int, Tensor]:
        numbers = torch.tensor(self.builder.numbers, dtype=torch.float32)
        return {**self.constants, **self.builder.constants, self.builder.numbers_buffer: numbers}

    def read(self, *views: View) -> list[Tensor]:
        """Runs the program; the values of any of its views."""
        program, constants = self.finish()
        kept: dict[int, Tensor] = {}
        interpreter = Interpreter(program, constants, is_traced=True)
        empty = (NOTHING, NOTHING, NOTHING)
        interpreter.run(empty, self.tokens, NO_INDEX, NOTHING, lambda b, t: kept.update({b: t.clone()}))
        computed = {old: kept[new] for old, new in self.numbers.items() if new in kept}
        return [read_view(view, (self._list_constants() | computed)[view.buffer]) for view in views]


def evaluate(function: Callable[..., Sequence[Tensor]], *inputs: Tensor) -> list[Tensor]:
    """What the program of `function` computes from `inputs`."""
    bench = Bench()
    return bench.read(*bench.lower(function, *inputs))


def require_single_writers(program: Program) -> None:
    """Every element of every tensor is written by exactly one node."""
    tensors = {n: buffer for n, buffer in enumerate(program.buffers) if buffer.role in COMPUTED_ROLES}
    counts = {number: torch.zeros(buffer.size, dtype=torch.uint8) for number, buffer in tensors.items()}
    for node in program.nodes:
        written = counts[node.output.buffer]
        written.as_strided(node.output_sizes, node.output.strides, node.output.offset).add_(1)
    for number, written in counts.items():
        assert bool((written == 1).all()), f"buffer {number}: {written.min()} to {written.max()} writers"


# The optimizer's update alone
def build_update(gradient: Tensor, optimizer: AdamW) -> Interpreter:
    """An interpreter of the update by this gradient. Its scalars are the three of a step, the factor that
    clips the gradient, and the norm."""
    count = gradient.numel()
    bench = Bench(4096)
    roles = (Role.WEIGHTS, Role.FIRST_MOMENT, Role.SECOND_MOMENT)
    vectors = [make_contiguous(bench.builder.add_buffer(role, count), 0, (count,)) for role in roles]
    scalars = make_contiguous(bench.builder.add_buffer(Role.SCALARS, 5), 0, (5,))

    def step(w: Tensor, m: Tensor, v: Tensor, g: Tensor, scalars: Tensor) -> tuple[Tensor, ...]:
        moved = optimizer.move((w, m, v), g, scalars[3], scalars[:3])
        return tuple(map(keep_finite_elements, keep_finite(scalars[4], moved, (w, m, v))))

    recorded = record(step, [((count,), torch.float32)] * 4 + [((5,), torch.float32)])
    results = Lowering(bench.builder).run(recorded, [*vectors, bench.add(gradient), scalars])
    program, constants = bench.finish(results)
    return Interpreter(program, constants)


# Other processes
def run_python(program: str, *arguments: str, **environment: str) -> str:
    """Standard output of a Python program in a fresh process."""
    result = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout
