"""Asking a solver for what it owes, again and again until a block: neither a short outage nor a server that
is slow on purpose may cost an auditor its vote. Blocks count, never seconds."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from protocol.actions.audit.room import AuditRoom
from protocol.spec.errors import EnvironmentFault, ProtocolFault

ASK_PAUSE_S = 0.25
"""Between two requests to a solver that did not serve."""

log = logging.getLogger(__name__)

Served = TypeVar("Served")


class NotServed(EnvironmentFault):
    """A solver did not serve what it owes while it was waited for."""


async def ask_until(
    room: AuditRoom, ask: Callable[[], Awaitable[Served]], until_block: int, what: str
) -> Served:
    """What `ask` fetches, asked for at least once, and again until the chain is at `until_block`. Raises
    NotServed."""
    asking = asyncio.ensure_future(_keep_asking(ask))
    clock = asyncio.ensure_future(_run_out(room, until_block))
    try:
        await asyncio.wait((asking, clock), return_when=asyncio.FIRST_COMPLETED)
        if asking.done():
            return asking.result()
        clock.result()
    finally:
        for one in (asking, clock):
            one.cancel()
        await asyncio.gather(asking, clock, return_exceptions=True)
    raise make_unserved(what, until_block)


async def _run_out(room: AuditRoom, until_block: int) -> None:
    """One block at least, of the chain itself: a node that was down has not read it all when it looks."""
    head = await room.wait_for_block(0)
    await room.wait_for_block(max(until_block, head + 1))


async def _keep_asking(ask: Callable[[], Awaitable[Served]]) -> Served:
    while True:
        try:
            return await ask()
        except (ProtocolFault, EnvironmentFault) as fault:
            log.info("%s", fault)
        await asyncio.sleep(ASK_PAUSE_S)


def make_unserved(what: str, until_block: int) -> NotServed:
    """What a solver did not serve."""
    return NotServed(
        what="what a claim stands on is not served",
        expected=f"{what} before block {until_block}",
        actual="nothing that its roots allow",
        remedy="Nothing: the auditor says so.",
    )
