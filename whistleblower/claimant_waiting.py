"""Waits for what a claimant shows."""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar

from touchstone.node.kit.view import GetView, View
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.inner_dispute import InnerDispute

LOOK_S = 0.25
"""Seconds between two looks at the chain. An answer that comes sooner is taken at once."""


NEVER = 1 << 62
"""A block that never comes."""


Shown = TypeVar("Shown")


async def wait_for(get_view: GetView, until: int, asking: Awaitable[Shown]) -> Shown:
    """Returns what the claimant shows. Stops asking at block `until`, and raises EnvironmentFault if nothing
    came by then."""
    task = asyncio.ensure_future(asking)
    try:
        while True:
            await asyncio.wait({task}, timeout=LOOK_S)
            if task.done():
                return task.result()
            if get_view().head_block >= until:
                raise _make_slow(until)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@dataclass
class BlocksLeft:
    """The blocks that are left to wait for several answers of one claimant, asked for one after the other."""

    blocks: int

    async def wait(self, get_view: GetView, until: int, asking: Awaitable[Shown]) -> Shown:
        """Waits as `wait_for` does, but never longer than the blocks that are left."""
        began = get_view().head_block
        try:
            return await wait_for(get_view, min(until, began + self.blocks), asking)
        finally:
            self.blocks = max(0, self.blocks - (get_view().head_block - began))


def _make_slow(until: int) -> EnvironmentFault:
    return EnvironmentFault(
        what="a claimant has not shown the requested data in time",
        expected=f"all of it before block {until}",
        actual="a part at most",
        remedy="You need to do nothing: what is missing counts as not shown.",
    )


def get_half_time(view: View, dispute: InnerDispute) -> int:
    """Returns the block at which half of the opener's time is over. From then on the opener acts on what it
    knows."""
    return dispute.clock - view.game.terms.windows.respond // 2


def start_waiting(view: View, until: int) -> int:
    """Returns `until`, or the next block if that is later, because this node may have been down."""
    return max(until, view.head_block + 1)
