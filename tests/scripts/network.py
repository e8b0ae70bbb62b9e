"""What the tests of the commands share: a test network to talk to, and failing in four lines."""

import json
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from touchstone.scripts.touchstone import main

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 600.0


@dataclass(frozen=True)
class Network:
    """`touchstone devnet` as a process of its own."""

    process: "subprocess.Popen[Any]"
    rpc_url: str
    deployment: Path


def wait_for_line(log: Path, pattern: str) -> str:
    deadline_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline_s:
        found = re.search(pattern, log.read_text())
        if found:
            return found.group(1)
        time.sleep(0.05)
    raise AssertionError(f"no {pattern} in {log.read_text()}")


def init(network: Network, home: Path, password: Path, *more: str) -> int:
    arguments = ["init", "--home", str(home), "--rpc-url", network.rpc_url, "--password-file", str(password)]
    return main([*arguments, "--deployment", str(network.deployment), "--devnet", *more])


def fail(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """Run a command that must fail; return its four lines."""
    capsys.readouterr()
    assert main(arguments) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["error", "expected", "actual", "do"]
    return lines


def edit_config(home: Path, key: str, value: object) -> None:
    path = home / "config.toml"
    path.write_text(re.sub(rf"(?m)^{key} = .*$", f"{key} = {json.dumps(value)}", path.read_text()))
