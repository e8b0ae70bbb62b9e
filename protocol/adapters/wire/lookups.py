"""Looks up names of peers in separate threads, and returns only permitted addresses.

A lookup cannot be cancelled, and the owner of a name chooses how slowly its servers answer. In asyncio's
common threads a few such names would delay training, hashing and reading.

The node connects to exactly the returned address. So a name cannot lead elsewhere after the check.
"""

import asyncio
import socket
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from ipaddress import ip_address

from aiohttp.abc import AbstractResolver, ResolveResult

LOOKUPS = 32
"""Lookups at once. More wait, and a request gives up after its time to connect."""


class OwnResolver(AbstractResolver):
    """The system's name lookup, in separate threads. Lookups that still run when it is closed end by
    themselves."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(LOOKUPS, "lookup")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Returns the addresses of `host`. Raises OSError if it has none."""
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
        """Starts no more lookups."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class NotLet(OSError):
    """A name leads to an address to which this node must not connect."""


class PeerResolver(OwnResolver):
    """The system's name lookup, limited to permitted addresses."""

    def __init__(self, is_let: Callable[[str], bool], excepted: Collection[tuple[str, int]] = ()) -> None:
        """Begins. `is_let` says whether an address is permitted; `excepted` are (host, port) pairs that may
        be anywhere."""
        super().__init__()
        self._is_let, self._excepted = is_let, frozenset(excepted)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Returns the addresses of `host`. Raises OSError if it has none, NotLet if one is not permitted."""
        found = await super().resolve(host, port, family)
        if (host, port) not in self._excepted and not all(self._is_let(one["host"]) for one in found):
            raise NotLet(f"{host} leads to an address that is not public")
        return found


def is_literal_refused(host: str, is_let: Callable[[str], bool]) -> bool:
    """Returns whether a host is an address, which no resolver checks, and is not permitted."""
    with suppress(ValueError):
        ip_address(host)
        return not is_let(host)
    return False
