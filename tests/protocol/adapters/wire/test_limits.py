from unittest.mock import Mock

import pytest

from protocol.adapters.wire import limits
from protocol.adapters.wire.limits import ConnectionWatch, RateLimit, StreamLimit, WireLimits


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
