"""Two lengths under one root between nodes: who has a blob of one length serves whoever names the other.

A peer keeps one file for all names of a blob. An honest step has such tensors: zeros of few elements.
"""

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.protocol.adapters.parties import Party, compute_levels
from tests.protocol.compute.program.hand_written import HandWritten, M, V, W, judge
from touchstone.node.joining.task_step import StepSource
from touchstone.node.kit.remote_trace import open_trace
from touchstone.node.kit.stored_step import keep_step, list_constants
from touchstone.node.kit.trace_storage import TraceBuffer, TraceKeeper
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind, BlobRef, refer_trace_tensor
from touchstone.protocol.spec.data_trees import compute_data_root
from touchstone.protocol.spec.program_operations import Operation

ONE = b"\1\0\0\0"
THREE = [TraceBuffer(1, 1024), TraceBuffer(300, 1024), TraceBuffer(2, 1024)]
ZEROS = [bytes(4), b"\1" * 1200, bytes(8)]


def keep_trace(store: BlobStore, layout: Sequence[TraceBuffer], tensors: Sequence[bytes]) -> bytes:
    keeper = TraceKeeper(store, layout, {})
    for number, data in enumerate(tensors):
        keeper.keep(number, data, compute_levels(data, layout[number].leaf_bytes))
    return keeper.finish()


@pytest.mark.parametrize("lengths", [(1, 2), (2, 1), (0, 1, 2)])
async def test_a_joiner_fetches_constants_of_one_root(tmp_path: Path, lengths: tuple[int, ...]) -> None:
    """0: the host has the shorter one alone, which says as much as the longer one."""
    written = HandWritten(8)
    one, two = written.constant([1.0]), written.constant([1.0, 0.0])
    new_w = written.flat(Operation.MULTIPLY, W, (one, 0))
    program = written.finish(written.flat(Operation.ADD, new_w, (two, 1)), *written.copies(M, V))
    judged, refs = judge(written, program, "float32"), list_constants(program)
    host, joiner = Party(tmp_path / "host", 1), Party(tmp_path / "joiner", 2)
    keep_step(host.store, judged.training, judged.step)
    if 0 in lengths:
        host.store.delete(refs[two].key)
        host.store.put(refs[one], written.constants[one].numpy().tobytes())
    async with host.serve() as peer, joiner.make_client() as client:
        source = StepSource(joiner.store, client, lambda: [peer], lambda line: None)
        for number in [{1: one, 2: two}[length] for length in lengths if length]:
            await source.have([refs[number]], "a constant")
    assert all(joiner.store.has(refs[number]) for number in (one, two))


async def test_a_trace_with_one_root_twice_is_searched_to_its_end(tmp_path: Path) -> None:
    """With little room: each tensor takes the place of the one before."""
    claimant, challenger = Party(tmp_path / "claimant", 1), Party(tmp_path / "challenger", 2)
    root = keep_trace(claimant.store, THREE, ZEROS)
    async with claimant.serve() as peer, challenger.make_client() as client:
        remote = await open_trace(challenger.store, client, peer, root, THREE, {}, limit_bytes=1206)
        for number in (0, 1, 2, 0):
            await remote.fetch(number)
        remote.evict()
    assert not challenger.store.list_keys(BlobKind.TRACE_1024)


async def test_a_cheat_that_serves_the_length_asked_for_ends_no_search(tmp_path: Path) -> None:
    claimant, challenger = Party(tmp_path / "claimant", 1), Party(tmp_path / "challenger", 2)
    root = keep_trace(claimant.store, THREE, ZEROS)
    path = claimant.store.get_path(refer_trace_tensor(compute_data_root(bytes(4)), 4, 1024).key)
    async with claimant.serve() as peer, challenger.make_client() as client:
        remote = await open_trace(challenger.store, client, peer, root, THREE, {}, limit_bytes=1206)
        for number in (0, 1, 2):
            path.write_bytes(ZEROS[number][:8])
            await remote.fetch(number)


async def test_what_was_here_before_a_search_stays_after_it(tmp_path: Path) -> None:
    """The challenger shows the shorter tensor in a dispute of its own; the cheat's trace has zeros behind."""
    layout = [TraceBuffer(1, 1024), TraceBuffer(2, 1024)]
    claimant, challenger = Party(tmp_path / "claimant", 1), Party(tmp_path / "challenger", 2)
    keep_trace(challenger.store, layout, [ONE, b"\5" * 8])
    root = keep_trace(claimant.store, layout, [b"\7" * 4, ONE + bytes(4)])
    async with claimant.serve() as peer, challenger.make_client() as client:
        remote = await open_trace(challenger.store, client, peer, root, layout, {})
        await remote.fetch(1)
        remote.evict()
    assert challenger.store.has(refer_trace_tensor(compute_data_root(ONE), 4, 1024))


@pytest.mark.parametrize("elements", [4, 3])
async def test_what_was_kept_during_a_search_stays_after_it(tmp_path: Path, elements: int) -> None:
    """Fetched first, then kept as part of an own trace: as the same blob, or as a shorter name of it."""
    layout = [TraceBuffer(4, 1024)]
    claimant, challenger = Party(tmp_path / "claimant", 1), Party(tmp_path / "challenger", 2)
    root = keep_trace(claimant.store, layout, [bytes(16)])
    async with claimant.serve() as peer, challenger.make_client() as client:
        remote = await open_trace(challenger.store, client, peer, root, layout, {})
        await remote.fetch(0)
        keep_trace(challenger.store, [TraceBuffer(elements, 1024)], [bytes(4 * elements)])
        remote.evict()
    assert challenger.store.has(refer_trace_tensor(compute_data_root(bytes(16)), 4 * elements, 1024))


def test_of_two_writers_at_once_neither_loses_its_length(tmp_path: Path) -> None:
    store, data = BlobStore(tmp_path, is_durable=False), b"\1" + bytes(99)
    refs = [BlobRef(BlobKey(BlobKind.STEP, compute_data_root(b"\1")), size) for size in range(1, 100)]
    for _ in range(5):
        writers = [
            threading.Thread(target=lambda ref=ref: store.put(ref, data[: ref.size_bytes])) for ref in refs
        ]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert all(store.has(ref) for ref in refs)
        store.delete(refs[0].key)


@pytest.mark.parametrize("other_bytes", [20_004, 19_996, 19_969])
async def test_the_last_chunk_is_read_of_another_length(tmp_path: Path, other_bytes: int) -> None:
    """As a challenger looks for a leaf: chunk by chunk. The blob ends in its 40th leaf of 512 bytes."""
    data = b"\1" * 19_969 + bytes(31)
    own = refer_trace_tensor(compute_levels(data, 512)[-1][0], len(data), 512)
    host, reader = Party(tmp_path / "host", 1), Party(tmp_path / "reader", 2)
    host.store.put(replace(own, size_bytes=other_bytes), (data + bytes(4))[:other_bytes])
    async with host.serve() as peer, reader.make_client() as client:
        roots = await client.fetch_chunk_roots(peer, own)
        assert len(roots) == 2
        chunk = await client.fetch_chunk(peer, own, 1, roots[1])
        assert chunk == data[16_384:]
        await client.fetch(peer, own)
    assert reader.store.get(own) == data
