"""Life stages of rounds, claims, audits and disputes; names of audits and claims. Twin: `Types.sol`.

Values and order are the contracts': an enum travels as its number in logs and calls. A status never returns
to an earlier stage of its life, and nothing leaves a final one except a conviction.
"""

from dataclasses import dataclass
from enum import IntEnum


class Role(IntEnum):
    """What an account is enrolled as in one round."""

    NONE = 0
    SOLVER = 1
    VERIFIER = 2
    WHISTLEBLOWER = 3


class RoundStatus(IntEnum):
    """Life of a round. EMPTY: nobody to train or audit, or the beacon was not sealed in time."""

    NONE = 0
    ENROLLING = 1
    TRAINING = 2
    MERGED = 3
    EMPTY = 4


class ClaimStatus(IntEnum):
    """Life of a solver's claim in one round."""

    NONE = 0
    COMMITTED = 1
    DROPPED = 2
    VOID = 3
    ESCALATED = 4
    ACCEPTED = 5
    CONVICTED = 6


FINAL_CLAIM_STATUSES = frozenset(
    {ClaimStatus.DROPPED, ClaimStatus.VOID, ClaimStatus.ACCEPTED, ClaimStatus.CONVICTED}
)
"""No verdict follows these: the merge counts them."""


class AuditStatus(IntEnum):
    """Life of one auditor's work on one segment."""

    NONE = 0
    COMMITTED = 1
    UNSERVED = 2
    ABSTAINED = 3
    REVEALED = 4
    ACCEPTS = 5
    REJECTS = 6
    SLASHED = 7


class Stage(IntEnum):
    """Life of a dispute."""

    NONE = 0
    QUEUED = 1
    ROOTS = 2
    NAME = 3
    TRACE = 4
    PROVE = 5
    CLOSED = 6
    CONVICTED = 7


@dataclass(frozen=True)
class AuditRef:
    """Names one audit. rank 0 primary, 1 and 2 reserves; draw == segment_draws is the late audit, rank 0."""

    task: bytes
    round: int
    slot: int
    draw: int
    rank: int

    @property
    def key(self) -> tuple[int, int, int]:
        """(slot, draw, rank): the name inside its round."""
        return self.slot, self.draw, self.rank


@dataclass(frozen=True)
class ClaimRef:
    """Names one sentence "from A, k steps, to C": the solver's own on `segment`, or the audit's."""

    audit: AuditRef
    segment: int
    by_solver: bool
