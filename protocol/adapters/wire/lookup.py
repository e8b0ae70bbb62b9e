"""Names of peers are looked up in threads of their own.

A lookup cannot be broken off, and whoever announces a name also chooses how long its servers take to answer.
In asyncio's common threads a few such names would hold up training, hashing and reading from disk.
"""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

from aiohttp.abc import AbstractResolver, ResolveResult

LOOKUPS = 32
"""At once; more wait, and whoever asks gives up after its time to connect."""


class OwnResolver(AbstractResolver):
    """The system's lookup. Threads that are still at it when it is closed end by themselves."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(LOOKUPS, "lookup")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Addresses of `host`. Raises OSError where it has none."""
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(
            self._threads, lambda: socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
        )
        return [
            ResolveResult(
                hostname=host, host=str(address[0]), port=int(address[1]), family=kind, proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for kind, _, protocol, _, address in found
        ]  # fmt: skip

    async def close(self) -> None:
        """Begin no more lookups."""
        self._threads.shutdown(wait=False, cancel_futures=True)
