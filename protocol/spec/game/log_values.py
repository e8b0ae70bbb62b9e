"""Reads values of events: statements, votes, bitmaps."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.statements import Vote, VoteWord

Values = Mapping[str, Any]
"""The values of an event, by name in snake case, in declaration order."""


NO_DRAW = (1 << 32) - 1
"""The draw number of a statement that is the claim itself."""


def read_statement(ref: Any) -> StatementRef:
    """Returns a statement, as an event names it."""
    draw = None if ref.draw == NO_DRAW else int(ref.draw)
    return StatementRef(int(ref.round), int(ref.slot), draw, int(ref.rank))


def read_vote(said: Any) -> Vote:
    """Returns a vote, as an event names it."""
    vote = Vote(**{one.name: getattr(said, one.name) for one in fields(Vote)})
    return replace(vote, word=VoteWord(vote.word))


def list_bits(bitmap: int) -> tuple[int, ...]:
    """Returns the positions of a bitmap's ones, ascending."""
    return tuple(place for place in range(bitmap.bit_length()) if bitmap >> place & 1)
