"""EIP-712 objects of statements: one type a class, plain JSON, and nothing that does not fit."""

import json
from dataclasses import fields, replace
from typing import Any

import pytest

from tests.protocol.spec.test_statements import make_opening, make_vote, seal_of, word
from touchstone.protocol.spec import statements
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.node_statements import Calibration, NodeStatement, Request
from touchstone.protocol.spec.params import PROTOCOL_VERSION
from touchstone.protocol.spec.signed_reports import Comparison, DistanceReport, HeldoutReport, LossReport
from touchstone.protocol.spec.statements import MergeSignature, Statement, VoteWord
from touchstone.protocol.spec.typed_data import NODE_TYPES, STATEMENT_TYPES, SigningDomain, to_typed_data

DOMAIN = SigningDomain(31337, "0x" + "5a" * 20)
MERGE = MergeSignature(word("domain"), 7, word("base"), 5, word("merged"), word("root"))
EACH: list[Statement] = [seal_of(make_vote()), make_vote(), make_opening(make_vote()), MERGE]
REQUEST = Request("GET", "/blob/x", "0x" + "5b" * 20, 1_700_000_000, word("nonce"))
BETWEEN_NODES: list[NodeStatement] = [
    REQUEST, Calibration(word("profile")),
    LossReport(word("domain"), 7, 2, word("claim"), 500, 5_557_000, 3_058_000, 4_100_000),
    HeldoutReport(word("domain"), 7, word("root"), 31, 3_058_000, 12_000),
    DistanceReport(
        word("domain"), 7, word("base"), word("seed"), 2, word("claim"), 1, 0, 3, VoteWord.ACCEPT,
        Comparison.MEASURED, 31_000, 0, 999_999,
    ),
]  # fmt: skip
ALL = [*EACH, *BETWEEN_NODES]


def to_camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)


@pytest.mark.parametrize("statement", ALL, ids=lambda statement: type(statement).__name__)
def test_a_type_has_the_fields_of_its_class_in_their_order(statement: Statement | NodeStatement) -> None:
    typed = {**STATEMENT_TYPES, **NODE_TYPES}[type(statement).__name__]
    assert [name for name, _ in typed] == [to_camel(field.name) for field in fields(statement)]
    assert {type(statement).__name__ for statement in EACH} == set(STATEMENT_TYPES)
    assert {type(statement).__name__ for statement in BETWEEN_NODES} == set(NODE_TYPES)


@pytest.mark.parametrize("statement", ALL, ids=lambda statement: type(statement).__name__)
def test_the_object_is_plain_json(statement: Statement | NodeStatement) -> None:
    data = to_typed_data(statement, DOMAIN)
    assert json.loads(json.dumps(data)) == data
    assert data["primaryType"] == type(statement).__name__
    assert data["domain"] == {
        "name": "Touchstone",
        "version": str(PROTOCOL_VERSION),
        "chainId": 31337,
        "verifyingContract": "0x" + "5a" * 20,
    }


def test_an_opening_carries_its_vote_and_the_type_of_it() -> None:
    vote = make_vote(word=VoteWord.REJECT_STATE, named_leaf=11)
    data = to_typed_data(make_opening(vote), DOMAIN)
    assert set(data["types"]) == {"EIP712Domain", "VoteOpening", "Vote"}
    assert data["message"]["vote"] == to_typed_data(vote, DOMAIN)["message"]
    assert (data["message"]["vote"]["word"], data["message"]["vote"]["namedLeaf"]) == (2, 11)


@pytest.mark.parametrize(
    ("name", "value"),
    [("seed", b"short"), ("seed", word("s") + b"\0"), ("seed", "0x" + "00" * 32), ("round", -1),
     ("round", 1 << 32), ("slot", "3"), ("word", 256), ("claim_root", None)],
)  # fmt: skip
def test_what_does_not_fit_its_type_is_refused(name: str, value: Any) -> None:
    """A short word would be signed as if zeros followed: two statements with one signature."""
    vote = replace(make_vote(), **{name: value})
    for statement in (vote, make_opening(vote)):
        with pytest.raises(InvalidInput, match="does not fit its type"):
            to_typed_data(statement, DOMAIN)


@pytest.mark.parametrize(
    "change",
    [
        {"server": "0x5b"},
        {"server": "0x" + "zz" * 20},
        {"path": b"/blob"},
        {"issued_at": 1 << 64},
        {"nonce": b""},
    ],
)
def test_what_does_not_fit_a_request_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="does not fit its type"):
        to_typed_data(replace(REQUEST, **change), DOMAIN)


def test_the_words_are_the_contracts() -> None:
    assert [said.name for said in sorted(VoteWord)] == [
        "ACCEPT", "REJECT_STATE", "REJECT_DELTA", "REJECT_START", "UNSERVED", "ABSTAIN",
    ]  # fmt: skip
    assert sorted(VoteWord) == list(range(1, 7))
    assert statements.NAMING < statements.COMPARED
