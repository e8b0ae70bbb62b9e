"""Taking part in a task from the command line: what must be right before any work starts."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.touchstone import main
from tests.scripts.network import DEADLINE_S, ROOT, fail, wait_for_line
from tests.scripts.test_task_file import MANUAL


@pytest.mark.parametrize("command", ["solve", "verify", "watch", "export"])
def test_an_unknown_task(home: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--out", str(home / "model")] if command == "export" else []
    lines = fail(capsys, command, "0x3fa9", "--home", str(home), *more)
    assert "unknown task" in lines[0] and "touchstone status" in lines[3]


def test_a_malformed_task_file(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "task.toml").write_text('preset = "devnet"')
    lines = fail(capsys, "task", "create", "--config", str(tmp_path / "task.toml"), "--home", str(home))
    assert "dataset" in lines[0]


def write_small_task(folder: Path) -> Path:
    """The manual's task with a model that is built in no time."""
    text = MANUAL.read_text()
    for name, value in (("hidden_size", 16), ("intermediate_size", 32), ("layer_count", 1)):
        text = re.sub(rf"(?m)^{name} = \d+", f"{name} = {value}", text)
    (folder / "task.toml").write_text(text)
    (folder / "corpus.bin").write_bytes(bytes(range(256)) * 1000)
    return folder / "task.toml"


def test_a_task_is_posted_and_shown(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, log = write_small_task(tmp_path), tmp_path / "log"
    words = ["task", "create", "--config", str(config), "--home", str(home), "--yes"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "scripts.touchstone", *words],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    task = wait_for_line(log, r"posted 0x([0-9a-f]{64})")
    assert main(["status", "--home", str(home)]) == 0
    assert f"0x{task[:12]}" in capsys.readouterr().out
    lines = fail(capsys, "solve", "0x" + task[:4] + "zz", "--home", str(home))
    assert f"0x{task[:12]}" in lines[1]
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE_S) == 130, log.read_text()
    said = log.read_text()
    assert "it costs at most" in said and "MB of disk" in said and "Traceback" not in said
    # Each amount with the inequality that fixed it.
    assert "solver_stake" in said and "burned(S) >=" in said and "too low" not in said


def test_a_task_under_which_cheating_pays_is_not_posted(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_small_task(tmp_path)
    low = config.read_text().replace('solver_pay = "10"', 'solver_pay = "10"\nsolver_stake = "40"')
    config.write_text(low)
    lines = fail(capsys, "task", "create", "--config", str(config), "--home", str(home), "--yes")
    assert "cheating pays" in lines[0] and "solver_stake burned(S)" in lines[1]
