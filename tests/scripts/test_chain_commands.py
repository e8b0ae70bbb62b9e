"""The commands against a real test network, and the errors that an operator meets first."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from eth_account import Account
from msgspec import structs

from tests.explorer.plays import make_deployment
from tests.rounds.campaign import make_player
from tests.rounds.chain import RoundChain, open_round_chain
from tests.scripts.network import DEADLINE_S, ROOT, Network, edit_config, fail, init
from tests.scripts.typed import parse
from touchstone.explorer.node_reports import Asked
from touchstone.protocol.adapters.chain.deployment import write_game_deployment
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.scripts.home.home_config import HomeConfig, read_config
from touchstone.scripts.home.home_folder import create_home, unlock_key
from touchstone.scripts.network.devnet import claim_port
from touchstone.scripts.network.explorer_service import choose_asked, choose_index
from touchstone.scripts.touchstone import main

NOWHERE = "http://127.0.0.1:1"


def test_a_party_gets_money(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--home", str(home)]) == 0
    shown = capsys.readouterr().out
    assert "Tasks at block" in shown and "100000 tokens" in shown


def test_a_home_knows_by_which_preset_it_judges(
    network: Network, tmp_path: Path, password: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert init(network, tmp_path / "a", password) == 0
    assert read_config(tmp_path / "a").preset == "local"
    assert "WARNING" not in capsys.readouterr().out
    assert init(network, tmp_path / "b", password, "--preset", "2s") == 0
    assert "WARNING: the deployment has the bounds local, this home has 2s" in capsys.readouterr().out
    assert read_config(tmp_path / "b").preset == "2s"
    edit_config(tmp_path / "b", "preset", "1s")
    assert "preset" in fail(capsys, "status", "--home", str(tmp_path / "b"))[2]


def test_a_home_is_not_made_twice(
    network: Network, home: Path, password: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (home / "keystore.json").read_bytes()
    assert init(network, home, password) == 2
    assert "this home exists already" in capsys.readouterr().err
    assert (home / "keystore.json").read_bytes() == before


def init_with(url: str, network: Network, home: Path, password: Path) -> int:
    arguments = ["--deployment", str(network.deployment), "--password-file", str(password)]
    return main(["init", "--home", str(home), "--devnet", *arguments, "--rpc-url", url])


def test_where_no_chain_answers_no_home_is_made(network: Network, tmp_path: Path, password: Path) -> None:
    """Else the wrong URL would stay in its configuration."""
    assert init_with(NOWHERE, network, tmp_path / "home", password) == 2
    assert not (tmp_path / "home").exists()
    assert init_with(network.rpc_url, network, tmp_path / "home", password) == 0


def test_a_home_whose_account_got_nothing_is_funded_by_init_again(
    network: Network, tmp_path: Path, password: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The chain went away while it was made."""
    home, url = tmp_path / "poor", network.rpc_url
    config = HomeConfig(rpc_url=NOWHERE, deployment=str(network.deployment), preset="local")
    create_home(home, config, "secret", is_devnet=True)
    assert init_with(url, network, home, password) == 2
    assert f"correct rpc_url in {home / 'config.toml'}" in capsys.readouterr().err
    edit_config(home, "rpc_url", url)
    assert init_with(url, network, home, password) == 0
    assert "funded" in capsys.readouterr().out
    assert main(["status", "--home", str(home)]) == 0 and "100000 tokens" in capsys.readouterr().out
    assert init_with(url, network, home, password) == 2
    assert f"its account has money ({home})" in capsys.readouterr().err


def test_a_half_made_home_is_finished_with_its_key(
    network: Network, home: Path, password: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "config.toml").unlink()
    before = (home / "keystore.json").read_bytes()
    assert init(network, home, password) == 0
    assert "funded" not in capsys.readouterr().out, "it had money before"
    assert (home / "keystore.json").read_bytes() == before
    assert main(["status", "--home", str(home)]) == 0 and "100000 tokens" in capsys.readouterr().out


def test_a_home_that_is_whole_is_told_before_a_password_is_asked_for(
    network: Network, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = fail(capsys, "init", "--home", str(home), "--deployment", str(network.deployment))
    assert "this home exists already" in lines[0]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--listen-host", "0.0.0.0"),
        ("--listen-host", "::"),
        ("--listen-host", ""),
        ("--public-url", "http://node.example"),
        ("--public-url", "https://node.example/blobs"),
        ("--public-url", "https://[::]:8443"),
    ],
)
def test_an_endpoint_that_no_peer_can_use_makes_no_home(
    network: Network,
    tmp_path: Path,
    password: Path,
    capsys: pytest.CaptureFixture[str],
    option: str,
    value: str,
) -> None:
    home = tmp_path / "nowhere"
    assert init(network, home, password, option, value) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["error", "expected", "actual", "do"]
    assert "--public-url https://" in lines[3] and not home.exists()


def test_a_node_that_listens_everywhere_says_where_it_is_found(
    network: Network, tmp_path: Path, password: Path
) -> None:
    more = ("--listen-host", "0.0.0.0", "--public-url", "https://node.example:8443")
    assert init(network, tmp_path / "home", password, *more) == 0


def test_a_home_takes_the_key_of_a_file(
    network: Network, tmp_path: Path, password: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, home = tmp_path / "wallet", tmp_path / "imported"
    source.write_text("0x" + "12" * 32)
    source.chmod(0o644)
    assert init(network, home, password, "--import-key", str(source)) == 2
    assert "mode 0600" in capsys.readouterr().err and not home.exists()
    source.chmod(0o600)
    assert init(network, home, password, "--import-key", str(source)) == 0
    address = Account.from_key("0x" + "12" * 32).address
    said = capsys.readouterr().out
    assert f"account {address}" in said and "copied from" in said and "12" * 32 not in said
    assert unlock_key(home, password).address == address
    # The keystore that was made is one to import: its password stays.
    again = ("--import-key", str(home / "keystore.json"))
    assert init(network, tmp_path / "again", password, *again) == 0
    assert read_config(tmp_path / "again").account == address
    capsys.readouterr()
    assert init(network, home, password, *again) == 2
    assert "has a key already" in capsys.readouterr().err


def test_no_home(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = fail(capsys, "status", "--home", str(tmp_path / "nowhere"))
    assert "touchstone init" in lines[3]


def test_no_chain(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"http://127.0.0.1:{claim_port(0)}"
    edit_config(home, "rpc_url", url)
    lines = fail(capsys, "status", "--home", str(home))
    assert url in lines[0] and lines[1].endswith("a chain that answers") and "touchstone devnet" in lines[3]


def test_another_chain(
    home: Path, network: Network, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "1.json"
    other.write_text(json.dumps({**json.loads(network.deployment.read_text()), "chainId": 1}))
    edit_config(home, "deployment", str(other))
    edit_config(home, "deployment_sha256", "")
    lines = fail(capsys, "withdraw", "--home", str(home))
    assert lines[1].endswith("chain id 1") and lines[2].endswith("chain id 31337")


def test_another_deployment(
    home: Path, network: Network, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stale = tmp_path / "stale.json"
    stale.write_text(json.dumps({**json.loads(network.deployment.read_text()), "rounds": "0x" + 40 * "8"}))
    edit_config(home, "deployment", str(stale))
    assert "to another deployment than this home" in fail(capsys, "status", "--home", str(home))[0]
    edit_config(home, "deployment_sha256", "")
    assert "Rounds" in fail(capsys, "status", "--home", str(home))[0]


def test_a_wrong_password(home: Path, password: Path, capsys: pytest.CaptureFixture[str]) -> None:
    password.write_text("wrong\n")
    lines = fail(capsys, "withdraw", "--home", str(home))
    assert "password" in lines[3] and "secret" not in "".join(lines)


def test_a_port_that_is_taken(network: Network, capsys: pytest.CaptureFixture[str]) -> None:
    lines = fail(capsys, "devnet", "--port", network.rpc_url.rsplit(":", 1)[1])
    assert "the port is taken" in lines[0]


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[RoundChain]:
    """The contracts on an Anvil of their own."""
    with open_round_chain(tmp_path / "chain", BOUNDS_LOCAL) as opened:
        yield opened


async def test_it_serves_until_it_is_asked_to_end(chain: RoundChain, tmp_path: Path) -> None:
    task = make_player(chain, 11).twin.task
    path = tmp_path / "deployment.json"
    write_game_deployment(path, make_deployment(chain))
    arguments = ("explorer", "--deployment", str(path), "--rpc-url", chain.url, "--port", "0")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "touchstone.scripts.touchstone", *arguments,
        cwd=ROOT, stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path / "home"), "DISPLAY": ""},
    )  # fmt: skip
    assert process.stdout is not None
    async with asyncio.timeout(DEADLINE_S):
        url = (await process.stdout.readline()).decode().split()[-1]
        async with aiohttp.ClientSession(url) as browser:
            while True:
                async with browser.get("/api/tasks") as response:
                    tasks = [one["task"] for one in (await response.json())["tasks"]]
                if tasks:
                    break
                await asyncio.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 130
    assert tasks == [f"0x{task.hex()}"] and url.startswith("http://127.0.0.1:")
    assert not (tmp_path / "home").exists()


def test_nodes_of_a_test_network_are_asked_and_others_of_a_private_network_where_it_is_said(
    chain: RoundChain,
) -> None:
    local = make_deployment(chain)
    public = structs.replace(local, chain_id=1)
    for deployment, words, asked in (
        (local, [], Asked.ALL),
        (public, [], Asked.PUBLIC),
        (public, ["--private-peers"], Asked.ALL),
        (local, ["--chain-only"], Asked.NOBODY),
        (public, ["--chain-only", "--private-peers"], Asked.NOBODY),
    ):
        _, typed = parse(["explorer", *words])
        flags = {"is_chain_only": typed["chain_only"], "is_private": typed["private_peers"]}
        assert choose_asked(deployment, **flags) is asked, words


def test_each_deployment_has_a_file_of_its_own(
    chain: RoundChain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    deployment = make_deployment(chain)
    path = choose_index(deployment)
    assert path.parent == tmp_path / "touchstone"
    assert str(deployment.chain_id) in path.name and deployment.game in path.name
