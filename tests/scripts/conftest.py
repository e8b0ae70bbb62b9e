"""A test network as a process of its own, and homes on it, for the tests of the commands."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scripts.money import Operators
from tests.scripts.network import DEADLINE_S, ROOT, Network, init, wait_for_line
from touchstone.scripts.network.devnet import claim_port


@pytest.fixture(scope="session")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    folder = tmp_path_factory.mktemp("network")
    deployment, log = folder / "deployment.json", folder / "log"
    command = [sys.executable, "-m", "touchstone.scripts.touchstone", "devnet", "--out", str(deployment)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    rpc_url = wait_for_line(log, r"at (http://127\.0\.0\.1:\d+);")
    yield Network(process, rpc_url, deployment)
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE_S) == 130, log.read_text()
    # Its Anvil has gone with it: the port is free again.
    port = int(rpc_url.rsplit(":", 1)[1])
    assert claim_port(port) == port


@pytest.fixture
def password(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text("secret\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def home(network: Network, tmp_path: Path, password: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert init(network, tmp_path / "home", password) == 0
    capsys.readouterr()
    return tmp_path / "home"


@pytest.fixture
def operators(
    network: Network,
    tmp_path: Path,
    password: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Operators:
    """Operators on the test network, each with 100,000 tokens. Lines are not broken."""
    monkeypatch.setenv("COLUMNS", "400")
    return Operators(network, tmp_path, password, capsys)
