"""The records that a node keeps in its journal. Fields are what recovery needs and nothing else knows.

Whoever changes one raises `journal.FORMAT`: journals written before are then refused, never misread.
"""

from dataclasses import dataclass

from protocol.adapters.messages import Word


@dataclass(frozen=True)
class JournalBegun:
    """First of all: whose journal it is, an address in lower case."""

    account: str


@dataclass(frozen=True)
class RoundDealt:
    """Before anything is computed in a round: its beacon. Where a reorg deals anew, all that was written down
    for the round before is void."""

    task: Word
    round: int
    beacon: Word


@dataclass(frozen=True)
class BoundarySaltsDrawn:
    """Before training: the salts of boundaries 0 .. H/k of a round's claim."""

    task: Word
    round: int
    salts: tuple[Word, ...]


@dataclass(frozen=True)
class BoundaryReached:
    """While training: the state at a boundary is in the store under these roots."""

    task: Word
    round: int
    boundary: int
    weights_root: Word
    first_moment_root: Word
    second_moment_root: Word
    local_step: int
    global_step: int


@dataclass(frozen=True)
class ClaimMade:
    """Before the claim is sent: what it says. A node that finds it never commits to anything else."""

    task: Word
    round: int
    claim_root: Word
    delta_root: Word


@dataclass(frozen=True)
class AuditMade:
    """Before an audit's commitment is sent: the root of the start state that was replayed, and the end state
    found and the salt, both needed for the reveal."""

    task: Word
    round: int
    slot: int
    draw: int
    rank: int
    start_root: Word
    weights_root: Word
    first_moment_root: Word
    second_moment_root: Word
    local_step: int
    global_step: int
    salt: Word


@dataclass(frozen=True)
class AccusationMade:
    """Before a dispute's opening is sealed: the claim accused and the salt, both needed to open it."""

    task: Word
    round: int
    slot: int
    draw: int
    rank: int
    segment: int
    by_solver: bool
    salt: Word


RECORDS = (
    JournalBegun,
    RoundDealt,
    BoundarySaltsDrawn,
    BoundaryReached,
    ClaimMade,
    AuditMade,
    AccusationMade,
)
"""All kinds, for `Journal(path, RECORDS)`."""
