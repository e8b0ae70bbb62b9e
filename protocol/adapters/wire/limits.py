"""Bounds what one stranger may ask of a server: rates, sizes, concurrency and time.

A bucket of tokens for each caller limits the rate, counters limit concurrency, and a watchman closes
connections that were opened and then say nothing (a slow loris).
"""

import asyncio
import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from aiohttp import web

from protocol.adapters.wire.addresses import find_caller

MAX_BUCKETS = 10_000
"""callers remembered; the one heard longest ago is forgotten first."""


@dataclass(frozen=True)
class WireLimits:
    """Limits of a server. Streams are answers that carry a blob; messages are what desks answer."""

    requests_per_second: float = 50.0
    burst_requests: int = 200
    address_requests_per_second: float = 500.0
    """per network address, before a signature is checked; many nodes may share one"""
    address_burst_requests: int = 2000
    streams_per_account: int = 4
    streams: int = 128
    messages_per_account: int = 4
    messages: int = 128
    """that are answered at once"""
    strangers: int = 8
    """streams, and as many messages, of all strangers together"""
    strangers_per_second: float = 50.0
    """requests of all strangers together"""
    strangers_burst: int = 200
    reports_per_second: float = 5.0
    """of one network address, for reports of a round: who asks for them signs nothing"""
    burst_reports: int = 50
    handshakes: int = 64
    """TLS handshakes under way; beyond it the address that has most of them loses its oldest"""
    body_seconds: float = 10.0
    """a message that is not there within this is not read"""
    connections: int = 256
    idle_seconds: float = 15.0
    """a connection without a complete request is closed after this"""
    write_seconds: float = 30.0
    """a reader that does not take the next piece (256 KiB) within this is dropped"""
    header_bytes: int = 8190
    headers: int = 32


class RateLimit:
    """A token bucket for each caller: `rate` tokens a second, at most `burst` saved."""

    def __init__(self, rate: float, burst: int, now: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._now = now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def try_take(self, caller: str, price: int = 1) -> bool:
        """Whether `caller` may make one more request now. price: what is taken; of more than is left, all."""
        now = self._now()
        tokens, then = self._buckets.pop(caller, (float(self._burst), now))
        tokens = min(float(self._burst), tokens + (now - then) * self._rate)
        is_allowed = tokens >= 1.0
        self._buckets[caller] = (max(0.0, tokens - price) if is_allowed else tokens, now)
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return is_allowed


class StreamLimit:
    """Counts what runs at once, streams or messages, per account and in total."""

    def __init__(self, per_account: int, total: int) -> None:
        self._per_account, self._total = per_account, total
        self._running: Counter[str] = Counter()

    @contextmanager
    def hold(self, account: str) -> Iterator[bool]:
        """True inside the block when `account` got one, which is returned at the block's end."""
        is_free = self._running.total() < self._total
        if not is_free or self._running[account] >= self._per_account:
            yield False
            return
        self._running[account] += 1
        try:
            yield True
        finally:
            self._running[account] -= 1
            if not self._running[account]:
                del self._running[account]


class ConnectionWatch:
    """Closes connections beyond the limit and those on which no request completes in time."""

    def __init__(self, limits: WireLimits) -> None:
        self._limits = limits
        self._busy: Counter[web.RequestHandler] = Counter()
        self._idle_since: dict[web.RequestHandler, float] = {}

    @contextmanager
    def mark_busy(self, request: web.Request) -> Iterator[None]:
        """The connection of `request` is at work inside the block."""
        protocol = request.protocol
        self._busy[protocol] += 1
        self._idle_since.pop(protocol, None)
        try:
            yield
        finally:
            self._busy[protocol] -= 1
            if not self._busy[protocol]:
                del self._busy[protocol]

    async def run(self, server: web.Server) -> None:
        """Watch the connections of `server` until cancelled."""
        while True:
            self.sweep(server, time.monotonic())
            await asyncio.sleep(min(1.0, self._limits.idle_seconds / 4))

    def sweep(self, server: web.Server, now: float) -> None:
        """One look at all connections at the monotonic second `now`."""
        idle = [connection for connection in server.connections if connection not in self._busy]
        self._idle_since = {connection: self._idle_since.get(connection, now) for connection in idle}
        # Longest idle first: they are the least likely to be an honest peer about to speak.
        idle.sort(key=self._idle_since.__getitem__)
        late = [one for one in idle if now - self._idle_since[one] > self._limits.idle_seconds]
        excess = len(server.connections) - len(late) - self._limits.connections
        for connection in [*late, *_list_busiest(idle[len(late) :], excess)]:
            connection.force_close()


def _list_busiest(idle: Sequence[web.RequestHandler], count: int) -> Iterator[web.RequestHandler]:
    """So many connections, each the longest idle of the address that then has most of them."""
    by_caller = defaultdict[str, deque[web.RequestHandler]](deque)
    for connection in idle:
        name = connection.transport.get_extra_info("peername") if connection.transport else None
        by_caller[find_caller(name[0]) if name else ""].append(connection)
    for _ in range(min(count, len(idle))):
        yield max(by_caller.values(), key=len).popleft()
