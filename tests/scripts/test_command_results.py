"""`--json`: one object on standard output, as its schema says, and nothing else there."""

import argparse
import errno
import json
import os
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from protocol.spec.errors import InvalidInput
from protocol.spec.game.state import SeatRole
from scripts import touchstone
from scripts.command_form import Command
from scripts.command_results import explain_bug, explain_disk, is_of_disk, render_error
from scripts.command_table import COMMANDS
from scripts.touchstone import main
from tests.e2e.world import AMOUNTS
from tests.scripts.money import Operators
from tests.scripts.network import DEADLINE_S, ROOT
from tests.scripts.schemas import ERROR, SCHEMAS, check, get_path, open_validator, read_one

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.words)
def test_every_command_has_a_schema(command: Command) -> None:
    validator = open_validator(command.words)
    type(validator).check_schema(validator.schema)
    assert validator.schema["type"] == "object" and validator.schema["additionalProperties"] is False


def test_every_schema_is_of_a_command() -> None:
    known = {get_path(command.words).name for command in COMMANDS} | {get_path(ERROR).name}
    assert {path.name for path in SCHEMAS.iterdir()} == known


# --- What is on standard output -----------------------------------------------------------------------------
def act_with(monkeypatch: pytest.MonkeyPatch, act: Callable[[argparse.Namespace], object]) -> None:
    monkeypatch.setattr(touchstone, "resolve_name", lambda _: act)


def test_what_is_printed_goes_to_standard_error(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def act(_: argparse.Namespace) -> object:
        print("progress")
        return {"a": 1}

    act_with(monkeypatch, act)
    assert main(["status", "--json"]) == 0
    assert tuple(capsys.readouterr()) == ('{"a": 1}\n', "progress\n")
    assert main(["status"]) == 0
    assert tuple(capsys.readouterr()) == ("progress\n", "")


NOISY = """
import os, subprocess, sys
from scripts import touchstone
def act(options):
    os.write(1, b"a library\\n")
    subprocess.run(["echo", "a child"], check=True)
    return {"a": 1}
touchstone.resolve_name = lambda _: act
sys.exit(touchstone.main(["status", "--json"]))
"""


def test_what_a_child_or_a_library_writes_is_not_among_it() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", NOISY], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, '{"a": 1}\n')
    assert done.stderr == "a library\na child\n"


@pytest.mark.parametrize(
    ("error", "status", "what"),
    [
        (InvalidInput(what="w", expected=1, actual="a", remedy="r", where="p"), 2, "w"),
        (ZeroDivisionError("oops"), 70, "this is a bug of Touchstone"),
        (KeyboardInterrupt(), 130, "stopped"),
    ],
)
def test_an_error_is_an_object_too(
    error: BaseException, status: int, what: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def act(_: argparse.Namespace) -> object:
        raise error

    act_with(monkeypatch, act)
    assert main(["status", "--json"]) == status
    out, err = capsys.readouterr()
    found = read_one(ERROR, out)
    assert (found["error"]["what"], found["exit_status"]) == (what, status) and what in err


def test_a_command_that_has_told_and_then_fails_writes_no_second_object(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def act(options: argparse.Namespace) -> object:
        options.put({"a": 1})
        raise KeyboardInterrupt

    act_with(monkeypatch, act)
    assert main(["status", "--json"]) == 130
    assert capsys.readouterr().out == '{"a": 1}\n'


# --- Real documents -----------------------------------------------------------------------------------------
def run(capsys: Capture, words: str, *arguments: str | Path) -> dict[str, object]:
    capsys.readouterr()
    assert main([*words.split(), *map(str, arguments), "--json"]) == 0
    found: dict[str, object] = read_one(words, capsys.readouterr().out)
    return found


def test_commands_that_need_no_chain(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    example = tmp_path / "example"
    assert run(capsys, "task example", "--out", example)["files"] == ["task.toml", "corpus.bin"]
    checked = run(capsys, "task check", "--config", example / "task.toml")
    assert checked["rounds"] == 4 and checked["weights_root"] == ""
    packed = run(capsys, "data pack", example / "corpus.bin", "--out", tmp_path / "packed")
    assert packed["folder"] == str(tmp_path / "packed") and packed["vocabulary_size"] == 256
    made = run(capsys, "task init", "--dataset", tmp_path / "packed", "--out", tmp_path / "task.toml")
    assert made["rounds"] == 4


def test_money_and_tasks(operators: Operators) -> None:
    """One task from its first seat to its end; what is shown goes to standard error."""
    capsys, task = operators.capsys, operators.post_task("submitter")
    operators.join("alice", task, SeatRole.VERIFIER, AMOUNTS.auditor_stake)

    def play(name: str, words: str, *arguments: str) -> dict[str, object]:
        return run(capsys, words, *arguments, "--home", operators.home_of(name))

    raised = play("alice", "stake", task[:8], "1.5")
    assert raised["task"] == f"0x{task}" and (raised["role"], raised["number"]) == ("verifier", 0)
    assert raised["stake_wei"] == str(AMOUNTS.auditor_stake + 15 * 10**17)
    seen = play("alice", "status")
    (game,) = [one for one in seen["tasks"] if one["task"] == f"0x{task}"]  # type: ignore[attr-defined]
    assert game["verifiers"] == 1 and game["status"] == "stands still" and game["lacks"]
    assert "rounds" not in seen
    one = play("bob", "status", task[:8])
    assert [seat["account"] for seat in one["seats"]] == [operators.account_of("alice")]  # type: ignore[attr-defined]
    assert one["rounds"] == [] and one["account"]["address"] == operators.account_of("bob")  # type: ignore[index]
    left = play("alice", "leave", task[:8], "--yes")
    assert left["held_by"] == []
    out = play("alice", "withdraw")
    assert out["withdrawn_wei"] == raised["stake_wei"] and out["held"] == []
    assert play("submitter", "task halt", task[:8], "--yes") == {"task": f"0x{task}"}
    closed = play("bob", "task close", task[:8])
    assert closed["submitter"] == operators.account_of("submitter") and int(str(closed["refund_wei"])) > 0


def test_a_test_network_tells_where_it_is_and_goes_on(tmp_path: Path) -> None:
    words = ["devnet", "--json", "--out", str(tmp_path / "deployment.json")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-m", "scripts.touchstone", *words],
        env=environment, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None and process.stderr is not None
            found = check("devnet", json.loads(process.stdout.readline()))
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+", found["rpc_url"])
            process.send_signal(signal.SIGTERM)
            assert process.wait(DEADLINE_S) == 130
            assert process.stdout.read() == "" and "Ctrl-C ends the network" in process.stderr.read()
        finally:
            process.kill()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EFBIG, errno.EIO])
def test_a_disk_that_takes_nothing_is_no_bug(number: int) -> None:
    assert is_of_disk(OSError(number, os.strerror(number)))


@pytest.mark.parametrize("number", [errno.EACCES, errno.EEXIST, errno.ENOTDIR, errno.ENOENT])
def test_a_path_that_cannot_be_used_is_no_bug(number: int) -> None:
    assert is_of_disk(OSError(number, os.strerror(number), "/somewhere"))
    assert not is_of_disk(OSError(number, os.strerror(number))), "a port, for instance"


def test_other_errors_of_the_system_are_not_taken_for_the_disks() -> None:
    assert not is_of_disk(ConnectionRefusedError(errno.ECONNREFUSED, "refused"))
    assert not is_of_disk(ssl.SSLError(1, "no handshake")), "1 is EPERM too"


def test_a_disk_is_told_in_four_lines_with_its_path() -> None:
    lines = render_error(explain_disk(OSError(errno.ENOSPC, "No space left", "/full/file"))).splitlines()
    assert [line.split(":")[0] for line in lines] == ["error", "expected", "actual", "do"]
    assert "/full/file" in lines[0] and lines[2].endswith("No space left") and "--out" in lines[3]


def test_a_bug_is_told_in_four_lines_too() -> None:
    lines = render_error(explain_bug(KeyError("name"))).splitlines()
    assert [line.split(":")[0] for line in lines] == ["error", "expected", "actual", "do"]
    assert "KeyError" in lines[2] and "--debug" in lines[3]
