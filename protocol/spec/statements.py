"""What members sign in a round: seals, votes, openings of votes, merge signatures. Twin of `Statements.sol`.

    Sealed          an auditor's own result, hidden, before it sees the claim's end
    Vote            what it found; it repeats what was sealed
    VoteOpening     what stands behind the vote's hashes, once the draw is decided
    MergeSignature  a solver's outer root over the accepted claims

Each one names the task's domain, the round and the root that the round started from. A statement of an
audit names the claim and the seed as well. After a reorganisation any of these may differ. The statement is
then about a round that is not on the chain: it does not count, and it proves no fault of its signer.

A vote carries salted leaves of the claim and no state root, so that it gives other auditors nothing to
copy. `statement_checks.py` judges statements, `typed_data.py` says how they are signed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from touchstone.protocol.spec.hashing import hash_words

TAG_SEALED = "touchstone.sealed"
TAG_MERGED = "touchstone.merged"


class VoteWord(IntEnum):
    """The verdict of a vote. 0 is none of them, so that an empty place in a contract says nothing."""

    ACCEPT = 1
    REJECT_STATE = 2  # the end state lies beyond the limits at the named leaf
    REJECT_DELTA = 3  # the pseudo-gradient is not the encoded difference at the named leaf
    REJECT_START = 4  # the claim does not start from the root of the round before
    UNSERVED = 5  # bytes are missing or do not fit their root
    ABSTAIN = 6


COMPARED = frozenset({VoteWord.ACCEPT, VoteWord.REJECT_STATE, VoteWord.REJECT_DELTA, VoteWord.REJECT_START})
"""Words of an auditor that had everything: its vote names both leaves and what it sealed."""
NAMING = frozenset({VoteWord.REJECT_STATE, VoteWord.REJECT_DELTA})
"""Words that name a leaf."""


@dataclass(frozen=True)
class Sealed:
    """An auditor's result of one replay, sealed before the solver opens the claim's end.

    domain: of the task (`compute_domain`); base_root: the outer root that the round started from; seed: the
    one that drew the audit; draw: its number in the claim, for a late audit the task's draws per claim; rank:
    0 for the primary, 1 and 2 for the reserves; start_leaf: the claim's salted boundary leaf `segment`; seal:
    `compute_seal`. The last two are zero if the auditor was not served so far."""

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
    """What an auditor found. The fields before are those that it sealed.

    end_leaf: the claim's salted boundary leaf `segment` + 1, zero if it was not served; named_leaf: index
    of the leaf of the state or of the pseudo-gradient that a REJECT names, else 0."""

    end_leaf: bytes
    word: VoteWord
    named_leaf: int


@dataclass(frozen=True)
class VoteOpening:
    """What stands behind a vote's two hashes. It is shown once the draw is decided, and never before.

    claim_end_root, boundary_salt: of the claim's leaf after the segment; own_end_root, seal_salt: of the
    auditor's replay."""

    vote: Vote
    claim_end_root: bytes
    boundary_salt: bytes
    own_end_root: bytes
    seal_salt: bytes


@dataclass(frozen=True)
class MergeSignature:
    """A solver's word that merging these claims into the base root gives `root` (`compute_outer_root`).
    merged: their slots, a bitmap. Roots alone would not do: two slots may have the same one, and only the
    account that made it can open its work leaf."""

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
    """Returns one word for the merged claims: their roots, in the order of their shards."""
    return hash_words(TAG_MERGED, *claim_roots)
