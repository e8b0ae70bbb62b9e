"""Parts on disk: the limit holds, what must stay stays, and rotten bytes are not given out."""

import sqlite3
from pathlib import Path

import pytest

from tests.protocol.adapters.store.test_leaf_runs import BLOBS, CHUNK, cut_all
from touchstone.protocol.adapters.store.part_store import ROW_BYTES, Outline, PartStore
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.openings import LeafProof

RAW, REF, ROOTS = BLOBS[3 * CHUNK + 2_500]
LEAVES = cut_all(RAW, REF)
ROOT = REF.key.root


def open_parts(path: Path, rows: int = 1_000) -> PartStore:
    parts = PartStore(path / "parts.sqlite", rows * ROW_BYTES)
    parts.put_outline(Outline(REF, ROOTS))
    return parts


def put(parts: PartStore, leaves: range, kept_until: int = 0, head: int = 1) -> None:
    parts.put(ROOT, {leaf: LEAVES[leaf] for leaf in leaves}, kept_until, head)


def test_what_was_put_is_there_also_after_a_restart(tmp_path: Path) -> None:
    parts = open_parts(tmp_path)
    put(parts, range(3, 9))
    assert parts.get(ROOT, range(20)) == {leaf: LEAVES[leaf] for leaf in range(3, 9)}
    parts.close()
    parts = PartStore(tmp_path / "parts.sqlite", 1)
    assert parts.count_rows() == 6 and parts.get(ROOT, [4]) == {4: LEAVES[4]}
    outline = parts.find_outline(ROOT)
    assert outline is not None and outline.ref == REF and list(outline.chunk_roots) == ROOTS
    assert parts.find_outline(bytes(32)) is None and parts.get(bytes(32), [4]) == {}


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    parts = open_parts(tmp_path, rows=16)
    for start in range(0, 16, 4):
        put(parts, range(start, start + 4), kept_until=0, head=10)
    parts.get(ROOT, range(4), kept_until=1)
    put(parts, range(40, 44), kept_until=0, head=10)
    found = parts.get(ROOT, range(64))
    assert len(found) <= 16 and {*range(4), *range(40, 44)} <= set(found)


def test_what_must_stay_stays_beyond_the_limit(tmp_path: Path) -> None:
    """A disputed node may have to compute on it when nobody else serves it: otherwise it loses its stake."""
    parts = open_parts(tmp_path, rows=4)
    put(parts, range(8), kept_until=50, head=10)
    put(parts, range(8, 12), kept_until=0, head=50)
    assert set(range(8)) <= set(parts.get(ROOT, range(64)))
    put(parts, range(8, 12), kept_until=0, head=51)
    assert len(parts.get(ROOT, range(64))) <= 4


def test_using_a_leaf_keeps_it_longer(tmp_path: Path) -> None:
    parts = open_parts(tmp_path, rows=1)
    put(parts, range(2), kept_until=20, head=10)
    parts.get(ROOT, [0], kept_until=90)
    put(parts, range(2, 3), kept_until=0, head=60)
    assert 0 in parts.get(ROOT, range(64)) and 1 not in parts.get(ROOT, range(64))


def test_rotten_bytes_are_not_given_out(tmp_path: Path) -> None:
    parts = open_parts(tmp_path)
    put(parts, range(2))
    wrong = LeafProof(bytes(1024), LEAVES[0].path)
    parts.put(ROOT, {0: wrong}, 0, 1)
    assert parts.get(ROOT, range(2)) == {1: LEAVES[1]}


def test_a_damaged_file_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / "parts.sqlite").write_bytes(b"no database" * 1_000)
    parts = open_parts(tmp_path)
    put(parts, range(2))
    assert parts.count_rows() == 2


def test_a_disk_that_refuses_is_told(tmp_path: Path) -> None:
    parts = open_parts(tmp_path)
    parts._connection.execute("PRAGMA query_only = ON")
    with pytest.raises(EnvironmentFault, match="cache of the dataset's parts"):
        put(parts, range(2))


def test_others_cannot_read_it(tmp_path: Path) -> None:
    open_parts(tmp_path)
    assert (tmp_path / "parts.sqlite").stat().st_mode & 0o077 == 0


def test_a_row_takes_what_is_said(tmp_path: Path) -> None:
    parts = PartStore(tmp_path / "parts.sqlite", 10**9)
    parts.put_outline(Outline(REF, ROOTS))
    rows = {leaf: LeafProof(bytes(1024), LEAVES[0].path) for leaf in range(20_000)}
    parts.put(ROOT, rows, 0, 1)
    parts.close()
    size = (tmp_path / "parts.sqlite").stat().st_size
    assert 0.6 * ROW_BYTES < size / 20_000 <= ROW_BYTES
    with sqlite3.connect(tmp_path / "parts.sqlite") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_what_was_put_waits_for_the_disk(tmp_path: Path) -> None:
    """SQLite's FULL, as in the journal: a claim may follow at once, and a power cut must not undo it."""
    found = open_parts(tmp_path)._connection.execute("PRAGMA synchronous").fetchone()
    assert found == (2,)
