"""Finds the tokens before and behind each document, and compares them with the tokenizer's template."""

from collections.abc import Sequence

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.data.packing import Borders
from touchstone.scripts.data.tokenizing import FileTokens

SHOWN, SHOWN_CHARACTERS = 5, 40
"""The most names that an error shows, and the most characters of each."""


def find_borders(tokenizer: FileTokens | None, begin: str, end: str) -> Borders:
    """Returns the tokens of these names; an empty name stands for no token. Raises InvalidInput if there is
    no such token."""
    return Borders(
        _find(tokenizer, begin, "no token to begin a document with", "--begin-of-text"),
        _find(tokenizer, end, "no token to end a document with", "--end-of-text"),
    )


def _find(tokenizer: FileTokens | None, name: str, what: str, option: str) -> tuple[int, ...]:
    if not name:
        return ()
    found = None if tokenizer is None else tokenizer.find(name)
    if found is None:
        raise InvalidInput(
            what=what,
            expected=_name_special(tokenizer)
            if tokenizer
            else "no such option, because tokens are bytes here",
            actual=f"{name!r}: no such token",
            where=option,
            remedy="Correct it.",
        )
    return (found,)


def _name_special(tokenizer: FileTokens) -> str:
    """Returns the tokenizer's first special tokens, for an error."""
    names = [repr(name[:SHOWN_CHARACTERS]) for name in tokenizer.list_special()]
    shown = ", ".join(names[:SHOWN]) + ", ..." * (len(names) > SHOWN)
    return f"the name of a token; special ones are {shown or 'none'}"


def describe_template(tokenizer: FileTokens | None, begin: str, end: str) -> list[str]:
    """Returns what the tokenizer's template puts before or behind a text and the dataset does not."""
    if tokenizer is None:
        return []
    before, behind = tokenizer.find_template()
    found = (
        _describe(before, begin, "begins", "--begin-of-text"),
        _describe(behind, end, "ends", "--end-of-text"),
    )
    return [notice for notice in found if notice]


def _describe(template: Sequence[str], given: str, verb: str, option: str) -> str:
    if not template or list(template) == [given]:
        return ""
    names = " ".join(repr(name) for name in template)
    advice = f"pass {option} {names}" if len(template) == 1 else f"{option} takes one token"
    return f"the tokenizer's template {verb} a text with {names}, this dataset does not: {advice}"
