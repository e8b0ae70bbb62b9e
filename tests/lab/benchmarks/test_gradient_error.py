"""The program's gradient is autograd's, up to the rounding that its bounds allow."""

import pytest
import torch
from torch import Tensor

from lab.benchmarks.bending.adjoint import Adjoints, Tape, find_gradient
from lab.benchmarks.bending.edge import ROOMY, compute_room
from protocol.compute.determinism import pin_kernels
from protocol.compute.model.batches import get_batch, open_corpus
from protocol.compute.model.reference_model import Tables, build_tables, init_parameters
from protocol.compute.model.reference_step import compute_gradient
from protocol.compute.program.contiguous import look
from protocol.compute.program.step import compute_scalars
from protocol.compute.program.task_program import build_program, describe_program
from protocol.spec.program import Operation
from protocol.spec.referee import FORMATS
from tests.protocol.compute.conftest import TOKENS, build_tiny_training

UNIT = 2.0**-24
ROUNDED = frozenset(
    {Operation.ADD, Operation.SUBTRACT, Operation.MULTIPLY, Operation.DIVIDE, Operation.SQUARE_ROOT}
)
SPEC = build_tiny_training(sequence_tokens=16, sequences_per_step=16)
"""256 positions: sums over them have two chunks."""
BATCH = get_batch(open_corpus(TOKENS, SPEC), SPEC, bytes(32), 0, 0)
WEIGHTS = init_parameters(SPEC.model, 5)


@pytest.fixture(scope="module")
def tape() -> Tape:
    pin_kernels(1)
    tape = Tape(build_program(describe_program(SPEC)))
    zeros = torch.zeros_like(WEIGHTS)
    tape.load((WEIGHTS, zeros, zeros), *BATCH, compute_scalars(SPEC, 0, 0))
    tape.run()
    return tape


@pytest.fixture(scope="module")
def exact() -> Tensor:
    """The gradient by autograd on the plain step, in float64."""
    tables = build_tables(SPEC.model)
    wide = Tables(tables.cos_TN.double(), tables.sin_TN.double(), tables.mask_TS.double())
    return compute_gradient(WEIGHTS.double(), *BATCH, wide, SPEC.model)[1]


def propagate(tape: Tape, direction: Tensor) -> float:
    """What all roundings together can move direction . gradient, to first order: each node's bound, or half a
    unit in the last place where the bound is zero, times what its elements move."""
    adjoints = Adjoints(tape)
    adjoints.compute({find_gradient(tape.program): direction})
    total = 0.0
    for node in tape.program.nodes:
        wish = look(
            adjoints.values[node.output.buffer], node.output.offset, node.output_sizes, node.output.strides
        )
        wish = wish.reshape(-1).double().abs()
        if node.operation in ROOMY:
            bound = compute_room(tape, node, FORMATS["float32"]).compute_bound(slice(None))
        elif node.operation in ROUNDED:
            values = tape.view(node.output, node.output_sizes, node.output.strides)
            bound = values.reshape(-1).double().abs() * UNIT
        else:
            continue
        total += float(wish @ bound)
    return total


def directions() -> list[Tensor]:
    """Single elements of every parameter's gradient, and whole directions."""
    generator = torch.Generator().manual_seed(0)
    chosen = torch.randint(WEIGHTS.numel(), (6,), generator=generator)
    single = [torch.zeros_like(WEIGHTS).index_fill_(0, place, 1.0) for place in chosen]
    return [*single, *(torch.randn(WEIGHTS.numel(), generator=generator) for _ in range(3))]


def test_the_gradient_is_autograds_within_the_propagated_bounds(tape: Tape, exact: Tensor) -> None:
    gradient = tape.buffers[find_gradient(tape.program)].double()
    for direction in directions():
        error = abs(float(direction.double() @ (gradient - exact)))
        assert error <= 1.01 * propagate(tape, direction)


def test_another_gradient_is_beyond_them(tape: Tape, exact: Tensor) -> None:
    gradient = tape.buffers[find_gradient(tape.program)].double()
    direction = exact.float() / exact.norm().float()
    wrong = abs(float(direction.double() @ (1.001 * gradient - exact)))
    assert wrong > propagate(tape, direction)
