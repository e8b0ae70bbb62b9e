"""A conviction in sentences for somebody who has read nothing."""

from dataclasses import replace
from typing import Any

import pytest

from touchstone.explorer.conviction_words import ConvictionFacts, describe_conviction, format_pair
from touchstone.protocol.spec.game.enums import ProofKind

TOKEN = 10**18
NUMBER: dict[str, Any] = {
    "operation": "SUBTRACT", "operands": [["1654.34631", "0.00135136908"]], "claimed": "2481.76749",
    "exact_shown": "1654.34495863", "formula": "1654.34631 - 0.00135136908", "is_fault": True,
}  # fmt: skip
FACTS = ConvictionFacts(
    name="cheat", finder="verifier-2", submitter="submitter", block=409, proof=ProofKind.DISPUTED,
    stake_wei=2_000 * TOKEN, number=NUMBER, round=0, step=0, steps=40, is_claim=True,
    shares=(("verifier-2", 150 * TOKEN), ("submitter", 500 * TOKEN)), is_burned=True, is_model_untouched=True,
)  # fmt: skip


def test_a_number_is_told_with_its_operands_and_the_way_of_the_stake() -> None:
    assert describe_conviction(FACTS) == [
        "cheat wrote 2481.77 where 1654.34 is right.",
        "In step 1 of 40 of round 0 it had to compute 1654.34631 minus 0.00135136908. Anyone can check that. "
        "The contract did, in block 409.",
        "cheat lost its deposit of 2,000 tokens: 150 went to verifier-2, who found it, 500 to the submitter, "
        "1,350 were burned.",
        "The model was not touched.",
    ]


def test_what_is_unknown_is_left_out() -> None:
    bare = replace(FACTS, round=None, step=None, steps=None, shares=None, is_model_untouched=None)
    assert describe_conviction(bare)[1:] == [
        "It had to compute 1654.34631 minus 0.00135136908. Anyone can check that. The contract did, in "
        "block 409.",
        "cheat lost its deposit of 2,000 tokens. verifier-2 found it.",
    ]
    assert describe_conviction(replace(FACTS, step=None))[1].startswith("In round 0 it had to compute")


def test_what_is_held_is_not_told_as_burned() -> None:
    line = describe_conviction(replace(FACTS, is_burned=False))[2]
    assert "1,350 are held until the task ends" in line and "burned if no undone work" in line


@pytest.mark.parametrize("proof", ProofKind)
def test_each_proof_has_a_sentence_of_its_own(proof: ProofKind) -> None:
    lines = {
        kind: describe_conviction(replace(FACTS, number=None, proof=kind, is_claim=None))[0]
        for kind in ProofKind
    }
    assert lines[proof].startswith("cheat ") and len(set(lines.values())) == len(ProofKind)
    second = describe_conviction(replace(FACTS, number=None, proof=proof))[1]
    assert second.startswith("That was in round 0. The contract decided it, in block 409")


def test_silence_is_told_as_silence() -> None:
    silent = replace(FACTS, number=None, is_silent=True)
    assert describe_conviction(silent)[0] == (
        "cheat gave no answer when verifier-2 disputed what it trained."
    )
    assert "a vote of its own" in describe_conviction(replace(silent, is_claim=False))[0]


def test_numbers_are_shown_with_as_few_digits_as_tell_them_apart() -> None:
    assert format_pair("1.00000012", "1.00000000001") == ("1.0000001", "1")
    assert format_pair("0x7fc00000 (not finite)", "1.5") == ("something that is no number", "1.5")
    assert format_pair("17", "16") == ("17", "16")


def test_a_long_sum_is_shown_as_its_formula() -> None:
    long = NUMBER | {"operation": "SUM", "operands": [["1"], ["2"]], "formula": "1 + 2 + ... (375 terms)"}
    assert "had to compute 1 + 2 + ... (375 terms)." in describe_conviction(replace(FACTS, number=long))[1]
