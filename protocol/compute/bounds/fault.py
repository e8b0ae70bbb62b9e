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

import torch
from torch import Tensor

from protocol.compute.bounds.check import Provider, check_node, compute_last_uses, fetch_buffer
from protocol.compute.bounds.trace import TraceTree, build_buffer_tree
from protocol.compute.program.contiguous import look
from protocol.compute.program.interpreter import Interpreter
from protocol.compute.program.step import Batch
from protocol.compute.program.task_program import BuiltProgram
from protocol.compute.program.tensor_allocator import compute_lifetimes, list_written
from protocol.spec.containers import BufferOpening, NodeProof, TraceProof
from protocol.spec.errors import InvalidInput
from protocol.spec.merkle import Levels, compute_levels, compute_set_path
from protocol.spec.params import ZERO_WORD
from protocol.spec.program import (
    INPUTS,
    SMALL_LEAVES,
    Access,
    Node,
    Operation,
    Program,
    Role,
    leaf_elements,
    locate,
    unravel,
)
from protocol.spec.program_codec import LEAVES_BEFORE_NODES, open_program_leaf
from protocol.spec.referee import FORMATS


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

    @property
    def levels(self) -> Levels:
        """Of the tree that leads to the trace root."""
        return compute_levels(self.listed or self.roots)


class FaultFinder:
    """Looks for faults in traces of one program."""

    def __init__(self, built: BuiltProgram, numeric_format: str = "float32") -> None:
        self.program = built.program
        self._format = FORMATS[numeric_format]
        self._interpreter = Interpreter(
            built.program, built.constants, is_traced=True, numeric_format=numeric_format
        )
        self._lifetimes = compute_lifetimes(built.program)
        self._last_uses = compute_last_uses(built.program, range(len(built.program.nodes)))

    def find(
        self, vectors: Vectors, batch: Batch, scalars: Tensor, claimed: ClaimedTrace
    ) -> OperationFault | InputFault | None:
        """The first fault of a claimed step from the state `vectors`, on the data that the task gives; None
        where every element lies inside its bound. Raises InvalidInput where the trace is that of another
        state or program, and whatever `fetch` raises."""
        different = self._compare(vectors, batch, scalars, claimed.roots)
        inputs = [number for number in different if number < len(INPUTS)]
        if inputs:
            return self._prove_input(inputs[0], claimed)
        if not different:
            return None
        for number in self._interpreter.iterate(vectors, *batch, scalars):
            fault = self._judge(number, different, claimed)
            if fault is not None:
                return fault
        return None

    # --- Which tensors differ -------------------------------------------------------------------------------
    def _compare(
        self, vectors: Vectors, batch: Batch, scalars: Tensor, roots: Sequence[bytes]
    ) -> dict[int, Tensor | None]:
        """Numbers of the buffers whose root is not that of the own run, in order; nothing is fetched yet."""
        if len(roots) != len(self.program.buffers):
            raise refuse_trace("a trace of another program", len(self.program.buffers), len(roots), "roots")
        written, different = list_written(self.program), set()
        for number in self._interpreter.iterate(vectors, *batch, scalars):
            due = [*range(len(INPUTS))] if number == 0 else []
            different |= {b for b in (*due, *written.get(number, ())) if self._own_root(b) != roots[b]}
        for buffer in range(len(STATE_INPUTS)):
            if buffer in different:
                raise refuse_trace(
                    "a trace from another state", "the start state's root", roots[buffer].hex(), buffer
                )
        return dict.fromkeys(sorted(different))

    def _own_root(self, buffer: int) -> bytes:
        return build_buffer_tree(self.program, self._get_own, buffer).root

    def _get_own(self, buffer: int) -> Tensor:
        return self._interpreter.tensors[buffer]

    # --- Judging --------------------------------------------------------------------------------------------
    def _judge(
        self, number: int, different: dict[int, Tensor | None], claimed: ClaimedTrace
    ) -> OperationFault | None:
        """The fault of a node that has just been computed, if it touches anything that differs. Fetches what
        it needs, and lets go of what no later node touches."""
        node = self.program.nodes[number]
        touched = {access.buffer for access in (*node.operands, node.output)} & different.keys()
        for buffer in touched:
            if different[buffer] is None:
                different[buffer] = fetch_buffer(self.program, claimed.fetch, buffer)

        def get(buffer: int) -> Tensor:
            """The claimed buffer where it differs from the own one, else the own one."""
            held = different.get(buffer)
            return self._get_own(buffer) if held is None else held

        def view(access: Access, sizes: Sequence[int], strides: Sequence[int]) -> Tensor:
            """The tensor of an access, in that buffer."""
            return look(get(access.buffer), access.offset, sizes, strides)

        if touched:
            seen = check_node(node, view, self._format)
            if seen.outside:
                return self._prove(number, seen.element, get, claimed)
        for buffer in self._last_uses.get(number, ()):
            different.pop(buffer, None)
        return None

    def _prove(self, number: int, element: int, get: Provider, claimed: ClaimedTrace) -> OperationFault:
        def provide(buffer: int) -> Tensor:
            """The buffer as it was after this node; one that was overwritten is fetched."""
            life = self._lifetimes.get(buffer)
            is_whole = life is None or life.written <= number
            return get(buffer) if is_whole else fetch_buffer(self.program, claimed.fetch, buffer)

        trace = TraceTree(self.program, claimed.levels, provide, known=claimed.roots)
        return prove_operation(trace, number, element)

    def _prove_input(self, buffer: int, claimed: ClaimedTrace) -> InputFault:
        own, theirs = self._get_own(buffer), fetch_buffer(self.program, claimed.fetch, buffer)
        # Bits, so that a NaN differs from itself no more than from others.
        is_other = own.view(torch.int32) != theirs.view(torch.int32)
        element = int(is_other.nonzero()[0]) * 4 // own.element_size()
        trace = TraceTree(self.program, claimed.levels, lambda _: theirs, known=claimed.roots)
        return InputFault(buffer, element, open_buffer(trace, buffer, element, 1))


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
