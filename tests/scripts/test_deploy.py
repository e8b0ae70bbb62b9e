"""The contracts of the round land where they were told, with their limits, and are not deployed twice."""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from eth_account import Account
from eth_utils.address import to_checksum_address

from touchstone.protocol.adapters.chain.chain_client import LOOKS_A_BLOCK, GameChain, open_game_chain
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.deployment import (
    GAME_CONTRACTS,
    GameDeployment,
    read_game_deployment,
    write_game_deployment,
)
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.adapters.keys.keystore import create_devnet_keystore
from touchstone.protocol.spec.commitments import compute_domain
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.game.presets import BOUNDS_2S, BOUNDS_LOCAL
from touchstone.protocol.spec.quicknet import compute_round_after
from touchstone.scripts import deploy
from touchstone.scripts.network import randomness_choice
from touchstone.scripts.network.contract_creation import deploy_game, deploy_game_once, require_address
from touchstone.scripts.network.devnet import GRANT_COIN_WEI, give_coin, run_anvil
from touchstone.scripts.network.randomness_choice import Sample


@dataclass(frozen=True)
class Placed:
    """What one deployment on an Anvil of its own has left."""

    rpc_url: str
    key: AccountKey
    path: Path
    deployment: GameDeployment


@pytest.fixture
async def placed(tmp_path: Path) -> AsyncIterator[Placed]:
    folder = tmp_path
    async with run_anvil(0, folder / "anvil.log", block_time_s=0) as rpc_url:
        connection, key = Connection(rpc_url, poll_s=0.02), AccountKey(Account.create())
        await give_coin(connection, key.address, GRANT_COIN_WEI)
        path = folder / "game.json"
        deployment = await deploy_game_once(connection, key, path, BOUNDS_2S, report=lambda _: None)
        await connection.close()
        yield Placed(rpc_url, key, path, deployment)


@pytest.fixture
async def chain(placed: Placed) -> AsyncIterator[GameChain]:
    async with open_game_chain(placed.rpc_url, placed.deployment, placed.key, poll_s=0.02) as opened:
        yield opened


async def test_the_contracts_know_each_other_and_their_limits(placed: Placed, chain: GameChain) -> None:
    """Only those that move money may do so, and the shares are those of the contract that is named."""
    for name, address in placed.deployment.contracts().items():
        assert await chain.vault.is_module(address) == (name in ("Game", "Shares")), name
    assert await chain.vault.token() == placed.deployment.token
    assert await chain.game.referee() == placed.deployment.referee
    assert chain.bounds == BOUNDS_2S
    async with open_game_chain(placed.rpc_url, placed.deployment) as opened:
        assert opened.connection.poll_s == 2.0 / LOOKS_A_BLOCK, "a provider counts requests"


async def test_a_chain_of_the_deployment_signs_reads_and_proves(placed: Placed, chain: GameChain) -> None:
    assert chain.signing.contract == placed.deployment.game
    task, block = b"\7" * 32, (await chain.head()).number
    domain = compute_domain(chain.signing.chain_id, chain.signing.contract, task)
    assert await chain.game.domain_of(task) == domain
    receipt = await chain.game.announce("https://127.0.0.1:1", b"\1" * 32)
    assert receipt.find("Announced").arguments["account"] == chain.address == placed.key.address.lower()
    names = [event.name for event in await chain.read_events(placed.deployment.deploy_block, block + 1)]
    assert names == ["Announced"]
    header = await chain.prove_header(block)
    raw = await chain.connection.raw_block(block)
    assert await chain.randomness.read(block, header) == bytes.fromhex(str(raw["mixHash"])[2:])


async def test_a_second_deployment_is_the_first(placed: Placed, chain: GameChain) -> None:
    before = (await chain.head()).number
    again = await deploy_game_once(chain.connection, placed.key, placed.path, BOUNDS_2S)
    assert again == placed.deployment == read_game_deployment(placed.path)
    assert (await chain.head()).number == before


async def test_a_second_run_says_that_it_changes_nothing_and_refuses_what_is_not_there(
    placed: Placed, chain: GameChain, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a deployment is cannot be changed any more."""
    (tmp_path / "password").write_text("secret")
    (tmp_path / "password").chmod(0o600)
    create_devnet_keystore(tmp_path / "key.json", "secret")
    before, text = (await chain.head()).number, placed.path.read_text()
    words = ["--rpc-url", placed.rpc_url, "--keystore", str(tmp_path / "key.json"), "--out", str(placed.path)]
    words += ["--password-file", str(tmp_path / "password"), "--preset"]
    token = to_checksum_address(placed.deployment.token)
    for more in (["2s"], ["2s", "--token", token]):
        assert await asyncio.to_thread(deploy.main, words + more) == 0
        assert capsys.readouterr().out == f"found in {placed.path}, nothing changed\n"
    for more, expected, actual in (
        (["local"], "bounds local", "bounds 2s"),
        (["2s", "--token", "0x" + 40 * "1"], "token 0x" + 40 * "1", f"token {placed.deployment.token}"),
        (["2s", "--drand"], "draws with drand", "draws without drand"),
    ):
        assert await asyncio.to_thread(deploy.main, words + more) == 2
        lines = capsys.readouterr().err.splitlines()
        assert [line.split(":")[0] for line in lines] == ["error", "expected", "actual", "do"]
        assert str(placed.path) in lines[0] and lines[1].endswith(expected) and lines[2].endswith(actual)
    assert (await chain.head()).number == before and placed.path.read_text() == text


@pytest.mark.parametrize(
    ("old", "new", "expected", "actual"),
    [
        ('"chainId": 31337', '"chainId": 10', "chain id 31337", "chain id 10"),
        ('"chainId"', '"chain"', "a GameDeployment in JSON", "chain"),
        ("VOTES", "0x" + "11" * 20, "all or none", "no code of Votes"),
    ],
)
async def test_a_file_that_is_no_deployment_on_this_chain_is_never_replaced(
    placed: Placed, chain: GameChain, old: str, new: str, expected: str, actual: str
) -> None:
    """It may be the only record of contracts that hold money, on another chain."""
    before = (await chain.head()).number
    text = placed.path.read_text()
    other = text.replace(old.replace("VOTES", placed.deployment.votes), new)
    assert other != text
    placed.path.write_text(other)
    with pytest.raises(InvalidInput) as error:
        await deploy_game_once(chain.connection, placed.key, placed.path, BOUNDS_2S)
    assert expected in str(error.value.expected) and actual in str(error.value.actual)
    assert error.value.where == str(placed.path) and "--out" in error.value.remedy
    assert (await chain.head()).number == before and placed.path.read_text() == other


async def refuse_poor(connection: Connection, key: AccountKey) -> tuple[int, int]:
    """Gas of all contracts, and the price of one, as the refusal of a deployment says them."""
    with pytest.raises(InvalidInput, match="too little coin to deploy all contracts") as error:
        await deploy_game(connection, key, BOUNDS_LOCAL, report=lambda _: None)
    assert await connection.transaction_count(key.address, "pending") == 0
    gas, price_wei = re.findall(r"([\d,]+) (?:gas|wei)", str(error.value.expected))
    return int(gas.replace(",", "")), int(price_wei.replace(",", ""))


async def test_without_the_coin_for_all_contracts_none_is_created(
    placed: Placed, chain: GameChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is paid for one contract is lost where the coin ends before the last. How much gas they take this
    chain says: on another one storage may cost five times as much."""
    connection, key = chain.connection, AccountKey(Account.create())
    gas, price_wei = await refuse_poor(connection, key)
    await give_coin(connection, key.address, gas * price_wei - 1)
    assert await refuse_poor(connection, key) == (gas, price_wei)
    blocks = [await connection.raw_block(number) for number in range(1, (await chain.head()).number + 1)]
    assert sum(int(block["gasUsed"], 16) for block in blocks) == pytest.approx(gas, rel=0.05)
    await give_coin(connection, key.address, 2 * gas * price_wei)
    estimate = connection.estimate_gas

    async def estimate_more(*call: str | bytes) -> int:
        return 5 * await estimate(*call)  # type: ignore[arg-type]

    monkeypatch.setattr(connection, "estimate_gas", estimate_more)
    assert await refuse_poor(connection, key) == (5 * gas, price_wei)


async def test_on_a_chain_that_was_begun_anew_the_contracts_are_deployed_again(
    placed: Placed, tmp_path: Path
) -> None:
    """As at each start of the test network."""
    async with run_anvil(0, tmp_path / "anew.log", block_time_s=0) as rpc_url:
        connection, key = Connection(rpc_url, poll_s=0.02), AccountKey(Account.create())
        await give_coin(connection, key.address, GRANT_COIN_WEI)
        made = await deploy_game_once(connection, key, placed.path, BOUNDS_2S, report=lambda _: None)
        await connection.close()
    assert made != placed.deployment and read_game_deployment(placed.path) == made


def test_an_error_of_a_deployment_is_told_in_four_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "keystore.json").write_text("none")
    words = ["--rpc-url", "http://127.0.0.1:1", "--keystore", str(tmp_path / "keystore.json")]
    (tmp_path / "password").write_text("secret")
    (tmp_path / "password").chmod(0o600)
    assert deploy.main([*words, "--password-file", str(tmp_path / "password")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["error", "expected", "actual", "do"]


async def test_another_chain_is_refused(placed: Placed, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    text = placed.deployment.to_json()
    other.write_text(text.replace(placed.deployment.votes, "0x" + "11" * 20))
    with pytest.raises(InvalidInput, match="no contract at the address of Votes"):
        async with open_game_chain(placed.rpc_url, read_game_deployment(other)):
            pass


async def test_a_chain_without_randomness_gets_no_contracts(
    placed: Placed, chain: GameChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def measure(connection: Connection) -> Sample:
        return Sample(1, (5, 6))

    monkeypatch.setattr(randomness_choice, "measure", measure)
    before = (await chain.head()).number
    with pytest.raises(EnvironmentFault, match="not random"):
        await deploy_game(chain.connection, placed.key, BOUNDS_LOCAL, report=lambda _: None)
    assert (await chain.head()).number == before


async def test_with_drand_a_seal_names_the_round_that_it_takes(tmp_path: Path) -> None:
    """The other randomness contract stands at the address that all modules name."""
    at, quiet = 1_800_000_000, lambda _: None
    async with run_anvil(0, tmp_path / "anvil.log", hardfork="prague") as rpc_url:
        connection, key = Connection(rpc_url, poll_s=0.02), AccountKey(Account.create())
        await give_coin(connection, key.address, GRANT_COIN_WEI)
        made = await deploy_game(connection, key, BOUNDS_LOCAL, with_drand=True, report=quiet)
        await connection.close()
        async with open_game_chain(rpc_url, made, key, poll_s=0.02) as mixed:
            assert await mixed.randomness.drand_round(at) == compute_round_after(at)
            assert await mixed.vault.is_module(made.game)


def test_a_file_lists_every_contract(tmp_path: Path) -> None:
    addresses = {name: f"0x{i:040X}" for i, name in enumerate(("token", *GAME_CONTRACTS), 10)}
    written = GameDeployment(chain_id=7, deploy_block=5, **addresses)
    write_game_deployment(tmp_path / "a" / "7.json", written)
    found = read_game_deployment(tmp_path / "a" / "7.json")
    assert found == written and found.contracts()["Tasks"] == addresses["tasks"].lower()
    (tmp_path / "bad.json").write_text('{"chainId": 7}')
    with pytest.raises(InvalidInput):
        read_game_deployment(tmp_path / "bad.json")


def test_a_contract_that_landed_elsewhere_is_refused() -> None:
    require_address("Rounds", "0x1", "0x1")
    with pytest.raises(EnvironmentFault, match="Rounds was created at another address"):
        require_address("Rounds", "0x1", "0x2")
