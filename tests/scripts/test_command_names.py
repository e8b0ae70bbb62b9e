"""Who does not know the commands yet types what others call so, and is told the right one in one line."""

import re
from importlib.metadata import version

import click
import pytest

from tests.scripts.schemas import read_one
from tests.scripts.typed import COMMANDS, run
from touchstone.protocol.spec.params import PROTOCOL_VERSION
from touchstone.scripts.command_line.command_names import ALIASES, ANSWERS, MEANINGS, SECTIONS
from touchstone.scripts.touchstone import cli


def exists(words: str) -> bool:
    """Whether `touchstone task create TASK --devnet` begins with the words of a command."""
    first, *rest = words.split()
    assert first == "touchstone", words
    command: click.Command = cli
    for word in rest:
        if not isinstance(command, click.Group):
            return word.isupper() or word.startswith("--")
        if word not in command.commands:
            return False
        command = command.commands[word]
    return not isinstance(command, click.Group)


GUESSED = (
    "balance", "tasks", "wallet", "account", "config", "logs", "join", "run", "start", "download", "unstake",
    "claim", "dispute", "challenge", "audit", "earnings", "rewards", "help", "version", "login", "faucet",
    "peers", "top", "history", "update", "address", "rounds", "generate", "chat", "task list", "task status",
    "task show", "task post", "task cancel", "data list", "data tokenize", "shares balance",
    "model download", "model list", "train", "stop", "evaluate",
)  # fmt: skip
"""What newcomers typed who had not read the manual."""


def list_named(line: str) -> list[str]:
    """The commands at the end of an answer."""
    return line.strip().rpartition(": ")[2].split(", ")


@pytest.mark.parametrize("typed", GUESSED)
def test_a_name_that_newcomers_guess_works_or_is_answered_with_the_command(typed: str) -> None:
    status, out, err = run(*typed.split(), "--help")
    if status == 0:
        assert out.startswith("Usage: touchstone ") and len(err.splitlines()) <= 1
        return
    assert (status, out) == (2, "") and len(err.splitlines()) == 1
    assert err.startswith(f"touchstone has no command {typed.split()[0]}")
    assert all(map(exists, list_named(err)))


def test_the_answer_says_what_is_meant() -> None:
    said = "touchstone has no command wallet. Money of an account: touchstone status\n"
    assert run("wallet") == run("wallet", "--json") == (2, "", said)
    assert "no command task list. All tasks" in run("task", "list")[2]
    assert "no command model download. " in run("model", "download", "0x3fa9")[2]


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("withdra", "Did you mean: touchstone withdraw"),
        ("task creat", "Did you mean: touchstone task create"),
        ("walet", "Money of an account: touchstone status"),
        ("balanc", "Did you mean: touchstone status"),
        ("task lst", "All tasks"),
        ("task dance", "All commands: touchstone task --help"),
    ],
)
def test_a_slip_is_told_what_is_near(typed: str, answer: str) -> None:
    status, _, err = run(*typed.split())
    assert status == 2 and answer in err and len(err.splitlines()) == 1


@pytest.mark.parametrize("answer", ANSWERS)
def test_each_answer_of_the_table_names_commands_that_exist(answer: str) -> None:
    assert all(map(exists, list_named(answer))) and len(answer) <= 100


def test_no_name_of_the_table_has_two_answers() -> None:
    assert len(MEANINGS) == sum(map(len, ANSWERS.values())) and not MEANINGS.keys() & ALIASES


@pytest.mark.parametrize("name", ["balance", "run", "unstake", "challenge", "download"])
def test_another_name_of_a_command_is_the_command(name: str) -> None:
    """It says so, because some could mean another one as well."""
    command, note = ALIASES[name]
    status, out, err = run(name, "--help")
    assert (status, out) == (0, run(command, "--help")[1]) and note in err
    assert err.startswith(f"touchstone {name} is touchstone {command}") and len(err.splitlines()) == 1
    assert all(map(exists, list_named(note))) if note else True


def test_the_help_has_headings_and_leaves_no_command_out() -> None:
    _, out, _ = run("--help")
    assert re.findall(r"(?m)^(\w[\w ]*):$", out) == ["Options", *SECTIONS]
    named = [name for names in SECTIONS.values() for name in names]
    assert sorted(named) == sorted(cli.commands)
    places = [out.index(f"\n  {name} ") for name in named]
    assert places == sorted(places)


def test_without_a_command_the_help_is_shown() -> None:
    assert run() == (0, run("--help")[1], "")


@pytest.mark.parametrize("words", ["", "solve", "task", "task create", "run"])
def test_help_explains_a_command(words: str) -> None:
    status, out, _ = run("help", *words.split())
    assert (status, out) == (0, run(*words.split(), "--help")[1])


def test_help_on_what_is_no_command_is_answered_alike() -> None:
    assert run("help", "wallet") == run("wallet")
    status, _, err = run("help", "solve", "it")
    assert status == 2 and "touchstone solve has no further command" in err


def test_the_version_is_a_command_too() -> None:
    assert run("version") == run("--version")
    found = read_one("version", run("version", "--json")[1])
    assert found == {"version": version("touchstone"), "protocol": PROTOCOL_VERSION}
    told = read_one("help", run("help", "task", "halt", "--json")[1])
    assert told["command"] == "touchstone task halt" and "End an own task" in told["text"]


def test_the_commands_are_found() -> None:
    assert exists("touchstone task create") and not exists("touchstone task") and not exists("touchstone x")
    assert "version" in COMMANDS
