"""What this room keeps in the journal. Fields are what recovery needs and nothing else knows.

basis: what a claim was trained from (`compute_basis`). After a reorg or a fall a round may have another base
root or beacon; then its records have another basis, and those of the old one count for nothing.
"""

from dataclasses import dataclass
from hashlib import sha256

from protocol.adapters.messages import Word


def compute_basis(base_root: bytes, beacon: bytes) -> bytes:
    """One word for what a round's claim is trained from."""
    return sha256(base_root + beacon).digest()


@dataclass(frozen=True)
class ClaimSaltsDrawn:
    """Before training: the salts of boundaries 0 .. n of a round's claim. What the journal has of it from
    before counts for nothing any more."""

    task: Word
    round: int
    basis: Word
    salts: tuple[Word, ...]


@dataclass(frozen=True)
class ClaimBoundaryReached:
    """While training: the state at a boundary is in the store under these roots."""

    task: Word
    round: int
    basis: Word
    boundary: int
    weights_root: Word
    first_moment_root: Word
    second_moment_root: Word
    local_step: int
    global_step: int


@dataclass(frozen=True)
class ClaimFinished:
    """Before the claim is sent: what it says. A node that finds it never commits to anything else on this
    basis, unless it began the claim anew after it: then this was never sent."""

    task: Word
    round: int
    basis: Word
    claim_root: Word
    segments: int
    delta_root: Word
    carried_root: Word


@dataclass(frozen=True)
class WorkShown:
    """The work leaf of another solver's claim, once it was checked: a contest of the merged root needs it,
    and its solver may not show it again."""

    task: Word
    round: int
    solver: str
    claim_root: Word
    delta_root: Word
    carried_root: Word
    path: tuple[Word, ...]


@dataclass(frozen=True)
class MergeMade:
    """Before it is signed: the outer step over the claims of these slots, in shard order, that this node
    computed."""

    task: Word
    round: int
    base_root: Word
    slots: tuple[int, ...]
    claim_roots: tuple[Word, ...]
    weights_root: Word
    momentum_root: Word


@dataclass(frozen=True)
class ContestMade:
    """Before a contest is sent: its salt, so that each attempt is opened once."""

    task: Word
    round: int
    root: Word
    root_until: int
    attempt: int
    salt: Word


RECORDS = (ClaimSaltsDrawn, ClaimBoundaryReached, ClaimFinished, WorkShown, MergeMade, ContestMade)
"""All kinds of this room."""
