"""Programs: one encoding for each, none for a broken one, and addresses that a contract can follow."""

from collections.abc import Callable
from dataclasses import fields, replace
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.spec.errors import InvalidInput
from protocol.spec.merkle import compute_root, hash_leaf
from protocol.spec.program import (
    INDEXED,
    MAX_LOOPS,
    OPERAND_COUNTS,
    PROGRAM_HEADER,
    REDUCTIONS,
    Access,
    Buffer,
    Node,
    Operation,
    Outputs,
    Program,
    Role,
    compute_program_root,
    decode_program,
    encode_head,
    encode_node,
    encode_program,
    iterate_terms,
    locate,
    require_valid,
    unravel,
)

WEIGHTS, FIRST, SECOND, TOKENS, LABELS, SCALARS, TABLE, ROWS, SUMS, LOSS, NEW = range(11)
BUFFERS = (
    Buffer(Role.WEIGHTS, 12), Buffer(Role.FIRST_MOMENT, 12), Buffer(Role.SECOND_MOMENT, 12),
    Buffer(Role.TOKENS, 4), Buffer(Role.LABELS, 4), Buffer(Role.SCALARS, 3),
    Buffer(Role.CONSTANT, 12, sha256(b"table").digest()),
    Buffer(Role.TENSOR, 12), Buffer(Role.TENSOR, 12), Buffer(Role.TENSOR, 1), Buffer(Role.TENSOR, 12),
)  # fmt: skip
GATHER = Node(
    Operation.GATHER,
    (4, 3),
    0,
    Access(ROWS, 0, (3, 1)),
    (Access(TOKENS, 0, (1, 0)), Access(WEIGHTS, 0, (0, 1))),
    3,
)
SELECTED = Node(
    Operation.SELECTED_SUM,
    (4, 3, 4),
    1,
    Access(SUMS, 0, (3, 1)),
    (Access(LABELS, 0, (0, 0, 1)), Access(ROWS, 0, (0, 1, 3))),
    0,
)
PRODUCTS = Node(
    Operation.PRODUCT_SUM,
    (2, 6),
    2,
    Access(LOSS, 0, ()),
    (Access(SUMS, 0, (6, 1)), Access(TABLE, 11, (-6, -1))),
)
MOVED = Node(
    Operation.MULTIPLY, (12,), 0, Access(NEW, 0, (1,)), (Access(SUMS, 0, (1,)), Access(SCALARS, 2, (0,)))
)
PROGRAM = Program(128, BUFFERS, (GATHER, SELECTED, PRODUCTS, MOVED), Outputs(LOSS, NEW, SUMS, ROWS))
LAST = len(PROGRAM.nodes) - 1


def with_node(number: int, **changes: Any) -> Program:
    nodes = list(PROGRAM.nodes)
    nodes[number] = replace(nodes[number], **changes)
    return replace(PROGRAM, nodes=tuple(nodes))


def with_buffer(number: int, **changes: Any) -> Program:
    buffers = list(PROGRAM.buffers)
    buffers[number] = replace(buffers[number], **changes)
    return replace(PROGRAM, buffers=tuple(buffers))


def with_first_operand(number: int, **changes: Any) -> Program:
    first, *rest = PROGRAM.nodes[number].operands
    return with_node(number, operands=(replace(first, **changes), *rest))


# --- Canonical bytes ----------------------------------------------------------------------------------------
def test_decoding_undoes_encoding() -> None:
    require_valid(PROGRAM)
    assert decode_program(encode_program(PROGRAM)) == PROGRAM


def test_a_node_has_the_bytes_that_the_docstring_tells() -> None:
    node = Node(Operation.ADD, (2,), 0, Access(7, 1, (1,)), (Access(0, 0, (-1,)), Access(5, 2, (0,))))
    words = (0, 2, 7, 1, 1, 0, 0, -1, 5, 2, 0)
    assert encode_node(node) == bytes([5, 1, 0, 2]) + b"".join(
        w.to_bytes(8, "big", signed=True) for w in words
    )


def test_the_root_is_the_merkle_root_of_head_and_nodes() -> None:
    pieces = [encode_head(PROGRAM), *map(encode_node, PROGRAM.nodes)]
    assert compute_program_root(PROGRAM) == compute_root([hash_leaf(piece) for piece in pieces])
    assert encode_program(PROGRAM) == b"".join(pieces)


def list_changes() -> list[Program]:
    """One change to each number that a program holds."""
    changed = [replace(PROGRAM, chunk_terms=512), replace(PROGRAM, nodes=PROGRAM.nodes[:-1])]
    changed += [replace(PROGRAM, nodes=PROGRAM.nodes[::-1])]
    for field in fields(Outputs):
        changed.append(replace(PROGRAM, outputs=replace(PROGRAM.outputs, **{field.name: 0})))
    changed += [with_buffer(LOSS, size=2), with_buffer(LOSS, role=Role.WEIGHTS)]
    changed += [with_buffer(TABLE, constant_root=bytes(32)), with_node(LAST, selected=1)]
    changed += [with_node(LAST, operation=Operation.ADD), with_node(LAST, sizes=(11,))]
    changed += [with_node(2, reduced=1), with_node(LAST, operands=MOVED.operands[::-1])]
    moves: list[dict[str, Any]] = [{"buffer": ROWS}, {"offset": 1}, {"strides": (2,)}]
    for move in moves:
        changed.append(with_first_operand(LAST, **move))
        changed.append(with_node(LAST, output=replace(MOVED.output, **move)))
    return changed


def test_any_change_changes_the_root() -> None:
    programs = [PROGRAM, *list_changes()]
    assert len(set(map(compute_program_root, programs))) == len(programs) == 22


# --- Bytes that are no program ------------------------------------------------------------------------------
BYTES = encode_program(PROGRAM)
HEAD = len(encode_head(PROGRAM))
COUNTS = len(PROGRAM_HEADER) + 8 * 5
"""Where the number of nodes stands; that of buffers follows."""


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
        (put(len(PROGRAM_HEADER) - 1, b"\x02"), "not a program of this version"),
        (put(COUNTS, (-1).to_bytes(8, "big", signed=True)), "a program this large"),
        (put(COUNTS, (1 << 16 | 1).to_bytes(8, "big")), "a program this large"),
        (put(COUNTS + 8, (1 << 16 | 1).to_bytes(8, "big")), "a program this large"),
        (put(COUNTS + 16, b"\x00"), "an unknown number.*a Role"),
        (put(COUNTS + 16, b"\x09"), "an unknown number.*a Role"),
        (put(HEAD, b"\x00"), "an unknown number.*an? Operation"),
        (put(HEAD, bytes([max(Operation) + 1])), "an unknown number.*an? Operation"),
        (put(HEAD + 1, bytes([MAX_LOOPS + 1])), "a node of this shape"),
        (put(HEAD + 2, b"\x03"), "a node of this shape"),
        (put(HEAD + 3, b"\x04"), "a node of this shape"),
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


# --- Programs that are not valid ----------------------------------------------------------------------------
BROKEN: list[tuple[str, Callable[[], Program], str]] = [
    ("chunk length", lambda: replace(PROGRAM, chunk_terms=127), "chunk length"),
    ("empty buffer", lambda: with_buffer(TABLE, size=0), "buffer 6: expected 1 or more"),
    ("vast buffer", lambda: with_buffer(TABLE, size=1 << 41), "buffer 6: expected 1 or more"),
    ("constant without root", lambda: with_buffer(TABLE, constant_root=b""), "buffer 6: expected a root"),
    ("tensor with root", lambda: with_buffer(NEW, constant_root=bytes(32)), "buffer 10: expected a root"),
    ("no loop of 0", lambda: with_node(LAST, sizes=(0,)), "node 3: expected loops of 1"),
    ("reduced where none is", lambda: with_node(
        LAST, reduced=1, output=Access(NEW, 0, ())), "node 3: expected no reduced"),
    ("too few operands", lambda: with_node(
        LAST, operands=MOVED.operands[:1]), "node 3: expected its operands"),
    ("too many operands", lambda: with_node(
        LAST, operands=MOVED.operands[:1] * 3), "node 3: expected its operands"),
    ("no such buffer", lambda: with_first_operand(LAST, buffer=11), "node 3: expected a buffer"),
    ("negative buffer", lambda: with_first_operand(LAST, buffer=-1), "node 3: expected a buffer"),
    ("read past the end", lambda: with_first_operand(LAST, offset=1), "node 3: expected elements"),
    ("read before the start", lambda: with_first_operand(LAST, strides=(-1,)), "node 3: expected elements"),
    ("read at a negative offset", lambda: with_first_operand(
        LAST, offset=-1, strides=(0,)), "node 3: expected elements"),
    ("write past the end", lambda: with_node(
        LAST, output=Access(NEW, 0, (2,))), "node 3: expected elements"),
    ("write to an input", lambda: with_node(
        LAST, output=Access(WEIGHTS, 0, (1,))), "node 3: expected a tensor to write"),
    ("write to a constant", lambda: with_node(
        LAST, output=Access(TABLE, 0, (1,))), "node 3: expected a tensor to write"),
    ("read before writing", lambda: replace(
        PROGRAM, nodes=(SELECTED, GATHER, PRODUCTS, MOVED)), "node 0: expected an operand written"),
    ("read oneself", lambda: with_first_operand(LAST, buffer=NEW), "node 3: expected an operand written"),
    ("index as a number", lambda: with_node(
        LAST, sizes=(4,), operands=(Access(TOKENS, 0, (1,)),) * 2), "node 3: expected an index first"),
    ("number as an index", lambda: with_first_operand(0, buffer=WEIGHTS), "node 0: expected an index first"),
    ("index second", lambda: with_node(
        0, operands=(GATHER.operands[0], Access(TOKENS, 0, (0, 1)))), "node 0: expected an index first"),
    ("gather without a stride", lambda: with_node(0, selected=0), "node 0: expected a stride"),
    ("selected loop is summed", lambda: with_node(1, selected=2), "node 1: expected an output loop"),
    ("selected loop is negative", lambda: with_node(1, selected=-1), "node 1: expected an output loop"),
    ("selected without meaning", lambda: with_node(LAST, selected=1), "node 3: expected no selected"),
    ("output is no buffer", lambda: replace(PROGRAM, outputs=Outputs(LOSS, 99, SUMS, ROWS)), "outputs"),
    ("output that nobody writes", lambda: replace(PROGRAM, nodes=PROGRAM.nodes[:-1]), "outputs"),
    ("output that is an input", lambda: replace(
        PROGRAM, outputs=Outputs(LOSS, WEIGHTS, SUMS, ROWS)), "outputs"),
    ("loss of many elements", lambda: replace(PROGRAM, outputs=Outputs(NEW, NEW, SUMS, ROWS)), "outputs"),
]  # fmt: skip


@pytest.mark.parametrize("make, message", [entry[1:] for entry in BROKEN], ids=[entry[0] for entry in BROKEN])
def test_broken_programs_are_refused(make: Callable[[], Program], message: str) -> None:
    refuses(make(), message)


@pytest.mark.parametrize("operation", sorted(REDUCTIONS - {Operation.MAXIMUM_OF}))
@pytest.mark.parametrize("terms, is_valid", [(128, True), (129, False)])
def test_no_sum_is_longer_than_a_chunk(operation: Operation, terms: int, is_valid: bool) -> None:
    program = reduce_many(operation, terms)
    if is_valid:
        require_valid(program)
    else:
        refuses(program, "node 4: expected 128 terms")


def test_a_maximum_may_be_longer_than_a_chunk() -> None:
    require_valid(reduce_many(Operation.MAXIMUM_OF, 100_000))


def reduce_many(operation: Operation, terms: int) -> Program:
    """PROGRAM and one reduction over one element, read again and again."""
    first = Access(LABELS if operation in INDEXED else SUMS, 0, (0, 0))
    operands = (first, Access(SUMS, 0, (0, 0)))[: OPERAND_COUNTS[operation]]
    buffers = (*PROGRAM.buffers, Buffer(Role.TENSOR, 1))
    node = Node(operation, (1, terms), 1, Access(len(PROGRAM.buffers), 0, (0,)), operands)
    return replace(PROGRAM, buffers=buffers, nodes=(*PROGRAM.nodes, node))


def test_nine_loops_are_refused_even_undecoded() -> None:
    strides = (0,) * MAX_LOOPS
    node = replace(MOVED, sizes=(1,) * (MAX_LOOPS + 1), output=Access(NEW, 0, (*strides, 1)))
    with pytest.raises(InvalidInput, match="at most 8 loops"):
        require_valid(replace(PROGRAM, nodes=(*PROGRAM.nodes, node)))


@pytest.mark.parametrize("change", [{"strides": (1, 1)}, {"strides": ()}])
def test_strides_are_as_many_as_loops(change: dict[str, Any]) -> None:
    for program in (with_first_operand(LAST, **change), with_node(LAST, output=Access(NEW, 0, **change))):
        with pytest.raises(InvalidInput, match="expected 1 strides"):
            require_valid(program)


def test_every_operation_has_a_number_of_operands() -> None:
    assert set(OPERAND_COUNTS) == set(Operation) and set(Operation) >= REDUCTIONS | INDEXED
    assert [int(operation) for operation in Operation] == list(range(1, 20))


# --- Addresses ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "number, sizes, indices",
    [
        (0, (), ()),
        (0, (3,), (0,)),
        (5, (2, 3), (1, 2)),
        (4, (2, 1, 3), (1, 0, 1)),
        (23, (2, 3, 4), (1, 2, 3)),
    ],
)
def test_the_last_loop_runs_fastest(number: int, sizes: tuple[int, ...], indices: tuple[int, ...]) -> None:
    assert unravel(number, sizes) == indices


def test_an_element_lies_at_offset_and_strides() -> None:
    assert locate(Access(0, 7, ()), ()) == 7
    assert locate(Access(0, 7, (10, -1, 0)), (2, 3, 5)) == 7 + 20 - 3
    with pytest.raises(ValueError):
        locate(Access(0, 7, (10, 1)), (2,))


def test_terms_of_an_element_follow_the_reduced_loops() -> None:
    node = Node(
        Operation.PRODUCT_SUM, (2, 3, 2, 2), 2, Access(2, 0, (3, 1)),
        (Access(0, 5, (100, 0, 10, 1)), Access(1, 0, (0, 7, -1, 2))),
    )  # fmt: skip
    assert (node.output_sizes, node.reduced_sizes, node.elements, node.terms) == ((2, 3), (2, 2), 6, 4)
    assert list(iterate_terms(node, 4)) == [  # output element 4 is (1, 1)
        ((1, 1, 0, 0), (105, 7)),
        ((1, 1, 0, 1), (106, 9)),
        ((1, 1, 1, 0), (115, 6)),
        ((1, 1, 1, 1), (116, 8)),
    ]


def test_an_elementwise_operation_has_one_term() -> None:
    assert MOVED.terms == 1 and MOVED.reduced_sizes == () and MOVED.elements == 12
    assert list(iterate_terms(MOVED, 4)) == [((4,), (4, 2))]
