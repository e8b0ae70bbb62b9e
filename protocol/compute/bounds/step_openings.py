"""Opens parts of a step for a dispute, in the form of the contracts: nodes, buffers, outputs."""

from collections.abc import Sequence

from touchstone.protocol.compute.bounds.trace_tree import TraceTree
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.merkle_sets import compute_set_path
from touchstone.protocol.spec.openings import BufferOpening, NodeProof, TraceProof
from touchstone.protocol.spec.params import ZERO_WORD
from touchstone.protocol.spec.program import SMALL_LEAVES, Program, leaf_elements
from touchstone.protocol.spec.program_codec import LEAVES_BEFORE_NODES, open_program_leaf


def prove_node(program: Program, number: int) -> NodeProof:
    """Returns a node with its path under the program's root. Raises InvalidInput if there is no such node."""
    data, path = open_program_leaf(program, LEAVES_BEFORE_NODES + number)
    return NodeProof(number, data, tuple(path))


def prove_outputs(tree: TraceTree) -> TraceProof:
    """Proves the new W, m and v under the trace root."""
    head, path = open_program_leaf(tree.program, 0)
    outputs = tree.program.outputs
    buffers = (outputs.weights, outputs.first_moment, outputs.second_moment)
    return TraceProof(head, tuple(path), *(tuple(tree.open_root(buffer)) for buffer in buffers))


def open_buffer(tree: TraceTree, buffer: int, first_element: int, count: int) -> BufferOpening:
    """Returns the whole leaves that hold `count` elements of a buffer. W, m, v of the start, and constants,
    are proven under roots outside the trace."""
    leaves, path = tree.open_run(buffer, first_element, count)
    if tree.program.buffers[buffer].role in SMALL_LEAVES:
        return BufferOpening(ZERO_WORD, (), leaves, tuple(path))
    return BufferOpening(tree.roots[buffer], tuple(tree.open_root(buffer)), leaves, tuple(path))


def open_element(tree: TraceTree, runs: Sequence[tuple[int, int, int]]) -> bytes:
    """Returns the leaves that the referee reads for an element's runs (buffer, first element, length), the
    output's first. For each run these are whole leaves and their siblings; then come the siblings that prove
    the roots of all these buffers in the trace (`merkle_sets.compute_set_path`). Roots follow from the
    leaves, and all lengths from the node."""
    parts: list[bytes] = []
    for run in runs:
        leaves, path = tree.open_run(*run)
        parts += [leaves, *path]
    roles = {buffer: tree.program.buffers[buffer].role for buffer, _, _ in runs}
    traced = sorted(buffer for buffer, role in roles.items() if role not in SMALL_LEAVES)
    return b"".join([*parts, *(compute_set_path(tree.levels, traced) if traced else ())])


def open_demanded(tree: TraceTree, node: int, place: int, leaf_index: int) -> BufferOpening:
    """Returns one leaf of a node's output (place 0) or of one of its operands (place 1 and up)."""
    buffer = find_buffer(tree.program, node, place)
    elements = leaf_elements(tree.program, buffer)
    first = leaf_index * elements
    return open_buffer(tree, buffer, first, min(elements, tree.program.buffers[buffer].size - first))


def find_buffer(program: Program, node: int, place: int) -> int:
    """Returns the buffer of a node's output (place 0) or operand (1 and up). Raises InvalidInput if the node
    has no such place."""
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
