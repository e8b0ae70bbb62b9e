"""The committed vectors of exact programs, read as the contract reads them: Python gives the same bits, and
judges every other claim a fault."""

import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.exact_elementwise import NAN
from touchstone.protocol.spec.float32 import SIGN_BIT, is_finite, to_fraction, unpack_bits
from touchstone.protocol.spec.params import PRODUCT_BITS
from touchstone.protocol.spec.program import Access, Node
from touchstone.protocol.spec.program_operations import EXACT_OPERATIONS, QUANTIZED_FACTORS, Operation
from touchstone.protocol.spec.referee import Judgement, judge_element, judge_operation

TABLES: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).resolve().parents[2] / "vectors" / "exact.json").read_text()
)
ROWS = TABLES["rows"]
EXACT = [operation for operation in Operation if operation is not Operation.PRODUCT_SUM]
ONE = 0x3F800000


def pick(table: dict[str, Any], column: str, row: int) -> list[Any]:
    start = table[column + "Start"]
    return list(table[column][start[row] : start[row + 1]])


def sign(pattern: int) -> int:
    return pattern - (1 << 32) if pattern >> 31 else pattern


def read_terms(row: int) -> list[tuple[int, ...]]:
    columns, width = [], ROWS["integerBytes"][row]
    is_product = ROWS["operation"][row] == Operation.QUANTIZED_PRODUCT_SUM
    runs = zip(pick(ROWS, "data", row), pick(ROWS, "first", row), pick(ROWS, "repeats", row), strict=True)
    for place, (text, first, repeats) in enumerate(runs):
        data = bytes.fromhex(text[2:])
        if is_product and place < QUANTIZED_FACTORS:
            parts = [data[i : i + width] for i in range(0, len(data), width)]
            values = [int.from_bytes(part, "little", signed=True) for part in parts]
        else:
            values = unpack_bits(data)
        columns.append([values[first if repeats else first + i] for i in range(ROWS["terms"][row])])
    return list(zip(*columns, strict=True))


def require_one_right(operation: Operation, terms: list[tuple[int, ...]], right: int, bits: int) -> None:
    """Nothing but the right bits is acquitted: not their neighbours, the other zero or another NaN."""
    name = f"exact{bits}" if bits else "exact15"
    judged = judge_operation(operation, terms, right, name, bits)
    assert not judged.is_fault and judged.bound == 0
    assert judged.distance in (0, None)
    for claimed in {right - 1, right + 1, right ^ 1, *list_others(operation, right)} - {right}:
        if operation is Operation.QUANTIZE or 0 <= claimed < 1 << 32:
            assert judge_operation(operation, terms, claimed, name, bits).is_fault, hex(claimed)


def list_others(operation: Operation, right: int) -> Iterator[int]:
    if operation is Operation.QUANTIZE:
        yield -right
    else:
        yield from (right ^ SIGN_BIT, 0, SIGN_BIT, NAN, SIGN_BIT | NAN, NAN + 1)


@pytest.mark.parametrize("row", range(len(ROWS["name"])), ids=ROWS["name"])
def test_rows_have_the_bits_of_the_vectors(row: int) -> None:
    operation = Operation(ROWS["operation"][row])
    require_one_right(operation, read_terms(row), ROWS["right"][row], ROWS["bits"][row])


@pytest.mark.parametrize("table", ["unary", "binary"])
def test_single_operands_have_the_bits_of_the_vectors(table: str) -> None:
    cells = TABLES[table]
    for row in range(len(cells["name"])):
        operation = Operation(cells["operation"][row])
        columns = [pick(cells, column, row) for column in ("a", "b") if column in cells]
        bits = cells["bits"][row] if "bits" in cells else 0
        for *values, right in zip(*columns, pick(cells, "right", row), strict=True):
            expected = sign(right) if operation is Operation.QUANTIZE else right
            require_one_right(operation, [tuple(values)], expected, bits)


def test_every_operation_of_exact_programs_has_cases() -> None:
    told = {operation for table in TABLES.values() for operation in table["operation"]}
    assert told == set(EXACT)


def test_the_cases_reach_every_kind_of_result() -> None:
    found = [bits for table in TABLES.values() for bits in table["right"]]
    finite = [abs(to_fraction(bits)) for bits in found if is_finite(bits)]
    assert {0, SIGN_BIT, NAN, 0x7F800000, 0xFF800000, 1, 0x7F7FFFFF} <= set(found)
    assert any(0 < value < Fraction(1, 1 << 126) for value in finite)


# Judging
def test_a_judgement_tells_the_right_value_and_how_far_off_the_claim_is() -> None:
    judged = judge_operation(Operation.ADD, [(ONE, ONE)], ONE, "exact8")
    assert judged == Judgement(True, Fraction(2), Fraction(0), Fraction(1), "not the right bits")
    judged = judge_operation(Operation.QUANTIZE, [(ONE, ONE)], -3, "exact20", 20)
    assert judged == Judgement(True, Fraction(1), Fraction(0), Fraction(4), "not the right bits")
    judged = judge_operation(Operation.DIVIDE, [(0, 0)], NAN, "exact15")
    assert judged == Judgement(False, None, Fraction(0), None, "the right bits")


@pytest.mark.parametrize("name", PRODUCT_BITS)
def test_elements_are_judged_by_their_node(name: str) -> None:
    values = [[3, -2, 5, 7], [1, 4, -1, 2], [ONE, ONE + (1 << 23)], [ONE]]
    node = Node(
        Operation.QUANTIZED_PRODUCT_SUM,
        (2, 2),
        1,
        Access(9, 0, (1,)),
        (Access(0, 0, (2, 1)), Access(1, 0, (2, 1)), Access(2, 0, (1, 0)), Access(3, 0, (0, 0))),
    )
    for element, right in enumerate((-5, 2 * 9)):
        for claimed in (-5, 18):
            judged = judge_element(node, element, lambda b, i: values[b][i], to_bits(claimed), name)
            assert judged.is_fault == (claimed != right)
    rows = [[ONE, 0x40490FDB], [ONE - (1 << 23)]]
    node = Node(Operation.QUANTIZE, (2,), 0, Access(9, 0, (1,)), (Access(0, 0, (1,)), Access(1, 0, (0,))), 8)
    assert not judge_element(node, 1, lambda b, i: rows[b][i], 6, name).is_fault
    assert judge_element(node, 1, lambda b, i: rows[b][i], 7, name).is_fault


def to_bits(value: int) -> int:
    return {-5: 0xC0A00000, 18: 0x41900000}[value]


# Bad input
@pytest.mark.parametrize("operation", sorted(EXACT_OPERATIONS))
def test_formats_with_bounds_have_no_operation_of_exact_programs(operation: Operation) -> None:
    terms = {Operation.SCALE_OF: (0,), Operation.QUANTIZE: (0, 0)}.get(operation, (0, 0, 0, 0))
    with pytest.raises(InvalidInput, match="an operation of exact programs"):
        judge_operation(operation, [terms], 0, "float32", 8)


@pytest.mark.parametrize(
    ("operation", "terms", "claimed", "bits"),
    [
        (Operation.PRODUCT_SUM, [(0, 0)], 0, 0), (Operation.SCALE_OF, [(0,)], 0, 16),
        (Operation.QUANTIZE, [(0, 0)], 0, 0), (Operation.SCALE_OF, [], 0, 8),
        (Operation.SCALE_OF, [(0,)] * 4097, 0, 8), (Operation.QUANTIZE, [(0, 0)], 1 << 31, 8),
        (Operation.QUANTIZE, [(-1, 0)], 0, 8), (Operation.QUANTIZED_PRODUCT_SUM, [], 0, 0),
        (Operation.QUANTIZED_PRODUCT_SUM, [(0, 0)], 0, 0),
        (Operation.QUANTIZED_PRODUCT_SUM, [(0, 0, -1, 0)], 0, 0),
        (Operation.QUANTIZED_PRODUCT_SUM, [(1 << 31, 0, 0, 0)], 0, 0),
        (Operation.QUANTIZED_PRODUCT_SUM, [(0, -(1 << 31) - 1, 0, 0)], 0, 0),
        (Operation.QUANTIZED_PRODUCT_SUM, [(0, 0, 0, 0)] * 4097, 0, 0),
        (Operation.QUANTIZED_PRODUCT_SUM, [(0, 0, 0, 0)], -1, 0), (Operation.COPY, [(0,)], -1, 0),
    ],
)  # fmt: skip
def test_what_no_exact_program_has_is_refused(
    operation: Operation, terms: list[tuple[int, ...]], claimed: int, bits: int
) -> None:
    with pytest.raises(InvalidInput):
        judge_operation(operation, terms, claimed, "exact15", bits)
