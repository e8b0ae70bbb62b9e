"""Where a claimed step is false, and the proof in the shape that the contracts take.

What a dispute is shown of a step, in the shape in which the contracts take it: nodes, buffers, outputs.

A challenger computes the step itself, from the claimant's own start state, and compares roots of tensors:
what has the same root needs no look. On a machine like the claimant's that leaves the false tensor and those
behind it; on another one float noise is in all of them. Nodes that touch such a tensor are judged in order,
each from what the claimant says that it read and wrote (`check.py`). The first element outside its bound is
proven: its node under the program, its operands and itself under the trace.

    own run, node by node --> roots --> equal: own tensor is the claimant's
                                   '--> other: the claimant's is fetched, its nodes are judged --> proof

That costs two runs of the step, one hashing of it, and the judging of what differs. Of the claimant's trace
no more is fetched than differs, and no more is in memory than later nodes touch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from protocol.compute.bounds.check import Provider
from protocol.compute.bounds.trace import TraceTree
from protocol.spec.containers import BufferOpening, NodeProof, TraceProof
from protocol.spec.errors import InvalidInput
from protocol.spec.merkle import Levels, compute_levels, compute_set_path
from protocol.spec.params import ZERO_WORD
from protocol.spec.program import (
    SMALL_LEAVES,
    Node,
    Operation,
    Program,
    Role,
    leaf_elements,
    locate,
    unravel,
)
from protocol.spec.program_codec import LEAVES_BEFORE_NODES, open_program_leaf


def prove_node(program: Program, number: int) -> NodeProof:
    """A node with its path under the program's root. Raises InvalidInput if there is none."""
    data, path = open_program_leaf(program, LEAVES_BEFORE_NODES + number)
    return NodeProof(number, data, tuple(path))


def prove_outputs(tree: TraceTree) -> TraceProof:
    """Where the trace has the new W, m and v."""
    head, path = open_program_leaf(tree.program, 0)
    outputs = tree.program.outputs
    buffers = (outputs.weights, outputs.first_moment, outputs.second_moment)
    return TraceProof(head, tuple(path), *(tuple(tree.open_root(buffer)) for buffer in buffers))


def open_buffer(tree: TraceTree, buffer: int, first_element: int, count: int) -> BufferOpening:
    """The whole leaves that hold `count` elements of a buffer. W, m, v of the start and constants have their
    roots elsewhere."""
    leaves, path = tree.open_run(buffer, first_element, count)
    if tree.program.buffers[buffer].role in SMALL_LEAVES:
        return BufferOpening(ZERO_WORD, (), leaves, tuple(path))
    return BufferOpening(tree.roots[buffer], tuple(tree.open_root(buffer)), leaves, tuple(path))


def open_element(tree: TraceTree, runs: Sequence[tuple[int, int, int]]) -> bytes:
    """What the referee reads of an element's runs (buffer, first element, length), the output's first: of
    each run the whole leaves and their siblings; then the siblings that the roots of all these buffers need
    in the trace (`merkle.compute_set_path`). Roots follow from the leaves, and all lengths from the node."""
    parts: list[bytes] = []
    for run in runs:
        leaves, path = tree.open_run(*run)
        parts += [leaves, *path]
    roles = {buffer: tree.program.buffers[buffer].role for buffer, _, _ in runs}
    traced = sorted(buffer for buffer, role in roles.items() if role not in SMALL_LEAVES)
    return b"".join([*parts, *(compute_set_path(tree.levels, traced) if traced else ())])


def open_demanded(tree: TraceTree, node: int, place: int, leaf_index: int) -> BufferOpening:
    """One leaf of the buffer at a place of a node: 0 its output, 1 and up its operands."""
    buffer = find_buffer(tree.program, node, place)
    elements = leaf_elements(tree.program, buffer)
    first = leaf_index * elements
    return open_buffer(tree, buffer, first, min(elements, tree.program.buffers[buffer].size - first))


def find_buffer(program: Program, node: int, place: int) -> int:
    """The buffer at a place of a node. Raises InvalidInput where the node has no such place."""
    accesses = (program.nodes[node].output, *program.nodes[node].operands)
    if not 0 <= place < len(accesses):
        raise InvalidInput(
            what="the node has no such operand",
            expected=f"0 to {len(accesses) - 1}",
            actual=place,
            where=f"node {node}",
            remedy="Name an operand that the node has.",
        )
    return accesses[place].buffer


Vectors = tuple[Tensor, Tensor, Tensor]
"""W, m, v before the step, flat float32."""
STATE_INPUTS = (Role.WEIGHTS, Role.FIRST_MOMENT, Role.SECOND_MOMENT)


@dataclass(frozen=True)
class OperationFault:
    """An element of a node outside its bound: what `Referee.judge` takes. openings: see `open_element`."""

    node: NodeProof
    element: int
    openings: bytes


@dataclass(frozen=True)
class InputFault:
    """An element of the tokens, labels or scalars that is not what the task gives. buffer: 3, 4 or 5."""

    buffer: int
    element: int
    opening: BufferOpening


@dataclass(frozen=True)
class ClaimedTrace:
    """roots: of all buffers' trees, in order; fetch: the claimant's values of a buffer, flat, checked against
    its root; listed: roots under the trace root, where a claimant may have others for W, m, v and constants,
    which no proof takes from there."""

    roots: Sequence[bytes]
    fetch: Provider
    listed: Sequence[bytes] = ()
    fetch_cut: Provider | None = None
    """As `fetch`, for a search in layers: where it raises, the search goes on without layers."""

    @property
    def levels(self) -> Levels:
        """Of the tree that leads to the trace root."""
        return compute_levels(self.listed or self.roots)


# --- Proofs -------------------------------------------------------------------------------------------------
def prove_operation(trace: TraceTree, number: int, element: int) -> OperationFault:
    """The proof for one element of node `number`. Raises InvalidInput for no such element."""
    node = trace.program.nodes[number]
    if not 0 <= element < node.elements:
        raise refuse_trace(
            "the node has no such element", f"0 to {node.elements - 1}", element, f"node {number}"
        )
    output = node.output.buffer, locate(node.output, unravel(element, node.output_sizes)), 1
    runs = [output, *iterate_runs(node, element, trace.get)]
    return OperationFault(prove_node(trace.program, number), element, open_element(trace, runs))


def iterate_runs(node: Node, element: int, get: Provider) -> Iterator[tuple[int, int, int]]:
    """Buffer, first element and length of the run that each opened operand of an element is."""
    indices = (*unravel(element, node.output_sizes), *(0 for _ in node.reduced_sizes))
    operands = list(node.operands)
    moved = 0
    if node.operation in (Operation.GATHER, Operation.EQUAL_SELECT):
        index = int(get(operands[0].buffer)[locate(operands[0], indices)])
        if node.operation is Operation.GATHER:
            moved = index * node.selected
        else:
            operands.pop(2 if index == indices[node.selected] else 1)
    for place, operand in enumerate(operands):
        is_moving = any(operand.strides[len(node.output_sizes) :])
        start = locate(operand, indices) + (moved if place else 0)
        yield operand.buffer, start, node.terms if is_moving else 1


def refuse_trace(what: str, expected: object, actual: object, where: object) -> InvalidInput:
    """The error for a trace that is not what the dispute is about."""
    return InvalidInput(
        what=what,
        expected=expected,
        actual=actual,
        where=str(where),
        remedy="Fetch the trace that stands on chain, from the step that the dispute names.",
    )
