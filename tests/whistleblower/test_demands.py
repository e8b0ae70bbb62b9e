"""Leaves that are demanded where a trace is not served: such that whoever lacks it can show none."""

from random import Random

from tests.node.specs import get_spec
from touchstone.node.kit.trace_storage import describe_layout
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.spec.game.inner_dispute import LEAVES_MAX
from touchstone.protocol.spec.program import Program, Role
from touchstone.whistleblower.prosecuting import list_demands


def read_program() -> Program:
    return get_program(get_spec().training).program


def get_buffer(program: Program, node: int, place: int) -> int:
    found = program.nodes[node]
    return (found.output, *found.operands)[place].buffer


def test_demands_are_of_the_buffer_that_is_withheld() -> None:
    program = read_program()
    layout = describe_layout(program)
    others = [n for n, buffer in enumerate(program.buffers) if buffer.role is not Role.CONSTANT]
    for withheld in others:
        demands = list_demands(program, layout, withheld, Random(1))
        assert {get_buffer(program, one.node, one.place) for one in demands} == {withheld}
        leaves = [one.leaf_index for one in demands]
        assert len(set(leaves)) == len(leaves) == min(LEAVES_MAX, layout[withheld].leaf_count)
        assert max(leaves) == layout[withheld].leaf_count - 1, "its path shows the padding"


def test_without_any_roots_leaves_of_many_nodes_are_demanded() -> None:
    program = read_program()
    layout = describe_layout(program)
    demands = list_demands(program, layout, None, Random(1))
    assert len({one.node for one in demands}) == LEAVES_MAX and demands[-1].node == len(program.nodes) - 1
    assert all(one.leaf_index < layout[get_buffer(program, one.node, 0)].leaf_count for one in demands)
    assert demands != list_demands(program, layout, None, Random(2))
