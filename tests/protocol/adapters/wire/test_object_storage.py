"""What a peer's bucket does wrong costs a detour: the peer's own bytes follow, and only they are evidence."""

import asyncio
import gzip
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from aiohttp import web

from tests.protocol.adapters.parties import CHUNK_ELEMENTS, Party, make_tensor, serve_hostile
from tests.protocol.adapters.storages import Answer, HostileStorage, NamingBucket, make_settings
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobRef
from touchstone.protocol.adapters.wire import storage_reader
from touchstone.protocol.adapters.wire.addresses import is_public
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.adapters.wire.lookups import PeerResolver
from touchstone.protocol.adapters.wire.object_storage import ObjectStorage, require_usable
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.adapters.wire.storage_reader import StorageReader
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput, ProtocolFault
from touchstone.protocol.spec.params import LEAF_BYTES

ELEMENTS = 3 * CHUNK_ELEMENTS + 77
DATA, REF = make_tensor(ELEMENTS)
SIZE, CHUNK = len(DATA), 4 * CHUNK_ELEMENTS
SMALL_CHUNK = 32 * 1024  # Of a dataset.
SECRET = "X-Amz-Signature=5ec2e7"


class CountingStore(BlobStore):
    """sent: the ranges of blobs that were read to be sent."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, is_durable=False)
        self.sent: list[range] = []

    def open_range(self, key: BlobKey, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        self.sent.append(range(start, SIZE if stop is None else stop))
        return super().open_range(key, start, stop)


class Scene:
    """A solver with a blob and a copy of it in a storage, and an auditor that fetches."""

    def __init__(self, folder: Path, storage: HostileStorage) -> None:
        self.solver, self.auditor = Party(folder / "solver", 1), Party(folder / "auditor", 2)
        self.bucket = NamingBucket(f"{storage.url}/copy?{SECRET}")
        self.solver.bucket, self.store = self.bucket, CountingStore(folder / "served")
        self.solver.store = self.store
        self.auditor.storage = make_settings(storage.url)
        self.storage = storage
        self.keep(REF, DATA)

    def keep(self, ref: BlobRef, data: bytes) -> None:
        """Another blob of the solver's."""
        self.store.put(ref, data)
        self.store.sent.clear()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[Peer, BlobClient]]:
        """The solver listens, the auditor has a client."""
        async with self.solver.serve() as peer, self.auditor.make_client() as client:
            yield peer, client


@asynccontextmanager
async def open_scene(folder: Path, answer: Answer) -> AsyncIterator[Scene]:
    """A scene with a storage that answers like this."""
    async with HostileStorage(answer).serve() as storage:
        yield Scene(folder, storage)


# Answers
async def give(request: web.BaseRequest, data: bytes = DATA) -> web.StreamResponse:
    """What a storage does: the object, or the range that is asked for."""
    start, stop, _ = request.http_range.indices(len(data))
    status = 206 if "Range" in request.headers else 200
    return web.Response(status=status, body=data[start:stop])


async def refuse(request: web.BaseRequest, status: int) -> web.StreamResponse:
    return web.Response(status=status, body=b"<Error/>")


async def break_off(request: web.BaseRequest) -> web.StreamResponse:
    """A chunk and a half of what was announced."""
    response = web.StreamResponse()
    response.content_length = SIZE
    await response.prepare(request)
    await response.write(DATA[: CHUNK + CHUNK // 2])
    assert request.transport is not None
    request.transport.close()
    return response


async def send_forever(request: web.BaseRequest) -> web.StreamResponse:
    """No length, no end."""
    response = web.StreamResponse()
    response.enable_chunked_encoding()
    await response.prepare(request)
    while True:
        await response.write(bytes(1 << 20))


async def send_slowly(request: web.BaseRequest, pause_s: float) -> web.StreamResponse:
    response = web.StreamResponse()
    response.content_length = SIZE
    await response.prepare(request)
    for start in range(SIZE):
        await response.write(DATA[start : start + 1])
        await asyncio.sleep(pause_s)
    return response


async def send_packed(request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(body=gzip.compress(bytes(SIZE)), headers={"Content-Encoding": "gzip"})


# Tests
async def test_a_blob_comes_from_the_bucket_and_nothing_of_this_node_goes_there(tmp_path: Path) -> None:
    async with open_scene(tmp_path, give) as scene, scene.open() as (peer, client):
        await client.fetch(peer, REF)
        assert scene.auditor.store.get(REF) == DATA
        assert not scene.store.sent
        (request,) = scene.storage.asked
        assert request.path_qs == f"/copy?{SECRET}"
        assert not any("touchstone" in f"{item}".lower() for item in request.headers.items())
        assert "Authorization" not in request.headers and "Cookie" not in request.headers


@pytest.mark.parametrize(
    ("answer", "resumed"),
    [
        pytest.param(partial(refuse, status=404), 0, id="missing"),
        pytest.param(partial(refuse, status=403), 0, id="denied"),
        pytest.param(partial(refuse, status=500), 0, id="broken"),
        pytest.param(partial(give, data=DATA[:-LEAF_BYTES]), 0, id="short"),
        pytest.param(partial(give, data=DATA + bytes(LEAF_BYTES)), 0, id="long"),
        pytest.param(partial(give, data=b""), 0, id="empty"),
        pytest.param(break_off, CHUNK, id="cut off"),
        pytest.param(partial(give, data=bytes(SIZE)), 0, id="other bytes"),
        pytest.param(partial(give, data=DATA[: 2 * CHUNK] + bytes(SIZE - 2 * CHUNK)), 2 * CHUNK, id="mixed"),
        pytest.param(partial(give, data=DATA[:-1] + b"\1"), 3 * CHUNK, id="last byte"),
        pytest.param(send_forever, 0, id="endless"),
        pytest.param(send_packed, 0, id="packed"),
    ],
)
async def test_where_the_bucket_fails_the_peer_sends_the_rest(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, answer: Answer, resumed: int
) -> None:
    """What was proven before is not sent again, and the next blob is not looked for in that bucket."""
    caplog.set_level(logging.DEBUG)
    async with open_scene(tmp_path, answer) as scene, scene.open() as (peer, client):
        await client.fetch(peer, REF)
        assert scene.auditor.store.get(REF) == DATA
        assert scene.store.sent == [range(resumed, SIZE)]
        data, ref = make_tensor(100)
        scene.keep(ref, data)
        await client.fetch(peer, ref)
        assert len(scene.storage.asked) == scene.bucket.sent == 1
    assert "nothing is taken from the bucket" in caplog.text
    assert SECRET not in "".join(line for line in caplog.text.splitlines() if "aiohttp.access" not in line)


async def test_a_copy_with_zeros_behind_is_the_same_blob(tmp_path: Path) -> None:
    """The peer has it under a longer name too, and keeps one file."""
    data, ref = make_tensor(1000)
    async with open_scene(tmp_path, partial(give, data=data + bytes(8))) as scene:
        scene.keep(ref, data)
        async with scene.open() as (peer, client):
            await client.fetch(peer, ref)
        assert scene.auditor.store.get(ref) == data and not scene.store.sent


@pytest.mark.parametrize("elements", [1, 1000, CHUNK_ELEMENTS])
async def test_other_bytes_of_a_small_blob_are_not_kept(tmp_path: Path, elements: int) -> None:
    """It has no chunks whose roots the peer has announced."""
    data, ref = make_tensor(elements)
    async with open_scene(tmp_path, partial(give, data=bytes(len(data)))) as scene:
        scene.keep(ref, data)
        async with scene.open() as (peer, client):
            await client.fetch(peer, ref)
        assert scene.auditor.store.get(ref) == data


@pytest.mark.parametrize(
    ("pause_s", "silence_s", "least"),
    [pytest.param(3600.0, 0.2, 1, id="silent"), pytest.param(0.01, 1.0, 10**9, id="always a little")],
)
async def test_a_slow_bucket_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pause_s: float, silence_s: float, least: int
) -> None:
    monkeypatch.setattr(storage_reader, "SILENCE_S", silence_s)
    monkeypatch.setattr(storage_reader, "CONNECT_S", 1.0)
    monkeypatch.setattr(storage_reader, "LEAST_BYTES_PER_SECOND", least)
    async with open_scene(tmp_path, partial(send_slowly, pause_s=pause_s)) as scene:
        async with scene.open() as (peer, client):
            await client.fetch(peer, REF)
        assert scene.auditor.store.get(REF) == DATA
        assert len(scene.storage.asked) == 1


@pytest.mark.parametrize("right", [0, 3, 8, 20])
async def test_what_was_proven_and_not_written_yet_is_sent_again(tmp_path: Path, right: int) -> None:
    """Of a dataset several chunks come in one piece. Where one is wrong, nothing of that piece is written."""
    whole = DATA[: 40 * SMALL_CHUNK + 5]
    wrong = whole[: right * SMALL_CHUNK] + bytes(len(whole) - right * SMALL_CHUNK)
    async with open_scene(tmp_path, partial(give, data=wrong)) as scene, scene.open() as (peer, client):
        ref = scene.store.put_dataset(whole)
        await client.fetch(peer, ref)
        assert scene.auditor.store.get(ref) == whole


async def test_bytes_are_taken_as_they_are_whatever_is_said_of_them(tmp_path: Path) -> None:
    async def label(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=DATA, headers={"Content-Encoding": "gzip"})

    async with open_scene(tmp_path, label) as scene, scene.open() as (peer, client):
        await client.fetch(peer, REF)
        assert scene.auditor.store.get(REF) == DATA and not scene.store.sent


async def test_a_bucket_that_is_down_costs_a_detour(tmp_path: Path) -> None:
    async with HostileStorage(give).serve() as storage:
        scene = Scene(tmp_path, storage)
    async with scene.open() as (peer, client):
        await client.fetch(peer, REF)
    assert scene.store.sent == [range(SIZE)]


async def test_a_bucket_that_redirects_is_not_followed(tmp_path: Path) -> None:
    async with HostileStorage(give).serve() as other:

        async def redirect(request: web.BaseRequest) -> web.StreamResponse:
            return web.Response(status=302, headers={"Location": f"{other.url}/copy"})

        async with open_scene(tmp_path, redirect) as scene, scene.open() as (peer, client):
            scene.auditor.storage = make_settings(scene.storage.url, private_origins=(other.url,))
            await client.fetch(peer, REF)
        assert scene.auditor.store.get(REF) == DATA
        assert not other.asked


@pytest.mark.parametrize(
    "location",
    [
        "",
        "copy",
        "//storage.example/copy",
        "http://storage.example/copy",
        "http://storage.example:9000/copy",
        "ftp://storage.example:2121/copy",
        "file:///etc/passwd",
        "https:///copy",
        "https://user:password@storage.example/copy",
        "https://storage.example:22/copy",
        "https://storage.example:70000/copy",
        "https://storage.example/copy#part",
        "https://127.0.0.1/copy",
        "https://127.1/copy",
        "https://2130706433/copy",
        "https://0x7f000001/copy",
        "https://0.0.0.0/copy",
        "https://10.0.0.1:8443/copy",
        "https://169.254.169.254/latest/meta-data",
        "https://100.64.0.1/copy",
        "https://224.0.0.1/copy",
        "https://[::1]/copy",
        "https://[fd00::1]/copy",
        "https://[fe80::1%25eth0]/copy",
        "https://[::ffff:127.0.0.1]/copy",
        "https://[64:ff9b::a00:1]/copy",
        "https://[2002:7f00:1::]/copy",
        "https://storage.example/" + "a" * 4096,
        "https://storage.example/a b",
        "https://störage.example/copy",
        "http://127.0.0.1:1/copy",
    ],
)
async def test_an_address_that_is_not_public_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, location: str
) -> None:
    """Neither a lookup nor a connection: a stranger chose it."""
    with pytest.raises(EnvironmentFault, match="an https URL of a public host"):
        StorageReader(make_settings("http://127.0.0.1:9"))._judge(location)
    async with open_scene(tmp_path, give) as scene:
        scene.bucket.location = location
        async with scene.open() as (peer, client):
            monkeypatch.setattr(PeerResolver, "resolve", None)
            await client.fetch(peer, REF)
        assert scene.auditor.store.get(REF) == DATA and not scene.storage.asked


@pytest.mark.parametrize(
    "location",
    [
        "https://storage.example/a%2Fb?X-Amz-Signature=%2B%2f",
        "https://storage.example:9000/copy",
        "https://8.8.8.8/copy",
        "https://[2606:4700::1111]/copy",
        "http://127.0.0.1:9/copy",
    ],
)
def test_a_public_address_is_asked_as_it_was_signed(location: str) -> None:
    assert str(StorageReader(make_settings("http://127.0.0.1:9"))._judge(location)) == location


async def test_a_name_of_a_private_address_is_not_connected_to() -> None:
    resolver = PeerResolver(is_public, [("localhost", 9000)])
    with pytest.raises(OSError, match="not public"):
        await resolver.resolve("localhost", 443)
    assert (await resolver.resolve("localhost", 9000))[0]["host"] in ("127.0.0.1", "::1")
    assert (await resolver.resolve("8.8.8.8", 443))[0]["host"] == "8.8.8.8"


def test_what_is_no_address_is_not_public() -> None:
    assert is_public("1.1.1.1") and not is_public("storage.example") and not is_public("2001:db8::1")


async def test_the_peers_own_bytes_are_evidence_where_both_are_wrong(tmp_path: Path) -> None:
    """A claimant is responsible for what it serves, whatever its storage does."""
    small, ref = make_tensor(1000)

    async def lie(request: web.BaseRequest) -> web.StreamResponse:
        if "Touchstone-Storage" in request.headers:
            return web.Response(status=307, headers={"Location": f"{storage.url}/copy"})
        return web.Response(body=bytes(len(small)))

    auditor = Party(tmp_path / "auditor", 2)
    async with HostileStorage(partial(give, data=bytes(len(small)))).serve() as storage:
        auditor.storage = make_settings(storage.url)
        async with (
            serve_hostile(Party(tmp_path / "solver", 1), lie) as peer,
            auditor.make_client() as client,
        ):
            with pytest.raises(ProtocolFault, match="do not match their root") as caught:
                await client.fetch(peer, ref)
    assert caught.value.culprit == str(peer) and not auditor.store.has(ref)


async def test_who_does_not_follow_gets_the_bytes(tmp_path: Path) -> None:
    async with open_scene(tmp_path, give) as scene:
        scene.auditor.storage = make_settings(scene.storage.url, follow=False)
        async with scene.open() as (peer, client):
            await client.fetch(peer, REF)
        assert not scene.bucket.sent and not scene.storage.asked and scene.store.sent == [range(SIZE)]


async def test_who_did_not_ask_for_it_and_is_sent_elsewhere_blames_the_peer(tmp_path: Path) -> None:
    async def redirect(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=307, headers={"Location": "https://storage.example/copy"})

    auditor = Party(tmp_path / "auditor", 2, storage=ObjectStorage(follow=False))
    async with (
        serve_hostile(Party(tmp_path / "solver", 1), redirect) as peer,
        auditor.make_client() as client,
    ):
        with pytest.raises(ProtocolFault, match="that no honest server gives"):
            await client.fetch(peer, REF)


async def test_a_download_that_broke_goes_on_in_the_bucket(tmp_path: Path) -> None:
    """The peer's own connection breaks first; what it sent is not asked for again."""
    rest: list[str] = []

    async def send_half(request: web.BaseRequest) -> web.StreamResponse:
        if request.path.startswith("/chunks"):
            return web.Response(body=scene.store.get_chunk_roots(REF.key))
        if rest:
            return web.Response(status=307, headers={"Location": f"{scene.storage.url}/copy"})
        rest.append(request.path)
        return await break_off(request)

    async with open_scene(tmp_path, give) as scene:
        async with serve_hostile(scene.solver, send_half) as peer, scene.auditor.make_client() as client:
            await client.fetch(peer, REF)
        assert scene.auditor.store.get(REF) == DATA
        first = int(scene.storage.asked[0].headers["Range"].removeprefix("bytes=").partition("-")[0])
        assert 0 < first <= CHUNK + CHUNK // 2


@pytest.mark.parametrize(
    "changes",
    [
        {"bucket": "../other"},
        {"bucket": "AB"},
        {"endpoint_url": "storage.example"},
        {"endpoint_url": "https://key:s3cr3t@storage.example"},
        {"endpoint_url": "https://storage.example/path?key=s3cr3t"},
        {"endpoint_url": "http://storage.example"},
        {"private_origins": ("http://user:s3cr3t@10.0.0.1",)},
        {"private_origins": ("10.0.0.1:9000",)},
        {"prefix": "../other"},
        {"prefix": ""},
    ],
)
def test_settings_that_can_be_none_are_refused_without_showing_them(changes: dict[str, object]) -> None:
    settings = make_settings("https://storage.example", private_origins=())
    require_usable(settings)
    with pytest.raises(InvalidInput, match="cannot be used") as caught:
        require_usable(make_settings("https://storage.example", **{"private_origins": ()} | changes))
    assert "s3cr3t" not in str(caught.value)
