"""A whole task of nodes that see the chain through providers as they are."""

from pathlib import Path

from tests.e2e.behind_providers import CAST, check_paid, open_behind, play
from tests.faults.provider import lag


async def test_behind_backends_that_lag_all_are_paid_though_they_are_harassed(tmp_path: Path) -> None:
    """One block behind for 30 % of the requests: an honest solver was convicted so, and lost its stake."""
    async with open_behind(tmp_path, CAST, lag(1, 0.3)) as (world, _):
        game = await play(world, CAST)
        await check_paid(world, game, set(CAST) - {"harasser"})
