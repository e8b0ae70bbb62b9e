import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from protocol.adapters import files
from protocol.adapters.files import (
    PageLimit,
    make_mapped,
    map_file,
    measure_resident_bytes,
    read_piece,
    replace_file,
    replace_private_file,
    require_mapping,
    require_private_file,
    write_private_file,
)
from protocol.spec.errors import EnvironmentFault, InvalidInput


def test_a_private_file_is_whole_and_private(tmp_path: Path) -> None:
    path = tmp_path / "new" / "secret"
    write_private_file(path, b"x")
    assert path.read_bytes() == b"x"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == ["secret"]
    require_private_file(path)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    write_private_file(path, b"first")
    with pytest.raises(InvalidInput, match="a file is there"):
        write_private_file(path, b"second")
    assert path.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["secret"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_file_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"x")
    path.chmod(mode)
    with pytest.raises(InvalidInput, match=f"expected mode 0600, got mode {mode:04o}.*chmod 600"):
        require_private_file(path)


def test_an_absent_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="nothing there"):
        require_private_file(tmp_path / "absent")


@pytest.mark.parametrize("write", [write_private_file, replace_private_file, replace_file])
def test_a_full_disk_is_told_with_the_file_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path, bytes], None]
) -> None:
    def refuse(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space left") as error:
        write(tmp_path / "file", b"x")
    assert error.value.errno == errno.ENOSPC and error.value.filename == str(tmp_path / "file")
    assert not list(tmp_path.iterdir())


def test_a_file_for_others_replaces_the_old_one_whole(tmp_path: Path) -> None:
    path, before = tmp_path / "file", os.umask(0o022)
    try:
        for data in (b"first", b"second"):
            replace_file(path, data)
    finally:
        os.umask(before)
    assert path.read_bytes() == b"second" and stat.S_IMODE(path.stat().st_mode) == 0o644
    assert os.listdir(tmp_path) == ["file"]


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
    monkeypatch.setattr(files, "STATM", tmp_path / "statm")
    with pytest.raises(EnvironmentFault, match="how much memory"):
        require_mapping()
