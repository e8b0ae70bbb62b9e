"""Every subcommand explains itself, is in the manual, and fails in four lines."""

import errno
import inspect
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from tests.scripts.network import DEADLINE_S, ROOT
from tests.scripts.schemas import read_one
from tests.scripts.typed import COMMANDS, parse, run
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.command_line.command_errors import ExitCode
from touchstone.scripts.command_line.completion_commands import VARIABLE
from touchstone.scripts.command_line.option_types import Number
from touchstone.scripts.tasks.task_example import CORPUS_BYTES
from touchstone.scripts.touchstone import cli, main

WANTED = {
    "demo",
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
    "task serve",
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
    "keys export",
    "keys password",
    "completion",
    "help",
    "tasks",
    "top",
    "version",
}


def read_manual() -> str:
    return "\n".join(
        path.read_text() for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")] if path.exists()
    )


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
    assert parse(["status", "--home", "~/alice"])[1]["home"] == Path("/somewhere/alice")
    assert parse(["status"])[1]["home"] == Path("/somewhere/other")


HEAVY = (
    "torch", "numba", "numpy", "web3", "aiohttp", "eth_account", "rich", "asyncio", "touchstone.node",
    "touchstone.explorer", "touchstone.protocol.compute", "touchstone.protocol.economics",
    "touchstone.protocol.spec.game.state", "touchstone.protocol.spec.task_spec",
    "touchstone.scripts.documents.overview_documents",
)  # fmt: skip
"""Modules, with those below them, that only a command that runs needs: together some seconds of processor
time."""


@pytest.mark.parametrize(
    "words", ["--help", "--version", "status --help", "solve --help", "completion bash", "init --what"]
)
def test_what_needs_neither_tensors_nor_a_chain_waits_for_none(words: str) -> None:
    code = (
        "import sys; from touchstone.scripts.touchstone import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print('loaded:', *sorted(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, *words.split()], cwd=ROOT, capture_output=True, text=True
    )
    loaded = result.stdout.rsplit("loaded:", 1)[1].split()
    heavy = [name for name in loaded if any(f"{name}.".startswith(f"{one}.") for one in HEAVY)]
    assert "touchstone.scripts.touchstone" in loaded and not heavy


@pytest.mark.parametrize(
    "module",
    [
        "money.staking",
        "money.withdrawal",
        "money.task_shares",
        "home.home_making",
        "network.devnet_service",
        "network.explorer_service",
        "tasks.task_example",
        "tasks.task_ending",
        "tasks.figures",
        "tasks.terms_checks",
        "calibration.limit_policy",
        "status.status_report",
        "status.offer_tables",
    ],
)
def test_commands_that_only_ask_the_chain_do_not_wait_for_torch(module: str) -> None:
    code = f"import touchstone.scripts.{module}, sys; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert result.stdout == "False\n", result.stderr


NUMBERS = [
    (words, parameter.opts[0])
    for words, command in COMMANDS.items()
    for parameter in command.params
    if isinstance(parameter.type, Number)
]


@pytest.mark.parametrize(("words", "name"), NUMBERS, ids=str)
@pytest.mark.parametrize("value", ["-1", "1" + 30 * "0", "nan", "inf", "9" * 5000, "one", "\x1b[2J\n"])
def test_a_number_that_can_be_none_is_refused_by_name(words: str, name: str, value: str) -> None:
    """`devnet --port 99999` was told as a bug."""
    places = [one.name for one in COMMANDS[words].params if isinstance(one, click.Argument)]
    typed = [value if place == name else "1" for place in places]
    named = [f"{name}={value}"] if name.startswith("-") else []
    status, _, err = run(*words.split(), *named, "--", *typed)
    said, advice = err.splitlines()
    shown = value if len(value) < 40 else "5000 characters"
    assert status == 2 and f"'{name if named else name.upper()}': expected" in said
    assert f"got {shown!r}" in said and f"touchstone {words} --help" in advice


@pytest.mark.parametrize("words", ["eval model", "sample . --prompt x"])
def test_what_would_read_or_write_nothing_is_refused_before_anything_is_loaded(words: str) -> None:
    status, _, err = run(*words.split(), "--tokens", "0")
    assert status == 2 and "'--tokens': expected a whole number from 1 to" in err


@pytest.mark.parametrize(
    "typed", ["status --home x {0} {0}", "init --preset {0}", "status {1}", "init --{0}"]
)
def test_what_is_typed_steers_no_terminal_and_fills_no_screen(typed: str) -> None:
    file = "a\x1b[2J\n\u202e" + "x" * 5000
    words = [one.format(file, f"--{file}") for one in typed.split(" ")]
    status, out, err = run(*words)
    assert (status, out) == (2, "") and len(err) < 600 and len(err.splitlines()) == 2
    assert err.replace("\n", "").isprintable() and "a\\x1b[2J" in err


@pytest.mark.parametrize("before", ["", "task ", "help "])
def test_a_name_that_is_typed_steers_no_terminal_either(before: str) -> None:
    status, out, err = run(*before.split(), "a\x1b[2J\n\u202e" + "x" * 5000)
    assert (status, out) == (2, "") and len(err) < 200 and len(err.splitlines()) == 1
    assert err.replace("\n", "").isprintable() and "a\\x1b[2J" in err


def test_a_slip_is_told_with_what_was_meant() -> None:
    assert "Did you mean '--home'?" in run("status", "--hom", "x")[2]
    assert "do:       See `touchstone task halt --help`." in run("task", "halt", "0x3fa9", "--yess")[2]


def test_numbers_are_seen() -> None:
    assert ("devnet", "--port") in NUMBERS and ("replay", "round") in NUMBERS and len(NUMBERS) > 15


def test_the_subcommands_are_those_of_the_manual() -> None:
    assert set(COMMANDS) == WANTED


def tell_default(option: click.Parameter) -> str:
    """As the help shows it: flags and what is left empty have none that says something."""
    has_one = isinstance(option.default, str | int | float) and option.default not in ("", False)
    return f"default: {option.default}" if has_one else ""


NAMED = ("task.toml", "texts.jsonl", "tokenizer.json", "alice.json", "bob.json", "carol.json")
"""Files of the examples; their folders are below."""


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the files and folders that the examples of the help name."""
    monkeypatch.chdir(tmp_path)
    for name in ("deployments", "build/model", "corpus", "folder"):
        (tmp_path / name).mkdir(parents=True)
    for name in (*NAMED, "deployments/31337.json"):
        (tmp_path / name).write_text("")


@pytest.mark.parametrize("words", COMMANDS)
def test_help_shows_an_example_that_parses(words: str, workplace: None) -> None:
    status, out, _ = run(*words.split(), "--help")
    command, told = COMMANDS[words], " ".join(out.split())
    assert status == 0 and command.example in out
    for option in command.params:
        assert option.help and " ".join(option.help.split()) in told
        assert option.opts[-1] in told or option.make_metavar(click.Context(command)) in told
        assert tell_default(option) in told
    typed = shlex.split(command.example)
    assert typed[0] == "touchstone" and parse(typed[1:])[0] == words


@pytest.mark.parametrize("words", COMMANDS)
def test_every_subcommand_is_documented(words: str) -> None:
    manual = read_manual()
    assert f"`touchstone {words}`" in manual
    assert COMMANDS[words].example in manual


@pytest.mark.parametrize("words", COMMANDS)
def test_a_function_takes_what_its_command_declares(words: str) -> None:
    """What `Command` itself takes does not reach it."""
    command = COMMANDS[words]
    names = {one.name for one in command.params} - {
        "is_json",
        "is_debug",
        "log_level",
        "log_file",
        "log_format",
    }
    assert command.callback is not None
    taken = inspect.signature(command.callback).parameters.values()
    listed = {one.name for one in taken if one.kind is not one.VAR_KEYWORD} - {"output", "context"}
    is_open = any(one.kind is one.VAR_KEYWORD for one in taken)
    assert listed <= names if is_open else listed == names


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def act(**_: object) -> None:
        raise error

    monkeypatch.setattr(COMMANDS["status"], "callback", act)


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


@pytest.mark.parametrize("words", ["solve", "verify", "watch", "task create", "devnet", "explorer"])
def test_what_runs_for_long_has_a_log(words: str) -> None:
    assert {"log_level", "log_file", "log_format"} <= {option.name for option in COMMANDS[words].params}


def test_an_unknown_subcommand_is_refused() -> None:
    assert run("dance") == (2, "", "touchstone has no command dance. All commands: touchstone --help\n")
    assert run("task")[0] == 2 and "Write a commented task file" in run("task")[2]


@pytest.mark.parametrize("arguments", [("status", "--hom", "x"), ("task", "example", "--ou", "build/x")])
def test_no_option_is_taken_for_another(arguments: tuple[str, ...]) -> None:
    status, _, err = run(*arguments)
    assert status == 2 and f"No such option '{arguments[-2]}'" in err and len(err.splitlines()) == 2


def test_the_home_is_chosen_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Path] = []
    monkeypatch.setattr(COMMANDS["status"], "callback", lambda task, home: seen.append(home))
    monkeypatch.setenv("TOUCHSTONE_HOME", "/tmp/from-environment")
    run("status", "--home", "/tmp/given")
    run("status")
    monkeypatch.delenv("TOUCHSTONE_HOME")
    run("status")
    assert seen == [Path("/tmp/given"), Path("/tmp/from-environment"), Path.home() / ".touchstone"]


BACKGROUND = """
import asyncio, signal, sys
from touchstone.scripts.touchstone import cli, main
signal.signal(signal.SIGINT, signal.SIG_IGN)
async def work():
    print("works", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    print("goes on", flush=True)
    await asyncio.Event().wait()
cli.commands["status"].callback = lambda **_: asyncio.run(work())
sys.exit(main(["status"]))
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


SHELLS = ("bash", "zsh", "fish")


def complete(*words: str) -> set[str]:
    """What a shell offers for the last word."""
    found = ShellComplete(cli, {}, "touchstone", VARIABLE).get_completions(list(words[:-1]), words[-1])
    return {f"<{one.type}>" if one.type != "plain" else str(one.value) for one in found}


def test_commands_and_their_second_words() -> None:
    assert complete("") == {words.split()[0] for words in COMMANDS}
    assert complete("-") == {"--version", "-h", "--help"}
    assert complete("so") == {"solve"}
    assert complete("task", "c") == {"close", "create", "check"}


def test_options_and_choices() -> None:
    named = {name for option in COMMANDS["task create"].params for name in option.opts}
    assert complete("task", "create", "--") == named | {"--help"}
    assert complete("verify", "0x12", "--executor", "") == {"process", "ray"}
    assert complete("init", "--preset", "1") == {"12s"}
    assert complete("completion", "z") == {"zsh"}


def test_each_shell_is_offered() -> None:
    assert complete("completion", "") == set(SHELLS)


def test_files_where_a_path_is_wanted_and_no_option_out_of_nothing() -> None:
    assert complete("solve", "0x12", "--password-file", "pa") == {"<file>"}
    assert complete("solve", "--nonsense") == set()


def test_bash_asks_the_command_itself(tmp_path: Path) -> None:
    """The script, sourced, with the command that it is for."""
    lines = (
        f'touchstone() {{ {sys.executable} -m touchstone.scripts.touchstone "$@"; }}',
        'eval "$(touchstone completion bash)"',
        "COMP_WORDS=(touchstone task ch) COMP_CWORD=2",
        "_touchstone_completion touchstone",
        'printf "%s\\n" "${COMPREPLY[@]}"',
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr, done.returncode) == ("check\n", "", 0)


def test_fish_asks_the_command_itself() -> None:
    """With the words before the cursor, as the script for fish passes them."""
    asked = {VARIABLE: "fish_complete", "COMP_WORDS": "touchstone task ch", "COMP_CWORD": "ch"}
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **asked}
    command = [sys.executable, "-m", "touchstone.scripts.touchstone"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.stdout.startswith("plain,check\tSay whether a task file can be posted")
    assert (len(done.stdout.splitlines()), done.stderr) == (1, "")
    assert VARIABLE in run("completion", "fish")[1] and "commandline -t" in run("completion", "fish")[1]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_one_that_the_shell_reads(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert main(["completion", shell, "--json"]) == 0
    assert read_one("completion", capsys.readouterr().out) == {"shell": shell, "script": script}
    assert "touchstone" in script and VARIABLE in script
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "script").write_text(script)
    assert subprocess.run([shell, "-n", str(tmp_path / "script")], capture_output=True).returncode == 0
