"""Keeps the time of the demo's test network, as fast as it may be.

Each transaction gets a block at once. While somebody is at work and sends nothing, a block comes every few
seconds; windows hold thousands of such blocks.
"""

from touchstone.demo.own_time import OwnTime
from touchstone.protocol.adapters.chain.chain_client import open_game_chain
from touchstone.scripts.network.devnet import Devnet
from touchstone.scripts.network.devnet_clock import DevnetClock

SLOW_BLOCK_S = 3.0
"""Between blocks while somebody is at work and sends nothing."""


class DemoClock(DevnetClock):
    """Asks every party over HTTPS for which block it waits, as its parent class does."""

    async def _is_block_due(self) -> bool:
        is_slow = self._now_s() - self._last_block_s > SLOW_BLOCK_S
        return is_slow or await self._count_waiting() > 0


async def keep_time(devnet: Devnet, least_parties: int) -> None:
    """Makes blocks without end; skips idle ones once `least_parties` have announced themselves."""
    async with (
        open_game_chain(devnet.rpc_url, devnet.deployment) as chain,
        DemoClock(chain, None, least_parties, OwnTime().now_s) as clock,
    ):
        await clock.run()
