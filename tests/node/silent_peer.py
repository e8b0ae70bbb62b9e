"""A peer that takes connections and never answers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from touchstone.protocol.adapters.wire.peer import Peer


@asynccontextmanager
async def run_silent() -> AsyncIterator[Callable[[str], Peer]]:
    """As which account it is to be asked: all of them are one server."""
    writers: list[asyncio.StreamWriter] = []

    async def hold(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield lambda account: Peer(account, f"https://127.0.0.1:{port}", bytes(32))
    finally:
        for writer in writers:
            writer.close()
        server.close()
