"""Holds a claimed trace, and proves one false element in it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from touchstone.protocol.compute.bounds.step_openings import open_element, prove_node
from touchstone.protocol.compute.bounds.trace_check import Provider
from touchstone.protocol.compute.bounds.trace_tree import TraceTree
from touchstone.protocol.compute.digest import ByteTree
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.merkle import Levels, compute_levels
from touchstone.protocol.spec.openings import BufferOpening, NodeProof
from touchstone.protocol.spec.program import Role
from touchstone.protocol.spec.program_addressing import iterate_runs, locate, unravel

Vectors = tuple[Tensor, Tensor, Tensor]
"""W, m, v before the step, flat float32."""
STATE_INPUTS = (Role.WEIGHTS, Role.FIRST_MOMENT, Role.SECOND_MOMENT)


@dataclass(frozen=True)
class OperationFault:
    """An element of a node outside its bound, in the form that `Referee.judge` takes. `openings` are from
    `open_element`."""

    node: NodeProof
    element: int
    openings: bytes


@dataclass(frozen=True)
class InputFault:
    """An element of the tokens, labels or scalars that differs from the task's. `buffer` is 3 (tokens), 4
    (labels) or 5 (scalars)."""

    buffer: int
    element: int
    opening: BufferOpening


@dataclass(frozen=True)
class ClaimedLeaf:
    """A leaf of a claimed buffer that differs from this machine's own, padding included, with its path."""

    index: int
    data: bytes
    path: Sequence[bytes]


FindLeaf = Callable[[int, ByteTree], ClaimedLeaf]
"""`find_leaf(buffer, own tree)` returns the first leaf that differs from the own buffer, proven under its
claimed root."""


@dataclass(frozen=True)
class ClaimedTrace:
    """A claimed trace. `roots` are the roots of all buffers' trees, in order. `fetch` returns the claimed
    values of a buffer, flat, checked against its root. `listed` are the roots under the trace root; a
    claimant may list false ones for W, m, v and constants, which proofs take from elsewhere."""

    roots: Sequence[bytes]
    fetch: Provider
    listed: Sequence[bytes] = ()
    fetch_cut: Provider | None = None
    """Fetches a buffer for a search in layers. If it raises, the search goes on without layers."""
    try_leaf: FindLeaf | None = None
    """Finds a leaf of a tensor that follows bit by bit from others. If it raises, the whole tensor is
    fetched."""
    find_leaf: FindLeaf | None = None
    """Finds a leaf of a buffer. For an exact program almost nothing but such leaves is fetched."""

    @property
    def levels(self) -> Levels:
        """The levels of the tree that leads to the trace root."""
        return compute_levels(self.listed or self.roots)


def prove_operation(trace: TraceTree, number: int, element: int) -> OperationFault:
    """Returns the proof for one element of node `number`. Raises InvalidInput if there is no such element."""
    node = trace.program.nodes[number]
    if not 0 <= element < node.elements:
        raise refuse_trace(
            "the node has no such element", f"0 to {node.elements - 1}", element, f"node {number}"
        )
    output = node.output.buffer, locate(node.output, unravel(element, node.output_sizes)), 1
    runs = [output, *iterate_runs(node, element, trace.get)]
    return OperationFault(prove_node(trace.program, number), element, open_element(trace, runs))


def refuse_trace(what: str, expected: object, actual: object, where: object) -> InvalidInput:
    """Returns the error for a trace that the dispute is not about."""
    return InvalidInput(
        what=what,
        expected=expected,
        actual=actual,
        where=str(where),
        remedy="Fetch the trace whose root is on chain, of the step that the dispute names.",
    )
