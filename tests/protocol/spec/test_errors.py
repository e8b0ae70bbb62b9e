"""The error tree: fields, message, and that errors survive a process boundary."""

import pickle
from typing import Any

import pytest

from protocol.spec.errors import EnvironmentFault, InvalidInput, ProtocolFault, TouchstoneError

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
