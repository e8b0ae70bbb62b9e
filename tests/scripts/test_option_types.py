"""What is typed for an option is looked at before anything is loaded, and refused by the option's name."""

import os
from pathlib import Path

import click
import pytest

from tests.scripts.typed import COMMANDS, parse, run
from touchstone.scripts.command_line.option_types import Amount, ExistingPath

TYPED = [
    (words, parameter)
    for words, command in COMMANDS.items()
    for parameter in command.params
    if isinstance(parameter.type, ExistingPath)
]
"""Every option and argument that names a file or a folder which must be there."""


def refuse(words: str, parameter: click.Parameter, value: str) -> str:
    """What a command says of one value, the others being of no account."""
    is_option = isinstance(parameter, click.Option)
    typed = (parameter.opts[0], value) if is_option else ("--", value, "1", "1", "1")
    status, out, err = run(*words.split(), *typed)
    assert (status, out, len(err.splitlines())) == (2, "", 2), err
    name = parameter.opts[0] if is_option else parameter.make_metavar(click.Context(COMMANDS[words]))
    assert f"Invalid value for '{name}'" in err
    return err


@pytest.mark.parametrize(("words", "parameter"), TYPED, ids=str)
def test_a_file_that_is_not_there_is_told_with_its_option(
    words: str, parameter: click.Parameter, tmp_path: Path
) -> None:
    said = refuse(words, parameter, str(tmp_path / "nothing"))
    assert "there is no f" in said and str(tmp_path / "nothing") in said


@pytest.mark.parametrize(("words", "parameter"), TYPED, ids=str)
def test_a_folder_is_no_file_and_a_file_no_folder(
    words: str, parameter: click.Parameter, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    kind = parameter.type
    assert isinstance(kind, ExistingPath)
    if not kind.dir_okay:
        assert "expected a file, got the folder" in refuse(words, parameter, str(tmp_path))
    if not kind.file_okay:
        assert "expected a folder, got the file" in refuse(words, parameter, str(tmp_path / "file"))


def test_files_that_commands_read_are_looked_for() -> None:
    names = {f"{words} {parameter.opts[0]}" for words, parameter in TYPED}
    assert {
        "init --deployment", "init --import-key", "init --password-file", "task check --config",
        "task create --config", "task init --step", "solve --weights", "policy profiles", "sample model",
        "data pack inputs", "eval --dataset", "explorer --deployment",
    } <= names  # fmt: skip


def test_a_default_is_left_to_who_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of the tasks of a home reads no other deployment."""
    monkeypatch.chdir(tmp_path)
    assert parse(["tasks"])[1]["deployment"] == Path("deployments/31337.json")
    status, _, err = run("explorer")
    assert status == 2 and "no usable deployment file" in err and "touchstone devnet" in err


def test_a_pipe_may_stand_for_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    words = ["init", "--password-file", str(tmp_path / "pipe")]
    assert parse(words)[1]["password_file"] == tmp_path / "pipe"


AMOUNTS = [
    (words, parameter)
    for words, command in COMMANDS.items()
    for parameter in command.params
    if isinstance(parameter.type, Amount)
]


@pytest.mark.parametrize(("words", "parameter"), AMOUNTS, ids=str)
@pytest.mark.parametrize("value", ["-1", "0", "1e3", "1,5", "x", "9" * 5000])
def test_an_amount_that_can_be_none_is_told_with_its_option(
    words: str, parameter: click.Parameter, value: str
) -> None:
    is_option = isinstance(parameter, click.Option)
    typed = (f"--stake={value}", "0x12") if is_option else ("--", "0x12", value)
    status, _, err = run(*words.split(), *typed)
    assert status == 2 and f"'{'--stake' if is_option else 'AMOUNT'}': expected a positive number" in err
    assert "whole tokens, not wei" in err and len(err.splitlines()) == 2 and len(err) < 400


def test_an_amount_is_read_as_wei() -> None:
    assert parse(["stake", "0x12", "12.5"])[1]["amount_wei"] == 125 * 10**17
    assert parse(["solve", "0x12", "--stake", "1"])[1]["stake_wei"] == 10**18
    assert len(AMOUNTS) == 5


@pytest.mark.parametrize("url", ["", "foo", "ws://host:1", "http://", "http://host:99999", "http://host:0"])
def test_a_url_that_can_be_none_is_refused_and_not_shown(url: str) -> None:
    """A provider's URL has a key in it."""
    status, _, err = run("init", "--rpc-url", url + "?key=s3cr3t" if url else "")
    assert status == 2 and "'--rpc-url': expected http:// or https://" in err and "s3cr3t" not in err
    assert parse(["init", "--rpc-url", "https://rpc.example/v1/abc"])[1]["rpc_url"].endswith("/abc")


def test_an_address_that_can_be_none_is_refused() -> None:
    status, _, err = run("devnet", "--fund", "alice")
    assert status == 2 and "'--fund': expected 0x and 40 hexadecimal digits, got 'alice'" in err
    assert parse(["devnet", "--fund", "0x" + 40 * "a"])[1]["fund"] == ("0x" + 40 * "a",)
