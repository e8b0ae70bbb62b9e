"""What a program costs, found without computing anything: told before a stake is locked."""

from dataclasses import dataclass

from protocol.compute.program.interpreter import measure_arena_bytes
from protocol.spec.program import (
    ELEMENT_BYTES,
    Access,
    Node,
    Program,
    Role,
    leaf_bytes,
    leaf_elements,
)

SIBLING_BYTES = 32
CALL_GAS = 130_000
"""Of a proof whatever its size: the call, the path of the node in the program, the verdict."""
BYTE_GAS = 40
"""For a byte of a call where data has a floor price (EIP-7623). Without it a proof costs less: of 512
products 267 k gas, of 4,096 products 1.22 M."""


@dataclass(frozen=True)
class ProgramCosts:
    """parameters: trained ones; constant_bytes: fetched once; step_bytes: memory of a step beside states;
    trace_bytes: hashed where a step is disputed; operations: multiply-adds and elements of a step;
    proof_bytes: of the longest proof of one number, and proof_gas the most that it costs."""

    parameters: int
    nodes: int
    constant_bytes: int
    step_bytes: int
    trace_bytes: int
    operations: int
    proof_bytes: int

    @property
    def proof_gas(self) -> int:
        """The most gas that the dearest proof costs."""
        return CALL_GAS + BYTE_GAS * self.proof_bytes


def measure_costs(program: Program) -> ProgramCosts:
    """What a valid program costs. Takes some seconds for eighty thousand nodes."""
    constants = [buffer.size for buffer in program.buffers if buffer.role is Role.CONSTANT]
    return ProgramCosts(
        parameters=program.buffers[0].size,
        nodes=len(program.nodes),
        constant_bytes=4 * sum(constants),
        step_bytes=measure_arena_bytes(program),
        trace_bytes=sum(ELEMENT_BYTES[buffer.role] * buffer.size for buffer in program.buffers),
        operations=sum(node.elements * node.terms for node in program.nodes),
        proof_bytes=max(count_proof_bytes(program, node) for node in program.nodes),
    )


def count_proof_bytes(program: Program, node: Node) -> int:
    """The most that the openings of one element of a node can have: whole leaves of each run, two siblings a
    level, and the path of each buffer's root in the trace."""
    return sum(_count_opening_bytes(program, node, access) for access in (node.output, *node.operands))


def _count_opening_bytes(program: Program, node: Node, access: Access) -> int:
    strides = access.strides[len(node.output_sizes) :]
    run = node.terms if any(strides) else 1
    elements, size = leaf_elements(program, access.buffer), program.buffers[access.buffer].size
    in_all = -(-size // elements)
    leaves = min((run + elements - 2) // elements + 1, in_all)
    depth = (in_all - 1).bit_length() + len(program.buffers).bit_length()
    return leaves * leaf_bytes(program, access.buffer) + 2 * SIBLING_BYTES * depth
