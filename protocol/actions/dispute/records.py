"""What this room keeps in the journal. Fields are what recovery needs and nothing else knows.

A statement is named by round, slot, draw (CLAIM: the claim itself), rank, and for a vote by its signature
too: a liar may sign several for one place.
"""

from dataclasses import dataclass

from protocol.adapters.messages import Word

CLAIM = -1
"""In place of a draw: the statement is the claim."""
NO_STEP = -1
"""In place of a step: the claimant did not show its steps, so none could be judged."""


@dataclass(frozen=True)
class CaseMade:
    """Before a dispute is opened: what it is about and its salt, so that it is opened once. step: the one
    that was judged to lie beyond the limits."""

    task: Word
    round: int
    slot: int
    draw: int
    rank: int
    segment: int
    signature: bytes
    step: int
    salt: Word


@dataclass(frozen=True)
class CaseDropped:
    """Each step of a segment lies inside the limits of what this node makes of the claimant's own state
    before it: its end may be drift, so it is never disputed."""

    task: Word
    round: int
    slot: int
    draw: int
    rank: int
    segment: int
    signature: bytes


RECORDS = (CaseMade, CaseDropped)
"""All kinds of this room."""
