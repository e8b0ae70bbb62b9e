"""Nodes cut into parts that go one by one."""

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from touchstone.protocol.compute.program.planning.node_views import sort_loops
from touchstone.protocol.spec.program import Access, Node
from touchstone.protocol.spec.program_operations import INDEXED, Operation

PART_ELEMENTS = 1 << 24
"""Elements, with the terms of sums, that a node goes through at once."""


def cut_long(node: Node) -> Iterator[Node]:
    """A node, in parts if it goes through more elements than a process may want in memory at once, and its
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
    """Returns the node for `length` iterations of one loop, from `start` on."""

    def move(access: Access) -> Access:
        """Returns the access moved this far along the loop."""
        return replace(access, offset=access.offset + start * access.strides[loop])

    sizes = (*node.sizes[:loop], length, *node.sizes[loop + 1 :])
    return replace(node, sizes=sizes, output=move(node.output), operands=tuple(map(move, node.operands)))
