import hashlib
import ssl
import stat
from pathlib import Path
from unittest.mock import Mock

import pytest

from protocol.adapters.wire import listener
from protocol.adapters.wire.listener import (
    ConnectionWatch,
    RateLimit,
    StreamLimit,
    WireLimits,
    load_or_create_identity,
    make_server_context,
)
from protocol.spec.errors import InvalidInput


def test_an_identity_stays_the_same(tmp_path: Path) -> None:
    first, second = load_or_create_identity(tmp_path / "tls"), load_or_create_identity(tmp_path / "tls")
    assert first == second
    der = ssl.PEM_cert_to_DER_cert(first.certificate_path.read_text())
    assert first.fingerprint == hashlib.sha256(der).digest()


def test_each_identity_is_another(tmp_path: Path) -> None:
    one, two = load_or_create_identity(tmp_path / "one"), load_or_create_identity(tmp_path / "two")
    assert one.fingerprint != two.fingerprint


def test_the_key_is_private(tmp_path: Path) -> None:
    identity = load_or_create_identity(tmp_path / "tls")
    assert stat.S_IMODE(identity.key_path.stat().st_mode) == 0o600
    identity.key_path.chmod(0o644)
    with pytest.raises(InvalidInput, match="chmod 600"):
        load_or_create_identity(tmp_path / "tls")


def test_a_key_left_by_a_crash_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "certificate-key.pem").write_text("half")
    make_server_context(load_or_create_identity(tmp_path))


def test_a_malformed_certificate_is_told(tmp_path: Path) -> None:
    identity = load_or_create_identity(tmp_path)
    identity.certificate_path.write_text("no certificate")
    with pytest.raises(InvalidInput, match="cannot be read"):
        load_or_create_identity(tmp_path)


def test_old_protocols_are_refused(tmp_path: Path) -> None:
    context = make_server_context(load_or_create_identity(tmp_path))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3


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
    monkeypatch.setattr(listener, "MAX_BUCKETS", 2)
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
    silent, busy = Mock(), Mock()
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
    old, young, newest = Mock(), Mock(), Mock()
    watch.sweep(Mock(connections=[old]), 0.0)
    watch.sweep(Mock(connections=[old, young]), 1.0)
    watch.sweep(Mock(connections=[newest, young, old]), 2.0)
    assert [c.force_close.called for c in (old, young, newest)] == [True, False, False]
