"""Libraries of extras: named where they are missing; the one for TensorBoard writes what was trained."""

import json
import logging
import struct
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from wandb.proto import wandb_internal_pb2

from touchstone.node.kit.loss_board import BOARD_LIBRARY, HELDOUT_TAG, LOSS_TAG, LossBoard
from touchstone.protocol.adapters.machine import extra_libraries
from touchstone.protocol.spec.errors import InvalidInput


class Writer:
    """In the place of the library's. is_full: it takes nothing."""

    made: list["Writer"] = []

    def __init__(self, folder: str) -> None:
        self.folder, self.written, self.is_full, self.is_closed = folder, list[Any](), False, False
        Writer.made.append(self)

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        if self.is_full:
            raise OSError("no space left on device")
        self.written.append((tag, value, step))

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> LossBoard:
    Writer.made = []
    monkeypatch.setattr(extra_libraries, "import_module", lambda name: SimpleNamespace(SummaryWriter=Writer))
    return LossBoard(tmp_path / "board")


def test_a_missing_library_is_told_in_four_lines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(extra_libraries, "import_module", fail)
    with pytest.raises(InvalidInput) as caught:
        LossBoard(tmp_path)
    error = caught.value
    assert error.what == "tensorboard_dir in config.toml needs a library that is not installed"
    assert error.expected == f"{BOARD_LIBRARY}, of the extra [tensorboard]" and BOARD_LIBRARY in str(
        error.actual
    )
    assert ".venv/bin/pip install -e '.[tensorboard]'" in error.remedy


def test_losses_are_written_by_the_steps_of_the_task(board: LossBoard, tmp_path: Path) -> None:
    """Nothing is written before the first of them."""
    assert not Writer.made
    board.add(8, [3.5, 3.25])
    board.add(10, [3.0])
    board.close()
    (writer,) = Writer.made
    assert writer.folder == str(tmp_path / "board") and writer.is_closed
    assert writer.written == [(LOSS_TAG, 3.5, 8), (LOSS_TAG, 3.25, 9), (LOSS_TAG, 3.0, 10)]


def test_what_cannot_be_written_is_told_once_and_stops_nothing(
    board: LossBoard, caplog: pytest.LogCaptureFixture
) -> None:
    board.add(0, [1.0])
    Writer.made[0].is_full = True
    with caplog.at_level(logging.WARNING):
        board.add(1, [1.0, 1.0])
        board.add(3, [1.0])
    assert caplog.text.count("no more losses are written") == 1 and len(Writer.made) == 1
    board.close()


def test_the_library_writes_event_files(tmp_path: Path) -> None:
    board = LossBoard(tmp_path / "board")
    board.add(0, [3.5, 3.25])
    board.add_heldout(2, 3.4)
    board.close()
    (file,) = (tmp_path / "board").iterdir()
    found = file.read_bytes()
    assert file.name.startswith("events.out.tfevents.")
    assert LOSS_TAG.encode() in found and HELDOUT_TAG.encode() in found


def read_run(data: bytes) -> Iterator[Any]:
    """The records of a run: a log as LevelDB's, in blocks of 32 KiB, of which a short run fills one."""
    place = len(b":W&B") + 3
    while place < len(data):
        _, length, kind = struct.unpack_from("<IHB", data, place)
        assert kind == 1, "a whole record"
        place += 7
        yield cast(Any, wandb_internal_pb2).Record.FromString(data[place : place + length])
        place += length


def test_an_offline_run_of_weights_and_biases_has_the_curve_and_nothing_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A held-out loss comes later than steps after it, and keeps its own step."""
    monkeypatch.setenv("SECRET_WORD", "do-not-write-this")
    board = LossBoard(wandb_dir=tmp_path / "runs")
    board.add(0, [3.5, 3.25])
    board.add(2, [3.0])
    board.add_heldout(2, 3.4)
    board.close()
    (file,) = (tmp_path / "runs").rglob("*.wandb")
    points = list[tuple[str, float, int]]()
    for record in read_run(file.read_bytes()):
        row = {item.nested_key[0] or item.key: json.loads(item.value_json) for item in record.history.item}
        points += [(tag, row[tag], row["step"]) for tag in (LOSS_TAG, HELDOUT_TAG) if tag in row]
    expected = [(LOSS_TAG, 3.5, 0), (LOSS_TAG, 3.25, 1), (LOSS_TAG, 3.0, 2), (HELDOUT_TAG, 3.4, 2)]
    assert points == expected
    others = [path for path in (tmp_path / "runs").rglob("*") if path.is_file() and "logs" not in path.parts]
    assert all(b"do-not-write-this" not in path.read_bytes() for path in others)
