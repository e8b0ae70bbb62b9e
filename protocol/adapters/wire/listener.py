"""Accepts connections with the node's TLS identity.

A connection costs memory and an open file before anything is known of the peer. So the number of running
handshakes is limited. If there are too many, the address that has most of them loses its oldest, so one
address cannot keep out others. A peer that shares its address with such an attacker gets through only if its
handshake is faster than the attacker's next 64.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from touchstone.protocol.adapters.wire.addresses import find_caller
from touchstone.protocol.adapters.wire.limits import RateLimit

log = logging.getLogger(__name__)
HANDSHAKE_SECONDS = 10.0
CLOSING_SECONDS = 1.0
"""A closed connection is dropped after this many seconds, even if the other side does not close it. asyncio
would wait half a minute, and an attacker would hold many connections meanwhile."""
BACKLOG = 128
RETRY_S = 0.5
"""Seconds to wait after a connection could not be accepted, most likely because too many files are open."""


class TlsListener:
    """Listens until it is closed. After the TLS handshake, each connection goes to the protocol's factory."""

    def __init__(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        context: ssl.SSLContext,
        listening: socket.socket,
        most: int,
        rate: RateLimit,
    ) -> None:
        self._factory, self._context, self._listening = factory, context, listening
        self._most, self._rate = most, rate
        self._shaking: dict[str, dict[asyncio.Task[None], None]] = {}
        """Running handshakes by caller (`find_caller`), the oldest first."""
        self._accepting: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        factory: Callable[[], asyncio.BaseProtocol],
        context: ssl.SSLContext,
        host: str,
        port: int,
        most: int,
        rate: RateLimit,
    ) -> "TlsListener":
        """Listens at `host` and `port` (a free one for 0). At most `most` handshakes run at a time, and each
        caller is limited by `rate`. Raises OSError if the address is not available."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, *_, address = found[0]
        listening = socket.create_server(address[:2], family=family, backlog=BACKLOG)
        listening.setblocking(False)
        listener = cls(factory, context, listening, most, rate)
        listener._accepting = asyncio.create_task(listener._accept())
        return listener

    @property
    def port(self) -> int:
        """The port where it listens."""
        return int(self._listening.getsockname()[1])

    async def close(self) -> None:
        """Accepts no more connections, and drops unfinished handshakes."""
        tasks = [task for tasks in self._shaking.values() for task in tasks]
        tasks += [self._accepting] if self._accepting else []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listening.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(self._listening)
            except OSError as error:
                log.warning("a connection cannot be taken: %s", error)
                await asyncio.sleep(RETRY_S)
                continue
            caller = find_caller(address[0])
            if not self._rate.try_take(caller):
                connection.close()
                await asyncio.sleep(0)
                continue
            if sum(map(len, self._shaking.values())) >= self._most:
                busiest = max(self._shaking, key=lambda caller: len(self._shaking[caller]))
                oldest = next(iter(self._shaking[busiest]))
                self._forget(busiest, oldest)
                oldest.cancel()
            task = asyncio.create_task(self._shake(connection))
            self._shaking.setdefault(caller, {})[task] = None
            task.add_done_callback(partial(self._forget, caller))
            await asyncio.sleep(0)  # Accepting a waiting connection does not yield to other tasks.

    def _forget(self, caller: str, task: asyncio.Task[None]) -> None:
        tasks = self._shaking.get(caller, {})
        tasks.pop(task, None)
        if not tasks:
            self._shaking.pop(caller, None)

    async def _shake(self, connection: socket.socket) -> None:
        """Makes the handshake. It raises nothing; a connection that does not speak TLS is dropped."""
        loop, is_done = asyncio.get_running_loop(), False
        try:
            with suppress(OSError, ssl.SSLError):
                await loop.connect_accepted_socket(
                    self._factory,
                    connection,
                    ssl=self._context,
                    ssl_handshake_timeout=HANDSHAKE_SECONDS,
                    ssl_shutdown_timeout=CLOSING_SECONDS,
                )
                is_done = True
        finally:
            if not is_done:
                # The loop's transport owns the socket now, and closes it at its end.
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
