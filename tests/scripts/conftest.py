"""A test network as a process of its own, and homes on it, for the tests of the commands; and a chain on
which rounds are played, with homes of who plays them, for the tests of those that move money."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.devnet import claim_port
from tests.e2e.twin_chain import TwinChain
from tests.scripts.money import Operators, open_money_chain
from tests.scripts.network import DEADLINE_S, ROOT, Network, init, wait_for_line


@pytest.fixture(scope="session")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    folder = tmp_path_factory.mktemp("network")
    deployment, log = folder / "deployment.json", folder / "log"
    command = [sys.executable, "-m", "scripts.touchstone", "devnet", "--out", str(deployment)]
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


@pytest.fixture(scope="module")
def money_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("money")


@pytest.fixture(scope="module")
def money_chain(money_folder: Path) -> Iterator[TwinChain]:
    with open_money_chain(money_folder) as chain:
        yield chain


@pytest.fixture
def party(
    money_chain: TwinChain,
    money_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Operators]:
    """The parties of a round, each with 100,000 tokens and nothing staked. Lines are not broken."""
    monkeypatch.setenv("COLUMNS", "400")
    snapshot = money_chain.snapshot()
    yield Operators(money_chain, money_folder / "deployment.json", tmp_path, capsys)
    money_chain.revert(snapshot)
