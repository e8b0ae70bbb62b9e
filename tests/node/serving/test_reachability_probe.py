"""A node that is asked "do you reach me?" looks at the announced endpoint alone, seldom, and tells nothing of
its own network."""

import asyncio
import errno
import json
import os
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from tests.protocol.adapters.parties import Party, open_session
from touchstone.node.kit.chain_state import Network
from touchstone.node.serving import being_reached, reachability_probe
from touchstone.node.serving.being_reached import OwnEndpoint
from touchstone.node.serving.reachability_probe import ReachabilityProbe
from touchstone.protocol.adapters.messages import Form, Message, encode_message
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.adapters.wire.reach_messages import REACH, REACH_SAID, Reach, ReachAsked, ReachSaid
from touchstone.protocol.adapters.wire.request_handler import format_handler
from touchstone.protocol.adapters.wire.tls_contexts import make_server_context
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.scripts.network.devnet import claim_port

Announce = Callable[[str, bytes], Awaitable[None]]
PUBLIC = "https://node.example"
"""The own endpoint of a node on the internet."""
ASKED = encode_message(ReachAsked())


class Scene:
    """A node that is asked. own_url: where it has announced itself; now_s: its clock; members: whom it works
    with."""

    def __init__(self, own_url: str = "https://127.0.0.1:8443") -> None:
        self.network, self.now_s, self.members = Network(), 1000.0, set[str]()
        self.network.announce("0xnode", own_url, bytes(32))
        state: Any = SimpleNamespace(network=self.network)
        self.probe = ReachabilityProbe(state, "0xnode", self.members.__contains__, lambda: self.now_s)

    async def ask(self, url: str, account: str = "0xasker", fingerprint: bytes = bytes(32)) -> ReachSaid:
        """The answer to an account that has announced `url`."""
        self.network.announce(account, url, fingerprint)
        return await self.probe.answer(account, ASKED)

    async def see(self, url: str, account: str = "0xasker") -> Reach:
        return (await self.ask(url, account)).reach

    async def count_turns(self, urls: list[str], get_account: Callable[[int], str]) -> int:
        """How many of these questions it looks for."""
        turns = 0
        for number, url in enumerate(urls):
            try:
                turns += (await self.see(url, get_account(number))) is not None
            except EnvironmentFault as fault:
                assert "probes no endpoint for you now" in fault.what
        return turns


@asynccontextmanager
async def count_connections(port: int = 0) -> AsyncIterator[tuple[int, list[bytes]]]:
    """(port, what each connection sent before it was at its end), of a server without TLS that stays
    silent."""
    seen = list[bytes]()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(b"")
        at = len(seen) - 1
        seen[at] = await reader.read()
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", port)
    async with server:
        yield server.sockets[0].getsockname()[1], seen


def answer_lookups(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[str]:
    """Names have these addresses; the names that were looked up."""
    names, lookup = list[str](), socket.getaddrinfo

    def find(host: Any, port: Any, *arguments: Any, **options: Any) -> Any:
        if str(host).endswith(".example"):
            names.append(host)
            if not addresses:
                raise socket.gaierror(socket.EAI_NONAME, "no such name")
            return [lookup(one, port, 0, socket.SOCK_STREAM)[0] for one in addresses]
        return lookup(host, port, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", find)
    return names


# Over real HTTPS
@pytest.fixture
def asker(tmp_path: Path) -> Party:
    return Party(tmp_path / "asker", 2)


async def ask_node(folder: Path, asker: Party, announced: Peer) -> ReachSaid:
    """A node that serves the handler is asked, by an account that has announced this."""
    scene = Scene()
    scene.network.peers[asker.account] = announced
    node = Party(folder / "node", 1, handlers=scene.probe.make_handlers())
    async with node.serve() as peer, asker.make_client() as client:
        return await client.ask(peer, REACH, ReachAsked(), REACH_SAID)


async def test_a_peer_that_reaches_the_endpoint_says_so(tmp_path: Path, asker: Party) -> None:
    async with asker.serve() as own:
        said = await ask_node(tmp_path, asker, own)
    assert said == ReachSaid(own.url, own.fingerprint, Reach.REACHED, "127.0.0.1")


async def test_a_port_that_nobody_listens_on_is_refused(tmp_path: Path, asker: Party) -> None:
    said = await ask_node(tmp_path, asker, asker.make_peer(claim_port(0)))
    assert said.reach is Reach.REFUSED


async def test_another_certificate_is_told(tmp_path: Path, asker: Party) -> None:
    async with Party(tmp_path / "other", 3).serve() as other:
        said = await ask_node(tmp_path, asker, Peer(asker.account, other.url, asker.identity.fingerprint))
    assert said.reach is Reach.OTHER


async def test_what_speaks_no_tls_is_told(tmp_path: Path, asker: Party) -> None:
    async def speak(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.6\r\n" + bytes(100))
        writer.close()

    async with await asyncio.start_server(speak, "127.0.0.1", 0) as server:
        said = await ask_node(tmp_path, asker, asker.make_peer(server.sockets[0].getsockname()[1]))
    assert said.reach is Reach.OTHER


async def test_an_endpoint_that_stays_silent_is_given_up(
    tmp_path: Path, asker: Party, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reachability_probe, "CONNECT_S", 0.2)
    async with count_connections() as (port, sent):
        said = await ask_node(tmp_path, asker, asker.make_peer(port))
        assert said.reach is Reach.SILENT and len(sent) == 1


async def test_nothing_is_sent_after_the_handshake(tmp_path: Path, asker: Party) -> None:
    """And nothing is waited for: a server that goes on speaking holds nothing."""
    ends = asyncio.Queue[bytes]()

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"x" * 100_000)
        try:
            ends.put_nowait(await reader.read())
        except OSError:
            ends.put_nowait(b"")
        writer.close()

    context = make_server_context(asker.identity)
    async with await asyncio.start_server(speak, "127.0.0.1", 0, ssl=context) as server:
        said = await ask_node(tmp_path, asker, asker.make_peer(server.sockets[0].getsockname()[1]))
        assert said.reach is Reach.REACHED and await ends.get() == b""


class NamedUrl(Message, frozen=True):
    """A question that names where to look."""

    url: str


async def test_a_question_that_names_an_endpoint_is_refused(tmp_path: Path, asker: Party) -> None:
    async with count_connections() as (port, sent):
        scene = Scene()
        scene.network.peers[asker.account] = asker.make_peer(claim_port(0))
        node = Party(tmp_path / "node", 1, handlers=scene.probe.make_handlers())
        async with node.serve() as peer, asker.make_client() as client:
            with pytest.raises(
                EnvironmentFault, match="status 400: what: the request to probe an endpoint is malformed"
            ):
                await client.ask(peer, REACH, NamedUrl(f"https://127.0.0.1:{port}"), REACH_SAID)
        assert not sent


async def test_a_question_counts_once(tmp_path: Path, asker: Party) -> None:
    """The same signed request again, by whoever has seen it."""
    scene = Scene()
    scene.network.peers[asker.account] = asker.make_peer(claim_port(0))
    node, path = (
        Party(tmp_path / "node", 1, handlers=scene.probe.make_handlers()),
        format_handler(REACH, ASKED),
    )
    async with node.serve() as peer, open_session() as session:
        headers, pin = asker.signer.sign("POST", path, peer.account), aiohttp.Fingerprint(peer.fingerprint)
        statuses = []
        for _ in range(2):
            scene.now_s += 600
            url = peer.format_url(path)
            async with session.post(url, data=ASKED, headers=headers, ssl=pin) as answer:
                statuses.append((answer.status, json.loads(await answer.text()).get("what")))
    assert statuses == [(200, None), (401, "the request was used before")]


# Where it looks
async def test_an_account_without_an_endpoint_is_told_so() -> None:
    with pytest.raises(EnvironmentFault, match="has announced no endpoint"):
        await Scene().probe.answer("0xasker", ASKED)


async def test_an_answer_names_what_was_looked_at() -> None:
    """Who asks may have announced another endpoint, in a block that this node has not read yet."""
    url, fingerprint = f"https://127.0.0.1:{claim_port(0)}", sha256(b"certificate").digest()
    said = await Scene().ask(url, fingerprint=fingerprint)
    assert (said.url, said.certificate_sha256) == (url, fingerprint)


@pytest.mark.parametrize(
    ("own_url", "address", "is_let"),
    [
        (PUBLIC, "93.184.215.14", True),
        ("https://93.184.215.14", "93.184.215.15", True),
        (PUBLIC, "127.0.0.1", False),
        (PUBLIC, "10.0.0.7", False),
        ("https://93.184.215.14", "10.0.0.7", False),
        ("https://localhost", "127.0.0.1", False),
        ("https://10.0.0.7:8443", "93.184.215.14", True),
        ("https://10.0.0.7:8443", "10.0.1.1", True),
        ("https://10.0.0.7:8443", "127.0.0.1", False),
        ("https://10.0.0.7:8443", "192.168.0.1", False),
        ("https://10.0.0.7:8443", "169.254.169.254", False),
        ("https://10.0.0.7:8443", "::ffff:10.0.0.8", False),
        ("https://169.254.0.1:8443", "169.254.169.254", False),
        ("https://127.0.0.1:8443", "::1", True),
        ("https://[::1]:8443", "127.0.0.9", True),
        ("https://127.0.0.1:8443", "10.0.0.7", False),
        ("https://[fd00::1]:8443", "fd00::2", True),
        ("https://100.64.0.1", "100.100.0.1", True),
        ("https://127.0.0.1:8443", "0.0.0.0", False),
        ("https://127.0.0.1:8443", "224.0.0.1", False),
    ],
)
async def test_addresses_that_are_not_public_are_looked_at_from_their_own_network_alone(
    own_url: str, address: str, is_let: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A seat changes nothing: whoever pays for one could search the network behind a node with it."""
    connected = list[str]()

    async def connect(host: str, *_: Any) -> bytes:
        connected.append(host)
        raise ConnectionRefusedError

    monkeypatch.setattr(reachability_probe, "fetch_fingerprint", connect)
    answer_lookups(monkeypatch, address)
    for is_member in (False, True):
        scene = Scene(own_url)
        scene.members |= {"0xasker"} if is_member else set()
        expected = Reach.REFUSED if is_let else Reach.NO_ADDRESS
        assert await scene.see("https://asker.example:8443") is expected
    assert connected == [address] * (2 if is_let else 0)


async def test_an_address_that_is_no_name_is_judged_too() -> None:
    async with count_connections() as (port, sent):
        assert await Scene(PUBLIC).see(f"https://127.0.0.1:{port}") is Reach.NO_ADDRESS
        assert not sent


async def test_a_node_that_has_announced_nothing_looks_at_public_addresses_alone() -> None:
    scene = Scene()
    del scene.network.peers["0xnode"]
    assert await scene.see(f"https://127.0.0.1:{claim_port(0)}") is Reach.NO_ADDRESS


async def test_a_name_of_the_own_network_and_no_name_get_the_same_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer_lookups(monkeypatch, "10.0.0.7")
    inner = await Scene(PUBLIC).ask("https://wiki.example")
    answer_lookups(monkeypatch)
    assert await Scene(PUBLIC).ask("https://wiki.example") == inner
    assert (inner.reach, inner.address) == (Reach.NO_ADDRESS, "")


async def test_one_address_that_is_not_public_spoils_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_lookups(monkeypatch, "93.184.215.14", "10.0.0.7")
    assert await Scene(PUBLIC).see("https://asker.example") is Reach.NO_ADDRESS


async def test_a_name_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It could lead elsewhere when it is connected to."""
    names = answer_lookups(monkeypatch, "127.0.0.1")
    assert await Scene().see(f"https://asker.example:{claim_port(0)}") is Reach.REFUSED
    assert names == ["asker.example"]


async def test_ports_that_nodes_do_not_use_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    connected = list[int]()

    async def connect(host: str, port: int, *_: Any) -> bytes:
        connected.append(port)
        raise ConnectionRefusedError

    monkeypatch.setattr(reachability_probe, "fetch_fingerprint", connect)
    scene, ports = Scene(), (22, 25, 80, 442, 444, 1023)
    scene.members |= {f"0x{port}" for port in (*ports, 443, 1024)}
    for port in ports:
        assert await scene.see(f"https://127.0.0.1:{port}", f"0x{port}") is Reach.NOT_LOOKED
    for port in (443, 1024):
        assert await scene.see(f"https://127.0.0.1:{port}", f"0x{port}") is Reach.REFUSED
    assert connected == [443, 1024]


async def test_a_name_that_takes_too_long_says_nothing_about_the_endpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free = threading.Event()

    def wait(*_: Any) -> Any:
        free.wait(5)
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    monkeypatch.setattr(socket, "getaddrinfo", wait)
    monkeypatch.setattr(reachability_probe, "LOOKUP_S", 0.1)
    try:
        assert await Scene().see("https://asker.example") is Reach.NOT_LOOKED
    finally:
        free.set()


async def test_each_version_of_address_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that fetch do so as well: an endpoint that one leads to can be reached."""
    fingerprint, tried = bytes(32), list[str]()

    async def connect(host: str, *_: Any) -> bytes:
        tried.append(host)
        if ":" in host:
            raise TimeoutError
        return fingerprint

    monkeypatch.setattr(reachability_probe, "fetch_fingerprint", connect)
    answer_lookups(monkeypatch, "2606:4700::1", "2606:4700::2", "93.184.215.14", "93.184.215.15")
    said = await Scene(PUBLIC).ask("https://asker.example")
    assert (said.reach, said.address) == (Reach.REACHED, "93.184.215.14")
    assert tried == ["2606:4700::1", "93.184.215.14"]


@pytest.mark.parametrize(
    ("number", "seen"),
    [
        (errno.EHOSTUNREACH, Reach.REFUSED),
        (errno.ENETUNREACH, Reach.NOT_LOOKED),
        (errno.EMFILE, Reach.NOT_LOOKED),
        (errno.ETIMEDOUT, Reach.SILENT),
        (errno.ECONNRESET, Reach.OTHER),
    ],
)
async def test_what_fails_here_is_not_told_as_the_others_fault(
    number: int, seen: Reach, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def connect(*_: Any) -> bytes:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(reachability_probe, "fetch_fingerprint", connect)
    assert await Scene().see("https://127.0.0.1:8444") is seen


# How often
def list_urls(count: int) -> list[str]:
    """Endpoints at as many addresses of this machine that nobody listens on."""
    port = claim_port(0)
    return [f"https://127.0.1.{number + 1}:{port}" for number in range(count)]


async def test_an_account_has_one_look_a_minute() -> None:
    """Wherever it announces itself meanwhile, and with a seat too."""
    scene = Scene()
    scene.members.add("0xasker")
    assert await scene.count_turns(list_urls(5), lambda number: "0xasker") == 1
    scene.now_s += reachability_probe.ACCOUNT_S + 1
    assert await scene.count_turns(list_urls(5), lambda number: "0xasker") == 1


async def test_an_address_is_looked_at_seldom_whoever_asks() -> None:
    """Any number of accounts can announce the address of a victim."""
    scene, urls = Scene(), [f"https://127.0.0.1:{claim_port(0)}"] * 9
    scene.members |= {f"0x{number}" for number in range(9)}
    assert await scene.count_turns(urls, lambda number: f"0x{number}") == reachability_probe.ADDRESS_BURST


async def test_strangers_share_few_looks_and_take_none_from_members() -> None:
    scene, urls = Scene(), list_urls(20)
    turns = await scene.count_turns(urls, lambda number: f"0x{number}")
    assert turns == reachability_probe.STRANGERS_BURST
    scene.members |= {f"member {number}" for number in range(20)}
    assert await scene.count_turns(urls, lambda number: f"member {number}") == 20
    scene.now_s += 2 * reachability_probe.STRANGERS_S
    assert await scene.count_turns(urls, lambda number: f"later {number}") == 2


@pytest.mark.parametrize("is_member", [False, True])
async def test_few_looks_are_under_way_at_once(is_member: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Endpoints that stay silent hold no more than these."""
    monkeypatch.setattr(reachability_probe, "CONNECT_S", 60.0)
    most = reachability_probe.MEMBERS_AT_ONCE if is_member else reachability_probe.STRANGERS_AT_ONCE
    async with count_connections() as (port, sent):
        scene = Scene()
        asking = []
        for number in range(most + 3):
            scene.members |= {f"0x{number}"} if is_member else set()
            scene.now_s += 60  # Only what is under way counts here.
            asking.append(asyncio.create_task(scene.see(f"https://127.0.0.1:{port}", f"0x{number}")))
            while len(sent) < min(number + 1, most) and not asking[-1].done():
                await asyncio.sleep(0.01)
        await asyncio.wait(asking[most:])
        assert len(sent) == most and sum(one.done() for one in asking) == 3
        for one in asking:
            one.cancel()
        ends = await asyncio.gather(*asking, return_exceptions=True)
    assert [type(end) for end in ends[most:]] == [EnvironmentFault] * 3


def test_a_question_and_its_answer_are_bounded() -> None:
    form: Form[ReachSaid] = REACH_SAID
    good = ReachSaid("https://node.example", bytes(32), Reach.REACHED, "2606:4700::1")
    assert form.decode(encode_message(good)) == good
    for spoiled in (
        {"address": "\u001b[31m"},
        {"address": "1" * 46},
        {"reach": "perhaps"},
        {"url": "x" * 257},
        {"more": 1},
    ):
        with pytest.raises(ProtocolFault):
            form.decode(json.dumps({**json.loads(encode_message(good)), **spoiled}))


# Being reached
async def be_reached(
    node: Party, port: int, stack: AsyncExitStack, announce: Announce, *, is_held: bool
) -> list[str]:
    """What a node that is to listen at a port says to its operator."""

    async def tell_none(account: str) -> Any:
        return SimpleNamespace(url="", certificate_sha256=bytes(32))

    said, server = list[str](), node.make_server()
    game = SimpleNamespace(peer_of=tell_none, announce=announce)
    chain: Any = SimpleNamespace(address=node.account, game=game)
    endpoint = OwnEndpoint(chain, "127.0.0.1", port, "", said.append)
    await endpoint.be_reached(server, node.identity, stack, is_held=is_held)
    return said


async def test_who_has_a_seat_or_a_bond_goes_on_without_its_port_and_listens_once_it_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program had taken the port while the node was down. A service was started again and again, and
    the clock of its dispute ran out. Who has nothing at stake is told at once."""
    monkeypatch.setattr(being_reached, "LISTEN_S", 0.01)
    node, announced = Party(tmp_path, 1), list[str]()

    async def announce(url: str, fingerprint: bytes) -> None:
        announced.append(url)

    async with AsyncExitStack() as stack:
        async with count_connections() as (port, _):
            with pytest.raises(EnvironmentFault, match="cannot listen"):
                await be_reached(node, port, stack, announce, is_held=False)
            said = await be_reached(node, port, stack, announce, is_held=True)
            assert len(said) == 1 and "cannot listen" in said[0] and not announced
        while not announced:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.01)
        assert announced == [f"https://127.0.0.1:{port}"] and len(said) == 2
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()


async def test_who_has_a_seat_or_a_bond_goes_on_where_the_gas_of_its_endpoint_cannot_be_paid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What others have to send in a game costs this node nothing. Each try listens anew."""
    monkeypatch.setattr(being_reached, "LISTEN_S", 0.01)
    node, tries = Party(tmp_path, 1), list[str]()

    async def announce(url: str, fingerprint: bytes) -> None:
        tries.append(url)
        if len(tries) < 4:
            raise EnvironmentFault(what="no coin", expected="some", actual="none", remedy="", retryable=False)

    async with AsyncExitStack() as stack:
        with pytest.raises(EnvironmentFault, match="no coin"):
            await be_reached(node, 0, stack, announce, is_held=False)
        said = await be_reached(node, 0, stack, announce, is_held=True)
        while len(said) < 2:
            await asyncio.sleep(0.01)
        assert len(tries) == 4 and "no coin" in said[0]
