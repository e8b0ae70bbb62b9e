"""The error tree: fields, message, and that errors survive a process boundary."""

import pickle
from typing import Any

import pytest

from tests.architecture.solidity import list_files, read_declarations
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput, ProtocolFault, TouchstoneError
from touchstone.protocol.spec.game.rule_refusals import (
    EXPECTED,
    REMEDIES,
    GameRefusal,
    require,
    require_window,
)

FIELDS: dict[str, Any] = {"what": "a rule", "expected": 1, "actual": 2, "remedy": "Do this."}


@pytest.mark.parametrize("kind", [InvalidInput, ProtocolFault, EnvironmentFault])
def test_message_carries_every_field(kind: type[TouchstoneError]) -> None:
    error = kind(**FIELDS, where="byte 7")
    assert str(error) == "a rule at byte 7: expected 1, got 2. Do this."
    assert (error.what, error.expected, error.actual, error.remedy, error.where) == (
        "a rule",
        1,
        2,
        "Do this.",
        "byte 7",
    )


def test_protocol_fault_names_the_culprit() -> None:
    assert str(ProtocolFault(**FIELDS, culprit="0xabc")).startswith("0xabc: a rule")


@pytest.mark.parametrize(
    "error",
    [
        InvalidInput(**FIELDS, where="x"),
        ProtocolFault(**FIELDS, culprit="0xabc"),
        EnvironmentFault(**FIELDS, retryable=False),
    ],
)
def test_errors_survive_pickling_as_a_process_pool_does(error: TouchstoneError) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert type(copy) is type(error)
    assert copy.__dict__ == error.__dict__
    assert str(copy) == str(error)


def test_every_name_is_that_of_an_error_of_the_contracts() -> None:
    """A node looks up what a contract reverts with by this name."""
    declared = {one.name for path in list_files() for one in read_declarations(path) if one.kind == "error"}
    assert set(REMEDIES) <= declared


@pytest.mark.parametrize("name", REMEDIES)
def test_a_refusal_crosses_a_process_pool_whole(name: str) -> None:
    refusal = GameRefusal(name=name, expected="blocks 5 to 9", actual=10)
    copy = pickle.loads(pickle.dumps(refusal))  # noqa: S301
    assert type(copy) is GameRefusal and isinstance(copy, InvalidInput)
    assert (copy.name, copy.what, copy.expected, copy.actual) == (name, name, "blocks 5 to 9", 10)
    assert str(copy) == str(refusal) == f"{name}: expected blocks 5 to 9, got 10. {REMEDIES[name]}"


@pytest.mark.parametrize(
    ("first", "last", "block", "is_open"),
    [
        (5, 9, 4, False), (5, 9, 5, True), (5, 9, 9, True), (5, 9, 10, False),
        (7, 7, 7, True), (8, 7, 7, False), (8, 7, 8, False),
    ],
)  # fmt: skip
def test_a_window_is_open_in_its_first_and_its_last_block(
    first: int, last: int, block: int, is_open: bool
) -> None:
    """One whose last block lies before its first is never open."""
    if is_open:
        require_window(first, last, block)
        return
    with pytest.raises(GameRefusal) as refusal:
        require_window(first, last, block)
    assert refusal.value.name == "OutsideWindow"
    assert (refusal.value.expected, refusal.value.actual) == (f"blocks {first} to {last}", block)


@pytest.mark.parametrize(
    ("facts", "said"), [({}, (EXPECTED, "NoMajority")), ({"expected": 3, "actual": 0}, (3, 0))]
)
def test_what_does_not_hold_is_refused_by_name(facts: dict[str, Any], said: tuple[object, object]) -> None:
    require(True, "NoMajority", **facts)
    with pytest.raises(GameRefusal) as refusal:
        require(False, "NoMajority", **facts)
    assert refusal.value.name == "NoMajority"
    assert (refusal.value.expected, refusal.value.actual) == said


def test_a_name_without_a_remedy_is_a_bug_and_no_refusal() -> None:
    """Callers catch refusals and go on: a misspelt one must not pass for the contract's word."""
    with pytest.raises(KeyError):
        require(False, "NoSuchName")
