"""Copies: every operand of a sum is one run of memory, and only what needs a copy has one."""

from dataclasses import replace

import pytest

from tests.protocol.compute.conftest import TINY
from tests.task_models import DecoderStep, build_program
from touchstone.protocol.compute.program.planning.copy_folding import find_foldable
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.program import Access, Buffer, Node, Outputs, Program, Role
from touchstone.protocol.spec.program_addressing import is_run, lay_row_major
from touchstone.protocol.spec.program_operations import REDUCTIONS, Operation
from touchstone.protocol.spec.program_rules import require_valid
from touchstone.step.optimizers import AdamW
from touchstone.step.straight import straighten

CONFIG = DecoderStep(TINY, AdamW(), 4, 16, 128)
SOURCE, SUMS, MORE, COPIED = range(4)


def make_program(*nodes: Node, size: int = 24) -> Program:
    """Nodes over a source and two outputs; not valid by itself, for it has no inputs."""
    buffers = tuple(Buffer(Role.TENSOR, size) for _ in range(3))
    return Program(128, buffers, nodes, Outputs(SUMS, SUMS, SUMS, SUMS))


def add_rows(offset: int, *strides: int, output: int = SUMS, sizes: tuple[int, ...] = (2, 3)) -> Node:
    """Sums over the last loop."""
    target = Access(output, 0, lay_row_major(sizes[:-1]))
    return Node(Operation.SUM, sizes, 1, target, (Access(SOURCE, offset, strides),))


def test_scattered_terms_are_copied_before_their_reader() -> None:
    other = add_rows(0, 3, 1)
    program = straighten(make_program(other, add_rows(5, 1, 7)))
    copy = Node(Operation.COPY, (2, 3), 0, Access(COPIED, 0, (3, 1)), (Access(SOURCE, 5, (1, 7)),))
    reader = replace(add_rows(0, 3, 1), operands=(Access(COPIED, 0, (3, 1)),))
    assert program.nodes == (other, copy, reader) and program.buffers[COPIED] == Buffer(Role.TENSOR, 6)


@pytest.mark.parametrize("strides", [(3, 1), (1, 1), (0, 1), (1, 0), (-3, 1)])
def test_runs_stay_where_they_are(strides: tuple[int, int]) -> None:
    program = make_program(add_rows(3, *strides))
    assert straighten(program) == program


def test_only_loops_that_move_the_operand_are_copied() -> None:
    """The sum over pairs (t, u) of rows s, repeated along r."""
    node = Node(
        Operation.SUM, (2, 3, 2, 2), 2, Access(SUMS, 0, (3, 1)), (Access(SOURCE, 0, (0, 1, 6, 3)),)
    )  # fmt: skip
    copy, reader = straighten(make_program(node)).nodes
    assert (copy.sizes, copy.operands[0].strides) == ((3, 2, 2), (1, 6, 3))
    assert reader.operands[0] == Access(COPIED, 0, (0, 4, 2, 1))


def test_terms_that_repeat_in_part_are_copied_out() -> None:
    node = Node(Operation.SUM, (2, 3), 2, Access(SUMS, 0, ()), (Access(SOURCE, 0, (0, 1)),))
    copy, reader = straighten(make_program(node)).nodes
    assert (copy.sizes, copy.operands[0].strides, reader.operands[0].strides) == ((2, 3), (0, 1), (3, 1))


def test_equal_elements_share_a_copy() -> None:
    same = add_rows(0, 0, 1, 7, sizes=(4, 2, 3))
    nodes = straighten(make_program(add_rows(0, 1, 7), same, add_rows(1, 1, 7), add_rows(0, 1, 7))).nodes
    copied = [node.output.buffer for node in nodes if node.operation is Operation.COPY]
    assert copied == [COPIED, COPIED + 1]
    assert [n.operands[0].buffer for n in nodes if n.operation is Operation.SUM] == [
        COPIED, COPIED, COPIED + 1, COPIED,
    ]  # fmt: skip


def test_elementwise_operands_may_lie_anywhere() -> None:
    node = Node(Operation.SQUARE_ROOT, (2, 3), 0, Access(SUMS, 0, (3, 1)), (Access(SOURCE, 0, (1, 7)),))
    program = make_program(node)
    assert straighten(program) == program


def test_an_index_is_not_copied() -> None:
    operands = (Access(SOURCE, 0, (0, 2)), Access(MORE, 0, (0, 1)))
    node = Node(Operation.SELECTED_SUM, (2, 3), 1, Access(SUMS, 0, (1,)), operands)
    program = make_program(node)
    indexed = replace(program, buffers=(Buffer(Role.LABELS, 24), *program.buffers[1:]))
    with pytest.raises(InvalidInput, match="indices of a sum.*at buffer 0"):
        straighten(indexed)


def test_every_sum_of_a_step_reads_runs_and_every_copy_is_read() -> None:
    program = build_program(CONFIG).program
    require_valid(program)
    reduced = [node for node in program.nodes if node.reduced]
    assert all(node.operation in REDUCTIONS for node in reduced) and len(reduced) > 50
    for node in reduced:
        for operand in node.operands:
            assert is_run(operand.strides[len(node.output_sizes) :], node.reduced_sizes)
    copies = {node.output.buffer for node in program.nodes if node.operation is Operation.COPY}
    read = {operand.buffer for node in program.nodes for operand in node.operands}
    outputs = program.outputs
    results = {outputs.weights, outputs.first_moment, outputs.second_moment, outputs.loss}
    assert len(find_foldable(program)) > 40 and find_foldable(program).keys() <= copies <= read | results
