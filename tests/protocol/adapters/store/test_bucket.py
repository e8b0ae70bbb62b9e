"""A node's own bucket: what is there whole is named, to few and seldom; what fails is not."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.protocol.adapters.parties import CHUNK_ELEMENTS, Party, make_tensor
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
from touchstone.protocol.adapters.machine import extra_libraries
from touchstone.protocol.adapters.store import bucket as bucket_module
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobRef
from touchstone.protocol.adapters.store.bucket import STRANGERS_URLS, URLS_OF_A_BLOB, Bucket
from touchstone.protocol.adapters.wire.object_storage import ObjectStorage
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput

READER = "0x" + "7e" * 20


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_credentials(monkeypatch, tmp_path)


@pytest.fixture
def url() -> Iterator[str]:
    with run_moto() as at:
        yield at


@pytest.fixture
def solver(tmp_path: Path) -> Party:
    return Party(tmp_path / "solver", 1)


@pytest.fixture
def bucket(url: str, solver: Party) -> Iterator[Bucket]:
    made = Bucket.open(make_settings(url), solver.account)
    made.client.create_bucket(Bucket=BUCKET)
    yield made
    made.close()


def keep(party: Party, elements: int = 1000, seed: int = 0) -> tuple[BlobRef, Path]:
    """A blob on a party's disk, and its file."""
    data, ref = make_tensor(elements, seed)
    party.store.put(ref, data)
    return ref, party.store.get_path(ref.key)


async def ask(bucket: Bucket, key: BlobKey, account: str = READER, **said: bool) -> str:
    """Where a member that follows is sent; said: another asker."""
    return await bucket.find_url(account, key, **{"is_member": True, "is_asked": True} | said)


def list_objects(bucket: Bucket) -> list[str]:
    found = bucket.client.list_objects_v2(Bucket=BUCKET).get("Contents", [])
    return [one["Key"] for one in found if not one["Key"].endswith("/probe")]


async def test_what_was_uploaded_is_named_also_after_a_restart(
    bucket: Bucket, solver: Party, url: str
) -> None:
    ref, path = keep(solver)
    assert not await ask(bucket, ref.key)
    assert await bucket.learn() == {}
    assert not await ask(bucket, ref.key)
    await bucket.put(ref.key, path)
    assert (await ask(bucket, ref.key)).startswith(f"{url}/{BUCKET}/touchstone/{solver.account}/{ref.key}?")
    again = Bucket.open(bucket.settings, solver.account)
    assert await again.learn() == {ref.key: ref.size_bytes}
    await again.remove([ref.key])
    assert again.there == {} and not list_objects(bucket)
    again.close()


async def test_peers_fetch_from_the_bucket_and_the_node_sends_the_blob_once(
    bucket: Bucket, solver: Party, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref, path = keep(solver, 2 * CHUNK_ELEMENTS + 5)
    await bucket.learn()
    await bucket.put(ref.key, path)
    solver.bucket = bucket
    monkeypatch.setattr(solver.store, "open_range", None)  # It sends no blob itself.
    async with solver.serve() as peer:
        for seed in (2, 3, 4):
            reader = Party(tmp_path / f"reader{seed}", seed, storage=bucket.settings)
            async with reader.make_client() as client:
                await client.fetch(peer, ref)
            assert reader.store.get(ref) == path.read_bytes()


async def test_a_copy_that_is_gone_costs_a_detour_and_counts_as_missing(
    bucket: Bucket, solver: Party, tmp_path: Path
) -> None:
    (ref, path), (other, its_path) = keep(solver), keep(solver, seed=1)
    await bucket.learn()
    await bucket.put(ref.key, path)
    await bucket.put(other.key, its_path)
    solver.bucket = bucket
    bucket.client.delete_object(Bucket=BUCKET, Key=f"touchstone/{solver.account}/{ref.key}")
    reader = Party(tmp_path / "reader", 2, storage=bucket.settings)
    async with solver.serve() as peer, reader.make_client() as client:
        await client.fetch(peer, ref)
    assert reader.store.get(ref) == path.read_bytes()
    assert bucket.there == {other.key: other.size_bytes}
    await bucket.put(ref.key, path)
    await ask(bucket, ref.key)
    assert not await ask(bucket, ref.key, is_asked=False)
    assert ref.key in bucket.there  # Once an hour: a member may come back as often as it likes.


async def test_a_bucket_that_is_gone_costs_a_detour(bucket: Bucket, solver: Party, tmp_path: Path) -> None:
    ref, path = keep(solver)
    await bucket.learn()
    await bucket.put(ref.key, path)
    for name in bucket.client.list_objects_v2(Bucket=BUCKET)["Contents"]:
        bucket.client.delete_object(Bucket=BUCKET, Key=name["Key"])
    bucket.client.delete_bucket(Bucket=BUCKET)
    solver.bucket = bucket
    reader = Party(tmp_path / "reader", 2, storage=bucket.settings)
    async with solver.serve() as peer, reader.make_client() as client:
        await client.fetch(peer, ref)
    assert reader.store.get(ref) == path.read_bytes() and bucket.there == {}
    with pytest.raises(EnvironmentFault, match="NoSuchBucket"):
        await bucket.put(ref.key, path)
    assert bucket.there == {}


async def test_urls_are_few(bucket: Bucket, solver: Party) -> None:
    """Who owns a bucket may pay for each download."""
    (ref, path), (other, its_path) = keep(solver), keep(solver, seed=1)
    await bucket.learn()
    await bucket.put(ref.key, path)
    await bucket.put(other.key, its_path)
    urls = [await ask(bucket, ref.key) for _ in range(URLS_OF_A_BLOB + 1)]
    assert all(urls[:-1]) and not urls[-1]
    assert await ask(bucket, other.key) and await ask(bucket, ref.key, "0x" + "11" * 20)
    strangers = [await ask(bucket, ref.key, f"0x{n:040x}", is_member=False) for n in range(40)]
    assert len(list(filter(None, strangers))) == STRANGERS_URLS
    assert "X-Amz-Expires=60&" in urls[0]


async def test_who_comes_back_without_having_been_sent_casts_no_doubt(bucket: Bucket, solver: Party) -> None:
    ref, path = keep(solver)
    await bucket.learn()
    await bucket.put(ref.key, path)
    await ask(bucket, ref.key)
    assert not await ask(bucket, ref.key, "0x" + "11" * 20, is_asked=False)
    assert bucket.there == {ref.key: ref.size_bytes}


async def test_an_upload_in_parts_that_fails_leaves_nothing(
    bucket: Bucket, solver: Party, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_module, "PART_BYTES", 5 << 20)
    ref, path = keep(solver, 12 * CHUNK_ELEMENTS)
    await bucket.learn()
    send, sent = bucket.client.upload_part, list[int]()

    def fail(**part: Any) -> Any:
        sent.append(part["PartNumber"])
        if part["PartNumber"] == 2:
            raise ConnectionResetError
        return send(**part)

    monkeypatch.setattr(bucket.client, "upload_part", fail)
    with pytest.raises(EnvironmentFault, match="bucket cannot be used"):
        await bucket.put(ref.key, path)
    assert sent[:2] == [1, 2]
    assert bucket.there == {} and not list_objects(bucket) and not await ask(bucket, ref.key)
    assert not bucket.client.list_multipart_uploads(Bucket=BUCKET).get("Uploads")
    monkeypatch.setattr(bucket.client, "upload_part", send)
    await bucket.put(ref.key, path)
    assert await ask(bucket, ref.key)


async def test_what_a_killed_node_left_half_uploaded_is_removed(bucket: Bucket, solver: Party) -> None:
    mine, other = f"touchstone/{solver.account}/tensor/x", "touchstone/0x11/tensor/x"
    for name in (mine, other):
        bucket.client.create_multipart_upload(Bucket=BUCKET, Key=name)
    await bucket.learn()
    left = bucket.client.list_multipart_uploads(Bucket=BUCKET)["Uploads"]
    assert [one["Key"] for one in left] == [other]


async def test_nothing_else_in_the_bucket_counts(bucket: Bucket, solver: Party) -> None:
    names = [
        f"touchstone/0x11/tensor/{'ab' * 32}",
        f"touchstone/{solver.account}/tensor/../x",
        f"tensor/{'ab' * 32}",
    ]
    for name in names:
        bucket.client.put_object(Bucket=BUCKET, Key=name, Body=b"data")
    assert await bucket.learn() == {}
    assert len(list_objects(bucket)) == 3


async def test_a_bucket_that_anybody_may_read_is_not_used(bucket: Bucket, solver: Party) -> None:
    bucket.client.put_bucket_policy(
        Bucket=BUCKET,
        Policy='{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", '
        f'"Action": "s3:GetObject", "Resource": "arn:aws:s3:::{BUCKET}/*"}}]}}',
    )
    with pytest.raises(InvalidInput, match="anybody may read this bucket"):
        await bucket.learn()
    assert bucket.there is None


async def test_without_credentials_peers_get_the_bytes(
    bucket: Bucket, solver: Party, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref, path = keep(solver)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    nameless = Bucket.open(bucket.settings, solver.account)
    with pytest.raises(EnvironmentFault, match=r"NoCredentialsError.*~/\.aws/credentials"):
        await nameless.learn()
    nameless.there = {ref.key: ref.size_bytes}  # They went away while it ran.
    solver.bucket = nameless
    reader = Party(tmp_path / "reader", 2, storage=bucket.settings)
    async with solver.serve() as peer, reader.make_client() as client:
        await client.fetch(peer, ref)
    assert reader.store.get(ref) == path.read_bytes()
    nameless.close()


async def test_credentials_that_come_later_are_taken_without_a_restart(
    bucket: Bucket, solver: Party, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A restart of `task create` would post another task."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    late = Bucket.open(bucket.settings, solver.account)
    with pytest.raises(EnvironmentFault, match="NoCredentialsError"):
        await late.learn()
    keys = f"aws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n"
    (tmp_path / "none").write_text(f"[default]\n{keys}")  # Where AWS's tools look, as `use_credentials` says.
    assert await late.learn() == {}
    late.close()


async def test_no_log_has_a_secret_or_a_url(
    bucket: Bucket, solver: Party, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    ref, path = keep(solver)
    await bucket.learn()
    await bucket.put(ref.key, path)
    url = await ask(bucket, ref.key)
    bucket.client.delete_object(Bucket=BUCKET, Key=bucket._name(ref.key))
    await ask(bucket, ref.key, is_asked=False)
    bucket.client.delete_bucket_policy(Bucket=BUCKET)
    ours = [record.getMessage() for record in caplog.records if record.name != "werkzeug"]
    assert "X-Amz-Signature=" in url and any("uploaded again" in line for line in ours)
    for line in ours:
        assert not any(word in line for word in (SECRET_KEY, ACCESS_KEY, "Signature", "Authorization"))


@pytest.mark.parametrize("lie", ["refuse", "close", "half"])
async def test_what_the_storage_does_not_have_whole_is_not_named(solver: Party, lie: str) -> None:
    """It refuses, breaks off in the middle, or says yes and has half."""
    pytest.importorskip("boto3", reason=MISSING)

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "HEAD":
            return web.Response(headers={"Content-Length": "2000"})
        if lie == "refuse":
            return web.Response(status=503)
        if lie == "close":
            await request.content.read(1000)
            assert request.transport is not None
            request.transport.close()
        else:
            await request.content.read()
        return web.Response()

    ref, path = keep(solver)
    async with HostileStorage(answer).serve() as storage:
        bucket = Bucket.open(make_settings(storage.url), solver.account)
        bucket.there = {}
        with pytest.raises(EnvironmentFault, match="2000 of 4000" if lie == "half" else "cannot be used"):
            await bucket.put(ref.key, path)
        assert bucket.there == {} and not await ask(bucket, ref.key)
        bucket.close()


async def test_a_node_that_ends_breaks_its_upload_off(bucket: Bucket, solver: Party) -> None:
    ref, path = keep(solver, 4 * CHUNK_ELEMENTS)
    await bucket.learn()
    bucket._is_closed = True
    with pytest.raises(EnvironmentFault):
        await bucket.put(ref.key, path)
    assert not list_objects(bucket)


def test_without_the_extra_the_operator_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(module: str) -> Any:
        raise ImportError(f"No module named {module!r}")

    monkeypatch.setattr(extra_libraries, "import_module", fail)
    with pytest.raises(InvalidInput) as caught:
        Bucket.open(ObjectStorage(bucket=BUCKET), READER)
    assert "pip install -e '.[s3]'" in caught.value.remedy and "boto3" in str(caught.value.expected)
