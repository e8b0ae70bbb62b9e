"""Makes the cases of tests/vectors/node.json."""

from dataclasses import replace
from typing import Any

from tools.vectors.fixed_values import number, word
from tools.vectors.table import Table
from touchstone.protocol.spec.program import (
    CHUNK_TERMS,
    Access,
    Buffer,
    Node,
    Outputs,
    Program,
    Role,
    leaf_bytes,
)
from touchstone.protocol.spec.program_addressing import iterate_terms, lay_row_major
from touchstone.protocol.spec.program_codec import encode_node
from touchstone.protocol.spec.program_operations import Operation


def node_tables() -> dict[str, Table]:
    """Returns nodes with every kind of access, and the runs of some of their elements; and bytes that are no
    node."""
    table = Table()
    for name, program in [*_hand_made(), *map(_random_program, range(24))]:
        (node,) = program.nodes
        for element in sorted({0, node.elements - 1, number(f"element/{name}", node.elements)}):
            _add(table, f"{name}, element {element}", program, element)
    return {"nodes": table, "refusedNodes": _refused()}


def _add(table: Table, name: str, program: Program, element: int) -> None:
    (node,) = program.nodes
    terms = list(iterate_terms(node, element))
    runs = [_output_run(node, element), *map(_run, zip(*(elements for _, elements in terms), strict=True))]
    touched = [access.buffer for access in (node.output, *node.operands)]
    buffers = [program.buffers[buffer] for buffer in touched]
    compares = node.operation in (Operation.SELECTED_SUM, Operation.EQUAL_SELECT)
    cells: dict[str, Any] = {
        "data": encode_node(program, node),
        "element": element,
        "operation": int(node.operation),
        "terms": len(terms),
        "selected": node.selected,
        "selectedIndex": terms[0][0][node.selected] if compares else 0,
        "selectedSize": node.sizes[node.selected] if compares else 0,
        "role": [int(buffer.role) for buffer in buffers],
        "leafBytes": [leaf_bytes(program, buffer) for buffer in touched],
        "buffer": touched,
        "size": [buffer.size for buffer in buffers],
        "start": [start for start, _ in runs],
        "length": [length for _, length in runs],
        "constantRoot": [buffer.constant_root or bytes(32) for buffer in buffers],
    }
    table.add(name, **cells)


def _output_run(node: Node, element: int) -> tuple[int, int]:
    """Returns the output's run by the definition of a loop nest, one element after another."""
    copy = Node(Operation.COPY, node.output_sizes, 0, node.output, (node.output,))
    ((_, (start,)),) = iterate_terms(copy, element)
    return start, 1


def _run(elements: tuple[int, ...]) -> tuple[int, int]:
    """Returns start and length of the run of an operand's terms."""
    start = elements[0]
    if set(elements) == {start}:
        return start, 1
    assert elements == tuple(range(start, start + len(elements)))
    return start, len(elements)


W, V, TOKENS, SCALARS, TABLE, A, B, LOSS, NEW_W = 0, 2, 3, 5, 6, 7, 8, 9, 10
BYTES, PAIRS, WORDS = 13, 14, 15
BUFFERS = (
    Buffer(Role.WEIGHTS, 4000),
    Buffer(Role.FIRST_MOMENT, 4000),
    Buffer(Role.SECOND_MOMENT, 1 << 40),
    Buffer(Role.TOKENS, 64),
    Buffer(Role.LABELS, 64),
    Buffer(Role.SCALARS, 3),
    Buffer(Role.CONSTANT, 256, word("node/constant")),
    Buffer(Role.TENSOR, 5000),
    Buffer(Role.TENSOR, 1 << 40),
    Buffer(Role.TENSOR, 1),
    Buffer(Role.TENSOR, 4000),
    Buffer(Role.TENSOR, 4000),
    Buffer(Role.TENSOR, 4000),
    Buffer(Role.INTEGER8, 20_000),
    Buffer(Role.INTEGER16, 1 << 40),
    Buffer(Role.INTEGER32, 5000),
)
"""The buffers of the nodes made by hand, whose numbers are above."""


def _program(node: Node, chunk_terms: int, buffers: tuple[Buffer, ...] = BUFFERS) -> Program:
    return Program(chunk_terms, buffers, (node,), Outputs(LOSS, NEW_W, NEW_W + 1, NEW_W + 2))


def _hand_made() -> list[tuple[str, Program]]:
    def node(
        operation: Operation, sizes: tuple[int, ...], reduced: int, *accesses: Access, selected: int = 0
    ) -> Node:
        return Node(operation, sizes, reduced, accesses[0], accesses[1:], selected)

    cases = {
        "a product": node(
            Operation.PRODUCT_SUM, (5, 3, 128), 1,
            Access(A, 2, (3, 1)), Access(B, 40, (128, 0, 1)), Access(W, 384, (0, -128, 1)),
        ),
        "a scalar in every term": node(
            Operation.PRODUCT_SUM, (6, 4), 1,
            Access(A, 0, (1,)), Access(B, 0, (4, 1)), Access(SCALARS, 1, (0, 0)),
        ),
        "three reduced loops": node(
            Operation.SUM, (4, 2, 3, 8), 3, Access(A, 3, (-1,)), Access(B, 7, (60, 24, 8, 1)),
        ),
        "a loop of one turn inside": node(
            Operation.SUM, (2, 7, 1), 2, Access(A, 0, (1,)), Access(B, 3, (7, 1, 1)),
        ),
        "everything reduced": node(
            Operation.MAXIMUM_OF, (300,), 1, Access(LOSS, 0, ()), Access(A, 100, (1,)),
        ),
        "no loops at all": node(
            Operation.ADD, (), 0, Access(LOSS, 0, ()), Access(A, 4999, ()), Access(TABLE, 17, ()),
        ),
        "a lookup": node(
            Operation.GATHER, (9, 16), 0,
            Access(A, 0, (16, 1)), Access(TOKENS, 8, (1, 0)), Access(W, 0, (0, 1)), selected=16,
        ),
        "a sum over equal indices": node(
            Operation.SELECTED_SUM, (11, 16, 32), 1,
            Access(B, 0, (16, 1)), Access(TOKENS, 32, (0, 0, 1)), Access(A, 64, (0, 32, 1)),
        ),
        "one of two": node(
            Operation.EQUAL_SELECT, (32, 5), 0,
            Access(B, 9, (5, 1)), Access(TOKENS, 32, (1, 0)), Access(A, 0, (5, 1)), Access(TABLE, 3, (0, 0)),
            selected=1,
        ),
        "three constants": node(
            Operation.FINITE_SELECT, (2, 2), 0,
            Access(A, 0, (2, 1)),
            Access(TABLE, 0, (1, 0)), Access(TABLE, 1, (0, 1)), Access(TABLE, 2, (2, 3)),
        ),
        "turned round": node(
            Operation.COPY, (40, 100), 0, Access(NEW_W, 0, (100, 1)), Access(A, 0, (1, 40)),
        ),
        "far away": node(
            Operation.SQUARE_ROOT, (1 << 20, 1 << 19), 0,
            Access(B, 0, (1 << 19, 1)), Access(V, (1 << 40) - 1, (-(1 << 19), -1)),
        ),
        "scales of rows": node(
            Operation.SCALE_OF, (7, 5, 100), 1,
            Access(A, 11, (5, 1)), Access(W, 3500, (-500, 100, 1)), selected=15,
        ),
        "quantized bytes": node(
            Operation.QUANTIZE, (30, 600), 0,
            Access(BYTES, 1, (600, 1)), Access(B, 9, (600, 1)), Access(A, 0, (1, 0)), selected=8,
        ),
        "quantized words": node(
            Operation.QUANTIZE, (5, 1000), 0,
            Access(WORDS, 0, (1000, 1)), Access(B, 9, (1000, 1)), Access(A, 0, (1, 0)), selected=20,
        ),
        "a product of quantized pairs": node(
            Operation.QUANTIZED_PRODUCT_SUM, (5, 3, 128), 1,
            Access(A, 2, (3, 1)), Access(PAIRS, (1 << 40) - 640, (128, 0, 1)), Access(PAIRS, 7, (0, 128, 1)),
            Access(B, 40, (1, 0, 0)), Access(TABLE, 50, (0, -1, 0)),
        ),
        "a quantized factor in every term": node(
            Operation.QUANTIZED_PRODUCT_SUM, (9, 2, 30), 2,
            Access(A, 0, (1,)), Access(BYTES, 8000, (-60, 30, 1)), Access(BYTES, 3, (1, 0, 0)),
            Access(B, 0, (1, 0, 0)), Access(B, 5, (0, 0, 0)),
        ),
    }  # fmt: skip
    return [(name, _program(case, CHUNK_TERMS[i % 3])) for i, (name, case) in enumerate(cases.items())]


def _random_program(case: int) -> tuple[str, Program]:
    """Returns one node with any loops and any strides; its output is the last buffer."""
    label = f"node/{case}"
    operation = list(Operation)[number(f"{label}/operation", 4)]
    loops = 1 + number(f"{label}/loops", 8)
    reduced = 1 + number(f"{label}/reduced", min(loops, 3))
    sizes = tuple(1 + number(f"{label}/size/{i}", 6) for i in range(loops))
    outer = loops - reduced
    if operation is Operation.SELECTED_SUM and not outer:
        operation = Operation.PRODUCT_SUM
    operands = 2 if operation in (Operation.PRODUCT_SUM, Operation.SELECTED_SUM) else 1
    accesses = tuple(_random_access(f"{label}/{place}", place, sizes, outer) for place in range(operands))
    output = _random_access(f"{label}/output", operands, sizes[:outer], outer)
    buffers = tuple(_random_buffer(f"{label}/{place}") for place in range(operands))
    selected = number(f"{label}/selected", outer) if operation is Operation.SELECTED_SUM else 0
    node = Node(operation, sizes, reduced, output, accesses, selected)
    chunk_terms = CHUNK_TERMS[number(f"{label}/chunk", 3)]
    return f"random {case}", _program(node, chunk_terms, (*buffers, Buffer(Role.TENSOR, 1 << 20)))


def _random_access(label: str, buffer: int, sizes: tuple[int, ...], outer: int) -> Access:
    isolated = number(f"{label}/step", 3) == 0  # One element for all terms; else a run.
    run = [0 if isolated else stride for stride in lay_row_major(sizes[outer:])]
    strides = (*(number(f"{label}/stride/{i}", 2001) - 1000 for i in range(outer)), *run)
    # No element lies before the first one of the buffer.
    below = sum(min(0, (size - 1) * stride) for size, stride in zip(sizes, strides, strict=True))
    return Access(buffer, number(f"{label}/offset", 100) - below, strides)


def _random_buffer(label: str) -> Buffer:
    role = list(Role)[number(f"{label}/role", 8)]
    return Buffer(role, 1 << 20, word(f"{label}/root") if role is Role.CONSTANT else b"")


def _refused() -> Table:
    table = Table()
    _, program = _hand_made()[0]
    (node,) = program.nodes
    whole = encode_node(program, node)

    def put(place: int, value: int, length: int = 1) -> bytes:
        return whole[:place] + value.to_bytes(length, "big") + whole[place + length :]

    lengths = (0, 4, 11, 12, 36, 62, len(whole) - 1)
    cases = [(f"the first {length} bytes", whole[:length]) for length in lengths]
    cases += _unsound_quantized() + [
        ("a byte more", whole + b"\0"),
        ("no operation", put(0, 0)),
        ("an unknown operation", put(0, 24)),
        ("reduced loops of an elementwise operation", put(0, Operation.ADD)),
        ("nine loops", put(1, 9)),
        ("more reduced loops than loops", put(2, 4)),
        ("an operand too few", put(3, 1)),
        ("an operand too many", put(3, 3)),
        ("a loop of no turns", put(20, 0, 8)),
        ("a sum of 4097 terms", put(28, 4097, 8)),
        ("a sum of 2^63 terms", put(28, 1 << 63, 8)),
        ("terms that lie apart", put(len(whole) - 8, 2, 8)),
        ("terms that run backwards", put(len(whole) - 8, (1 << 64) - 1, 8)),
        ("leaves of 256 bytes", put(37, 8)),
        ("leaves of 8192 bytes", put(37, 13)),
        ("a tensor shown as a constant", put(36, Role.CONSTANT)),
    ]
    for name, data in cases:
        table.add(name, data=data, element=0)
    table.add("an element beyond the last", data=whole, element=node.elements)
    table.add("an element far beyond", data=whole, element=(1 << 256) - 1)
    return table


def _unsound_quantized() -> list[tuple[str, bytes]]:
    """Returns nodes with quantized values in place of float32, and the reverse."""
    programs = dict(_hand_made())

    def encode(name: str, operands: dict[int, Access] | None = None, **changes: Any) -> bytes:
        program = programs[name]
        (node,) = program.nodes
        given = tuple((operands or {}).get(place, one) for place, one in enumerate(node.operands))
        return encode_node(program, replace(node, operands=given, **changes))

    product, quantize, scale = "a product of quantized pairs", "quantized bytes", "scales of rows"
    integers, floats = Access(PAIRS, 0, (100, 100, 1)), Access(B, 7, (0, 128, 1))
    return [
        ("a scale for values of 16 bits", encode(scale, selected=16)),
        ("a scale for values of no bits", encode(scale, selected=0)),
        ("a scale of 4097 terms", encode(scale, sizes=(7, 5, 4097))),
        ("a scale of integers", encode(scale, {0: integers})),
        ("values of 15 bits in bytes", encode(quantize, selected=15)),
        ("values of 8 bits in float32", encode(quantize, output=Access(A, 1, (600, 1)))),
        ("values of 16 bits", encode(quantize, selected=16)),
        ("quantized values quantized again", encode(quantize, {0: Access(WORDS, 9, (100, 1))})),
        ("an integer for a scale", encode(quantize, {1: Access(BYTES, 9, (1, 0))})),
        ("a first factor of float32", encode(product, {0: floats})),
        ("a second factor of float32", encode(product, {1: floats})),
        ("factors of float32", encode(product, {0: floats, 1: floats})),
        ("factors of two kinds", encode(product, {1: Access(BYTES, 7, (0, 128, 1))})),
        ("a scale for each term", encode(product, {2: floats})),
        ("a second scale for each term", encode(product, {3: floats})),
        ("an integer for the scale of a product", encode(product, {3: Access(PAIRS, 7, (0, 1, 0))})),
        ("a product of integers into integers", encode(product, output=Access(WORDS, 2, (3, 1)))),
        ("a product of 4097 quantized terms", encode(product, sizes=(5, 3, 4097))),
        ("a sum of integers", encode("three reduced loops", {0: Access(BYTES, 7, (60, 24, 8, 1))})),
        ("an integer looked up", encode("a lookup", {1: Access(BYTES, 0, (0, 1))})),
        ("a copy into integers", encode("turned round", output=Access(WORDS, 0, (100, 1)))),
    ]
