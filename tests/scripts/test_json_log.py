"""With `--log-format json` each line of a command that runs for long is one JSON object."""

import io
import json
import logging
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.table import Table

from tests.e2e.world import AMOUNTS
from tests.scripts.money import Operators
from tests.scripts.network import DEADLINE_S, ROOT
from tests.scripts.schemas import check
from tests.scripts.test_role_commands import play_left
from tests.scripts.typed import run
from touchstone.protocol.adapters.log_facts import about_round
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.command_line.json_log import note_facts
from touchstone.scripts.command_line.log_lines import open_logs
from touchstone.scripts.seats import seat_session

log = logging.getLogger("touchstone.protocol.somewhere")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d")
Capture = pytest.CaptureFixture[str]


def read(text: str) -> list[dict[str, Any]]:
    """The objects of all lines, without their times."""
    found = [json.loads(line) for line in text.splitlines()]
    assert all(TIME.fullmatch(one.pop("time")) for one in found)
    return found


def test_a_line_has_what_is_known_of_its_event(tmp_path: Path, capsys: Capture) -> None:
    with open_logs(None, tmp_path / "log", is_json=True):
        note_facts(task="0x3fa9", account="0xa11ce")
        with about_round(3):
            Console().notify("WARNING: late")
        Console().notify("a stranger writes of round 7\n")
        log.warning("mined", extra={"round": 4, "transaction": "ab" * 32})
        try:
            raise ValueError("one\ntwo")
        except ValueError:
            log.exception("failed")
    known = {"task": "0x3fa9", "account": "0xa11ce"}
    out, err = map(read, capsys.readouterr())
    assert out == [
        {"level": "WARNING", "message": "late", **known, "round": 3},
        {"level": "INFO", "message": "a stranger writes of round 7\n", **known},
    ]
    mined, failed = err
    assert mined == {
        "level": "WARNING", "message": "mined", **known, "round": 4, "transaction": f"0x{'ab' * 32}",
    }  # fmt: skip
    assert failed["message"] == "failed" and failed["traceback"].endswith("ValueError: one\ntwo")
    assert [one["message"] for one in read((tmp_path / "log").read_text())] == [
        "late", "a stranger writes of round 7\n", "mined", "failed",
    ]  # fmt: skip


def test_what_an_earlier_command_noted_is_forgotten(capsys: Capture) -> None:
    for task in ("0x1", ""):
        with open_logs(None, None, is_json=True):
            if task:
                note_facts(task=task)
            Console().notify("here")
    assert read(capsys.readouterr().out) == [
        {"level": "INFO", "message": "here", "task": "0x1"},
        {"level": "INFO", "message": "here"},
    ]


def test_a_table_and_a_question_are_messages(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    table = Table("role", "locks")
    table.add_row("solver", "340.181")
    with open_logs(None, None, is_json=True):
        console = Console()
        console.rich.print(table)
        assert console.confirm("Lock it?")
    shown, asked = read(capsys.readouterr().out)
    assert "│ solver │ 340.181 │" in shown["message"] and asked["message"].startswith("Lock it? [y/n]")


@pytest.mark.parametrize("more", [[], ["--debug"]])
def test_an_error_is_one_line_with_its_parts(tmp_path: Path, more: list[str]) -> None:
    words = ["solve", "0x12", "--home", str(tmp_path / "none"), "--log-format", "json", *more]
    status, out, err = run(*words)
    (found,) = read(err)
    assert (status, out) == (2, "") and found["level"] == "ERROR"
    assert found["message"] == found["error"]["what"] == "this folder is no home"
    assert "touchstone init" in found["error"]["remedy"] and ("traceback" in found) is bool(more)


def test_a_node_names_its_account_and_its_task(operators: Operators, monkeypatch: pytest.MonkeyPatch) -> None:
    task = operators.post_task("submitter")
    operators.join("alice", task, SeatRole.VERIFIER, AMOUNTS.auditor_stake)
    monkeypatch.setattr(seat_session, "RUN_ROLE", f"{__name__}:{play_left.__name__}")
    lines = read(operators.run("alice", "verify", task[:8], "--log-format", "json"))
    said = {one["message"]: one for one in lines}
    going_on = said["going on as verifier 0"]
    assert going_on["task"] == f"0x{task}" and going_on["account"].lower() == operators.account_of("alice")
    assert all(one["level"] == "INFO" for one in lines)


def test_a_test_network_writes_nothing_but_objects(tmp_path: Path) -> None:
    words = ["devnet", "--json", "--log-format", "json", "--out", str(tmp_path / "deployment.json")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-m", "touchstone.scripts.touchstone", *words],
        env=environment, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None and process.stderr is not None
            check("devnet", json.loads(process.stdout.readline()))
            process.send_signal(signal.SIGTERM)
            assert process.wait(DEADLINE_S) == 130
            messages = [one["message"] for one in read(process.stderr.read())]
            assert "Ctrl-C ends the network and everything on it." in messages and messages[-1] == "stopped"
        finally:
            process.kill()
