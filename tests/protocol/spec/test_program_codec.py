"""The bytes of programs: one encoding for each, none for what is no program, and a proof for every leaf."""

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocol.spec.test_program import (
    BROKEN,
    LAST,
    LOSS,
    MOVED,
    NEW,
    PROGRAM,
    ROWS,
    SUMS,
    TABLE,
    with_buffer,
    with_first_operand,
    with_node,
)
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.merkle import compute_root, hash_leaf, verify_path
from touchstone.protocol.spec.program import MAX_LOOPS, Access, Node, Outputs, Program, Role
from touchstone.protocol.spec.program_codec import (
    LEAVES_BEFORE_NODES,
    PROGRAM_HEADER,
    compute_program_root,
    decode_program,
    encode_buffers,
    encode_head,
    encode_node,
    encode_program,
    encode_program_leaves,
    open_program_leaf,
)
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.program_rules import require_valid


# Canonical bytes
def test_decoding_undoes_encoding() -> None:
    require_valid(PROGRAM)
    assert decode_program(encode_program(PROGRAM)) == PROGRAM


def pack(*words: int) -> bytes:
    return b"".join(word.to_bytes(8, "big", signed=True) for word in words)


def test_a_node_has_the_bytes_that_the_docstring_tells() -> None:
    """A sum into new weights of a tensor, backwards, times a constant: leaves of 1024, 512 and 1024 bytes."""
    operands = (Access(SUMS, 1, (-1,)), Access(TABLE, 2, (0,)))
    node = Node(Operation.ADD, (2,), 0, Access(NEW, 3, (1,)), operands)
    assert encode_node(replace(PROGRAM, outputs=Outputs(LOSS, NEW, ROWS, ROWS)), node) == b"".join((
        bytes([5, 1, 0, 2]), pack(0, 2),
        bytes([Role.TENSOR, 10]), pack(NEW, 12, 3, 1),
        bytes([Role.TENSOR, 9]), pack(SUMS, 12, 1, -1),
        bytes([Role.CONSTANT, 10]), pack(TABLE, 12, 2, 0), PROGRAM.buffers[TABLE].constant_root,
    ))  # fmt: skip


def test_the_head_and_the_buffers_have_the_bytes_that_the_docstrings_tell() -> None:
    assert encode_head(PROGRAM) == b"touchstone.program\x02" + pack(128, LOSS, NEW, SUMS, ROWS, 5, 12)
    root = PROGRAM.buffers[TABLE].constant_root
    described = [
        bytes([role, 0]) + pack(size) for role, size in zip(range(1, 7), (12, 12, 12, 4, 4, 3), strict=True)
    ]
    described += [bytes([7, 32]) + pack(12) + root]
    described += [bytes([8, 0]) + pack(size) for size in (12, 12, 1, 12, 12)]
    assert encode_buffers(PROGRAM) == b"".join(described)


def test_the_root_is_the_merkle_root_of_head_buffers_and_nodes() -> None:
    nodes = [encode_node(PROGRAM, node) for node in PROGRAM.nodes]
    pieces = [encode_head(PROGRAM), encode_buffers(PROGRAM), *nodes]
    assert compute_program_root(PROGRAM) == compute_root([hash_leaf(piece) for piece in pieces])
    assert encode_program_leaves(PROGRAM) == pieces and encode_program(PROGRAM) == b"".join(pieces)


def test_every_leaf_opens() -> None:
    root, count = compute_program_root(PROGRAM), LEAVES_BEFORE_NODES + len(PROGRAM.nodes)
    for index in range(count):
        data, path = open_program_leaf(PROGRAM, index)
        verify_path(root, hash_leaf(data), index, count, path)
    assert data == encode_node(PROGRAM, PROGRAM.nodes[-1])
    for index in (-1, count):
        with pytest.raises(InvalidInput, match="no such leaf"):
            open_program_leaf(PROGRAM, index)


def list_changes() -> list[Program]:
    """One change to each number that a program holds."""
    changed = [replace(PROGRAM, chunk_terms=512), replace(PROGRAM, nodes=PROGRAM.nodes[:-1])]
    changed += [replace(PROGRAM, nodes=PROGRAM.nodes[::-1])]
    for field in fields(Outputs):
        changed.append(replace(PROGRAM, outputs=replace(PROGRAM.outputs, **{field.name: 0})))
    changed += [with_buffer(LOSS, size=2), with_buffer(LOSS, role=Role.WEIGHTS)]
    changed += [with_buffer(TABLE, constant_root=bytes(32)), with_node(LAST, selected=1)]
    changed += [with_node(LAST, operation=Operation.ADD), with_node(LAST, sizes=(11,))]
    changed += [with_node(3, reduced=1), with_node(LAST, operands=MOVED.operands[::-1])]
    moves: list[dict[str, Any]] = [{"buffer": ROWS}, {"offset": 1}, {"strides": (2,)}]
    for move in moves:
        changed.append(with_first_operand(LAST, **move))
        changed.append(with_node(LAST, output=replace(MOVED.output, **move)))
    return changed


def test_any_change_changes_the_root() -> None:
    programs = [PROGRAM, *list_changes()]
    assert len(set(map(compute_program_root, programs))) == len(programs) == 22


# Bytes that are no program
BYTES = encode_program(PROGRAM)
COUNTS = len(PROGRAM_HEADER) + 8 * 5
"""Where the number of nodes stands; that of buffers follows, then the buffers."""
NODES = len(encode_head(PROGRAM)) + len(encode_buffers(PROGRAM))
"""Where the first node stands."""
OUTPUT = NODES + 4 + 8 * (1 + len(PROGRAM.nodes[0].sizes))
"""Where its output stands."""


@given(st.integers(0, len(BYTES) - 1))
def test_truncated_bytes_are_refused(length: int) -> None:
    with pytest.raises(InvalidInput, match="the bytes end early|not a program of this version"):
        decode_program(BYTES[:length])


@given(st.binary(min_size=1, max_size=40))
def test_trailing_bytes_are_refused(rest: bytes) -> None:
    with pytest.raises(InvalidInput, match="bytes after the last node"):
        decode_program(BYTES + rest)


def put(offset: int, value: bytes) -> bytes:
    return BYTES[:offset] + value + BYTES[offset + len(value) :]


@pytest.mark.parametrize(
    "data, message",
    [
        (put(0, b"T"), "not a program of this version"),
        (put(len(PROGRAM_HEADER) - 1, b"\x01"), "not a program of this version"),
        (put(COUNTS - 40, bytes(8)), "an impossible head"),
        (put(COUNTS - 40, (127).to_bytes(8, "big")), "an impossible head"),
        (put(COUNTS, (-1).to_bytes(8, "big", signed=True)), "an impossible head"),
        (put(COUNTS, (1 << 16 | 1).to_bytes(8, "big")), "an impossible head"),
        (put(COUNTS + 8, (1 << 16 | 1).to_bytes(8, "big")), "an impossible head"),
        (put(COUNTS + 16, b"\x00"), "an unknown number.*a Role"),
        (put(COUNTS + 16, bytes([max(Role) + 1])), "an unknown number.*a Role"),
        (put(NODES, b"\x00"), "an unknown number.*an? Operation"),
        (put(NODES, bytes([max(Operation) + 1])), "an unknown number.*an? Operation"),
        (put(NODES + 1, bytes([MAX_LOOPS + 1])), "a node of this shape"),
        (put(NODES + 2, b"\x03"), "a node of this shape"),
        (put(NODES + 3, b"\x05"), "a node of this shape"),
        (put(OUTPUT, bytes([Role.CONSTANT])), "a node contradicts its buffer"),
        (put(OUTPUT + 1, b"\x09"), "a node contradicts its buffer"),
        (put(OUTPUT + 2, (12).to_bytes(8, "big")), "no such buffer"),
        (put(OUTPUT + 2, (-1).to_bytes(8, "big", signed=True)), "no such buffer"),
        (put(OUTPUT + 2, LOSS.to_bytes(8, "big")), "a node contradicts its buffer"),
        (put(OUTPUT + 10, (13).to_bytes(8, "big")), "a node contradicts its buffer"),
        (put(len(BYTES) - 8 * 3, (4).to_bytes(8, "big")), "a node contradicts its buffer"),
    ],
)
def test_malformed_bytes_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        decode_program(data)


@given(st.integers(0, len(BYTES) - 1), st.integers(1, 255))
def test_flipped_bytes_are_refused_or_another_program(place: int, difference: int) -> None:
    changed = put(place, bytes([BYTES[place] ^ difference]))
    try:
        program = decode_program(changed)
    except InvalidInput:
        return
    assert encode_program(program) == changed and program != PROGRAM


def refuses(program: Program, message: str) -> None:
    with pytest.raises(InvalidInput, match=f"not a valid program at {message}"):
        decode_program(encode_program(program))


@pytest.mark.parametrize("make", [entry[1] for entry in BROKEN], ids=[entry[0] for entry in BROKEN])
def test_bytes_of_broken_programs_are_refused(make: Any) -> None:
    """Where they can be written at all."""
    try:
        data = encode_program(make())
    except IndexError:
        return
    with pytest.raises(InvalidInput):
        decode_program(data)


def test_a_constant_stands_with_its_root_in_every_node_that_reads_it() -> None:
    root = PROGRAM.buffers[TABLE].constant_root
    assert BYTES.count(root) == 2
    place = BYTES.rindex(root)
    with pytest.raises(InvalidInput, match="a node contradicts its buffer"):
        decode_program(put(place, bytes([root[0] ^ 1])))
