"""The pinned tools are found, and a missing one says what to do."""

import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.scripts import toolchain
from touchstone.scripts.command_line.command_errors import ExitCode
from touchstone.scripts.touchstone import main


@pytest.mark.parametrize("find", [toolchain.anvil_path, toolchain.forge_path])
def test_foundry_tool_runs(find: Callable[[], Path]) -> None:
    result = subprocess.run([str(find()), "--version"], capture_output=True, text=True, check=True)
    assert "1.7.1" in result.stdout


def test_solc_shim_names_a_platform_that_its_callers_know() -> None:
    command = [str(toolchain.solc_shim_path()), "--version"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1].startswith("Version: 0.8.37+commit.")
    assert result.stdout.strip().endswith(".Linux.g++")


def test_solc_shim_refuses_what_it_does_not_speak() -> None:
    result = subprocess.run([str(toolchain.solc_shim_path()), "--gas"], capture_output=True, text=True)
    assert result.returncode == 1 and "--standard-json" in result.stderr


def test_missing_tool_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(toolchain, "NODE_MODULES", tmp_path)
    with pytest.raises(toolchain.ToolMissing, match=r"run \./dev setup"):
        toolchain.forge_path()


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A working folder, as a wheel's user has it: no checkout, nothing on PATH."""
    monkeypatch.setattr(toolchain, "NODE_MODULES", tmp_path / "absent")
    monkeypatch.delenv(toolchain.ANVIL_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make_program(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_anvil_is_found_on_path_in_npms_package_and_by_its_variable(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path = make_program(bare / "bin" / "anvil")
    assert toolchain.anvil_path() == on_path
    package = bare / "node_modules" / "@foundry-rs" / f"anvil-{toolchain.compute_platform()}"
    of_npm = make_program(package / "bin" / "anvil")
    assert toolchain.anvil_path() == of_npm
    named = make_program(bare / "own" / "my-anvil")
    monkeypatch.setenv(toolchain.ANVIL_VARIABLE, str(named))
    assert toolchain.anvil_path() == named


@pytest.mark.parametrize("command", ["devnet", "demo"])
def test_a_machine_without_anvil_is_told_how_to_install_it(
    bare: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--out", str(bare / "out")]) == ExitCode.REFUSED
    error = capsys.readouterr().err
    assert "error:    Anvil" in error and len(error.splitlines()) == 4
    assert all(word in error for word in ("npm install @foundry-rs/anvil-", "foundryup", "TOUCHSTONE_ANVIL"))


def test_a_variable_that_names_no_file_is_told(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else another Anvil would run than the one that was asked for."""
    make_program(bare / "bin" / "anvil")
    monkeypatch.setenv(toolchain.ANVIL_VARIABLE, str(bare / "gone"))
    with pytest.raises(EnvironmentFault, match="gone"):
        toolchain.anvil_path()


def test_unknown_machine_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "pdp11")
    with pytest.raises(toolchain.ToolMissing, match="pdp11"):
        toolchain.compute_platform()


def test_hardfork_is_what_the_contracts_are_compiled_for() -> None:
    profile = tomllib.loads((toolchain.ROOT / "foundry.toml").read_text())["profile"]["default"]
    assert profile["evm_version"] == toolchain.HARDFORK
