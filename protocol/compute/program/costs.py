"""Measures what a program costs, without computing anything, before a stake is locked."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from touchstone.protocol.compute.program.interpreter import measure_arena_bytes
from touchstone.protocol.compute.program.kernels.indexed_kernels import is_masked_sum, is_row_gather
from touchstone.protocol.compute.program.planning.node_parts import PART_ELEMENTS
from touchstone.protocol.compute.program.planning.node_views import sort_loops
from touchstone.protocol.spec.program import (
    ELEMENT_BYTES,
    Access,
    Node,
    Program,
    Role,
    leaf_bytes,
    leaf_elements,
)
from touchstone.protocol.spec.program_operations import Operation

SIBLING_BYTES = 32
FLOAT_BYTES, MASK_BYTES, PLACE_BYTES = 4, 1, 8
"""Bytes of one element of a copy, of a condition, and of an index."""
SCRATCH_BYTES = 12
"""Bytes of an element that a kernel copies: float32, and float64 for exact sums."""
CALL_GAS = 130_000
"""The gas of a proof of any size: the call, the path of the node in the program, the verdict."""
BYTE_GAS = 40
"""The gas of a byte in a call, if data has a floor price (EIP-7623). Without it a proof costs less: 267 k gas
with 512 products, 1.22 M with 4,096."""


@dataclass(frozen=True)
class ProgramCosts:
    """The costs of a program. `parameters` are trained ones. `constants` are files, of `constant_bytes`
    together, fetched once. `step_bytes` is the memory of a step, traced or not, besides states. `trace_bytes`
    are hashed if a step is disputed. `operations` are multiply-adds and elements of a step. `proof_bytes` is
    the length of the longest proof of one number, `proof_gas` its cost."""

    parameters: int
    nodes: int
    constants: int
    constant_bytes: int
    step_bytes: int
    trace_bytes: int
    operations: int
    proof_bytes: int

    @property
    def proof_gas(self) -> int:
        """The gas of the most expensive proof."""
        return CALL_GAS + BYTE_GAS * self.proof_bytes


def measure_costs(program: Program) -> ProgramCosts:
    """Measures what a valid program costs. Takes some seconds for eighty thousand nodes."""
    constants = [buffer.size for buffer in program.buffers if buffer.role is Role.CONSTANT]
    return ProgramCosts(
        parameters=program.buffers[0].size,
        nodes=len(program.nodes),
        constants=len(constants),
        constant_bytes=4 * sum(constants),
        step_bytes=measure_arena_bytes(program) + max(map(count_scratch_bytes, program.nodes)),
        trace_bytes=sum(ELEMENT_BYTES[buffer.role] * buffer.size for buffer in program.buffers),
        operations=sum(node.elements * node.terms for node in program.nodes),
        proof_bytes=max(count_proof_bytes(program, node) for node in program.nodes),
    )


def count_scratch_bytes(node: Node) -> int:
    """Returns the most bytes that a kernel uses to compute a node, besides the node's tensors: copies of
    operands that a library cannot read in place, and sums of products that share no operand."""
    if node.operation is Operation.FINITE_SELECT:
        return (FLOAT_BYTES + MASK_BYTES) * node.elements if any(node.operands[0].strides) else 0
    if node.operation is Operation.EQUAL_SELECT:
        return MASK_BYTES * node.elements
    if node.operation is Operation.GATHER:
        return (FLOAT_BYTES if is_row_gather(node) else FLOAT_BYTES + 3 * PLACE_BYTES) * node.elements
    if node.operation is Operation.SELECTED_SUM and is_masked_sum(node):
        return (FLOAT_BYTES + MASK_BYTES) * node.elements * node.terms
    if node.operation is Operation.SELECTED_SUM:
        grid = node.terms * prod(size for n, size in enumerate(node.output_sizes) if n != node.selected)
        return SCRATCH_BYTES * (grid + node.elements)
    if node.operation not in (Operation.PRODUCT_SUM, Operation.QUANTIZED_PRODUCT_SUM):
        return 0
    group = sort_loops(node)
    if not group.is_matrix:
        longest = node.terms * max(1, node.elements // node.sizes[0]) if node.output_sizes else node.terms
        return SCRATCH_BYTES * min(node.elements * node.terms, max(longest, PART_ELEMENTS))
    batch, rows, columns, terms = (prod(node.sizes[n] for n in loops) for loops in group)
    sides = zip(node.operands[:2], ((group.rows, rows), (group.columns, columns)), strict=True)
    copied = 0
    for operand, (own, count) in sides:
        loops = [n for n in (*group.batch, *own, *group.terms) if node.sizes[n] > 1]
        if not _is_read_as_it_lies(node, operand, loops):
            copied += batch * count * terms
    return SCRATCH_BYTES * copied


def _is_read_as_it_lies(node: Node, operand: Access, loops: Sequence[int]) -> bool:
    """Returns whether each element is read once: the loops, from the shortest step to the longest, do not
    overlap."""
    reach = 0
    for stride, size in sorted((operand.strides[n], node.sizes[n]) for n in loops):
        if stride <= reach:
            return False
        reach += stride * (size - 1)
    return True


def count_proof_bytes(program: Program, node: Node) -> int:
    """Returns the most bytes of the openings for one element of a node: whole leaves of each run, two
    siblings on each level, and the path of each buffer's root in the trace."""
    return sum(_count_opening_bytes(program, node, access) for access in (node.output, *node.operands))


def _count_opening_bytes(program: Program, node: Node, access: Access) -> int:
    strides = access.strides[len(node.output_sizes) :]
    run = node.terms if any(strides) else 1
    elements, size = leaf_elements(program, access.buffer), program.buffers[access.buffer].size
    in_all = -(-size // elements)
    leaves = min((run + elements - 2) // elements + 1, in_all)
    depth = (in_all - 1).bit_length() + len(program.buffers).bit_length()
    return leaves * leaf_bytes(program, access.buffer) + 2 * SIBLING_BYTES * depth
