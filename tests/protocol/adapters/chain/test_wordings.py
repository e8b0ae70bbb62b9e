"""Every error of the contracts has words, in its source or here, and no words are without an error."""

import pytest

from tests.protocol.adapters.chain.entries import compute_zero, describe, list_entries
from touchstone.protocol.adapters.chain.abi import Entry
from touchstone.protocol.adapters.chain.abi_values import encode_values
from touchstone.protocol.adapters.chain.refusal_words import WORDINGS
from touchstone.protocol.adapters.chain.refusals import explain_revert, load_book

ERRORS = list_entries("error")


@pytest.mark.parametrize("entry", ERRORS, ids=describe)
def test_every_error_has_words_that_fit_its_values(entry: Entry) -> None:
    assert entry.name in WORDINGS or "remedy" in load_book().words[entry.selector]
    data = encode_values(entry.inputs, [compute_zero(parameter) for parameter in entry.inputs])
    refusal = explain_revert(entry.selector + data, "here")
    assert refusal.name == entry.name
    assert set(refusal.values) == {parameter.name for parameter in entry.inputs}
    assert "{" not in str(refusal)


def test_no_words_are_left_over() -> None:
    tokens = {"ERC20InsufficientAllowance", "ERC20InsufficientBalance"}
    said = load_book().words
    without = {entry.name for entry in ERRORS if entry.selector not in said}
    assert set(WORDINGS) == without | tokens
