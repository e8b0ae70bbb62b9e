"""What any account may read is in the bucket from the commitment on, and named from the close on."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from tests.e2e.world import make_dataset
from tests.kit.party import Party
from tests.kit.views import rooms_of, view_of
from tests.node.merging.stage import HASTE, SIGNING, Stage, finish, open_stage
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
async def open_solver(folder: Path) -> AsyncIterator[tuple[Stage, Party, KeptBucket]]:
    async with open_stage(folder, 1) as stage:
        party = stage.parties[1]
        party.bucket = bucket = KeptBucket(party.account)
        yield stage, party, bucket


@asynccontextmanager
async def serve(party: Party) -> AsyncIterator[Peer]:
    """A node with a bucket, and the rules of the merge room."""
    policy = ReadPolicy(
        lambda account: True,
        lambda account, kind, root: merge_requests.may_read(view_of(party), account, kind, root),
        party.status.show,
    )
    identity = load_or_create_identity(party.config.home)
    server = BlobServer(party.store, party.account, SIGNING, identity, policy, bucket=party.bucket)
    port = await server.start()
    try:
        yield Peer(party.account, f"https://127.0.0.1:{port}", identity.fingerprint)
    finally:
        await server.stop()


def list_due(party: Party) -> list[CopyToBucket]:
    return list(list_duties(party.bucket, view_of(party), party.state.head_block + 1))


async def mirror(party: Party) -> None:
    """What is due, once; the second duty where the first one has learned what the bucket has."""
    for duty in list_duties(party.bucket, view_of(party), party.state.head_block + 1):
        await duty.perform(rooms_of(party).bucket_copies)


async def test_a_pseudo_gradient_goes_there_once_the_chain_has_its_claim_and_nothing_else_does(
    tmp_path: Path,
) -> None:
    async with open_solver(tmp_path) as (stage, party, bucket):
        finished = await finish(party)
        await mirror(party)
        assert bucket.there == {}
        await stage.commit(1)
        assert list_due(party) == [CopyToBucket()]
        await mirror(party)
        delta = refer_delta(finished.delta_root, party.task.spec.terms.parameter_count)
        assert bucket.objects == {delta.key: party.store.get(delta)}
        assert party.store.list_keys(BlobKind.TENSOR)
        assert not list_due(party)


async def test_a_claim_on_another_beacon_is_not_uploaded(tmp_path: Path) -> None:
    async with open_solver(tmp_path) as (stage, party, bucket):
        await stage.commit(1)
        game_round = stage.world.state.rounds[0]
        (slot,) = game_round.claims
        other = replace(game_round.claims[slot], claim_root=bytes(32))
        stage.world.state = replace(stage.world.state, rounds={0: replace(game_round, claims={slot: other})})
        stage.sync()
        await mirror(party)
        assert bucket.there == {}


async def test_what_is_pruned_or_was_never_here_goes(tmp_path: Path) -> None:
    async with open_solver(tmp_path) as (stage, party, bucket):
        stranger = BlobKey(BlobKind.TENSOR, bytes(31) + b"\1")
        bucket.objects[stranger] = b"left by an earlier run"
        await stage.commit(1)
        await mirror(party)
        (delta,) = bucket.objects
        assert delta.kind is BlobKind.DELTA
        party.store.delete(delta)
        assert list_due(party) == [CopyToBucket()]
        await mirror(party)
        assert not bucket.objects and not list_due(party)


async def test_an_upload_that_failed_is_still_due(tmp_path: Path) -> None:
    async with open_solver(tmp_path) as (stage, party, bucket):
        await stage.commit(1)
        bucket.is_down = True
        with pytest.raises(EnvironmentFault):
            await mirror(party)
        assert bucket.there == {} and list_due(party) == [CopyToBucket()]
        bucket.is_down = False
        await mirror(party)
        assert len(bucket.objects) == 1
        lines: list[str] = party.config.notify.__self__  # type: ignore[attr-defined]
        assert lines[-1] == "the bucket alice takes copies; it has 0 of this node's blobs", "it is said once"


async def test_a_copy_of_another_length_is_uploaded_again(tmp_path: Path) -> None:
    async with open_solver(tmp_path) as (stage, party, bucket):
        await stage.commit(1)
        await mirror(party)
        (delta,) = bucket.objects
        bucket.objects[delta] = b"short"
        await bucket.learn()
        assert list_missing(view_of(party), bucket) == [delta]


@pytest.mark.parametrize("is_submitter", [True, False])
@pytest.mark.parametrize("is_given", [True, False])
async def test_a_submitter_uploads_the_dataset_and_given_weights(
    tmp_path: Path, is_submitter: bool, is_given: bool
) -> None:
    async with open_solver(tmp_path) as (stage, party, bucket):
        await finish(party)
        spec = get_spec()
        if is_given:
            spec = replace(spec, training=replace(spec.training, initial_seed=GIVEN_START))
        party.joined = replace(party.task, spec=spec)
        if is_submitter:
            terms = replace(stage.world.state.terms, submitter=party.account)
            stage.world.state = replace(stage.world.state, terms=terms)
            stage.sync()
        dataset = party.store.put_dataset(make_dataset())
        start = refer_start(spec)
        assert party.store.has(start)
        await mirror(party)
        expected = [dataset.key] * is_submitter + [start.key] * (is_submitter and is_given)
        assert set(bucket.objects) == set(expected)


async def test_a_pseudo_gradient_does_not_wait_for_the_dataset(tmp_path: Path) -> None:
    """The submitter has a seat, too, and its line takes hours for the dataset."""
    async with open_solver(tmp_path) as (stage, party, bucket):
        terms = replace(stage.world.state.terms, submitter=party.account)
        stage.world.state = replace(stage.world.state, terms=terms)
        stage.sync()
        party.store.put_dataset(make_dataset())
        begun, freed, put = asyncio.Event(), asyncio.Event(), bucket.put

        async def put_slowly(key: BlobKey, path: Path) -> None:
            if key.kind is BlobKind.DATASET:
                begun.set()
                await freed.wait()
            await put(key, path)

        bucket.put = put_slowly  # type: ignore[method-assign]
        await bucket.learn()
        (first,) = list_due(party)
        running = {first: asyncio.create_task(first.perform(rooms_of(party).bucket_copies))}
        await begun.wait()
        await stage.commit(1)
        for duty in set(list_due(party)) - set(running):
            await duty.perform(rooms_of(party).bucket_copies)
        assert {key.kind for key in bucket.objects} == {BlobKind.DELTA}
        freed.set()
        await running[first]
        assert len(bucket.objects) == 2 and not list_due(party)


async def test_a_copy_that_the_storage_did_not_keep_is_not_due_at_once(tmp_path: Path) -> None:
    async with open_solver(tmp_path) as (stage, party, bucket):
        await stage.commit(1)
        bucket.may_upload = lambda key: False  # type: ignore[method-assign]
        await mirror(party)
        assert not bucket.objects and not list_due(party)


async def test_before_the_close_nobody_is_sent_to_the_bucket(tmp_path: Path) -> None:
    """It is there already, so that all can be sent there at once; the node alone says from when on."""

    async def give(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=next(iter(bucket.objects.values())))

    async with HostileStorage(give).serve() as storage, open_solver(tmp_path) as (stage, party, bucket):
        bucket.location = f"{storage.url}/copy"
        (finished,) = await stage.commit(1)
        await mirror(party)
        ref = refer_delta(finished.delta_root, party.task.spec.terms.parameter_count)
        reader = BlobStore(tmp_path / "reader", is_durable=False)
        signer, follow = RequestSigner(make_key(2), SIGNING), make_settings(storage.url)
        client = BlobClient(reader, signer, HASTE, follow, "127.0.0.1")
        async with serve(party) as peer, client:
            with pytest.raises(EnvironmentFault, match="not served to you now"):
                await client.fetch(peer, ref)
            assert not storage.asked
            stage.draw()
            await client.fetch(peer, ref)
        assert len(storage.asked) == 1 and reader.get(ref) == party.store.get(ref)
