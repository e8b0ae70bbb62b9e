"""The task file and the corpus to begin with."""

from pathlib import Path

import pytest

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.tasks.task_example import CORPUS_BYTES, write_example
from touchstone.scripts.tasks.task_file import read_task_file


def test_the_example_is_a_whole_task_and_replaces_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "example"
    write_example(folder)
    file = read_task_file(folder / "task.toml")
    assert file.dataset == folder / "corpus.bin" and file.dataset.stat().st_size == CORPUS_BYTES
    (folder / "task.toml").unlink()
    with pytest.raises(InvalidInput, match="corpus.bin"):
        write_example(folder)
    assert not (folder / "task.toml").exists()
