"""The records that a node keeps in its journal. Fields are what recovery needs and nothing else knows.

All roots, salts, hashes and `task` (the task id) are 32 bytes. A class in use is never renamed and its fields
never change: journals outlive versions.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class BoundarySaltsDrawn:
    """Before training: the salts of boundaries 0 .. H/k of a round's claim."""

    task: bytes
    round: int
    salts: tuple[bytes, ...]


@dataclass(frozen=True)
class BoundaryReached:
    """While training: the state at a boundary is in the store under these roots."""

    task: bytes
    round: int
    boundary: int
    weights_root: bytes
    first_moment_root: bytes
    second_moment_root: bytes
    local_step: int
    global_step: int


@dataclass(frozen=True)
class ClaimMade:
    """Before the claim is sent: what it says. A node that finds it never commits to anything else."""

    task: bytes
    round: int
    claim_root: bytes
    delta_root: bytes


@dataclass(frozen=True)
class AuditMade:
    """Before an audit's commitment is sent: the end state found and the salt, both needed for the reveal."""

    task: bytes
    round: int
    slot: int
    draw: int
    rank: int
    weights_root: bytes
    first_moment_root: bytes
    second_moment_root: bytes
    local_step: int
    global_step: int
    salt: bytes


@dataclass(frozen=True)
class AccusationMade:
    """Before a dispute's opening is sealed: the claim accused and the salt, both needed to open it."""

    task: bytes
    round: int
    slot: int
    draw: int
    rank: int
    segment: int
    by_solver: bool
    salt: bytes


@dataclass(frozen=True)
class TransactionSigned:
    """Before a transaction is broadcast: enough to send the very same again. `purpose` is for people."""

    nonce: int
    transaction_hash: bytes
    raw: bytes
    purpose: str


@dataclass(frozen=True)
class RoundEnded:
    """A round needs nothing more of this node."""

    task: bytes
    round: int


RECORDS = (
    BoundarySaltsDrawn,
    BoundaryReached,
    ClaimMade,
    AuditMade,
    AccusationMade,
    TransactionSigned,
    RoundEnded,
)
"""All kinds, for `Journal(path, RECORDS)`."""
