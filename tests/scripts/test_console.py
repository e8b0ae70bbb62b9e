"""What the operator types and is asked."""

import errno
import io
import json
import logging
import os
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
import rich.console

from tests.e2e.world import AMOUNTS
from tests.scripts.money import Operators
from tests.scripts.network import DEADLINE_S, ROOT, fail
from tests.scripts.schemas import ERROR, SCHEMAS, check, get_path, open_validator, read_one
from tests.scripts.typed import COMMANDS
from touchstone.protocol.adapters.log_facts import about_round
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.scripts.command_line.command_errors import (
    explain_bug,
    explain_disk,
    is_of_disk,
    render_error,
)
from touchstone.scripts.command_line.command_results import JsonOutput
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.command_line.log_lines import open_logs
from touchstone.scripts.command_line.typed_amounts import parse_tokens
from touchstone.scripts.documents.model_documents import SampleDocument
from touchstone.scripts.touchstone import main


@pytest.mark.parametrize(("typed", "is_agreed"), [("y\n", True), ("n\n", False), ("\n", False), ("", False)])
def test_only_yes_is_yes(typed: str, is_agreed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    assert Console(rich.console.Console(file=io.StringIO())).confirm("Post it?") is is_agreed


ASKING = """
import asyncio
from touchstone.scripts.command_line.console import Console

async def ask():
    Console().confirm("Post it?")

asyncio.run(ask())
"""


def test_the_first_interrupt_ends_a_question() -> None:
    asking = subprocess.Popen(
        [sys.executable, "-c", ASKING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert asking.stdout is not None and asking.stdin is not None
    shown = b""
    while b"Post it?" not in shown:
        shown += asking.stdout.read(1)
    asking.send_signal(signal.SIGINT)
    try:
        assert asking.wait(DEADLINE_S) == -signal.SIGINT
    finally:
        asking.kill()


def test_a_file_keeps_a_line_whole() -> None:
    """Where an output is not a terminal its width is a guess: an id broken in two cannot be copied."""
    file, line = io.StringIO(), "posted 0x" + "ab" * 32 + ", and serving its dataset"
    Console(rich.console.Console(file=file, width=80)).notify(line)
    assert line in file.getvalue().splitlines()[0]


@pytest.mark.parametrize(
    ("text", "amount_wei"),
    [("1", 10**18), ("12.5", 125 * 10**17), (".5", 5 * 10**17), ("0.000000000000000001", 1)],
)
def test_amounts_are_exact(text: str, amount_wei: int) -> None:
    assert parse_tokens(text) == amount_wei


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "1e3", "1,5", "x", "1.0000000000000000001", "٣", "0.0", "1" * 60]
)
def test_other_amounts_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="amount of tokens"):
        parse_tokens(text)


def test_an_amount_of_thousands_of_digits_is_refused_and_not_shown() -> None:
    """Python reads and writes no integer of so many digits."""
    assert parse_tokens("1" * 59) < 1 << 256
    with pytest.raises(InvalidInput, match="amount of tokens") as error:
        parse_tokens("1" * 5000)
    assert error.value.actual == "5000 characters"


STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d "
log = logging.getLogger("touchstone.protocol.somewhere")


def notify(line: str) -> str:
    file = io.StringIO()
    Console(rich.console.Console(file=file)).notify(line)
    return file.getvalue()


def test_a_file_gets_what_is_said_and_what_is_logged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    with open_logs(None, path):
        with about_round(3):
            assert re.fullmatch(STAMP + "claim: done\n", notify("claim: done"))
        notify("a stranger writes of round 7")
        log.info("Game.commit is mined in block %d", 7, extra={"round": 4, "transaction": "ab" * 32})
        log.warning("late")
        log.debug("detail")
        logging.getLogger("library").info("noise")
    said, prose, mined, late = path.read_text().splitlines()
    assert re.fullmatch(STAMP + "INFO claim: done round=3", said)
    assert re.fullmatch(STAMP + "INFO a stranger writes of round 7", prose)
    assert re.fullmatch(
        STAMP + f"INFO Game.commit is mined in block 7 round=4 transaction=0x{'ab' * 32}", mined
    )
    assert re.fullmatch(STAMP + "WARNING late", late)
    # Without a level, standard error has warnings alone.
    assert re.fullmatch(STAMP + "WARNING late\n", capsys.readouterr().err)


def test_a_level_holds_for_what_is_shown_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log"
    with open_logs("warning", path):
        assert notify("round 3: done") == ""
        assert "beware" in notify("WARNING: beware")
        log.info("unwanted")
    assert re.fullmatch(STAMP + "WARNING beware\n", path.read_text())
    assert capsys.readouterr().err == "", "what the console has shown is not shown twice"
    with open_logs("debug", path):
        log.debug("detail")
    assert "DEBUG detail" in path.read_text()
    assert "again" in notify("again"), "an earlier command's level is forgotten"


def test_what_a_peer_sends_makes_no_line_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with open_logs(None, path):
        log.warning("refused: %s", "x\n2027-01-01T00:00:00+00:00 INFO all is well\r\x0bso\u2028it")
        try:
            raise ValueError("one\ntwo")
        except ValueError:
            log.exception("failed")
    lines = path.read_text().splitlines()
    assert len(lines) == 2 and "ValueError: one | two" in lines[1]


def test_a_file_that_was_moved_away_is_opened_anew(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with open_logs(None, path):
        log.warning("one")
        path.rename(tmp_path / "log.1")
        log.warning("two")
    assert "one" in (tmp_path / "log.1").read_text() and "two" in path.read_text()


def test_a_log_file_that_cannot_be_written_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "log"
    error, *_ = fail(capsys, "solve", "0x12", "--home", str(tmp_path), "--log-file", str(path))
    assert "the disk refuses" in error and str(path) in error


Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_has_a_schema(words: str) -> None:
    validator = open_validator(words)
    type(validator).check_schema(validator.schema)
    assert validator.schema["type"] == "object" and validator.schema["additionalProperties"] is False


def test_every_schema_is_of_a_command() -> None:
    known = {get_path(words).name for words in COMMANDS} | {get_path(ERROR).name}
    assert {path.name for path in SCHEMAS.iterdir()} == known


# What is on standard output
def act_with(monkeypatch: pytest.MonkeyPatch, act: Callable[..., object]) -> None:
    """`status` does this instead."""
    monkeypatch.setattr(COMMANDS["status"], "callback", act)


def test_what_is_printed_goes_to_standard_error(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def act(**_: object) -> object:
        print("progress")
        return {"a": 1}

    act_with(monkeypatch, act)
    assert main(["status", "--json"]) == 0
    assert tuple(capsys.readouterr()) == ('{"a": 1}\n', "progress\n")
    assert main(["status"]) == 0
    assert tuple(capsys.readouterr()) == ("progress\n", "")


NOISY = """
import os, subprocess, sys
from touchstone.scripts.touchstone import cli, main
def act(**_):
    os.write(1, b"a library\\n")
    subprocess.run(["echo", "a child"], check=True)
    return {"a": 1}
cli.commands["status"].callback = act
sys.exit(main(["status", "--json"]))
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
    def act(**_: object) -> object:
        raise error

    act_with(monkeypatch, act)
    assert main(["status", "--json"]) == status
    out, err = capsys.readouterr()
    found = read_one(ERROR, out)
    assert (found["error"]["what"], found["exit_status"]) == (what, status) and what in err


def test_a_command_that_has_told_and_then_fails_writes_no_second_object(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    @click.pass_obj
    def act(output: JsonOutput, /, **_: object) -> object:
        output.put(SampleDocument("a"))
        raise KeyboardInterrupt

    act_with(monkeypatch, act)
    assert main(["status", "--json"]) == 130
    assert capsys.readouterr().out == '{"text": "a"}\n'


# Real documents
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
    checked = run(capsys, "task check", "--no-trial", "--config", example / "task.toml")
    assert checked["rounds"] == 4 and checked["weights_root"] == ""
    corpus, packed_folder = example / "corpus.bin", tmp_path / "packed"
    packed = run(capsys, "data pack", corpus, "--as", "text", "--out", packed_folder)
    assert packed["folder"] == str(tmp_path / "packed") and packed["vocabulary_size"] == 256
    made = run(capsys, "task init", "--dataset", tmp_path / "packed", "--out", tmp_path / "task.toml")
    assert made["rounds"] == 4


def test_money_and_tasks(operators: Operators) -> None:
    """One task from its first seat to its end; what is shown goes to standard error."""
    capsys, task = operators.capsys, operators.post_task("submitter")
    operators.join("alice", task, SeatRole.VERIFIER, AMOUNTS.auditor_stake)

    def play(name: str, words: str, *arguments: str) -> dict[str, object]:
        return run(capsys, words, *arguments, "--home", operators.home_of(name))

    raised = play("alice", "stake", task[:8], "1.5", "--yes")
    assert raised["task"] == f"0x{task}" and (raised["role"], raised["number"]) == ("verifier", 0)
    assert raised["stake_wei"] == str(AMOUNTS.auditor_stake + 15 * 10**17)
    seen = play("alice", "status")
    (game,) = [one for one in seen["tasks"] if one["task"] == f"0x{task}"]  # type: ignore[attr-defined]
    assert game["verifiers"] == 1 and game["status"] == "paused" and game["lacks"]
    assert "rounds" not in seen
    (money,) = [one for one in seen["money"] if one["task"] == f"0x{task}"]  # type: ignore[attr-defined]
    assert money["locked_wei"] == raised["stake_wei"] and money["earned_wei"] == money["lost_wei"] == "0"
    assert [lock["kind"] for lock in money["locks"]] == ["stake"] and money["rounds"] == []
    one = play("bob", "status", task[:8])
    holders = {money["account"] for money in one["money"]}  # type: ignore[attr-defined]
    assert holders == {operators.account_of("alice"), operators.account_of("submitter")}
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
        [sys.executable, "-m", "touchstone.scripts.touchstone", *words],
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
