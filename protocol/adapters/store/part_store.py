"""Parts of datasets on disk, up to a limit.

A node keeps the leaves that its samples touched, for two reasons. It serves them to others; and a claim or a
vote on such samples can be disputed, so it may have to compute on them again when nobody else serves them. So
each leaf has a block until which it stays, whatever the limit says. All else goes when the limit is reached.

Bytes of a leaf were proven before they are kept here. They are judged again when they are read
(`chunk_leaves.py`): disks rot. A damaged database is begun anew: every leaf can be fetched again.
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
"""In a home."""
ROW_BYTES = 1_700
"""of disk that a leaf takes with its proof and its place in the index"""
TRIMMED_PART = 16
"""If the limit is reached, one part of so many is freed at once."""
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
    """What a node needs to know of a dataset before any leaf: its length and the roots of its chunks."""

    ref: BlobRef
    chunk_roots: Sequence[bytes]


class PartStore:
    """Leaves of datasets in one file. Safe for several threads and processes."""

    def __init__(self, path: Path, limit_bytes: int) -> None:
        """limit_bytes: of disk, beyond the leaves that must stay. Raises EnvironmentFault if the disk does
        not take the file."""
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
        """Returns the number of leaves that are here."""
        return self._rows

    def put_outline(self, outline: Outline) -> None:
        """Keeps the roots of a dataset's chunks, which fold to its root."""
        row = (outline.ref.key.root, outline.ref.size_bytes, b"".join(outline.chunk_roots))
        with self._lock, self._errors(), self._connection as cursor:
            cursor.execute("INSERT OR REPLACE INTO roots VALUES (?, ?, ?)", row)

    def find_outline(self, root: bytes) -> Outline | None:
        """Returns what was kept by `put_outline`."""
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
        """Keeps leaves that were proven, at least until block `kept_until`. What need not stay at
        `head_block` goes if the limit is reached. Raises EnvironmentFault if the disk is full."""
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
        """Returns those of the leaves that are here and intact. They stay at least until `kept_until` from
        now on; a damaged one is left out."""
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
    """Returns the database; one that is damaged or of another version is begun anew."""
    try:
        return _connect(path)
    except (sqlite3.DatabaseError, InvalidInput) as error:
        if isinstance(error, sqlite3.OperationalError):  # Locked, no room, no such folder.
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
        # A claim on these leaves may follow at once: what was put is there after a power failure.
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
