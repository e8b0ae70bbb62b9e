"""Enums must be the contracts', value by value: they travel as numbers."""

import re
from enum import IntEnum
from pathlib import Path

import pytest

from protocol.spec.statuses import AuditRef, AuditStatus, ClaimStatus, Role, RoundStatus, Stage

CONTRACTS = Path(__file__).parents[3] / "contracts"


def read_enum(source: Path, name: str) -> list[str]:
    found = re.search(rf"enum {name} {{(.*?)}}", source.read_text(), re.DOTALL)
    assert found is not None
    return [word.strip() for word in found[1].split(",")]


@pytest.mark.parametrize(
    "kind", [Role, RoundStatus, ClaimStatus, AuditStatus], ids=lambda kind: kind.__name__
)
def test_enum_equals_solidity(kind: type[IntEnum]) -> None:
    assert read_enum(CONTRACTS / "Types.sol", kind.__name__) == [member.name for member in kind]
    assert [int(member) for member in kind] == list(range(len(kind)))


def test_stage_equals_solidity() -> None:
    source = CONTRACTS / "interfaces" / "IDisputeGame.sol"
    assert read_enum(source, "Stage") == [member.name for member in Stage]


def test_key_is_the_name_inside_the_round() -> None:
    assert AuditRef(bytes(32), 3, 1, 2, 0).key == (1, 2, 0)
