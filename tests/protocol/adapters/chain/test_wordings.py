"""Every error of the contracts has words, and no words are without an error."""

import pytest

from protocol.adapters.chain import wordings
from protocol.adapters.chain.abi import Entry
from protocol.adapters.chain.refusals import explain_revert, load_book
from protocol.adapters.chain.values import encode_values
from tests.protocol.adapters.chain.entries import compute_zero, describe, list_entries


@pytest.mark.parametrize("entry", list_entries("error"), ids=describe)
def test_every_error_has_words_that_fit_its_values(entry: Entry) -> None:
    assert entry.name in wordings.WORDINGS or "remedy" in load_book().words[entry.selector]
    data = encode_values(entry.inputs, [compute_zero(parameter) for parameter in entry.inputs])
    refusal = explain_revert(entry.selector + data, "here")
    assert refusal.name == entry.name
    assert set(refusal.values) == {parameter.name for parameter in entry.inputs}
    assert "{" not in str(refusal)


def test_no_words_are_left_over() -> None:
    tokens = {"ERC20InsufficientAllowance", "ERC20InsufficientBalance"}
    assert set(wordings.WORDINGS) == {entry.name for entry in list_entries("error")} | tokens
