import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from protocol.adapters.files import (
    replace_file,
    replace_private_file,
    require_private_file,
    write_private_file,
)
from protocol.spec.errors import InvalidInput


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
