"""Attacks by way of object storage: storages, peers and strangers cost an honest node a detour at most."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import web

from tests.protocol.adapters.parties import Party, make_tensor, serve_hostile
from tests.protocol.adapters.storages import (
    HostileStorage,
    NamingBucket,
    make_settings,
)
from touchstone.protocol.adapters.store.blob_store import RESERVE_BYTES, BlobStore
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind, BlobRef
from touchstone.protocol.adapters.wire import blob_client, hedging, session, storage_reader
from touchstone.protocol.adapters.wire.addresses import is_public
from touchstone.protocol.adapters.wire.storage_reader import StorageReader
from touchstone.protocol.spec.errors import EnvironmentFault

DATA, REF = make_tensor(1000)


async def give(request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(body=DATA)


@dataclass
class Trickle:
    """All was announced, and a byte comes from time to time. sent: so many bytes."""

    sent: int = 0

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_length = len(DATA)
        await response.prepare(request)
        for at in range(len(DATA)):
            await response.write(DATA[at : at + 1])
            self.sent += 1
            await asyncio.sleep(0.02)
        return response


# Where a URL leads
@pytest.mark.parametrize(
    "address",
    [
        pytest.param("64:ff9b:1::a00:1", id="10.0.0.1 by a network's own NAT64"),
        pytest.param("64:ff9b:1:0:0:a9fe:a9fe:0", id="169.254.169.254 by the same"),
        pytest.param("::7f00:1", id="127.0.0.1, compatible"),
        pytest.param("::ffff:0:7f00:1", id="127.0.0.1, translated"),
        pytest.param("::ffff:808:808", id="mapped"),
        pytest.param("fec0::1", id="site-local"),
        pytest.param("2002:808:808::1", id="6to4"),
        pytest.param("2001:20::1", id="ORCHID"),
        pytest.param("3fff::1", id="documentation"),
        pytest.param("5f00::1", id="segment routing"),
        pytest.param("192.0.0.192", id="metadata of Oracle"),
        pytest.param("192.0.0.8", id="dummy"),
        pytest.param("192.88.99.1", id="6to4 relays"),
        pytest.param("168.63.129.16", id="metadata of Azure"),
        pytest.param("64:ff9b::a83f:8110", id="the same by NAT64"),
        pytest.param("100.100.100.200", id="metadata of Alibaba"),
        pytest.param("fd00:ec2::254", id="metadata of Amazon"),
    ],
)
def test_an_address_of_a_machines_surroundings_is_not_public(address: str) -> None:
    """Whatever the library of this Python holds for global."""
    host = f"[{address}]" if ":" in address else address
    assert not is_public(address)
    with pytest.raises(EnvironmentFault, match="an https URL of a public host"):
        StorageReader(make_settings("http://127.0.0.1:9"))._judge(f"https://{host}/copy")


def test_public_addresses_are_still_public() -> None:
    for address in ("8.8.8.8", "2606:4700::1111", "2a00:1450::1", "64:ff9b::808:808", "192.0.1.1"):
        assert is_public(address)


# What a storage does to who reads
async def test_a_storage_that_trickles_is_given_up_long_before_the_time_for_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte before each silence is over: for a large blob that went on for hours."""
    monkeypatch.setattr(storage_reader, "CONNECT_S", 0.2)
    monkeypatch.setattr(storage_reader, "SILENCE_S", 0.2)
    monkeypatch.setattr(storage_reader, "LEAST_BYTES_PER_SECOND", 100)  # 40 s for all of it.
    solver, reader = Party(tmp_path / "solver", 1), Party(tmp_path / "reader", 2)
    solver.store.put(REF, DATA)
    trickle = Trickle()
    async with HostileStorage(trickle).serve() as storage:
        solver.bucket, reader.storage = NamingBucket(f"{storage.url}/copy"), make_settings(storage.url)
        async with solver.serve() as peer, reader.make_client() as client:
            await client.fetch(peer, REF)
    assert len(storage.asked) == 1 and trickle.sent < len(DATA)
    assert reader.store.get(REF) == DATA


async def test_a_peer_that_sends_to_a_slow_storage_is_not_waited_for_each_time_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another peer delivers before the storage has failed, though not before it would have been asked in its
    place: the storage is shunned all the same."""

    async def give_later(request: web.BaseRequest) -> web.StreamResponse:
        while not storage.asked:
            await asyncio.sleep(0.01)
        await asyncio.sleep(2 * hedging.PAUSE_S)
        return await give(request)

    for module in (blob_client, session):
        monkeypatch.setattr(module, "PAUSE_S", 0.1)
    slow, honest, reader = (Party(tmp_path / name, seed) for seed, name in enumerate("abc", 1))
    slow.store.put(REF, DATA)
    async with HostileStorage(Trickle()).serve() as storage, AsyncExitStack() as stack:
        slow.bucket, reader.storage = NamingBucket(f"{storage.url}/copy"), make_settings(storage.url)
        serving = (slow.serve(), serve_hostile(honest, give_later))
        peers = [await stack.enter_async_context(one) for one in serving]
        client = await stack.enter_async_context(reader.make_client())
        for _ in range(2):
            await client.fetch_from_any(peers, REF)
            reader.store.delete(REF.key)
    assert len(storage.asked) == 1


async def test_a_sound_storage_that_was_broken_off_is_not_shunned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its peer was asked beside a slow one, which was done first."""
    solver, reader = Party(tmp_path / "solver", 1), Party(tmp_path / "reader", 2)
    solver.store.put(REF, DATA)
    async with HostileStorage(Trickle()).serve() as storage:
        solver.bucket, reader.storage = NamingBucket(f"{storage.url}/copy"), make_settings(storage.url)
        async with solver.serve() as peer, reader.make_client() as client:
            for times in (1, 2):
                fetching = asyncio.create_task(client.fetch(peer, REF))
                while len(storage.asked) < times:
                    assert not fetching.done(), "the peer itself was asked"
                    await asyncio.sleep(0.01)
                fetching.cancel()
                await asyncio.gather(fetching, return_exceptions=True)
    assert len(storage.asked) == 2


async def test_storages_that_say_nothing_do_not_keep_a_node_from_others() -> None:
    """As many connections as peers are asked at once, all held."""
    freed = asyncio.Event()

    async def wait_or_give(request: web.BaseRequest) -> web.StreamResponse:
        if request.path != "/copy":
            await freed.wait()
        return await give(request)

    async with HostileStorage(wait_or_give).serve() as storage:
        reader = StorageReader(make_settings(storage.url))
        reader.open()
        got, size, ref = bytearray(), len(DATA), BlobRef(BlobKey(BlobKind.DATASET, bytes(32)), len(DATA))
        held = [
            asyncio.create_task(reader.copy(f"{storage.url}/{n}", ref, range(size), bytearray().extend))
            for n in range(hedging.AT_ONCE)
        ]
        while len(storage.asked) < hedging.AT_ONCE:
            await asyncio.sleep(0.01)
        await reader.copy(f"{storage.url}/copy", ref, range(size), got.extend)
        freed.set()
        await asyncio.gather(*held, return_exceptions=True)
        await reader.close()
    assert got == DATA


def test_many_slow_downloads_of_a_blob_leave_the_reserve_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each alone fits. The reserve is the journal's."""
    data, ref = make_tensor(1 << 18)
    disk = RESERVE_BYTES + len(data) * 3 // 2

    def count_free(self: BlobStore) -> int:
        return disk - sum(path.stat().st_size for path in (self.folder / "incoming").iterdir())

    monkeypatch.setattr(BlobStore, "compute_free_bytes", count_free)
    store = BlobStore(tmp_path / "store", is_durable=False)
    with (
        pytest.raises(EnvironmentFault, match="full"),
        store.open_writer(ref) as one,
        store.open_writer(ref) as other,
    ):
        for at in range(0, len(data), 1 << 16):
            for writer in (one, other):
                writer.write(data[at : at + (1 << 16)])
                assert store.compute_free_bytes() >= RESERVE_BYTES
    store.put(ref, data)
    assert store.get(ref) == data
