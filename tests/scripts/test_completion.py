"""A shell that has read the script completes what the commands take."""

import shutil
import subprocess
from pathlib import Path

import pytest

from scripts.command_table import COMMANDS
from scripts.completion import render
from scripts.touchstone import main
from tests.scripts.schemas import read_one

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
