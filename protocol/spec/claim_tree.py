"""The tree that a claim commits to: a salted leaf for each boundary of its segments, then its work leaf.
Twins: `Hashing.workLeaf`, `Hashing.carriedRoot`.

    leaves  0 .. s   the states at the boundaries of its s segments (`codec.compute_boundary_leaf`)
            s + 1    what comes of them: the pseudo-gradient, and what the next claim carries on
"""

from protocol.spec.containers import StateHeader
from protocol.spec.hashing import hash_words

TAG_WORK = "touchstone.work"
TAG_CARRIED = "touchstone.carried"


def count_claim_leaves(segments: int) -> int:
    """Leaves of the tree of a claim of so many segments."""
    return segments + 2


def compute_carried_root(last: StateHeader) -> bytes:
    """What a claim hands on to the next one where moments carry over: both moments and the local step of its
    last state."""
    return hash_words(TAG_CARRIED, last.first_moment_root, last.second_moment_root, last.local_step)


def compute_work_leaf(
    domain: bytes, round_number: int, solver: str, segments: int, delta_root: bytes, carried_root: bytes
) -> bytes:
    """The last leaf of a claim's tree. delta_root: of the pseudo-gradient; solver: the account."""
    return hash_words(TAG_WORK, domain, round_number, solver, segments, delta_root, carried_root)
