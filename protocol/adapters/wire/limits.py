"""Bounds what one stranger may ask of a server: rates, sizes, concurrency and time.

A bucket of tokens for each caller limits the rate, counters limit concurrency, and a watchman closes
connections that were opened and then say nothing (a slow loris).
"""

import asyncio
import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from aiohttp import web

from touchstone.protocol.adapters.wire.addresses import find_caller

MAX_BUCKETS = 10_000
"""callers remembered; the one heard longest ago is forgotten first."""


@dataclass(frozen=True)
class WireLimits:
    """Limits of a server. Streams are answers that carry a blob; messages are what handlers answer."""

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
    turn_seconds: float = 5.0
    """a stranger that has a place for longer than this gives way to one that has none"""
    strangers_per_second: float = 50.0
    """requests of all strangers together"""
    strangers_burst: int = 200
    stranger_address_per_second: float = 2.0
    """requests of strangers of one network address, beside those: a few others may use up what all share"""
    stranger_address_burst: int = 20
    reports_per_second: float = 5.0
    """of one network address, for reports of a round: who asks for them signs nothing"""
    burst_reports: int = 50
    handshakes: int = 64
    """TLS handshakes under way; beyond it the address that has most of them loses its oldest"""
    handshakes_per_second: float = 50.0
    """of one network address: each costs a millisecond, before anything is known of who asks"""
    burst_handshakes: int = 500
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
        """Returns whether `caller` may make one more request now. price: how many tokens the request takes;
        if fewer are left, all of them."""
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
        """Yields True if `account` got a slot, which is returned at the block's end."""
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


class Turns:
    """Places that strangers share. If all are taken, the caller with the most places loses its oldest one to
    a caller that would have fewer. The same holds between the accounts of one caller. So no fixed small share
    is needed while places are free. If that changes nothing, an account without a place gets the oldest place
    of its own caller, or of a caller that has more, once its turn is over."""

    def __init__(self, total: int, turn_s: float) -> None:
        self._total, self._turn_s = total, turn_s
        self._held: dict[asyncio.Timeout, _Place] = {}
        """The oldest first."""

    @asynccontextmanager
    async def hold(self, caller: str, account: str) -> AsyncIterator[bool]:
        """Yields True if there is a place, which is returned at the block's end. Raises TimeoutError inside
        the block once the place is given to another."""
        now_s = asyncio.get_running_loop().time()
        if len(self._held) >= self._total and not self._take_one(caller, account, now_s):
            yield False
            return
        async with asyncio.timeout(None) as turn:
            self._held[turn] = _Place(caller, account, now_s)
            try:
                yield True
            finally:
                self._held.pop(turn, None)

    def count(self) -> int:
        """Returns how many places are held."""
        return len(self._held)

    def _take_one(self, caller: str, account: str, now_s: float) -> bool:
        """Ends a place of somebody else. Returns whether one was found."""
        turn = self._find_leaving(caller, account, now_s)
        if turn is not None:
            del self._held[turn]
            turn.reschedule(now_s)
        return turn is not None

    def _find_leaving(self, caller: str, account: str, now_s: float) -> asyncio.Timeout | None:
        neighbours = {turn: one for turn, one in self._held.items() if one.caller == caller}
        found = _find_richer(self._held, lambda one: one.caller, caller)
        found = found or _find_richer(neighbours, lambda one: one.account, account)
        if found or any(one.account == account for one in self._held.values()):
            return found
        counts = Counter(one.caller for one in self._held.values())
        for turn, one in self._held.items():
            if one.caller == caller or counts[one.caller] > counts[caller]:
                return turn if now_s - one.since_s >= self._turn_s else None
        return None


@dataclass(frozen=True)
class _Place:
    caller: str
    account: str
    since_s: float


def _find_richer(
    held: Mapping[asyncio.Timeout, _Place], get_name: Callable[[_Place], str], own: str
) -> asyncio.Timeout | None:
    """Returns the oldest place of the name that has most, where `own` with one more would still have
    fewer."""
    counts = Counter(map(get_name, held.values()))
    most = max(counts, key=counts.__getitem__, default=own)
    if counts[most] <= counts[own] + 1:
        return None
    return next(turn for turn, one in held.items() if get_name(one) == most)


class ConnectionWatch:
    """Closes connections beyond the limit and those on which no request completes in time."""

    def __init__(self, limits: WireLimits) -> None:
        self._limits = limits
        self._busy: Counter[web.RequestHandler] = Counter()
        self._idle_since: dict[web.RequestHandler, float] = {}

    @contextmanager
    def mark_busy(self, request: web.Request) -> Iterator[None]:
        """Marks the connection of `request` as busy inside the block."""
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
        """Watches the connections of `server` until cancelled."""
        while True:
            self.sweep(server, time.monotonic())
            await asyncio.sleep(min(1.0, self._limits.idle_seconds / 4))

    def sweep(self, server: web.Server, now: float) -> None:
        """Looks once at all connections, at the monotonic second `now`."""
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
