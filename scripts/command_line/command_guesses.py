"""Answers a name that no command has with the command that is meant, in one line."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

import click

from touchstone.scripts.command_line.command_names import ALIASES, MEANINGS

MAX_SHOWN_CHARACTERS = 40
MAX_NEAR = 3
LEAST_LIKENESS, LIKENESS_OF_MEANINGS = 0.6, 0.8
"""How like a typed name a command must be, by difflib, and how like a name of the table of meanings. There
are so many of these that most words are somewhat like one."""


class UnknownCommand(click.UsageError):
    """No command has the typed name. The message is one line that says which command is meant."""


def explain_unknown(typed: Sequence[str], known: Iterable[str], before: str = "") -> str:
    """Returns which command is meant by the words `typed`, the first of which is no command. `known` are the
    commands that could stand there, `before` the words before them: `task`."""
    pair, (first, *_) = [_join(before, *typed[:2]), _join(before, typed[0])], typed
    for words in pair:
        if words in MEANINGS:
            return _say(words, MEANINGS[words])
    meant = [name.removeprefix(f"{before} ") for name in (*MEANINGS, *ALIASES) if _is_below(name, before)]
    near = get_close_matches(first, list(known), MAX_NEAR, LEAST_LIKENESS)
    slips = get_close_matches(first, meant, 1, LIKENESS_OF_MEANINGS)
    nearest = next(iter(get_close_matches(first, [*near, *slips], 1, LEAST_LIKENESS)), "")
    if nearest and nearest not in near:
        words = _join(before, nearest)
        return _say(pair[1], MEANINGS.get(words) or f"Did you mean: touchstone {ALIASES[words][0]}")
    if near:
        return _say(pair[1], f"Did you mean: {', '.join(_join('touchstone', before, one) for one in near)}")
    return _say(pair[1], f"All commands: {_join('touchstone', before)} --help")


def _is_below(name: str, before: str) -> bool:
    return name.startswith(f"{before} ") if before else " " not in name


def _join(*words: str) -> str:
    return " ".join(word for word in words if word)


def _say(words: str, answer: str) -> str:
    shown = words if len(words) <= MAX_SHOWN_CHARACTERS else f"{words[:MAX_SHOWN_CHARACTERS]}..."
    return f"touchstone has no command {shown}. {answer}"
