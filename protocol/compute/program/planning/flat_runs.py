"""Runs of elementwise nodes that go together, tile by tile; and parts of nodes that go one by one.

As passes of their own these nodes read and write every parameter some forty times.
"""

from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from math import prod

from touchstone.protocol.compute.program.planning.lifetimes import compute_lifetimes
from touchstone.protocol.compute.program.planning.node_views import sort_loops
from touchstone.protocol.spec.program import Access, Node, Program
from touchstone.protocol.spec.program_operations import INDEXED, REDUCTIONS, Operation

TILE_ELEMENTS = 1 << 16
"""Elements of one tile: what lives at a time stays in the cache, and a call costs less than its pass."""
PART_ELEMENTS = 1 << 24
"""Elements, with the terms of sums, that a node goes through at once."""


@dataclass(frozen=True)
class FlatRun:
    """Consecutive elementwise nodes over the same `size` flat elements. hidden: tensors that only they
    touch."""

    nodes: tuple[Node, ...]
    size: int
    hidden: frozenset[int]


def find_flat_runs(program: Program) -> Iterator[tuple[int, FlatRun]]:
    """(number of the first node, run), for runs longer than a tile."""
    lifetimes, number = compute_lifetimes(program), 0
    while number < len(program.nodes):
        stop, size = number, program.nodes[number].elements
        written: set[int] = set()
        while stop < len(program.nodes) and _is_flat(program.nodes[stop], size, written):
            written.add(program.nodes[stop].output.buffer)
            stop += 1
        if size > TILE_ELEMENTS and stop > number + 1:
            nodes = program.nodes[number:stop]
            hidden = frozenset(
                buffer
                for buffer in written
                if number <= lifetimes[buffer].first
                and lifetimes[buffer].last < stop
                and program.buffers[buffer].size == size
            )
            yield number, FlatRun(nodes, size, hidden)
        number = max(stop, number + 1)


def _is_flat(node: Node, size: int, written: Set[int]) -> bool:
    """Elementwise over the same run of elements, from the start of each buffer that the run writes, or over
    single numbers; these not of the tensors that the run has `written`, for they may lie in a later tile."""
    accesses = (node.output, *node.operands)
    return (
        node.sizes == (size,)
        and not node.reduced
        and node.operation not in INDEXED | REDUCTIONS
        and node.operation is not Operation.QUANTIZE
        and all(a.strides in ((0,), (1,)) for a in accesses)
        and not any(a.strides == (1,) and a.offset and a.buffer in written for a in node.operands)
        and node.output.offset == 0
        and not any(a.strides == (0,) and a.buffer in written for a in node.operands)
    )


def cut_long(node: Node) -> Iterator[Node]:
    """A node, in parts where it goes through more elements than a process may want in memory at once, and its
    elements do not share operands as those of a matrix product do. In parts a library may sum in another
    order: steps that are trained and steps that are traced are cut alike."""
    is_matrix = node.operation is Operation.PRODUCT_SUM and sort_loops(node).is_matrix
    if is_matrix or node.operation in INDEXED or not node.output_sizes:
        yield node
        return
    rows = node.sizes[0]
    height = max(1, PART_ELEMENTS * rows // prod(node.sizes))
    for start in range(0, rows, height):
        yield cut_node(node, start, min(height, rows - start))


def cut_node(node: Node, start: int, length: int, loop: int = 0) -> Node:
    """Some of a loop, the first one."""

    def move(access: Access) -> Access:
        """The access, that many of the loop further on."""
        return replace(access, offset=access.offset + start * access.strides[loop])

    sizes = (*node.sizes[:loop], length, *node.sizes[loop + 1 :])
    return replace(node, sizes=sizes, output=move(node.output), operands=tuple(map(move, node.operands)))
