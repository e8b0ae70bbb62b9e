"""The committed referee vectors, read as the contract reads them: Python judges each claim as they say."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from touchstone.protocol.spec.float32 import unpack_bits
from touchstone.protocol.spec.program_operations import BOUNDED_OPERATIONS, Operation
from touchstone.protocol.spec.referee import judge_operation

TABLE: dict[str, Any] = json.loads(
    (Path(__file__).resolve().parents[2] / "vectors" / "referee.json").read_text()
)["operations"]


def pick(column: str, row: int) -> list[Any]:
    start = TABLE[column + "Start"]
    return list(TABLE[column][start[row] : start[row + 1]])


def read_terms(row: int) -> list[tuple[int, ...]]:
    columns = []
    for data, first, repeats in zip(pick("data", row), pick("first", row), pick("repeats", row), strict=True):
        values = unpack_bits(bytes.fromhex(data[2:]))
        columns.append([values[first if repeats else first + i] for i in range(TABLE["terms"][row])])
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize("row", range(len(TABLE["name"])), ids=TABLE["name"])
def test_verdicts_are_those_of_the_vectors(row: int) -> None:
    operation, terms = Operation(TABLE["operation"][row]), read_terms(row)
    for claimed, is_fault in zip(pick("claimed", row), pick("fault", row), strict=True):
        assert judge_operation(operation, terms, claimed).is_fault == is_fault


def test_every_operation_has_both_verdicts() -> None:
    verdicts = Counter(
        (TABLE["operation"][row], is_fault)
        for row in range(len(TABLE["name"]))
        for is_fault in pick("fault", row)
    )
    for operation in BOUNDED_OPERATIONS:
        assert verdicts[operation, True] > 20 and verdicts[operation, False] > 10
