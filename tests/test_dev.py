"""The one command explains itself and its errors."""

import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

from tests import daily
from tests.daily import is_daily

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def dev(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The command as a module; it has no suffix, so it is loaded by hand and leaves no cache behind."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader = SourceFileLoader("dev", str(ROOT / "dev"))
    module = module_from_spec(spec_from_loader("dev", loader))  # type: ignore[arg-type]
    loader.exec_module(module)
    return module


def run_dev(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ./dev as a person would."""
    return subprocess.run([ROOT / "dev", *arguments], capture_output=True, text=True)


def test_help_names_every_verb(dev: ModuleType) -> None:
    result = run_dev("--help")
    assert result.returncode == 0
    assert not {verb for verb in (*dev.VERBS, "setup") if f"\n  {verb} " not in result.stdout}


def test_no_verb_prints_help_and_fails() -> None:
    assert run_dev().returncode == 2


def test_unknown_verb_says_expected_and_actual() -> None:
    result = run_dev("tset")
    assert result.returncode == 1
    assert "expected: one of demo, test" in result.stderr and "actual:   tset" in result.stderr


def test_old_python_is_refused_with_advice(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dev.sys, "version_info", (3, 10, 1))
    monkeypatch.setattr(dev.shutil, "which", lambda name: None)
    assert dev.main(["setup"]) == 1
    assert "Python 3.11 or later" in capsys.readouterr().err


def test_a_set_up_that_has_nothing_to_do_says_so(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dev, "is_set_up", lambda: True)
    assert dev.main(["setup"]) == 0
    assert capsys.readouterr().out == "Everything is installed.\n"


def test_nothing_is_installed_into_another_checkout(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / ".venv").symlink_to(tmp_path / "other")
    monkeypatch.setattr(dev, "is_set_up", lambda: False)
    monkeypatch.setattr(dev, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(dev, "LOGS", tmp_path / "logs")
    assert dev.main(["setup"]) == 1
    assert "a link to" in capsys.readouterr().err and not (tmp_path / "logs").exists()


def test_digest_changes_with_each_input(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(dev, "ROOT", tmp_path)
    for name in dev.INPUTS:
        (tmp_path / name).write_text("old")
    digests = {dev.compute_digest()}
    for name in dev.INPUTS:
        (tmp_path / name).write_text("new")
        digests.add(dev.compute_digest())
    assert len(digests) == 1 + len(dev.INPUTS)


def test_failed_step_shows_its_log_and_its_status(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dev, "LOGS", tmp_path)
    command = [sys.executable, "-c", "import sys; print('no space left'); sys.exit(7)"]
    assert dev.run_logged("tool (large)", command, "free some disk") == 7
    output = capsys.readouterr()
    assert "no space left" in output.out and "free some disk" in output.err
    assert (tmp_path / "tool.log").exists()


def test_each_day_long_tests_are_left_out_and_with_all_forge_compiles_the_contracts(dev: ModuleType) -> None:
    quick, everything = (dict(dev.list_checks(["-q"], is_all=is_all))["pytest"] for is_all in (False, True))
    assert "--daily" in quick and "--daily" not in everything
    assert all("--durations=20" in command and command[-1] == "-q" for command in (quick, everything))
    named = dict(dev.list_checks(["tests/test_dev.py::test_help_names_every_verb"], is_all=False))["pytest"]
    assert "--daily" not in named, "what is named runs, whichever it is"


def test_what_runs_each_day_is_named_by_folder_or_file() -> None:
    for path in (*daily.LONG, *daily.PLAYS):
        assert (ROOT / path).exists(), f"{path} is not there: its tests would run each day, or never"
    assert is_daily("tests/test_dev.py::test_x") and is_daily(f"{daily.PLAYS[0]}::test_x")
    assert not is_daily("tests/lab/test_x.py::test_x")
