"""Quantized values, scales and tables in any other form than kernels know are refused."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
import torch

from tests.protocol.compute.conftest import build_tiny_training
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.exact.exact_kernels import ExactKernels
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.program_form import require_constants, require_form
from touchstone.protocol.spec.data_trees import compute_data_root
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.exact import compute_element
from touchstone.protocol.spec.program import INPUTS, Access, Buffer, Node, Outputs, Program, Role
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.program_rules import require_valid


@cache
def get_built() -> BuiltProgram:
    """The program of an exact task, recorded once."""
    return get_program(build_tiny_training(numeric_format="exact15"))


def find(operation: Operation, holds: Callable[[Node], bool] = lambda node: True) -> int:
    nodes = enumerate(get_built().program.nodes)
    return next(n for n, node in nodes if node.operation is operation and holds(node))


def spoil(number: int, change: Callable[[Node], Node]) -> Program:
    nodes = list(get_built().program.nodes)
    nodes[number] = change(nodes[number])
    assert nodes[number] != get_built().program.nodes[number]
    return replace(get_built().program, nodes=tuple(nodes))


def swap(items: tuple[int, ...], one: int, other: int) -> tuple[int, ...]:
    found = list(items)
    found[one], found[other] = found[other], found[one]
    return tuple(found)


def turn(node: Node) -> Node:
    """The output column by column: every element is written once, and no row lies in one piece."""
    strides = (1, node.sizes[0])
    return replace(node, output=replace(node.output, strides=strides))


def with_operand(node: Node, place: int, access: Access) -> Node:
    return replace(node, operands=(*node.operands[:place], access, *node.operands[place + 1 :]))


def take_other_scale(node: Node) -> Node:
    """The scale of another buffer of quantized values, as long as the own."""
    program, own = get_built().program, node.operands[1]
    size = program.buffers[own.buffer].size
    others = (
        one.output.buffer
        for one in program.nodes
        if one.operation is Operation.SCALE_OF and program.buffers[one.output.buffer].size == size
    )
    return with_operand(node, 1, replace(own, buffer=next(one for one in others if one != own.buffer)))


def is_plain(node: Node) -> bool:
    return len(node.sizes) == 2 and min(node.sizes) > 1


def test_recorded_programs_have_the_form() -> None:
    for name in ("float32", "exact8", "exact15", "exact20"):
        built = get_program(build_tiny_training(numeric_format=name))
        require_form(built.program)
        require_constants(built)


@pytest.mark.parametrize(("operation", "holds", "change", "said"), [
    (Operation.QUANTIZE, is_plain, turn, "in the order of the loops"),
    (Operation.QUANTIZE, is_plain, take_other_scale, "the scale of the row"),
    (Operation.QUANTIZE, is_plain, lambda n: replace(n, selected=8), "the scale of the row"),
    (Operation.SCALE_OF, is_plain, lambda n: replace(n, selected=8), "the scale of the row"),
    (
        Operation.QUANTIZED_PRODUCT_SUM, lambda n: len(n.sizes) == 3,
        lambda n: with_operand(n, 2, replace(n.operands[2], strides=swap(n.operands[2].strides, 0, 1))),
        "a scale for each row",
    ),
    (
        Operation.QUANTIZED_PRODUCT_SUM, lambda n: len(n.sizes) == 3,
        lambda n: with_operand(n, 3, replace(n.operands[3], buffer=0)), "a scale for each row",
    ),
    (
        Operation.QUANTIZED_PRODUCT_SUM, lambda n: len(n.sizes) == 3,
        lambda n: replace(n, sizes=(n.sizes[0], n.sizes[1] - 1, n.sizes[2])), "in the order of the loops",
    ),
    (
        Operation.SELECTED_SUM, lambda n: True,
        lambda n: with_operand(n, 1, replace(n.operands[1], strides=tuple(
            1 if place == n.selected else stride for place, stride in enumerate(n.operands[1].strides)
        ))),
        "rows that are the same",
    ),
])  # fmt: skip
def test_another_form_is_refused_by_its_node(
    operation: Operation, holds: Callable[[Node], bool], change: Callable[[Node], Node], said: str
) -> None:
    spoiled = spoil(find(operation, holds), change)
    with pytest.raises(InvalidInput, match=f"{said}.* at node|at node.*{said}"):
        require_form(spoiled)


def test_a_constant_that_is_a_scale_is_a_power_of_two() -> None:
    place = next(
        operand
        for node in get_built().program.nodes
        if node.operation is Operation.QUANTIZED_PRODUCT_SUM
        for operand in node.operands[2:]
        if operand.buffer in get_built().constants
    )
    values = get_built().constants[place.buffer].clone()
    for number, is_refused in ((4.0, False), (3.0, True), (0.0, True), (torch.inf, True)):
        values[place.offset] = number
        built = BuiltProgram(get_built().program, {**get_built().constants, place.buffer: values})
        if is_refused:
            with pytest.raises(InvalidInput, match=f"buffer {place.buffer}"):
                require_constants(built)
        else:
            require_constants(built)


# Loops of size 1
def make_product(sizes: tuple[int, ...], rows: int, terms: int) -> BuiltProgram:
    """A program of one product of W with itself, whose QUANTIZE has these loops, some of them of size 1; W
    lies term for term."""
    count, one = rows * terms, torch.ones(1)
    inputs = [Buffer(role, 3 if role is Role.SCALARS else 2 if role in (Role.TOKENS, Role.LABELS) else count)
              for role in INPUTS]  # fmt: skip
    made = [Buffer(Role.TENSOR, rows), Buffer(Role.INTEGER8, count), Buffer(Role.TENSOR, rows * rows)]
    constant = Buffer(Role.CONSTANT, 1, compute_data_root(one.numpy().tobytes()))
    vectors = [Buffer(Role.TENSOR, count) for _ in range(3)]
    buffers = (*inputs, *made, constant, *vectors, Buffer(Role.TENSOR, 1))
    outer = len(sizes) - 1
    source = Access(0, 0, (*(1 if size > 1 else 7 for size in sizes[:outer]), rows))
    in_order = (1,) * outer
    scale = Access(6, 0, in_order)
    nodes = [
        Node(Operation.SCALE_OF, sizes, 1, scale, (source,), 8),
        Node(
            Operation.QUANTIZE, sizes, 0, Access(7, 0, (*(terms for _ in sizes[:outer]), 1)),
            (source, Access(6, 0, (*in_order, 0))), 8,
        ),
        Node(
            Operation.QUANTIZED_PRODUCT_SUM, (rows, rows, terms), 1, Access(8, 0, (rows, 1)),
            (
                Access(7, 0, (terms, 0, 1)), Access(7, 0, (0, terms, 1)),
                Access(6, 0, (1, 0, 0)), Access(6, 0, (0, 1, 0)),
            ),
        ),
        *(
            Node(Operation.COPY, (count,), 0, Access(10 + n, 0, (1,)), (Access(n, 0, (1,)),))
            for n in range(3)
        ),
        Node(Operation.ADD, (1,), 0, Access(13, 0, (0,)), (Access(8, 0, (0,)), Access(9, 0, (0,)))),
    ]  # fmt: skip
    return BuiltProgram(Program(512, buffers, tuple(nodes), Outputs(13, 10, 11, 12)), {9: one})


@pytest.mark.parametrize("sizes", [(3, 4), (3, 1, 4), (1, 3, 4)])
def test_loops_of_size_one_change_no_bit(sizes: tuple[int, ...]) -> None:
    """Rows of W lie side by side, so that values are kept term for term: as many rows as the reader counts,
    and not as the last loop has."""
    built = make_product(sizes, 3, 4)
    require_form(built.program)
    interpreter = Interpreter(built.program, built.constants, keeps_all=True, numeric_format="exact8")
    weights = torch.tensor([0.5, -3.0, 7.0, 1.5, 2.0, -0.25, 9.0, 4.0, 1.0, -8.0, 0.125, 6.0])
    zeros = torch.zeros(12)
    tokens = torch.zeros(2, dtype=torch.int64)
    interpreter.run((weights, zeros, zeros), tokens, tokens, torch.zeros(3))
    matrix = weights.view(4, 3).t()
    scales = [
        compute_element(
            Operation.SCALE_OF, [(int(x) & 0xFFFFFFFF,) for x in row.contiguous().view(torch.int32)], 8
        )
        for row in matrix
    ]
    found = torch.tensor(scales, dtype=torch.int64).to(torch.int32).view(torch.float32)
    assert torch.equal(interpreter.tensors[6], found)
    words = torch.round(matrix / found.view(3, 1))
    assert torch.equal(interpreter.tensors[7].view(3, 4).float(), words)
    assert torch.equal(interpreter.tensors[8].view(3, 3), (words @ words.t()) * torch.outer(found, found))


def test_a_valid_program_reads_no_memory_backwards() -> None:
    number = find(Operation.MULTIPLY, lambda node: len(node.sizes) == 1 and node.sizes[0] > 1)
    node = get_built().program.nodes[number]
    access = node.operands[0]
    back = replace(access, offset=access.offset + node.sizes[0] - 1, strides=(-1,))
    with pytest.raises(
        InvalidInput, match=f"node {number}.*strides of 0 or more|strides of 0 or more.*node {number}"
    ):
        require_valid(spoil(number, lambda one: with_operand(one, 0, back)))


def test_kernels_keep_blocks_of_the_readers_rows_alone() -> None:
    assert ExactKernels(make_product((3, 4), 3, 4).program)._block_rows == {7: 3}
