"""Strangers with many accounts and much bandwidth against one node, over real TLS: members are served all
the same, and what the node keeps of strangers is bounded."""

import asyncio
import logging
import os
import socket
import ssl
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.protocol.adapters.parties import CHUNK_ELEMENTS, DOMAIN, Party, make_key, make_tensor, open_session
from tests.protocol.adapters.wire.test_request_handler import SAID, Said
from tools.vectors.fixed_values import MALFORMED_REQUESTS
from touchstone.protocol.adapters.messages import encode_message
from touchstone.protocol.adapters.wire import listener, request_handler, request_paths
from touchstone.protocol.adapters.wire.limits import WireLimits
from touchstone.protocol.adapters.wire.listener import TlsListener
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.adapters.wire.request_handler import RequestHandler
from touchstone.protocol.adapters.wire.request_log import make_request_log
from touchstone.protocol.adapters.wire.request_signing import MAX_AGE_SECONDS, RequestSigner, RequestVerifier
from touchstone.protocol.adapters.wire.tls_contexts import make_client_context

ROOT = Path(__file__).resolve().parents[2]
FIRST_STRANGER = 1000


@pytest.fixture
def member(tmp_path: Path) -> Party:
    return Party(tmp_path / "member", 2)


def make_node(folder: Path, member: Party, **changes: object) -> Party:
    """A node whose only member is `member`."""
    return Party(folder / "node", 1, is_member=lambda account: account == member.account, **changes)  # type: ignore[arg-type]


def make_strangers(count: int) -> list[RequestSigner]:
    return [RequestSigner(make_key(FIRST_STRANGER + number), DOMAIN) for number in range(count)]


@asynccontextmanager
async def read_slowly(peer: Peer, path: str, count: int) -> AsyncIterator[list[int]]:
    """So many strangers ask for a blob, four times each, and read none of it. Their answers' statuses."""
    pin = aiohttp.Fingerprint(peer.fingerprint)
    async with open_session() as session:
        answers = []
        for signer in make_strangers(count):
            for _ in range(4):
                headers = signer.sign("GET", path, peer.account)
                answers.append(await session.get(peer.format_url(path), headers=headers, ssl=pin))
        yield [answer.status for answer in answers]
        for answer in answers:
            answer.close()


async def test_strangers_that_read_slowly_leave_streams_to_members(
    tmp_path: Path, member: Party, caplog: pytest.LogCaptureFixture
) -> None:
    """A dataset is open to anybody who signs, and accounts cost nothing: an auditor that is refused for that
    would have to say UNSERVED."""
    node = make_node(tmp_path, member)
    data, ref = make_tensor(16 * CHUNK_ELEMENTS)
    node.store.put(ref, data)
    path = request_paths.format_path(request_paths.BLOB, ref.key)
    async with (
        node.serve() as peer,
        member.make_client() as client,
        read_slowly(peer, path, 9) as statuses,
    ):
        assert WireLimits().strangers <= statuses.count(200) < len(statuses)
        await client.fetch(peer, ref)
    assert member.store.has(ref)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_two_strangers_that_read_slowly_leave_a_third_one_the_data(
    tmp_path: Path, member: Party
) -> None:
    """Who joins has no seat yet. Each piece of a blob may take its reader half a minute: two accounts that
    cost nothing, of one address, kept a submitter's data from everybody who wanted to join."""
    node, joiner = make_node(tmp_path, member), Party(tmp_path / "joiner", 3)
    data, ref = make_tensor(16 * CHUNK_ELEMENTS)
    node.store.put(ref, data)
    path = request_paths.format_path(request_paths.BLOB, ref.key)
    async with node.serve() as peer, joiner.make_client() as client, read_slowly(peer, path, 2) as statuses:
        assert statuses.count(200) == WireLimits().strangers
        await client.fetch(peer, ref)
    assert joiner.store.has(ref)


@pytest.mark.parametrize(("strangers", "is_member"), [(9, True), (2, False)])
async def test_strangers_that_speak_slowly_leave_desks_to_members_and_to_other_strangers(
    tmp_path: Path, member: Party, strangers: int, is_member: bool
) -> None:
    """Two accounts held all messages of strangers, ten seconds each, for some bytes: no honest peer told a
    joiner whether it is reached."""

    async def answer(account: str, body: bytes) -> Said:
        return Said("done")

    node, body = (
        make_node(
            tmp_path, member, handlers={"echo": RequestHandler(1000, answer)}, limits=WireLimits(messages=8)
        ),
        encode_message(Said("hello")),
    )
    path = request_handler.format_handler("echo", body)
    asker = member if is_member else Party(tmp_path / "joiner", 3)
    async with node.serve() as peer, open_session() as session, asker.make_client() as client:
        pin, url = aiohttp.Fingerprint(peer.fingerprint), peer.format_url(path)

        async def never() -> AsyncIterator[bytes]:
            begun.append(1)
            yield body[:4]
            await asyncio.Event().wait()

        async def speak(signer: RequestSigner) -> None:
            headers = signer.sign("POST", path, peer.account)
            async with session.post(url, data=never(), headers=headers, ssl=pin) as said:
                await said.read()

        begun = list[int]()
        speaking = [asyncio.create_task(speak(one)) for one in make_strangers(strangers) for _ in range(4)]
        while len(begun) < len(speaking):
            await asyncio.sleep(0.02)
        assert await client.ask(peer, "echo", Said("hello"), SAID) == Said("done")
        for one in speaking:
            one.cancel()
        await asyncio.gather(*speaking, return_exceptions=True)


class SlowWork:
    """What a handler does in threads until it is let go on. started: how often it began; most: at once."""

    def __init__(self) -> None:
        self.started = self.running = self.most = 0
        self.lock, self.go_on = threading.Lock(), threading.Event()

    def work(self) -> None:
        with self.lock:
            self.started, self.running = self.started + 1, self.running + 1
            self.most = max(self.most, self.running)
        self.go_on.wait()
        with self.lock:
            self.running -= 1

    async def answer(self, account: str, body: bytes) -> Said:
        await asyncio.to_thread(self.work)
        return Said("done")


async def test_who_asks_and_hangs_up_again_and_again_fills_no_threads(tmp_path: Path, member: Party) -> None:
    """What a thread has begun cannot be broken off. The node reads its disk and hashes in the same few
    threads."""
    slow = SlowWork()
    handlers = {"slow": RequestHandler(1000, slow.answer)}
    node, body = (
        make_node(tmp_path, member, handlers=handlers, limits=WireLimits(strangers=2)),
        encode_message(Said("hello")),
    )
    path = request_handler.format_handler("slow", body)
    async with node.serve() as peer, open_session() as session:
        pin, url = aiohttp.Fingerprint(peer.fingerprint), peer.format_url(path)

        async def ask(signer: RequestSigner) -> int:
            headers = signer.sign("POST", path, peer.account)
            async with session.post(url, data=body, headers=headers, ssl=pin) as said:
                return said.status

        strangers, refused = make_strangers(6), 0
        try:
            for signer in strangers[:5]:
                before, asking = slow.started, asyncio.create_task(ask(signer))
                while slow.started == before and not asking.done():
                    await asyncio.sleep(0.02)
                refused += asking.done() and asking.result() == 429
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
                await asyncio.sleep(0.2)
        finally:
            slow.go_on.set()
        while await ask(strangers[5]) != 200:
            await asyncio.sleep(0.05)
    assert (slow.most, refused) == (2, 3), "two are answered at once, whoever still waits for it"


def test_accounts_that_ask_once_are_forgotten() -> None:
    """Each request of a new account: nothing of it stays once its signature is stale."""
    now = [1_000.0]
    verifier = RequestVerifier(make_key(1).address, DOMAIN, lambda account: True, lambda: now[0])
    for number in range(20):
        signer = RequestSigner(make_key(FIRST_STRANGER + number), DOMAIN, lambda: now[0])
        verifier.verify("GET", "/x", signer.sign("GET", "/x", make_key(1).address))
        now[0] += MAX_AGE_SECONDS
    assert verifier.count_remembered() <= 4


async def test_false_signatures_use_up_an_address_soon(tmp_path: Path, member: Party) -> None:
    """Each costs the node milliseconds of the only thread that answers: whoever sends them pays for more than
    a request."""
    limits = WireLimits(address_requests_per_second=0.01, address_burst_requests=400)
    node = make_node(tmp_path, member, limits=limits)
    async with node.serve() as peer, open_session() as session:
        pin, path = aiohttp.Fingerprint(peer.fingerprint), f"/{request_handler.PATH}/echo"
        headers = member.signer.sign("POST", "/another", peer.account)
        statuses = []
        for _ in range(15):
            async with session.post(peer.format_url(path), headers=headers, ssl=pin) as answer:
                statuses.append(answer.status)
    assert statuses == [401] * 10 + [429] * 5


async def test_strangers_together_have_one_rate(tmp_path: Path, member: Party) -> None:
    """A new account for each request is no way around the limit of an account."""
    limits = WireLimits(strangers_per_second=0.01, strangers_burst=10, stranger_address_burst=0)
    node = make_node(tmp_path, member, limits=limits)
    data, ref = make_tensor(10)
    node.store.put(ref, data)
    path = request_paths.format_path(request_paths.BLOB, ref.key)
    async with node.serve() as peer, open_session() as session, member.make_client() as client:
        pin, statuses = aiohttp.Fingerprint(peer.fingerprint), []
        for signer in make_strangers(15):
            headers = signer.sign("GET", path, peer.account)
            async with session.get(peer.format_url(path), headers=headers, ssl=pin) as answer:
                statuses.append(answer.status)
        await client.fetch(peer, ref)
    assert statuses == [200] * 10 + [429] * 5


async def test_who_uses_up_the_rate_of_strangers_leaves_other_addresses_their_own(
    tmp_path: Path, member: Party
) -> None:
    """One account may ask as often as all strangers together."""
    limits = WireLimits(strangers_per_second=0.01, strangers_burst=3, stranger_address_burst=2)
    node, statuses = make_node(tmp_path, member, limits=limits), list[int]()
    data, ref = make_tensor(10)
    node.store.put(ref, data)
    path = request_paths.format_path(request_paths.BLOB, ref.key)
    async with node.serve() as peer:
        pin = aiohttp.Fingerprint(peer.fingerprint)
        for address, count in (("127.0.0.2", 6), ("127.0.0.3", 2)):
            connector = aiohttp.TCPConnector(local_addr=(address, 0))
            async with aiohttp.ClientSession(connector=connector) as session:
                for signer in make_strangers(count):
                    headers = signer.sign("GET", path, peer.account)
                    async with session.get(peer.format_url(path), headers=headers, ssl=pin) as answer:
                        statuses.append(answer.status)
    assert statuses == [200] * 5 + [429] + [200] * 2


async def test_handshakes_of_one_address_have_a_rate(tmp_path: Path, member: Party) -> None:
    """A hello costs who sends it nothing, and the node a millisecond of its only thread."""
    limits = WireLimits(handshakes_per_second=0.01, burst_handshakes=3)
    node, context = make_node(tmp_path, member, limits=limits), make_client_context()
    async with node.serve() as peer:
        port, made = urlsplit(peer.url).port or 0, list[bool]()
        for address in ["127.0.0.2"] * 5 + ["127.0.0.3"]:
            try:
                _, writer = await asyncio.open_connection(
                    "127.0.0.1", port, ssl=context, local_addr=(address, 0)
                )
                writer.transport.abort()
                made.append(True)
            except (ConnectionError, ssl.SSLError):
                made.append(False)
    assert made == [True] * 3 + [False] * 2 + [True]


@pytest.mark.parametrize("kind", range(len(MALFORMED_REQUESTS)))
async def test_malformed_requests_are_not_logged(
    tmp_path: Path, member: Party, caplog: pytest.LogCaptureFixture, kind: int
) -> None:
    """A traceback for each would fill the disk of a node that anybody may connect to."""
    node, context = make_node(tmp_path, member), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with node.serve() as peer:
        place = urlsplit(peer.url)
        reader, writer = await asyncio.open_connection(place.hostname, place.port, ssl=context)
        writer.write(MALFORMED_REQUESTS[kind])
        await reader.readline()
        writer.close()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_errors_of_the_node_itself_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise KeyError("a bug")
    except KeyError:
        make_request_log().exception("Error handling request")
    assert "a bug" in caplog.text


async def test_connections_without_a_handshake_are_few(
    tmp_path: Path, member: Party, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bare TCP connections, hundreds of them, cost memory and files until their handshake is given up: here
    it never is for its time."""
    shake, taken = TlsListener._shake, list[socket.socket]()

    async def count(self: TlsListener, connection: socket.socket) -> None:
        taken.append(connection)
        await shake(self, connection)

    monkeypatch.setattr(TlsListener, "_shake", count)
    monkeypatch.setattr(listener, "HANDSHAKE_SECONDS", 1e6)
    node = make_node(tmp_path, member)
    data, ref = make_tensor(10)
    node.store.put(ref, data)
    async with node.serve() as peer, member.make_client() as client:
        place = (urlsplit(peer.url).hostname or "", urlsplit(peer.url).port or 0)
        bare = list[socket.socket]()
        for number in range(7 * 50):
            bare.append(socket.create_connection(place))
            while number % 50 == 49 and len(taken) < len(bare):
                await asyncio.sleep(0.02)
        for _ in range(1_000):  # Those that were given up are let go of in the loop's next turns.
            await asyncio.sleep(0)
        held = count_open(bare)
        await client.fetch(peer, ref)
        for one in bare:
            one.close()
    assert held <= WireLimits().handshakes
    assert member.store.has(ref)


def count_open(connections: list[socket.socket]) -> int:
    """Connections that their other side has not closed."""
    found = 0
    for one in connections:
        one.setblocking(False)
        try:
            found += bool(one.recv(1))
        except BlockingIOError:
            found += 1
        except ConnectionError:
            pass
    return found


def shake_hands(port: int) -> socket.socket:
    """A connection that shakes hands, and then neither reads nor closes."""
    return make_client_context().wrap_socket(socket.create_connection(("127.0.0.1", port)))


async def test_a_connection_that_a_node_has_closed_keeps_no_file(
    tmp_path: Path, member: Party, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever does not close its side too had thirty times as many connections as it made a second, beyond
    the limit of all: asyncio waits half a minute for that."""
    node = make_node(tmp_path, member, limits=WireLimits(connections=4, idle_seconds=0.5))
    monkeypatch.setattr(listener, "CLOSING_SECONDS", 0.1)
    before = len(os.listdir("/proc/self/fd"))
    async with node.serve() as peer:
        port, made = urlsplit(peer.url).port or 0, list[socket.socket]()
        for _ in range(20):
            made.append(await asyncio.to_thread(shake_hands, port))
        async with asyncio.timeout(20):  # Of thirty.
            while len(os.listdir("/proc/self/fd")) > before + len(made) + 4:
                await asyncio.sleep(0.1)
        for one in made:
            one.close()


@asynccontextmanager
async def hold_bare(port: int, address: str, count: int) -> AsyncIterator[None]:
    """Another process holds bare connections of this address, and renews each that is dropped."""
    command = (sys.executable, "-m", "tests.faults.bare_connections", str(port), address, str(count))
    holding = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    try:
        assert holding.stdout is not None and await holding.stdout.readline() == b"all are made\n"
        yield
    finally:
        holding.kill()
        await holding.wait()


async def shake_slowly(port: int, context: ssl.SSLContext) -> bool:
    """Whether a peer of 127.0.0.1 that is a tenth of a second away gets through to an answer."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.1", 0))
        await asyncio.sleep(0.1)
        await writer.start_tls(context)
        writer.write(b"GET /health HTTP/1.1\r\nHost: node\r\n\r\n")
        answer = await reader.readline()
        writer.close()
        return answer == b"HTTP/1.1 200 OK\r\n"
    except (ConnectionError, ssl.SSLError):
        return False


async def test_bare_connections_of_one_address_keep_out_no_other(tmp_path: Path, member: Party) -> None:
    """More of them than there are handshakes at a time came within the round trip of an honest peer: its own
    was always the oldest, and given up."""
    node, context = make_node(tmp_path, member), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with node.serve() as peer:
        port = urlsplit(peer.url).port or 0
        async with hold_bare(port, "127.0.0.2", 1000):
            got_through = [await shake_slowly(port, context) for _ in range(20)]
    assert got_through == [True] * 20
