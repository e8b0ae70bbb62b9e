"""Cuts nodes into parts that are computed one by one."""

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from touchstone.protocol.compute.program.planning.node_views import sort_loops
from touchstone.protocol.spec.program import Access, Node
from touchstone.protocol.spec.program_operations import INDEXED, Operation

PART_ELEMENTS = 1 << 24
"""Elements, times the terms of sums, that a node computes at once."""


def cut_long(node: Node) -> Iterator[Node]:
    """Yields a node, in parts if it has too many elements for memory and its elements do not share operands,
    as a matrix product's do. A library may sum in another order in parts, so training and tracing cut
    alike."""
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
        """Returns the access, moved along the loop to `start`."""
        return replace(access, offset=access.offset + start * access.strides[loop])

    sizes = (*node.sizes[:loop], length, *node.sizes[loop + 1 :])
    return replace(node, sizes=sizes, output=move(node.output), operands=tuple(map(move, node.operands)))
