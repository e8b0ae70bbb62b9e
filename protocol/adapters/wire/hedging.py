"""Asks several peers for the same thing, one after the other, without waiting for a slow one.

If one is slow, the next is asked too. So a peer that is slow on purpose costs only a pause.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault

Answer = TypeVar("Answer")
PAUSE_S = 5.0
"""Seconds that a peer has to answer before another one is asked too."""
HEDGE_BYTES_PER_SECOND = 1024 * 1024
"""A peer that sends a blob faster than this is waited for."""
AT_ONCE = 16
"""The most peers that are asked at the same time."""


async def ask_in_turn(
    attempts: Sequence[Callable[[], Awaitable[Answer]]], pause_s: float | None = None
) -> Answer:
    """Returns the first answer. Another attempt begins if one has failed, or none has ended for `pause_s`
    (PAUSE_S). At the end it cancels attempts that still run. If all fail, raises the last error after which
    asking again may help, else the last error. At least one attempt is needed."""
    waiting, running = list(reversed(attempts)), set[asyncio.Task[Answer]]()
    wait_s = PAUSE_S if pause_s is None else pause_s
    last: ProtocolFault | EnvironmentFault | None = None
    try:
        while waiting or running:
            if waiting and len(running) < AT_ONCE:
                running.add(asyncio.ensure_future(_call(waiting.pop())))
            is_more = waiting and len(running) < AT_ONCE
            done, running = await asyncio.wait(
                running, timeout=wait_s if is_more else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                try:
                    return task.result()
                except (ProtocolFault, EnvironmentFault) as fault:
                    is_hopeful = isinstance(last, EnvironmentFault) and last.retryable
                    if not is_hopeful or (isinstance(fault, EnvironmentFault) and fault.retryable):
                        last = fault
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    assert last is not None, "a peer has to be asked"
    raise last


async def _call(attempt: Callable[[], Awaitable[Answer]]) -> Answer:
    return await attempt()
