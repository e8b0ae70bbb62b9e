"""Which files this process takes for good without reading them again."""

import os
from pathlib import Path

import pytest

from touchstone.protocol.adapters.files import unchanged_files
from touchstone.protocol.adapters.files.unchanged_files import UnchangedFiles


@pytest.mark.parametrize("seconds", [0.0, 600.0])
def test_a_file_is_known_for_a_while_and_until_it_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(unchanged_files, "REMEMBERED_SECONDS", seconds)
    files, path = UnchangedFiles(), tmp_path / "file"
    path.write_bytes(b"right")
    assert not files.knows(path)
    with files.remember(path):
        pass
    assert files.knows(path) is (seconds > 0)
    path.write_bytes(b"wrong")
    os.utime(path, (1000, 1000))
    assert not files.knows(path)


def test_files_are_not_remembered_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unchanged_files, "MAX_REMEMBERED", 2)
    files = UnchangedFiles()
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        path.touch()
        with files.remember(path):
            pass
    assert [files.knows(path) for path in paths] == [False, True, True]
    with pytest.raises(ValueError), files.remember(paths[0]):
        raise ValueError
    assert not files.knows(paths[0])
    with files.remember(tmp_path / "absent"):
        pass
    assert not files.knows(tmp_path / "absent")
