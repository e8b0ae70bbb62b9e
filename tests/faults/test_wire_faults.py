"""Peers that die, lie or attack, over real TLS and, where it matters, in real processes."""

import asyncio
import itertools
import json
import os
import signal
import ssl
import subprocess
import sys
import time
from asyncio import StreamReader, StreamWriter
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace

import aiohttp
import pytest
from aiohttp import web

from tests.protocol.adapters.parties import (
    CHUNK_ELEMENTS,
    Party,
    make_tensor,
    make_trace_tensor,
    open_session,
    serve_hostile,
)
from tests.protocol.adapters.wire.test_listener import change
from touchstone.protocol.adapters.messages import encode_message
from touchstone.protocol.adapters.store.blob_store import LOCK_NAME
from touchstone.protocol.adapters.wire import request_paths, session
from touchstone.protocol.adapters.wire.json_answers import MAX_STATUS_BYTES
from touchstone.protocol.adapters.wire.limits import WireLimits
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.adapters.wire.session import RetryPolicy
from touchstone.protocol.adapters.wire.tls_contexts import fetch_fingerprint, make_server_context
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def solver(tmp_path: Path) -> Party:
    return Party(tmp_path / "solver", 1)


@pytest.fixture
def auditor(tmp_path: Path) -> Party:
    return Party(tmp_path / "auditor", 2)


def is_untouched(party: Party) -> bool:
    return not any(path.is_file() for path in party.store.folder.rglob("*") if path.name != LOCK_NAME)


# A peer dies


def start_server(folder: Path, port: int, stall_bytes: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.faults.stalling_server", str(folder), str(port), str(stall_bytes)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


async def test_a_transfer_goes_on_where_a_killed_server_broke_it(solver: Party, auditor: Party) -> None:
    data, ref = make_tensor(8 * CHUNK_ELEMENTS)
    solver.store.put(ref, data)
    auditor.retry_policy = RetryPolicy(attempts=200, first_pause_s=0.05, longest_pause_s=0.1)
    first = start_server(solver.folder, 0, stall_bytes=5 << 20)
    second = None
    try:
        port = int(await asyncio.to_thread(read_line, first))
        async with auditor.make_client() as client:
            fetching = asyncio.create_task(client.fetch(solver.make_peer(port), ref))
            assert await asyncio.to_thread(read_line, first) == "from 0"
            assert await asyncio.to_thread(read_line, first) == "stalled"
            kill(first)
            second = start_server(solver.folder, port, stall_bytes=0)
            assert int(await asyncio.to_thread(read_line, second)) == port
            path = await fetching
        offset = int((await asyncio.to_thread(read_line, second)).removeprefix("from "))
    finally:
        for process in filter(None, (first, second)):
            if process.poll() is None:
                kill(process)
    assert path.read_bytes() == data
    assert offset > 0


async def test_a_peer_that_never_answers_is_given_up(solver: Party, auditor: Party) -> None:
    async def hang(_: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(600)
        raise AssertionError

    auditor.retry_policy = RetryPolicy(attempts=2, first_pause_s=0, silence_s=0.2)
    async with serve_hostile(solver, hang) as peer, auditor.make_client() as client:
        with pytest.raises(EnvironmentFault, match="down or slow.*no timely answer"):
            await client.get_status(peer)


async def test_a_peer_that_drips_is_given_up(solver: Party, auditor: Party) -> None:
    _, ref = make_tensor(1000)

    async def drip(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "4000"})
        await response.prepare(request)
        while True:
            await response.write(b"x")
            await asyncio.sleep(0.05)

    auditor.retry_policy = RetryPolicy(
        attempts=1, connect_s=0.3, silence_s=0.3, least_bytes_per_second=100_000
    )
    async with serve_hostile(solver, drip) as peer, auditor.make_client() as client:
        with pytest.raises(EnvironmentFault, match="no timely answer"):
            await client.fetch(peer, ref)
    assert is_untouched(auditor)


async def test_silent_peers_keep_no_request_from_others(
    tmp_path: Path, solver: Party, auditor: Party
) -> None:
    """All requests shared the hundred connections of aiohttp's pool. Beyond them an honest solver was not
    even connected to, and after ten seconds that was no timely answer of its own."""
    peers, each, asked, is_full = 7, session.A_PEER_AT_ONCE, Counter[str](), asyncio.Event()
    assert peers * each > 100

    async def say_nothing(request: web.BaseRequest) -> web.StreamResponse:
        asked[request.host] += 1
        if asked.total() == peers * each:
            is_full.set()
        await asyncio.Event().wait()
        raise AssertionError

    auditor.retry_policy = RetryPolicy(attempts=1, connect_s=60.0, silence_s=60.0)
    async with AsyncExitStack() as stack:
        honest, client = await stack.enter_async_context(solver.serve()), auditor.make_client()
        await stack.enter_async_context(client)
        waiting = list[asyncio.Task[bool]]()
        for number in range(peers):
            hostile = Party(tmp_path / str(number), 10 + number)
            silent = await stack.enter_async_context(serve_hostile(hostile, say_nothing))
            waiting += [asyncio.create_task(client.is_answering(silent)) for _ in range(each + 2)]
        await asyncio.wait_for(is_full.wait(), 60)
        assert await client.is_answering(honest)
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    assert set(asked.values()) == {each}, "no peer has more than its own"


# A peer lies


@pytest.mark.parametrize("other", ["TLS 1.2", "ffdhe8192"])
async def test_a_peer_that_chooses_how_to_compute_gets_no_request(auditor: Party, other: str) -> None:
    """An endpoint costs one announcement, and whoever asks there has one thread."""
    context, asked = make_server_context(auditor.identity), list[str]()
    change(context, other)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.read(10)).decode())
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        peer = auditor.make_peer(server.sockets[0].getsockname()[1])
        async with auditor.make_client() as client:
            assert not await client.is_answering(peer)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await fetch_fingerprint("127.0.0.1", server.sockets[0].getsockname()[1])
    assert not any(asked)


async def test_another_certificate_gets_no_request(solver: Party, auditor: Party) -> None:
    seen: list[web.BaseRequest] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        seen.append(request)
        return web.Response(body=encode_message(solver.show_status()))

    async with serve_hostile(solver, answer) as peer, auditor.make_client() as client:
        forged = Peer(peer.account, peer.url, auditor.identity.fingerprint)
        expected, actual = auditor.identity.fingerprint.hex(), solver.identity.fingerprint.hex()
        with pytest.raises(ProtocolFault, match=f"TLS certificate.*expected {expected}, got {actual}"):
            await client.get_status(forged)
        assert not seen
        await client.get_status(peer)
    assert len(seen) == 1


class Answer:
    """A handler that gives everybody the same answer and counts its calls; chunk hashes it does not know."""

    def __init__(self, body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.body, self.status, self.headers, self.calls = body, status, headers, 0

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """The answer."""
        self.calls += 1
        if request.path.startswith(f"/{request_paths.CHUNKS}/"):
            return web.Response()
        return web.Response(body=self.body, status=self.status, headers=self.headers)


@pytest.mark.parametrize("elements", [1000, 2 * CHUNK_ELEMENTS])
async def test_a_wrong_blob_is_refused_at_once(solver: Party, auditor: Party, elements: int) -> None:
    data, ref = make_tensor(elements)
    handler = Answer(data[:-1] + bytes([data[-1] ^ 1]))
    async with serve_hostile(solver, handler) as peer, auditor.make_client() as client:
        with pytest.raises(
            ProtocolFault, match=f"{peer.account} at {peer.url}: the bytes do not match their root"
        ):
            await client.fetch(peer, ref)
    assert handler.calls == (1 if elements == 1000 else 2)
    assert is_untouched(auditor)


@pytest.mark.parametrize("lie", ["bytes", "hashes"])
async def test_wrong_chunks_are_refused(solver: Party, auditor: Party, lie: str) -> None:
    data, ref, chunk_roots = make_trace_tensor(4 * 128 * 1024 + 9, 512)
    hashes = {"bytes": chunk_roots, "hashes": chunk_roots[::-1]}[lie]

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.path.startswith(f"/{request_paths.CHUNKS}/"):
            return web.Response(body=b"".join(hashes))
        return web.Response(body=data[:-1] + bytes([data[-1] ^ 1]))

    async with serve_hostile(solver, answer) as peer, auditor.make_client() as client:
        with pytest.raises(ProtocolFault, match=rf"{peer.account} at .*(chunk does not match|chunk hashes)"):
            await client.fetch(peer, ref)
    assert is_untouched(auditor)


@pytest.mark.parametrize("change", [-1024, +100, +1024])
async def test_an_oversized_or_misshapen_blob_is_refused_by_its_length(
    solver: Party, auditor: Party, change: int
) -> None:
    data, ref = make_tensor(1000)
    handler = Answer((data + bytes(2000))[: len(data) + change])
    async with serve_hostile(solver, handler) as peer, auditor.make_client() as client:
        with pytest.raises(
            ProtocolFault, match=f"expected status 200 with 3073 to 4096 bytes, got .* {4000 + change} bytes"
        ):
            await client.fetch(peer, ref)
    assert is_untouched(auditor)


async def test_an_endless_answer_is_cut(solver: Party, auditor: Party) -> None:
    async def flood(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" " * 65536)

    _, ref = make_tensor(2 * CHUNK_ELEMENTS)
    async with serve_hostile(solver, flood) as peer, auditor.make_client() as client:
        with pytest.raises(ProtocolFault, match=f"too long.*at most {MAX_STATUS_BYTES} bytes"):
            await client.get_status(peer)
        with pytest.raises(ProtocolFault, match="too long.*at most 64 bytes"):
            await client.fetch(peer, ref)
    assert is_untouched(auditor)


@pytest.mark.parametrize("body", [b"{", b"{}", b"[]", b"7", b"[" * MAX_STATUS_BYTES, b"\xff"])
async def test_a_malformed_status_is_refused(solver: Party, auditor: Party, body: bytes) -> None:
    async with serve_hostile(solver, Answer(body)) as peer, auditor.make_client() as client:
        with pytest.raises(ProtocolFault, match="status is malformed"):
            await client.get_status(peer)


@pytest.mark.parametrize("status", [204, 301, 302, 307])
async def test_a_peer_sends_nobody_elsewhere(solver: Party, auditor: Party, status: int) -> None:
    handler = Answer(b"", status=status, headers={"Location": "https://169.254.169.254/"})
    async with serve_hostile(solver, handler) as peer, auditor.make_client() as client:
        with pytest.raises(ProtocolFault, match=f"no honest server gives.*{status}"):
            await client.get_status(peer)
    assert handler.calls == 1


@pytest.mark.parametrize("own_host", ["node.example", "93.184.215.14", "10.0.0.7", "localhost", ""])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_an_endpoint_leads_nobody_into_its_own_network(
    solver: Party, auditor: Party, host: str, own_host: str
) -> None:
    """Any account announces any endpoint, and has a node that fetches from it connect there."""
    connected = list[StreamWriter]()

    async def take(_: StreamReader, writer: StreamWriter) -> None:
        connected.append(writer)
        writer.close()

    async with await asyncio.start_server(take, "127.0.0.1", 0) as inner:
        port = inner.sockets[0].getsockname()[1]
        peer = Peer(solver.account, f"https://{host}:{port}", solver.identity.fingerprint)
        auditor.own_host = own_host
        async with auditor.make_client() as client:
            with pytest.raises(EnvironmentFault, match="leads to an address that is not public"):
                await client.get_status(peer)
        assert not connected
        auditor.own_host = "127.0.0.1"
        async with auditor.make_client() as client:
            with pytest.raises(EnvironmentFault, match="down or slow"):
                await client.get_status(peer)
        assert connected


async def test_a_compressed_bomb_stays_compressed(solver: Party, auditor: Party) -> None:
    async def bomb(request: web.BaseRequest) -> web.StreamResponse:
        response = web.Response(body=b" " * 2_000_000)  # 2 kB compressed
        response.enable_compression(web.ContentCoding.gzip)
        return response

    async with serve_hostile(solver, bomb) as peer, auditor.make_client() as client:
        with pytest.raises(ProtocolFault, match="status is malformed"):
            await client.get_status(peer)


async def test_false_chunk_hashes_stop_the_transfer(solver: Party, auditor: Party) -> None:
    _, ref = make_tensor(2 * CHUNK_ELEMENTS)

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        assert request.path.startswith("/chunks/"), "no blob is asked for after a false list"
        return web.Response(body=b"\1" * 64)

    async with serve_hostile(solver, answer) as peer, auditor.make_client() as client:
        with pytest.raises(ProtocolFault, match="chunk hashes do not give the root"):
            await client.fetch(peer, ref)


async def test_a_strangers_reason_cannot_write_to_the_terminal(solver: Party, auditor: Party) -> None:
    body = json.dumps({"what": "\x1b[2J" + "x" * 4000}).encode()
    handler = Answer(body, status=401)
    async with serve_hostile(solver, handler) as peer, auditor.make_client() as client:
        with pytest.raises(EnvironmentFault, match="status 401") as caught:
            await client.get_status(peer)
    assert "\x1b" not in str(caught.value) and len(str(caught.value)) < 1000
    assert handler.calls == 1


# A peer attacks


@pytest.mark.parametrize(
    "path",
    [
        "/blob/tensor/../../../journal",
        "/blob/tensor/..%2f..%2fjournal",
        "/blob/tensor/%2e%2e/%2e%2e/journal",
        "/blob/../tls/certificate-key.pem",
        "/blob/incoming/" + "0" * 64,
        "/blob/tensor//etc/passwd",
        "/blob/tensor/" + "0" * 63 + "/",
        "/blob/tensor/" + "A" * 64,
        "/blob/tensor/" + "0" * 64 + ".chunks",
        "/blob/tensor/" + "0" * 64 + "%00",
        "//etc/passwd",
    ],
)
async def test_no_path_leads_outside(solver: Party, auditor: Party, path: str) -> None:
    (solver.folder / "journal").write_text("secret")
    async with solver.serve() as peer:
        status = await send_raw(peer, auditor.signer.sign("GET", path, peer.account), path)
    assert status == 404


async def send_raw(peer: Peer, headers: dict[str, str], path: str) -> int:
    """The status of a GET whose path no client library has tidied up."""
    reader, writer = await connect(peer)
    lines = [
        f"GET {path} HTTP/1.1",
        "Host: x",
        *(f"{name}: {value}" for name, value in headers.items()),
        "",
        "",
    ]
    writer.write("\r\n".join(lines).encode())
    status = int((await reader.readline()).split()[1])
    writer.close()
    return status


async def connect(peer: Peer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return await asyncio.open_connection("127.0.0.1", int(peer.url.rsplit(":", 1)[1]), ssl=context)


async def request_blob(session: aiohttp.ClientSession, peer: Peer, headers: dict[str, str], path: str) -> int:
    pin = aiohttp.Fingerprint(peer.fingerprint)
    async with session.get(peer.format_url(path), headers=headers, ssl=pin) as response:
        return response.status


async def test_a_replayed_request_is_refused(solver: Party, auditor: Party) -> None:
    data, ref = make_tensor(100)
    solver.store.put(ref, data)
    path = request_paths.format_path(request_paths.BLOB, ref.key)
    async with solver.serve() as peer, open_session() as session:
        headers = auditor.signer.sign("GET", path, peer.account)
        assert [await request_blob(session, peer, headers, path) for _ in range(2)] == [200, 401]


async def test_a_signature_for_one_server_is_refused_by_another(
    solver: Party, auditor: Party, tmp_path: Path
) -> None:
    other, (data, ref) = Party(tmp_path / "other", 3), make_tensor(100)
    path = request_paths.format_path(request_paths.BLOB, ref.key)
    for party in (solver, other):
        party.store.put(ref, data)
    async with solver.serve() as peer, other.serve() as rival, open_session() as session:
        headers = auditor.signer.sign("GET", path, peer.account)
        # A malicious server passes on what it received, to read as the auditor elsewhere.
        assert await request_blob(session, rival, headers, path) == 401
        assert await request_blob(session, peer, headers, path) == 200


async def test_a_body_is_not_read(solver: Party) -> None:
    async with solver.serve() as peer, open_session() as session:
        pin = aiohttp.Fingerprint(peer.fingerprint)
        async with session.get(peer.format_url("/status"), data=b"x" * 100_000, ssl=pin) as response:
            assert response.status == 413


@pytest.mark.parametrize("headers", [{"X-Long": "x" * 10_000}, {f"X-{n}": "x" for n in range(100)}])
async def test_oversized_requests_are_refused(solver: Party, headers: dict[str, str]) -> None:
    async with solver.serve() as peer:
        assert await send_raw(peer, headers, "/status") == 400


async def test_connections_that_say_nothing_are_closed_and_others_are_served(
    tmp_path: Path, auditor: Party, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits, clock = WireLimits(connections=20), SimpleNamespace(monotonic=time.monotonic)
    monkeypatch.setattr("touchstone.protocol.adapters.wire.limits.time", clock)
    solver = Party(tmp_path / "solver", 1, limits=limits)
    async with solver.serve() as peer, auditor.make_client() as client:
        loris = [await connect(peer) for _ in range(10)]
        for _, writer in loris[5:]:
            writer.write(b"GET /status HTTP/1.1\r\nHost: ")
        assert await client.get_status(peer) == solver.show_status()
        # From here on the server sees more than that time pass between two looks.
        clock.monotonic = itertools.count(time.monotonic(), 1 + limits.idle_seconds).__next__
        # Each ends without an answer, without having been waited for by anybody else.
        assert [await reader.read() for reader, _ in loris[:5]] == [b""] * 5
        assert not any([b"200 OK" in await reader.read() for reader, _ in loris[5:]])
        for _, writer in loris:
            writer.close()


async def test_a_reader_that_takes_nothing_holds_only_its_own_streams(tmp_path: Path, auditor: Party) -> None:
    limits = WireLimits(streams_per_account=2, write_seconds=0.5)
    solver, slow = Party(tmp_path / "solver", 1, limits=limits), Party(tmp_path / "slow", 3)
    data, ref = make_tensor(16 * CHUNK_ELEMENTS)
    solver.store.put(ref, data)
    path = request_paths.format_path(request_paths.BLOB, ref.key)
    async with solver.serve() as peer, open_session() as session, auditor.make_client() as client:
        pin = aiohttp.Fingerprint(peer.fingerprint)
        answers = [
            await session.get(
                peer.format_url(path), headers=slow.signer.sign("GET", path, peer.account), ssl=pin
            )
            for _ in range(3)
        ]
        assert [answer.status for answer in answers] == [200, 200, 429]
        await client.fetch(peer, ref)
        # The server has dropped the two that nobody read, so a stream is free again.
        headers = slow.signer.sign("GET", path, peer.account)
        while await request_blob(session, peer, headers, path) != 200:
            headers = slow.signer.sign("GET", path, peer.account)
            await asyncio.sleep(0.05)
        for answer in answers:
            answer.close()
    assert os.path.getsize(auditor.store.get_path(ref.key)) == len(data)
