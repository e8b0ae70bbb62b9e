"""Every subcommand explains itself, is in the manual, and fails in four lines."""

import argparse
import errno
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace

import pytest

from tests.scripts.network import DEADLINE_S, ROOT
from tests.scripts.schemas import read_one
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts import touchstone
from touchstone.scripts.command_line.command_errors import ExitCode
from touchstone.scripts.command_line.command_form import LOGS, Command
from touchstone.scripts.command_line.command_table import COMMANDS
from touchstone.scripts.command_line.completion import render
from touchstone.scripts.tasks.task_example import CORPUS_BYTES
from touchstone.scripts.touchstone import find_home, main, make_parser

WANTED = {
    "devnet",
    "init",
    "stake",
    "leave",
    "withdraw",
    "task create",
    "data pack",
    "task init",
    "task check",
    "eval",
    "sample",
    "replay",
    "task example",
    "task record",
    "task close",
    "task halt",
    "shares show",
    "shares pay",
    "shares claim",
    "shares vote",
    "shares halt",
    "calibrate",
    "policy",
    "solve",
    "verify",
    "watch",
    "status",
    "explorer",
    "export",
    "doctor",
    "completion",
}


def read_manual() -> str:
    return "\n".join(
        path.read_text() for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")] if path.exists()
    )


def run(*arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            status = main(arguments)
        except SystemExit as exit:
            status = exit.code if isinstance(exit.code, int) else 1
    return status, out.getvalue(), err.getvalue()


def test_a_disk_that_refuses_is_said_with_its_path_and_is_no_bug(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    status, _, err = run("task", "example", "--out", str(tmp_path / "file" / "example"))
    assert status == 2 and "the disk refuses" in err and str(tmp_path / "file") in err
    assert len(err.splitlines()) == 4


def test_a_full_disk_leaves_no_part_of_an_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first file has room, the second one has not."""
    sync = os.fsync

    def refuse(handle: int) -> None:
        if os.fstat(handle).st_size == CORPUS_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(handle)

    monkeypatch.setattr(os, "fsync", refuse)
    status, _, err = run("task", "example", "--out", str(tmp_path / "example"))
    assert status == 2 and "No space left" in err and str(tmp_path / "example" / "corpus.bin") in err
    assert not list((tmp_path / "example").iterdir())


def test_a_path_may_begin_with_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    monkeypatch.setenv("TOUCHSTONE_HOME", "~/other")
    options = make_parser().parse_args(["status", "--home", "~/alice"])
    assert options.home == Path("/somewhere/alice") and find_home() == Path("/somewhere/other")


HEAVY = {"torch", "numba", "numpy", "web3", "aiohttp", "eth_account"}
"""A second of processor time and more, together."""


@pytest.mark.parametrize(
    "words", ["--help", "--version", "status --help", "solve --help", "completion bash", "init --what"]
)
def test_what_needs_neither_tensors_nor_a_chain_waits_for_none(words: str) -> None:
    code = (
        "import sys; from touchstone.scripts.touchstone import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print('loaded:', *sorted({name.split('.')[0] for name in sys.modules}))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, *words.split()], cwd=ROOT, capture_output=True, text=True
    )
    loaded = result.stdout.rsplit("loaded:", 1)[1].split()
    assert "touchstone" in loaded and not HEAVY & set(loaded)


@pytest.mark.parametrize(
    "module",
    [
        "money.stake_commands",
        "money.withdraw_command",
        "money.shares_commands",
        "home.init_command",
        "network.devnet_command",
        "network.explorer_command",
        "tasks.task_example",
        "tasks.closing_commands",
        "tasks.figures",
        "tasks.terms_checks",
        "calibration.limit_policy",
        "status.status_command",
    ],
)
def test_commands_that_only_ask_the_chain_do_not_wait_for_torch(module: str) -> None:
    code = f"import touchstone.scripts.{module}, sys; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert result.stdout == "False\n", result.stderr


NUMBERS = [
    (command.words, option.name)
    for command in COMMANDS
    for option in command.options
    if isinstance(option.settings.get("type"), partial) or option.settings.get("type") in (int, float)
]


@pytest.mark.parametrize(("words", "name"), NUMBERS, ids=str)
@pytest.mark.parametrize("value", ["-1", "1" + 30 * "0", "nan", "inf", "9" * 5000, "one"])
def test_a_number_that_can_be_none_is_refused_by_name(words: str, name: str, value: str) -> None:
    """`devnet --port 99999` was told as a bug."""
    command = next(one for one in COMMANDS if one.words == words)
    places = [one for one in command.options if not one.name.startswith("-")]
    given = [f"--{one.name}" for one in places if one.name == name]
    typed = [value if one.name == name else "1" for one in places]
    named = [f"{name}={value}"] if name.startswith("-") else []
    status, _, err = run(*words.split(), *named, "--", *typed)
    last = err.splitlines()[-1]
    shown = value if len(value) < 40 else "5000 characters"
    assert status == 2 and f"argument {name.upper() if given else name}: expected" in last
    assert f"got '{shown}'" in last


@pytest.mark.parametrize("words", ["eval model --text words.txt", "sample model --prompt x"])
def test_what_would_read_or_write_nothing_is_refused_before_anything_is_loaded(words: str) -> None:
    status, _, err = run(*words.split(), "--tokens", "0")
    assert status == 2 and "argument --tokens: expected a whole number from 1 to" in err


def test_numbers_are_seen() -> None:
    assert ("devnet", "--port") in NUMBERS and ("replay", "round") in NUMBERS and len(NUMBERS) > 15


def test_the_subcommands_are_those_of_the_manual() -> None:
    assert {command.words for command in COMMANDS} == WANTED


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.words)
def test_help_shows_an_example_that_parses(command: Command) -> None:
    status, out, _ = run(*command.words.split(), "--help")
    assert status == 0 and command.example in out
    for option in command.options:
        assert option.help in " ".join(out.split()) and option.name.removeprefix("--") in out.lower()
        default = option.settings.get("default")
        assert not default or f"(default: {default})" in " ".join(out.split())
    words = command.example.split()
    assert words[0] == "touchstone"
    assert make_parser().parse_args(words[1:]).act == command.act


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.words)
def test_every_subcommand_is_documented(command: Command) -> None:
    manual = read_manual()
    assert f"`touchstone {command.words}`" in manual
    assert command.example in manual


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.words)
def test_every_subcommand_names_a_function(command: Command) -> None:
    assert callable(resolve_name(command.act))


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def act(_: argparse.Namespace) -> None:
        raise error

    monkeypatch.setattr(touchstone, "resolve_name", lambda _: act)


def test_an_error_is_four_lines_and_status_2(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, InvalidInput(what="w", expected="e", actual="a", remedy="r", where="p"))
    status, out, err = run("status")
    assert (status, out) == (2, "")
    assert err == "error:    w (p)\nexpected: e\nactual:   a\ndo:       r\n"


def test_debug_adds_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, InvalidInput(what="w", expected="e", actual="a", remedy="r"))
    status, _, err = run("status", "--debug")
    assert status == 2 and "Traceback" in err and err.endswith("do:       r\n")


def test_a_bug_is_called_one(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, ZeroDivisionError("oops"))
    status, _, err = run("status")
    assert status == 70 and "ZeroDivisionError: oops" in err and "Traceback" not in err


def test_an_interrupt_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, KeyboardInterrupt())
    assert run("status") == (130, "", "stopped\n")


def test_the_version_is_that_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert run("--version") == (0, f"touchstone {project['version']}\n", "")


def test_the_manual_lists_every_exit_status() -> None:
    rows = re.findall(r"(?m)^\| (\d+) \|", (ROOT / "docs" / "commands.md").read_text())
    assert rows == [str(int(code)) for code in ExitCode]


@pytest.mark.parametrize("words", ["solve", "verify", "watch", "task create", "devnet"])
def test_what_runs_for_long_has_a_log(words: str) -> None:
    (command,) = [command for command in COMMANDS if command.words == words]
    assert all(option in command.options for option in LOGS)


def test_an_unknown_subcommand_is_refused() -> None:
    assert run("dance")[0] == 2
    assert run()[0] == 2


@pytest.mark.parametrize("arguments", [("status", "--hom", "x"), ("task", "example", "--ou", "build/x")])
def test_no_option_is_taken_for_another(arguments: tuple[str, ...]) -> None:
    status, _, err = run(*arguments)
    assert status == 2 and f"unrecognized arguments: {arguments[-2]}" in err and len(err.splitlines()) == 2


def test_the_home_is_chosen_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Path] = []
    fake = SimpleNamespace(act=lambda options: seen.append(options.home))
    monkeypatch.setattr(touchstone, "resolve_name", lambda _: fake.act)
    monkeypatch.setenv("TOUCHSTONE_HOME", "/tmp/from-environment")
    run("status", "--home", "/tmp/given")
    run("status")
    monkeypatch.delenv("TOUCHSTONE_HOME")
    run("status")
    assert seen == [Path("/tmp/given"), Path("/tmp/from-environment"), Path.home() / ".touchstone"]
    assert find_home() == Path.home() / ".touchstone"


BACKGROUND = """
import asyncio, signal, sys
from touchstone.scripts import touchstone
signal.signal(signal.SIGINT, signal.SIG_IGN)
async def work():
    print("works", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    print("goes on", flush=True)
    await asyncio.Event().wait()
touchstone.resolve_name = lambda _: lambda options: asyncio.run(work())
sys.exit(touchstone.main(["status"]))
"""
"""As a script's shell starts a command behind which it writes `&`."""


def test_in_the_background_it_ends_when_it_is_asked_to_and_not_with_ctrl_c() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", BACKGROUND], env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "works\n"
            process.send_signal(signal.SIGINT)
            print(file=process.stdin, flush=True)
            assert process.stdout.readline() == "goes on\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(DEADLINE_S) == ExitCode.INTERRUPTED
        finally:
            process.kill()


SHELLS = ("bash", "zsh")


def complete(folder: Path, *words: str) -> set[str]:
    """What bash offers for the last word."""
    typed = " ".join(f"'{word}'" for word in ("touchstone", *words))
    lines = (render("bash"), f"COMP_WORDS=({typed})", f"COMP_CWORD={len(words)}")
    script = "\n".join((*lines, "_touchstone", 'printf "%s\\n" "${COMPREPLY[@]}"'))
    done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_commands_and_their_second_words(tmp_path: Path) -> None:
    first = {command.words.split()[0] for command in COMMANDS}
    assert complete(tmp_path, "") == first | {"--version", "--help"}
    assert complete(tmp_path, "so") == {"solve"} and complete(tmp_path, "solve") == {"solve"}
    assert complete(tmp_path, "task", "c") == {"close", "create", "check"}


def test_options_and_choices(tmp_path: Path) -> None:
    (command,) = [command for command in COMMANDS if command.words == "task create"]
    named = {option.name for option in command.options if option.name.startswith("-")}
    assert complete(tmp_path, "task", "create", "--") == named | {"--json", "--debug", "--help"}
    assert complete(tmp_path, "verify", "0x12", "--executor", "") == {"process", "ray"}
    assert complete(tmp_path, "init", "--limits", "1") == {"12s"}
    assert complete(tmp_path, "completion", "z") == {"zsh"}


def test_files_where_no_word_fits_and_no_option_out_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("")
    assert complete(tmp_path, "solve", "0x12", "--password-file", "pa") == {"password"}
    (tmp_path / "--nonsense.txt").write_text("")
    assert complete(tmp_path, "solve", "--nonsense") == set()


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_one_that_the_shell_reads(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "script").write_text(render(shell))
    assert subprocess.run([shell, "-n", str(tmp_path / "script")], capture_output=True).returncode == 0


@pytest.mark.parametrize("shell", SHELLS)
def test_the_command_writes_it(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert capsys.readouterr().out == render(shell)
    assert main(["completion", shell, "--json"]) == 0
    assert read_one("completion", capsys.readouterr().out) == {"shell": shell, "script": render(shell)}
