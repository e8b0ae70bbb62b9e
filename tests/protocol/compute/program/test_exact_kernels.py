"""Every kernel of an exact program gives the bits of the specification."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest
import torch
from torch import Tensor

from tests.protocol.compute.conftest import build_tiny_training
from tests.protocol.compute.programs import NO_INDEX, NOTHING, Bench
from touchstone.protocol.compute.batches import Corpus, get_batch
from touchstone.protocol.compute.program import interpreter
from touchstone.protocol.compute.program.exact import exact_kernels, product_families, selected_table
from touchstone.protocol.compute.program.exact.device_kernels import DeviceKernels
from touchstone.protocol.compute.program.exact.exact_kernels import ExactKernels
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.planning.node_views import NodeViews
from touchstone.protocol.compute.program.step import compute_scalars
from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.spec import exact, exact_elementwise
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.program import INDEX_ROLES, INTEGER_ROLES, Access, Node, Program
from touchstone.protocol.spec.program_addressing import locate, unravel
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.program_rules import require_valid
from touchstone.protocol.spec.referee import read_terms

SAMPLES = 5
"""Elements of each node."""


@pytest.fixture(autouse=True)
def _measured() -> Iterator[None]:
    yield
    product_families.force_family(None)


@pytest.fixture(params=[ExactKernels, DeviceKernels], autouse=True)
def _either_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels for graphics cards give the same bits on the CPU."""
    monkeypatch.setattr(interpreter, "ExactKernels", request.param)


def require_elements(program: Program, tensors: Mapping[int, Tensor], samples: int = SAMPLES) -> None:
    """Some elements of each node are what `spec/exact.py` computes from the values that they depend on."""
    chance, lists = random.Random(1), dict[int, list[int]]()

    def fetch(buffer: int, element: int) -> int:
        if buffer not in lists:
            tensor, role = tensors[buffer], program.buffers[buffer].role
            values = tensor if role in INDEX_ROLES | INTEGER_ROLES else tensor.view(torch.int32)
            mask = -1 if role in INDEX_ROLES | INTEGER_ROLES else 0xFFFFFFFF
            lists[buffer] = [value & mask for value in values.tolist()]
        return lists[buffer][element]

    for number, node in enumerate(program.nodes):
        drawn = {0, node.elements - 1, *(chance.randrange(node.elements) for _ in range(samples))}
        for element in drawn:
            terms = list(read_terms(node, element, fetch))
            place = locate(node.output, unravel(element, node.output_sizes))
            found = fetch(node.output.buffer, place)
            found = found if node.operation is Operation.QUANTIZE else exact_elementwise.canonicalize(found)
            expected = exact.compute_element(node.operation, terms, node.selected)
            assert found == expected, (number, node.operation.name, element, hex(found), hex(expected))


def run_whole(
    program: Program, constants: Mapping[int, Tensor], tokens: Tensor = NO_INDEX
) -> dict[int, Tensor]:
    """All tensors of a program without weights, as trees have them."""
    traced = Interpreter(program, constants, numeric_format="exact15", is_traced=True)
    kept = dict(constants)
    empty = (NOTHING, NOTHING, NOTHING)
    traced.run(empty, tokens, NO_INDEX, NOTHING, lambda b, t: kept.update({b: t.clone()}))
    for number, buffer in enumerate(program.buffers):
        if buffer.role in INDEX_ROLES:
            kept.setdefault(number, tokens)
    return kept


def evaluate(bits: int, function: Callable[..., Sequence[Tensor]], *inputs: Tensor) -> None:
    """Run a function as an exact program, and check all that it computes."""
    bench = Bench()
    bench.lower(function, *inputs)
    program, constants = bench.finish(product_bits=bits)
    require_valid(program)
    require_elements(program, run_whole(program, constants, bench.tokens), samples=40)


def draw(*shape: int, spread: float = 20.0) -> Tensor:
    """Numbers of many sizes."""
    generator = torch.Generator().manual_seed(sum(shape))
    exponents = spread * torch.randn(shape, generator=generator)
    return torch.randn(shape, generator=generator) * torch.exp2(exponents.round())


# A whole step
@pytest.mark.parametrize("family", ["bytes", "doubles"])
@pytest.mark.parametrize(
    ("numeric_format", "chunk_terms"), [("exact15", 128), ("exact8", 4096), ("exact20", 512)]
)
def test_every_node_of_a_step_computes_what_the_specification_says(
    numeric_format: str, chunk_terms: int, family: str, corpus: Corpus, state: TrainingState
) -> None:
    product_families.force_family(family)
    spec = build_tiny_training(numeric_format=numeric_format, chunk_terms=chunk_terms)
    built = get_program(spec)
    batch = get_batch(corpus, spec, bytes(32), 0, 0)
    scalars = compute_scalars(spec, 0, 0)
    kept = dict(enumerate((*state.vectors, *(t.reshape(-1) for t in batch), scalars))) | dict(built.constants)
    traced = Interpreter(built.program, built.constants, is_traced=True, numeric_format=numeric_format)
    result = traced.run(state.vectors, *batch, scalars, lambda b, t: kept.update({b: t.clone()}))
    require_elements(built.program, kept)
    trained = Interpreter(built.program, built.constants, numeric_format=numeric_format)
    for own, other in zip(trained.run(state.vectors, *batch, scalars), result, strict=True):
        assert torch.equal(own, other)


# Rows at the ends of the range
@pytest.mark.parametrize("family", ["bytes", "doubles"])
@pytest.mark.parametrize("bits", [8, 15, 20])
def test_products_of_numbers_of_all_sizes(bits: int, family: str) -> None:
    product_families.force_family(family)
    a, b = draw(6, 40), draw(40, 8)
    a[1], a[2, 3], a[3, 4], b[5, 2] = 0, float("inf"), float("nan"), float("-inf")
    a[4] *= 1e-44 / a[4].abs().max()
    a[5, 0] = torch.finfo(torch.float32).max
    evaluate(bits, lambda a, b: (a @ b,), a, b)


@pytest.mark.parametrize("bits", [8, 15, 20])
def test_a_row_of_zeros_does_not_slow_the_others_down(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its scale, 2^-149, has no inverse in float32."""
    monkeypatch.delattr(exact_kernels, "_quantize_slowly")
    a, b = draw(6, 40, spread=2), draw(40, 8, spread=2)
    a[1], a[2], b[:, 3] = 0, -0.0, 0
    evaluate(bits, lambda a, b: (a @ b,), a, b)
    evaluate(bits, lambda a, b: (a.t() @ b,), a.t().contiguous(), b)


@pytest.mark.parametrize("bits", [8, 15])
def test_products_of_operands_that_lie_across(bits: int) -> None:
    a, b = draw(40, 6), draw(40, 8)
    a[:, 1], b[3, 4] = 0, float("nan")
    b[:, 5] *= 1e-42 / b[:, 5].abs().max()
    evaluate(bits, lambda a, b: (a.t() @ b,), a, b)
    evaluate(bits, lambda a, b: (a.transpose(1, 2) @ b,), draw(3, 40, 6), draw(3, 40, 8))


def test_dots_and_sums_of_numbers_of_all_sizes() -> None:
    a, b = draw(9, 200), draw(9, 200)
    a[1], a[2, 3], b[3, 4], a[4] = 0, float("inf"), float("nan"), a[4] * 1e-40 / a[4].abs().max()
    evaluate(15, lambda a, b: ((a * b).sum(1), a.sum(1), a.sum(0), (a * b).sum(0)), a, b)


def test_rows_of_a_table_are_summed_by_their_index() -> None:
    values, tokens = draw(30, 6), torch.arange(30) % 7
    values[3, 2] = float("inf")
    evaluate(
        15,
        lambda v, t: (torch.ops.aten.embedding_dense_backward(v, t, 12, -1, False),),
        values,
        tokens,
    )


def test_a_table_whose_rows_differ_by_index_is_refused() -> None:
    operands = (Access(1, 0, (0, 1)), Access(2, 0, (3, 1)))
    node = Node(Operation.SELECTED_SUM, (4, 3), 1, Access(0, 0, (1,)), operands, selected=0)
    with pytest.raises(InvalidInput, match="another form"):
        selected_table.look_at_table(NodeViews(node, lambda *_: NOTHING))


# Functions and choices
EDGES = torch.tensor(
    [0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-45, -1e-45, 87.0, -87.0, 86.99, 88.72, 88.73,
     -103.9, -104.0, 127.9, 128.0, -128.0, 1.0, 1e-30, 3e38, -3e38, 0.7071067, 0.7071068, 1.4142135, 2.0]
)  # fmt: skip


def test_functions_at_their_edges_and_between() -> None:
    values = torch.cat([EDGES, 10 * torch.randn(500, generator=torch.Generator().manual_seed(2))])
    evaluate(15, lambda x: (torch.softmax(x, 1), torch.nn.functional.silu(x)), values.view(5, -1))
    evaluate(15, lambda x: (x.rsqrt(), x.double().sqrt().float()), values)


def test_the_larger_and_the_smaller_of_numbers_and_zeros() -> None:
    values = torch.cat([EDGES, -EDGES])
    for limit in (0.0, -0.0, 1.0):
        evaluate(15, lambda x, limit=limit: (x.clamp(min=limit), x.clamp(max=limit)), values)


def test_a_product_that_is_not_quantized_is_refused() -> None:
    bench = Bench()
    bench.lower(lambda a, b: (a @ b,), draw(2, 3), draw(3, 2))
    program, constants = bench.finish()
    with pytest.raises(InvalidInput, match="not quantized"):
        run_whole(program, constants)


def test_quantized_values_are_shown_row_for_row_whatever_their_memory() -> None:
    """Two programs whose operands lie along and across quantize the same numbers."""
    a = draw(40, 6, spread=2)
    shown = []
    for lies_across in (False, True):
        bench = Bench()
        matrix = a if lies_across else a.t().contiguous()
        bench.lower(lambda a, b, t=lies_across: ((a.t() if t else a) @ b,), matrix, draw(40, 8))
        program, constants = bench.finish(product_bits=15)
        kept = run_whole(program, constants)
        first = next(node for node in program.nodes if node.operation is Operation.QUANTIZE)
        shown.append(kept[first.output.buffer])
    assert shown[0].dtype == torch.int16 and torch.equal(*shown)
