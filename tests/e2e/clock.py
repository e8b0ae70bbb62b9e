"""The clock of the parties of one process: it makes the blocks, and only while nobody is at work.

A party says for which block it waits. When all have read the newest block, wait for a later one and no
transaction waits either, the idle blocks before the first of those are mined at once. While somebody is at
work a block is made now and then only, for what waits for one inside its work. Time in which the work had no
processor does not count: a busy machine costs nobody a deadline.
"""

import asyncio
from collections.abc import Mapping

from touchstone.demo.own_time import OwnTime
from touchstone.node.kit.config import FAR
from touchstone.node.loop.node import Node
from touchstone.protocol.adapters.chain.connection import Connection

POLL_S = 0.05
SLOW_BLOCK_S = 2.0
"""Between blocks while somebody is at work and nobody sends anything."""
PAGE_BLOCKS = 1_000
"""Mined at once: Anvil answers nobody meanwhile."""


class RoundClock:
    """Keeps the time of a chain that knows `anvil_mine`. parties: who is waited for, may grow."""

    def __init__(self, connection: Connection, parties: Mapping[str, Node]) -> None:
        self._connection, self._parties = connection, parties
        self._time = OwnTime()
        self._last_block_s = 0.0

    async def run(self, least_parties: int) -> None:
        """Make blocks for ever; idle ones are skipped once so many parties are there."""
        await self._connection.request("evm_setAutomine", False)
        while True:
            await self._tick(least_parties)
            await asyncio.sleep(POLL_S)

    async def _tick(self, least_parties: int) -> None:
        head = (await self._connection.head()).number
        is_slow = self._time.now_s() - self._last_block_s > SLOW_BLOCK_S
        if await self._count_waiting() or is_slow:
            return await self._mine(1)
        skip = self.compute_skip(head) if len(self._parties) >= least_parties else 0
        # Whoever had sent something when it was looked at is not idle.
        if skip > 0 and not await self._count_waiting():
            await self._mine(min(skip, PAGE_BLOCKS))

    def compute_skip(self, head: int) -> int:
        """Blocks until the next one is the first that anybody waits for; 0 while somebody is at work."""
        statuses = [party.status for party in self._parties.values()]
        is_busy = any(party.following.changed.is_set() for party in self._parties.values())
        if is_busy or any(s.processed_block != head or s.waiting_for_block <= head for s in statuses):
            return 0
        awaited = min(status.waiting_for_block for status in statuses)
        return max(1, awaited - head - 1) if awaited < FAR else 0

    async def _count_waiting(self) -> int:
        pool = await self._connection.request("txpool_status")
        return int(pool["pending"], 16)

    async def _mine(self, count: int) -> None:
        await self._connection.request("anvil_mine", count)
        self._last_block_s = self._time.now_s()
