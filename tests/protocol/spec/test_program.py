"""Programs: none that is broken, addresses that a contract can follow, and leaves that hold a sum's terms."""

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.program import (
    CHUNK_TERMS,
    INPUTS,
    INTEGER_ROLES,
    MAX_LOOPS,
    Access,
    Buffer,
    Node,
    Outputs,
    Program,
    Role,
    leaf_bytes,
)
from touchstone.protocol.spec.program_addressing import is_run, iterate_terms, locate, unravel
from touchstone.protocol.spec.program_operations import (
    EXACT_OPERATIONS,
    INDEXED,
    OPERAND_COUNTS,
    REDUCTIONS,
    Operation,
)
from touchstone.protocol.spec.program_rules import require_indices, require_step, require_valid

WEIGHTS, FIRST, SECOND, TOKENS, LABELS, SCALARS, TABLE, ROWS, SUMS, LOSS, NEW, COLUMNS = range(12)
BUFFERS = (
    Buffer(Role.WEIGHTS, 12), Buffer(Role.FIRST_MOMENT, 12), Buffer(Role.SECOND_MOMENT, 12),
    Buffer(Role.TOKENS, 4), Buffer(Role.LABELS, 4), Buffer(Role.SCALARS, 3),
    Buffer(Role.CONSTANT, 12, sha256(b"table").digest()),
    Buffer(Role.TENSOR, 12), Buffer(Role.TENSOR, 12), Buffer(Role.TENSOR, 1), Buffer(Role.TENSOR, 12),
    Buffer(Role.TENSOR, 12),
)  # fmt: skip
GATHER = Node(
    Operation.GATHER,
    (4, 3),
    0,
    Access(ROWS, 0, (3, 1)),
    (Access(TOKENS, 0, (1, 0)), Access(WEIGHTS, 0, (0, 1))),
    3,
)
TURNED = Node(Operation.COPY, (3, 4), 0, Access(COLUMNS, 0, (4, 1)), (Access(ROWS, 0, (1, 3)),))
SELECTED = Node(
    Operation.SELECTED_SUM,
    (4, 3, 4),
    1,
    Access(SUMS, 0, (3, 1)),
    (Access(LABELS, 0, (0, 0, 1)), Access(COLUMNS, 0, (0, 4, 1))),
    0,
)
PRODUCTS = Node(
    Operation.PRODUCT_SUM,
    (2, 6),
    2,
    Access(LOSS, 0, ()),
    (Access(SUMS, 0, (6, 1)), Access(TABLE, 11, (0, 0))),
)
MOVED = Node(
    Operation.MULTIPLY, (12,), 0, Access(NEW, 0, (1,)), (Access(SUMS, 0, (1,)), Access(SCALARS, 2, (0,)))
)
PROGRAM = Program(128, BUFFERS, (GATHER, TURNED, SELECTED, PRODUCTS, MOVED), Outputs(LOSS, NEW, SUMS, ROWS))
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


# Programs that are not valid
def refuses(program: Program, message: str) -> None:
    with pytest.raises(InvalidInput, match=f"not a valid program at {message}"):
        require_valid(program)


def test_a_program_may_hold_every_kind_of_node() -> None:
    require_valid(PROGRAM)


def as_step(program: Program, condition: int | None = None, other: int = TABLE) -> Program:
    """With new W and vectors that are finite: each element, or one of `other`. condition: what is looked at
    in the place of the element."""
    outputs, buffers, nodes = program.outputs, [*program.buffers], [*program.nodes]
    made = dict[int, int]()
    for old in (outputs.weights, outputs.first_moment, outputs.second_moment):
        if old not in made:
            made[old], size = len(buffers), buffers[old].size
            buffers.append(Buffer(Role.TENSOR, size))
            looked = Access(old if condition is None else condition, 0, (1,))
            operands = (looked, Access(old, 0, (1,)), Access(other, 0, (0,)))
            output = Access(made[old], 0, (1,))
            nodes.append(Node(Operation.FINITE_SELECT, (size,), 0, output, operands))
    results = (made[one] for one in (outputs.weights, outputs.first_moment, outputs.second_moment))
    return replace(
        program, buffers=tuple(buffers), nodes=tuple(nodes), outputs=Outputs(outputs.loss, *results)
    )


@pytest.mark.parametrize("program, message", [
    (PROGRAM, "node 0: expected FINITE_SELECT"),
    (as_step(PROGRAM, condition=WEIGHTS), "node 5: expected FINITE_SELECT of x, x"),
    (as_step(PROGRAM, other=LOSS), "node 5: expected FINITE_SELECT of x, x and what is given"),
    (replace(PROGRAM, outputs=Outputs(LOSS, NEW, SUMS, SUMS)), "outputs: expected a buffer for each"),
    (with_buffer(SECOND, size=13), "outputs: expected vectors as long as W"),
    (with_buffer(LABELS, size=5), "inputs: expected as many labels as tokens"),
    (with_buffer(SCALARS, size=4), "inputs: expected 3 scalars"),
])  # fmt: skip
def test_a_valid_program_may_be_no_step(program: Program, message: str) -> None:
    require_valid(program)
    require_step(as_step(PROGRAM))
    if not message.startswith("node"):
        program = as_step(program)
    with pytest.raises(InvalidInput, match=f"not a valid program at {message}"):
        require_step(program)


@pytest.mark.parametrize("vocabulary", [4, 5])
def test_every_token_of_the_vocabulary_can_be_read_by(vocabulary: int) -> None:
    """A row of three for each token in twelve weights, and four rows that a label may choose."""
    if vocabulary == 4:
        require_indices(PROGRAM, vocabulary)
        return
    for program in (PROGRAM, replace(PROGRAM, nodes=PROGRAM.nodes[1:])):
        with pytest.raises(InvalidInput, match="a row for each of 5 tokens"):
            require_indices(program, vocabulary)


def with_operand(number: int, place: int, **changes: Any) -> Program:
    operands = list(PROGRAM.nodes[number].operands)
    operands[place] = replace(operands[place], **changes)
    return with_node(number, operands=tuple(operands))


def with_roles(*roles: Role) -> Program:
    """The first buffers with other roles."""
    buffers = tuple(replace(b, role=role) for b, role in zip(PROGRAM.buffers, roles, strict=False))
    return replace(PROGRAM, buffers=(*buffers, *PROGRAM.buffers[len(buffers) :]))


BROKEN: list[tuple[str, Callable[[], Program], str]] = [
    ("chunk length", lambda: replace(PROGRAM, chunk_terms=127), "chunk length"),
    ("empty buffer", lambda: with_buffer(TABLE, size=0), "buffer 6: expected 1 or more"),
    ("vast buffer", lambda: with_buffer(TABLE, size=1 << 41), "buffer 6: expected 1 or more"),
    ("constant without root", lambda: with_buffer(TABLE, constant_root=b""), "buffer 6: expected a root"),
    ("tensor with root", lambda: with_buffer(NEW, constant_root=bytes(32)), "buffer 10: expected a root"),
    ("inputs in another order", lambda: with_roles(
        Role.WEIGHTS, Role.SECOND_MOMENT, Role.FIRST_MOMENT), "inputs: expected buffers 0 to 5"),
    ("an input that is missing", lambda: replace(
        PROGRAM, buffers=PROGRAM.buffers[1:]), "inputs: expected buffers 0 to 5"),
    ("few buffers", lambda: replace(PROGRAM, buffers=PROGRAM.buffers[:5]), "inputs: expected buffers 0 to 5"),
    ("an input twice", lambda: with_buffer(NEW, role=Role.SCALARS), "inputs: expected one buffer"),
    ("terms here and there", lambda: with_operand(2, 1, buffer=ROWS, strides=(0, 1, 3)),
        "node 2: expected terms that lie in one run.*(3,)"),
    ("terms backwards", lambda: with_operand(3, 0, offset=11, strides=(-6, -1)),
        "node 3: expected strides of 0 or more"),
    ("terms in columns", lambda: with_operand(3, 0, strides=(1, 2)),
        "node 3: expected terms that lie in one run"),
    ("terms that repeat in part", lambda: with_operand(3, 0, strides=(0, 1)),
        "node 3: expected terms that lie in one run"),
    ("no loop of 0", lambda: with_node(LAST, sizes=(0,)), "node 4: expected loops of 1"),
    ("reduced where none is", lambda: with_node(
        LAST, reduced=1, output=Access(NEW, 0, ())), "node 4: expected no reduced"),
    ("too few operands", lambda: with_node(
        LAST, operands=MOVED.operands[:1]), "node 4: expected its operands"),
    ("too many operands", lambda: with_node(
        LAST, operands=MOVED.operands[:1] * 3), "node 4: expected its operands"),
    ("no such buffer", lambda: with_first_operand(LAST, buffer=12), "node 4: expected a buffer"),
    ("negative buffer", lambda: with_first_operand(LAST, buffer=-1), "node 4: expected a buffer"),
    ("read past the end", lambda: with_first_operand(LAST, offset=1), "node 4: expected elements"),
    ("read before the start", lambda: with_first_operand(LAST, strides=(-1,)), "node 4: expected strides"),
    ("read at a negative offset", lambda: with_first_operand(
        LAST, offset=-1, strides=(0,)), "node 4: expected elements"),
    ("write past the end", lambda: with_node(
        LAST, output=Access(NEW, 0, (2,))), "node 4: expected elements"),
    ("write to an input", lambda: with_node(
        LAST, output=Access(WEIGHTS, 0, (1,))), "node 4: expected a tensor to write"),
    ("write to a constant", lambda: with_node(
        LAST, output=Access(TABLE, 0, (1,))), "node 4: expected a tensor to write"),
    ("read before writing", lambda: replace(
        PROGRAM, nodes=(TURNED, GATHER, SELECTED, PRODUCTS, MOVED)), "node 0: expected an operand that"),
    ("read oneself", lambda: with_first_operand(LAST, buffer=NEW), "node 4: expected an operand that"),
    ("index as a number", lambda: with_node(
        LAST, sizes=(4,), operands=(Access(TOKENS, 0, (1,)),) * 2), "node 4: expected an index first"),
    ("number as an index", lambda: with_first_operand(0, buffer=WEIGHTS), "node 0: expected an index first"),
    ("index second", lambda: with_node(
        0, operands=(GATHER.operands[0], Access(TOKENS, 0, (0, 1)))), "node 0: expected an index first"),
    ("gather without a stride", lambda: with_node(0, selected=0), "node 0: expected a stride"),
    ("selected loop is summed", lambda: with_node(2, selected=2), "node 2: expected an output loop"),
    ("selected loop is negative", lambda: with_node(2, selected=-1), "node 2: expected an output loop"),
    ("selected without meaning", lambda: with_node(LAST, selected=1), "node 4: expected no selected"),
    ("output is no buffer", lambda: replace(PROGRAM, outputs=Outputs(LOSS, 99, SUMS, ROWS)), "outputs"),
    ("output that nobody writes", lambda: replace(PROGRAM, nodes=PROGRAM.nodes[:-1]), "outputs"),
    ("output that is an input", lambda: replace(
        PROGRAM, outputs=Outputs(LOSS, WEIGHTS, SUMS, ROWS)), "outputs"),
    ("read half written", lambda: replace(PROGRAM, nodes=(
        *PROGRAM.nodes[:2], replace(TURNED, sizes=(3, 2)), *PROGRAM.nodes[2:])), "buffer"),
    ("loss of many elements", lambda: replace(PROGRAM, outputs=Outputs(NEW, NEW, SUMS, ROWS)), "outputs"),
]  # fmt: skip


@pytest.mark.parametrize("make, message", [entry[1:] for entry in BROKEN], ids=[entry[0] for entry in BROKEN])
def test_broken_programs_are_refused(make: Callable[[], Program], message: str) -> None:
    refuses(make(), message)


@pytest.mark.parametrize("operation", sorted(REDUCTIONS - EXACT_OPERATIONS))
@pytest.mark.parametrize("terms, is_valid", [(128, True), (129, False)])
def test_no_reduction_is_longer_than_a_chunk(operation: Operation, terms: int, is_valid: bool) -> None:
    """Findings, M1: of a longer one no proof fits a transaction."""
    program = reduce_many(operation, terms)
    if is_valid:
        require_valid(program)
    else:
        refuses(program, "node 5: expected 128 terms")


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
    assert [int(operation) for operation in Operation] == list(range(1, 24))


# Addresses
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


# Runs and leaves
@pytest.mark.parametrize(
    "strides, sizes, expected",
    [
        ((), (), True),
        ((1,), (5,), True),
        ((0,), (5,), True),
        ((2,), (5,), False),
        ((-1,), (5,), False),
        ((3, 1), (2, 3), True),
        ((0, 0), (2, 3), True),
        ((0, 1), (2, 3), False),
        ((3, 0), (2, 3), False),
        ((1, 2), (2, 3), False),
        ((4, 1), (2, 3), False),
        ((15, 5, 1), (2, 3, 5), True),
    ],
)
def test_a_run_follows_itself_or_stands_still(
    strides: tuple[int, ...], sizes: tuple[int, ...], expected: bool
) -> None:
    assert is_run(strides, sizes) == expected


@pytest.mark.parametrize("chunk_terms, expected", list(zip(CHUNK_TERMS, (512, 2048, 4096), strict=True)))
def test_leaves_are_as_long_as_sums_but_for_states_and_constants(chunk_terms: int, expected: int) -> None:
    program = replace(PROGRAM, chunk_terms=chunk_terms)
    outputs = (PROGRAM.outputs.weights, PROGRAM.outputs.first_moment, PROGRAM.outputs.second_moment)
    small = {WEIGHTS, FIRST, SECOND, TABLE, *outputs}
    for number in range(len(program.buffers)):
        assert leaf_bytes(program, number) == (1024 if number in small else expected)
    assert LOSS not in small and len(INPUTS) == 6


@pytest.mark.parametrize("role", sorted(INTEGER_ROLES))
@pytest.mark.parametrize("chunk_terms", CHUNK_TERMS)
def test_leaves_of_an_exact_program_are_short(chunk_terms: int, role: Role) -> None:
    program = replace(PROGRAM, chunk_terms=chunk_terms, buffers=(*PROGRAM.buffers, Buffer(role, 9)))
    assert program.is_exact and not PROGRAM.is_exact
    leaves = [leaf_bytes(program, number) for number in range(len(program.buffers))]
    assert leaves[:-1] == [
        1024 if bytes_ == 1024 else 512
        for bytes_ in (leaf_bytes(PROGRAM, number) for number in range(len(PROGRAM.buffers)))
    ]
    assert leaves[-1] == 512


def quantize_twice(*roles: Role) -> Program:
    """PROGRAM, and a product of two factors of these kinds, quantized before it."""
    bits = {Role.INTEGER8: 8, Role.INTEGER16: 15, Role.INTEGER32: 20}
    first = len(PROGRAM.buffers)
    buffers = (*PROGRAM.buffers, *(Buffer(role, 12) for role in roles), Buffer(Role.TENSOR, 1))
    scale = Access(SUMS, 0, (0,))
    nodes = [
        Node(
            Operation.QUANTIZE,
            (12,),
            0,
            Access(first + i, 0, (1,)),
            (Access(SUMS, 0, (1,)), scale),
            bits[role],
        )
        for i, role in enumerate(roles)
    ]
    factors = Access(first, 0, (1,)), Access(first + 1, 0, (1,))
    product = Node(
        Operation.QUANTIZED_PRODUCT_SUM, (12,), 1, Access(first + 2, 0, ()), (*factors, scale, scale)
    )
    return replace(PROGRAM, buffers=buffers, nodes=(*PROGRAM.nodes, *nodes, product))


def test_factors_of_a_product_have_as_many_bits() -> None:
    for role in INTEGER_ROLES:
        require_valid(quantize_twice(role, role))
        others = INTEGER_ROLES - {role}
        for other in others:
            refuses(quantize_twice(role, other), "node 7: expected factors of one kind")
