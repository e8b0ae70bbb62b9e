"""Reads the contracts' events in order, each once; fills gaps, notices reorgs, waits for lagging backends.

A hosted provider is many backends, and each answer may come from another one. So near the head nothing is
asked by number:

    head --parent--> block --parent--> block ... --parent--> a block that was processed
      |                |                 |
     logs             logs              logs          each asked for by the hash of the block

A backend that lacks a block cannot answer for its hash, but would answer for a range with an empty list. So
ranges are read only for blocks that are `NEAR_BLOCKS` deep.

Of several endpoints that are not stuck, the lowest head counts. So a block that only one endpoint has is
never processed.

If a head is not higher than the newest processed block, the backend lags, or there is a reorg: such a head
counts once it was seen twice. A chain that forks off more than `NEAR_BLOCKS` below the newest block is
another chain, or a stuck backend; it is treated as silence. It is followed only if it goes on higher, shares
processed blocks, and nothing else is seen `FORK_LOOKS` times. The newest blocks are sometimes read again and
compared.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from touchstone.protocol.adapters.chain.answers import Head
from touchstone.protocol.adapters.chain.connection import GRACE_S, Connection
from touchstone.protocol.adapters.chain.contract_events import Event, EventReader
from touchstone.protocol.adapters.chain.gate import STUCK_BLOCKS, list_live
from touchstone.protocol.adapters.chain.providers import chain_fault
from touchstone.protocol.spec.errors import EnvironmentFault

NEAR_BLOCKS = 64
"""Blocks within this distance behind the head are read by hash. It is two epochs, after which Ethereum never
removes a block."""
REMEMBERED_HEADS = 1_024
FORK_LOOKS = 3
LOOK_POLLS = 8
"""After this many polls spent reading towards a far head, the other endpoints are asked again."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LogBatch:
    """The events up to `head`. If `forget_from` is set, a reorg has voided all earlier events from that block
    on."""

    head: Head
    events: tuple[Event, ...]
    forget_from: int | None = None


class Follower:
    """Yields every event once, in order, from `from_block` on, and reports when a reorg has voided some."""

    def __init__(
        self, connection: Connection, reader: EventReader, from_block: int, processed: Sequence[Head] = ()
    ) -> None:
        """Begins. `processed` are heads whose events were yielded before this process began, ascending."""
        self._connection = connection
        self._reader = reader
        self._from_block = from_block
        self._processed: deque[Head] = deque(processed, maxlen=REMEMBERED_HEADS)
        self._places: dict[bytes, list[tuple[int, bytes]]] = {}
        """The places and transactions of the events in near blocks, by block hash."""
        self._doubted = b""
        """The hash of the last seen head that was not higher than the newest processed block."""
        self._compared = -1
        """The newest block at the last comparison of the near blocks."""
        self._fork: tuple[bytes, int] = b"", 0
        """The last block shared with a chain that forks off far below the newest processed block, and how
        often in a row that chain was seen."""

    async def batches(self, grace_s: float | None = None) -> AsyncIterator[LogBatch]:
        """Yields a batch for every new head, the first at once, without end. Raises EnvironmentFault if no
        batch can be read for `grace_s` (GRACE_S); until then the connection's health says why."""
        grace_s = GRACE_S if grace_s is None else grace_s
        silent_since: float | None = None
        while True:
            try:
                batch = await self._read()
            except EnvironmentFault as fault:
                self._connection.health.note_reading(f"{fault.where}: {fault.actual}")
                silent_since = silent_since or time.monotonic()
                if time.monotonic() - silent_since > grace_s:
                    raise
            else:
                silent_since = None
                self._connection.health.note_reading()
                if batch is not None:
                    yield batch
            await asyncio.sleep(self._connection.poll_s)

    async def _read(self) -> LogBatch | None:
        batch = await self._read_lowest()
        if batch is None and self._processed and self._is_due_again():
            return await self._compare()
        return batch

    async def _read_lowest(self) -> LogBatch | None:
        """Returns the batch up to the lowest head of the endpoints that are not stuck. If that cannot be
        read, this head may be invented and lower heads right, so it reads up to those."""
        connection = self._connection
        newest = self._processed[-1].number if self._processed else -1
        heads = await connection.heads_everywhere()
        lowest, *above = list_live(heads, connection.preset, time.time(), newest)
        connection.health.head = lowest
        stuck = sorted(set(heads) - {lowest, *above}, key=lambda one: -one.number)
        try:
            return await (self._read_unless_news(lowest) if stuck else self.read_up_to(lowest))
        except EnvironmentFault as fault:
            last = fault
        for head in stuck:
            try:
                return await self.read_up_to(head)
            except EnvironmentFault as fault:
                last = fault
        raise last

    async def _read_unless_news(self, head: Head) -> LogBatch | None:
        """Reads as `read_up_to`, but returns None once an endpoint that seemed stuck reports something new.
        Reading up to an invented head could take years."""
        newest = self._processed[-1].number if self._processed else -1
        reading = asyncio.ensure_future(self.read_up_to(head))
        try:
            while not (await asyncio.wait([reading], timeout=LOOK_POLLS * self._connection.poll_s))[0]:
                heads = await self._connection.heads_everywhere()
                if any(newest < one.number < head.number - STUCK_BLOCKS for one in heads):
                    return None
            return await reading
        finally:
            reading.cancel()

    async def read_up_to(self, head: Head) -> LogBatch | None:
        """Returns the batch that ends at `head`, or None if the head is not new, or not believed yet. Raises
        EnvironmentFault if the endpoint lacks blocks that it should have, or is on another chain."""
        known = {block.block_hash: place for place, block in enumerate(self._processed)}
        if head.block_hash in known:
            self._fork = b"", 0
            return None
        is_lower = bool(known) and head.number <= self._processed[-1].number
        if is_lower and head.block_hash != self._doubted:
            self._doubted = head.block_hash
            return None
        blocks, place = await self._walk_back(head, known)
        standing = list(self._processed)[: place + 1]
        deepest = self._processed[-1].number - NEAR_BLOCKS if known else 0
        if self._places and (not standing or standing[-1].number < deepest):
            # A backend that is stuck, or another chain that forked off long ago.
            standing = list(self._processed)[: await self._find_fork(head) + 1]
            blocks = [block for block in blocks if block.number > standing[-1].number]
        start = standing[-1].number + 1 if standing else self._from_block
        deep = [] if not blocks else await self._reader.read(start, blocks[0].number - 1)
        near = await self._reader.read_blocks(blocks)
        has_forked = len(standing) < len(self._processed)
        self._note(standing, blocks, near)
        events = [*deep, *(event for of_block in near for event in of_block)]
        return LogBatch(head, tuple(events), start if has_forked else None)

    async def _walk_back(self, head: Head, known: dict[bytes, int]) -> tuple[list[Head], int]:
        """Returns the blocks up to `head` that must be read by hash, ascending, and the place of the newest
        processed block that is still on the chain (-1: none)."""
        newest = self._processed[-1].number if known else self._from_block - 1
        is_far = head.number - newest > NEAR_BLOCKS
        floor = head.number - NEAR_BLOCKS + 1 if is_far else min(newest, head.number) - NEAR_BLOCKS
        floor = max(self._from_block, floor)
        blocks = [head]
        while blocks[-1].parent_hash not in known and blocks[-1].number > floor:
            blocks += await self._read_parents(blocks[-1], floor)
            stop = next((n for n, one in enumerate(blocks) if one.parent_hash in known), len(blocks))
            blocks = blocks[: stop + 1]
        blocks.reverse()
        if blocks[0].parent_hash in known:
            return blocks, known[blocks[0].parent_hash]
        if not known or not (is_far or not self._places):
            return blocks, -1
        return blocks, await self._find_standing(blocks[0])

    async def _read_parents(self, block: Head, floor: int) -> list[Head]:
        """Returns some ancestors of a block, descending, not below `floor`: those that a backend has by
        number if they are linked, else only the parent."""
        first = max(floor, block.number - NEAR_BLOCKS, 0)
        found: list[Head] = []
        child = block
        if block.number - first > 1:
            for one in reversed(await self._connection.blocks(first, block.number - 1)):
                if one is None or not _is_parent(one, child):
                    break
                found.append(one)
                child = one
        if found:
            return found
        parent = await self._connection.block_by_hash(block.parent_hash)
        if parent is None or not _is_parent(parent, block):
            found_text = "none" if parent is None else f"block {parent.number}"
            raise chain_fault(self._connection.place, f"the parent of block {block.number}", found_text)
        return [parent]

    async def _find_standing(self, oldest: Head) -> int:
        """Returns the place of the newest processed block below `oldest` that the chain still has; -1 if it
        has none of the newest ones. No header links that block to `oldest`, so one backend must show both in
        one answer."""
        places = [n for n, block in enumerate(self._processed) if block.number < oldest.number]
        for place in reversed(places[-NEAR_BLOCKS:]):
            if await self._are_of_one_chain(self._processed[place], oldest):
                return place
        # Only some heads of an earlier process are known, so everything is read again.
        return -1

    async def _are_of_one_chain(self, block: Head, later: Head) -> bool:
        """Returns whether one backend has both blocks. Raises EnvironmentFault if the backend is behind,
        because it lacks the later one."""
        found = await self._connection.blocks_of_one([block.number, later.number])
        hashes = [one and one.block_hash for one in found]
        if hashes[1] != later.block_hash:
            raise chain_fault(self._connection.place, f"block {later.number}", "none, or another one")
        return hashes[0] == block.block_hash

    async def _find_fork(self, head: Head) -> int:
        """Returns the place of the newest processed block that the chain of `head` shares. Raises
        EnvironmentFault unless the new chain is higher than the processed one, and nothing else was seen
        `FORK_LOOKS` times."""
        low, high = -1, len(self._processed)
        if head.number <= self._processed[-1].number:
            self._refuse()
        while high - low > 1:
            middle = (low + high) // 2
            if await self._are_of_one_chain(self._processed[middle], head):
                low = middle
            else:
                high = middle
        # Two test networks that began in the same second share block 0, and nothing else.
        if low < 0 or self._processed[low].number == 0:
            self._refuse()
        shared = self._processed[low]
        last, count = self._fork
        self._fork = shared.block_hash, count + 1 if last == shared.block_hash else 1
        if self._fork[1] < FORK_LOOKS:
            self._refuse()
        log.warning("the chain reorganised after block %d: reading again from there", shared.number)
        return low

    def _refuse(self) -> NoReturn:
        newest = self._processed[-1]
        was_read = f"the chain that was read, with block {newest.number} 0x{newest.block_hash.hex()}"
        raise chain_fault(
            self._connection.place, was_read, f"one that forks off {NEAR_BLOCKS} or more blocks back"
        )

    def _note(self, standing: list[Head], blocks: list[Head], near: list[list[Event]]) -> None:
        self._processed = deque([*standing, *blocks], maxlen=REMEMBERED_HEADS)
        self._doubted, self._fork = b"", (b"", 0)
        for block, events in zip(blocks, near, strict=True):
            self._places[block.block_hash] = _list_places(events)
        kept = {block.block_hash for block in list(self._processed)[-NEAR_BLOCKS:]}
        self._places = {name: places for name, places in self._places.items() if name in kept}
        if self._compared < 0:
            self._compared = blocks[-1].number

    def _is_due_again(self) -> bool:
        return self._processed[-1].number >= self._compared + NEAR_BLOCKS // 2

    async def _compare(self) -> LogBatch | None:
        """Reads the near blocks again. Returns a batch that replaces everything from the first changed block
        on; None if nothing has changed."""
        blocks = [block for block in self._processed if block.block_hash in self._places]
        again = await self._reader.read_blocks(blocks)
        self._compared = self._processed[-1].number
        for number, (block, events) in enumerate(zip(blocks, again, strict=True)):
            if _list_places(events) != self._places[block.block_hash]:
                log.warning("block %d has other events than when it was read: reading again", block.number)
                self._places |= {
                    one.block_hash: _list_places(found)
                    for one, found in zip(blocks[number:], again[number:], strict=True)
                }
                found = [event for of_block in again[number:] for event in of_block]
                return LogBatch(self._processed[-1], tuple(found), block.number)
        return None


def _list_places(events: Sequence[Event]) -> list[tuple[int, bytes]]:
    return [(event.log_index, event.transaction_hash) for event in events]


def _is_parent(block: Head, child: Head) -> bool:
    """Returns whether one block is the parent of the other, and time does not go backwards."""
    is_linked = block.block_hash == child.parent_hash and block.number == child.number - 1
    return is_linked and block.timestamp_s <= child.timestamp_s
