"""Every event of the interfaces has its class, with the same fields in the same order."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from protocol.spec import game_events
from protocol.spec.errors import InvalidInput
from protocol.spec.event_log import EVENT_TYPES, event_from_log

INTERFACES = Path(__file__).parents[3] / "contracts" / "interfaces"


def to_snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def read_events() -> dict[str, list[str]]:
    text = "\n".join(path.read_text() for path in sorted(INTERFACES.glob("*.sol")))
    found = re.findall(r"^\s*event (\w+)\((.*?)\);", text, re.MULTILINE | re.DOTALL)
    assert len({name for name, _ in found}) == len(found), "two contracts share an event name"
    return {name: [to_snake_case(p.split()[-1]) for p in body.split(",")] for name, body in found}


def test_every_event_of_the_contracts_is_known() -> None:
    assert set(EVENT_TYPES) == set(read_events())


@pytest.mark.parametrize("name", sorted(read_events()))
def test_fields_are_those_of_solidity(name: str) -> None:
    own = [field.name.rstrip("_") for field in fields(EVENT_TYPES[name]) if field.name != "block_number"]
    assert own == read_events()[name]


def test_an_event_has_its_arguments_and_its_block() -> None:
    arguments = {"exposure": bytes(32), "from_": "0xa", "to": "0xb", "amount_wei": 1, "reason": bytes(32)}
    moved = event_from_log("CreditMoved", arguments, 9)
    assert isinstance(moved, game_events.CreditMoved)
    assert (moved.block_number, moved.from_, moved.amount_wei) == (9, "0xa", 1)


@pytest.mark.parametrize(
    ("name", "arguments"), [("Nonsense", {}), ("RoundEmpty", {"task": bytes(32)}), ("Burned", {"amount": 1})]
)
def test_unknown_event_or_arguments_are_refused(name: str, arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidInput) as caught:
        event_from_log(name, arguments, 1)
    assert name in str(caught.value)
