"""Names that take long to look up hold up nothing but the requests to them."""

import asyncio
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.protocol.adapters.parties import Party
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.adapters.wire.session import RetryPolicy
from touchstone.protocol.spec.errors import EnvironmentFault

NAMES = 40
"""More than asyncio has common threads."""


async def test_names_that_never_resolve_leave_threads_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, lookup = threading.Event(), socket.getaddrinfo

    def wait(host: Any, *arguments: Any, **options: Any) -> Any:
        if str(host).endswith(".slow"):
            free.wait(30)
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        return lookup(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", wait)
    node = Party(tmp_path / "node", 1, retry_policy=RetryPolicy(attempts=1, connect_s=2.0))
    peers = [Peer(f"0x{number:040x}", f"https://n{number}.slow", bytes(32)) for number in range(NAMES)]
    try:
        async with node.make_client() as client:
            asking = [asyncio.create_task(client.get_status(peer)) for peer in peers]
            await asyncio.sleep(0.3)
            async with asyncio.timeout(1.0):
                assert await asyncio.to_thread(lambda: "trained") == "trained"
            faults = await asyncio.gather(*asking, return_exceptions=True)
        assert all(isinstance(fault, EnvironmentFault) for fault in faults)
    finally:
        free.set()


async def test_a_name_is_found(tmp_path: Path) -> None:
    node, other = Party(tmp_path / "node", 1), Party(tmp_path / "other", 2)
    async with other.serve() as peer, node.make_client() as client:
        named = Peer(peer.account, peer.url.replace("127.0.0.1", "localhost"), peer.fingerprint)
        assert await client.get_status(named) == other.show_status()
