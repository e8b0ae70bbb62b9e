"""Decides before every signature and every transaction whether a node may sign now.

    newest folded block --> is it young, by this clock? --> do the endpoints have it? --> sign
                             both ways                       all that answer and are not stuck

A node decides by the blocks that it has folded, but what it signs counts on the chain that the endpoints show
now. So it signs nothing while these may differ, or while it may have slept. It waits if an endpoint shows
another chain, is far behind, or is silent, and if a clock is wrong.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

from touchstone.protocol.adapters.chain.answers import Head
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.spec.errors import EnvironmentFault

BLOCK_S = {"12s": 12.0, "2s": 2.0}
"""Seconds between two blocks, by the name of the deployment's preset. The clock of a test network jumps."""
LAG_BLOCKS, LAG_S = 5, 30.0
"""The head is old if it is more than LAG_BLOCKS blocks behind, or LAG_S seconds if that is longer."""
STUCK_BLOCKS = 8
"""An endpoint is stuck if it is more than this many blocks below another one and the block time is not
known."""
EARLY_S = 15.0
"""Seconds that a block's time may lie in the future. Ethereum's clients refuse later blocks."""
ATTEMPTS, PAUSE_S = 4, 0.25
"""An endpoint is asked up to ATTEMPTS times for the newest folded block, PAUSE_S seconds apart, because a
backend may be behind for a moment."""


class GateShut(EnvironmentFault):
    """This node may not sign now. What it has to do waits, and is tried again later."""


class Gate:
    """Decides whether a node may sign. `folded` is the newest block whose events the node has applied to its
    state. It is None for a reader, which keeps no state; then the gate is open. `preset` names the
    deployment's limits."""

    def __init__(self, connection: Connection, now: Callable[[], float] = time.time) -> None:
        """Opens a gate. `now` returns Unix time in seconds."""
        self.preset = "own"
        self.folded: Head | None = None
        self.reason = ""
        """Why the gate was shut at the last check; empty if it was open."""
        self._connection = connection
        self._now = now

    async def pass_through(self) -> None:
        """Raises GateShut unless the newest folded block is recent, and the endpoints have the same block."""
        folded = self.folded
        if folded is None:
            return
        self.reason = find_age_fault(folded, self.preset, self._now()) or await self._find_chain_fault(folded)
        if self.reason:
            raise GateShut(
                what="nothing is signed now",
                expected=f"the chain that was read, with block {folded.number} 0x{folded.block_hash.hex()}",
                actual=self.reason,
                where=self._connection.place,
                remedy="The node goes on by itself once endpoint and clock are right. Check `rpc_url`, and "
                "the clock of this machine.",
            )

    async def _find_chain_fault(self, folded: Head) -> str:
        """Returns why the endpoints' chain may differ from the folded one. Empty if at least one endpoint has
        the folded block, and no endpoint lacks it that answers and is not stuck."""
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(PAUSE_S)
            try:
                found = await self._connection.blocks_everywhere(folded.number)
            except EnvironmentFault as fault:
                return f"no endpoint that answers: {fault.actual}"
            shown = [one for one in found if one is not None]
            others = [one for one in shown if one.block_hash != folded.block_hash]
            if others:
                return f"block {folded.number} 0x{others[0].block_hash.hex()} at an endpoint"
            if shown and (len(shown) == len(found) or await self._are_stuck(len(found) - len(shown))):
                return ""
        return (
            f"no endpoint that has block {folded.number}"
            if not shown
            else (f"no block {folded.number} at an endpoint")
        )

    async def _are_stuck(self, count: int) -> bool:
        """Returns whether at least `count` endpoints are stuck, judged by their heads."""
        assert self.folded is not None, "a reader has no folded block"
        try:
            heads = await self._connection.heads_everywhere()
        except EnvironmentFault:
            return False
        return count <= len(heads) - len(list_live(heads, self.preset, self._now(), self.folded.number))


def list_live(heads: Sequence[Head], preset: str, now_s: float, newest: int) -> list[Head]:
    """Returns the heads of the endpoints that are not stuck, the lowest first. `preset` is the deployment's;
    `newest` is the newest block that was read. An endpoint is stuck if its head is below another one and too
    old for the gate. If the block time is unknown, it is stuck if its head is far below and does not change:
    if it changes, the higher one may be inventing blocks."""
    highest, block_s = max(one.number for one in heads), BLOCK_S.get(preset)

    def is_stuck(head: Head) -> bool:
        if block_s is None:
            return head.number < highest - STUCK_BLOCKS and head.number <= newest
        return head.number < highest and now_s - head.timestamp_s > _find_grace_s(block_s)

    return sorted((one for one in heads if not is_stuck(one)), key=lambda one: one.number)


def _find_grace_s(block_s: float) -> float:
    return max(LAG_S, LAG_BLOCKS * block_s)


def find_age_fault(head: Head, preset: str, now_s: float) -> str:
    """Returns why a block cannot be the present newest one; empty if it may be. `preset` is the
    deployment's."""
    block_s = BLOCK_S.get(preset)
    if block_s is None:
        return ""
    age_s = now_s - head.timestamp_s
    if age_s > _find_grace_s(block_s):
        return f"block {head.number} is the newest and {age_s:.0f} s old by this machine's clock"
    if age_s < -EARLY_S:
        return f"block {head.number} lies {-age_s:.0f} s in the future of this machine's clock"
    return ""
