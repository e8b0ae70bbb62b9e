"""Finds where a claimed step of an exact program is false, by hashes, and proves one element.

Honest machines have the same bits. So the roots of the challenger's own trace show which tensor of the
claimant is the first that differs, and roots of its chunks show which leaves. The operands of the differing
element are equal on both sides, so only the leaves with the element itself are fetched.

    own run, node by node --> own root of each tensor, another claimed
    --> own and claimed roots of its chunks --> the chunk that differs, fetched
    --> the element that differs --> proof
"""

from collections.abc import Set

from torch import Tensor

from touchstone.protocol.compute.bounds.fault_proof import (
    ClaimedLeaf,
    ClaimedTrace,
    InputFault,
    OperationFault,
    Vectors,
    refuse_trace,
)
from touchstone.protocol.compute.bounds.step_openings import prove_node
from touchstone.protocol.compute.bounds.trace_tree import build_buffer_tree
from touchstone.protocol.compute.digest import ByteTree
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.planning.lifetimes import compute_lifetimes, list_written
from touchstone.protocol.compute.program.training_state import Batch
from touchstone.protocol.spec.merkle import compute_path
from touchstone.protocol.spec.merkle_sets import compute_set_path
from touchstone.protocol.spec.openings import BufferOpening
from touchstone.protocol.spec.program import (
    ELEMENT_BYTES,
    INPUTS,
    SMALL_LEAVES,
    Node,
    Program,
    leaf_elements,
)
from touchstone.protocol.spec.program_addressing import iterate_runs

Inputs = tuple[Vectors, Tensor, Tensor, Tensor]
"""(W, m, v; tokens; labels; scalars)"""


class ExactFaultFinder:
    """Finds faults in traces of one exact program."""

    def __init__(self, built: BuiltProgram, numeric_format: str) -> None:
        self.program = built.program
        self._interpreter = Interpreter(
            built.program, built.constants, is_traced=True, numeric_format=numeric_format
        )
        self._lifetimes = compute_lifetimes(built.program)
        self._written = list_written(built.program)

    def find(
        self, vectors: Vectors, batch: Batch, scalars: Tensor, claimed: ClaimedTrace
    ) -> OperationFault | InputFault | None:
        """Returns the first fault of a claimed step from the state `vectors`, on the task's data; None if the
        trace equals this machine's own. Raises InvalidInput if the trace is of another state or program, and
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

    def _compare_inputs(self, claimed: ClaimedTrace) -> InputFault | None:
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

    def _find_element(self, buffer: int, tree: ByteTree, claimed: ClaimedTrace) -> tuple[ClaimedLeaf, int]:
        """Returns the leaf that differs, and the number of the first element in it that does."""
        assert claimed.find_leaf is not None, "it shows leaves of exact programs"
        leaf = claimed.find_leaf(buffer, tree)
        own, _ = tree.open_leaf(leaf.index)
        width, size = ELEMENT_BYTES[self.program.buffers[buffer].role], self.program.buffers[buffer].size
        differing = next((n for n, pair in enumerate(zip(leaf.data, own, strict=True)) if pair[0] != pair[1]))
        element = leaf.index * leaf_elements(self.program, buffer) + differing // width
        if element >= size:
            raise refuse_trace("a leaf that is not padded with zeros", "zeros", leaf.data[differing], buffer)
        return leaf, element

    def _prove(self, buffer: int, tree: ByteTree, claimed: ClaimedTrace, inputs: Inputs) -> OperationFault:
        """Returns the proof for an element. Its operands were complete before it and are equal on both sides,
        or an earlier tensor would differ."""
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
        """Runs the step once more, and returns these buffers whole."""
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
    """Returns the node that writes element `at` of a buffer, and that element's number in the node."""
    for number, node in enumerate(program.nodes):
        if node.output.buffer == buffer:
            element = _find_number(node, at)
            if element is not None:
                return number, element
    raise AssertionError(f"no node writes element {at} of buffer {buffer}")


def _find_number(node: Node, at: int) -> int | None:
    """Returns the number of a node's element that lies at `at` in its buffer; None if there is none."""
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
