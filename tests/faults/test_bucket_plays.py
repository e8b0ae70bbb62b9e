"""Attacks on the owner of a bucket: neither its storage nor peers take its line, its threads or its end."""

import asyncio
import json
import sys
import textwrap
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.protocol.adapters.parties import Party, make_tensor
from tests.protocol.adapters.storages import (
    ACCESS_KEY,
    BUCKET,
    MISSING,
    SECRET_KEY,
    HostileStorage,
    make_settings,
    run_moto,
    use_credentials,
)
from touchstone.protocol.adapters.store import bucket as bucket_module
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind
from touchstone.protocol.adapters.store.bucket import Bucket
from touchstone.protocol.spec.errors import EnvironmentFault

DATA, REF = make_tensor(1000)


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_credentials(monkeypatch, tmp_path)


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    with run_moto() as url:
        made = Bucket.open(make_settings(url), "0x" + "a1" * 20)
        made.client.create_bucket(Bucket=BUCKET)
        yield made
        made.close()


async def give(request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(body=DATA)


async def test_nobody_takes_a_copy_away_by_saying_that_it_is_of_no_use(
    bucket: Bucket, tmp_path: Path
) -> None:
    """One account, which costs nothing, sent all members to the node's own line, and made it upload again."""
    solver = Party(tmp_path / "solver", 1)
    solver.store.put(REF, DATA)
    await bucket.learn()
    await bucket.put(REF.key, solver.store.get_path(REF.key))

    async def complain(account: str) -> None:
        assert await bucket.find_url(account, REF.key, is_member=False, is_asked=True)
        assert not await bucket.find_url(account, REF.key, is_member=False, is_asked=False)

    await complain("0x" + "11" * 20)
    assert bucket.there == {REF.key: len(DATA)}
    again = Bucket.open(bucket.settings, bucket.account)  # After a restart it was listed.
    await again.learn()
    await again.find_url("0x11", REF.key, is_member=False, is_asked=True)
    await again.find_url("0x11", REF.key, is_member=False, is_asked=False)
    assert again.there == {REF.key: len(DATA)}
    again.close()


async def test_other_bytes_of_the_same_length_are_noticed(bucket: Bucket, tmp_path: Path) -> None:
    """Somebody who may write there, too, has put them there."""
    solver = Party(tmp_path / "solver", 1)
    solver.store.put(REF, DATA)
    await bucket.learn()
    await bucket.put(REF.key, solver.store.get_path(REF.key))
    bucket.client.put_object(Bucket=BUCKET, Key=bucket._name(REF.key), Body=bytes(len(DATA)))
    await bucket.find_url("0x11", REF.key, is_member=True, is_asked=True)
    await bucket.find_url("0x11", REF.key, is_member=True, is_asked=False)
    assert bucket.there == {}


async def test_a_storage_that_does_not_say_what_it_has_holds_up_no_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Peers that come back make the node ask it, one for each blob."""
    pytest.importorskip("boto3", reason=MISSING)
    monkeypatch.setattr(bucket_module, "SIGNING_S", 0.5)
    freed = asyncio.Event()

    async def wait(request: web.BaseRequest) -> web.StreamResponse:
        await freed.wait()
        return web.Response(status=404)

    keys = [BlobKey(BlobKind.DELTA, bytes(31) + bytes([n])) for n in range(5)]
    async with HostileStorage(wait).serve() as storage:
        bucket = Bucket.open(make_settings(storage.url), "0x11")
        bucket.there = dict.fromkeys(keys, 1)
        for key in keys[:4]:
            assert await bucket.find_url("0x22", key, is_member=True, is_asked=True)
            assert not await bucket.find_url("0x22", key, is_member=True, is_asked=False)
        assert bucket.there == {keys[4]: 1}
        assert await bucket.find_url("0x22", keys[4], is_member=True, is_asked=True)
        freed.set()
        bucket.close()


async def test_a_storage_that_swallows_an_upload_does_not_get_it_again_at_once(tmp_path: Path) -> None:
    """The node's line is for its peers, whom it sends the bytes meanwhile."""
    pytest.importorskip("boto3", reason=MISSING)
    solver = Party(tmp_path / "solver", 1)
    solver.store.put(REF, DATA)

    async def swallow(request: web.BaseRequest) -> web.StreamResponse:
        await request.content.read()
        return web.Response(status=403)

    async with HostileStorage(swallow).serve() as storage:
        bucket = Bucket.open(make_settings(storage.url), solver.account)
        bucket.there = {}
        assert bucket.may_upload(REF.key)
        with pytest.raises(EnvironmentFault):
            await bucket.put(REF.key, solver.store.get_path(REF.key))
        assert not bucket.may_upload(REF.key)
        bucket.close()
    other = Bucket.open(make_settings(storage.url), solver.account)  # Nothing listens there any more.
    other.there = {}
    with pytest.raises(EnvironmentFault):
        await other.put(REF.key, solver.store.get_path(REF.key))
    assert other.may_upload(REF.key)
    other.close()


@pytest.mark.parametrize("on_a_page", [0, 1, 100])
async def test_a_list_without_end_is_read_to_a_bound(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, on_a_page: int
) -> None:
    """Of a storage, or of somebody else who may write there."""
    monkeypatch.setattr(bucket_module, "MOST_LISTED", 5)
    asked = list[str]()

    def list_on(**what: Any) -> dict[str, Any]:
        asked.append(what.get("ContinuationToken", ""))
        assert len(asked) < 20, "it goes on and on"
        roots = [(100 * len(asked) + n).to_bytes(32, "big") for n in range(on_a_page)]
        names = [bucket._name(BlobKey(BlobKind.DELTA, root)) for root in roots]
        found = [{"Key": name, "Size": 1, "ETag": "x"} for name in names]
        return {"IsTruncated": True, "NextContinuationToken": f"{len(asked)}", "Contents": found}

    monkeypatch.setattr(bucket.client, "list_objects_v2", list_on)
    assert len(await bucket.learn()) == min(5, 5 * on_a_page)


@pytest.mark.parametrize("said", ["[]", '{"Version": 1}', "no JSON"])
async def test_whatever_breaks_in_signing_peers_get_the_bytes(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    """An honest solver that answers with status 500 is one that does not serve."""
    soon = (datetime.now(UTC) + timedelta(minutes=5)).isoformat()  # They have to be renewed for each URL.
    valid = {"Version": 1, "AccessKeyId": ACCESS_KEY, "SecretAccessKey": SECRET_KEY, "Expiration": soon}
    (tmp_path / "said").write_text(json.dumps(valid))
    (tmp_path / "config").write_text(f"[default]\ncredential_process = cat {tmp_path}/said\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    solver, reader = Party(tmp_path / "solver", 1), Party(tmp_path / "reader", 2)
    solver.store.put(REF, DATA)
    reader.storage = bucket.settings
    solver.bucket = Bucket.open(bucket.settings, solver.account)
    solver.bucket.there = {REF.key: len(DATA)}
    (tmp_path / "said").write_text(said)
    async with solver.serve() as peer, reader.make_client() as client:
        await client.fetch(peer, REF)
    assert reader.store.get(REF) == DATA
    solver.bucket.close()


def test_a_profile_that_is_not_there_is_told_and_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("boto3", reason=MISSING)
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(EnvironmentFault, match="ProfileNotFound"):
        Bucket.open(make_settings("http://127.0.0.1:9"), "0x11")


@pytest.mark.parametrize(
    "body",
    [b"", b"<Error>text</Error>", b"<Error><Code><a/></Code></Error>", b"<a>" * 9, b"\xff", b"[" * 5000],
)
@pytest.mark.parametrize("lies", ["PUT", "GET"])
async def test_whatever_a_storage_says_is_told_by_its_kind(tmp_path: Path, body: bytes, lies: str) -> None:
    pytest.importorskip("boto3", reason=MISSING)

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        await request.content.read()
        if request.path.endswith("/probe") and request.method == "GET":
            return web.Response(status=403)
        is_list = request.method == "GET"
        return web.Response(
            status=200 if is_list or lies != "PUT" else 400, body=body if is_list or lies == "PUT" else b""
        )

    async with HostileStorage(answer).serve() as storage:
        bucket = Bucket.open(make_settings(storage.url), "0x11")
        with suppress(EnvironmentFault):
            assert await bucket.learn() == {}
        bucket.close()


@pytest.mark.parametrize("method", ["PUT", "GET"])
async def test_an_answer_without_end_fills_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """boto3 reads answers whole. This one has an end, so that the test has one without the bound, too."""
    pytest.importorskip("boto3", reason=MISSING)
    monkeypatch.setattr(bucket_module, "MOST_ANSWERED_BYTES", 1 << 20)
    answered, piece = list[str](), bytes(1 << 16)

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        await request.content.read()
        if request.method != method or request.path.endswith("/probe") and method == "GET":
            return web.Response(status=200 if request.method == "PUT" else 403)
        response = web.StreamResponse(status=400)
        response.enable_chunked_encoding()
        await response.prepare(request)
        with suppress(ConnectionError):
            for _ in range((64 << 20) // len(piece)):
                await response.write(piece)
            answered.append("all of it")
        return response

    async with HostileStorage(answer).serve() as storage:
        bucket = Bucket.open(make_settings(storage.url), "0x11")
        with pytest.raises(EnvironmentFault, match="bucket cannot be used"):
            await bucket.learn()
        bucket.close()
    assert storage.asked and not answered


async def test_a_large_upload_does_not_keep_others_waiting(tmp_path: Path) -> None:
    """A dataset takes hours; a pseudo-gradient is asked for at the close of its round."""
    pytest.importorskip("boto3", reason=MISSING)
    solver, begun, freed = Party(tmp_path / "solver", 1), asyncio.Event(), asyncio.Event()
    dataset = solver.store.put_dataset(bytes(5000))
    solver.store.put(REF, DATA)

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        await request.content.read()
        if "/dataset/" in request.path and request.method == "PUT":
            begun.set()
            await freed.wait()
        size = 5000 if "/dataset/" in request.path else len(DATA)
        return web.Response(headers={"Content-Length": str(size)} if request.method == "HEAD" else {})

    async with HostileStorage(answer).serve() as storage:
        bucket = Bucket.open(make_settings(storage.url), solver.account)
        bucket.there = {}
        large = asyncio.create_task(bucket.put(dataset.key, solver.store.get_path(dataset.key)))
        await begun.wait()
        await bucket.put(REF.key, solver.store.get_path(REF.key))
        assert bucket.there == {REF.key: len(DATA)}
        freed.set()
        await large
        assert len(bucket.there) == 2
        bucket.close()


NODE = """
    import asyncio, sys
    from pathlib import Path
    from touchstone.protocol.adapters.store.bucket import Bucket
    from touchstone.protocol.adapters.store.blob_store import BlobStore
    from tests.protocol.adapters.parties import make_tensor
    from tests.protocol.adapters.storages import make_settings

    async def main(url, folder):
        data, ref = make_tensor(1000)
        store = BlobStore(Path(folder), is_durable=False)
        store.put(ref, data)
        bucket = Bucket.open(make_settings(url), "0x11")
        bucket.there = {}
        putting = asyncio.create_task(bucket.put(ref.key, store.get_path(ref.key)))
        await asyncio.to_thread(sys.stdin.readline)  # The storage has been asked.
        putting.cancel()
        await asyncio.gather(putting, return_exceptions=True)
        bucket.close()

    asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_node_ends_although_its_storage_never_finishes_an_answer(tmp_path: Path) -> None:
    """A header at a time: no single read takes long. It finishes a minute after the node was told to end: who
    waits for that has not ended by itself."""
    pytest.importorskip("boto3", reason=MISSING)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        writer.write(b"HTTP/1.1 200 OK\r\nX: ")
        await told.wait()
        with suppress(ConnectionError):
            for _ in range(600):
                writer.write(b"a")
                await writer.drain()
                await asyncio.sleep(0.1)
            finished.set()
        writer.close()

    asked, told, finished = asyncio.Event(), asyncio.Event(), asyncio.Event()
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        node = [sys.executable, "-c", textwrap.dedent(NODE), url, str(tmp_path / "store")]
        process = await asyncio.create_subprocess_exec(*node, stdin=PIPE, stderr=PIPE)
        started = [asyncio.create_task(wait) for wait in (asked.wait(), process.wait())]
        await asyncio.wait(started, return_when=asyncio.FIRST_COMPLETED)
        told.set()
        _, errors = await process.communicate(b"\n")
    assert asked.is_set() and process.returncode == 0 and not finished.is_set(), errors.decode()
