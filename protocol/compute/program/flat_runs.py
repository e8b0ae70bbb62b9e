"""Runs of elementwise nodes over the same elements, which can go together, tile by tile."""

from collections.abc import Iterator, Set
from dataclasses import dataclass

from protocol.compute.program.tensor_allocator import compute_lifetimes
from protocol.spec.program import INDEXED, Node, Operation, Program

TILE_ELEMENTS = 1 << 16
"""Elements of one tile: what lives at a time stays in the cache, and a call costs less than its pass."""


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
                for buffer, life in lifetimes.items()
                if number <= life.first and life.last < stop and program.buffers[buffer].size == size
            )
            yield number, FlatRun(nodes, size, hidden)
        number = max(stop, number + 1)


def _is_flat(node: Node, size: int, written: Set[int]) -> bool:
    """Elementwise over the same run of elements from the start of each buffer, or over single numbers; these
    not of the tensors that the run has `written`, for they may lie in a later tile."""
    accesses = (node.output, *node.operands)
    return (
        node.sizes == (size,)
        and not node.reduced
        and node.operation not in INDEXED
        and node.operation is not Operation.QUANTIZE
        and all(a.strides == (0,) or (a.strides == (1,) and a.offset == 0) for a in accesses)
        and not any(a.strides == (0,) and a.buffer in written for a in node.operands)
    )
