"""Encodes and decodes a program as canonical bytes, cut into the leaves of its tree.

Rules: docs/spec.md, section 8.

    leaf 0: head | leaf 1: all buffers | leaf 2 + n: node n, with what must be known of its buffers

So a proof of one leaf shows the contract a node, its place, and the sizes, roles and leaf sizes of its
buffers. All integers are 8-byte big-endian two's complement unless said otherwise.
"""

from dataclasses import replace
from functools import lru_cache

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.merkle import Levels, compute_levels, compute_path, compute_root, hash_leaf
from touchstone.protocol.spec.program import (
    CHUNK_TERMS,
    MAX_LOOPS,
    Access,
    Buffer,
    Node,
    Outputs,
    Program,
    Role,
    leaf_bytes,
)
from touchstone.protocol.spec.program_operations import OPERAND_COUNTS, Operation
from touchstone.protocol.spec.program_rules import require_valid

MAX_PROGRAM_BYTES = 1 << 24
"""The most bytes of a program: eighty thousand nodes of some 200 bytes. The largest published decoders have a
few thousand nodes."""
PROGRAM_HEADER = b"touchstone.program\x02"
"""The magic bytes and the version of this encoding."""
LEAVES_BEFORE_NODES = 2
"""The head and the buffers."""


def encode_head(program: Program) -> bytes:
    """Returns leaf 0: header, chunk length, buffers of the loss and of the new W, m, v, numbers of nodes and
    of buffers."""
    outputs = program.outputs
    numbers = (
        program.chunk_terms,
        outputs.loss,
        outputs.weights,
        outputs.first_moment,
        outputs.second_moment,
    )
    return PROGRAM_HEADER + _encode_integers(*numbers, len(program.nodes), len(program.buffers))


def encode_buffers(program: Program) -> bytes:
    """Returns leaf 1: for each buffer its role (1 byte), length of its constant root (1 byte), size, and that
    root."""
    return b"".join(
        bytes([buffer.role, len(buffer.constant_root)]) + _encode_integers(buffer.size) + buffer.constant_root
        for buffer in program.buffers
    )


def encode_node(program: Program, node: Node) -> bytes:
    """Encodes a node: operation, number of loops, reduced loops, number of operands (1 byte each), selected,
    sizes, then the output and each operand (`encode_access`)."""
    head = bytes([node.operation, len(node.sizes), node.reduced, len(node.operands)])
    accesses = (encode_access(program, access) for access in (node.output, *node.operands))
    return b"".join((head, _encode_integers(node.selected, *node.sizes), *accesses))


def encode_access(program: Program, access: Access) -> bytes:
    """Encodes an access: the buffer's role and the logarithm of its leaf size (1 byte each), its number and
    size. Then follow the offset, the strides, and a constant's root."""
    buffer = program.buffers[access.buffer]
    head = bytes([buffer.role, leaf_bytes(program, access.buffer).bit_length() - 1])
    numbers = _encode_integers(access.buffer, buffer.size, access.offset, *access.strides)
    return head + numbers + (buffer.constant_root if buffer.role is Role.CONSTANT else b"")


def _encode_integers(*values: int) -> bytes:
    return b"".join(value.to_bytes(8, "big", signed=True) for value in values)


def encode_program_leaves(program: Program) -> list[bytes]:
    """Returns all leaves: the head, the buffers, and the nodes in order."""
    nodes = (encode_node(program, node) for node in program.nodes)
    return [encode_head(program), encode_buffers(program), *nodes]


def compute_program_root(program: Program) -> bytes:
    """Returns the root over the leaves, hashed as data: 32 bytes."""
    return compute_root(list(map(hash_leaf, encode_program_leaves(program))))


def open_program_leaf(program: Program, index: int) -> tuple[bytes, list[bytes]]:
    """Returns leaf `index` and its path; node n is leaf LEAVES_BEFORE_NODES + n. Raises InvalidInput if there
    is none."""
    leaves, levels = _build_tree(program)
    path = compute_path(levels, index)
    return leaves[index], path


@lru_cache(maxsize=2)
def _build_tree(program: Program) -> tuple[list[bytes], Levels]:
    """Returns the leaves and all levels over them. The tree is kept, because twenty nodes of one program are
    shown at a time."""
    leaves = encode_program_leaves(program)
    return leaves, compute_levels(list(map(hash_leaf, leaves)))


def encode_program(program: Program) -> bytes:
    """Returns the canonical bytes: all leaves, concatenated."""
    return b"".join(encode_program_leaves(program))


class _Reader:
    """Reads integers and pieces off encoded bytes. Refuses to read past the end."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.offset = 0

    def take(self, count: int) -> bytes:
        piece = self.data[self.offset : self.offset + count]
        if len(piece) != count:
            raise _refuse("the bytes end early", f"{count} more bytes", len(piece), f"byte {self.offset}")
        self.offset += count
        return piece

    def integers(self, count: int) -> tuple[int, ...]:
        return tuple(int.from_bytes(self.take(8), "big", signed=True) for _ in range(count))

    def enum(self, kind: type[Operation] | type[Role], value: int) -> int:
        if value not in set(kind):
            raise _refuse("an unknown number", f"a {kind.__name__}", value, f"byte {self.offset}")
        return kind(value)


def decode_program(data: bytes) -> Program:
    """Does the inverse of encode_program. Raises InvalidInput on any bytes that are not the encoding of a
    valid program."""
    if len(data) > MAX_PROGRAM_BYTES:
        raise _refuse("a program this large", f"at most {MAX_PROGRAM_BYTES} bytes", len(data), "its bytes")
    reader = _Reader(data)
    if reader.take(len(PROGRAM_HEADER)) != PROGRAM_HEADER:
        raise _refuse("not a program of this version", PROGRAM_HEADER, data[: len(PROGRAM_HEADER)], "byte 0")
    chunk_terms, *outputs, nodes, buffers = reader.integers(7)
    if chunk_terms not in CHUNK_TERMS or not (0 <= nodes <= len(data) and 0 <= buffers <= len(data)):
        expected = f"one of {CHUNK_TERMS}, and as many nodes and buffers as the bytes have room for"
        raise _refuse("an impossible head", expected, (chunk_terms, nodes, buffers), "head")
    described = tuple(_decode_buffer(reader) for _ in range(buffers))
    program = Program(chunk_terms, described, (), Outputs(*outputs))
    program = replace(program, nodes=tuple(_decode_node(reader, program) for _ in range(nodes)))
    if reader.offset != len(data):
        raise _refuse("bytes after the last node", reader.offset, len(data), f"byte {reader.offset}")
    require_valid(program)
    return program


def _decode_buffer(reader: _Reader) -> Buffer:
    role, root_bytes = reader.take(2)
    (size,) = reader.integers(1)
    return Buffer(Role(reader.enum(Role, role)), size, reader.take(root_bytes))


def _decode_node(reader: _Reader, program: Program) -> Node:
    operation, loops, reduced, operands = reader.take(4)
    if loops > MAX_LOOPS or reduced > loops or operands > max(OPERAND_COUNTS.values()):
        raise _refuse(
            "a node of this shape", f"at most {MAX_LOOPS} loops", (loops, reduced, operands), "node"
        )
    selected, *sizes = reader.integers(1 + loops)
    output = _decode_access(reader, program, loops - reduced)
    accesses = tuple(_decode_access(reader, program, loops) for _ in range(operands))
    kind = Operation(reader.enum(Operation, operation))
    return Node(kind, tuple(sizes), reduced, output, accesses, selected)


def _decode_access(reader: _Reader, program: Program, loops: int) -> Access:
    """Decodes an access. Its facts about its buffer must equal those in the leaf of buffers."""
    start = reader.offset
    reader.take(2)
    number, _, offset, *strides = reader.integers(3 + loops)
    if not 0 <= number < len(program.buffers):
        raise _refuse("no such buffer", f"0 to {len(program.buffers) - 1}", number, f"byte {start}")
    access = Access(number, offset, tuple(strides))
    expected = encode_access(program, access)
    reader.take(start + len(expected) - reader.offset)
    found = reader.data[start : reader.offset]
    if found != expected:
        raise _refuse("a node contradicts its buffer", expected.hex(), found.hex(), f"byte {start}")
    return access


def _refuse(what: str, expected: object, actual: object, where: str) -> InvalidInput:
    return InvalidInput(
        what=what,
        expected=expected,
        actual=actual,
        where=where,
        remedy="Take the bytes again from another peer; if they are the task's, do not stake on it.",
    )
