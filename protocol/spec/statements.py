"""Defines what members sign in a round: seals, votes, openings, merge signatures. Twin of `Statements.sol`.

    Sealed          an auditor's own result, hidden, before it sees the claim's end
    Vote            the auditor's verdict; it repeats the sealed fields
    VoteOpening     the data that the vote's hashes hide, once the draw is decided
    MergeSignature  a solver's outer root over the accepted claims

Each one names the task's domain, the round and the root that the round started from. A statement of an audit
names the claim and the seed as well. After a reorg any of these may differ. Then the statement is about a
round that is not on the chain: it does not count, and it proves no fault of its signer.

A vote has salted leaves of the claim and no state root, so that other auditors have nothing to copy.
`statement_checks.py` judges statements, `typed_data.py` says how they are signed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from touchstone.protocol.spec.hashing import hash_words

TAG_SEALED = "touchstone.sealed"
TAG_MERGED = "touchstone.merged"


class VoteWord(IntEnum):
    """The verdict of a vote. No verdict is 0, so that an empty place in a contract means none."""

    ACCEPT = 1
    REJECT_STATE = 2  # The end state exceeds the limits at the named leaf.
    REJECT_DELTA = 3  # The pseudo-gradient is not the encoded difference at the named leaf.
    REJECT_START = 4  # The claim does not start from the root of the round before.
    UNSERVED = 5  # Data is missing or does not fit its root.
    ABSTAIN = 6


COMPARED = frozenset({VoteWord.ACCEPT, VoteWord.REJECT_STATE, VoteWord.REJECT_DELTA, VoteWord.REJECT_START})
"""Verdicts of an auditor that got all data: its vote names both leaves and its seal."""
NAMING = frozenset({VoteWord.REJECT_STATE, VoteWord.REJECT_DELTA})
"""Verdicts that name a leaf."""


@dataclass(frozen=True)
class Sealed:
    """An auditor's result of one replay, sealed before the solver opens the claim's end.

    `domain` is the task's (`compute_domain`). `base_root` is the outer root that the round started from,
    `seed` the seed that drew the audit. `draw` is the draw's number in the claim; a late audit has the task's
    draws per claim. `rank` is 0 for the primary, 1 and 2 for the reserves. `start_leaf` is the claim's salted
    boundary leaf `segment`, `seal` is from `compute_seal`; both are zero if the auditor was not served
    yet."""

    domain: bytes
    round: int
    base_root: bytes
    seed: bytes
    slot: int
    claim_root: bytes
    draw: int
    rank: int
    segment: int
    start_leaf: bytes
    seal: bytes


@dataclass(frozen=True)
class Vote(Sealed):
    """An auditor's vote. The earlier fields repeat the auditor's `Sealed`.

    `end_leaf` is the claim's salted boundary leaf `segment` + 1, zero if it was not served. `named_leaf` is
    the index of the leaf of the state or of the pseudo-gradient that a REJECT names, else 0."""

    end_leaf: bytes
    word: VoteWord
    named_leaf: int


@dataclass(frozen=True)
class VoteOpening:
    """The data that a vote's two hashes hide. It is shown once the draw is decided, never before.

    `claim_end_root` and `boundary_salt` are of the claim's leaf after the segment, `own_end_root` and
    `seal_salt` of the auditor's replay."""

    vote: Vote
    claim_end_root: bytes
    boundary_salt: bytes
    own_end_root: bytes
    seal_salt: bytes


@dataclass(frozen=True)
class MergeSignature:
    """A solver's statement that merging these claims into the base root gives `root` (`compute_outer_root`).
    `merged` is a bitmap of their slots. Roots alone are not enough: two slots may have the same one, and only
    the account that made it can open its work leaf."""

    domain: bytes
    round: int
    base_root: bytes
    merged: int
    merged_hash: bytes
    root: bytes


Statement = Sealed | Vote | VoteOpening | MergeSignature


def compute_seal(
    domain: bytes,
    round_number: int,
    slot: int,
    draw: int,
    rank: int,
    auditor: str,
    start_leaf: bytes,
    own_end_root: bytes,
    salt: bytes,
) -> bytes:
    """Returns the hash that hides an auditor's own end root until it may be shown. It names the auditor's
    account, so that no other auditor can hand it in as its own."""
    place = (domain, round_number, slot, draw, rank)
    return hash_words(TAG_SEALED, *place, auditor, start_leaf, own_end_root, salt)


def compute_merged_hash(claim_roots: Sequence[bytes]) -> bytes:
    """Returns a hash that names the merged claims: their roots, in the order of their shards."""
    return hash_words(TAG_MERGED, *claim_roots)
