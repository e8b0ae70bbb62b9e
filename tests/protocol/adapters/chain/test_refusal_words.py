"""What a revert says in our words, known or not."""

import pytest
from eth_abi.abi import encode

from tests.protocol.adapters.chain.entries import make_sample
from touchstone.protocol.adapters.chain.abi import Entry, list_package_abis, load_abi
from touchstone.protocol.adapters.chain.abi_values import encode_values
from touchstone.protocol.adapters.chain.refusal_words import WORDINGS, Wording
from touchstone.protocol.adapters.chain.refusals import ErrorBook, explain_revert, load_book, make_book

ERROR = {
    "type": "error",
    "name": "TooLow",
    "inputs": [
        {"name": "leastWei", "type": "uint256"},
        {"name": "from", "type": "address"},
        {"name": "what", "type": "bytes32"},
    ],
}
SIGNATURE = "TooLow(uint256,address,bytes32)"
WORDS = {
    "notice": "An amount is too small.",
    "expected": "at least {leastWei}",
    "actual": "less of {from}",
    "remedy": "Pay {leastWei} for the {what}.",
}
PAYER = "0x" + "ab" * 20
VALUES = encode(["uint256", "address", "bytes32"], [3 * 10**18, PAYER, b"bond"])


def make(words: dict[str, str], name: str = "TooLow") -> tuple[ErrorBook, bytes]:
    document = {"abi": [{**ERROR, "name": name}], "words": {SIGNATURE.replace("TooLow", name): words}}
    book = make_book({"Counter": document})
    [selector] = book.words
    return book, selector + VALUES


def test_an_unknown_error_is_still_a_refusal() -> None:
    assert explain_revert(b"\x01\x02\x03\x04", "here").name == "Unknown"
    assert explain_revert(b"", "here").values == {"data": b""}


def test_the_words_of_the_source_are_used() -> None:
    book, data = make(WORDS)
    refusal = book.explain(data, "Counter.add")
    assert refusal.values == {"least_wei": 3 * 10**18, "from_": PAYER, "what": b"bond".ljust(32, b"\0")}
    assert str(refusal) == (
        f"An amount is too small (TooLow) at Counter.add: expected at least 3 tokens, got less of {PAYER}. "
        "Pay 3 tokens for the bond."
    )


def test_the_words_of_the_source_go_before_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table has words for an error of this name: they fill in what the source does not say."""
    monkeypatch.setitem(WORDINGS, "TooLow", Wording("too low", "more than nothing", "nothing", "Ask."))
    book, data = make({"notice": "Nothing here.", "remedy": "Give some."})
    refusal = book.explain(data, "here")
    assert (refusal.what, refusal.remedy) == ("Nothing here (TooLow)", "Give some.")
    assert (refusal.expected, refusal.actual) == ("more than nothing", "nothing")


def test_the_table_is_left_alone_where_an_error_of_its_name_has_other_values() -> None:
    book, data = make({"remedy": "Give some."}, "NodeUnsound")
    assert "{" in WORDINGS["NodeUnsound"].actual + WORDINGS["NodeUnsound"].expected
    assert str(book.explain(data, "here").actual) == f"NodeUnsound: from_ {PAYER}, what bond"


def test_values_stand_in_for_words_that_nobody_wrote() -> None:
    book, data = make({"remedy": "Give some."})
    refusal = book.explain(data, "here")
    assert str(refusal.expected).startswith("least_wei 3")
    assert refusal.actual == f"TooLow: from_ {PAYER}, what bond"
    assert refusal.remedy == "Give some."


def test_a_value_is_no_template() -> None:
    document = {"abi": [{"type": "error", "name": "Said", "inputs": [{"name": "text", "type": "string"}]}]}
    book = make_book({"Counter": document})
    [selector] = [one for one, entry in book.errors.items() if entry.name == "Said"]
    refusal = book.explain(selector + encode(["string"], ["{text} {0.__class__}"]), "here")
    assert refusal.actual == "Said: text {text} {0.__class__}"


ERRORS = [entry for name in list_package_abis() for entry in load_abi(name) if entry.kind == "error"]


@pytest.mark.parametrize("entry", ERRORS, ids=lambda entry: f"{entry.contract}.{entry.name}")
def test_every_error_of_the_package_becomes_a_sentence(entry: Entry) -> None:
    values = [make_sample(parameter) for parameter in entry.inputs]
    data = entry.selector + encode_values(entry.inputs, values)
    refusal = load_book().explain(data, "here")
    assert refusal.name == entry.name and "{" not in str(refusal)
    assert refusal.expected and refusal.actual and refusal.remedy
