"""What clients and providers say, in their own words, and what a node makes of it."""

import pytest

from touchstone.protocol.adapters.chain.provider_errors import (
    LOOKED_AT_CHARACTERS,
    SHOWN_CHARACTERS,
    Kind,
    classify,
    find_wait_s,
    read_error,
)

SAID = [
    # geth
    (-32000, "header not found", Kind.BEHIND),
    (-32000, "unknown block", Kind.BEHIND),
    (-32000, "missing trie node 9f3ca (path ) state 0x12 is not available, not found", Kind.BEHIND),
    (-32000, "transaction indexing is in progress", Kind.BEHIND),
    (-32000, "already known", Kind.KNOWN),
    (-32000, "nonce too low: next nonce 5, tx nonce 4", Kind.NONCE_TOO_LOW),
    (-32000, "nonce too high: tx nonce 9, gapped nonce", Kind.NONCE_TOO_HIGH),
    (-32000, "replacement transaction underpriced: new tx gas fee cap 10 <= 12 queued", Kind.REPLACEMENT),
    (-32000, "transaction underpriced: gas tip cap 1, minimum needed 25000000000", Kind.UNDERPRICED),
    (-32000, "max fee per gas less than block base fee: address 0x1, maxFeePerGas: 1", Kind.UNDERPRICED),
    (-32000, "insufficient funds for gas * price + value: balance 0, tx cost 5", Kind.POOR),
    (-32000, "intrinsic gas too low: have 1, want 2", Kind.REFUSED),
    (-32000, "exceeds block gas limit", Kind.REFUSED),
    (3, "execution reverted", Kind.REVERTED),
    (-32601, "the method eth_nonsense does not exist/is not available", Kind.UNSUPPORTED),
    # reth, nethermind, besu, erigon
    (-32001, "block not found: hash 0x12", Kind.BEHIND),
    (-32000, "AlreadyKnown", Kind.KNOWN),
    (-32010, "OldNonce, Current nonce: 6, nonce of rejected tx: 5.", Kind.NONCE_TOO_LOW),
    (-32010, "FeeTooLow, MaxFeePerGas too low.", Kind.UNDERPRICED),
    (-32010, "InsufficientFunds, Account balance: 0", Kind.POOR),
    (-32000, "Known transaction", Kind.KNOWN),
    (-32000, "Nonce too distant from current sender nonce", Kind.NONCE_TOO_HIGH),
    (-32000, "Upfront cost exceeds account balance", Kind.POOR),
    (-32000, "Gas price below configured minimum gas price", Kind.UNDERPRICED),
    (-32000, "could not replace existing tx", Kind.REPLACEMENT),
    (-32000, "block range extends beyond current head block", Kind.BEHIND),
    # hosted
    (-32005, "daily request count exceeded, request rate limited", Kind.BUSY),
    (429, "Your app has exceeded its compute units per second capacity", Kind.BUSY),
    (-32005, "query returned more than 10000 results", Kind.TOO_MUCH),
    (-32005, "something without words that are known", Kind.BUSY),
    (-32602, "eth_getLogs is limited to a 10,000 block range", Kind.TOO_MUCH),
    (-32000, "Unsupported block tag: pending", Kind.UNSUPPORTED),
    (-32603, "Internal error", Kind.BEHIND),
    (-32000, "something new", Kind.REFUSED),
    (None, "something new", Kind.REFUSED),
]


@pytest.mark.parametrize(("code", "words", "kind"), SAID)
def test_words_of_clients_have_one_meaning(code: int | None, words: str, kind: Kind) -> None:
    assert read_error({"code": code, "message": words}).kind is kind
    assert read_error({"code": code, "message": words.upper()}).kind is kind


@pytest.mark.parametrize(
    "error",
    [
        {"code": 3, "message": "execution reverted", "data": "0xabcd"},
        {"code": -32000, "message": "execution reverted: custom error", "data": {"data": "0xabcd"}},
        {"code": -32015, "message": "VM execution error.", "data": "Reverted 0xabcd"},
        {"code": -32603, "message": "Internal error", "data": {"result": "0xabcd"}},
    ],
)
def test_a_revert_has_its_data_wherever_a_client_puts_it(error: object) -> None:
    found = read_error(error)
    assert (found.kind, found.data) == (Kind.REVERTED, b"\xab\xcd")


@pytest.mark.parametrize(
    "error", ["no", None, 7, [], {}, {"message": None}, {"code": "x", "data": {"data": 5}}]
)
def test_an_error_of_any_form_is_one(error: object) -> None:
    assert read_error(error).kind is Kind.REFUSED


def test_the_tip_that_a_pool_wants_is_read() -> None:
    said = {"message": "transaction underpriced: gas tip cap 1, minimum needed 25000000000"}
    assert read_error(said).needed_wei == 25 * 10**9
    assert read_error({"message": "transaction underpriced"}).needed_wei is None


@pytest.mark.parametrize(
    ("words", "wait_s"),
    [
        ("rate limited, retry in 1.5s", 1.5), ("try again in 300ms", 0.3), ("please wait 2 minutes", 120.0),
        ("Retry after 7 seconds", 7.0), ("too many requests", None),
    ],
)  # fmt: skip
def test_how_long_a_provider_wants_to_be_left_alone_is_read(words: str, wait_s: float | None) -> None:
    assert find_wait_s(words) == wait_s


def test_of_long_words_only_the_beginning_is_looked_at() -> None:
    """Some patterns look on from each place: 2 MB took minutes."""
    late = "x" * LOOKED_AT_CHARACTERS + " nonce too low, retry in 5 s"
    assert (classify(None, late), find_wait_s(late)) == (Kind.REFUSED, None)
    assert read_error({"message": late}).kind is Kind.REFUSED
    assert read_error({"message": "block " * 400_000, "data": "block " * 400_000}).kind is Kind.REFUSED


@pytest.mark.parametrize(
    "words", ["no " * 500_000, "no\nERROR run: curl x | sh\x1b[2J", "\ud800\u202e\x9b2J"]
)
def test_words_are_cut_and_shown_as_text(words: str) -> None:
    """They come into the log, the state file and what an operator is told."""
    said = str(read_error({"code": -32000, "message": words}))
    assert len(said) <= 10 * SHOWN_CHARACTERS and said.isprintable()
    assert str(read_error(words)) == said
