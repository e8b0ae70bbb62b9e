"""Nodes as the builder writes them: sums in chunks that are added in pairs, nothing computed twice, nothing
computed again along a broadcast dimension, and loops that follow each other joined.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.protocol.compute.conftest import build_tiny_training
from tests.protocol.compute.programs import Bench, require_single_writers
from tests.task_models import get_model, respecify
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.program import INTEGER_ROLES, Node, Program, Role
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.program_rules import require_valid
from touchstone.step.builder import DOT_BITS
from touchstone.step.quantized import quantize_products
from touchstone.step.views import LayoutError, View, expand, insert, narrow, permute, reshape


def ramp(*shape: int) -> Tensor:
    """Small numbers of both signs, exact in float32."""
    count = torch.Size(shape).numel()
    return ((torch.arange(count) * 7 % 23) - 11).float().reshape(shape)


def list_terms(nodes: Sequence[Node]) -> list[tuple[str, int, int]]:
    """(operation, elements, terms) of each node."""
    return [(node.operation.name, node.elements, node.terms) for node in nodes]


# Sums in chunks
@pytest.mark.parametrize(
    "terms, chunks",
    [
        (1, [(1, 1)]),
        (128, [(1, 128)]),
        (129, [(3, 43)]),
        (256, [(2, 128)]),
        (384, [(3, 128)]),
        (416, [(4, 104)]),
        (131, [(1, 128), (1, 3)]),  # a prime: full chunks and a rest
        (257, [(2, 128), (1, 1)]),
        (650, [(10, 65)]),
    ],
)
def test_chunks_are_equal_where_that_leaves_them_half_full(terms: int, chunks: list[tuple[int, int]]) -> None:
    bench = Bench(128)
    total = bench.builder.contract(Operation.SUM, [bench.add(ramp(terms))], 1)
    sums = [(node.elements, node.terms) for node in bench.nodes if node.operation is Operation.SUM]
    assert sums == chunks
    assert bench.read(total)[0].item() == ramp(terms).sum().item()


def test_partial_sums_are_added_in_pairs_and_an_odd_one_last() -> None:
    bench = Bench(128)
    views = bench.add(ramp(7 * 128, 2))
    bench.builder.contract(Operation.SUM, [permute(views, (1, 0))], 1)
    assert list_terms(bench.nodes) == [
        ("SUM", 14, 128),
        ("ADD", 6, 1),
        ("ADD", 2, 1),
        ("ADD", 2, 1),
        ("ADD", 2, 1),
    ]
    _, pairs, *rest = bench.nodes
    partial, halves = pairs.operands[0].buffer, pairs.output.buffer
    assert [(a.buffer, a.offset) for a in pairs.operands] == [(partial, 0), (partial, 6)]  # 0 1 2 + 3 4 5
    assert [(a.buffer, a.offset) for a in rest[0].operands] == [(halves, 0), (halves, 2)]  # 0 3 + 1 4
    assert (rest[1].operands[0].buffer, rest[1].operands[1]) == (rest[0].output.buffer, rest[1].operands[1])
    assert {(a.buffer, a.offset) for a in (rest[1].operands[1], rest[2].operands[1])} == {
        (partial, 12),
        (halves, 4),
    }


@settings(max_examples=60)
@given(st.integers(1, 1500), st.integers(1, 3), st.sampled_from([128, 512]), st.booleans())
def test_a_sum_of_any_length_is_the_sum(terms: int, rows: int, chunk: int, is_product: bool) -> None:
    random = torch.Generator().manual_seed(terms)
    a, b = torch.randn(rows, terms, generator=random), torch.randn(rows, terms, generator=random)
    bench = Bench(chunk)
    views = [bench.add(a), bench.add(b)] if is_product else [bench.add(a)]
    operation = Operation.PRODUCT_SUM if is_product else Operation.SUM
    total = bench.builder.contract(operation, views, 1)
    exact = a.double() * b if is_product else a.double()
    (ours,) = bench.read(total)
    scale = exact.abs().sum(1)
    assert bool(((ours.double() - exact.sum(1)).abs() <= 40 * 2.0**-24 * scale).all())
    assert max(node.terms for node in bench.nodes) <= chunk


@pytest.mark.parametrize("positions", [5, 200, 257, 390])
def test_rows_are_summed_by_index_over_any_number_of_positions(positions: int) -> None:
    index, values = torch.arange(positions) * 5 % 7, ramp(positions, 3)
    bench = Bench(128)
    shape = (7, 3, positions)
    operands = [expand(bench.add(index), shape), expand(permute(bench.add(values), (1, 0)), shape)]
    total = bench.builder.contract(Operation.SELECTED_SUM, operands, 1, selected=0)
    assert torch.equal(bench.read(total)[0], torch.zeros(7, 3).index_add(0, index, values))


def test_several_dimensions_are_summed_as_one() -> None:
    bench = Bench(128)
    x = ramp(2, 30, 3, 7)
    total = bench.builder.contract(Operation.SUM, [permute(bench.add(x), (1, 0, 2, 3))], 3)
    assert len(bench.nodes) == 1 and torch.equal(bench.read(total)[0], x.sum((0, 2, 3)))


def test_a_sum_is_written_where_it_belongs() -> None:
    bench = Bench(128)
    place = bench.builder.add_tensor((2, 3))
    for row, terms in enumerate((100, 1000)):
        view = bench.add(ramp(3, terms))
        target = narrow(place, 0, row, 1)
        out = reshape(target, (3,))
        assert bench.builder.contract(Operation.SUM, [view], 1, out) == out
    assert torch.equal(bench.read(place)[0], torch.stack([ramp(3, 100).sum(1), ramp(3, 1000).sum(1)]))


@pytest.mark.parametrize(
    "terms, nodes",
    [
        (128, [(3, 128)]),
        (256, [(6, 128), (3, 2)]),
        (1000, [(24, 125), (3, 8)]),
        (257, [(6, 128), (3, 1), (3, 3)]),
        (128 * 129, [(3 * 129, 128), (9, 43), (3, 3)]),
    ],
)
def test_the_maximum_of_a_long_row_is_taken_in_chunks(terms: int, nodes: list[tuple[int, int]]) -> None:
    """Findings, M1: a row of a vocabulary in one node can never be proven."""
    bench = Bench(128)
    x = ramp(3, terms) + torch.arange(3 * terms).reshape(3, terms) % 1009
    largest = bench.builder.reduce_maximum(bench.add(x))
    assert [(node.elements, node.terms) for node in bench.nodes] == nodes
    assert {node.operation for node in bench.nodes} == {Operation.MAXIMUM_OF}
    assert torch.equal(bench.read(largest)[0], x.amax(1))


# Nothing twice
def test_equal_operations_on_equal_operands_are_computed_once() -> None:
    bench = Bench()
    x, y = bench.add(ramp(6)), bench.add(ramp(6))
    first = bench.builder.map(Operation.ADD, x, y)
    assert bench.builder.map(Operation.ADD, x, y) == first and len(bench.nodes) == 1
    others = [
        bench.builder.map(Operation.ADD, y, x),
        bench.builder.map(Operation.SUBTRACT, x, y),
        bench.builder.map(Operation.ADD, x, reshape(y, (6, 1))),
    ]
    assert len({first, *others}) == 4 and len(bench.nodes) == 4


def test_what_is_known_is_copied_where_it_is_asked_for() -> None:
    bench = Bench()
    x = bench.add(ramp(6))
    known = bench.builder.map(Operation.ADD, x, x)
    place = bench.builder.add_tensor((2, 6))
    for row in (0, 1):
        bench.builder.map(Operation.ADD, x, x, out=reshape(narrow(place, 0, row, 1), (6,)))
    assert [node.operation.name for node in bench.nodes] == ["ADD", "COPY", "COPY"]
    for values in bench.read(known, place):
        assert torch.equal(values.reshape(-1, 6)[-1], 2 * ramp(6))


def test_equal_numbers_share_a_place() -> None:
    bench = Bench()
    places = [bench.builder.add_number(value) for value in (0.1, 2.0, 0.1, 0.1 + 1e-12)]
    assert places[0] == places[2] == places[3] != places[1]
    assert torch.equal(torch.tensor(bench.builder.numbers), torch.tensor([0.1, 2.0]))


# Broadcasting
def test_a_broadcast_dimension_is_computed_once_and_repeated() -> None:
    bench = Bench()
    x = expand(insert(bench.add(ramp(3, 5)), 1), (3, 4, 5))
    doubled = bench.builder.map(Operation.ADD, x, x)
    assert doubled.shape == (3, 4, 5) and bench.nodes[0].elements == 15
    assert torch.equal(bench.read(doubled)[0], (2 * ramp(3, 5))[:, None].expand(3, 4, 5))


def test_a_place_is_filled_along_all_dimensions() -> None:
    bench = Bench()
    x = expand(bench.add(ramp(5)), (4, 5))
    place = bench.builder.add_tensor((4, 5))
    bench.builder.map(Operation.ADD, x, x, out=place)
    assert bench.nodes[0].elements == 20
    assert torch.equal(bench.read(place)[0], (2 * ramp(5)).expand(4, 5))


@given(st.permutations([0, 1, 2]), st.data())
def test_operands_are_broadcast_as_pytorch_does(order: list[int], data: st.DataObject) -> None:
    shape = [data.draw(st.integers(1, 4)) for _ in range(3)]
    kept = [size if data.draw(st.booleans()) else 1 for size in shape][data.draw(st.integers(0, 2)) :]
    a, b = ramp(*shape), ramp(*kept) + 0.5
    bench = Bench()
    turned: View = permute(bench.add(a.permute(order).contiguous()), [order.index(i) for i in range(3)])
    total = bench.builder.map(Operation.SUBTRACT, turned, bench.add(b))
    assert torch.equal(bench.read(total)[0], a - b)


def test_shapes_that_do_not_broadcast_are_refused() -> None:
    bench = Bench()
    with pytest.raises(LayoutError):
        bench.builder.map(Operation.ADD, bench.add(ramp(4)), bench.add(ramp(2)))


# Loops
def test_loops_that_follow_each_other_are_one() -> None:
    bench = Bench()
    x, row = bench.add(ramp(3, 4, 5)), bench.add(ramp(5))
    bench.builder.map(Operation.ADD, x, x)
    bench.builder.map(Operation.ADD, x, row)
    bench.builder.map(Operation.ADD, permute(x, (1, 0, 2)), row)
    assert [node.sizes for node in bench.nodes] == [(60,), (12, 5), (4, 3, 5)]


def test_the_compared_loop_stays_a_loop_of_its_own() -> None:
    """Its index is compared: joined with the loop behind it, it would count something else."""
    bench = Bench()
    index = expand(reshape(bench.add(torch.tensor([1, 0])), (2, 1, 1)), (2, 3, 4))
    others = bench.add(ramp(2, 3, 4))
    one = bench.builder.add_number(1.0)
    chosen = bench.builder.map(Operation.EQUAL_SELECT, index, one, others, selected=1)
    assert (bench.nodes[0].sizes, bench.nodes[0].selected) == ((2, 3, 4), 1)
    expected = ramp(2, 3, 4)
    expected[0, 1], expected[1, 0] = 1, 1
    assert torch.equal(bench.read(chosen)[0], expected)


def test_a_chunk_longer_than_allowed_is_no_program() -> None:
    bench = Bench(128)
    bench.builder.contract(Operation.SUM, [bench.add(ramp(129))], 1)
    bench.builder.chunk_terms = 512
    bench.builder.contract(Operation.SUM, [bench.add(ramp(500))], 1)
    bench.builder.chunk_terms = 128
    with pytest.raises(InvalidInput, match="128 terms"):
        bench.finish()


def build_product(*shapes: tuple[int, ...]) -> Program:
    """A product of two matrices of these shapes."""
    bench = Bench()
    inputs = [torch.zeros(shape) for shape in shapes]
    bench.lower(lambda a, b: (a @ b,), *inputs)
    return bench.finish()[0]


def list_operations(program: Program) -> list[Operation]:
    return [node.operation for node in program.nodes]


def find_one(program: Program, operation: Operation) -> Node:
    (node,) = (node for node in program.nodes if node.operation is operation)
    return node


@pytest.mark.parametrize("bits", [8, 15, 20])
def test_a_matrix_product_reads_both_operands_quantized_to_the_bits_of_the_task(bits: int) -> None:
    program = quantize_products(build_product((3, 4), (4, 5)), bits)
    product = find_one(program, Operation.QUANTIZED_PRODUCT_SUM)
    roles = [program.buffers[operand.buffer].role for operand in product.operands]
    assert set(roles[:2]) <= INTEGER_ROLES and roles[2:] == [Role.TENSOR, Role.TENSOR]
    quantized = [node for node in program.nodes if node.operation is Operation.QUANTIZE]
    assert [node.selected for node in quantized] == [bits, bits]
    assert [program.buffers[node.output.buffer].size for node in quantized] == [12, 20]
    scales = [node for node in program.nodes if node.operation is Operation.SCALE_OF]
    assert [node.elements for node in scales] == [3, 5]


def test_a_product_that_is_no_matrix_product_has_more_bits() -> None:
    bench = Bench()
    bench.lower(lambda a, b: ((a * b).sum(1),), torch.zeros(3, 4), torch.zeros(3, 4))
    program = quantize_products(bench.finish()[0], 8)
    assert {n.selected for n in program.nodes if n.operation is Operation.QUANTIZE} == {DOT_BITS}


def test_an_operand_that_two_products_read_in_the_same_rows_is_quantized_once() -> None:
    bench = Bench()
    bench.lower(lambda a, b, c: (a @ b, a @ c), torch.zeros(3, 4), torch.zeros(4, 5), torch.zeros(4, 6))
    operations = list_operations(quantize_products(bench.finish()[0], 15))
    assert operations.count(Operation.QUANTIZE) == operations.count(Operation.SCALE_OF) == 3


@pytest.mark.parametrize("numeric_format", ["exact8", "exact15", "exact20"])
def test_the_step_of_a_task_is_a_valid_program_without_other_product_sums(numeric_format: str) -> None:
    spec = build_tiny_training(numeric_format=numeric_format)
    program = get_program(spec).program
    require_valid(program)
    require_single_writers(program)
    assert Operation.PRODUCT_SUM not in list_operations(program)


def test_formats_have_programs_of_their_own() -> None:
    roots = {
        build_tiny_training(numeric_format=name).program_root for name in ("float32", "exact8", "exact15")
    }
    assert len(roots) == 3


@pytest.mark.parametrize(("numeric_format", "is_long"), [("exact15", True), ("exact20", False)])
def test_sums_of_wide_integers_are_shorter(numeric_format: str, is_long: bool) -> None:
    """Norms of any task, and all products of 20 bits: a proof of 4,096 terms would cost 1.4 million gas."""
    wide = build_tiny_training(numeric_format=numeric_format, chunk_terms=4096)
    spec = respecify(wide, model=replace(get_model(wide), vocabulary_size=3000))
    program = get_program(spec).program
    terms = {Role.INTEGER16: {0}, Role.INTEGER32: {0}}
    for node in program.nodes:
        if node.operation is Operation.QUANTIZED_PRODUCT_SUM:
            terms[program.buffers[node.operands[0].buffer].role].add(node.terms)
    assert 1024 < max(terms[Role.INTEGER32]) <= 2048
    assert (max(terms[Role.INTEGER16]) > 2048) == is_long
