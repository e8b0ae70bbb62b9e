"""The page for auditors names each call that changes something, and tests and functions that are there."""

import re

import pytest

from tests.architecture.sources import ROOT
from tests.contracts.test_invariants_page import CONTRACTS, list_functions
from tests.kit.plays import GROUPS
from touchstone.protocol.adapters.chain.abi import Entry, load_abi
from touchstone.protocol.adapters.chain.deployment import GAME_CONTRACTS, PARTS

PAGE = (ROOT / "docs" / "contracts.md").read_text()
CALLS = set(re.findall(r"`(\w+)(?:\(\w+\))?`", PAGE.split("## 3.")[1].split("## 4.")[0]))
NAMED = sorted(set(re.findall(r"`(\w+\.t\.sol)::(\w+)`", PAGE)))
PLAYED = sorted(set(re.findall(r"`plays/(\w+)::(\w+)`", PAGE)))
CHECKS = set(re.findall(r"`(_?check[A-Z]\w+|closeLap)`", PAGE))
FILES = set(re.findall(r"`(\w+)`", PAGE.split("## 7.")[1]))
MOST_LINES = 250


def list_changing(contract: str) -> list[Entry]:
    return [entry for entry in load_abi(contract) if entry.kind == "function" and not entry.is_view]


@pytest.mark.parametrize("contract", [*GAME_CONTRACTS.values(), "TaskShares"])
def test_each_call_that_changes_something_is_listed(contract: str) -> None:
    assert {entry.name for entry in list_changing(contract)} <= CALLS


def test_each_part_is_named() -> None:
    assert {"Game", "Vault", "Shares", "Referee", *PARTS} <= set(
        re.findall(r"`(\w+)`", PAGE.split("## 2.")[0])
    )


def test_each_file_of_the_game_is_read() -> None:
    """Interfaces are read with the contracts that they are the manual of."""
    game = ROOT / "contracts" / "game"
    files = {path.stem for path in (*game.glob("*.sol"), *game.glob("libraries/*.sol"))}
    assert files <= FILES


def test_each_section_that_a_heading_names_is_of_the_specification() -> None:
    """In contracts of the game the numbers in brackets behind a heading are sections of spec.md."""
    spec = (ROOT / "docs" / "spec.md").read_text()
    known = set(re.findall(r"^#{2,3} (\d+(?:\.\d+)?)\.? ", spec, re.M))
    text = "".join(path.read_text() for path in (ROOT / "contracts" / "game").rglob("*.sol"))
    named = re.findall(r"^ +// [^\n(]+ \(([\d., to]+)\)$", text, re.M)
    assert len(named) > 50 and {one for line in named for one in re.split(r", | to ", line)} <= known


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_each_test_that_is_named_is_run(file: str, name: str) -> None:
    (path,) = CONTRACTS.rglob(file)
    assert re.search(rf"function {name}\([^)]*\)\s+public", path.read_text())


def test_each_play_and_check_that_is_named_exists() -> None:
    assert len(PLAYED) > 10 and all(name in GROUPS[group] for group, name in PLAYED)
    assert len(CHECKS) > 5 and list_functions() >= CHECKS


def test_the_page_is_short() -> None:
    assert len(PAGE.splitlines()) <= MOST_LINES
