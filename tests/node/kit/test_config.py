"""What a process is told once: how much memory it may use, and that threads give way soon; and its status."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.protocol.adapters.parties import make_key
from touchstone.node.kit import config
from touchstone.node.kit.config import (
    MEGABYTE,
    SCRATCH_FOLDER,
    SWITCH_S,
    NodeConfig,
    Status,
    limit_memory,
    share_interpreter,
    share_memory_mb,
)
from touchstone.protocol.adapters.files import mapped_files
from touchstone.protocol.adapters.files.mapped_files import PageLimit, make_mapped
from touchstone.protocol.adapters.wire.json_answers import NodeStatus
from touchstone.protocol.compute.program.tensor_allocator import LARGE_BYTES, allocate
from touchstone.protocol.spec.errors import EnvironmentFault

LARGE, SMALL = LARGE_BYTES // 4, LARGE_BYTES // 4 - 1
"""Elements."""


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, int]]:
    """The folder and the bytes of each tensor that lies in a file."""
    made: list[tuple[Path, int]] = []

    def make_and_note(folder: Path, size_bytes: int) -> memoryview:
        made.append((folder, size_bytes))
        return make_mapped(folder, size_bytes)

    monkeypatch.setattr(config, "make_mapped", make_and_note)
    return made


def make_config(home: Path, memory_mb: int) -> NodeConfig:
    return NodeConfig(home, home, "", make_key(1), memory_mb=memory_mb)


def test_without_a_limit_all_tensors_lie_in_memory(tmp_path: Path, files: list[tuple[Path, int]]) -> None:
    limit_memory(make_config(tmp_path, 0))
    allocate(LARGE)
    assert not files and not list(tmp_path.iterdir())


def test_with_a_limit_large_tensors_lie_in_files_that_the_operator_alone_can_read(
    tmp_path: Path, files: list[tuple[Path, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """States of a claim that is not opened yet are among them. A home that has the folder starts again."""
    limits: list[int] = []

    def limit_and_note(size: int) -> PageLimit:
        limits.append(size)
        return PageLimit(size)

    monkeypatch.setattr(config, "PageLimit", limit_and_note)
    for _ in range(2):
        limit_memory(make_config(tmp_path, 700))
    scratch = tmp_path / SCRATCH_FOLDER
    assert scratch.stat().st_mode & 0o777 == 0o700
    tensors = [allocate(SMALL), allocate(LARGE)]
    assert files == [(scratch, LARGE_BYTES)] and tensors[1].numel() == LARGE
    assert limits == [700 * MEGABYTE] * 2


def test_processes_that_replay_share_the_memory_with_their_node(tmp_path: Path) -> None:
    alone = make_config(tmp_path, 900)
    assert share_memory_mb(alone) == 900
    assert share_memory_mb(replace(alone, replay_processes=2)) == 300
    assert share_memory_mb(replace(alone, executor="ray")) == 450
    limit_memory(replace(make_config(tmp_path, 0), replay_processes=2))
    assert (tmp_path / SCRATCH_FOLDER).stat().st_mode & 0o777 == 0o700, "states lie there in files"


def test_a_system_that_cannot_keep_to_a_limit_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped_files, "STATM", tmp_path / "statm")
    with pytest.raises(EnvironmentFault, match="how much memory"):
        limit_memory(make_config(tmp_path, 700))
    assert not list(tmp_path.iterdir())


def test_threads_give_the_interpreter_to_each_other_a_hundred_times_sooner() -> None:
    """Python's default is 5 ms: hashing beside training would wait that long each time."""
    before = sys.getswitchinterval()
    try:
        share_interpreter()
        assert sys.getswitchinterval() == pytest.approx(SWITCH_S) == pytest.approx(0.005 / 100)
    finally:
        sys.setswitchinterval(before)


def test_a_status_is_sent_with_the_block_that_was_read_and_the_one_waited_for() -> None:
    status = Status("0xa", 7, 9)
    status.processed_block += 1
    assert status.show() == NodeStatus("0xa", processed_block=8, waiting_for_block=9)
