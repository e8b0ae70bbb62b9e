"""Builds the tree that a claim commits to: a salted leaf for each boundary, then the work leaf.

Twins: `Hashing.workLeaf`, `Hashing.carriedRoot`, `Hashing.claimRoot`.

    leaves  0 .. s   the states at the boundaries of its s segments (`commitments.compute_boundary_leaf`)
            s + 1    the result: the pseudo-gradient, and the state that the next claim starts from

The claim's root names s beside the tree's root. Otherwise a solver could commit one tree on two forks, with
different numbers of segments. A true statement about one claim would then be false of the other.
"""

from collections.abc import Sequence

from touchstone.protocol.spec.errors import ProtocolFault
from touchstone.protocol.spec.hashing import hash_words
from touchstone.protocol.spec.merkle import compute_depth, compute_root, fold_path
from touchstone.protocol.spec.params import ZERO_WORD
from touchstone.protocol.spec.state_headers import StateHeader

TAG_CLAIM = "touchstone.claim"
TAG_WORK = "touchstone.work"
TAG_CARRIED = "touchstone.carried"


def count_claim_leaves(segments: int) -> int:
    """Returns the number of leaves in the tree of a claim of `segments` segments."""
    return segments + 2


def compute_claim_root(leaves: Sequence[bytes]) -> bytes:
    """Returns the root that a claim with these leaves commits to."""
    return name_claim(compute_root(leaves), len(leaves) - 2)


def name_claim(tree_root: bytes, segments: int) -> bytes:
    """Returns the root of a claim of `segments` segments."""
    return hash_words(TAG_CLAIM, tree_root, segments)


def verify_in_claim(claim_root: bytes, leaf: bytes, index: int, segments: int, path: Sequence[bytes]) -> None:
    """Raises ProtocolFault, with the values, unless `leaf` is leaf `index` of the claim of `segments`
    segments."""
    count = count_claim_leaves(segments)
    found = name_claim(fold_path(leaf, max(index, 0), path), segments)
    is_place = leaf != ZERO_WORD and 0 <= index < count and len(path) == compute_depth(count)
    if is_place and found == claim_root:
        return
    raise ProtocolFault(
        what="the Merkle proof of a claim's leaf does not hold",
        expected=f"root {claim_root.hex()} with {compute_depth(count)} siblings and an index below {count}",
        actual=f"root {found.hex()} with {len(path)} siblings, index {index}",
        where=f"leaf {index} ({leaf.hex()})",
        remedy="Refuse the data and keep the message: it is evidence.",
    )


def compute_carried_root(last: StateHeader) -> bytes:
    """Returns the carried root of a claim: both moments and the local step of its last state, from which the
    next claim starts if moments carry over."""
    return hash_words(TAG_CARRIED, last.first_moment_root, last.second_moment_root, last.local_step)


def compute_work_leaf(
    domain: bytes, round_number: int, solver: str, segments: int, delta_root: bytes, carried_root: bytes
) -> bytes:
    """Returns the last leaf of a claim's tree. `delta_root` is the pseudo-gradient's root, `solver` the
    account."""
    return hash_words(TAG_WORK, domain, round_number, solver, segments, delta_root, carried_root)
