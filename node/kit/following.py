"""Follows the chain: folds each batch of events once, and wakes everything that waits for a block."""

import asyncio
import logging
import math
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field

from touchstone.node.kit.chain_state import ChainState
from touchstone.node.kit.config import Meter, Notify, Status
from touchstone.node.kit.waiting import telling
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.chain.follower import LogBatch
from touchstone.protocol.adapters.chain.gate import GateShut
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault

REFOLD_PAUSE_BLOCKS = 64
"""If a fold fails again within this many blocks after a complete one, the node ends."""
SHUT_PAUSE_S = 1.0
"""Seconds before the node checks again whether the folded chain is up to date. That may change without a new
block."""

log = logging.getLogger(__name__)


@dataclass
class Following:
    """A node's place on the chain. `state` is the fold of all events up to its head, `batches` the events
    still to fold. `status` is how far the node has come, as it reports it. `changed` is set if the loop must
    look again before the next block. `refolded_at` is the head at the last complete fold."""

    chain: GameChain
    state: ChainState
    status: Status
    batches: AsyncIterator[LogBatch]
    reading: "asyncio.Future[LogBatch] | None" = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    meter: Meter = field(default_factory=Meter)
    refolded_at: int = -REFOLD_PAUSE_BLOCKS

    def read(self) -> "asyncio.Future[LogBatch]":
        """Returns the pending read of the next batch. It is the same future until `take` is called."""
        if self.reading is None:
            self.reading = asyncio.ensure_future(anext(self.batches))
        return self.reading

    def stop_reading(self) -> None:
        """Stops reading `batches`."""
        if self.reading is not None:
            self.reading.cancel()
            self.reading = None

    async def take(self, batch: LogBatch) -> None:
        """Folds a batch. If that fails, folds everything anew. Raises as `fold_anew`."""
        try:
            self._fold(batch)
        except Exception as error:
            log.exception("the chain's events cannot be folded")
            await self.fold_anew(f"block {batch.head.number}: {type(error).__name__}: {error}")

    def _fold(self, batch: LogBatch) -> None:
        """Folds the batch; from now on the node signs on that chain."""
        self.reading = None
        self.state.take(batch)
        self.chain.note(batch.head)

    async def take_next(self) -> None:
        """Folds the next batch. The first batch reaches up to the head."""
        # If a caller is cancelled, the read stays for the next caller: only one runs at a time.
        await self.take(await asyncio.shield(self.read()))

    async def keep_up(self) -> None:
        """Folds the chain's events without end, while a node does something long before its loop begins."""
        while True:
            await self.take_next()

    async def catch_up(self, notify: Notify) -> None:
        """Folds until the newest folded block is recent; called before a signature. A provider that is behind
        does not show what this account has sent last."""
        async with telling(notify, lambda: f"waiting for the chain: {self.chain.gate.reason}"):
            while True:
                with suppress(GateShut):
                    await self.chain.gate.pass_through()
                    return
                with suppress(TimeoutError):
                    async with asyncio.timeout(SHUT_PAUSE_S):
                        await self.take_next()

    async def fold_anew(self, why: str) -> None:
        """Reads the whole chain again, because the fold may be wrong. Raises EnvironmentFault if that was
        done a short while ago; then the service restarts the node."""
        head = self.state.head_block
        self.meter.refolds += 1
        if head < self.refolded_at + REFOLD_PAUSE_BLOCKS:
            raise _make_unreadable(why)
        log.error("%s: reading the chain again", why)
        self.refolded_at = head
        try:
            self.state.forget_all()
            self.stop_reading()
            self.batches = self.chain.follow(grace_s=math.inf)
            self._fold(await asyncio.shield(self.read()))
        except (EnvironmentFault, ProtocolFault):
            raise
        except Exception as error:
            log.exception("the chain cannot be folded from its beginning either")
            raise _make_unreadable(f"{type(error).__name__}: {error}") from error

    async def wait_for_block(self, number: int) -> int:
        """Waits until block `number` is folded, and returns the newest folded block. Only folded blocks count
        for deadlines, because an endpoint may report blocks of another chain."""
        while self.state.head_block < number:
            await asyncio.sleep(self.chain.connection.poll_s)
        return self.state.head_block

    def notify_loop(self) -> None:
        """Makes the loop look again, because something may have made a duty due. Until then the status shows
        the node as busy."""
        self.status.waiting_for_block = self.state.head_block
        self.changed.set()


def _make_unreadable(why: str) -> EnvironmentFault:
    return EnvironmentFault(
        what="this node cannot use the chain that it has read",
        expected="events that can be folded, and duties that can be listed",
        actual=why,
        remedy="The service restarts the node. If this happens again, report a bug with the log.",
    )
