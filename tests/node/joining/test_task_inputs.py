"""A dataset in parts, over real HTTPS: the same batches as from the whole file, and no peer is believed."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from aiohttp import web

from tests.protocol.adapters.parties import Party, open_session, serve_hostile
from tests.protocol.compute.conftest import build_tiny_training
from touchstone.node.joining import task_inputs
from touchstone.node.joining.task_inputs import DatasetParts, PartedCorpus, open_outline
from touchstone.node.kit import waiting
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind, BlobRef
from touchstone.protocol.adapters.store.leaf_runs import LeafRun, count_leaves
from touchstone.protocol.adapters.store.leaf_source import LeafSource
from touchstone.protocol.adapters.wire.limits import WireLimits
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.compute.batches import (
    OUTSIDE_TOKEN,
    dataset_root,
    get_batch,
    list_starts,
    open_corpus,
    prepare_steps,
)
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.merkle import hash_leaf, is_valid_path
from touchstone.protocol.spec.task_spec import TrainingSpec
from touchstone.step.plain_decoder import DecoderConfig

MODEL = DecoderConfig(300, 32, 48, 1, 2, 2, 16)
COUNT, HELDOUT = 150_000, 1_000
BEACONS = [sha256(bytes([number])).digest() for number in range(3)]


def make_data(outside: int = 0) -> bytes:
    """Tokens of two bytes; each `outside`-th one is none of the vocabulary."""
    tokens = [(i * i // 7 + i) % 300 for i in range(COUNT + HELDOUT)]
    if outside:
        tokens[::outside] = [60_000] * len(tokens[::outside])
    return b"".join(token.to_bytes(2, "little") for token in tokens)


def make_spec(data: bytes) -> TrainingSpec:
    return build_tiny_training(
        model=MODEL, token_count=COUNT, heldout_tokens=HELDOUT, dataset_root=dataset_root(data)
    )


DATA = make_data()
SPEC = make_spec(DATA)
REF = BlobRef(BlobKey(BlobKind.DATASET, SPEC.dataset_root), len(DATA))


@asynccontextmanager
async def open_parts(
    party: Party, peers: Sequence[Peer], spec: TrainingSpec = SPEC, lines: list[str] | None = None
) -> AsyncIterator[PartedCorpus]:
    """The corpus of a party that has none of it so far."""
    ref = BlobRef(BlobKey(BlobKind.DATASET, spec.dataset_root), len(DATA))
    source, said = LeafSource(party.store, party.parts), [] if lines is None else lines
    async with party.make_client() as client:
        outline = await open_outline(source, client, ref, lambda: peers)
        parts = DatasetParts(source, client, outline, lambda: peers, lambda: 5, 100, said.append)
        yield PartedCorpus(parts, spec, asyncio.get_running_loop(), said.append)


@pytest.fixture
def submitter(tmp_path: Path) -> Party:
    party = Party(tmp_path / "submitter", 1)
    party.store.put_dataset(DATA)
    return party


@pytest.fixture
def node(tmp_path: Path) -> Party:
    return Party(tmp_path / "node", 2)


@pytest.mark.parametrize("is_prepared", [True, False])
async def test_parts_give_the_batches_of_the_whole_file(
    submitter: Party, node: Party, is_prepared: bool
) -> None:
    whole = open_corpus(DATA, SPEC)
    async with submitter.serve() as peer, open_parts(node, [peer]) as corpus:
        for beacon in BEACONS:
            for shard in range(3):
                if is_prepared:
                    await prepare_steps(corpus, SPEC, beacon, shard, range(4))
                for step in range(4):
                    found = await asyncio.to_thread(get_batch, corpus, SPEC, beacon, shard, step)
                    expected = get_batch(whole, SPEC, beacon, shard, step)
                    assert torch.equal(found.tokens_BT, expected.tokens_BT)
                    assert torch.equal(found.labels_BT, expected.labels_BT)


async def test_the_whole_file_at_hand_needs_no_peer(submitter: Party) -> None:
    async with open_parts(submitter, []) as corpus:
        await prepare_steps(corpus, SPEC, BEACONS[0], 0, range(50))
        found = get_batch(corpus, SPEC, BEACONS[0], 0, 7)
        assert torch.equal(found.tokens_BT, get_batch(open_corpus(DATA, SPEC), SPEC, BEACONS[0], 0, 7)[0])
        assert corpus.parts.fetched_bytes == 0


async def test_only_what_samples_touch_is_fetched_and_once(submitter: Party, node: Party) -> None:
    async with submitter.serve() as peer, open_parts(node, [peer]) as corpus:
        await prepare_steps(corpus, SPEC, BEACONS[0], 0, range(5))
        touched = {
            leaf
            for start in list_starts(SPEC, BEACONS[0], 0, range(5))
            for leaf in (start * 2 // 1024, (start * 2 + 33) // 1024)
        }
        assert node.parts.count_rows() == len(touched) < count_leaves(REF) / 4
        before = corpus.parts.fetched_bytes
        await prepare_steps(corpus, SPEC, BEACONS[0], 0, range(5))
        assert corpus.parts.fetched_bytes == before <= 1.3 * 1024 * len(touched)


async def test_nodes_serve_what_they_have_kept(submitter: Party, node: Party, tmp_path: Path) -> None:
    third = Party(tmp_path / "third", 3)
    async with submitter.serve() as peer, open_parts(node, [peer]) as corpus:
        await prepare_steps(corpus, SPEC, BEACONS[0], 0, range(3))
    async with node.serve() as peer, open_parts(third, [peer]) as corpus:
        await prepare_steps(corpus, SPEC, BEACONS[0], 0, range(3))
        with pytest.raises(EnvironmentFault, match="no peer serves a part of the dataset"):
            await prepare_steps(corpus, SPEC, BEACONS[1], 0, range(3))
        # What one peer lacks the next one has.
        corpus.parts.list_peers = lambda: [peer, other]
        async with submitter.serve() as other:
            await prepare_steps(corpus, SPEC, BEACONS[1], 0, range(3))


async def test_an_operator_hears_now_and_then_what_is_waited_for(
    submitter: Party, node: Party, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes were silent for minutes at their start: a peer that was to serve the dataset was slow."""
    monkeypatch.setattr(waiting, "FIRST_S", 0.01)
    monkeypatch.setattr(waiting, "NEXT_S", 0.01)
    lines, let = list[str](), asyncio.Event()

    async def stall(_: web.BaseRequest) -> web.StreamResponse:
        await let.wait()
        raise web.HTTPForbidden

    slow = Party(tmp_path / "slow", 3)
    async with AsyncExitStack() as stack:
        other = await stack.enter_async_context(submitter.serve())
        corpus = await stack.enter_async_context(open_parts(node, [other], lines=lines))
        peer = await stack.enter_async_context(serve_hostile(slow, stall))
        corpus.parts.list_peers = lambda: [peer]
        waited = asyncio.create_task(prepare_steps(corpus, SPEC, BEACONS[0], 0, range(2)))
        while len(lines) < 2:
            await asyncio.sleep(0.01)
        assert lines[0].startswith("waiting for the dataset: 0 of ") and str(peer) in lines[0]
        let.set()
        with pytest.raises(EnvironmentFault):
            await waited
        said = len(lines)
        await asyncio.sleep(0.05)
        assert len(lines) == said


async def test_nobody_has_it_whole_though_parts_are_served(
    submitter: Party, node: Party, tmp_path: Path
) -> None:
    async with submitter.serve() as peer, open_parts(node, [peer]) as corpus:
        await prepare_steps(corpus, SPEC, BEACONS[0], 0, range(3))
    third = Party(tmp_path / "third", 3)
    async with node.serve() as peer, third.make_client() as client:
        with pytest.raises(EnvironmentFault, match="does not serve"):
            await client.fetch(peer, REF)


def lie(kind: str, honest: bytes) -> bytes:
    changed = bytearray(honest)
    changed[len(honest) // 2] ^= 1
    return {"false": bytes(changed), "long": honest + bytes(5_000_000), "short": honest[:-1]}[kind]


@pytest.mark.parametrize("kind", ["false", "long", "short"])
async def test_who_sends_other_bytes_is_refused_and_another_is_asked(
    submitter: Party, node: Party, tmp_path: Path, kind: str
) -> None:
    liar, asked = Party(tmp_path / "liar", 9), list[str]()
    liar.store.put_dataset(DATA)
    source = LeafSource(liar.store)
    outline = source.find_outline(REF.key)
    assert outline is not None

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if "/chunks/" in request.path:
            return web.Response(body=liar.store.get_chunk_roots(REF.key))
        asked.append(request.path)
        runs = [one.split("-") for one in request.query["runs"].split(",")]
        honest = source.answer(outline, [LeafRun(int(a, 16), int(b, 16)) for a, b in runs])
        return web.Response(body=lie(kind, honest))

    async with (
        submitter.serve() as good,
        serve_hostile(liar, answer) as bad,
        open_parts(node, [bad, good]) as corpus,
    ):
        await prepare_steps(corpus, SPEC, BEACONS[0], 0, range(3))
        await prepare_steps(corpus, SPEC, BEACONS[1], 0, range(3))
        found = await asyncio.to_thread(get_batch, corpus, SPEC, BEACONS[1], 0, 1)
    assert len(asked) == 1, "a liar is not asked again"
    assert torch.equal(found.tokens_BT, get_batch(open_corpus(DATA, SPEC), SPEC, BEACONS[1], 0, 1)[0])


async def test_who_was_not_reached_is_asked_again(submitter: Party, node: Party, tmp_path: Path) -> None:
    """Another machine answered at the submitter's address once, or its endpoint was announced anew: that says
    nothing about what the submitter sends."""
    stranger, peers = Party(tmp_path / "stranger", 9), list[Peer]()
    async with submitter.serve() as good, stranger.serve() as other, open_parts(node, [good]) as corpus:
        corpus.parts.list_peers = lambda: peers
        peers.append(Peer(good.account, other.url, good.fingerprint))
        with pytest.raises(EnvironmentFault, match="another TLS certificate"):
            await prepare_steps(corpus, SPEC, BEACONS[0], 0, range(2))
        peers[:] = [good]
        await prepare_steps(corpus, SPEC, BEACONS[0], 0, range(2))


async def test_who_is_slow_and_then_lies_is_not_asked_again(
    submitter: Party, node: Party, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_inputs, "PAUSE_S", 0.5)
    liar, asked = Party(tmp_path / "liar", 9), list[str]()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.path)
        await asyncio.sleep(1.5)
        return web.Response(body=b"\xff" * 30_000)

    async with (
        submitter.serve() as good,
        serve_hostile(liar, answer) as bad,
        serve_hostile(Party(tmp_path / "empty", 8), answer) as other,
        open_parts(node, [good]) as corpus,
    ):
        corpus.parts.list_peers = lambda: [bad, other]
        with pytest.raises(EnvironmentFault):
            await prepare_steps(corpus, SPEC, BEACONS[0], 0, range(2))
        # Each once in haste and once with retries.
        assert len(asked) == 4
        corpus.parts.list_peers = lambda: [bad, other, good]
        await prepare_steps(corpus, SPEC, BEACONS[0], 0, range(2))
        assert len(asked) == 4


async def test_false_roots_of_chunks_are_refused(submitter: Party, node: Party, tmp_path: Path) -> None:
    liar = Party(tmp_path / "liar", 9)

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=bytes(31) + b"\1" + submitter.store.get_chunk_roots(REF.key)[32:])

    async with submitter.serve() as good, serve_hostile(liar, answer) as bad:
        async with open_parts(node, [bad, good]):
            pass
        with pytest.raises(ProtocolFault, match="do not give the root"):
            async with open_parts(Party(tmp_path / "other", 4), [bad]):
                pass


async def test_a_leaf_is_shown_with_its_path_to_the_root(submitter: Party, node: Party) -> None:
    async with submitter.serve() as peer, open_parts(node, [peer]) as corpus:
        for leaf in (0, 31, 32, count_leaves(REF) - 1):
            proof = await corpus.open_leaf(leaf)
            assert proof.data == DATA[leaf * 1024 : (leaf + 1) * 1024].ljust(1024, b"\0")
            count = count_leaves(REF)
            assert is_valid_path(SPEC.dataset_root, hash_leaf(proof.data), leaf, count, proof.path)
            assert proof == await open_corpus(DATA, SPEC).open_leaf(leaf)


async def test_a_number_outside_the_vocabulary_is_told_once_and_stops_nobody(
    node: Party, tmp_path: Path
) -> None:
    data, lines = make_data(outside=9), list[str]()
    spec, submitter = make_spec(data), Party(tmp_path / "submitter", 1)
    submitter.store.put_dataset(data)
    async with submitter.serve() as peer, open_parts(node, [peer], spec, lines) as corpus:
        for step in range(3):
            batch = await asyncio.to_thread(get_batch, corpus, spec, BEACONS[0], 0, step)
            raw = await asyncio.to_thread(
                corpus.read_rows, list_starts(spec, BEACONS[0], 0, [step]), spec.sequence_tokens
            )
            assert int(batch.tokens_BT.max()) < 300 and int(raw.max()) == 60_000
            assert torch.equal(batch.tokens_BT, raw.where(raw < 300, OUTSIDE_TOKEN))
    assert len(lines) == 1 and "FAULT OF THE TASK" in lines[0] and "60000" in lines[0]


# What a stranger may ask
@pytest.mark.parametrize("runs", ["", "0-20", "ffff-ffff", "1-0", "0-0," * 200 + "0-0"])
async def test_a_malformed_request_gets_no_leaf(submitter: Party, node: Party, runs: str) -> None:
    async with submitter.serve() as peer, open_session() as session:
        path = f"/leaves/{REF.key}?runs={runs}"
        headers = node.signer.sign("GET", path, peer.account)
        async with session.get(peer.format_url(path), headers=headers, ssl=False) as response:
            assert response.status == 400 and "runs" in await response.text()


async def test_an_unsigned_request_gets_no_leaf(submitter: Party) -> None:
    async with submitter.serve() as peer, open_session() as session:
        url = peer.format_url(f"/leaves/{REF.key}?runs=0-0")
        response = await session.get(url, ssl=False)
        assert response.status == 401


async def test_parts_of_other_kinds_and_unknown_datasets_are_not_served(
    submitter: Party, node: Party
) -> None:
    async with submitter.serve() as peer, open_session() as session:
        for name, status in ((f"tensor/{'0' * 64}", 404), (f"dataset/{'0' * 64}", 403)):
            path = f"/leaves/{name}?runs=0-0"
            headers = node.signer.sign("GET", path, peer.account)
            async with session.get(peer.format_url(path), headers=headers, ssl=False) as response:
                assert response.status == status


async def test_threads_that_all_wait_for_leaves_get_them(submitter: Party, node: Party) -> None:
    """Steps compute in asyncio's threads. What fetches their leaves, and what serves them, needs none."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
    async with submitter.serve() as peer, open_parts(node, [peer]) as corpus:
        work = [asyncio.to_thread(get_batch, corpus, SPEC, BEACONS[0], 0, step) for step in range(4)]
        async with asyncio.timeout(20):
            await asyncio.gather(*work)


async def test_nothing_is_computed_on_leaves_that_the_disk_did_not_take(
    submitter: Party, node: Party
) -> None:
    """A dispute could not be answered with them once nobody else serves them."""
    async with submitter.serve() as peer, open_parts(node, [peer]) as corpus:
        node.parts._connection.execute("PRAGMA query_only = ON")
        with pytest.raises(EnvironmentFault, match="cache of the dataset's parts"):
            await prepare_steps(corpus, SPEC, BEACONS[0], 0, range(2))
        with pytest.raises(EnvironmentFault, match="cache of the dataset's parts"):
            await asyncio.to_thread(get_batch, corpus, SPEC, BEACONS[0], 0, 0)


async def test_many_runs_count_as_many_requests(submitter: Party, node: Party) -> None:
    """For each a chunk is read and hashed: a stranger could keep a node busy with one request a second."""
    submitter.limits = WireLimits(requests_per_second=0.001, burst_requests=20)
    runs, statuses = ",".join(f"{leaf:x}-{leaf:x}" for leaf in range(0, 256, 2)), []
    async with submitter.serve() as peer, open_session() as session:
        for _ in range(4):
            path = f"/leaves/{REF.key}?runs={runs}"
            headers = node.signer.sign("GET", path, peer.account)
            async with session.get(peer.format_url(path), headers=headers, ssl=False) as response:
                statuses.append(response.status)
    assert statuses == [200, 200, 200, 429]


async def test_many_runs_of_strangers_count_as_many_requests_of_strangers(
    submitter: Party, tmp_path: Path
) -> None:
    """An account costs nothing: each could bring a bucket of its own and keep a node hashing chunks."""
    submitter.is_member = lambda account: False
    submitter.limits = WireLimits(strangers_per_second=0.001, strangers_burst=20, stranger_address_burst=0)
    runs, statuses = ",".join(f"{leaf:x}-{leaf:x}" for leaf in range(0, 256, 2)), []
    async with submitter.serve() as peer, open_session() as session:
        for number in range(4):
            path = f"/leaves/{REF.key}?runs={runs}"
            stranger = Party(tmp_path / f"stranger{number}", 20 + number)
            headers = stranger.signer.sign("GET", path, peer.account)
            async with session.get(peer.format_url(path), headers=headers, ssl=False) as response:
                statuses.append(response.status)
    assert statuses == [200, 200, 200, 429]
