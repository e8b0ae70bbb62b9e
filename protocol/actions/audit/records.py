"""What this room keeps in the journal. A record is written before what it makes irrevocable is sent.

The auditor's seals and votes: who finds one signs nothing else for its place. The solver's: what it was told
before it showed an end. And the votes that others handed in, so that a restart loses none.
"""

from dataclasses import dataclass

from protocol.adapters.chain.types import BoundaryProof
from protocol.adapters.messages import Signature, Word
from protocol.spec.containers import StateHeader
from protocol.spec.statements import Sealed, Vote, VoteOpening


@dataclass(frozen=True)
class WorkShown:
    """The work leaf of a claim, as it was shown to this node: under the claim's root."""

    delta_root: Word
    carried_root: Word
    path: tuple[Word, ...]


@dataclass(frozen=True)
class SealMade:
    """Before a seal is sent: what it hides. first, start: boundary 0 and the segment's start as they were
    shown; own_end: what the replay came to."""

    task: Word
    sealed: Sealed
    salt: Word
    first: BoundaryProof
    start: BoundaryProof
    own_end: StateHeader


@dataclass(frozen=True)
class EndsShown:
    """What a solver showed after the seal: the segment's end, the last boundary, the work leaf."""

    end: BoundaryProof
    last: BoundaryProof
    work: WorkShown


@dataclass(frozen=True)
class VoteMade:
    """Before a vote is sent: all that it says, and what it saw; None where it saw no end."""

    task: Word
    vote: Vote
    signature: Signature
    ends: EndsShown | None


@dataclass(frozen=True)
class SealTaken:
    """Before the claim's end is shown to an auditor: what it sealed, signed by it."""

    task: Word
    sealed: Sealed
    signature: Signature


@dataclass(frozen=True)
class VoteTaken:
    """A vote that its auditor signed; with the opening once it was shown."""

    task: Word
    vote: Vote
    signature: Signature
    opening: VoteOpening | None


@dataclass(frozen=True)
class WrongStart:
    """Boundary 0 of a claim as it was shown, with step numbers that no round starts from: nobody can replay
    it, and anybody can prove it. said: the place, without leaves or a seal."""

    task: Word
    said: Sealed
    first: BoundaryProof


RECORDS = (SealMade, VoteMade, SealTaken, VoteTaken, WrongStart)
"""All kinds of this room."""
