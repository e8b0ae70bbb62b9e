"""What the page on invariants names is there: a bug without its test is one that comes back."""

import re
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tests.kit.plays import GROUPS

PAGE = (ROOT / "docs" / "decisions" / "0021-invariants.md").read_text()
CONTRACTS = Path(__file__).parent
NAMED = sorted(set(re.findall(r"`(\w+\.t\.sol)::(\w+)`", PAGE)))
PLAYED = sorted(set(re.findall(r"`plays/(\w+)::(\w+)`", PAGE)))
PROPERTIES = PAGE.split("## Properties")[1].split("## Bugs")[0]
CHECKS = sorted(set(re.findall(r"`(_?[a-z]\w+)`", PROPERTIES)))
BUGS = 16
"""Rows of the second table: the list of contracts.md, and tokens."""


def list_functions() -> set[str]:
    """Names of all functions of the campaign and of the proofs."""
    paths = [path for folder in ("invariant", "prove") for path in (CONTRACTS / folder).rglob("*.sol")]
    return {name for path in paths for name in re.findall(r"function (\w+)\(", path.read_text())}


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_every_test_that_is_named_is_run(file: str, name: str) -> None:
    (path,) = CONTRACTS.rglob(file)
    assert re.search(rf"function {name}\([^)]*\)\s+public", path.read_text())
    assert name.startswith("test")


@pytest.mark.parametrize(("group", "name"), PLAYED)
def test_every_play_that_is_named_is_recorded(group: str, name: str) -> None:
    assert name in GROUPS[group]


def test_every_check_that_is_named_exists() -> None:
    assert len(CHECKS) > 10 and set(CHECKS) <= list_functions()


def test_every_bug_has_a_test() -> None:
    rows = PAGE.split("## Bugs that others shipped")[1].split("`tests/contracts/test_")[0].splitlines()
    bugs = [row for row in rows if row.startswith("|") and not row.startswith(("| bug |", "|---"))]
    assert len(bugs) == BUGS and all(".t.sol::" in row or "`plays/" in row for row in bugs)
