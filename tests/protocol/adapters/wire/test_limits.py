import asyncio
from collections.abc import Sequence
from unittest.mock import Mock

import pytest

from touchstone.protocol.adapters.wire import limits
from touchstone.protocol.adapters.wire.limits import (
    ConnectionWatch,
    RateLimit,
    StreamLimit,
    Turns,
    WireLimits,
)


def make_connection(address: str = "127.0.0.1") -> Mock:
    return Mock(transport=Mock(get_extra_info={"peername": (address, 50_000)}.get))


def test_a_burst_then_the_rate() -> None:
    now = [0.0]
    limit = RateLimit(rate=2, burst=3, now=lambda: now[0])
    assert [limit.try_take("a") for _ in range(4)] == [True, True, True, False]
    now[0] = 1.0
    assert [limit.try_take("a") for _ in range(3)] == [True, True, False]
    now[0] = 1000.0
    assert [limit.try_take("a") for _ in range(4)] == [True, True, True, False]


def test_callers_do_not_share_a_bucket() -> None:
    limit = RateLimit(rate=0, burst=1, now=lambda: 0.0)
    assert limit.try_take("a") and limit.try_take("b") and not limit.try_take("a")


def test_only_so_many_callers_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_BUCKETS", 2)
    limit = RateLimit(rate=0, burst=1, now=lambda: 0.0)
    for caller in "abc":
        assert limit.try_take(caller)
    assert not limit.try_take("b") and not limit.try_take("c")


def test_streams_are_counted_per_account_and_in_total() -> None:
    limit = StreamLimit(2, 3)
    with limit.hold("a") as one, limit.hold("a") as two, limit.hold("a") as three, limit.hold("b") as four:
        assert (one, two, three, four) == (True, True, False, True)
        with limit.hold("c") as five:
            assert not five
    with limit.hold("c") as six:
        assert six


def test_a_stream_that_fails_is_returned() -> None:
    limit = StreamLimit(1, 32)
    with pytest.raises(ValueError), limit.hold("a"):
        raise ValueError
    with limit.hold("a") as is_held:
        assert is_held


async def hold(turns: Turns, who: str, held: list[str]) -> str:
    """Has a place for as long as it may. who: the account's caller, then the account; held: who has one."""
    try:
        async with turns.hold(who[0], who) as is_held:
            if not is_held:
                return "refused"
            held.append(who)
            try:
                await asyncio.Event().wait()
            finally:
                held.remove(who)
    except TimeoutError:
        return "given up"
    return ""


@pytest.mark.parametrize(
    ("turn_s", "asking", "left"),
    [
        # All places, while nobody else wants them.
        (1e6, ["a1", "a1", "a1", "a1"], ["a1", "a1", "a1", "a1"]),
        # The account that has most gives its oldest to another of its caller, and none to an equal.
        (1e6, ["a1", "a2", "a1", "a1", "a3"], ["a2", "a1", "a1", "a3"]),
        (1e6, ["a1", "a1", "a2", "a2", "a1"], ["a1", "a1", "a2", "a2"]),
        # The caller that has most gives to another one, whatever accounts it has.
        (1e6, ["a1", "a2", "a3", "a4", "b1", "b1", "b1"], ["a3", "a4", "b1", "b1"]),
        (1e6, ["a1", "b1", "c1", "d1", "e1"], ["a1", "b1", "c1", "d1"]),
        # Unless its turn is over: then it gives to an account that has no place.
        (0.0, ["a1", "b1", "c1", "d1", "e1", "e1"], ["b1", "c1", "d1", "e1"]),
        # But never to a caller that has more.
        (0.0, ["b1", "a1", "a2", "a3", "a4"], ["b1", "a2", "a3", "a4"]),
    ],
)
async def test_strangers_share_their_places(turn_s: float, asking: Sequence[str], left: list[str]) -> None:
    turns, held, tasks = Turns(4, turn_s), list[str](), list[asyncio.Task[str]]()
    for who in asking:
        tasks.append(asyncio.create_task(hold(turns, who, held)))
        for _ in range(5):
            await asyncio.sleep(0)
        assert turns.count() == len(held) <= 4
    assert held == left
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert sum(isinstance(one, asyncio.CancelledError) for one in ended) == 4 and turns.count() == 0


def test_silent_connections_are_closed_and_busy_ones_are_not() -> None:
    watch = ConnectionWatch(WireLimits(idle_seconds=10))
    silent, busy = make_connection(), make_connection()
    server = Mock(connections=[silent, busy])
    with watch.mark_busy(Mock(protocol=busy)):
        watch.sweep(server, 0.0)
        watch.sweep(server, 10.0)
        assert not silent.force_close.called
        watch.sweep(server, 10.1)
    assert silent.force_close.called and not busy.force_close.called
    watch.sweep(server, 15.0)
    watch.sweep(server, 24.0)
    assert not busy.force_close.called
    watch.sweep(server, 25.1)
    assert busy.force_close.called


def test_beyond_the_limit_the_longest_idle_go() -> None:
    watch = ConnectionWatch(WireLimits(connections=2))
    old, young, newest = (make_connection() for _ in range(3))
    watch.sweep(Mock(connections=[old]), 0.0)
    watch.sweep(Mock(connections=[old, young]), 1.0)
    watch.sweep(Mock(connections=[newest, young, old]), 2.0)
    assert [c.force_close.called for c in (old, young, newest)] == [True, False, False]


def test_beyond_the_limit_the_address_with_most_connections_loses_its_longest_idle() -> None:
    """Who makes more connections in a second than are let would close those of all others."""
    watch, honest = ConnectionWatch(WireLimits(connections=3)), make_connection("127.0.0.1")
    one_network = [make_connection(f"2001:db8::{number}") for number in range(3)]
    watch.sweep(Mock(connections=[honest]), 0.0)
    watch.sweep(Mock(connections=[honest, one_network[0]]), 1.0)
    watch.sweep(Mock(connections=[honest, *one_network]), 2.0)
    assert [c.force_close.called for c in (honest, *one_network)] == [False, True, False, False]
