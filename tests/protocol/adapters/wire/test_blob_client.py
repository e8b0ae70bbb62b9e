"""Client and server together, each with its own key, store and certificate."""

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from tests.protocol.adapters.parties import (
    CHUNK_ELEMENTS,
    Party,
    make_roots,
    make_tensor,
    make_trace_tensor,
    serve_hostile,
)
from touchstone.protocol.adapters.store.blobs import BlobKind, refer_tensor, refer_trace_tensor
from touchstone.protocol.adapters.wire import session
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput, ProtocolFault


@pytest.fixture
def solver(tmp_path: Path) -> Party:
    return Party(tmp_path / "solver", 1)


@pytest.fixture
def auditor(tmp_path: Path) -> Party:
    return Party(tmp_path / "auditor", 2)


@pytest.mark.parametrize("elements", [1, 1000, CHUNK_ELEMENTS, 3 * CHUNK_ELEMENTS + 77])
async def test_a_tensor_arrives(solver: Party, auditor: Party, elements: int) -> None:
    data, ref = make_tensor(elements)
    solver.store.put(ref, data)
    server = solver.make_server()
    try:
        peer = solver.make_peer(await server.start())
        async with auditor.make_client() as client:
            path = await client.fetch(peer, ref)
    finally:
        await server.stop()
    assert path == auditor.store.get_path(ref.key)
    assert auditor.store.get(ref) == data
    roots_bytes = 32 * ref.chunk_count if ref.chunk_count > 1 else 0
    assert client.fetched_bytes == len(data) + roots_bytes == server.served_bytes
    assert auditor.store.get_chunk_roots(ref.key) == solver.store.get_chunk_roots(ref.key)


@pytest.mark.parametrize("data", [b"{}", b"x" * 3_000_000])
async def test_a_dataset_arrives(solver: Party, auditor: Party, data: bytes) -> None:
    ref = solver.store.put_dataset(data)
    async with solver.serve() as peer, auditor.make_client() as client:
        await client.fetch(peer, ref)
    assert auditor.store.get(ref) == data


@pytest.mark.parametrize("leaf_bytes", [512, 1024, 2048, 4096])
@pytest.mark.parametrize("leaves", [0.5, 1024, 2500.25])
async def test_a_tensor_of_a_trace_arrives(
    solver: Party, auditor: Party, leaf_bytes: int, leaves: float
) -> None:
    data, ref, chunk_roots = make_trace_tensor(round(leaves * leaf_bytes / 4), leaf_bytes)
    solver.store.put_hashed(ref, data, chunk_roots)
    async with solver.serve() as peer, auditor.make_client() as client:
        await client.fetch(peer, ref)
    assert auditor.store.get(ref) == data


@pytest.mark.parametrize(("leaves", "chunk"), [(0.5, 0), (32, 0), (100.25, 0), (100.25, 2), (100.25, 3)])
async def test_one_chunk_of_a_trace_arrives_and_nothing_is_stored(
    solver: Party, auditor: Party, leaves: float, chunk: int
) -> None:
    data, ref, chunk_roots = make_trace_tensor(round(leaves * 512 / 4), 512)
    solver.store.put_hashed(ref, data, chunk_roots)
    async with solver.serve() as peer, auditor.make_client() as client:
        roots = await client.fetch_chunk_roots(peer, ref)
        assert list(roots) == chunk_roots
        found = await client.fetch_chunk(peer, ref, chunk, roots[chunk])
    place = ref.locate_chunks(range(chunk, chunk + 1))
    assert found == data[place.start : place.stop]
    assert not auditor.store.has(ref)


async def test_a_chunk_with_another_root_is_the_peers_fault(solver: Party, auditor: Party) -> None:
    data, ref, chunk_roots = make_trace_tensor(100 * 128, 512)
    solver.store.put_hashed(ref, data, chunk_roots)
    async with solver.serve() as peer, auditor.make_client() as client:
        with pytest.raises(ProtocolFault, match="a chunk does not match its hash") as caught:
            await client.fetch_chunk(peer, ref, 1, chunk_roots[2])
    assert caught.value.culprit == peer.account


@pytest.mark.parametrize("count", [1, 548, 3000])
async def test_a_list_of_roots_arrives(solver: Party, auditor: Party, count: int) -> None:
    roots = make_roots(count)
    ref = solver.store.put_roots(roots)
    async with solver.serve() as peer, auditor.make_client() as client:
        await client.fetch(peer, ref)
    assert auditor.store.get_roots(ref.key.root) == tuple(roots)


async def test_a_length_that_is_not_the_served_one_is_the_peers_fault(solver: Party, auditor: Party) -> None:
    data, ref, chunk_roots = make_trace_tensor(1000, 4096)
    solver.store.put_hashed(ref, data, chunk_roots)
    longer = refer_trace_tensor(ref.key.root, 4100, 4096)
    async with solver.serve() as peer, auditor.make_client() as client:
        with pytest.raises(ProtocolFault, match="with 4097 to 8192 bytes, got .* with 4000 bytes") as caught:
            await client.fetch(peer, longer)
        assert caught.value.culprit == peer.account


async def test_what_is_there_is_not_fetched(auditor: Party, solver: Party) -> None:
    ref = auditor.store.put_dataset(b"mine")
    async with auditor.make_client() as client:
        assert await client.fetch(solver.make_peer(1), ref) == auditor.store.get_path(ref.key)


async def test_fetched_blobs_are_served_on(solver: Party, auditor: Party, tmp_path: Path) -> None:
    third, (data, ref) = Party(tmp_path / "third", 3), make_tensor(2 * CHUNK_ELEMENTS)
    solver.store.put(ref, data)
    async with solver.serve() as peer, auditor.make_client() as client:
        await client.fetch(peer, ref)
    async with auditor.serve() as peer, third.make_client() as client:
        await client.fetch(peer, ref)
    assert third.store.get(ref) == data


async def test_status_is_read(solver: Party, auditor: Party) -> None:
    async with solver.serve() as peer, auditor.make_client() as client:
        assert await client.get_status(peer) == solver.show_status()


async def test_a_blob_is_waited_for(solver: Party, auditor: Party) -> None:
    asked: list[bytes] = []
    data, ref = make_tensor(100)
    solver.store.put(ref, data)

    def hold_back_at_first(account: str, kind: BlobKind, root: bytes) -> bool:
        asked.append(root)
        return len(asked) > 2

    solver.may_read = hold_back_at_first
    async with solver.serve() as peer, auditor.make_client() as client:
        await client.fetch(peer, ref)
    assert asked == [ref.key.root] * 3


async def test_a_withheld_blob_names_peer_and_url(solver: Party, auditor: Party) -> None:
    _, ref = make_tensor(100)
    async with solver.serve() as peer, auditor.make_client() as client:
        with pytest.raises(
            EnvironmentFault, match=f"{peer.account} does not serve.*{peer.url}.*status 403"
        ) as caught:
            await client.fetch(peer, ref)
    assert caught.value.retryable


@pytest.mark.parametrize(("status", "advice"), [(403, ("settled", "stake")), (401, ("clock", "deployment"))])
async def test_a_refusal_says_what_whoever_asked_can_do(
    solver: Party, auditor: Party, status: int, advice: tuple[str, ...]
) -> None:
    _, ref = make_tensor(100)
    solver.is_staked = lambda account: status == 403
    async with solver.serve() as peer, auditor.make_client() as client:
        with pytest.raises(EnvironmentFault, match=f"status {status}") as caught:
            await client.fetch(peer, ref)
    assert all(word in caught.value.remedy for word in advice)


async def test_a_peer_that_is_down_is_told(solver: Party, auditor: Party) -> None:
    async with solver.serve() as peer:
        pass
    async with auditor.make_client() as client:
        with pytest.raises(EnvironmentFault, match=f"the peer {peer.account} is down.*{peer.url}"):
            await client.get_status(peer)


async def test_the_first_peer_that_delivers_is_enough(solver: Party, auditor: Party, tmp_path: Path) -> None:
    empty, (data, ref) = Party(tmp_path / "empty", 3), make_tensor(100)
    solver.store.put(ref, data)
    down = Peer(empty.account, "https://127.0.0.1:1", empty.identity.fingerprint)
    async with solver.serve() as peer, empty.serve() as bare, auditor.make_client() as client:
        assert (await client.fetch_from_any([down, bare, peer], ref)).read_bytes() == data
        with pytest.raises(EnvironmentFault, match=empty.account):
            await client.fetch_from_any([down, bare], refer_tensor(bytes(32), 1))


async def test_of_many_peers_all_are_asked_once_before_one_is_asked_again(tmp_path: Path) -> None:
    """The first refuses once, as a peer does that has not read the chain as far; the second sends something
    else, and is not asked again; the third does not have it."""
    data, ref = make_tensor(100)
    late, liar, empty, node = (Party(tmp_path / name, seed) for seed, name in enumerate("abcd", 3))
    asked: list[str] = []

    async def refuse_once(request: web.BaseRequest) -> web.StreamResponse:
        asked.append("late")
        return web.Response(body=data) if asked.count("late") > 1 else web.Response(status=409)

    async def lie(request: web.BaseRequest) -> web.StreamResponse:
        asked.append("liar")
        return web.Response(body=bytes(len(data)))

    async def refuse(request: web.BaseRequest) -> web.StreamResponse:
        asked.append("empty")
        return web.Response(status=403)

    async with (
        serve_hostile(late, refuse_once) as first,
        serve_hostile(liar, lie) as second,
        serve_hostile(empty, refuse) as third,
        node.make_client() as client,
    ):
        assert (await client.fetch_from_any([first, second, third], ref)).read_bytes() == data
    assert asked == ["late", "liar", "empty", "late"]


async def test_a_request_that_is_broken_off_at_once_is_no_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that collects signatures breaks off what it does not need: those peers are as good as before."""
    slow, node = Party(tmp_path / "slow", 3), Party(tmp_path / "node", 4)
    reached = asyncio.Event()

    async def wait(request: web.BaseRequest) -> web.StreamResponse:
        reached.set()
        await asyncio.sleep(60)
        return web.Response()

    async def break_off(client: BlobClient, peer: Peer) -> float:
        reached.clear()
        asking = asyncio.create_task(client.get_status(peer))
        await reached.wait()
        asking.cancel()
        await asyncio.wait([asking])
        return client.get_silence(peer)

    async with serve_hostile(slow, wait) as peer, node.make_client() as client:
        assert await break_off(client, peer) == 0
        monkeypatch.setattr(session, "PAUSE_S", 0.0)
        assert await break_off(client, peer) > 0


async def test_without_peers_nothing_is_fetched(auditor: Party) -> None:
    async with auditor.make_client() as client:
        with pytest.raises(InvalidInput, match="no peer to fetch from"):
            await client.fetch_from_any([], refer_tensor(bytes(32), 1))


async def test_what_is_at_hand_needs_no_peer(auditor: Party) -> None:
    data, ref = make_tensor(100)
    auditor.store.put(ref, data)
    async with auditor.make_client() as client:
        assert (await client.fetch_from_any([], ref)).read_bytes() == data
