"""The trace of a step from the claimant's disk to a challenger's eyes, over real HTTPS."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.protocol.adapters.parties import Party, compute_levels
from tests.protocol.spec.game.simulation import make_word
from touchstone.node.kit.remote_trace import RemoteTrace, open_trace
from touchstone.node.kit.trace_storage import TraceBuffer, TraceKeeper, load_buffer
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import TRACE_KINDS, BlobKind, refer_roots, refer_trace_tensor
from touchstone.protocol.compute.digest import build_byte_tree, tensor_bytes
from touchstone.protocol.spec import merkle
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput, ProtocolFault
from touchstone.protocol.spec.program import INDEX_ROLES, INTEGER_ROLES, Role

LAYOUT = (
    TraceBuffer(300, 1024),
    TraceBuffer(33, 2048, Role.TOKENS),
    TraceBuffer(100, 1024),
    TraceBuffer(3 * 512 * 1024 + 5, 2048),
    TraceBuffer(700, 2048),
    TraceBuffer(301, 1024),
)
CONSTANT = 2
"""Nobody keeps it: everybody has it."""
WIDE = 3
"""Three whole chunks and a short one."""
CONSTANTS = {CONSTANT: make_word("constant")}


TracedTensor = tuple[int, memoryview, merkle.Levels]
"""Number of a buffer, its bytes, all levels of its tree."""


def make_bytes(number: int, seed: int = 0) -> bytes:
    """The elements of a buffer: any bits, so that some are not finite."""
    bits = np.random.default_rng([seed, number]).integers(0, 1 << 32, LAYOUT[number].elements, dtype="<u4")
    bits[::7] = 0x7FC00001
    return bits.tobytes()


def iterate_tensors(seed: int = 0) -> Iterator[TracedTensor]:
    """All that is kept of a trace, the last buffer first."""
    for number in reversed(range(len(LAYOUT))):
        if number != CONSTANT:
            data = make_bytes(number, seed)
            yield number, memoryview(data), compute_levels(data, LAYOUT[number].leaf_bytes)


def list_roots(seed: int = 0) -> tuple[bytes, ...]:
    roots = {number: levels[-1][0] for number, _, levels in iterate_tensors(seed)} | CONSTANTS
    return tuple(roots[number] for number in range(len(LAYOUT)))


def keep_all(store: BlobStore, roots: Mapping[int, bytes], tensors: Iterable[TracedTensor]) -> bytes:
    keeper = TraceKeeper(store, LAYOUT, roots)
    for tensor in tensors:
        keeper.keep(*tensor)
    return keeper.finish()


def keep(store: BlobStore, seed: int = 0) -> bytes:
    return keep_all(store, CONSTANTS, iterate_tensors(seed))


def is_whole(store: BlobStore, trace_root: bytes) -> bool:
    """Whether the list of a trace is in the store, and each tensor but the constants."""
    roots = store.get_roots(trace_root)
    if len(roots) != len(LAYOUT):
        return False
    refs = (
        refer_trace_tensor(root, b.size_bytes, b.leaf_bytes) for root, b in zip(roots, LAYOUT, strict=True)
    )
    return all(store.has(ref) for number, ref in enumerate(refs) if number not in CONSTANTS)


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs", is_durable=False)


@pytest.fixture
def claimant(tmp_path: Path) -> Party:
    return Party(tmp_path / "claimant", 1)


@pytest.fixture
def challenger(tmp_path: Path) -> Party:
    return Party(tmp_path / "challenger", 2)


@asynccontextmanager
async def look(
    claimant: Party, challenger: Party, trace_root: bytes, **more: Any
) -> AsyncIterator[RemoteTrace]:
    """The claimant's trace as the challenger sees it, claimant served."""
    more = {"known": {}} | more
    async with claimant.serve() as peer, challenger.make_client() as client:
        yield await open_trace(challenger.store, client, peer, trace_root, LAYOUT, **more)


def is_same(found: torch.Tensor, number: int, start: int = 0, stop: int | None = None) -> bool:
    """Bit for bit."""
    expected = np.frombuffer(make_bytes(number), dtype="<u4")[start:stop]
    bits = found.numpy() if LAYOUT[number].role in INDEX_ROLES else found.numpy().view("<u4")
    return np.array_equal(bits.astype(np.int64), expected.astype(np.int64))


# Keeping
def test_keep_trace_keeps_each_tensor_and_the_list_of_roots(store: BlobStore) -> None:
    trace_root = keep(store)
    assert trace_root == merkle.compute_root(list_roots()) and is_whole(store, trace_root)
    assert store.get_roots(trace_root) == list_roots()
    for number, root in enumerate(list_roots()):
        ref = refer_trace_tensor(root, LAYOUT[number].size_bytes, LAYOUT[number].leaf_bytes)
        assert store.has(ref) is (number != CONSTANT)
        assert number == CONSTANT or store.get(ref) == make_bytes(number)


def test_load_buffer_gives_what_was_kept(store: BlobStore) -> None:
    keep(store)
    for number in (0, 1, WIDE):
        assert is_same(load_buffer(store, list_roots()[number], LAYOUT[number]), number)
    with pytest.raises(InvalidInput, match="not in the store"):
        load_buffer(store, make_word("constant"), LAYOUT[CONSTANT])


def test_keep_trace_holds_one_tensor_at_a_time(store: BlobStore) -> None:
    kept: list[int] = []

    def count() -> Iterator[TracedTensor]:
        for tensor in iterate_tensors():
            kept.append(sum(len(store.list_keys(kind)) for kind in TRACE_KINDS))
            yield tensor

    keep_all(store, CONSTANTS, count())
    assert kept == [0, 1, 2, 3, 4]


def test_keep_trace_broken_off_is_no_trace(store: BlobStore) -> None:
    def break_off() -> Iterator[TracedTensor]:
        yield next(iterate_tensors())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        keep_all(store, CONSTANTS, break_off())
    assert not is_whole(store, merkle.compute_root(list_roots())) and store.list_keys(BlobKind.ROOTS) == []
    assert is_whole(store, keep(store))


def test_keep_trace_refuses_what_does_not_fit(store: BlobStore) -> None:
    number, data, levels = next(iterate_tensors())
    wrong = {
        "no such buffer": (len(LAYOUT), data, levels),
        "the wrong length": (number, data[4:], levels),
        "in 1 leaves": (number, data, compute_levels(bytes(data), 2048)),
    }
    for reason, tensor in wrong.items():
        with pytest.raises(InvalidInput, match=reason):
            keep_all(store, CONSTANTS, [tensor])
    with pytest.raises(InvalidInput, match="another root.*buffer 5"):
        keep_all(store, {number: make_word("another")}, iterate_tensors())
    with pytest.raises(InvalidInput, match="a root for each buffer at buffer 2"):
        keep_all(store, {}, iterate_tensors())
    assert store.list_keys(BlobKind.ROOTS) == []


def test_keep_trace_asks_for_the_disk_of_the_whole_trace(
    store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = sum(buffer.size_bytes for buffer in LAYOUT) + (64 << 20)
    monkeypatch.setattr(store, "compute_free_bytes", lambda: needed - 1)
    with pytest.raises(EnvironmentFault, match=f"{needed} bytes free for the trace.*got {needed - 1} bytes"):
        keep(store)
    assert not any(store.list_keys(kind) for kind in BlobKind)


# Dropping
# Fetching
async def test_fetch_gives_each_buffer_bit_for_bit_and_counts(claimant: Party, challenger: Party) -> None:
    trace_root = keep(claimant.store)
    async with look(claimant, challenger, trace_root) as trace:
        received = 32 * len(LAYOUT)
        assert trace.received_bytes == received
        for number in (0, 1, WIDE, 4, 5):
            found = await trace.fetch(number)
            assert is_same(found, number)
            assert found.dtype == (torch.int64 if LAYOUT[number].role in INDEX_ROLES else torch.float32)
            received += LAYOUT[number].size_bytes
            assert trace.received_bytes == received
        await trace.fetch(WIDE)
        assert trace.received_bytes == received, "what is here is not fetched again"


async def test_fetched_tensors_make_room_for_others(claimant: Party, challenger: Party) -> None:
    trace_root = keep(claimant.store)
    async with look(claimant, challenger, trace_root, limit_bytes=4 * 1000) as trace:
        for number in (0, 1, 4):  # 1,200, 132 and 2,800 bytes: one too many
            await trace.fetch(number)
        here = [challenger.store.has(trace.refer(number)) for number in (0, 1, 4)]
        assert here == [False, True, True]
        assert is_same(await trace.fetch(WIDE), WIDE), "also what is larger than the limit"
        trace.evict()
        assert not any(challenger.store.has(trace.refer(number)) for number in (0, 1, WIDE, 4))
        assert is_same(await trace.fetch(0), 0)


async def test_evict_leaves_what_was_there_before(claimant: Party, challenger: Party) -> None:
    trace_root = keep(claimant.store)
    keep(challenger.store)
    async with look(claimant, challenger, trace_root, limit_bytes=0) as trace:
        assert is_same(await trace.fetch(0), 0) and trace.received_bytes == 0
        trace.evict()
        assert challenger.store.has(trace.refer(0))


async def test_roots_that_no_proof_takes_from_the_list_are_the_challengers(
    claimant: Party, challenger: Party
) -> None:
    lie = keep_all(claimant.store, {CONSTANT: make_word("a lie")}, iterate_tensors())
    async with look(claimant, challenger, lie, known=CONSTANTS) as trace:
        assert trace.roots == list_roots()
        assert merkle.compute_root(trace.listed) == lie


async def test_a_list_that_is_not_the_posted_one_is_the_claimants_fault(
    claimant: Party, challenger: Party
) -> None:
    trace_root = keep(claimant.store)
    path = claimant.store.get_path(refer_roots(trace_root, len(LAYOUT)).key)
    path.write_bytes(path.read_bytes()[::-1])
    with pytest.raises(ProtocolFault, match="do not match their root") as caught:
        async with look(claimant, challenger, trace_root):
            pass
    assert claimant.account in caught.value.culprit
    assert not is_whole(challenger.store, trace_root)


async def test_other_bytes_than_the_posted_ones_are_the_claimants_fault(
    claimant: Party, challenger: Party
) -> None:
    trace_root = keep(claimant.store)
    async with look(claimant, challenger, trace_root) as trace:
        path = claimant.store.get_path(trace.refer(WIDE).key)
        data = bytearray(path.read_bytes())
        data[0] ^= 1
        path.write_bytes(data)
        with pytest.raises(ProtocolFault, match="a chunk does not match its hash") as caught:
            await trace.fetch(WIDE)
        assert claimant.account in caught.value.culprit
        assert not challenger.store.has(trace.refer(WIDE)) and is_same(await trace.fetch(4), 4)


# One leaf that differs
@pytest.mark.parametrize(("number", "element"), [(0, 299), (3, 5), (3, 3 * 512 * 1024 + 4), (4, 600)])
async def test_a_leaf_that_differs_is_found_by_hashes_and_fetched_alone(
    claimant: Party, challenger: Party, number: int, element: int
) -> None:
    trace_root, buffer = keep(claimant.store), LAYOUT[number]
    own = bytearray(make_bytes(number))
    own[4 * element] ^= 1
    tree = build_byte_tree(bytes(own), buffer.leaf_bytes)
    async with look(claimant, challenger, trace_root) as remote:
        before = remote.received_bytes
        leaf = await remote.find_leaf(number, tree)
        received, root = remote.received_bytes - before, remote.roots[number]
    assert leaf.index == 4 * element // buffer.leaf_bytes
    whole = make_bytes(number)[leaf.index * buffer.leaf_bytes :][: buffer.leaf_bytes]
    assert leaf.data == whole.ljust(buffer.leaf_bytes, b"\0")
    assert merkle.fold_path(merkle.hash_leaf(leaf.data), leaf.index, leaf.path) == root
    assert received <= 32 * buffer.leaf_bytes + buffer.leaf_count + 31


async def test_integers_of_a_trace_are_read_as_they_were_kept(store: BlobStore) -> None:
    layout = [TraceBuffer(300, 1024, role) for role in sorted(INTEGER_ROLES)]
    kept = [torch.arange(-150, 150).to(dtype) for dtype in (torch.int8, torch.int16, torch.int32)]
    keeper = TraceKeeper(store, layout, {})
    for number, tensor in enumerate(kept):
        data = tensor_bytes(tensor)
        keeper.keep(number, data, compute_levels(bytes(data), 1024))
    roots = store.get_roots(keeper.finish())
    for root, buffer, tensor in zip(roots, layout, kept, strict=True):
        assert torch.equal(load_buffer(store, root, buffer), tensor)
