"""Mapped files: bytes that outlast the pages, and files that nobody finds."""

from pathlib import Path

import pytest

from protocol.adapters import mapped_files
from protocol.adapters.mapped_files import (
    PageLimit,
    make_mapped,
    map_file,
    measure_resident_bytes,
    read_piece,
    require_mapping,
)
from protocol.spec.errors import EnvironmentFault

SIZE = 1 << 25
ALL = 1 << 60


def test_make_mapped_is_zero_bytes_in_a_file_without_a_name(tmp_path: Path) -> None:
    mapped = make_mapped(tmp_path, SIZE)
    assert (len(mapped), mapped[0], mapped[-1]) == (SIZE, 0, 0)
    assert list(tmp_path.iterdir()) == []


def test_keep_frees_pages_and_loses_no_byte(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_bytes(b"k" * SIZE)
    written, kept = make_mapped(tmp_path, SIZE), map_file(path)
    written[:] = b"w" * SIZE
    assert bytes(kept) == b"k" * SIZE
    before = measure_resident_bytes()
    PageLimit(ALL).keep()
    assert measure_resident_bytes() > before - SIZE
    PageLimit(0, 0).keep()
    assert measure_resident_bytes() < before - SIZE
    assert (bytes(written), bytes(kept)) == (b"w" * SIZE, b"k" * SIZE)


def test_keep_leaves_some_pages_where_other_memory_takes_all(tmp_path: Path) -> None:
    mapped, limit = make_mapped(tmp_path, SIZE), PageLimit(0, least_bytes=2 * SIZE)
    limit.keep()
    mapped[:] = b"w" * SIZE
    before = measure_resident_bytes()
    limit.keep()
    assert measure_resident_bytes() > before - SIZE // 2


def test_read_piece_copies_bytes_and_lets_go_of_their_pages(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_bytes(bytes(range(256)) * (SIZE // 256))
    mapped, piece = map_file(path), memoryview(bytearray(SIZE // 8))
    before = measure_resident_bytes()
    for start in range(3, SIZE - len(piece), len(piece)):
        read_piece(mapped, start, piece)
        assert bytes(piece[:300]) == bytes((start + place) % 256 for place in range(300))
    assert measure_resident_bytes() < before + SIZE // 2
    assert mapped[SIZE - 1] == 255


def test_make_mapped_on_a_full_disk_is_told(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match="does not fit on the disk"):
        make_mapped(tmp_path, 1 << 62)
    assert list(tmp_path.iterdir()) == []


def test_require_mapping_names_what_the_system_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_mapping()
    monkeypatch.setattr(mapped_files, "STATM", tmp_path / "statm")
    with pytest.raises(EnvironmentFault, match="how much memory"):
        require_mapping()
