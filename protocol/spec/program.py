"""The training step as a program: what may stand in it, and where its elements lie (docs/spec.md, section 8).

A program is a list of nodes over buffers. A buffer is a flat run of elements: an input of the step, a
constant, or a tensor that nodes compute; every element of a tensor is written by exactly one node. A node is
one operation in an affine loop nest: loops of fixed sizes, the last `reduced` of them summed over; each
operand and the output lie at offset + sum(index_i * stride_i) of their buffer. So one element of one node,
and the addresses of everything that it was computed from, follow from a few integers: that is what a contract
judges.

    weights, moments, tokens, labels, scalars, constants --> nodes in order --> loss, new weights and moments

Its canonical bytes and its root are in `program_codec.py`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum, unique
from math import prod
from typing import Any

from touchstone.protocol.spec.params import LEAF_BYTES

CHUNK_TERMS = (128, 512, 4096)
"""Longest sums that a task may choose: shorter ones leave a cheat less room, longer ones compute faster."""
DEFAULT_CHUNK_TERMS = 512
MAX_LOOPS = 8
MAX_ELEMENTS = 1 << 40
MAX_TRACE_LEAF_BYTES = 4096
"""Larger leaves would cost the same hashing and more calldata."""
EXACT_LEAF_BYTES = 512
"""Of exact programs: to show one product takes a leaf of each scale and of the output beside the factors."""


@unique
class Operation(IntEnum):
    """The whole vocabulary. Operands are written a, b, c; `i` is the value of an index operand."""

    PRODUCT_SUM = 1
    """sum of a * b over the reduced loops."""
    SUM = 2
    """sum of a over the reduced loops."""
    SELECTED_SUM = 3
    """sum of a over those reduced indices where i equals the index of loop `selected`."""
    MAXIMUM_OF = 4
    """the largest a over the reduced loops."""
    ADD = 5
    SUBTRACT = 6
    MULTIPLY = 7
    DIVIDE = 8
    MAXIMUM = 9
    """the larger of a and b."""
    MINIMUM = 10
    """the smaller of a and b."""
    SQUARE_ROOT = 11
    RECIPROCAL_ROOT = 12
    """1 / sqrt(a)."""
    EXPONENTIAL = 13
    LOGARITHM = 14
    """the natural one."""
    SIGMOID = 15
    """1 / (1 + exp(-a))."""
    GATHER = 16
    """a, read `selected` elements further for each unit of i."""
    EQUAL_SELECT = 17
    """a where i equals the index of loop `selected`, else b."""
    FLUSH = 18
    """a where |a| >= b, else 0."""
    FINITE_SELECT = 19
    """b where a is finite, else c."""
    COPY = 20
    """a, in another place, so that the node that sums over it finds it in one run."""
    SCALE_OF = 21
    """the power of two by which the reduced row is quantized (`exact.choose_scale`). Exact programs alone."""
    QUANTIZE = 22
    """a / b, rounded to an integer of `selected` bits (`exact.quantize`)."""
    QUANTIZED_PRODUCT_SUM = 23
    """sum of a * b over the reduced loops, both quantized, times c and d, their scales."""


REDUCTIONS = frozenset({
    Operation.PRODUCT_SUM, Operation.SUM, Operation.SELECTED_SUM, Operation.MAXIMUM_OF, Operation.SCALE_OF,
    Operation.QUANTIZED_PRODUCT_SUM,
})  # fmt: skip
"""Operations whose nodes have reduced loops; all others have none."""
INDEXED = frozenset({Operation.SELECTED_SUM, Operation.GATHER, Operation.EQUAL_SELECT})
"""Operations whose first operand is an index; only theirs are."""
EXACT_OPERATIONS = frozenset({Operation.SCALE_OF, Operation.QUANTIZE, Operation.QUANTIZED_PRODUCT_SUM})
"""Of exact programs alone, in the place of PRODUCT_SUM."""
BOUNDED_OPERATIONS = tuple(one for one in Operation if one not in EXACT_OPERATIONS)
"""The vocabulary of programs whose elements have bounds (docs/spec.md, section 9)."""
OPERAND_COUNTS = {
    Operation.PRODUCT_SUM: 2, Operation.SUM: 1, Operation.SELECTED_SUM: 2, Operation.MAXIMUM_OF: 1,
    Operation.ADD: 2, Operation.SUBTRACT: 2, Operation.MULTIPLY: 2, Operation.DIVIDE: 2,
    Operation.MAXIMUM: 2, Operation.MINIMUM: 2, Operation.SQUARE_ROOT: 1, Operation.RECIPROCAL_ROOT: 1,
    Operation.EXPONENTIAL: 1, Operation.LOGARITHM: 1, Operation.SIGMOID: 1, Operation.GATHER: 2,
    Operation.EQUAL_SELECT: 3, Operation.FLUSH: 2, Operation.FINITE_SELECT: 3, Operation.COPY: 1,
    Operation.SCALE_OF: 1, Operation.QUANTIZE: 2, Operation.QUANTIZED_PRODUCT_SUM: 4,
}  # fmt: skip


@unique
class Role(IntEnum):
    """What a buffer is to the step. All hold float32 but TOKENS and LABELS, which hold indices (int64 in
    memory, uint32 in trees)."""

    WEIGHTS = 1
    FIRST_MOMENT = 2
    SECOND_MOMENT = 3
    TOKENS = 4
    LABELS = 5
    SCALARS = 6
    """learning rate, 1 - beta1^t, 1 - beta2^t."""
    CONSTANT = 7
    """the same in every step: tables and numbers, under a root of their own."""
    TENSOR = 8
    """computed by the nodes; a part of the trace."""
    INTEGER8 = 9
    """as TENSOR, but of quantized values: signed integers of one byte."""
    INTEGER16 = 10
    """of two bytes."""
    INTEGER32 = 11
    """of four bytes."""


INTEGER_ROLES = frozenset({Role.INTEGER8, Role.INTEGER16, Role.INTEGER32})
"""Quantized values."""
COMPUTED_ROLES = INTEGER_ROLES | {Role.TENSOR}
"""What nodes write."""
ELEMENT_BYTES = dict.fromkeys(Role, 4) | {Role.INTEGER8: 1, Role.INTEGER16: 2}
"""Bytes of an element in trees."""
QUANTIZED_LIMITS = {8: 127, 15: 16319, 20: (1 << 19) - 1}
"""By bits: the largest magnitude of a quantized value. 16,319 = 127 * 128 + 63: each value of 15 bits is
128 h + l with h from -128 to 127 and l from -64 to 63, so that machines multiply bytes."""
QUANTIZED_ROLES = {8: Role.INTEGER8, 15: Role.INTEGER16, 20: Role.INTEGER32}
QUANTIZED_FACTORS = 2
"""Operands of a QUANTIZED_PRODUCT_SUM that are quantized; their scales follow."""
INDEX_ROLES = frozenset({Role.TOKENS, Role.LABELS})
FINITE_ROLES = frozenset({Role.WEIGHTS, Role.FIRST_MOMENT, Role.SECOND_MOMENT, Role.SCALARS, Role.CONSTANT})
"""What is given to a step: all numbers in it are finite."""
INPUTS = (Role.WEIGHTS, Role.FIRST_MOMENT, Role.SECOND_MOMENT, Role.TOKENS, Role.LABELS, Role.SCALARS)
"""Roles of buffers 0 to 5, in this order; no other buffer has one of them."""
SMALL_LEAVES = frozenset({Role.WEIGHTS, Role.FIRST_MOMENT, Role.SECOND_MOMENT, Role.CONSTANT})
"""Buffers with trees of their own outside of traces, in leaves of LEAF_BYTES."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """`size` elements. constant_root: the data root of a CONSTANT's little-endian float32, else empty."""

    role: Role
    size: int
    constant_root: bytes = b""


@dataclass(frozen=True, slots=True)
class Access:
    """Where one operand, or the output, of a node lies: elements of a buffer; one stride for each loop."""

    buffer: int
    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """One operation. sizes: of the loops, reduced ones last; selected: see Operation, else 0.

    The output has a stride for each loop that is not reduced, an operand one for every loop; the index of an
    INDEXED operation stands first."""

    operation: Operation
    sizes: tuple[int, ...]
    reduced: int
    output: Access
    operands: tuple[Access, ...]
    selected: int = 0

    @property
    def output_sizes(self) -> tuple[int, ...]:
        """Sizes of the loops over the output's elements."""
        return self.sizes[: len(self.sizes) - self.reduced]

    @property
    def reduced_sizes(self) -> tuple[int, ...]:
        """Sizes of the loops that are summed over; empty for elementwise operations."""
        return self.sizes[len(self.sizes) - self.reduced :]

    @property
    def elements(self) -> int:
        """Elements that the node computes."""
        return prod(self.output_sizes)

    @property
    def terms(self) -> int:
        """Terms of each element's sum; 1 for elementwise operations."""
        return prod(self.reduced_sizes)


@dataclass(frozen=True, slots=True)
class Outputs:
    """The buffers in which the step's results stand; the loss has one element."""

    loss: int
    weights: int
    first_moment: int
    second_moment: int


@dataclass(frozen=True, slots=True)
class Program:
    """A training step. chunk_terms: no sum of it has more terms. is_exact: it has quantized values."""

    chunk_terms: int
    buffers: tuple[Buffer, ...]
    nodes: tuple[Node, ...]
    outputs: Outputs
    is_exact: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        is_exact = any(buffer.role in INTEGER_ROLES for buffer in self.buffers)
        object.__setattr__(self, "is_exact", is_exact)


def unravel(number: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The loop indices of the `number`-th element, the last loop running fastest."""
    indices = []
    for size in reversed(sizes):
        number, index = divmod(number, size)
        indices.append(index)
    return tuple(reversed(indices))


def locate(access: Access, indices: tuple[int, ...]) -> int:
    """Element of the buffer at these loop indices (as many as there are strides)."""
    return access.offset + sum(i * stride for i, stride in zip(indices, access.strides, strict=True))


def iterate_terms(node: Node, number: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """For the `number`-th output element: each term's loop indices and its operands' elements, before an
    index operand moves any of them."""
    outer = unravel(number, node.output_sizes)
    for term in range(node.terms):
        indices = (*outer, *unravel(term, node.reduced_sizes))
        yield indices, tuple(locate(operand, indices) for operand in node.operands)


def iterate_runs(node: Node, element: int, get: Callable[[int], Any]) -> Iterator[tuple[int, int, int]]:
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


def is_run(strides: tuple[int, ...], sizes: tuple[int, ...]) -> bool:
    """Whether the elements at these strides follow each other, the last loop running fastest, or are one
    element again and again. For terms of sums: they are opened as one run of leaves."""
    return not any(strides) or strides == lay_row_major(sizes)


def lay_row_major(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of elements that follow each other, the last loop running fastest."""
    return tuple(prod(sizes[n + 1 :]) for n in range(len(sizes)))


def leaf_bytes(program: Program, buffer: int) -> int:
    """Bytes of a leaf of this buffer's tree. What is part of a state, and constants: LEAF_BYTES; all others
    of an exact program: EXACT_LEAF_BYTES, else as long as the longest sum, whose terms then lie in two leaves
    at most (of 4,096 terms in five)."""
    outputs = program.outputs
    is_state = buffer in (outputs.weights, outputs.first_moment, outputs.second_moment)
    if is_state or program.buffers[buffer].role in SMALL_LEAVES:
        return LEAF_BYTES
    return EXACT_LEAF_BYTES if program.is_exact else min(4 * program.chunk_terms, MAX_TRACE_LEAF_BYTES)


def leaf_elements(program: Program, buffer: int) -> int:
    """Elements in a leaf of this buffer's tree."""
    return leaf_bytes(program, buffer) // ELEMENT_BYTES[program.buffers[buffer].role]


def find_needed(program: Program, results: Iterable[int]) -> tuple[Node, ...]:
    """The nodes that these buffers depend on, in order."""
    needed, kept = set(results), list[Node]()
    for node in reversed(program.nodes):
        if node.output.buffer in needed:
            kept.append(node)
            needed.update(operand.buffer for operand in node.operands)
    return tuple(reversed(kept))


def get_constant_roots(program: Program) -> dict[int, bytes]:
    """By number of the buffer: the roots of a trace that every node knows before the step is run."""
    return {
        number: buffer.constant_root
        for number, buffer in enumerate(program.buffers)
        if buffer.role is Role.CONSTANT
    }
