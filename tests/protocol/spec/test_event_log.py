"""Every event of the interfaces has its class, with the same fields in the same order."""

import re
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import pytest

from protocol.spec import events, game_events
from protocol.spec.errors import InvalidInput
from protocol.spec.event_log import EVENT_TYPES, event_from_log
from protocol.spec.statuses import AuditRef, ClaimRef, ClaimStatus

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


def test_numbers_become_enums_and_addresses_lower_case() -> None:
    where = {"task": bytes(32), "round": 1, "slot": 2}
    judged = event_from_log("ClaimJudged", {**where, "status": 5, "reason": bytes(32)}, 9)
    assert isinstance(judged, events.ClaimJudged)
    assert judged.status is ClaimStatus.ACCEPTED and judged.block_number == 9
    account = "0x" + "AB" * 20
    enrolled = event_from_log(
        "Enrolled", {"task": bytes(32), "round": 1, "role": 1, "account": account, "index": 0}, 9
    )
    assert isinstance(enrolled, events.Enrolled)
    assert enrolled.account == account.lower()


def test_url_keeps_its_case() -> None:
    announced = event_from_log(
        "Announced",
        {"account": "0x" + "00" * 20, "url": "https://Host/A", "certificate_sha256": bytes(32)},
        1,
    )
    assert isinstance(announced, events.Announced) and announced.url == "https://Host/A"


def test_python_keyword_and_foreign_claim_are_translated() -> None:
    moved = event_from_log(
        "CreditMoved",
        {"exposure": bytes(32), "from": "0xa", "to": "0xb", "amount_wei": 1, "reason": bytes(32)},
        1,
    )
    assert isinstance(moved, game_events.CreditMoved) and moved.from_ == "0xa"
    audit = SimpleNamespace(task=bytes(32), round=0, slot=1, draw=0, rank=0)
    claim = SimpleNamespace(audit=audit, segment=3, by_solver=True)
    opened = event_from_log(
        "DisputeOpened",
        {"dispute": bytes(32), "claim": claim, "claimant": "0xa", "opener": "0xb", "bond_wei": 1},
        1,
    )
    assert isinstance(opened, game_events.DisputeOpened)
    assert opened.claim == ClaimRef(AuditRef(bytes(32), 0, 1, 0, 0), 3, True)


@pytest.mark.parametrize(
    ("name", "arguments"), [("Nonsense", {}), ("RoundEmpty", {"task": bytes(32)}), ("Burned", {"amount": 1})]
)
def test_unknown_event_or_arguments_are_refused(name: str, arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidInput) as caught:
        event_from_log(name, arguments, 1)
    assert name in str(caught.value)
