"""Plays against the look at a peer: who asks "do you reach me?" has a node search, wait, or work for it, or
takes the looks of others."""

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from tests.node.serving.test_reachability_probe import PUBLIC, Scene, answer_lookups
from tests.protocol.adapters.parties import Party
from touchstone.node.serving import reachability_probe
from touchstone.protocol.adapters.wire.reach_messages import Reach
from touchstone.protocol.adapters.wire.tls_contexts import make_server_context
from touchstone.protocol.spec.errors import EnvironmentFault

URL = "https://asker.example:8443"


def count_looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that are connected to; nobody answers there."""
    tried = list[str]()

    async def connect(host: str, *_: Any) -> bytes:
        tried.append(host)
        raise ConnectionRefusedError

    monkeypatch.setattr(reachability_probe, "fetch_fingerprint", connect)
    monkeypatch.setattr(reachability_probe, "find_source", lambda address: "")
    return tried


async def try_to_see(scene: Scene, account: str, url: str = URL) -> Reach | None:
    """What is seen; None where it is not the account's turn."""
    try:
        return await scene.see(url, account)
    except EnvironmentFault as fault:
        assert "probes no endpoint for you now" in fault.what
        return None


# Searching
@pytest.mark.parametrize("is_member", [False, True])
async def test_a_name_that_leads_elsewhere_each_minute_searches_no_network(
    is_member: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each URL costs a transaction, but the owner of a name chooses where it leads. With thirty accounts a
    stranger had a node connect to one address of the internet every two seconds, for as long as it liked."""
    tried, scene, minutes = count_looks(monkeypatch), Scene(PUBLIC), range(24 * 60)
    scene.members |= {"0xasker"} if is_member else set()
    addresses = (f"93.184.{minute // 250}.{1 + minute % 250}" for minute in minutes)

    def find(host: str, port: int, *_: object) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(addresses), port))]

    monkeypatch.setattr(socket, "getaddrinfo", find)
    for _ in minutes:
        await try_to_see(scene, "0xasker")
        scene.now_s += reachability_probe.ACCOUNT_S + 1
    assert reachability_probe.DAY_LOOKS <= len(set(tried)) <= 2 * reachability_probe.DAY_LOOKS + 1


@pytest.mark.parametrize(
    ("own", "address", "is_let"),
    [
        ("2a02:8100:1:2::7", "2a02:8100:1:2:ffff::1", False),
        ("2a02:8100:1:2::7", "2a02:8100:1:3::1", True),
        ("93.184.215.14", "93.184.215.200", False),
        ("93.184.215.14", "93.184.216.200", True),
        ("192.168.0.2", "93.184.215.14", True),
        ("", "93.184.215.14", True),
    ],
)
async def test_neighbours_with_public_addresses_are_not_looked_at(
    own: str, address: str, is_let: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of version 6 each machine of a house has one, behind the firewall that keeps strangers out. The node
    stands inside, and said what it found there."""
    tried = count_looks(monkeypatch)
    monkeypatch.setattr(reachability_probe, "find_source", lambda _: own)
    answer_lookups(monkeypatch, address)
    scene = Scene(PUBLIC)
    seen = await scene.see(URL)
    assert (seen, tried) == ((Reach.REFUSED, [address]) if is_let else (Reach.NOT_LOOKED, []))


def test_the_own_address_is_found_without_sending_anything() -> None:
    assert reachability_probe.find_source("127.0.0.1") == "127.0.0.1"


# Taking the looks of others
async def test_who_announces_a_members_address_takes_no_look_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four accounts that cost nothing asked each node about the member's address once a minute, and the
    member's own doctor heard from all of them: not now."""
    tried, scene = count_looks(monkeypatch), Scene(PUBLIC)
    scene.members.add("0xmember")
    answer_lookups(monkeypatch, "93.184.215.14")
    for _ in range(10):
        for number in range(6):
            await try_to_see(scene, f"0x{number}")
            scene.now_s += reachability_probe.STRANGERS_S
        assert await try_to_see(scene, "0xmember") is Reach.REFUSED
        scene.now_s += reachability_probe.ACCOUNT_S
    assert len(tried) <= 10 * reachability_probe.ADDRESS_BURST + reachability_probe.ADDRESS_BURST


async def test_a_look_that_lasts_gives_way_to_another_strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two names whose addresses take no connection, and a node looked for nobody else without a seat."""
    begun, go_on = list[str](), asyncio.Event()

    async def connect(host: str, *_: Any) -> bytes:
        begun.append(host)
        if host == "93.184.215.14":
            await go_on.wait()
        raise ConnectionRefusedError

    monkeypatch.setattr(reachability_probe, "fetch_fingerprint", connect)
    monkeypatch.setattr(reachability_probe, "find_source", lambda _: "")
    monkeypatch.setattr(reachability_probe, "TURN_S", 0.0)
    scene = Scene(PUBLIC)
    answer_lookups(monkeypatch, "93.184.215.14")
    count = reachability_probe.STRANGERS_AT_ONCE
    holding = [asyncio.create_task(try_to_see(scene, f"0x{number}")) for number in range(count)]
    while len(begun) < count:
        await asyncio.sleep(0.01)
    answer_lookups(monkeypatch, "93.184.99.1")
    assert await try_to_see(scene, "0xjoiner") is Reach.REFUSED
    go_on.set()
    assert await asyncio.gather(*holding) == [None, Reach.REFUSED], "the longest, and it alone"


async def test_all_addresses_of_a_network_of_version_6_count_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has one of them has 2^64: a name led to another each time."""
    tried, scene = count_looks(monkeypatch), Scene(PUBLIC)
    scene.members |= {f"0x{number}" for number in range(9)}
    for number in range(9):
        answer_lookups(monkeypatch, f"2606:4700::{number + 1}")
        await try_to_see(scene, f"0x{number}", f"https://asker{number}.example:8443")
    assert len(tried) == reachability_probe.ADDRESS_BURST


# Working
async def test_a_server_cannot_choose_an_older_tls(tmp_path: Path) -> None:
    """There it also chooses the numbers of the key exchange: 10,000 bits hold up the thread of a node for a
    second, and a stranger may ask every two."""
    party = Party(tmp_path / "asker", 2)
    context = make_server_context(party.identity)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.maximum_version = ssl.TLSVersion.TLSv1_2

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        said = await Scene().ask(f"https://127.0.0.1:{port}", fingerprint=party.identity.fingerprint)
    assert said.reach is Reach.OTHER
