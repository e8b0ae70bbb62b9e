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

Where a claimed step of an exact program is false: found by hashes, proven by one element. Honest machines
have the same bits. So the challenger's own trace tells which tensor of the claimant's is the first one that
differs, by its root, and which leaves of it, by the roots of some leaves at a time. What the differing
element was computed from is the same on both sides: only the leaves with the element itself are fetched.

    own run, node by node --> own root of each tensor, another claimed --> own and claimed roots of its chunks
        --> the chunk that differs, fetched --> the element that differs --> proof
"""

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from torch import Tensor

from touchstone.protocol.compute.bounds.check import Provider
from touchstone.protocol.compute.bounds.trace import TraceTree, build_buffer_tree
from touchstone.protocol.compute.digest import ByteTree
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.step import Batch
from touchstone.protocol.compute.program.tensor_allocator import compute_lifetimes, list_written
from touchstone.protocol.spec.containers import BufferOpening, NodeProof, TraceProof
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.merkle import Levels, compute_levels, compute_path, compute_set_path
from touchstone.protocol.spec.params import ZERO_WORD
from touchstone.protocol.spec.program import (
    ELEMENT_BYTES,
    INPUTS,
    SMALL_LEAVES,
    Node,
    Program,
    Role,
    iterate_runs,
    leaf_elements,
    locate,
    unravel,
)
from touchstone.protocol.spec.program_codec import LEAVES_BEFORE_NODES, open_program_leaf


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
class ClaimedLeaf:
    """A leaf of a claimed buffer that differs from the own one, padding included, and its path upwards."""

    index: int
    data: bytes
    path: Sequence[bytes]


FindLeaf = Callable[[int, ByteTree], ClaimedLeaf]
"""(buffer, own tree): the first leaf that differs from the own buffer, proven under its claimed root."""


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
    find_leaf: FindLeaf | None = None
    """For a tensor that follows bit by bit from others: where it raises, the whole tensor is fetched."""

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


def refuse_trace(what: str, expected: object, actual: object, where: object) -> InvalidInput:
    """The error for a trace that is not what the dispute is about."""
    return InvalidInput(
        what=what,
        expected=expected,
        actual=actual,
        where=str(where),
        remedy="Fetch the trace that stands on chain, from the step that the dispute names.",
    )


# --- Exact programs -----------------------------------------------------------------------------------------
Inputs = tuple[Vectors, Tensor, Tensor, Tensor]
"""W, m, v; tokens; labels; scalars."""


@dataclass(frozen=True)
class ClaimedRoots:
    """A claimed trace of which next to nothing is fetched. roots: of all buffers' trees, in order; listed: as
    of `ClaimedTrace`."""

    roots: Sequence[bytes]
    find_leaf: FindLeaf
    listed: Sequence[bytes] = ()

    @property
    def levels(self) -> Levels:
        """Of the tree that leads to the trace root."""
        return compute_levels(self.listed or self.roots)


class ExactFaultFinder:
    """Looks for faults in traces of one exact program."""

    def __init__(self, built: BuiltProgram, numeric_format: str) -> None:
        self.program = built.program
        self._interpreter = Interpreter(
            built.program, built.constants, is_traced=True, numeric_format=numeric_format
        )
        self._lifetimes = compute_lifetimes(built.program)
        self._written = list_written(built.program)

    def find(
        self, vectors: Vectors, batch: Batch, scalars: Tensor, claimed: ClaimedRoots
    ) -> OperationFault | InputFault | None:
        """The first fault of a claimed step from the state `vectors`, on the data that the task gives; None
        where the trace is the own one. Raises InvalidInput where it is that of another state or program, and
        whatever `find_leaf` raises."""
        if len(claimed.roots) != len(self.program.buffers):
            raise refuse_trace(
                "a trace of another program", len(self.program.buffers), len(claimed.roots), "roots"
            )
        inputs: Inputs = (vectors, *batch, scalars)
        for number in self._interpreter.iterate(*inputs):
            if number == 0:
                fault = self._compare_inputs(claimed)
                if fault is not None:
                    return fault
            for buffer in self._written.get(number, ()):
                tree = self._build_own(buffer)
                if tree.root != claimed.roots[buffer]:
                    return self._prove(buffer, tree, claimed, inputs)
        return None

    def _build_own(self, buffer: int) -> ByteTree:
        return build_buffer_tree(self.program, self._interpreter.tensors.__getitem__, buffer)

    def _compare_inputs(self, claimed: ClaimedRoots) -> InputFault | None:
        for buffer in range(len(INPUTS)):
            tree = self._build_own(buffer)
            if tree.root == claimed.roots[buffer]:
                continue
            if self.program.buffers[buffer].role in SMALL_LEAVES:
                root = claimed.roots[buffer].hex()
                raise refuse_trace("a trace from another state", "the start state's root", root, buffer)
            leaf, element = self._find_element(buffer, tree, claimed)
            path = compute_path(claimed.levels, buffer)
            opening = BufferOpening(claimed.roots[buffer], tuple(path), leaf.data, tuple(leaf.path))
            return InputFault(buffer, element, opening)
        return None

    def _find_element(self, buffer: int, tree: ByteTree, claimed: ClaimedRoots) -> tuple[ClaimedLeaf, int]:
        """The leaf that differs, and the number of the first element in it that does."""
        leaf = claimed.find_leaf(buffer, tree)
        own, _ = tree.open_leaf(leaf.index)
        width, size = ELEMENT_BYTES[self.program.buffers[buffer].role], self.program.buffers[buffer].size
        differing = next((n for n, pair in enumerate(zip(leaf.data, own, strict=True)) if pair[0] != pair[1]))
        element = leaf.index * leaf_elements(self.program, buffer) + differing // width
        if element >= size:
            raise refuse_trace("a leaf that is not padded with zeros", "zeros", leaf.data[differing], buffer)
        return leaf, element

    # --- Proving --------------------------------------------------------------------------------------------
    def _prove(self, buffer: int, tree: ByteTree, claimed: ClaimedRoots, inputs: Inputs) -> OperationFault:
        """What the element was computed from was complete before it: the same on both sides, or an earlier
        tensor would differ."""
        leaf, at = self._find_element(buffer, tree, claimed)
        number, element = find_writer(self.program, buffer, at)
        node = self.program.nodes[number]
        own = self._collect({operand.buffer for operand in node.operands}, inputs)
        runs = list(iterate_runs(node, element, own.__getitem__))
        parts = [leaf.data, *leaf.path]
        for read, first, count in runs:
            own_tree, elements = (
                build_buffer_tree(self.program, own.__getitem__, read),
                leaf_elements(self.program, read),
            )
            data, path = own_tree.open_run(first // elements, (first + count - 1) // elements)
            parts += [data, *path]
        touched = {buffer, *(read for read, _, _ in runs)}
        traced = sorted(one for one in touched if self.program.buffers[one].role not in SMALL_LEAVES)
        siblings = compute_set_path(claimed.levels, traced)
        return OperationFault(prove_node(self.program, number), element, b"".join([*parts, *siblings]))

    def _collect(self, buffers: Set[int], inputs: Inputs) -> dict[int, Tensor]:
        """These buffers, whole: the step is run once more."""
        found: dict[int, Tensor] = {}
        for number in self._interpreter.iterate(*inputs):
            for buffer in buffers - found.keys():
                life = self._lifetimes.get(buffer)
                if life is None or life.written == number:
                    found[buffer] = self._interpreter.tensors[buffer].clone()
            if len(found) == len(buffers):
                break
        return found


def find_writer(program: Program, buffer: int, at: int) -> tuple[int, int]:
    """The node that writes element `at` of a buffer, and the number that the element has in it."""
    for number, node in enumerate(program.nodes):
        if node.output.buffer == buffer:
            element = _find_number(node, at)
            if element is not None:
                return number, element
    raise AssertionError(f"no node writes element {at} of buffer {buffer}")


def _find_number(node: Node, at: int) -> int | None:
    """The element of a node that lies at `at` of its buffer; None where none does."""
    rest, indices = at - node.output.offset, [0] * len(node.output_sizes)
    for loop in sorted(range(len(indices)), key=lambda n: -node.output.strides[n]):
        stride, size = node.output.strides[loop], node.output_sizes[loop]
        indices[loop] = min(rest // stride, size - 1) if stride > 0 and rest > 0 else 0
        rest -= indices[loop] * stride
    if rest:
        return None
    number = 0
    for index, size in zip(indices, node.output_sizes, strict=True):
        number = number * size + index
    return number
