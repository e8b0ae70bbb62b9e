"""Sends requests to one peer: pinned, limited, and repeated if that may help.

Requests are limited in size and time. Silence, a broken connection, a busy or unwilling server is an
EnvironmentFault; the request is repeated with growing pauses. A wrong certificate, or an answer that no
honest server gives, is the peer's fault, and is not repeated (`peer_faults.py`).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

import aiohttp

from touchstone.protocol.adapters.wire.addresses import is_public
from touchstone.protocol.adapters.wire.clocks import PeerClocks
from touchstone.protocol.adapters.wire.hedging import PAUSE_S
from touchstone.protocol.adapters.wire.lookups import PeerResolver, is_literal_refused
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.adapters.wire.peer_faults import forbid_address, require_success, sorted_errors
from touchstone.protocol.adapters.wire.request_paths import REDIRECT, STORAGE
from touchstone.protocol.adapters.wire.tls_contexts import make_pinned_context
from touchstone.protocol.spec.errors import EnvironmentFault

Answer = TypeVar("Answer")
A_PEER_AT_ONCE = 16
"""Requests to one peer at the same time: twice as many as an honest peer serves. There is no limit for all
peers together, so silent peers delay no other."""
PROGRESS_BYTES = 1024 * 1024
"""An attempt that brought this many bytes does not count as failed, because a long transfer may break
often."""


@dataclass(frozen=True)
class RetryPolicy:
    """How long and how often a client tries."""

    attempts: int = 5
    first_pause_s: float = 0.25
    longest_pause_s: float = 8.0
    connect_s: float = 10.0
    silence_s: float = 30.0
    """The longest pause in seconds between two pieces of an answer."""
    least_bytes_per_second: int = 16 * 1024
    """A slower answer is cut off; otherwise a peer could delay a replay past its deadline."""

    def compute_pause_s(self, failures: int) -> float:
        """Returns the pause after the n-th failure in a row (n >= 1): it doubles each time, up to a bound."""
        return min(self.longest_pause_s, self.first_pause_s * 2.0 ** min(failures - 1, 64))

    def compute_deadline_s(self, size_bytes: int) -> float:
        """Returns the longest time for an answer of this size."""
        return self.connect_s + self.silence_s + size_bytes / self.least_bytes_per_second


class PeerSession:
    """Sends requests to any number of peers over pooled connections. Call `open` inside a running loop, and
    `close` at the end."""

    def __init__(
        self,
        retry_policy: RetryPolicy,
        is_let: Callable[[str], bool] = is_public,
        clocks: PeerClocks | None = None,
    ) -> None:
        """Prepares a session. `is_let` says whether an endpoint may lead to an address. `clocks` are the
        request signer's."""
        self._retry_policy, self._is_let, self._clocks = retry_policy, is_let, clocks or PeerClocks()
        self._session: aiohttp.ClientSession | None = None
        self._silent_at: dict[str, float] = {}
        self._answered_at: dict[str, float] = {}

    def open(self) -> None:
        """Opens the connection pool: no cookies, proxies, decompression or redirects."""
        timeout = aiohttp.ClientTimeout(
            total=None, connect=self._retry_policy.connect_s, sock_read=self._retry_policy.silence_s
        )
        self._session = aiohttp.ClientSession(
            timeout=timeout,
            connector=aiohttp.TCPConnector(
                resolver=PeerResolver(self._is_let), limit=0, limit_per_host=A_PEER_AT_ONCE
            ),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept-Encoding": "identity"},
        )

    async def close(self) -> None:
        """Closes all connections."""
        if self._session:
            await self._session.close()

    @asynccontextmanager
    async def get(
        self,
        peer: Peer,
        path: str,
        headers: Mapping[str, str],
        size_bytes: int,
        message: bytes | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yields the answer to GET `path`, or to POST with a message, while its body still streams. It has at
        most about `size_bytes`. With the header STORAGE it may be a redirect, which the caller follows.

        Raises ProtocolFault for another certificate or an answer that no honest node gives, EnvironmentFault
        for everything that may pass; both name the peer. The same holds inside the `with` block."""
        assert self._session is not None, "open() comes first"
        if is_literal_refused(urlsplit(peer.url).hostname or "", self._is_let):
            raise forbid_address(peer)
        with sorted_errors(peer, path), self._noting_silence(peer):
            async with (
                asyncio.timeout(self._retry_policy.compute_deadline_s(size_bytes)),
                self._session.request(
                    "GET" if message is None else "POST",
                    peer.format_url(path),
                    data=message,
                    headers=headers,
                    ssl=make_pinned_context(peer.fingerprint),
                    allow_redirects=False,
                ) as response,
            ):
                self._answered_at[peer.account] = asyncio.get_running_loop().time()
                if response.status != REDIRECT or STORAGE not in headers:
                    await require_success(response, peer, path, self._clocks)
                self._clocks.note_served(peer.account)
                yield response

    def get_silence(self, peer: Peer) -> float:
        """Returns when the peer last failed to answer in time, in seconds of the loop's clock; 0 if never, or
        if it has answered since."""
        return self._silent_at.get(peer.account, 0.0)

    def get_answer_s(self, peer: Peer) -> float:
        """Returns when the peer last answered in any way, in seconds of the loop's clock; 0 if it never
        did."""
        return self._answered_at.get(peer.account, 0.0)

    @contextmanager
    def _noting_silence(self, peer: Peer) -> Iterator[None]:
        """Notes a timeout as silence. Also notes a request that was cancelled because another peer was
        faster, unless it was cancelled before its time for a first answer was over."""
        clock = asyncio.get_running_loop().time
        started_s = clock()
        try:
            yield
        except TimeoutError:
            self._silent_at[peer.account] = clock()
            raise
        except asyncio.CancelledError:
            if clock() - started_s >= PAUSE_S:
                self._silent_at[peer.account] = clock()
            raise
        self._silent_at.pop(peer.account, None)

    async def try_often(
        self,
        act: Callable[[], Awaitable[Answer]],
        get_progress: Callable[[], int] = lambda: 0,
        attempts: int | None = None,
    ) -> Answer:
        """Calls `act`, and again after each retryable EnvironmentFault, with pauses, until the attempts are
        used up; returns its result. `get_progress` returns the bytes of all attempts so far; an attempt that
        brought many does not count. `attempts` replaces the policy's limit."""
        most = self._retry_policy.attempts if attempts is None else attempts
        failures, progress = 0, get_progress()
        while True:
            try:
                return await act()
            except EnvironmentFault as fault:
                is_moving = get_progress() - progress >= PROGRESS_BYTES
                failures, progress = (1 if is_moving else failures + 1), get_progress()
                if not fault.retryable or (failures >= most and not is_moving):
                    raise
            await asyncio.sleep(self._retry_policy.compute_pause_s(failures))
