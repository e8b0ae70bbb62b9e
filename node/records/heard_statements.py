"""Types of statements that a node knows: votes, seals, openings of claims, own replays."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from touchstone.node.records.claim_records import WorkProof
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.statements import Sealed, Vote, VoteOpening


@dataclass(frozen=True)
class KnownVote:
    """A vote that this node was handed, found on chain or signed itself. `auditor` is the signer in lower
    case; `opening` is None until it is known."""

    vote: Vote
    signature: bytes
    auditor: str
    opening: VoteOpening | None = None

    @property
    def ref(self) -> StatementRef:
        """The place of the vote."""
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
    """The result of this node's own replay of a drawn segment. `start` and `claimed_end` are the claim's
    opened boundaries; `own_end` is the replayed end. `excess_leaf` is the leaf farthest beyond the limits,
    None if all are inside. `seal_salt` is the salt of the signed seal."""

    ref: StatementRef
    segment: int
    start: BoundaryProof
    own_end: StateHeader
    claimed_end: BoundaryProof | None
    excess_leaf: int | None
    seal_salt: bytes
