"""Keeps the time of a test network, and skips idle time.

It makes the blocks: real time during work, jumps while all parties wait. Windows are generous in blocks, so
that no party is slashed for a slow machine; waiting them out at two blocks a second would take hours. Each
party says at GET /status how far it has read the chain, and for which block it waits: the earliest that can
hold its next transaction. Once every announced party has read the newest block and waits for a later one, the
clock mines the idle blocks before the first of those.

Otherwise it makes a block every BLOCK_S, and every BURST_S while transactions wait. So a window of n blocks
lasts at least n * BURST_S, however much is sent. Time is skipped only if nothing is due. A party with a seat
that does not answer stops the jumps, because it could lose the seat. The clock does not wait for parties
without a seat.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from touchstone.node.kit.chain_state import Seated
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.wire import request_paths
from touchstone.protocol.adapters.wire.addresses import may_lead_to
from touchstone.protocol.adapters.wire.json_answers import MAX_STATUS_BYTES, STATUS_FORM, NodeStatus
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.adapters.wire.peer_faults import read_at_most
from touchstone.protocol.adapters.wire.session import PeerSession, RetryPolicy
from touchstone.protocol.spec.errors import TouchstoneError
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL

POLL_S = 0.1
BLOCK_S = 0.5
"""Seconds between blocks while a party works and no transaction waits."""
BURST_S = 0.25
"""Seconds between blocks while transactions wait."""
PAGE_BLOCKS = 50
"""Blocks in one request. With a long chain Anvil takes milliseconds for each block, and answers no other
request meanwhile."""
NEVER = sys.maxsize
"""A value of least_parties that means real time, always."""
FAR_BLOCKS = 10 * BOUNDS_LOCAL.window_max
"""More than any window of a test network. A party that waits for a block so far away waits only for
others."""


def compute_skip(head: int, peers: Sequence[NodeStatus | None]) -> int:
    """Returns how many blocks to mine at once, so that the next block is the first that a party waits for; 0
    if real time goes on. In `peers`, None stands for a party that does not answer."""
    if not all(peer is not None and is_idle(head, peer) for peer in peers):
        return 0
    awaited = [peer.waiting_for_block for peer in peers if peer and peer.waiting_for_block is not None]
    near = [block for block in awaited if block <= head + FAR_BLOCKS]
    return min(near) - head - 1 if near else 0


def is_idle(head: int, peer: NodeStatus) -> bool:
    """Returns whether the party has read exactly the newest block and waits for a later one."""
    is_waiting = peer.waiting_for_block is None or peer.waiting_for_block > head
    return peer.processed_block == head and is_waiting


class DevnetClock:
    """Keeps a test network's time, on a chain that supports `anvil_mine`. Use it in `async with`."""

    def __init__(
        self,
        chain: GameChain,
        report: Callable[[str], None] | None = None,
        least_parties: int = 1,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepares the clock. With fewer than `least_parties` announced, nothing is skipped, because the
        others are still being started by hand. `now_s` returns seconds."""
        self._chain = chain
        self._least_parties = least_parties
        self._report = report or (lambda _: None)
        self._peers: dict[str, Peer] = {}
        self._next_block = chain.deployment.deploy_block
        self._seated = Seated()
        self._session = PeerSession(
            RetryPolicy(attempts=1, connect_s=2.0, silence_s=2.0), partial(may_lead_to, own_host="127.0.0.1")
        )
        self._now_s = now_s
        self._last_block_s = now_s()
        self._busy = ""

    async def __aenter__(self) -> "DevnetClock":
        self._session.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def run(self) -> None:
        """Makes blocks without end; from now on only this clock makes them."""
        await self._chain.connection.request("evm_setAutomine", False)
        while True:
            await self.tick()
            await asyncio.sleep(POLL_S)

    async def tick(self) -> int:
        """Asks all parties once, mines what is due or can be skipped, and returns the number of mined
        blocks."""
        head = (await self._chain.head()).number
        await self._read_events(head)
        if await self._is_block_due():
            return await self._mine(1)
        if len(self._peers) < self._least_parties:
            return 0
        skip = compute_skip(head, await self._ask_all(head))
        # A party that had sent something when it was asked is not idle, whatever it said.
        if skip <= 0 or await self._count_waiting():
            return 0
        self._report(f"all {len(self._peers)} parties wait: block {head} -> {head + skip}")
        return await self._mine(skip)

    async def _is_block_due(self) -> bool:
        elapsed_s = self._now_s() - self._last_block_s
        return elapsed_s >= BLOCK_S or (elapsed_s >= BURST_S and await self._count_waiting() > 0)

    async def _count_waiting(self) -> int:
        """Returns how many transactions wait for a block."""
        pool = await self._chain.connection.request("txpool_status")
        return int(pool["pending"], 16)

    async def _read_events(self, head: int) -> None:
        for event in await self._chain.read_events(self._next_block, head):
            self._seated.take(event)
            if event.name == "Announced":
                self._add(event.arguments)
        self._next_block = head + 1

    def _add(self, announced: dict[str, Any]) -> None:
        account = announced["account"]
        try:
            self._peers[account] = Peer(account, announced["url"], announced["certificate_sha256"])
        except TouchstoneError as error:
            # Nobody can reach this party, so the clock does not wait for it.
            self._peers.pop(account, None)
            self._report(str(error))

    async def _ask_all(self, head: int) -> list[NodeStatus | None]:
        """Returns the status of every party. As long as the party that was last seen working still works,
        returns its status alone, because ten questions a second to each would slow the machine down."""
        busy = self._peers.get(self._busy)
        if busy is not None:
            status = await self._ask(busy)
            if status is None or not is_idle(head, status):
                return [status]
        asked = list(self._peers.values())
        answers = zip(asked, await asyncio.gather(*map(self._ask, asked)), strict=True)
        # A party that neither answers nor has a seat is gone, and can miss nothing that costs it.
        waited = [(p, status) for p, status in answers if status or self._seated.holds(p.account)]
        peers, statuses = [peer for peer, _ in waited], [status for _, status in waited]
        at_work = (
            peer.account
            for peer, status in zip(peers, statuses, strict=True)
            if status is None or not is_idle(head, status)
        )
        self._busy = next(at_work, "")
        return statuses

    async def _ask(self, peer: Peer) -> NodeStatus | None:
        """Returns a party's status; None if there is no valid answer. Such a party is never skipped over."""
        try:
            async with self._session.get(peer, request_paths.STATUS, {}, MAX_STATUS_BYTES) as response:
                status = STATUS_FORM.decode(await read_at_most(response, MAX_STATUS_BYTES), peer.account)
        except TouchstoneError:
            return None
        return status if status.account == peer.account else None

    async def _mine(self, count: int) -> int:
        """Mines `count` blocks, or fewer if a party sends a transaction meanwhile. It may open a window,
        which must not be over before its owner has seen it."""
        mined = 0
        while mined < count and not (mined and await self._count_waiting()):
            page = min(PAGE_BLOCKS, count - mined)
            await self._chain.connection.request("anvil_mine", page)
            mined += page
        self._last_block_s = self._now_s()
        return mined
