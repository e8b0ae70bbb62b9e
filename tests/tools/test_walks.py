"""A walk counts the product's files between two named calls, and no others."""

import sys

from tools.walks import Trail, Walk
from touchstone.protocol.spec.hashing import hash_words
from touchstone.protocol.spec.merkle import compute_root


def walk(trail: Trail) -> None:
    before = sys.getprofile()
    sys.setprofile(trail.follow)
    try:
        compute_root([hash_words("touchstone.walk", bytes(32))] * 3)
        compute_root([bytes([1]) * 32] * 2)
    finally:
        sys.setprofile(before)


def test_files_before_the_first_call_and_after_the_last_one_do_not_count() -> None:
    trail = Trail(Walk("", "compute_root", "compute_root"))
    walk(trail)
    assert trail.is_over
    assert trail.files == {"protocol/spec/merkle.py"}


def test_a_walk_that_never_ends_says_so() -> None:
    trail = Trail(Walk("", "hash_words", "no_such_function"))
    walk(trail)
    assert not trail.is_over
    assert trail.files >= {"protocol/spec/hashing.py", "protocol/spec/merkle.py"}
