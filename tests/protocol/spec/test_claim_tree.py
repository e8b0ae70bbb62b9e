"""The hashes of a claim's tree, against the words of the contracts written out."""

from hashlib import sha256

import pytest

from touchstone.protocol.spec.claim_tree import (
    compute_carried_root,
    compute_claim_root,
    compute_work_leaf,
    count_claim_leaves,
    name_claim,
    verify_in_claim,
)
from touchstone.protocol.spec.errors import ProtocolFault
from touchstone.protocol.spec.merkle import compute_levels, compute_path, compute_root
from touchstone.protocol.spec.state_headers import StateHeader

WORDS = [bytes([i]) * 32 for i in range(1, 8)]


def pad(value: int) -> bytes:
    return value.to_bytes(32, "big")


def test_the_work_leaf_is_sha256_over_tag_and_words() -> None:
    """`Hashing.workLeaf`: a word a field, in this order."""
    solver = "0x" + "Ab" * 20
    tag = b"touchstone.work".ljust(32, b"\0")
    words = (tag, WORDS[0], pad(7), pad(int(solver, 16)), pad(5), WORDS[1], WORDS[2])
    expected = sha256(b"".join(words)).digest()
    assert compute_work_leaf(WORDS[0], 7, solver, 5, WORDS[1], WORDS[2]) == expected


def test_what_is_carried_is_both_moments_and_the_local_step() -> None:
    """`Hashing.carriedRoot`: weights and global step are not in it."""
    header = StateHeader(WORDS[0], WORDS[1], WORDS[2], 40, 99)
    words = (b"touchstone.carried".ljust(32, b"\0"), WORDS[1], WORDS[2], pad(40))
    assert compute_carried_root(header) == sha256(b"".join(words)).digest()
    other = StateHeader(WORDS[3], WORDS[1], WORDS[2], 40, 7)
    assert compute_carried_root(other) == compute_carried_root(header)


def test_a_claim_of_s_segments_has_s_and_two_leaves() -> None:
    assert count_claim_leaves(4) == 6


def test_a_claims_root_names_its_number_of_segments() -> None:
    """`Hashing.claimRoot`. One tree is no claim of another length: a reorganisation could make it one."""
    leaves = [bytes([i]) * 32 for i in range(1, 7)]
    words = (b"touchstone.claim".ljust(32, b"\0"), compute_root(leaves), pad(4))
    root = compute_claim_root(leaves)
    assert root == sha256(b"".join(words)).digest()
    levels = compute_levels(leaves)
    for index, leaf in enumerate(leaves):
        verify_in_claim(root, leaf, index, 4, compute_path(levels, index))
    other, above = name_claim(levels[-1][0], 2), (levels[1][0], 0, 2, compute_path(levels, 0)[1:])
    verify_in_claim(other, *above)
    with pytest.raises(ProtocolFault):
        verify_in_claim(root, *above)
    with pytest.raises(ProtocolFault):
        verify_in_claim(other, leaves[0], 0, 4, compute_path(levels, 0))
    for index, path in ((6, compute_path(levels, 5)), (-1, compute_path(levels, 5)), (0, [])):
        with pytest.raises(ProtocolFault):
            verify_in_claim(root, leaves[5], index, 4, path)
