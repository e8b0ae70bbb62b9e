"""Finds runs of elementwise nodes to compute together, tile by tile.

As separate passes these nodes would read and write every parameter some forty times.
"""

from collections.abc import Iterator, Set
from dataclasses import dataclass

from touchstone.protocol.compute.program.planning.lifetimes import compute_lifetimes
from touchstone.protocol.spec.program import Node, Program
from touchstone.protocol.spec.program_operations import INDEXED, REDUCTIONS, Operation

TILE_ELEMENTS = 1 << 16
"""Elements of one tile: few enough for the cache, but enough that calling a kernel costs less than its
work."""


@dataclass(frozen=True)
class FlatRun:
    """Successive elementwise nodes over the same `size` flat elements. `hidden` are tensors that only they
    use."""

    nodes: tuple[Node, ...]
    size: int
    hidden: frozenset[int]


def find_flat_runs(program: Program) -> Iterator[tuple[int, FlatRun]]:
    """Yields (number of the first node, run), for runs longer than a tile."""
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
    """Returns whether a node is elementwise over the same flat elements as the run, from the start of each
    buffer that the run writes. Single numbers are allowed too, but not of tensors that the run has `written`,
    because they may lie in a later tile."""
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
