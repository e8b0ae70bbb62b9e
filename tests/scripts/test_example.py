"""The task file and the corpus to begin with."""

from argparse import Namespace
from pathlib import Path

import pytest

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.tasks.task_example import CORPUS_BYTES, run_task_example
from touchstone.scripts.tasks.task_file import read_task_file


def test_the_example_is_a_whole_task_and_replaces_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "example"
    run_task_example(Namespace(out=folder))
    file = read_task_file(folder / "task.toml")
    assert file.dataset == folder / "corpus.bin" and file.dataset.stat().st_size == CORPUS_BYTES
    (folder / "task.toml").unlink()
    with pytest.raises(InvalidInput, match="corpus.bin"):
        run_task_example(Namespace(out=folder))
    assert not (folder / "task.toml").exists()
