"""The contracts land where they were told, know each other, and are not deployed twice."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from eth_account import Account
from msgspec.structs import replace

from protocol.adapters.chain.abi import find_function, load_abi, parse_abi
from protocol.adapters.chain.connection import Connection
from protocol.adapters.chain.deployment import Deployment, read_deployment
from protocol.adapters.chain.values import decode_values, encode_call
from protocol.adapters.keys import AccountKey
from protocol.spec.errors import EnvironmentFault, InvalidInput
from scripts import deploy as module
from scripts.deploy import (
    WITHOUT_STAKE,
    compute_arguments,
    deploy,
    deploy_once,
    find_deployment,
)
from scripts.devnet import GRANT_COIN_WEI, give_coin, run_anvil

UNBONDING_BLOCKS = 12_345


@pytest.fixture
async def connection(tmp_path: Path) -> AsyncIterator[Connection]:
    async with run_anvil(0, tmp_path / "anvil.log", block_time_s=0) as rpc_url:
        connection = Connection(rpc_url, poll_s=0.02)
        yield connection
        await connection.close()


@pytest.fixture
async def deployer(connection: Connection) -> AccountKey:
    key = AccountKey(Account.create())
    await give_coin(connection, key.address, GRANT_COIN_WEI)
    return key


def say_nothing(_: str) -> None:
    """A report for nobody."""


async def read_address(connection: Connection, contract: str, address: str, getter: str) -> str:
    entry = find_function(load_abi(contract), getter)
    return str(
        decode_values(entry.outputs, await connection.call(address, encode_call(entry, []), getter))[0]
    )


async def test_the_contracts_know_each_other(connection: Connection, deployer: AccountKey) -> None:
    found = await deploy(connection, deployer, unbonding_blocks=UNBONDING_BLOCKS, report=say_nothing)
    known = {"vault": found.vault, "ledger": found.ledger, "registry": found.registry}
    known["randomness"] = found.randomness
    asked = set()
    for contract, address in found.contracts().items():
        name = "BlockRandomness" if contract == "Randomness" else contract
        getters = {entry.name for entry in load_abi(name) if entry.kind == "function" and not entry.inputs}
        for getter in getters & known.keys():
            assert await read_address(connection, contract, address, getter) == known[getter], contract
            asked.add((contract, getter))
    seals = {(name, "randomness") for name in ("TaskRegistry", "RoundLedger", "AuditBook")}
    assert seals <= asked
    assert await read_address(connection, "StakeVault", found.vault, "token") == found.token
    is_module = find_function(load_abi("StakeVault"), "isModule")
    for contract, address in found.contracts().items():
        data = await connection.call(found.vault, encode_call(is_module, [address]), "isModule")
        assert decode_values(is_module.outputs, data) == [contract not in WITHOUT_STAKE]


async def test_no_event_lies_before_the_deploy_block(connection: Connection, deployer: AccountKey) -> None:
    await connection.request("anvil_mine", 7)
    found = await deploy(connection, deployer, report=say_nothing)
    assert 7 <= found.deploy_block < (await connection.head()).number


async def test_a_token_that_is_there_is_used(connection: Connection, deployer: AccountKey) -> None:
    first = await deploy(connection, deployer, report=say_nothing)
    second = await deploy(connection, deployer, token=first.token, report=say_nothing)
    assert second.token == first.token and second.vault != first.vault


async def test_a_second_run_changes_nothing(
    connection: Connection, deployer: AccountKey, tmp_path: Path
) -> None:
    path = tmp_path / "31337.json"
    first = await deploy_once(connection, deployer, path, report=say_nothing)
    head = (await connection.head()).number
    assert await deploy_once(connection, deployer, path, report=say_nothing) == first == read_deployment(path)
    assert (await connection.head()).number == head


async def test_a_file_of_another_chain_is_replaced(
    connection: Connection, deployer: AccountKey, tmp_path: Path
) -> None:
    path = tmp_path / "31337.json"
    first = await deploy_once(connection, deployer, path, report=say_nothing)
    path.write_text(replace(first, vault="0x" + 40 * "5").to_json())
    assert await find_deployment(connection, path) is None
    assert (await deploy_once(connection, deployer, path, report=say_nothing)).vault != "0x" + 40 * "5"


async def test_a_contract_at_another_address_is_said(
    connection: Connection, deployer: AccountKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = module.predict_deployment

    def predict_wrongly(account: str, nonce: int, token: str, chain_id: int, block: int) -> Deployment:
        return real(account, nonce + 1, token, chain_id, block)

    monkeypatch.setattr(module, "predict_deployment", predict_wrongly)
    with pytest.raises(EnvironmentFault, match="StakeVault landed at another address"):
        await deploy(connection, deployer, report=say_nothing)


def test_an_unknown_constructor_argument_is_refused() -> None:
    parameter = {"name": "oracle_", "type": "address", "internalType": "contract IOracle"}
    entry = parse_abi("X", [{"type": "constructor", "inputs": [parameter]}])[0]
    deployment = module.predict_deployment("0x" + 40 * "1", 0, "0x" + 40 * "2", 1, 0)
    with pytest.raises(InvalidInput, match="IOracle oracle_"):
        compute_arguments(entry, deployment, 1)
