"""Stores content-addressed blobs in a local folder: a file has a name only if its bytes hash to it.

Bytes go to a temporary file first, are checked while they are written, and get their name by one rename. A
crash leaves at most a temporary file, which is removed when the store is opened later. Names consist only of
a kind and 64 hexadecimal digits, so no request can reach outside the folder. Only the owner may read the
folder: an auditor that could read another node's states would not be blind.
"""

import errno
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from touchstone.protocol.adapters.files.durable_files import fill_file, sync
from touchstone.protocol.adapters.files.mapped_files import map_file
from touchstone.protocol.adapters.files.private_files import require_private_folder
from touchstone.protocol.adapters.files.unchanged_files import FilePrint, UnchangedFiles, take_print
from touchstone.protocol.adapters.store.blob_verifier import BlobVerifier, make_damage_fault, require_finite
from touchstone.protocol.adapters.store.blobs import ROOT_BYTES, BlobKey, BlobKind, BlobRef, refer_roots
from touchstone.protocol.adapters.store.chunk_trees import fold_chunks, open_leaves, split_roots
from touchstone.protocol.spec import data_trees, merkle
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput, ProtocolFault
from touchstone.protocol.spec.openings import LeafProof

READ_BYTES = 256 * 1024
"""Bytes of one read: large enough for the disk, small enough to stop soon."""
RESERVE_BYTES = 64 * 1024 * 1024
"""Bytes of disk that stay free, so that the journal can still be written."""
ABANDONED_SECONDS = 3600.0
"""A temporary file that was not written to for this many seconds belongs to a killed process."""
LOCK_NAME = "lock"
"""An empty file, there from the start, so that blobs can be removed from a full disk."""
CHUNKS = ".chunks"
"""The suffix of a file with the chunk roots of its blob."""


class BlobStore:
    """A folder of checked blobs. Safe for several threads and processes, because each blob appears by one
    rename."""

    def __init__(self, folder: Path, *, is_durable: bool = True) -> None:
        """Opens the folder, made with mode 0700 if it is missing. `is_durable` flushes each blob to disk
        before it gets its name (fsync)."""
        self.folder = folder
        self._is_durable = is_durable
        self._incoming = folder / "incoming"
        self._judged = UnchangedFiles()
        for path in (folder, self._incoming, *(folder / kind.value for kind in BlobKind)):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        require_private_folder(folder)
        if not (folder / LOCK_NAME).exists():
            (folder / LOCK_NAME).touch(mode=0o600)
        self._remove_abandoned()

    def put_tensor(self, root: bytes, data: bytes | memoryview) -> BlobRef:
        """Stores a flat little-endian float32 vector that must have the tree root `root`."""
        return self.put(BlobRef(BlobKey(BlobKind.TENSOR, root), len(data)), data)

    def put_delta(self, root: bytes, data: bytes) -> BlobRef:
        """Stores the int8 blocks of a pseudo-gradient that must have the tree root `root`."""
        return self.put(BlobRef(BlobKey(BlobKind.DELTA, root), len(data)), data)

    def put_dataset(self, data: bytes | memoryview) -> BlobRef:
        """Stores raw token bytes under their tree root, which is computed here."""
        key = BlobKey(BlobKind.DATASET, data_trees.compute_data_root(data))
        return self.put(BlobRef(key, len(data)), data)

    def put_roots(self, roots: Sequence[bytes]) -> BlobRef:
        """Stores the roots of a trace's buffers under the trace root, which is computed here. Raises
        InvalidInput if one of them is no root."""
        return self.put(refer_roots(merkle.compute_root(roots), len(roots)), b"".join(roots))

    def put(self, ref: BlobRef, data: bytes | memoryview) -> BlobRef:
        """Stores `data` as `ref`. Raises InvalidInput if they do not match, EnvironmentFault on a full
        disk."""
        with _blame_caller(), self.open_writer(ref) as writer:
            for start in range(0, len(data), READ_BYTES):
                writer.write(bytes(data[start : start + READ_BYTES]))
            writer.commit()
        return ref

    def put_hashed(
        self, ref: BlobRef, data: bytes | memoryview, chunk_roots: Sequence[bytes], *, is_cached: bool = True
    ) -> BlobRef:
        """Stores bytes whose tree the caller has just built, without hashing them again.

        It checks only that `chunk_roots` fold to the root, and that a tensor is finite. `get` checks the
        bytes when they are read; `open_map` does not while this process remembers the file. `is_cached` is
        explained in `fill_file`. Raises InvalidInput if a check fails, EnvironmentFault if the disk is
        full."""
        if len(data) != ref.size_bytes or fold_chunks(chunk_roots, ref.key.kind) != ref.key.root:
            raise _other_bytes(ref, data, chunk_roots)
        with _blame_caller():
            require_finite(ref, data)
        self.require_space(ref.size_bytes, ref.key)
        with _disk_errors(self.folder):
            handle, name = tempfile.mkstemp(dir=self._incoming)
            try:
                fill_file(handle, data, is_durable=self._is_durable, is_cached=is_cached)
                path = self._adopt(Path(name), ref, b"".join(chunk_roots))
            finally:
                Path(name).unlink(missing_ok=True)
        with self._judged.remember(path):
            return ref

    @contextmanager
    def open_writer(self, ref: BlobRef, verifier: BlobVerifier | None = None) -> Iterator["BlobWriter"]:
        """Yields a writer for bytes that stream in. Bytes that are not committed at the end of the `with`
        block are removed."""
        self.require_space(ref.size_bytes, ref.key)
        with _disk_errors(self.folder):
            handle, name = tempfile.mkstemp(dir=self._incoming)
        writer = BlobWriter(self, Path(name), handle, verifier or BlobVerifier(ref), ref)
        try:
            yield writer
        finally:
            writer.close()

    def require_space(self, needed_bytes: int, what: object) -> None:
        """Raises EnvironmentFault unless the disk has room for `needed_bytes` more and for RESERVE_BYTES.
        `what` names these bytes in the error."""
        free = self.compute_free_bytes()
        if needed_bytes + RESERVE_BYTES > free:
            raise EnvironmentFault(
                what="the disk of the blob store is full",
                expected=f"{needed_bytes + RESERVE_BYTES} bytes free for {what}",
                actual=f"{free} bytes",
                where=str(self.folder),
                remedy="Free some space or move the store to a larger disk.",
                retryable=False,
            )

    def get_path(self, key: BlobKey) -> Path:
        """Returns the path of the blob, stored or not."""
        return self.folder / key.kind.value / key.root.hex()

    def has(self, ref: BlobRef) -> bool:
        """Returns whether the blob is here. A root does not fix the zeros at the end of the last leaf. So a
        file with more of them is the same blob, even if two tasks name different lengths."""
        size = self.get_size_bytes(ref.key)
        if size is None or size == ref.size_bytes:
            return size is not None
        leaf_bytes = ref.key.kind.leaf_bytes
        is_longer = ref.size_bytes < size <= -(-ref.size_bytes // leaf_bytes) * leaf_bytes
        return is_longer and not any(b"".join(_read_pieces(self.get_path(ref.key), ref.size_bytes, size)))

    def get_size_bytes(self, key: BlobKey) -> int | None:
        """Returns the length of the blob, None if it is absent."""
        try:
            return self.get_path(key).stat().st_size
        except FileNotFoundError:
            return None

    def get(self, ref: BlobRef) -> bytes:
        """Returns all bytes of the blob, checked again, because disks lose data. Raises InvalidInput if it is
        missing. Raises EnvironmentFault if it is damaged; then it is removed, so that it can be fetched
        again."""
        pieces = list(self._open_whole(ref))
        self._judge(ref, pieces)
        return b"".join(pieces)

    def open_map(self, ref: BlobRef) -> memoryview:
        """Returns the same bytes, at least one, mapped into memory: do not write to them. They are checked as
        by `get`, unless this process has just written or checked this file. Raises as `get` does."""
        path = self.get_path(ref.key)
        if not self.has(ref) or not self._judged.knows(path):
            with self._judged.remember(path):
                self._judge(ref, self._open_whole(ref))
        return map_file(path)[: ref.size_bytes]

    def open_leaves(self, ref: BlobRef, indices: Sequence[int]) -> list[LeafProof]:
        """Returns leaves of a tree, padding included, with their paths. Reads and checks the chunks that hold
        them; all of the blob only if its chunk roots are lost. Raises as `get` does, and InvalidInput if
        there is no such leaf."""
        found: dict[int, LeafProof] = {}
        leaves = ref.key.kind.chunk_leaves
        for chunk in {index // leaves for index in indices}:
            inside = [index for index in indices if index // leaves == chunk]
            found.update(zip(inside, self._open_chunk(ref, chunk, inside), strict=True))
        return [found[index] for index in indices]

    def _open_chunk(self, ref: BlobRef, chunk: int, indices: Sequence[int]) -> list[LeafProof]:
        place = ref.locate_chunks(range(chunk, chunk + 1))
        data = b"".join(self.open_range(ref.key, place.start, place.stop))
        roots: Sequence[bytes] = split_roots(self.get_chunk_roots(ref.key))
        if len(roots) == ref.chunk_count:
            proofs = list(open_leaves(ref, roots, data, indices))
            # If this chunk fits, all chunk roots are right.
            if merkle.fold_path(merkle.hash_leaf(proofs[0].data), indices[0], proofs[0].path) == ref.key.root:
                return proofs
        roots = self._judge(ref, self._open_whole(ref))
        return list(open_leaves(ref, roots, data, indices))

    def _open_whole(self, ref: BlobRef) -> Iterator[bytes]:
        """Opens as `open_range`. If the file has another length, opens all of it."""
        return self.open_range(ref.key, 0, ref.size_bytes if self.has(ref) else None)

    def _judge(self, ref: BlobRef, pieces: Iterable[bytes]) -> tuple[bytes, ...]:
        """Checks that the pieces are the whole blob, and returns its chunk roots."""
        verifier = BlobVerifier(ref, source=str(self.folder))
        try:
            for piece in pieces:
                verifier.update(piece)
            verifier.finish()
        except ProtocolFault as fault:
            # The length comes from some task, so it does not prove the file wrong.
            if self.get_size_bytes(ref.key) == ref.size_bytes or not self._is_right(ref.key):
                self.delete(ref.key)
            raise make_damage_fault(fault) from fault
        return verifier.chunk_roots

    def _is_right(self, key: BlobKey) -> bool:
        """Returns whether the file, in its own length, has the root in its name."""
        try:
            own = BlobVerifier(BlobRef(key, self.get_size_bytes(key) or 0))
            for piece in self.open_range(key):
                own.update(piece)
            own.finish()
        except (ProtocolFault, InvalidInput):
            return False
        return True

    def get_roots(self, trace_root: bytes) -> tuple[bytes, ...]:
        """Returns the roots of a trace's buffers, empty if the list is missing. Raises EnvironmentFault if it
        is damaged."""
        size = self.get_size_bytes(BlobKey(BlobKind.ROOTS, trace_root))
        if size is None:
            return ()
        return tuple(split_roots(self.get(refer_roots(trace_root, max(1, size // ROOT_BYTES)))))

    def open_range(self, key: BlobKey, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Yields the bytes `start` to `stop` (default: the end) in pieces of at most READ_BYTES. Raises
        InvalidInput if the blob is missing or the range lies outside it."""
        size = self.get_size_bytes(key)
        if size is None:
            raise _absent(key, self.folder)
        end = size if stop is None else stop
        if not 0 <= start <= end <= size:
            raise InvalidInput(
                what="the range lies outside the blob",
                expected=f"0 <= start <= stop <= {size}",
                actual=f"{start}, {end}",
                where=str(key),
                remedy="Ask for a range inside the blob.",
            )
        return _read_pieces(self.get_path(key), start, end)

    def get_chunk_roots(self, key: BlobKey) -> bytes:
        """Returns the 32-byte chunk roots (`BlobVerifier.chunk_roots`), concatenated; empty if unknown."""
        try:
            return self._get_chunk_path(key).read_bytes()
        except FileNotFoundError:
            return b""

    def _get_chunk_path(self, key: BlobKey) -> Path:
        return self.get_path(key).with_suffix(CHUNKS)

    def flush(self, key: BlobKey) -> None:
        """Makes a stored blob survive a power cut, even if this store is not durable. Raises EnvironmentFault
        if the disk refuses it."""
        path, chunks = self.get_path(key), self._get_chunk_path(key)
        with _disk_errors(self.folder):
            for one in (path, chunks) if chunks.exists() else (path,):
                sync(one)
            sync(path.parent)

    def delete(self, key: BlobKey) -> None:
        """Removes a blob, if it is there."""
        with self._alone():
            self._unlink(key)

    def take_print(self, key: BlobKey) -> FilePrint | None:
        """Returns a fingerprint of a blob, which changes when the blob is written again; None if it is
        missing."""
        return take_print(self.get_path(key))

    def delete_unchanged(self, key: BlobKey, found: FilePrint) -> None:
        """Removes a blob, unless it was written again after its fingerprint was taken, because then somebody
        else needs it."""
        with self._alone():
            if self.take_print(key) == found:
                self._unlink(key)

    def _unlink(self, key: BlobKey) -> None:
        self.get_path(key).unlink(missing_ok=True)
        self._get_chunk_path(key).unlink(missing_ok=True)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keeps other threads and processes from adding or removing blobs inside the `with` block."""
        with _disk_errors(self.folder), (self.folder / LOCK_NAME).open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def list_keys(self, kind: BlobKind) -> list[BlobKey]:
        """Returns the keys of all stored blobs of one kind."""
        names = os.listdir(self.folder / kind.value)
        return [BlobKey(kind, bytes.fromhex(name)) for name in sorted(names) if not name.endswith(CHUNKS)]

    def compute_free_bytes(self) -> int:
        """Returns how many more bytes the disk takes."""
        return shutil.disk_usage(self.folder).free

    def _remove_abandoned(self) -> None:
        """Removes temporary files of killed processes, because they may be as long as a tensor, and a node
        may be killed often."""
        for path in self._incoming.iterdir():
            with suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > ABANDONED_SECONDS:
                    path.unlink()

    def _adopt(self, temporary: Path, ref: BlobRef, chunk_roots: bytes) -> Path:
        path = self.get_path(ref.key)
        with self._alone():
            if self.has(ref) and path.stat().st_size > ref.size_bytes:
                # A longer file with zeros at the end serves both lengths, and has two writers from now on.
                temporary.unlink()
                os.utime(path)
                return path
            if chunk_roots:
                handle, name = tempfile.mkstemp(dir=self._incoming)
                try:
                    fill_file(handle, chunk_roots, is_durable=False)
                    os.replace(name, self._get_chunk_path(ref.key))
                finally:
                    Path(name).unlink(missing_ok=True)
            os.replace(temporary, path)
        if self._is_durable:
            sync(path.parent)
        return path


def _other_bytes(ref: BlobRef, data: bytes | memoryview, chunk_roots: Sequence[bytes]) -> InvalidInput:
    return InvalidInput(
        what="these bytes do not belong to this address",
        expected=f"{ref.size_bytes} bytes under {ref.key}",
        actual=f"{len(data)} bytes under {fold_chunks(chunk_roots, ref.key.kind).hex()}",
        remedy="Hash and store the same bytes.",
    )


class BlobWriter:
    """Bytes on their way into a store, made by `BlobStore.open_writer`."""

    def __init__(
        self, store: BlobStore, temporary: Path, handle: int, verifier: BlobVerifier, ref: BlobRef
    ) -> None:
        self._store = store
        self._temporary = temporary
        self._file: BinaryIO = os.fdopen(handle, "wb")
        self._verifier = verifier
        self._ref = ref

    @property
    def received_bytes(self) -> int:
        """How many bytes were written so far. A broken transfer continues after them."""
        return self._verifier.received_bytes

    def write(self, data: bytes) -> None:
        """Writes the next bytes. Raises ProtocolFault at the first wrong chunk, and keeps nothing of it.
        Raises EnvironmentFault before it uses the disk's reserve, because other writers share the disk."""
        self._verifier.update(data)
        self._store.require_space(len(data), self._ref.key)
        with _disk_errors(self._store.folder):
            self._file.write(data)

    def judge(self) -> None:
        """Raises ProtocolFault unless all bytes are here and right."""
        self._verifier.finish()

    def rewind(self) -> None:
        """Drops the bytes that are not checked yet, because the next ones come from another peer."""
        with _disk_errors(self._store.folder):
            self._file.truncate(self._file.seek(self._verifier.rewind(self._file.tell())))

    def commit(self) -> Path:
        """Checks the whole blob, and gives it its name. Raises ProtocolFault if it does not match."""
        self._verifier.finish()
        with _disk_errors(self._store.folder):
            self._file.flush()
            if self._store._is_durable:
                os.fsync(self._file.fileno())
            self._file.close()
            path = self._store._adopt(self._temporary, self._ref, b"".join(self._verifier.chunk_roots))
        with self._store._judged.remember(path):
            return path

    def close(self) -> None:
        """Removes bytes that were not committed."""
        with _disk_errors(self._store.folder):
            self._temporary.unlink(missing_ok=True)
            self._file.close()


def _read_pieces(path: Path, start: int, stop: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        file.seek(start)
        while start < stop:
            piece = file.read(min(READ_BYTES, stop - start))
            if not piece:
                return
            start += len(piece)
            yield piece


@contextmanager
def _blame_caller() -> Iterator[None]:
    try:
        yield
    except ProtocolFault as fault:
        raise InvalidInput(
            what=fault.what,
            expected=fault.expected,
            actual=fault.actual,
            where=fault.where,
            remedy="Hash and store the same bytes.",
        ) from fault


@contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise EnvironmentFault(
            what="the blob store cannot be written",
            expected="a writable disk with space",
            actual=error.strerror,
            where=str(folder),
            remedy="Free some space." if is_full else "Check the disk and the folder's owner.",
            retryable=False,
        ) from error


def _absent(key: BlobKey, folder: Path) -> InvalidInput:
    return InvalidInput(
        what="the blob is not in the store",
        expected=str(key),
        actual="no such file",
        where=str(folder),
        remedy="Fetch it from a peer first.",
    )
