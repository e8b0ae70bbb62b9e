"""How a node follows the chain: it folds each batch of events once, and tells who waits for a block."""

import asyncio
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from touchstone.node.kit.chain_state import ChainState
from touchstone.node.kit.config import Status
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.chain.follower import LogBatch


@dataclass
class Following:
    """state: the fold of all events up to its head; batches: what the chain does, each to be folded once;
    status: what the node tells of how far it has come; woken: set where the loop has to look again before the
    next block."""

    chain: GameChain
    state: ChainState
    status: Status
    batches: AsyncIterator[LogBatch]
    reading: "asyncio.Future[LogBatch] | None" = None
    woken: asyncio.Event = field(default_factory=asyncio.Event)

    def read(self) -> "asyncio.Future[LogBatch]":
        """Returns the pending read of the next batch; the same future until `take`."""
        if self.reading is None:
            self.reading = asyncio.ensure_future(anext(self.batches))
        return self.reading

    def stop_reading(self) -> None:
        """Reads no more of `batches`."""
        if self.reading is not None:
            self.reading.cancel()
            self.reading = None

    def take(self, batch: LogBatch) -> None:
        """Folds what the chain tells. From now on the node signs for that chain."""
        self.reading = None
        self.state.take(batch)
        self.chain.note(batch.head)

    async def take_next(self) -> None:
        """Folds the next batch; the first one reaches to the head."""
        self.take(await anext(self.batches))

    async def keep_up(self) -> None:
        """Folds what the chain does, for ever: while a node does something long before its loop begins."""
        while True:
            self.take(await asyncio.shield(self.read()))

    async def fold_anew(self) -> None:
        """Forgets all that was folded, and reads the whole chain again."""
        self.state.forget_all()
        self.stop_reading()
        self.batches = self.chain.follow(patience_s=math.inf)
        await self.take_next()

    async def wait_for_block(self, number: int) -> int:
        """Waits until block `number` is folded; returns the newest folded one. Deadlines count by folded
        blocks alone: what an endpoint tells of may be another chain."""
        while self.state.head_block < number:
            await asyncio.sleep(self.chain.connection.poll_s)
        return self.state.head_block

    def wake(self) -> None:
        """Has the loop look again: something came that may make a duty due. Until then the status
        shows the node as busy."""
        self.status.waiting_for_block = self.state.head_block
        self.woken.set()
