import errno
import fcntl
import os
import stat
import tempfile
from collections.abc import Callable
from mmap import PAGESIZE
from pathlib import Path

import pytest

from touchstone.protocol.adapters.files import durable_files, mapped_files
from touchstone.protocol.adapters.files.durable_files import PIECE_BYTES, fill_file, replace_file
from touchstone.protocol.adapters.files.mapped_files import (
    PageLimit,
    make_mapped,
    map_file,
    measure_resident_bytes,
    read_piece,
    require_mapping,
)
from touchstone.protocol.adapters.files.private_files import (
    replace_private_file,
    require_private_file,
    write_private_file,
)
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput


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


def write_large(folder: Path, size_bytes: int) -> tuple[bytes, bytes]:
    """What was to be written past the cache, and what the file holds."""
    data = os.urandom(size_bytes)
    handle, name = tempfile.mkstemp(dir=folder)
    fill_file(handle, memoryview(data), is_durable=False, is_cached=False)
    return data, Path(name).read_bytes()


def can_write_directly(folder: Path) -> bool:
    try:
        os.close(os.open(folder / "direct", os.O_WRONLY | os.O_CREAT | os.O_DIRECT))
    except OSError:
        return False
    return True


@pytest.mark.parametrize("more", [-1, 0, 1, PAGESIZE - 1, PAGESIZE, PIECE_BYTES + PAGESIZE + 7])
def test_a_large_file_is_written_past_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    """In pieces of whole pages; its end, and a small file, go through the cache."""
    direct: list[int] = []

    def write(handle: int, piece: memoryview, offset: int) -> int:
        assert fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_DIRECT
        direct.append(pwrite(handle, piece, offset))
        return direct[-1]

    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", write)
    size = PIECE_BYTES + more
    data, found = write_large(tmp_path, size)
    assert found == data
    expected = size // PAGESIZE * PAGESIZE if more >= 0 and can_write_directly(tmp_path) else 0
    assert sum(direct) == expected


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP])
def test_what_a_file_system_does_not_take_directly_goes_through_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """From the start, or from a later piece on; a piece may also be taken in part."""
    pwrite = os.pwrite

    def write(handle: int, piece: memoryview, offset: int) -> int:
        if offset >= PIECE_BYTES:
            raise OSError(number, os.strerror(number))
        return pwrite(handle, piece[: max(PAGESIZE, len(piece) // 2)], offset)

    monkeypatch.setattr(os, "pwrite", write)
    data, found = write_large(tmp_path, 3 * PIECE_BYTES + 5)
    assert found == data

    def refuse(handle: int, command: int, flags: int = 0) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return control(handle, command, flags)

    control = fcntl.fcntl
    monkeypatch.setattr(durable_files, "fcntl", refuse)
    data, found = write_large(tmp_path, PIECE_BYTES + 5)
    assert found == data


def test_a_full_disk_is_told_by_a_direct_write_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: int, piece: memoryview, offset: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if not can_write_directly(tmp_path):
        pytest.skip("this file system knows no direct writes")
    monkeypatch.setattr(os, "pwrite", refuse)
    with pytest.raises(OSError, match="No space left"):
        write_large(tmp_path, PIECE_BYTES)


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
    other = b"o" * (2 * SIZE)
    limit.keep()
    mapped[:] = b"w" * SIZE
    before = measure_resident_bytes()
    limit.keep()
    assert measure_resident_bytes() > before - SIZE // 2
    assert len(other) == 2 * SIZE


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


def test_a_mapped_file_is_not_open(tmp_path: Path) -> None:
    """A task may have thousands of constants, and a process a thousand open files."""
    path = tmp_path / "kept"
    path.write_bytes(bytes(range(256)) * (PAGESIZE // 256) + b"end")
    before = len(os.listdir("/proc/self/fd"))
    found = [map_file(path) for _ in range(20)]
    assert len(os.listdir("/proc/self/fd")) == before
    found[0][0] = 7
    assert found[0][0] == 7 and path.read_bytes()[0] == found[1][0] == 0
    path.unlink()
    assert all(len(one) == PAGESIZE + 3 and bytes(one[-4:]) == b"\xffend" for one in found)


def test_what_cannot_be_mapped_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_files, "_map", lambda: lambda *_: None)
    path = tmp_path / "kept"
    path.write_bytes(b"kept")
    with pytest.raises(OSError, match="kept"):
        map_file(path)


def test_make_mapped_on_a_full_disk_is_told(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match="does not fit on the disk"):
        make_mapped(tmp_path, 1 << 62)
    assert list(tmp_path.iterdir()) == []


def test_require_mapping_names_what_the_system_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_mapping()
    monkeypatch.setattr(mapped_files, "STATM", tmp_path / "statm")
    with pytest.raises(EnvironmentFault, match="how much memory"):
        require_mapping()
