"""Tells an operator now and then what a node waits for."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

FIRST_S, NEXT_S = 10.0, 30.0
"""After which a wait is told, and told again."""


@asynccontextmanager
async def telling(say: Callable[[str], None], describe: Callable[[], str]) -> AsyncIterator[None]:
    """Tells what `describe` says as long as the block takes: first after ten seconds, then twice a minute."""
    task = asyncio.create_task(_tell(say, describe))
    try:
        yield
    finally:
        task.cancel()


async def _tell(say: Callable[[str], None], describe: Callable[[], str]) -> None:
    await asyncio.sleep(FIRST_S)
    while True:
        say(describe())
        await asyncio.sleep(NEXT_S)
