"""Attacks on files that are written past the system's cache: what is read again is what was to be written, or
nothing is there."""

import errno
import os
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.protocol.adapters.parties import CHUNK_ELEMENTS, compute_levels, make_tensor
from touchstone.protocol.adapters.files import durable_files
from touchstone.protocol.adapters.files.durable_files import PIECE_BYTES, fill_file
from touchstone.protocol.adapters.store.blob_store import LOCK_NAME, BlobStore
from touchstone.protocol.adapters.store.blobs import BlobRef
from touchstone.protocol.adapters.store.chunk_trees import get_chunk_level
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.params import LEAF_BYTES


def write(folder: Path, data: bytes) -> Path:
    handle, name = tempfile.mkstemp(dir=folder)
    fill_file(handle, memoryview(data), is_durable=False, is_cached=False)
    return Path(name)


def make_chunks(elements: int, seed: int) -> tuple[bytes, BlobRef, list[bytes]]:
    """A tensor, its reference and the roots of its chunks."""
    data, ref = make_tensor(elements, seed)
    return data, ref, list(get_chunk_level(compute_levels(data, LEAF_BYTES), ref.key.kind))


def test_threads_that_write_at_once_do_not_mix_their_bytes(tmp_path: Path) -> None:
    """They share the memory of direct writes."""

    def write_own(number: int) -> bool:
        data = bytes([number]) * (2 * PIECE_BYTES + number)
        return write(tmp_path, data).read_bytes() == data

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(write_own, range(32)))


def test_a_process_that_was_forked_has_memory_of_its_own_to_write_from() -> None:
    """A lock holds for one process alone."""
    piece = durable_files._make_piece()
    piece[:4] = b"this"
    child = os.fork()
    if not child:
        try:
            durable_files._make_piece()[:4] = b"that"
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert bytes(piece[:4]) == b"this"


def test_a_write_that_takes_nothing_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest goes through the cache, which tells what is wrong."""
    taken = iter([PIECE_BYTES, 0])
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda handle, piece, at: pwrite(handle, piece[: next(taken)], at))
    data = os.urandom(3 * PIECE_BYTES + 5)
    assert write(tmp_path, data).read_bytes() == data


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS])
def test_a_blob_of_which_the_disk_takes_a_part_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    store, pwrite = BlobStore(tmp_path / "store", is_durable=False), os.pwrite
    data, ref, chunks = make_chunks(3 * CHUNK_ELEMENTS, 1)

    def fail(handle: int, piece: memoryview, offset: int) -> int:
        if offset:
            raise OSError(number, os.strerror(number))
        return pwrite(handle, piece, offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", fail)
        with pytest.raises(EnvironmentFault, match="cannot be written"):
            store.put_hashed(ref, data, chunks, is_cached=False)
    assert not store.has(ref) and not os.listdir(store.folder / "incoming")
    store.put_hashed(ref, data, chunks, is_cached=False)  # The same memory is used again.
    assert store.get(ref) == data


@pytest.mark.parametrize("fails_at", [1, 2], ids=["chunk roots", "blob"])
def test_a_name_that_the_disk_does_not_take_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    """A node on a full disk tries again and again."""
    store, replace = BlobStore(tmp_path / "store", is_durable=False), os.replace
    data, ref, chunks = make_chunks(CHUNK_ELEMENTS, 2)
    count = iter(range(1, 9))

    def fail(source: str, target: Path) -> None:
        if next(count) == fails_at:
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(EnvironmentFault, match="cannot be written"):
        store.put_hashed(ref, data, chunks, is_cached=False)
    assert not store.has(ref) and not os.listdir(store.folder / "incoming")


@pytest.mark.parametrize("place", ["pwrite", "piece"])
def test_what_a_direct_write_lacks_memory_for_goes_through_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """The disk has room. No operator is told to look at it."""
    pwrite = os.pwrite

    def lack(handle: int, piece: memoryview, offset: int) -> int:
        if offset:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        return pwrite(handle, piece, offset)

    def make() -> memoryview:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    if place == "pwrite":
        monkeypatch.setattr(os, "pwrite", lack)
    else:
        monkeypatch.setattr(durable_files, "_make_piece", make)
    data = os.urandom(2 * PIECE_BYTES + 5)
    assert write(tmp_path, data).read_bytes() == data


@pytest.mark.parametrize("block_bytes", [512, 4096, 16_384, 65_536, PIECE_BYTES])
@pytest.mark.parametrize("more", [0, 1, 4095, 4096, 3 * 4096 + 1, PIECE_BYTES - 4096])
def test_a_disk_of_any_blocks_gets_all_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int, more: int
) -> None:
    """It refuses what begins or ends inside of a block, and takes a few blocks of each piece at a time."""
    pwrite = os.pwrite

    def take_blocks(handle: int, piece: memoryview, offset: int) -> int:
        if len(piece) % block_bytes or offset % block_bytes:
            raise OSError(errno.EINVAL, "Invalid argument")
        return pwrite(handle, piece[: max(block_bytes, 3 << 18)], offset)

    monkeypatch.setattr(os, "pwrite", take_blocks)
    data = os.urandom(PIECE_BYTES + more)
    assert write(tmp_path, data).read_bytes() == data


WRITE_UNTIL_KILLED = """
import sys
from pathlib import Path
from touchstone.protocol.adapters.store.blob_store import BlobStore
from tests.protocol.adapters.files.test_direct_writes import make_chunks
blobs = [make_chunks(3 << 19, seed) for seed in range(3)]
store = BlobStore(Path(sys.argv[1]), is_durable=False)
print("begun", flush=True)
while True:
    for data, ref, chunks in blobs:
        store.put_hashed(ref, data, chunks, is_cached=False)
        store.delete(ref.key)
"""


def test_a_writer_that_is_killed_leaves_whole_blobs_or_none(tmp_path: Path) -> None:
    """Killed at many places: whatever bears a blob's name is that blob."""
    folder, refs = tmp_path / "store", [make_tensor(3 << 19, seed)[1] for seed in range(3)]
    for kill in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITE_UNTIL_KILLED, str(folder)], stdout=subprocess.PIPE
        )
        assert writer.stdout is not None and writer.stdout.readline()
        deadline = 0.05 + 0.07 * kill
        with pytest.raises(subprocess.TimeoutExpired):
            writer.wait(deadline)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        store = BlobStore(folder, is_durable=False)
        for ref in refs:
            if store.get_size_bytes(ref.key) is not None:
                assert len(store.get(ref)) == ref.size_bytes


WRITE_BEYOND_A_LIMIT = """
import resource, sys
from pathlib import Path
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.spec.errors import EnvironmentFault
from tests.protocol.adapters.files.test_direct_writes import make_chunks
data, ref, chunks = make_chunks(3 << 19, 0)
store = BlobStore(Path(sys.argv[1]), is_durable=False)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    store.put_hashed(ref, data, chunks, is_cached=False)
except EnvironmentFault as fault:
    print(fault.actual)
"""


@pytest.mark.parametrize(
    "limit", [1, PIECE_BYTES, PIECE_BYTES + 100, PIECE_BYTES + 4096, 2 * PIECE_BYTES + 512]
)
def test_a_limit_on_the_length_of_files_is_told(tmp_path: Path, limit: int) -> None:
    """The system takes a part of a piece first, which may end inside of a block."""
    command = [sys.executable, "-c", WRITE_BEYOND_A_LIMIT, str(tmp_path / "store"), str(limit)]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert told.strip() == os.strerror(errno.EFBIG)
    left = [path.name for path in (tmp_path / "store").rglob("*") if path.is_file()]
    assert left == [LOCK_NAME]


def test_what_was_written_directly_is_read_at_once_in_each_way(tmp_path: Path) -> None:
    """Read, mapped, by another thread, and after it was written a second time over itself."""
    store = BlobStore(tmp_path / "store", is_durable=False)
    data, ref, chunks = make_chunks(3 * CHUNK_ELEMENTS + 7, 3)
    for _ in range(2):
        store.put_hashed(ref, data, chunks, is_cached=False)
        mapped = store.open_map(ref)
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(store.get, ref).result() == mapped == data
        assert np.array_equal(np.frombuffer(mapped, np.uint8), np.frombuffer(data, np.uint8))
