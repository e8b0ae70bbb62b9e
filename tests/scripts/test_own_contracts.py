"""A deployment whose contracts are not those of this version is refused by name before a token moves."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from eth_account import Account

from tests.e2e.world import AMOUNTS
from tests.scripts.doctored import CHANGES, STRANGER, Change, deploy_doctored, make_honest
from tests.scripts.money import Operators
from tests.scripts.network import Network, init
from tests.scripts.schemas import read_one
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.creation import compute_creation_code
from touchstone.protocol.adapters.chain.deployment import read_game_deployment, write_game_deployment
from touchstone.protocol.adapters.chain.transactions import ResendPolicy, Sender
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.scripts.home.home_config import HomeConfig
from touchstone.scripts.home.home_folder import create_home
from touchstone.scripts.network.contract_creation import DEV_TOKEN, create
from touchstone.scripts.network.devnet import CHAIN_ID, GRANT_COIN_WEI, fund, give_coin, run_anvil
from touchstone.scripts.touchstone import main

Capture = pytest.CaptureFixture[str]
NAMED = {
    "mover": ("Vault", STRANGER),
    "randomness": ("Rounds", STRANGER),
    "evidence": ("Game", "other code"),
    "shares": ("TaskShares", "other code"),
    "credit": ("Vault", "other code"),
}
"""What was doctored: a contract that is named for it, and what stands in its code."""


@dataclass(frozen=True)
class Doctored:
    """An Anvil with a deployment for each change, and an honest one."""

    rpc_url: str
    paths: dict[str, Path]


@pytest.fixture(scope="module")
def doctored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doctored]:
    folder = tmp_path_factory.mktemp("doctored")

    async def deploy(rpc_url: str) -> dict[str, Path]:
        connection, key = Connection(rpc_url, poll_s=0.02), AccountKey(Account.create())
        await give_coin(connection, key.address, GRANT_COIN_WEI)
        sender, paths = Sender(connection, key, CHAIN_ID, ResendPolicy()), dict[str, Path]()
        token = await create(sender, DEV_TOKEN, compute_creation_code(DEV_TOKEN, []), lambda _: None)
        changes: dict[str, Change] = {"honest": make_honest, **CHANGES}
        for name, change in changes.items():
            paths[name] = folder / f"{name}.json"
            write_game_deployment(paths[name], await deploy_doctored(connection, key, token, change))
        await connection.close()
        return paths

    with asyncio.Runner() as runner:
        anvil = run_anvil(0, folder / "anvil.log")
        rpc_url = runner.run(anvil.__aenter__())
        try:
            yield Doctored(rpc_url, runner.run(deploy(rpc_url)))
        finally:
            runner.run(anvil.__aexit__(None, None, None))


def make_network(doctored: Doctored, name: str) -> Network:
    return Network(None, doctored.rpc_url, doctored.paths[name])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", CHANGES)
def test_no_home_is_made_for_contracts_that_are_others(
    doctored: Doctored, name: str, tmp_path: Path, password: Path, capsys: Capture
) -> None:
    contract, found = NAMED[name]
    assert init(make_network(doctored, name), tmp_path / "home", password) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["error", "expected", "actual", "do"]
    assert contract in lines[0] and found in lines[2] and not (tmp_path / "home").exists()


def test_a_home_for_the_contracts_of_this_version_names_their_token(
    doctored: Doctored, tmp_path: Path, password: Path, capsys: Capture
) -> None:
    """The token is a contract of others: whoever makes a home has to know which one it is."""
    assert init(make_network(doctored, "honest"), tmp_path / "home", password) == 0
    said = capsys.readouterr().out
    assert read_game_deployment(doctored.paths["honest"]).token in said and "not checked" in said


@pytest.fixture(params=["mover", "evidence", "credit"])
def strangers(
    request: pytest.FixtureRequest, doctored: Doctored, tmp_path: Path, password: Path, capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[Operators, str]:  # fmt: skip
    """Operators whose homes an earlier version made for doctored contracts, and a contract to be named."""
    monkeypatch.setenv("COLUMNS", "400")
    name = str(request.param)
    operators = Operators(make_network(doctored, name), tmp_path, password, capsys)
    for who in ("submitter", "alice"):
        home = tmp_path / who
        config = HomeConfig(
            rpc_url=doctored.rpc_url, deployment=str(doctored.paths[name]), preset="local",
            password_file=str(password),
        )  # fmt: skip
        operators.homes[who] = home
        account = create_home(home, config, "secret", is_devnet=True).address
        operators.act(who, lambda chain, to=account: fund(chain.connection, chain.deployment, [to]))  # type: ignore[misc]
    return operators, NAMED[name][0]


def test_no_command_moves_a_token_into_contracts_that_are_others(
    strangers: tuple[Operators, str], tmp_path: Path
) -> None:
    operators, contract = strangers
    # Done without a command: as if it had been there before.
    task = operators.post_task("submitter")
    assert main(["task", "example", "--out", str(tmp_path / "example")]) == 0
    wealth = operators.read_wallet("alice")
    for words in (
        ("solve", task, "--yes"),
        ("verify", task, "--yes"),
        ("watch", task, "--yes"),
        ("task", "create", "--config", str(tmp_path / "example" / "task.toml"), "--yes"),
    ):
        lines = operators.fail("alice", *words)
        assert contract in lines[0] and "No token was moved" in lines[3], words
    operators.join("alice", task, SeatRole.VERIFIER, AMOUNTS.auditor_stake)
    lines = operators.fail("alice", "stake", task, "5")
    assert contract in lines[0]
    assert operators.read_wallet("alice") == wealth - AMOUNTS.auditor_stake


def test_the_doctor_names_contracts_that_are_others(strangers: tuple[Operators, str]) -> None:
    operators, contract = strangers
    operators.capsys.readouterr()
    assert main(["doctor", "--home", str(operators.home_of("alice")), "--json"]) == 1
    checks = {one["check"]: one for one in read_one("doctor", operators.capsys.readouterr().out)["checks"]}
    assert checks["contracts"]["result"] == "fault" and contract in checks["contracts"]["error"]["what"]


def test_a_home_uses_no_other_deployment_than_it_was_made_for(
    doctored: Doctored, tmp_path: Path, password: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who publishes the file may change it once homes are made of it: contracts with the right code on a
    storage of their maker's own, for instance."""
    monkeypatch.setenv("COLUMNS", "400")
    published = tmp_path / "contracts.json"
    published.write_bytes(doctored.paths["honest"].read_bytes())
    network = Network(None, doctored.rpc_url, published)  # type: ignore[arg-type]
    operators = Operators(network, tmp_path, password, capsys)
    for who in ("submitter", "alice"):
        account = operators.account_of(who)
        operators.act(who, lambda chain, to=account: fund(chain.connection, chain.deployment, [to]))  # type: ignore[misc]
    published.write_bytes(doctored.paths["credit"].read_bytes())
    task = operators.post_task("submitter")
    operators.join("alice", task, SeatRole.VERIFIER, AMOUNTS.auditor_stake)
    before = operators.read_wallet("alice")
    for words in (("stake", task, "5"), ("withdraw",), ("status",), ("verify", task, "--yes")):
        lines = operators.fail("alice", *words)
        assert (
            "to another deployment than this home" in lines[0] and "Put the former file back" in lines[3]
        ), words
    assert operators.read_wallet("alice") == before
    # Another way of writing it is no other deployment.
    published.write_text(doctored.paths["honest"].read_text().replace("\n", ""))
    assert operators.run("alice", "status")


def test_what_is_a_seats_own_comes_out_of_contracts_that_are_others(
    strangers: tuple[Operators, str],
) -> None:
    """Only what goes in is refused."""
    operators, _ = strangers
    task = operators.post_task("submitter")
    operators.join("alice", task, SeatRole.VERIFIER, AMOUNTS.auditor_stake)
    before = operators.read_wallet("alice")
    operators.run("alice", "leave", task, "--yes")
    operators.run("alice", "withdraw")
    assert operators.read_wallet("alice") == before + AMOUNTS.auditor_stake
