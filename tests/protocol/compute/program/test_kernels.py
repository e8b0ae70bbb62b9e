"""Kernels against a walk over every term: whatever strides, offsets and broadcast operands a node has, and
wherever its views are pointed after the kernel was made."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import exp, inf, isfinite, log, prod, sqrt
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from touchstone.protocol.compute.program.kernels import product_kernels
from touchstone.protocol.compute.program.kernels.elementwise_kernels import COPY_COLUMNS
from touchstone.protocol.compute.program.kernels.plain_kernels import make_kernel
from touchstone.protocol.compute.program.tensor_allocator import allocate
from touchstone.protocol.spec.float32 import float_to_bits, nearest
from touchstone.protocol.spec.program import CHUNK_TERMS, Access, Node
from touchstone.protocol.spec.program_addressing import iterate_terms
from touchstone.protocol.spec.program_operations import (
    BOUNDED_OPERATIONS,
    EXACT_OPERATIONS,
    INDEXED,
    OPERAND_COUNTS,
    REDUCTIONS,
    Operation,
)
from touchstone.protocol.spec.referee import judge_operation

ELEMENTWISE = sorted(set(BOUNDED_OPERATIONS) - REDUCTIONS - INDEXED)
OUTPUT = 0
"""Buffer of the output; those of the operands follow."""


# The definition
def nearest_or_infinite(value: float) -> float:
    return nearest(value) if isfinite(value) else value


FORMULAS: dict[Operation, Callable[..., float]] = {
    Operation.ADD: lambda a, b: a + b,
    Operation.SUBTRACT: lambda a, b: a - b,
    Operation.MULTIPLY: lambda a, b: a * b,
    Operation.DIVIDE: lambda a, b: a / b,
    Operation.MAXIMUM: max,
    Operation.MINIMUM: min,
    Operation.SQUARE_ROOT: sqrt,
    Operation.RECIPROCAL_ROOT: lambda a: 1 / sqrt(a),
    Operation.EXPONENTIAL: exp,
    Operation.LOGARITHM: log,
    Operation.SIGMOID: lambda a: 1 / (1 + exp(-a)),
    Operation.FLUSH: lambda a, b: a if abs(a) >= b else 0.0,
    Operation.FINITE_SELECT: lambda a, b, c: b if isfinite(a) else c,
    Operation.COPY: lambda a: a,
}
POSITIVE = {Operation.SQUARE_ROOT, Operation.RECIPROCAL_ROOT, Operation.LOGARITHM, Operation.FLUSH}
"""Where operands must be positive."""
APPROXIMATE = {
    Operation.PRODUCT_SUM, Operation.SUM, Operation.SELECTED_SUM, Operation.RECIPROCAL_ROOT,
    Operation.EXPONENTIAL, Operation.LOGARITHM, Operation.SIGMOID,
}  # fmt: skip
"""All others are exact or rounded once."""


def compute_element(node: Node, number: int, buffers: Sequence[list[float]]) -> float:
    """One element in float64, term by term."""
    values = []
    for indices, elements in iterate_terms(node, number):
        read = [buffers[x.buffer][e] for x, e in zip(node.operands, elements, strict=True)]
        if node.operation is Operation.PRODUCT_SUM:
            values.append(read[0] * read[1])
        elif node.operation is Operation.SELECTED_SUM:
            values.append(read[1] if read[0] == indices[node.selected] else 0.0)
        elif node.operation is Operation.GATHER:
            values.append(buffers[node.operands[1].buffer][elements[1] + int(read[0]) * node.selected])
        elif node.operation is Operation.EQUAL_SELECT:
            values.append(read[1] if read[0] == indices[node.selected] else read[2])
        elif node.operation in REDUCTIONS:
            values.append(read[0])
        else:
            values.append(FORMULAS[node.operation](*read))
    return max(values) if node.operation is Operation.MAXIMUM_OF else sum(values)


WIDE_SHARE = 2.0**-20
"""Of a bound: more than `compute_element` errs in float64, whose unit is 2^-29 of float32's."""


def compute_bound(node: Node, number: int, buffers: Sequence[list[float]]) -> float:
    """How far from the definition one element may lie: what the referee allows. Of a sum it grows with the
    absolute terms: they may cancel."""
    terms: list[tuple[int, ...]] = []
    for indices, elements in iterate_terms(node, number):
        read = [buffers[x.buffer][e] for x, e in zip(node.operands, elements, strict=True)]
        if node.operation is not Operation.SELECTED_SUM:
            terms.append(tuple(map(float_to_bits, read)))
        elif read[0] == indices[node.selected]:
            terms.append((float_to_bits(read[1]),))
    return float(judge_operation(node.operation, terms, 0).bound) * (1 + WIDE_SHARE)


# Running a kernel
@dataclass
class Memory:
    """Buffers, and the views made of them, which follow when the buffers are replaced."""

    buffers: list[Tensor]
    views: list[tuple[Tensor, Access]] = field(default_factory=list)

    def view(self, access: Access, sizes: Sequence[int], strides: Sequence[int]) -> Tensor:
        flat = self.buffers[access.buffer]
        if sizes and sizes[0] == -1:  # as many as there are
            reach = sum((n - 1) * s for n, s in zip(sizes[1:], strides[1:], strict=True))
            sizes = ((flat.numel() - 1 - access.offset - reach) // strides[0] + 1, *sizes[1:])
        view = torch.empty(0, dtype=flat.dtype).set_(
            flat.untyped_storage(), access.offset, tuple(sizes), tuple(strides)
        )
        self.views.append((view, access))
        return view

    def replace(self, buffers: list[Tensor]) -> None:
        """Numbers in other memory, indices in the same: as the interpreter gives them."""
        for buffer, values in enumerate(buffers):
            if values.dtype == torch.int64:
                self.buffers[buffer].copy_(values)
            else:
                self.buffers[buffer] = values
        for view, access in self.views:
            storage = self.buffers[access.buffer].untyped_storage()
            view.set_(storage, access.offset, view.shape, view.stride())


GAP = -12345.0
"""What the output's buffer holds where the node does not write."""


def require_kernel_follows(node: Node, buffers: list[Tensor]) -> None:
    """The kernel, made on other memory, gives what the definition gives, and writes nowhere else."""
    buffers = [torch.full_like(buffers[OUTPUT], GAP), *buffers[1:]]
    elsewhere = [torch.zeros_like(b) if b.dtype == torch.int64 else torch.rand_like(b) for b in buffers]
    memory = Memory(elsewhere)
    kernel = make_kernel(node, memory.view)
    kernel()
    memory.replace([b.clone() for b in buffers])
    kernel()
    lists = [buffer.tolist() for buffer in buffers]
    expected = place(node, buffers, GAP, [compute_element(node, n, lists) for n in range(node.elements)])
    result = memory.buffers[OUTPUT]
    if node.operation in APPROXIMATE:
        allowed = place(node, buffers, 0.0, [compute_bound(node, n, lists) for n in range(node.elements)])
        assert ((result.double() - expected).abs() <= allowed).all()
    else:
        rounded = torch.tensor([nearest_or_infinite(x) for x in expected.tolist()])
        assert torch.equal(result, rounded)


def place(node: Node, buffers: list[Tensor], rest: float, elements: list[float]) -> Tensor:
    """The output's buffer with these elements where the node writes, and `rest` elsewhere, in float64."""
    flat = torch.full(buffers[OUTPUT].shape, rest, dtype=torch.float64)
    places = flat.as_strided(node.output_sizes, node.output.strides, node.output.offset)
    places.copy_(torch.tensor(elements, dtype=torch.float64).view(node.output_sizes))
    return flat


# Drawing nodes
def draw_access(data: st.DataObject, buffer: int, sizes: Sequence[int]) -> Access:
    """Any strides, many of them 0."""
    strides = [data.draw(st.sampled_from([0, 0, 1, 2, 3, 5, 12, 30])) for _ in sizes]
    return Access(buffer, data.draw(st.integers(0, 5)), tuple(strides))


def draw_output(data: st.DataObject, sizes: Sequence[int]) -> Access:
    """Loops in any order and with gaps, every element in a place of its own."""
    strides, step = [0] * len(sizes), data.draw(st.integers(1, 3))
    for loop in data.draw(st.permutations(range(len(sizes)))):
        strides[loop] = step
        step = step * sizes[loop] + data.draw(st.integers(0, 2))
    return Access(OUTPUT, data.draw(st.integers(0, 5)), tuple(strides))


def draw_node(data: st.DataObject, operation: Operation) -> Node:
    is_sum = operation in REDUCTIONS
    needs_loop = operation in (Operation.SELECTED_SUM, Operation.EQUAL_SELECT)
    outer = data.draw(st.lists(st.integers(1, 4), min_size=int(needs_loop), max_size=4))
    inner = data.draw(st.lists(st.integers(1, 5), max_size=2)) if is_sum else []
    sizes = (*outer, *inner)
    selected = data.draw(st.integers(0, len(outer) - 1)) if needs_loop else 0
    if operation is Operation.GATHER:
        selected = data.draw(st.integers(1, 4))
    operands = tuple(draw_access(data, 1 + n, sizes) for n in range(OPERAND_COUNTS[operation]))
    return Node(operation, sizes, len(inner), draw_output(data, outer), operands, selected)


def count_elements(access: Access, sizes: Sequence[int]) -> int:
    reach = sum((n - 1) * s for n, s in zip(sizes, access.strides, strict=True))
    return access.offset + reach + 1


def fill(node: Node, seed: int) -> list[Tensor]:
    """Buffers just large enough; numbers of both signs where the operation allows them."""
    random = torch.Generator().manual_seed(seed)
    buffers = [torch.zeros(count_elements(node.output, node.output_sizes))]
    for place, operand in enumerate(node.operands):
        size = count_elements(operand, node.sizes)
        if node.operation in INDEXED and place == 0:
            # What an EQUAL_SELECT compares with is a label: `interpreter.py` refuses those out of range.
            limit = node.sizes[node.selected] if node.operation is Operation.EQUAL_SELECT else 4
            buffers.append(torch.randint(0, limit, (size,), generator=random))
            continue
        if node.operation is Operation.GATHER:
            size += 3 * node.selected
        values = torch.randn(size, generator=random)
        if node.operation is Operation.FINITE_SELECT and place == 0:
            values[torch.rand(size, generator=random) < 0.3] = inf
        is_positive = node.operation in POSITIVE and (node.operation is not Operation.FLUSH or place == 1)
        buffers.append(values.abs() if is_positive else values)
    return buffers


@pytest.mark.parametrize("operation", BOUNDED_OPERATIONS)
@settings(max_examples=80)
@given(data=st.data(), seed=st.integers(0, 1 << 20))
def test_every_kernel_computes_its_node(operation: Operation, data: st.DataObject, seed: int) -> None:
    node = draw_node(data, operation)
    require_kernel_follows(node, fill(node, seed))


# Nodes as the lowering writes them
def row_major(buffer: int, sizes: Sequence[int], loops: Sequence[int], offset: int = 0) -> Access:
    """Contiguous over the chosen loops, in that order; still along the others."""
    strides = [0] * len(sizes)
    for place, loop in enumerate(loops):
        strides[loop] = prod(sizes[n] for n in loops[place + 1 :])
    return Access(buffer, offset, tuple(strides))


@pytest.mark.parametrize("a", [(0, 3), (3, 0)])
@pytest.mark.parametrize("b", [(1, 2, 3), (3, 1, 2), (1, 3, 2)])
@pytest.mark.parametrize("out", [(0, 1, 2), (2, 0, 1), (1, 0, 2)])
def test_matrix_products_of_any_layout(a: tuple[int, ...], b: tuple[int, ...], out: tuple[int, ...]) -> None:
    """rows x terms times terms x (two loops of columns), each operand and the output transposed in turn."""
    sizes = (5, 3, 4, 7)
    node = Node(
        Operation.PRODUCT_SUM, sizes, 1, row_major(OUTPUT, sizes[:3], out, 2),
        (row_major(1, sizes, a, 1), row_major(2, sizes, b, 3)),
    )  # fmt: skip
    require_kernel_follows(node, fill(node, 1))


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8, 64])
def test_rows_are_summed_some_at_a_time_with_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """No more products are written down than `PRODUCTS`, unless one row has more."""
    sizes, made = (64, 70), list[int]()

    def note(elements: int, *rest: Any) -> Tensor:
        made.append(elements)
        return allocate(elements, *rest)

    monkeypatch.setattr(product_kernels, "allocate", note)
    operands = (row_major(1, sizes, (0, 1), 1), row_major(2, sizes, (0, 1), 3))
    node = Node(Operation.PRODUCT_SUM, sizes, 1, row_major(OUTPUT, sizes[:1], (0,), 2), operands)
    buffers = fill(node, 1)

    def compute() -> Tensor:
        memory = Memory([buffer.clone() for buffer in buffers])
        make_kernel(node, memory.view)()
        return memory.buffers[OUTPUT]

    whole = compute()
    monkeypatch.setattr(product_kernels, "PRODUCTS", rows * sizes[1] + 1)
    assert torch.equal(compute(), whole) and made == [64 * 70, rows * 70]
    require_kernel_follows(node, buffers)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    "terms", [1, 7, 8, 9, *CHUNK_TERMS, max(CHUNK_TERMS) - 1, 40_000, (1 << 19) + 1, 1 << 20]
)
def test_rows_summed_some_at_a_time_have_the_bits_of_all_at_once(
    monkeypatch: pytest.MonkeyPatch, terms: int, threads: int
) -> None:
    """On several threads too, where PyTorch shares out a long row that stands alone. The last rows are one,
    or as many as the others."""
    random, before = torch.Generator().manual_seed(terms), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        height = max(1, (1 << 20) // terms)
        for rows in (2 * height, 2 * height + 1):
            operands = (row_major(1, (rows, terms), (0, 1)), row_major(2, (rows, terms), (0, 1)))
            node = Node(Operation.PRODUCT_SUM, (rows, terms), 1, Access(OUTPUT, 0, (3,)), operands)
            factors = [torch.randn(rows * terms, generator=random) for _ in operands]

            def compute(node: Node, *buffers: Tensor) -> Tensor:
                memory = Memory([torch.zeros(3 * node.sizes[0]), *buffers])
                make_kernel(node, memory.view)()
                return memory.buffers[OUTPUT].view(torch.int32)

            with monkeypatch.context() as patch:
                patch.setattr(product_kernels, "PRODUCTS", rows * terms)
                whole = compute(node, *factors)
            assert torch.equal(compute(node, *factors), whole)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("operation", sorted(REDUCTIONS - EXACT_OPERATIONS))
def test_a_sum_of_one_term_is_that_term(operation: Operation) -> None:
    """Without any reduced loop: as the rest of a sum that is one longer than its chunks."""
    sizes = (3, 4)
    operands = tuple(row_major(1 + n, sizes, (0, 1)) for n in range(OPERAND_COUNTS[operation]))
    node = Node(operation, sizes, 0, row_major(OUTPUT, sizes, (1, 0)), operands)
    require_kernel_follows(node, fill(node, 2))


@pytest.mark.parametrize("dimension", [0, 1])
def test_rows_are_gathered_by_an_index_of_several_loops(dimension: int) -> None:
    """tokens [2, 3] into rows of 4 elements, which lie one after another or side by side."""
    sizes = (2, 3, 4)
    table = Access(2, 1, (0, 0, (1, 4)[dimension]))
    node = Node(
        Operation.GATHER, sizes, 0, row_major(OUTPUT, sizes, (0, 1, 2)), (row_major(1, sizes, (0, 1)), table),
        selected=(4, 1)[dimension],
    )  # fmt: skip
    require_kernel_follows(node, fill(node, 3))


def test_an_index_that_equals_no_row_is_added_to_none() -> None:
    sizes = (2, 3, 6)
    node = Node(
        Operation.SELECTED_SUM, sizes, 1, row_major(OUTPUT, sizes[:2], (0, 1)),
        (row_major(1, sizes, (2,)), row_major(2, sizes, (2, 1))),
    )  # fmt: skip
    buffers = fill(node, 4)
    buffers[1] = torch.tensor([0, 1, 2, 3, 1, 1])
    require_kernel_follows(node, buffers)


@pytest.mark.parametrize("value", [0.5, -0.5, 0.25])
def test_flush_keeps_what_equals_the_threshold(value: float) -> None:
    node = Node(Operation.FLUSH, (2,), 0, Access(OUTPUT, 0, (1,)), (Access(1, 0, (1,)), Access(2, 0, (0,))))
    below = torch.nextafter(torch.tensor(value), torch.tensor(0.0))
    operands = [torch.tensor([value, float(below)]), torch.tensor([abs(value)])]
    require_kernel_follows(node, [torch.zeros(2), *operands])


def test_flushed_numbers_become_positive_zero() -> None:
    node = Node(Operation.FLUSH, (1,), 0, Access(OUTPUT, 0, (1,)), (Access(1, 0, (1,)), Access(2, 0, (0,))))
    memory = Memory([torch.ones(1), torch.tensor([-1e-3]), torch.tensor([1.0])])
    make_kernel(node, memory.view)()
    assert memory.buffers[OUTPUT].view(torch.int32).tolist() == [0]


@pytest.mark.parametrize("columns", [1, COPY_COLUMNS, COPY_COLUMNS + 1, 2 * COPY_COLUMNS + 3])
@pytest.mark.parametrize("out", [(0, 1, 2), (2, 0, 1)])
def test_copies_transpose_rows_of_any_length(columns: int, out: tuple[int, ...]) -> None:
    sizes = (2, 3, columns)
    node = Node(
        Operation.COPY, sizes, 0, row_major(OUTPUT, sizes, out, 1), (row_major(1, sizes, (2, 1, 0), 2),)
    )
    require_kernel_follows(node, fill(node, 6))


@pytest.mark.parametrize("stride", [0, 1])
@pytest.mark.parametrize("bad", [inf, -inf, float("nan")])
def test_finite_select_takes_neither_infinity_nor_nan(stride: int, bad: float) -> None:
    sizes = (2,)
    node = Node(
        Operation.FINITE_SELECT, sizes, 0, Access(OUTPUT, 0, (1,)),
        (Access(1, 0, (stride,)), Access(2, 0, (1,)), Access(3, 0, (1,))),
    )  # fmt: skip
    condition = torch.tensor([bad, 1.0])
    require_kernel_follows(
        node, [torch.zeros(2), condition, torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])]
    )
    require_kernel_follows(
        node, [torch.zeros(2), torch.ones(2), torch.tensor([1.0, 2.0]), torch.tensor([bad, bad])]
    )


def test_a_square_root_is_rounded_correctly() -> None:
    """torch's own float32 square root is not, on some processors."""
    values = torch.rand(20_000, generator=torch.Generator().manual_seed(5)) * 100
    node = Node(Operation.SQUARE_ROOT, (20_000,), 0, Access(OUTPUT, 0, (1,)), (Access(1, 0, (1,)),))
    memory = Memory([torch.zeros(20_000), values])
    make_kernel(node, memory.view)()
    assert torch.equal(memory.buffers[OUTPUT], values.double().sqrt().float())
