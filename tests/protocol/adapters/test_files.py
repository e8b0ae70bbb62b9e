import os
import stat
from pathlib import Path

import pytest

from protocol.adapters.files import require_private_file, write_private_file
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
