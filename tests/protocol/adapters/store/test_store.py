import errno
import os
import stat
import time
from pathlib import Path

import pytest

from tests.protocol.adapters.parties import (
    CHUNK_ELEMENTS,
    compute_levels,
    make_roots,
    make_tensor,
    make_trace_tensor,
)
from touchstone.protocol.adapters.files import unchanged_files
from touchstone.protocol.adapters.store import blob_store as store_module
from touchstone.protocol.adapters.store.blob_store import ABANDONED_SECONDS, BlobStore
from touchstone.protocol.adapters.store.blob_verifier import BlobVerifier
from touchstone.protocol.adapters.store.blobs import CHUNK_DEPTH, BlobKey, BlobKind, refer_tensor
from touchstone.protocol.spec import data_trees, merkle
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput, ProtocolFault


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


def list_incoming(store: BlobStore) -> list[str]:
    return os.listdir(store.folder / "incoming")


def test_what_is_put_is_got(store: BlobStore) -> None:
    data, ref = make_tensor(2 * CHUNK_ELEMENTS + 5)
    assert store.put_tensor(ref.key.root, data) == ref
    assert store.has(ref)
    assert store.get(ref) == data
    assert store.get_path(ref.key).read_bytes() == data
    assert len(store.get_chunk_roots(ref.key)) == 3 * 32


def test_each_kind_has_its_address(store: BlobStore) -> None:
    corpus = store.put_dataset(b"def main(): ..." * 1000)
    assert corpus.key == BlobKey(BlobKind.DATASET, data_trees.compute_data_root(b"def main(): ..." * 1000))
    leaf = bytes(260)
    assert store.get(store.put_delta(merkle.hash_leaf(leaf), leaf)) == leaf


def test_folder_and_files_are_private(store: BlobStore) -> None:
    ref = store.put_dataset(b"x")
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(store.get_path(ref.key).stat().st_mode) == 0o600


def test_a_folder_open_to_others_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    with pytest.raises(InvalidInput, match="chmod 700"):
        BlobStore(tmp_path / "open")


def test_wrong_bytes_are_never_kept(store: BlobStore) -> None:
    data, ref = make_tensor(300)
    with pytest.raises(InvalidInput, match="do not match their root"):
        store.put_tensor(ref.key.root, data[::-1])
    assert not store.has(ref)
    assert list_incoming(store) == []


def test_what_is_not_committed_leaves_nothing(store: BlobStore) -> None:
    data, ref = make_tensor(300)
    with store.open_writer(ref) as writer:
        writer.write(data)
    with pytest.raises(ProtocolFault), store.open_writer(ref) as writer:
        writer.write(data + b"more")
    assert not store.has(ref)
    assert list_incoming(store) == []


def test_a_damaged_blob_is_found_and_removed(store: BlobStore) -> None:
    data, ref = make_tensor(300)
    store.put(ref, data)
    store.get_path(ref.key).write_bytes(data[::-1])
    with pytest.raises(EnvironmentFault, match="damaged"):
        store.get(ref)
    assert not store.has(ref)


def test_open_map_shows_the_bytes_where_they_lie(store: BlobStore) -> None:
    data, ref = make_tensor(300)
    store.put(ref, data)
    mapped = store.open_map(ref)
    store.delete(ref.key)
    assert mapped[:] == data


def test_open_map_of_a_damaged_blob_is_refused(store: BlobStore) -> None:
    data, ref = make_tensor(300)
    store.put(ref, data)
    damage(store.get_path(ref.key), data[::-1])
    with pytest.raises(EnvironmentFault, match="damaged"):
        store.open_map(ref)
    assert not store.has(ref)


def damage(path: Path, data: bytes) -> None:
    """Write at another time than now: clocks of files tick every few milliseconds."""
    path.write_bytes(data)
    os.utime(path, (1000, 1000))


def test_what_was_judged_a_moment_ago_is_mapped_as_it_is(
    store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = []

    def note(verifier: BlobVerifier, data: bytes) -> None:
        judged.append(data)

    data, ref = make_tensor(300)
    store.put(ref, data)
    with monkeypatch.context() as patch:
        patch.setattr(BlobVerifier, "update", note)
        assert store.open_map(ref)[:] == data
    assert not judged
    other = BlobStore(store.folder)
    for _ in range(2):
        assert other.open_map(ref)[:] == data
    monkeypatch.setattr(unchanged_files, "REMEMBERED_SECONDS", 0)
    monkeypatch.setattr(BlobVerifier, "update", note)
    with pytest.raises(EnvironmentFault, match="too short"):
        other.open_map(ref)
    assert judged


def test_another_file_is_judged_again(store: BlobStore) -> None:
    data, ref = make_tensor(300)
    store.put(ref, data)
    store.open_map(ref)
    damage(store.get_path(ref.key), data[:-1] + b"\0")
    with pytest.raises(EnvironmentFault, match="do not match their root"):
        store.open_map(ref)


# Leaves
@pytest.mark.parametrize("elements", [1, 300, CHUNK_ELEMENTS, 2 * CHUNK_ELEMENTS + 300, 5 * CHUNK_ELEMENTS])
def test_leaves_are_opened_as_the_whole_tree_would(store: BlobStore, elements: int) -> None:
    data, ref = make_tensor(elements)
    store.put(ref, data)
    levels = data_trees.compute_data_levels(data)
    last = len(levels[0]) - 1
    indices = sorted({last, 0, 7, 1030, last // 2} & set(range(last + 1)), reverse=True)
    for index, proof in zip(indices, store.open_leaves(ref, indices), strict=True):
        assert proof.data == data[1024 * index : 1024 * (index + 1)].ljust(1024, b"\0")
        assert list(proof.path) == merkle.compute_path(levels, index)
    for none in (last + 1, -1):
        with pytest.raises(InvalidInput):
            store.open_leaves(ref, [0, none])


def test_leaves_of_a_pseudo_gradient_are_opened(store: BlobStore) -> None:
    data = bytes(range(1, 251)) * 260 * 5
    root = compute_levels(data, 260)[-1][0]
    ref = store.put_delta(root, data)
    [proof] = store.open_leaves(ref, [1100])
    assert proof.data == data[1100 * 260 : 1101 * 260]
    assert merkle.is_valid_path(root, merkle.hash_leaf(proof.data), 1100, 1250, proof.path)


@pytest.mark.parametrize("left", [b"", bytes(96), bytes(31)])
def test_lost_chunk_roots_cost_one_look_at_all(store: BlobStore, left: bytes) -> None:
    data, ref = make_tensor(2 * CHUNK_ELEMENTS + 300)
    store.put(ref, data)
    expected = store.open_leaves(ref, [2000])
    store.get_path(ref.key).with_suffix(".chunks").write_bytes(left)
    assert store.open_leaves(ref, [2000]) == expected


def test_a_leaf_of_a_damaged_chunk_is_never_shown(store: BlobStore) -> None:
    data, ref = make_tensor(2 * CHUNK_ELEMENTS)
    store.put(ref, data)
    store.get_path(ref.key).write_bytes(data[:5000] + b"\0" + data[5001:])
    assert store.open_leaves(ref, [1024])
    with pytest.raises(EnvironmentFault, match="damaged"):
        store.open_leaves(ref, [0])
    assert not store.has(ref)


def test_another_length_is_another_blob(store: BlobStore) -> None:
    data, ref = make_tensor(100)
    store.put(ref, data)
    assert not store.has(refer_tensor(ref.key.root, 256))


def test_an_absent_blob_is_told(store: BlobStore) -> None:
    with pytest.raises(InvalidInput, match="not in the store"):
        store.get(refer_tensor(b"absent".ljust(32), 1))


def test_ranges(store: BlobStore) -> None:
    data, ref = make_tensor(CHUNK_ELEMENTS)
    store.put(ref, data)
    assert b"".join(store.open_range(ref.key, 3, 700_000)) == data[3:700_000]
    assert b"".join(store.open_range(ref.key, len(data))) == b""
    for start, stop in [(-1, 5), (5, 4), (0, len(data) + 1)]:
        with pytest.raises(InvalidInput, match="outside the blob"):
            store.open_range(ref.key, start, stop)


def test_a_full_disk_is_told_before_the_first_byte(store: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "RESERVE_BYTES", 1 << 60)
    with pytest.raises(EnvironmentFault, match="disk of the blob store is full") as caught:
        store.put_dataset(b"x")
    assert not caught.value.retryable


def test_space_for_many_blobs_is_asked_for_at_once(store: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "compute_free_bytes", lambda: store_module.RESERVE_BYTES + 1000)
    store.require_space(1000, "a trace")
    needed = store_module.RESERVE_BYTES + 1001
    with pytest.raises(EnvironmentFault, match=f"{needed} bytes free for a trace, got {needed - 1} bytes"):
        store.require_space(1001, "a trace")


def test_hashed_bytes_are_kept_under_their_chunks(store: BlobStore) -> None:
    data, ref = make_tensor(2 * CHUNK_ELEMENTS + 5)
    chunks = data_trees.compute_data_levels(data)[CHUNK_DEPTH]
    store.put_hashed(ref, data, chunks)
    assert store.get(ref) == data
    assert store.get_chunk_roots(ref.key) == b"".join(chunks)


def test_hashed_bytes_need_chunks_of_their_root(store: BlobStore) -> None:
    data, ref = make_tensor(2 * CHUNK_ELEMENTS + 5)
    chunks = data_trees.compute_data_levels(data)[CHUNK_DEPTH]
    with pytest.raises(InvalidInput, match="do not belong"):
        store.put_hashed(ref, data, [*chunks[:-1], bytes(32)])
    with pytest.raises(InvalidInput, match="do not belong"):
        store.put_hashed(ref, data[:-4], chunks)
    assert not store.has(ref)
    assert list_incoming(store) == []


def test_hashed_bytes_that_the_disk_does_not_take_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, (data, ref) = BlobStore(tmp_path / "store"), make_tensor(CHUNK_ELEMENTS)

    def fail(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(EnvironmentFault, match="cannot be written"):
        store.put_hashed(ref, data, [ref.key.root])
    assert not store.has(ref) and not list_incoming(store)


def test_what_killed_writers_left_goes_and_what_is_written_stays(tmp_path: Path) -> None:
    """Two processes may have the store open: a file that was just written to may be the other one's."""
    BlobStore(tmp_path / "store")
    left, written = (tmp_path / "store" / "incoming" / name for name in ("left", "written"))
    for path in (left, written):
        path.write_bytes(b"half a tensor")
    long_ago = time.time() - ABANDONED_SECONDS - 60
    os.utime(left, (long_ago, long_ago))
    BlobStore(tmp_path / "store")
    assert not left.exists() and written.exists()


# Traces
@pytest.mark.parametrize("leaf_bytes", [512, 1024, 2048, 4096])
def test_hashed_tensors_of_a_trace_are_kept(store: BlobStore, leaf_bytes: int) -> None:
    data, ref, chunk_roots = make_trace_tensor(300 * leaf_bytes + 1, leaf_bytes)
    store.put_hashed(ref, memoryview(data), chunk_roots)
    assert store.get(ref) == data
    assert store.get_chunk_roots(ref.key) == b"".join(chunk_roots)
    assert b"".join(store.open_range(ref.key, 9, 99_999)) == data[9:99_999]


@pytest.mark.parametrize("count", [1, 548, 1024, 2100])
def test_a_list_of_roots_is_kept_under_the_trace_root(store: BlobStore, count: int) -> None:
    roots = make_roots(count)
    ref = store.put_roots(roots)
    assert ref.key == BlobKey(BlobKind.ROOTS, merkle.compute_root(roots))
    assert store.get_roots(ref.key.root) == tuple(roots)
    assert store.get_roots(bytes(32)) == ()


@pytest.mark.parametrize("roots", [[], [bytes(32)], [bytes(31)]])
def test_what_is_no_root_is_not_kept_as_one(store: BlobStore, roots: list[bytes]) -> None:
    with pytest.raises(InvalidInput):
        store.put_roots(roots)
    assert not store.list_keys(BlobKind.ROOTS) and not list_incoming(store)


@pytest.mark.parametrize("damage", [b"", b"x", b"x" * 33, b"x" * 64])
def test_a_damaged_list_of_roots_is_found_and_removed(store: BlobStore, damage: bytes) -> None:
    ref = store.put_roots(make_roots(2))
    store.get_path(ref.key).write_bytes(damage)
    with pytest.raises(EnvironmentFault, match="damaged"):
        store.get_roots(ref.key.root)
    assert store.get_roots(ref.key.root) == ()


def test_blobs_of_a_kind_are_listed(store: BlobStore) -> None:
    data, ref, chunk_roots = make_trace_tensor(128, 512)
    store.put_hashed(ref, data, chunk_roots)
    assert store.list_keys(BlobKind.TRACE_512) == [ref.key] and store.list_keys(BlobKind.TRACE_4096) == []
