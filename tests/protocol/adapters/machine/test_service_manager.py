"""systemd hears that a node is ready and alive, in its own form."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from touchstone.protocol.adapters.machine.service_manager import (
    ALIVE,
    MOST_STATUS,
    READY,
    VARIABLE,
    notify_manager,
)


@pytest.fixture(params=["path", "abstract"])
def manager(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[socket.socket]:
    """The socket on which systemd listens; names that begin with @ are no files."""
    name = str(tmp_path / "notify") if request.param == "path" else f"@{tmp_path}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(name.replace("@", "\0", 1))
        listening.settimeout(5.0)
        monkeypatch.setenv(VARIABLE, name)
        yield listening


def test_states_and_status_are_one_datagram(manager: socket.socket) -> None:
    assert notify_manager(READY, ALIVE, status="the chain\nis silent")
    assert manager.recv(4096) == b"READY=1\nWATCHDOG=1\nSTATUS=the chain is silent"
    assert notify_manager(ALIVE, status="x" * 10_000)
    assert len(manager.recv(4096)) == len("WATCHDOG=1\nSTATUS=") + MOST_STATUS


def test_without_a_manager_nothing_is_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert not notify_manager(ALIVE)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "gone"))
    assert not notify_manager(ALIVE)
