"""Which leaves of a trace to demand on chain where the claimant does not serve it. Pure."""

from collections.abc import Iterator
from random import Random, SystemRandom

from protocol.actions.traces import TraceLayout
from protocol.spec.game.inner_dispute import LEAVES_MAX, DemandedLeaf
from protocol.spec.program import Program, Role


def list_demands(
    program: Program, layout: TraceLayout, withheld: int | None, chance: Random | None = None
) -> list[DemandedLeaf]:
    """At most LEAVES_MAX leaves. withheld: the buffer that is not served, None where nothing is: then a leaf
    of what each of some nodes has made, the last one's among them.

    Who has no such buffer cannot show any leaf of it. Which ones are demanded nobody can foresee, so that
    nobody can have just those."""
    chance = chance or SystemRandom()
    if withheld is None:
        numbers = range(len(program.nodes) - 1)
        drawn = chance.sample(numbers, min(LEAVES_MAX - 1, len(numbers)))
        nodes = sorted([*drawn, len(program.nodes) - 1])
        return [_draw_leaf(program, layout, node, 0, chance) for node in nodes]
    node, place = next(_list_places(program, withheld))
    count = layout[withheld].leaf_count
    leaves = sorted(chance.sample(range(count), min(LEAVES_MAX, count)))
    return [DemandedLeaf(node, place, leaf) for leaf in leaves]


def _list_places(program: Program, buffer: int) -> Iterator[tuple[int, int]]:
    """Nodes that touch a buffer, and where: 0 the output, 1 and up the operands."""
    for number, node in enumerate(program.nodes):
        for place, access in enumerate((node.output, *node.operands)):
            if access.buffer == buffer and program.buffers[buffer].role is not Role.CONSTANT:
                yield number, place


def _draw_leaf(program: Program, layout: TraceLayout, node: int, place: int, chance: Random) -> DemandedLeaf:
    buffer = (program.nodes[node].output, *program.nodes[node].operands)[place].buffer
    return DemandedLeaf(node, place, chance.randrange(layout[buffer].leaf_count))
