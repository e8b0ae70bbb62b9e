"""Whoever contests what is right loses the bond, and nobody else loses anything. Other attacks are played by
`./dev bench referee`."""

from pathlib import Path

from tests.e2e.attacks import attack
from tests.e2e.world import AMOUNTS


async def test_a_right_root_that_is_contested_to_a_leaf_stands(tmp_path: Path) -> None:
    found = await attack(tmp_path, "contest")
    assert (found.contests, found.lost) == (1, AMOUNTS.contest_bond)
    assert (found.unpaid, found.closed, found.honest_lost) == ((), (), 0)
