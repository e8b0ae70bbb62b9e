"""The hashes of a claim's tree, against the words of the contracts written out."""

from hashlib import sha256

from protocol.spec.claim_tree import compute_carried_root, compute_work_leaf, count_claim_leaves
from protocol.spec.containers import StateHeader

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
