"""Tells an operator now and then what a node waits for."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from touchstone.node.kit.config import Notify
from touchstone.protocol.adapters.store.blobs import BlobRef
from touchstone.protocol.adapters.wire.blob_client import BlobClient

FIRST_S, NEXT_S = 10.0, 30.0
"""Seconds after which the operator is told of a wait, and told again."""


@asynccontextmanager
async def telling(notify: Notify, describe: Callable[[], str]) -> AsyncIterator[None]:
    """Tells the operator what `describe` returns as long as the `with` block runs: after ten seconds, then
    twice a minute."""
    task = asyncio.create_task(_keep_notifying(notify, describe))
    try:
        yield
    finally:
        task.cancel()


async def _keep_notifying(notify: Notify, describe: Callable[[], str]) -> None:
    await asyncio.sleep(FIRST_S)
    while True:
        notify(describe())
        await asyncio.sleep(NEXT_S)


@asynccontextmanager
async def telling_bytes(client: BlobClient, notify: Notify, ref: BlobRef, what: str) -> AsyncIterator[None]:
    """Tells the operator that a blob is being fetched, and at times how much has come, while the `with` block
    runs."""
    size, before = f"{ref.size_bytes / 1e6:.1f} MB", client.fetched_bytes
    notify(f"fetching {what}, {size}")

    def describe() -> str:
        came = (client.fetched_bytes - before) / 1e6
        return f"still fetching {what}: {came:.1f} MB of {size} have come"

    async with telling(notify, describe):
        yield
