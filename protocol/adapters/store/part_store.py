"""Keeps parts of datasets on disk, up to a limit.

A node keeps the leaves that its samples touched, for two reasons. It serves them to others. And a claim or a
vote on such samples can be disputed; then it must compute on them again, even if nobody else serves them. So
each leaf has a block until which it stays, whatever the limit says. All others go when the limit is reached.

A leaf is proven before it is kept, and checked again when it is read (`chunk_leaves.py`), because disks lose
data. A damaged database is begun anew, because every leaf can be fetched again.
"""

import logging
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind, BlobRef
from touchstone.protocol.adapters.store.chunk_leaves import RootList, is_proven
from touchstone.protocol.adapters.store.chunk_trees import split_roots
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.openings import LeafProof

log = logging.getLogger(__name__)
FILE_NAME = "parts.sqlite"
"""The file's name in a home."""
ROW_BYTES = 1_700
"""Bytes of disk for a leaf with its proof and its index entry."""
TRIMMED_PART = 16
"""At the limit, one in this many leaves is removed at once."""
ASKED_AT_ONCE = 500
FORMAT = 1
SCHEMA = f"""
PRAGMA user_version = {FORMAT};
CREATE TABLE roots (root BLOB PRIMARY KEY, size INTEGER NOT NULL, chunk_roots BLOB NOT NULL);
CREATE TABLE leaves (
    root BLOB NOT NULL, leaf INTEGER NOT NULL, data BLOB NOT NULL, path BLOB NOT NULL,
    used INTEGER NOT NULL, kept_until INTEGER NOT NULL, UNIQUE (root, leaf)
);
"""


@dataclass(frozen=True)
class Outline:
    """What a node must know of a dataset before any leaf: its length and its chunk roots."""

    ref: BlobRef
    chunk_roots: Sequence[bytes]


class PartStore:
    """Leaves of datasets in one file. Safe for several threads and processes."""

    def __init__(self, path: Path, limit_bytes: int) -> None:
        """Opens the file. `limit_bytes` is the disk for leaves beyond those that must stay. Raises
        EnvironmentFault if the disk refuses the file."""
        self.path, self.limit_rows = path, max(1, limit_bytes // ROW_BYTES)
        self._lock = threading.Lock()
        self._outlines: dict[bytes, Outline] = {}
        with self._errors():
            self._connection = _open(path)
            found = self._connection.execute("SELECT count(*), coalesce(max(used), 0) FROM leaves").fetchone()
        self._rows, self._clock = int(found[0]), count(int(found[1]) + 1)

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._connection.close()

    def count_rows(self) -> int:
        """Returns the number of stored leaves."""
        return self._rows

    def put_outline(self, outline: Outline) -> None:
        """Stores the chunk roots of a dataset, which must fold to its root."""
        row = (outline.ref.key.root, outline.ref.size_bytes, b"".join(outline.chunk_roots))
        with self._lock, self._errors(), self._connection as cursor:
            cursor.execute("INSERT OR REPLACE INTO roots VALUES (?, ?, ?)", row)

    def find_outline(self, root: bytes) -> Outline | None:
        """Returns the outline that `put_outline` stored, None if there is none."""
        if root not in self._outlines:
            with self._lock, self._errors():
                query = "SELECT size, chunk_roots FROM roots WHERE root = ?"
                row = self._connection.execute(query, (root,)).fetchone()
            if row is None:
                return None
            ref = BlobRef(BlobKey(BlobKind.DATASET, root), int(row[0]))
            self._outlines[root] = Outline(ref, RootList(bytes(row[1])))
        return self._outlines[root]

    def put(self, root: bytes, leaves: Mapping[int, LeafProof], kept_until: int, head_block: int) -> None:
        """Stores proven leaves, at least until block `kept_until`. At the limit, leaves that need not stay at
        `head_block` are removed. Raises EnvironmentFault if the disk is full."""
        used = next(self._clock)
        rows = [
            (root, leaf, proof.data, b"".join(proof.path), used, kept_until) for leaf, proof in leaves.items()
        ]
        with self._lock, self._errors(), self._connection as cursor:
            cursor.executemany("INSERT OR REPLACE INTO leaves VALUES (?, ?, ?, ?, ?, ?)", rows)
            self._rows = int(cursor.execute("SELECT count(*) FROM leaves").fetchone()[0])
            self._trim(cursor, head_block)

    def _trim(self, cursor: sqlite3.Connection, head_block: int) -> None:
        excess = self._rows - self.limit_rows
        if excess > 0:
            wanted = excess + self.limit_rows // TRIMMED_PART
            oldest = "SELECT rowid FROM leaves WHERE kept_until < ? ORDER BY used LIMIT ?"
            done = cursor.execute(f"DELETE FROM leaves WHERE rowid IN ({oldest})", (head_block, wanted))
            self._rows -= done.rowcount

    def get(self, root: bytes, leaves: Iterable[int], kept_until: int = 0) -> dict[int, LeafProof]:
        """Returns the requested leaves that are here and intact, without damaged ones. They now stay at least
        until `kept_until`."""
        outline, found = self.find_outline(root), dict[int, LeafProof]()
        if outline is None:
            return found
        with self._lock, self._errors(), self._connection as cursor:
            for part in _split(leaves):
                marks = ",".join("?" * len(part))
                where = f"root = ? AND leaf IN ({marks})"
                query = f"SELECT leaf, data, path FROM leaves WHERE {where}"
                for leaf, data, path in cursor.execute(query, (root, *part)):
                    found[leaf] = LeafProof(bytes(data), tuple(split_roots(bytes(path))))
                change = "UPDATE leaves SET used = ?, kept_until = max(kept_until, ?)"
                if kept_until:
                    cursor.execute(f"{change} WHERE {where}", (next(self._clock), kept_until, root, *part))
        return {
            leaf: proof
            for leaf, proof in found.items()
            if is_proven(outline.ref, leaf, proof, outline.chunk_roots)
        }

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise EnvironmentFault(
                what="the cache of the dataset's parts cannot be used",
                expected="a writable disk with space",
                actual=str(error),
                where=str(self.path),
                remedy="Free some space. Or stop the node and delete this file: the node fetches the parts "
                "again.",
            ) from error


def _split(leaves: Iterable[int]) -> Iterator[list[int]]:
    left = iter(leaves)
    while part := list(islice(left, ASKED_AT_ONCE)):
        yield part


def _open(path: Path) -> sqlite3.Connection:
    """Returns the database. A damaged one, or one of another version, is begun anew."""
    try:
        return _connect(path)
    except (sqlite3.DatabaseError, InvalidInput) as error:
        if isinstance(
            error, sqlite3.OperationalError
        ):  # It is locked, or there is no room, or no such folder.
            raise
        log.warning("%s is made again, empty: %s", path, error)
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        return _connect(path)


def _connect(path: Path) -> sqlite3.Connection:
    path.touch(mode=0o600, exist_ok=True)
    connection = sqlite3.connect(path, timeout=30, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        # Flush to disk, because a claim on these leaves may follow at once.
        connection.execute("PRAGMA synchronous = FULL")
        with closing(connection.execute("PRAGMA user_version")) as cursor:
            version = int(cursor.fetchone()[0])
        if version == 0:
            connection.executescript(SCHEMA)
        elif version != FORMAT:
            raise _other_cache(version, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _other_cache(version: int, path: Path) -> InvalidInput:
    return InvalidInput(
        what="a cache of another version",
        expected=FORMAT,
        actual=version,
        where=str(path),
        remedy="Delete it: parts are fetched again.",
    )
