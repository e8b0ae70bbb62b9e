"""Requests to one peer, or to several in turn: pinned, bounded, and with failures sorted by cause.

Requests are bounded in size and time. A pause, a broken connection, a busy or unwilling server is the
environment's fault: it is asked again with growing pauses. A wrong certificate, or an answer that no honest
server gives, is the peer's fault, and it is not asked for twice.

`ask_in_turn` asks several peers for the same, one after the other, and does not wait for a slow one: it asks
the next beside it. A peer that is slow on purpose costs a pause and no more.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

import aiohttp

from touchstone.protocol.adapters.wire.addresses import is_public
from touchstone.protocol.adapters.wire.clocks import PeerClocks
from touchstone.protocol.adapters.wire.conventions import (
    FORM,
    MAX_REFUSAL_BYTES,
    REDIRECT,
    REFUSAL,
    STORAGE,
    RefusalAnswer,
    find_endpoint_fault,
)
from touchstone.protocol.adapters.wire.listener import OtherCertificate, make_pinned_context
from touchstone.protocol.adapters.wire.lookups import NotLet, PeerResolver, is_literal_refused
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault

Answer = TypeVar("Answer")

PAUSE_S = 5.0
"""A peer has this long to answer before another one is asked as well."""
HEDGE_BYTES_PER_SECOND = 1024 * 1024
"""A peer that sends a blob faster than this is waited for."""
AT_ONCE = 16
"""Peers that are asked at the same time at most."""
A_PEER_AT_ONCE = 16
"""Requests to one peer at the same time: twice what an honest one serves. Silent peers keep no other waiting:
all of them together have no limit."""


async def ask_in_turn(
    attempts: Sequence[Callable[[], Awaitable[Answer]]], pause_s: float | None = None
) -> Answer:
    """The first answer. Another attempt begins where one has failed, or where none has ended for
    `pause_s` (PAUSE_S); what still runs in the end is cancelled. Raises the fault of the last that failed; if
    asking again may help after another one, that one. At least one attempt is needed."""
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


PROGRESS_BYTES = 1024 * 1024
"""An attempt that brought this much does not count: a long transfer may break often."""
MAX_SHOWN_CHARACTERS = 300

WHO_MAY_READ = (
    "The model after a round is for any account once it is settled, and for the task's submitter before; "
    "what claims stand on is for accounts with a stake, while its window is open. Ask again then, or stake."
)
REMEDIES = {
    401: "Use the deployment file of the chain that the peer is on, and set this machine's clock right.",
    403: WHO_MAY_READ,
    409: "It is asked again: the peer may not have read the chain as far.",
}
"""By the status of a refusal: what the account that asked can do."""


@dataclass(frozen=True)
class Peer:
    """Where and who, as registered on chain: account, https URL, SHA-256 of the certificate's DER."""

    account: str
    url: str
    fingerprint: bytes

    def __post_init__(self) -> None:
        fault = find_endpoint_fault(self.url)
        if fault or len(self.fingerprint) != 32:
            shown = f"{self.url[:MAX_SHOWN_CHARACTERS]!r}" + (f" ({show(fault)})" if fault else "")
            raise ProtocolFault(
                what="the registered endpoint is malformed",
                expected=f"{FORM} and a fingerprint of 32 bytes",
                actual=f"{shown} and {len(self.fingerprint)} bytes",
                culprit=self.account,
                remedy="Ask another peer; this one has to register anew.",
            )

    def format_url(self, path: str) -> str:
        """The URL of `path` (with its slash) at this peer."""
        return self.url.rstrip("/") + path

    def __str__(self) -> str:
        return f"{self.account} at {self.url}"


@dataclass(frozen=True)
class Patience:
    """How long and how often a client tries."""

    attempts: int = 5
    first_pause_s: float = 0.25
    longest_pause_s: float = 8.0
    connect_s: float = 10.0
    silence_s: float = 30.0
    """longest pause between two pieces of an answer"""
    least_bytes_per_second: int = 16 * 1024
    """a slower answer is broken off: a peer could otherwise hold a replay past its window"""

    def compute_pause_s(self, failures: int) -> float:
        """Pause after the n-th failure in a row (n >= 1): doubling, bounded."""
        return min(self.longest_pause_s, self.first_pause_s * 2.0 ** min(failures - 1, 64))

    def compute_deadline_s(self, size_bytes: int) -> float:
        """Longest time for one answer of this size."""
        return self.connect_s + self.silence_s + size_bytes / self.least_bytes_per_second


class PeerSession:
    """Requests to any number of peers over pooled connections. `open` it inside a running loop, then
    `close`."""

    def __init__(
        self,
        patience: Patience,
        is_let: Callable[[str], bool] = is_public,
        clocks: PeerClocks | None = None,
    ) -> None:
        """is_let: whether an endpoint may lead to this address; clocks: of whoever signs the requests."""
        self._patience, self._is_let, self._clocks = patience, is_let, clocks or PeerClocks()
        self._session: aiohttp.ClientSession | None = None
        self._silent_at: dict[str, float] = {}
        self._answered_at: dict[str, float] = {}

    def open(self) -> None:
        """Make the connection pool: no cookies, no proxies, no decompression, no redirects."""
        timeout = aiohttp.ClientTimeout(
            total=None, connect=self._patience.connect_s, sock_read=self._patience.silence_s
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
        """Close all connections."""
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
        """The answer to GET `path`, or to POST with a message, of at most about `size_bytes`, while its body
        still streams. With the header STORAGE it may be a redirect, which is not followed here.

        Raises ProtocolFault for another certificate or an answer that is not ours, EnvironmentFault for
        everything that may be different next time; both name the peer. Holds inside the block too.
        """
        assert self._session is not None, "open() comes first"
        if is_literal_refused(urlsplit(peer.url).hostname or "", self._is_let):
            raise _not_let(peer)
        with _sorted_errors(peer, path), self._noting_silence(peer):
            async with (
                asyncio.timeout(self._patience.compute_deadline_s(size_bytes)),
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
                    await _require_success(response, peer, path, self._clocks)
                self._clocks.note_served(peer.account)
                yield response

    def get_silence(self, peer: Peer) -> float:
        """When the peer last gave no timely answer, in seconds of the loop's clock; 0 where it never was
        silent, or has answered since."""
        return self._silent_at.get(peer.account, 0.0)

    def get_answer_s(self, peer: Peer) -> float:
        """Returns when the peer last answered, in whatever way, in seconds of the loop's clock; 0 where it
        never did."""
        return self._answered_at.get(peer.account, 0.0)

    @contextmanager
    def _noting_silence(self, peer: Peer) -> Iterator[None]:
        """Notes a timeout, and a request that was broken off because another peer answered before, unless it
        was broken off before another peer would have been asked in its place."""
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
        """The result of `act`, called again after each retryable EnvironmentFault, with pauses, while
        patience lasts. get_progress: bytes received so far over all attempts; one that brought much does not
        count. attempts: as often at most as this says, not as patience does."""
        most = self._patience.attempts if attempts is None else attempts
        failures, progress = 0, get_progress()
        while True:
            try:
                return await act()
            except EnvironmentFault as fault:
                is_moving = get_progress() - progress >= PROGRESS_BYTES
                failures, progress = (1 if is_moving else failures + 1), get_progress()
                if not fault.retryable or (failures >= most and not is_moving):
                    raise
            await asyncio.sleep(self._patience.compute_pause_s(failures))


class AnotherCertificate(ProtocolFault):
    """Whoever answered was not the peer: what was sent says nothing about it."""


class Refused(EnvironmentFault):
    """A peer answered that it does not serve this request, or not now."""


class ClocksDiffer(Refused):
    """A peer refused a request for the time in it. The next one is signed by the peer's own clock."""


def blame(peer: Peer, path: str, what: str, expected: object, actual: object) -> ProtocolFault:
    """What the peer did wrong in its answer to `path`; nothing that it sent is used."""
    return ProtocolFault(
        what=what,
        expected=expected,
        actual=actual,
        where=peer.format_url(path),
        culprit=peer.account,
        remedy="Ask another peer, or report the blob as unserved.",
    )


@contextmanager
def _sorted_errors(peer: Peer, path: str) -> Iterator[None]:
    try:
        yield
    except aiohttp.ClientConnectorCertificateError as error:
        what, other = "another TLS certificate than the registered one", error.certificate_error
        shown = other.shown.hex() if isinstance(other, OtherCertificate) else str(other)
        fault = blame(peer, path, what, peer.fingerprint.hex(), shown)
        raise AnotherCertificate(**vars(fault)) from error
    except aiohttp.ClientResponseError as error:
        raise blame(peer, path, "the answer is not HTTP", "an HTTP answer", show(error.message)) from error
    except TimeoutError as error:
        raise _no_answer(peer, path, "no timely answer") from error
    except (aiohttp.ClientError, ConnectionError) as error:
        if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, NotLet):
            raise _not_let(peer) from error
        raise _no_answer(peer, path, tell_reason(error)) from error


def tell_reason(error: Exception) -> str:
    """Why no connection came about, in words of the system: aiohttp's own text has objects in it."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return show(getattr(cause, "strerror", None) or str(cause)) or type(error).__name__


def _not_let(peer: Peer) -> EnvironmentFault:
    return EnvironmentFault(
        what=f"the endpoint of {peer.account} leads to an address that is not public",
        expected="a public address, or one of the private network in which this node's own endpoint lies",
        actual="an address that is neither",
        where=peer.url,
        remedy="This node does not connect to it. In a private network let all nodes announce addresses, not "
        "names (public_url in config.toml).",
        retryable=False,
    )


def _no_answer(peer: Peer, path: str, actual: str) -> EnvironmentFault:
    return EnvironmentFault(
        what=f"the peer {peer.account} is down or slow",
        expected="an answer",
        actual=actual,
        where=peer.format_url(path),
        remedy="It is asked again; if it stays so, ask another peer or report the blob as unserved.",
    )


async def _require_success(
    response: aiohttp.ClientResponse, peer: Peer, path: str, clocks: PeerClocks
) -> None:
    if response.status in (200, 206):
        return
    said = _parse_refusal(await read_at_most(response, MAX_REFUSAL_BYTES))
    is_told = response.status == 401 and said.unix_second is not None
    is_timed_anew = is_told and clocks.note_told(peer.account, said.unix_second or 0)
    parts = (("what", said.what), ("expected", said.expected), ("actual", said.actual))
    reason = show("; ".join(f"{name}: {text}" for name, text in parts if text))
    is_refusal = response.status >= 400
    if not is_refusal:
        raise blame(peer, path, "an answer that no honest server gives", "status 200 or 206", response.status)
    raise (ClocksDiffer if is_timed_anew else Refused)(
        what=f"the peer {peer.account} does not serve this request",
        expected="status 200",
        actual=f"status {response.status}: {reason}",
        where=peer.format_url(path),
        remedy=REMEDIES.get(response.status, "Ask again later, or ask another peer."),
        # 400, 413, 416: the same request stays wrong. 401: that too, unless it is signed by another time.
        # 403, 409: its window may open. 429, 5xx: busy.
        retryable=is_timed_anew or response.status in (403, 409, 429) or response.status >= 500,
    )


async def read_at_most(response: aiohttp.ClientResponse, limit_bytes: int) -> bytes:
    """The body; of a longer one the first `limit_bytes` + 1 bytes."""
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > limit_bytes:
            break
    return bytes(body[: limit_bytes + 1])


def _parse_refusal(body: bytes) -> RefusalAnswer:
    try:
        return REFUSAL.decode(body)
    except ProtocolFault:
        return RefusalAnswer(body.decode(errors="replace"))


def show(text: str) -> str:
    """A stranger's text, shortened and without control characters, fit for a terminal and a log."""
    return "".join(c if c.isprintable() else "?" for c in text[:MAX_SHOWN_CHARACTERS])
