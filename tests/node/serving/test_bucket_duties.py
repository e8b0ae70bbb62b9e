"""What any account may read is in the bucket from the commitment on, and named from the close on."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from tests.e2e.world import make_dataset
from tests.kit.nodes import HASTE, SIGNING, change_spec, change_tools, get_lines
from tests.node.merging.stage import Stage, finish, open_stage
from tests.node.specs import get_spec
from tests.protocol.adapters.parties import make_key
from tests.protocol.adapters.storages import HostileStorage, make_settings
from touchstone.node.merging import merge_requests
from touchstone.node.models.start_weights import refer_start
from touchstone.node.serving.bucket_copies import CopyToBucket, list_duties, list_missing
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind, refer_delta
from touchstone.protocol.adapters.store.bucket import Bucket
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.adapters.wire.object_storage import ObjectStorage
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.adapters.wire.request_signing import RequestSigner
from touchstone.protocol.adapters.wire.server import BlobServer, ReadPolicy
from touchstone.protocol.adapters.wire.tls_identity import load_or_create_identity
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.params import GIVEN_START
from touchstone.scripts.roles.role_nodes import Member


class KeptBucket(Bucket):
    """Objects in memory, at `location` for peers. is_down: takes nothing."""

    def __init__(self, account: str, location: str = "") -> None:
        super().__init__(ObjectStorage(bucket="alice"), account, None, None)
        self.objects: dict[BlobKey, bytes] = {}
        self.location, self.is_down = location, False

    async def learn(self) -> dict[BlobKey, int]:
        self.there = {key: len(data) for key, data in self.objects.items()}
        return self.there

    async def put(self, key: BlobKey, path: Path) -> None:
        if self.is_down:
            raise EnvironmentFault(what="down", expected="up", actual="down", remedy="Wait.")
        assert self.there is not None
        self.objects[key] = path.read_bytes()
        self.there[key] = len(self.objects[key])

    async def remove(self, keys: Collection[BlobKey]) -> None:
        for key in keys:
            del self.objects[key]
            (self.there or {}).pop(key)

    def _sign(self, name: str) -> str:
        return self.location


@asynccontextmanager
async def open_solver(folder: Path) -> AsyncIterator[tuple[Stage, Member, KeptBucket]]:
    async with open_stage(folder, 1) as stage:
        node = stage.nodes[1]
        node.bucket = bucket = KeptBucket(node.account)
        change_tools(node, bucket=bucket)
        yield stage, node, bucket


@asynccontextmanager
async def serve(node: Member) -> AsyncIterator[Peer]:
    """A node with a bucket, and the rules of the merge room."""
    policy = ReadPolicy(
        lambda account: True,
        lambda account, kind, root: merge_requests.may_read(node.get_view(), account, kind, root),
        node.status.show,
    )
    identity = load_or_create_identity(node.config.home)
    server = BlobServer(node.store, node.account, SIGNING, identity, policy, bucket=node.bucket)
    port = await server.start()
    try:
        yield Peer(node.account, f"https://127.0.0.1:{port}", identity.fingerprint)
    finally:
        await server.stop()


def list_due(node: Member) -> list[CopyToBucket]:
    return list(list_duties(node.bucket, node.get_view(), node.state.head_block + 1))


async def mirror(node: Member) -> None:
    """What is due, once; the second duty where the first one has learned what the bucket has."""
    for duty in list_duties(node.bucket, node.get_view(), node.state.head_block + 1):
        await duty.perform(node.rooms.bucket_copies)


async def test_a_pseudo_gradient_goes_there_once_the_chain_has_its_claim_and_nothing_else_does(
    tmp_path: Path,
) -> None:
    async with open_solver(tmp_path) as (stage, node, bucket):
        finished = await finish(node)
        await mirror(node)
        assert bucket.there == {}
        await stage.commit(1)
        assert list_due(node) == [CopyToBucket()]
        await mirror(node)
        delta = refer_delta(finished.delta_root, node.task.spec.terms.parameter_count)
        assert bucket.objects == {delta.key: node.store.get(delta)}
        assert node.store.list_keys(BlobKind.TENSOR)
        assert not list_due(node)


async def test_a_claim_on_another_beacon_is_not_uploaded(tmp_path: Path) -> None:
    async with open_solver(tmp_path) as (stage, node, bucket):
        await stage.commit(1)
        game_round = stage.world.state.rounds[0]
        (slot,) = game_round.claims
        other = replace(game_round.claims[slot], claim_root=bytes(32))
        stage.world.state = replace(stage.world.state, rounds={0: replace(game_round, claims={slot: other})})
        stage.sync()
        await mirror(node)
        assert bucket.there == {}


async def test_what_is_pruned_or_was_never_here_goes(tmp_path: Path) -> None:
    async with open_solver(tmp_path) as (stage, node, bucket):
        stranger = BlobKey(BlobKind.TENSOR, bytes(31) + b"\1")
        bucket.objects[stranger] = b"left by an earlier run"
        await stage.commit(1)
        await mirror(node)
        (delta,) = bucket.objects
        assert delta.kind is BlobKind.DELTA
        node.store.delete(delta)
        assert list_due(node) == [CopyToBucket()]
        await mirror(node)
        assert not bucket.objects and not list_due(node)


async def test_an_upload_that_failed_is_still_due(tmp_path: Path) -> None:
    async with open_solver(tmp_path) as (stage, node, bucket):
        await stage.commit(1)
        bucket.is_down = True
        with pytest.raises(EnvironmentFault):
            await mirror(node)
        assert bucket.there == {} and list_due(node) == [CopyToBucket()]
        bucket.is_down = False
        await mirror(node)
        assert len(bucket.objects) == 1
        lines: list[str] = get_lines(node)
        assert lines[-1] == "the bucket alice takes copies; it has 0 of this node's blobs", "it is said once"


async def test_a_copy_of_another_length_is_uploaded_again(tmp_path: Path) -> None:
    async with open_solver(tmp_path) as (stage, node, bucket):
        await stage.commit(1)
        await mirror(node)
        (delta,) = bucket.objects
        bucket.objects[delta] = b"short"
        await bucket.learn()
        assert list_missing(node.get_view(), bucket) == [delta]


@pytest.mark.parametrize("is_submitter", [True, False])
@pytest.mark.parametrize("is_given", [True, False])
async def test_a_submitter_uploads_the_dataset_and_given_weights(
    tmp_path: Path, is_submitter: bool, is_given: bool
) -> None:
    async with open_solver(tmp_path) as (stage, node, bucket):
        await finish(node)
        spec = get_spec()
        if is_given:
            spec = replace(spec, training=replace(spec.training, initial_seed=GIVEN_START))
        change_spec(node, spec)
        if is_submitter:
            terms = replace(stage.world.state.terms, submitter=node.account)
            stage.world.state = replace(stage.world.state, terms=terms)
            stage.sync()
        dataset = node.store.put_dataset(make_dataset())
        start = refer_start(spec)
        assert node.store.has(start)
        await mirror(node)
        expected = [dataset.key] * is_submitter + [start.key] * (is_submitter and is_given)
        assert set(bucket.objects) == set(expected)


async def test_a_pseudo_gradient_does_not_wait_for_the_dataset(tmp_path: Path) -> None:
    """The submitter has a seat, too, and its line takes hours for the dataset."""
    async with open_solver(tmp_path) as (stage, node, bucket):
        terms = replace(stage.world.state.terms, submitter=node.account)
        stage.world.state = replace(stage.world.state, terms=terms)
        stage.sync()
        node.store.put_dataset(make_dataset())
        begun, freed, put = asyncio.Event(), asyncio.Event(), bucket.put

        async def put_slowly(key: BlobKey, path: Path) -> None:
            if key.kind is BlobKind.DATASET:
                begun.set()
                await freed.wait()
            await put(key, path)

        bucket.put = put_slowly  # type: ignore[method-assign]
        await bucket.learn()
        (first,) = list_due(node)
        running = {first: asyncio.create_task(first.perform(node.rooms.bucket_copies))}
        await begun.wait()
        await stage.commit(1)
        for duty in set(list_due(node)) - set(running):
            await duty.perform(node.rooms.bucket_copies)
        assert {key.kind for key in bucket.objects} == {BlobKind.DELTA}
        freed.set()
        await running[first]
        assert len(bucket.objects) == 2 and not list_due(node)


async def test_a_copy_that_the_storage_did_not_keep_is_not_due_at_once(tmp_path: Path) -> None:
    async with open_solver(tmp_path) as (stage, node, bucket):
        await stage.commit(1)
        bucket.may_upload = lambda key: False  # type: ignore[method-assign]
        await mirror(node)
        assert not bucket.objects and not list_due(node)


async def test_before_the_close_nobody_is_sent_to_the_bucket(tmp_path: Path) -> None:
    """It is there already, so that all can be sent there at once; the node alone says from when on."""

    async def give(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=next(iter(bucket.objects.values())))

    async with HostileStorage(give).serve() as storage, open_solver(tmp_path) as (stage, node, bucket):
        bucket.location = f"{storage.url}/copy"
        (finished,) = await stage.commit(1)
        await mirror(node)
        ref = refer_delta(finished.delta_root, node.task.spec.terms.parameter_count)
        reader = BlobStore(tmp_path / "reader", is_durable=False)
        signer, follow = RequestSigner(make_key(2), SIGNING), make_settings(storage.url)
        client = BlobClient(reader, signer, HASTE, follow, "127.0.0.1")
        async with serve(node) as peer, client:
            with pytest.raises(EnvironmentFault, match="not served to you now"):
                await client.fetch(peer, ref)
            assert not storage.asked
            stage.draw()
            await client.fetch(peer, ref)
        assert len(storage.asked) == 1 and reader.get(ref) == node.store.get(ref)
