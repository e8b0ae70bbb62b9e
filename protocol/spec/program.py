"""Defines a training step as a program: buffers, nodes, outputs (docs/spec.md, section 8).

A program is a list of nodes over buffers. A buffer is a flat run of elements: an input of the step, a
constant, or a tensor that nodes compute. Exactly one node writes each element of a tensor. A node is one
operation in an affine loop nest: loops of fixed sizes, the last `reduced` of them summed over. Each operand
and the output lie at offset + sum(index_i * stride_i) of their buffer. So one element of one node, and the
addresses of all its operands, follow from a few integers, and a contract can judge it.

    weights, moments, tokens, labels, scalars, constants --> nodes in order --> loss, new weights and moments

The operations are in `program_operations.py`, the addresses of elements in `program_addressing.py`, the
canonical bytes and the root in `program_codec.py`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum, unique
from math import prod

from touchstone.protocol.spec.params import LEAF_BYTES
from touchstone.protocol.spec.program_operations import Operation

CHUNK_TERMS = (128, 512, 4096)
"""The lengths of the longest sum among which a task may choose. Shorter sums leave a cheat less room, longer
ones compute faster."""
DEFAULT_CHUNK_TERMS = 512
MAX_LOOPS = 8
MAX_ELEMENTS = 1 << 40
MAX_TRACE_LEAF_BYTES = 4096
"""The most bytes of a trace's leaf. Larger leaves would cost the same hashing and more calldata."""
EXACT_LEAF_BYTES = 512
"""The leaf bytes of exact programs. To show one product takes a leaf of each scale and of the output besides
the factors."""


@unique
class Role(IntEnum):
    """The role of a buffer in the step. Buffers hold float32, except TOKENS and LABELS, which hold indices
    (int64 in memory, uint32 in trees), and the quantized values."""

    WEIGHTS = 1
    FIRST_MOMENT = 2
    SECOND_MOMENT = 3
    TOKENS = 4
    LABELS = 5
    SCALARS = 6
    """Learning rate, 1 - beta1^t, 1 - beta2^t."""
    CONSTANT = 7
    """Values that are the same in every step: tables and numbers, each under its own root."""
    TENSOR = 8
    """A tensor that nodes compute; a part of the trace."""
    INTEGER8 = 9
    """Quantized values: signed integers of one byte, computed by the nodes."""
    INTEGER16 = 10
    """Quantized values: signed integers of two bytes, computed by the nodes."""
    INTEGER32 = 11
    """Quantized values: signed integers of four bytes, computed by the nodes."""


INTEGER_ROLES = frozenset({Role.INTEGER8, Role.INTEGER16, Role.INTEGER32})
"""The roles of quantized values."""
COMPUTED_ROLES = INTEGER_ROLES | {Role.TENSOR}
"""The roles that nodes write."""
ELEMENT_BYTES = dict.fromkeys(Role, 4) | {Role.INTEGER8: 1, Role.INTEGER16: 2}
"""The bytes of an element in trees."""
QUANTIZED_ROLES = {8: Role.INTEGER8, 15: Role.INTEGER16, 20: Role.INTEGER32}
INDEX_ROLES = frozenset({Role.TOKENS, Role.LABELS})
FINITE_ROLES = frozenset({Role.WEIGHTS, Role.FIRST_MOMENT, Role.SECOND_MOMENT, Role.SCALARS, Role.CONSTANT})
"""The inputs of a step whose numbers are all finite."""
INPUTS = (Role.WEIGHTS, Role.FIRST_MOMENT, Role.SECOND_MOMENT, Role.TOKENS, Role.LABELS, Role.SCALARS)
"""The roles of buffers 0 to 5, in this order; no other buffer has one of them."""
SMALL_LEAVES = frozenset({Role.WEIGHTS, Role.FIRST_MOMENT, Role.SECOND_MOMENT, Role.CONSTANT})
"""The roles of buffers that also have trees outside of traces, in leaves of LEAF_BYTES."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer of `size` elements. `constant_root` is the data root of a CONSTANT's little-endian float32;
    empty for other roles."""

    role: Role
    size: int
    constant_root: bytes = b""


@dataclass(frozen=True, slots=True)
class Access:
    """The elements of a buffer that an operand, or the output, of a node uses: an offset, and a stride for
    each loop."""

    buffer: int
    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """One operation. `sizes` are the sizes of the loops, reduced ones last. `selected` is explained in
    Operation, else 0.

    The output has a stride for each loop that is not reduced, an operand one for every loop. The index of an
    INDEXED operation comes first."""

    operation: Operation
    sizes: tuple[int, ...]
    reduced: int
    output: Access
    operands: tuple[Access, ...]
    selected: int = 0

    @property
    def output_sizes(self) -> tuple[int, ...]:
        """The sizes of the loops over the output's elements."""
        return self.sizes[: len(self.sizes) - self.reduced]

    @property
    def reduced_sizes(self) -> tuple[int, ...]:
        """The sizes of the loops that are summed over; empty for elementwise operations."""
        return self.sizes[len(self.sizes) - self.reduced :]

    @property
    def elements(self) -> int:
        """The number of elements that the node computes."""
        return prod(self.output_sizes)

    @property
    def terms(self) -> int:
        """The number of terms in each element's sum; 1 for elementwise operations."""
        return prod(self.reduced_sizes)


@dataclass(frozen=True, slots=True)
class Outputs:
    """The buffers that hold the step's results; the loss has one element."""

    loss: int
    weights: int
    first_moment: int
    second_moment: int


@dataclass(frozen=True, slots=True)
class Program:
    """A training step. No sum has more than `chunk_terms` terms. `is_exact` says that it has quantized
    values."""

    chunk_terms: int
    buffers: tuple[Buffer, ...]
    nodes: tuple[Node, ...]
    outputs: Outputs
    is_exact: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        is_exact = any(buffer.role in INTEGER_ROLES for buffer in self.buffers)
        object.__setattr__(self, "is_exact", is_exact)


def leaf_bytes(program: Program, buffer: int) -> int:
    """Returns the bytes of a leaf of this buffer's tree: LEAF_BYTES for parts of a state and for constants,
    EXACT_LEAF_BYTES for all others of an exact program. Otherwise a leaf is as long as the longest sum, so
    that its terms lie in two leaves at most (4,096 terms in five)."""
    outputs = program.outputs
    is_state = buffer in (outputs.weights, outputs.first_moment, outputs.second_moment)
    if is_state or program.buffers[buffer].role in SMALL_LEAVES:
        return LEAF_BYTES
    return EXACT_LEAF_BYTES if program.is_exact else min(4 * program.chunk_terms, MAX_TRACE_LEAF_BYTES)


def leaf_elements(program: Program, buffer: int) -> int:
    """Returns the number of elements in a leaf of this buffer's tree."""
    return leaf_bytes(program, buffer) // ELEMENT_BYTES[program.buffers[buffer].role]


def find_needed(program: Program, results: Iterable[int]) -> tuple[Node, ...]:
    """Returns the nodes that these buffers depend on, in order."""
    needed, kept = set(results), list[Node]()
    for node in reversed(program.nodes):
        if node.output.buffer in needed:
            kept.append(node)
            needed.update(operand.buffer for operand in node.operands)
    return tuple(reversed(kept))


def get_constant_roots(program: Program) -> dict[int, bytes]:
    """Returns, by number of the buffer, the roots in a trace that every node knows before the step is run."""
    return {
        number: buffer.constant_root
        for number, buffer in enumerate(program.buffers)
        if buffer.role is Role.CONSTANT
    }
