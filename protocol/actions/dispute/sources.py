"""What this room needs of the audits: votes and seals that are known, openings of claims, own replays.

The audit room keeps all of it. A statement that is no longer of the chain (after a reorg) may still be
listed: whoever uses one asks `standing.py`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from protocol.actions.merge.book import WorkProof
from protocol.adapters.chain.types import BoundaryProof
from protocol.spec.containers import StateHeader
from protocol.spec.game.state import StatementRef
from protocol.spec.statements import Sealed, Vote, VoteOpening


@dataclass(frozen=True)
class KnownVote:
    """A vote that this node was handed, found on chain or signed itself. auditor: who signed it, lower case;
    opening: what opens it, once it is known."""

    vote: Vote
    signature: bytes
    auditor: str
    opening: VoteOpening | None = None

    @property
    def ref(self) -> StatementRef:
        """Its place."""
        return StatementRef(self.vote.round, self.vote.slot, self.vote.draw, self.vote.rank)


@dataclass(frozen=True)
class KnownSeal:
    """A seal that this node was handed."""

    said: Sealed
    signature: bytes
    auditor: str


@dataclass(frozen=True)
class ClaimOpenings:
    """What a solver has shown of its claim: boundaries by number, the work leaf, the last boundary."""

    boundaries: Mapping[int, BoundaryProof] = field(default_factory=dict)
    work: WorkProof | None = None
    last: BoundaryProof | None = None


@dataclass(frozen=True)
class OwnReplay:
    """What this node's own replay of a drawn segment found. start: the claim's opened start; own_end: what
    the replay came to; claimed_end: the claim's opened end; beyond_leaf: the state leaf that lies farthest
    beyond the limits, None where all lie inside; seal_salt: of the seal that was signed for it."""

    ref: StatementRef
    segment: int
    start: BoundaryProof
    own_end: StateHeader
    claimed_end: BoundaryProof | None
    beyond_leaf: int | None
    seal_salt: bytes


class Audits(Protocol):
    """The audit room, as this room reads it; all from memory."""

    def list_votes(self, index: int) -> Iterable[KnownVote]:
        """Votes on claims of a round, this node's own among them."""

    def list_seals(self, index: int) -> Iterable[KnownSeal]:
        """Seals on claims of a round."""

    def list_replays(self, index: int) -> Iterable[OwnReplay]:
        """This node's replays of segments of a round."""

    def list_wrong_starts(self, index: int) -> Iterable[tuple[int, BoundaryProof]]:
        """Slots of a round whose boundary 0 has step numbers that no claim starts from, and that boundary."""

    def get_openings(self, index: int, slot: int) -> ClaimOpenings:
        """What the solver of a slot has shown of its claim of a round."""
