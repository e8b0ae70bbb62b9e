"""Limits what one stranger may ask of a server: rates, sizes, concurrency and time.

Each caller has a token bucket for its rate, counters limit concurrency, and idle connections are closed
(against slow loris attacks).
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
"""The most callers that are remembered; the one heard longest ago is forgotten first."""


@dataclass(frozen=True)
class WireLimits:
    """The limits of a server. Streams are answers with a blob; messages are answers of handlers."""

    requests_per_second: float = 50.0
    burst_requests: int = 200
    address_requests_per_second: float = 500.0
    """Requests of one network address, before a signature is checked. Many nodes may share an address."""
    address_burst_requests: int = 2000
    streams_per_account: int = 4
    streams: int = 128
    messages_per_account: int = 4
    messages: int = 128
    """The most messages that are answered at once."""
    strangers: int = 8
    """The most streams, and as many messages, of all strangers together."""
    turn_seconds: float = 5.0
    """A stranger that has held a place for more than this many seconds loses it to one that has none."""
    strangers_per_second: float = 50.0
    """Requests of all strangers together."""
    strangers_burst: int = 200
    stranger_address_per_second: float = 2.0
    """Requests that strangers at one network address may send beyond that shared rate, because a few others
    may use it up."""
    stranger_address_burst: int = 20
    reports_per_second: float = 5.0
    """Requests of one network address for reports of a round, which are not signed."""
    burst_reports: int = 50
    handshakes: int = 64
    """The most TLS handshakes at the same time. Beyond that, the address that has most of them loses its
    oldest."""
    handshakes_per_second: float = 50.0
    """Handshakes of one network address. Each costs a millisecond, before the caller is known."""
    burst_handshakes: int = 500
    body_seconds: float = 10.0
    """Seconds in which a message must arrive whole."""
    connections: int = 256
    idle_seconds: float = 15.0
    """A connection without a complete request is closed after this many seconds."""
    write_seconds: float = 30.0
    """A reader must take each piece (256 KiB) within this many seconds."""
    header_bytes: int = 8190
    headers: int = 32


class RateLimit:
    """A token bucket for each caller, with `rate` tokens a second and at most `burst` saved."""

    def __init__(self, rate: float, burst: int, now: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._now = now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def try_take(self, caller: str, price: int = 1) -> bool:
        """Returns whether `caller` may make one more request now. `price` is how many tokens it takes; if
        fewer are left, it takes all of them."""
        now = self._now()
        tokens, then = self._buckets.pop(caller, (float(self._burst), now))
        tokens = min(float(self._burst), tokens + (now - then) * self._rate)
        is_allowed = tokens >= 1.0
        self._buckets[caller] = (max(0.0, tokens - price) if is_allowed else tokens, now)
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return is_allowed


class StreamLimit:
    """Counts running streams or messages, per account and in total."""

    def __init__(self, per_account: int, total: int) -> None:
        self._per_account, self._total = per_account, total
        self._running: Counter[str] = Counter()

    @contextmanager
    def hold(self, account: str) -> Iterator[bool]:
        """Yields True if `account` got a slot, which it returns at the end of the `with` block."""
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
    a caller that would have fewer, and likewise between the accounts of one caller. So a caller may use many
    places while they are free. If that frees no place, an account without a place gets the oldest place of
    its own caller, or of a caller with more places, once that place is past its time."""

    def __init__(self, total: int, turn_s: float) -> None:
        self._total, self._turn_s = total, turn_s
        self._held: dict[asyncio.Timeout, _Place] = {}
        """The held places, the oldest first."""

    @asynccontextmanager
    async def hold(self, caller: str, account: str) -> AsyncIterator[bool]:
        """Yields True if there is a place, which is returned at the end of the `with` block. Raises
        TimeoutError inside the block when the place is given to another."""
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
        """Ends the place of another caller or account. Returns whether it found one."""
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
    """Returns the oldest place of the caller or account that has most, if `own` would still have fewer with
    one more."""
    counts = Counter(map(get_name, held.values()))
    most = max(counts, key=counts.__getitem__, default=own)
    if counts[most] <= counts[own] + 1:
        return None
    return next(turn for turn, one in held.items() if get_name(one) == most)


class ConnectionWatch:
    """Closes connections beyond the limit, and those without a complete request in time."""

    def __init__(self, limits: WireLimits) -> None:
        self._limits = limits
        self._busy: Counter[web.RequestHandler] = Counter()
        self._idle_since: dict[web.RequestHandler, float] = {}

    @contextmanager
    def mark_busy(self, request: web.Request) -> Iterator[None]:
        """Marks the connection of `request` as busy inside the `with` block."""
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
        """Checks all connections once, at the monotonic second `now`."""
        idle = [connection for connection in server.connections if connection not in self._busy]
        self._idle_since = {connection: self._idle_since.get(connection, now) for connection in idle}
        # The longest idle first: an honest peer speaks soon.
        idle.sort(key=self._idle_since.__getitem__)
        late = [one for one in idle if now - self._idle_since[one] > self._limits.idle_seconds]
        excess = len(server.connections) - len(late) - self._limits.connections
        for connection in [*late, *_list_busiest(idle[len(late) :], excess)]:
            connection.force_close()


def _list_busiest(idle: Sequence[web.RequestHandler], count: int) -> Iterator[web.RequestHandler]:
    """Returns `count` connections to close. Each is the longest idle one of the address that has most idle
    ones left."""
    by_caller = defaultdict[str, deque[web.RequestHandler]](deque)
    for connection in idle:
        name = connection.transport.get_extra_info("peername") if connection.transport else None
        by_caller[find_caller(name[0]) if name else ""].append(connection)
    for _ in range(min(count, len(idle))):
        yield max(by_caller.values(), key=len).popleft()
