"""Attacks on an exact task."""

from lab.benchmarks.exactness.attacking import judge_attacks
from lab.benchmarks.hunting.arena import Arena
from tests.attacks.menagerie import ATTACKS


def test_every_claim_with_other_bits_is_rejected() -> None:
    found = judge_attacks(Arena("mouse", 2, 4, 1, attacked=2, numeric_format="exact15"))
    assert found["attacks"] == len(ATTACKS)
    assert found["samples"] == found["rejected"] > len(ATTACKS) // 2
    assert found["samples"] + sum(found["idle"].values()) == len(ATTACKS)
