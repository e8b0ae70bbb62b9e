"""The pinned tools are found, and a missing one says what to do."""

import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from touchstone.scripts import toolchain


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
        toolchain.anvil_path()


def test_unknown_machine_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "pdp11")
    with pytest.raises(toolchain.ToolMissing, match="pdp11"):
        toolchain.compute_platform()


def test_hardfork_is_what_the_contracts_are_compiled_for() -> None:
    profile = tomllib.loads((toolchain.ROOT / "foundry.toml").read_text())["profile"]["default"]
    assert profile["evm_version"] == toolchain.HARDFORK
