"""The server as strangers see it: requests by a client that has none of our rules."""

from pathlib import Path

import aiohttp
import pytest

from tests.protocol.adapters.parties import CHUNK_ELEMENTS, Party, make_tensor, open_session
from touchstone.protocol.adapters.store.blobs import BlobKind
from touchstone.protocol.adapters.wire import request_paths
from touchstone.protocol.adapters.wire.json_answers import REFUSAL, STATUS_FORM
from touchstone.protocol.adapters.wire.limits import WireLimits
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.adapters.wire.request_signing import HEADER, PROOF
from touchstone.protocol.spec.errors import EnvironmentFault


async def get(
    peer: Peer, path: str, headers: dict[str, str] | None = None, method: str = "GET"
) -> tuple[int, bytes]:
    pin = aiohttp.Fingerprint(peer.fingerprint)
    async with (
        open_session() as session,
        session.request(method, peer.format_url(path), headers=headers, ssl=pin) as response,
    ):
        return response.status, await response.read()


@pytest.fixture
def solver(tmp_path: Path) -> Party:
    return Party(tmp_path / "solver", 1)


@pytest.fixture
def auditor(tmp_path: Path) -> Party:
    return Party(tmp_path / "auditor", 2)


async def test_health_and_status_are_public(solver: Party) -> None:
    async with solver.serve() as peer:
        assert (await get(peer, "/health"))[0] == 200
        status, body = await get(peer, "/status")
    assert (status, STATUS_FORM.decode(body)) == (200, solver.show_status())


async def test_a_signed_request_gets_the_bytes(solver: Party, auditor: Party) -> None:
    data, ref = make_tensor(1000)
    solver.store.put(ref, data)
    path = request_paths.format_path(request_paths.BLOB, ref.key)
    async with solver.serve() as peer:
        headers = auditor.signer.sign("GET", path, peer.account)
        assert await get(peer, path, headers) == (200, data)


@pytest.mark.parametrize(
    ("wanted", "status", "start", "stop"),
    [
        ("bytes=0-", 206, 0, 4000),
        ("bytes=1000-1999", 206, 1000, 2000),
        ("bytes=3999-9999", 206, 3999, 4000),
        ("bytes=-100", 206, 3900, 4000),
        ("bytes=4000-", 416, 0, 0),
        ("bytes=9-3", 416, 0, 0),
        ("lines=1-2", 416, 0, 0),
    ],
)
async def test_ranges(solver: Party, auditor: Party, wanted: str, status: int, start: int, stop: int) -> None:
    data, ref = make_tensor(1000)
    solver.store.put(ref, data)
    path = request_paths.format_path(request_paths.BLOB, ref.key)
    async with solver.serve() as peer:
        headers = auditor.signer.sign("GET", path, peer.account) | {"Range": wanted}
        found, body = await get(peer, path, headers)
    assert found == status
    assert status == 416 or body == data[start:stop]


async def test_chunk_hashes_are_served(solver: Party, auditor: Party) -> None:
    data, ref = make_tensor(2 * CHUNK_ELEMENTS)
    solver.store.put(ref, data)
    path = request_paths.format_path(request_paths.CHUNKS, ref.key)
    async with solver.serve() as peer:
        status, body = await get(peer, path, auditor.signer.sign("GET", path, peer.account))
    assert (status, len(body)) == (200, 64)


async def test_an_unsigned_request_is_refused(solver: Party) -> None:
    data, ref = make_tensor(1000)
    solver.store.put(ref, data)
    async with solver.serve() as peer:
        status, body = await get(peer, request_paths.format_path(request_paths.BLOB, ref.key))
    assert status == 401 and b"not signed" in body


@pytest.mark.parametrize(
    "text",
    ["{}", "[" * 7_000, '{"account":' * 600, "x" * 7_000, '{"issued_at":NaN}', "\u00ff", "null"],
    ids=range(7),
)
async def test_a_malformed_proof_is_refused_with_its_reason(
    solver: Party, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    _, ref = make_tensor(1000)
    async with solver.serve() as peer:
        status, body = await get(peer, request_paths.format_path(request_paths.BLOB, ref.key), {HEADER: text})
        assert (await get(peer, "/health"))[0] == 200, "it goes on serving"
    refusal = REFUSAL.decode(body)
    assert status == 401 and refusal.what == PROOF.what and refusal.actual
    assert "Traceback" not in caplog.text


async def test_an_unstaked_account_is_refused(tmp_path: Path, auditor: Party) -> None:
    solver = Party(tmp_path / "solver", 1, is_staked=lambda account: account != auditor.account)
    data, ref = make_tensor(1000)
    solver.store.put(ref, data)
    path = request_paths.format_path(request_paths.BLOB, ref.key)
    async with solver.serve() as peer:
        status, body = await get(peer, path, auditor.signer.sign("GET", path, peer.account))
    assert status == 401 and b"no stake" in body


async def test_absent_and_withheld_look_the_same(tmp_path: Path, auditor: Party) -> None:
    data, ref = make_tensor(1000)
    _, absent = make_tensor(1000, seed=9)
    asked: list[tuple[str, BlobKind, bytes]] = []

    def refuse_all(account: str, kind: BlobKind, root: bytes) -> bool:
        asked.append((account, kind, root))
        return False

    solver = Party(tmp_path / "solver", 1, may_read=refuse_all)
    solver.store.put(ref, data)
    answers = []
    async with solver.serve() as peer:
        for key in (ref.key, absent.key):
            for route in (request_paths.BLOB, request_paths.CHUNKS):
                path = request_paths.format_path(route, key)
                answers.append(await get(peer, path, auditor.signer.sign("GET", path, peer.account)))
    assert {status for status, _ in answers} == {403}
    assert len(set(answers)) == 1
    assert asked[0] == (auditor.account, BlobKind.TENSOR, ref.key.root)


async def test_a_taken_port_is_told(solver: Party, auditor: Party) -> None:
    async with solver.serve() as peer:
        port = int(peer.url.rsplit(":", 1)[1])
        with pytest.raises(EnvironmentFault, match="Choose another port"):
            await auditor.make_server().start(port=port)


async def test_a_stopped_server_can_be_replaced_on_its_port(solver: Party, auditor: Party) -> None:
    async with solver.serve() as peer:
        port = int(peer.url.rsplit(":", 1)[1])
    server = auditor.make_server()
    assert await server.start(port=port) == port
    await server.stop()
    await server.stop()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD"])
async def test_only_get_is_understood(solver: Party, method: str) -> None:
    async with solver.serve() as peer:
        assert (await get(peer, "/status", method=method))[0] == 405


async def test_a_rate_belongs_to_an_account(tmp_path: Path, auditor: Party) -> None:
    limits = WireLimits(requests_per_second=0, burst_requests=2)
    solver, other = Party(tmp_path / "solver", 1, limits=limits), Party(tmp_path / "other", 3)
    data, ref = make_tensor(10)
    solver.store.put(ref, data)
    path, found = request_paths.format_path(request_paths.BLOB, ref.key), []
    async with solver.serve() as peer:
        for party in (auditor, auditor, auditor, other):
            found.append((await get(peer, path, party.signer.sign("GET", path, peer.account)))[0])
    assert found == [200, 200, 429, 200]


async def test_an_address_has_a_rate_before_any_signature(tmp_path: Path) -> None:
    limits = WireLimits(address_requests_per_second=0, address_burst_requests=2)
    async with Party(tmp_path / "solver", 1, limits=limits).serve() as peer:
        assert [(await get(peer, "/health"))[0] for _ in range(3)] == [200, 200, 429]
