"""Says in plain sentences why a seat was convicted, and where its stake went.

For somebody who has read nothing of the project. Clauses whose facts are unknown are left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from touchstone.explorer.names import show_wei
from touchstone.protocol.spec.game.enums import ProofKind

SHOWN_DIGITS, ALL_DIGITS = 6, 9
"""Digits of a number in the headline; more if fewer do not tell the numbers apart."""
IN_WORDS: Mapping[str, str] = {
    "ADD": "{} plus {}",
    "SUBTRACT": "{} minus {}",
    "MULTIPLY": "{} times {}",
    "DIVIDE": "{} divided by {}",
    "MAXIMUM": "the larger one of {} and {}",
    "MINIMUM": "the smaller one of {} and {}",
    "SQUARE_ROOT": "the square root of {}",
    "RECIPROCAL_ROOT": "1 divided by the square root of {}",
    "EXPONENTIAL": "e to the power of {}",
    "LOGARITHM": "the natural logarithm of {}",
}
"""Operations on a few numbers; others are shown as their formula."""
HEADLINES: Mapping[ProofKind, str] = {
    ProofKind.BOUNDARY_ZERO: "{name} did not start from the model that the round began with.",
    ProofKind.DELTA_LEAF: "{name} handed in a result that does not fit the training that it committed to.",
    ProofKind.CARRIED_ROOT: "{name} committed to a training whose end contradicts itself.",
    ProofKind.VOTE_LEAF: "{name} voted about data that the claim does not have.",
    ProofKind.TWO_STATEMENTS: "{name} signed two different statements about the same audit.",
    ProofKind.FALSE_WORD: "{name} rejected work that was right.",
    ProofKind.DISPUTED: "{name} lost a dispute about {what}.",
    ProofKind.QUERIED: "{name} could not show the data that its vote stands on.",
    ProofKind.WRONG_MERGE: "{name} signed a model that is not what the round's work adds up to.",
}
WHAT: Mapping[bool | None, str] = {
    None: "what it stated",
    True: "what it trained",
    False: "a vote of its own",
}
"""The disputed statement, by whether it is a claim (None: not known)."""


@dataclass(frozen=True)
class ConvictionFacts:
    """What is known of a conviction. `number` is the document of the convicted number. `step` is the wrong
    one of the round's `steps`, from 0. `is_claim` says whether the false statement is a claim (else a vote;
    None: not known). `is_silent` says that the accused did not answer. `shares` are who got how many wei of
    the stake, None if not known; the rest is burned once the task is closed. `is_model_untouched` is None if
    not known."""

    name: str
    finder: str
    submitter: str
    block: int
    proof: ProofKind
    stake_wei: int
    number: Mapping[str, Any] | None = None
    round: int | None = None
    step: int | None = None
    steps: int | None = None
    is_claim: bool | None = None
    is_silent: bool = False
    shares: Sequence[tuple[str, int]] | None = None
    is_burned: bool = False
    is_model_untouched: bool | None = None


def describe_conviction(facts: ConvictionFacts) -> list[str]:
    """Describes a conviction: a headline, then some sentences, each a paragraph."""
    lines = [_write_headline(facts), _describe_proof(facts), _describe_stake(facts)]
    if facts.is_model_untouched is not None:
        lines.append(
            "The model was not touched."
            if facts.is_model_untouched
            else "The false work had been merged into the model before."
        )
    return [line for line in lines if line]


def _has_number(facts: ConvictionFacts) -> bool:
    return facts.number is not None and bool(facts.number.get("is_fault"))


def _write_headline(facts: ConvictionFacts) -> str:
    if facts.number is not None and _has_number(facts):
        return f"{describe_number(facts.name, facts.number['claimed'], facts.number['exact_shown'])}."
    what = WHAT[facts.is_claim]
    if facts.is_silent:
        return f"{facts.name} gave no answer when {facts.finder} disputed {what}."
    return HEADLINES[facts.proof].format(name=facts.name, what=what)


def describe_number(name: str, claimed: str, exact: str) -> str:
    """Returns which number a party wrote and which is right, as a sentence without a full stop."""
    written, right = format_pair(claimed, exact)
    return f"{name} wrote {written} where {'no number' if right == 'none' else right} is right"


def format_pair(claimed: str, exact: str) -> tuple[str, str]:
    """Formats the claimed and the exact number with as few digits as tell them apart."""
    try:
        numbers = float(claimed), float(exact)
    except ValueError:
        return ("something that is no number" if "finite" in claimed else claimed), exact
    for digits in range(SHOWN_DIGITS, ALL_DIGITS):
        shown = f"{numbers[0]:.{digits}g}", f"{numbers[1]:.{digits}g}"
        if shown[0] != shown[1]:
            return shown
    return claimed, exact


def _describe_proof(facts: ConvictionFacts) -> str:
    where = "" if facts.round is None else f" of round {facts.round}"
    if facts.number is None or not _has_number(facts):
        began = f"That was in{where.removeprefix(' of')}. " if where else ""
        return f"{began}The contract decided it, in block {facts.block}, from what was put before it."
    step = (
        "" if facts.step is None or facts.steps is None else f"step {facts.step + 1} of {facts.steps}{where}"
    )
    place = f"In {step or where.removeprefix(' of ')} it" if step or where else "It"
    computed = describe_computation(facts.number)
    return (
        f"{place} had to compute {computed}. Anyone can check that. The contract did, in block {facts.block}."
    )


def describe_computation(number: Mapping[str, Any]) -> str:
    """Describes what had to be computed, in words if it has few operands."""
    words, operands = IN_WORDS.get(number["operation"]), number.get("operands") or [[]]
    if words is None or words.count("{}") != len(operands[0]):
        return str(number["formula"])
    return words.format(*operands[0])


def _describe_stake(facts: ConvictionFacts) -> str:
    lost = f"{facts.name} lost its deposit of {show_wei(facts.stake_wei)}"
    if facts.shares is None:
        return f"{lost}. {facts.finder} found it."
    parts = list(_list_shares(facts))
    return f"{lost}: {', '.join(parts)}." if parts else f"{lost}."


def _list_shares(facts: ConvictionFacts) -> Iterator[str]:
    left = facts.stake_wei
    for name, wei in facts.shares or ():
        went = " went" if left == facts.stake_wei else ""
        left -= wei
        if name == facts.finder:
            yield f"{_show(wei)}{went} to {name}, who found it"
        else:
            yield f"{_show(wei)}{went} to {'the submitter' if name == facts.submitter else name}"
    if left > 0 and facts.is_burned:
        yield f"{_show(left)} were burned"
    elif left > 0:
        yield f"{_show(left)} are held until the task ends, and then burned if no undone work needs them"


def _show(wei: int) -> str:
    return show_wei(wei).removesuffix(" tokens")
