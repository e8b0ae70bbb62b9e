"""Takes connections and shakes hands, so many at a time: a bare connection costs memory and an open file
before anything is known of who made it.

Where too many handshakes are under way the oldest is given up: an honest peer's takes a fraction of a second.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

HANDSHAKE_SECONDS = 10.0
BACKLOG = 128
RETRY_S = 0.5
"""After a connection that could not be taken: too many open files, most likely."""

log = logging.getLogger(__name__)


class TlsListener:
    """Listens until it is closed; whoever has shaken hands is given to the protocol's factory."""

    def __init__(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        context: ssl.SSLContext,
        listening: socket.socket,
        most: int,
    ) -> None:
        self._factory, self._context, self._listening, self._most = factory, context, listening, most
        self._shaking: dict[asyncio.Task[None], None] = {}
        self._accepting: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        factory: Callable[[], asyncio.BaseProtocol],
        context: ssl.SSLContext,
        host: str,
        port: int,
        most: int,
    ) -> "TlsListener":
        """Listen at `host` and `port` (a free one for 0), with `most` handshakes at a time. Raises OSError
        where the address cannot be had."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, *_, address = found[0]
        listening = socket.create_server(address[:2], family=family, backlog=BACKLOG)
        listening.setblocking(False)
        listener = cls(factory, context, listening, most)
        listener._accepting = asyncio.create_task(listener._accept())
        return listener

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listening.getsockname()[1])

    async def close(self) -> None:
        """Take no more connections, and drop those that have not shaken hands."""
        tasks = [*self._shaking] + ([self._accepting] if self._accepting else [])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listening.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._listening)
            except OSError as error:
                log.warning("a connection cannot be taken: %s", error)
                await asyncio.sleep(RETRY_S)
                continue
            if len(self._shaking) >= self._most:
                oldest = next(iter(self._shaking))
                del self._shaking[oldest]
                oldest.cancel()
            task = asyncio.create_task(self._shake(connection))
            self._shaking[task] = None
            task.add_done_callback(lambda done: self._shaking.pop(done, None))
            await asyncio.sleep(0)  # Taking one that waits gives nobody else a turn.

    async def _shake(self, connection: socket.socket) -> None:
        """Raises nothing: who does not speak TLS is dropped."""
        loop, is_done = asyncio.get_running_loop(), False
        try:
            with suppress(OSError, ssl.SSLError):
                await loop.connect_accepted_socket(
                    self._factory,
                    connection,
                    ssl=self._context,
                    ssl_handshake_timeout=HANDSHAKE_SECONDS,
                )
                is_done = True
        finally:
            if not is_done:
                # The loop's transport owns the socket by now, and lets go of it at its end.
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
