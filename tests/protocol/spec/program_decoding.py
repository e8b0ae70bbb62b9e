"""Bytes of a program read back: what shows that no two byte strings are one program. A contract reads single
nodes (`contracts/libraries`)."""

from dataclasses import replace

from protocol.spec.codec import PROGRAM_HEADER, encode_access, encode_program_leaves
from protocol.spec.errors import InvalidInput
from protocol.spec.program import (
    MAX_LOOPS,
    OPERAND_COUNTS,
    Access,
    Buffer,
    Node,
    Operation,
    Outputs,
    Program,
    Role,
    require_valid,
)

MAX_NODES = 1 << 16
MAX_BUFFERS = 1 << 16


def encode_program(program: Program) -> bytes:
    """Canonical bytes: the leaves one after another."""
    return b"".join(encode_program_leaves(program))


class _Reader:
    """Takes integers and pieces off encoded bytes; refuses to read past the end."""

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
    """Inverse of encode_program. Raises InvalidInput on any bytes that are not the encoding of a valid
    program."""
    reader = _Reader(data)
    if reader.take(len(PROGRAM_HEADER)) != PROGRAM_HEADER:
        raise _refuse("not a program of this version", PROGRAM_HEADER, data[: len(PROGRAM_HEADER)], "byte 0")
    chunk_terms, *outputs, nodes, buffers = reader.integers(7)
    if not (0 <= nodes <= MAX_NODES and 0 <= buffers <= MAX_BUFFERS):
        raise _refuse("a program this large", f"at most {MAX_NODES} nodes", (nodes, buffers), "head")
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
    """Whatever it says of the buffer must be what the buffers' leaf says."""
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
        remedy="Use the program that the task's spec gives (compute/program/task_program.py builds it).",
    )
