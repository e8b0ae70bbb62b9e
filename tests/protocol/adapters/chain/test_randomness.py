"""Headers of a real chain prove its prevrandao to the contract, with a published drand round and without."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from eth_account import Account

from protocol.adapters.chain import randomness
from protocol.adapters.chain.connection import Connection
from protocol.adapters.chain.event_logs import EventReader
from protocol.adapters.chain.randomness import Randomness, encode_header
from protocol.adapters.chain.refusal_words import ContractRefused
from protocol.adapters.chain.transactions import MiningPatience, Sender
from protocol.adapters.keys import AccountKey
from protocol.spec import quicknet
from protocol.spec.errors import EnvironmentFault
from scripts import devnet
from scripts.deploy import compute_creation_code
from tests.fixed_values import ROUND_1000, TIMESTAMP_S
from tests.protocol.adapters.anvil import make_deployment


@asynccontextmanager
async def run_contract(folder: Path, name: str) -> AsyncIterator[tuple[Connection, Randomness]]:
    """Anvil whose block 1 has the time that leads to round 1000, and a randomness contract on it."""
    genesis = ("--timestamp", str(TIMESTAMP_S - 1))
    async with devnet.run_anvil(0, folder / "anvil.log", options=genesis) as rpc_url:
        connection, key = Connection(rpc_url, poll_s=0.02), AccountKey(Account.create())
        await devnet.give_coin(connection, key.address, devnet.GRANT_COIN_WEI)
        await connection.request("evm_setNextBlockTimestamp", TIMESTAMP_S)
        sender = Sender(connection, key, devnet.CHAIN_ID, MiningPatience())
        receipt = await sender.send("", compute_creation_code(name, []), name)
        assert (await connection.head()).timestamp_s == TIMESTAMP_S
        deployment = make_deployment(devnet.CHAIN_ID, [str(receipt["contractAddress"]).lower()] * 12)
        reader = EventReader(connection, deployment)
        yield connection, Randomness("Randomness", deployment.randomness, connection, None, reader)
        await connection.close()


@pytest.mark.parametrize("hardfork", ["cancun", "prague"])
async def test_a_header_proves_prevrandao(
    tmp_path: Path, hardfork: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devnet, "HARDFORK", hardfork)
    async with run_contract(tmp_path, "BlockRandomness") as (connection, contract):
        await connection.request("anvil_mine", hex(3))
        values = set()
        for number in range(1, 4):
            proof = await contract.prove(number)
            value = await contract.read(number, proof)
            assert value.hex() == (await connection.raw_block(number))["mixHash"][2:]
            values.add(value)
        assert len(values) == 3, "a fresh word a block"
        with pytest.raises(ContractRefused, match="not the block's header"):
            await contract.read(2, proof)
        with pytest.raises(ContractRefused, match="not known yet"):
            await contract.read(99, proof)
        with pytest.raises(EnvironmentFault, match="block 99"):
            await contract.prove(99)
        # Without EIP-2935 a chain forgets after 256 blocks.
        await connection.request("anvil_mine", hex(300))
        early = await contract.prove(1)
        if hardfork == "prague":
            assert await contract.read(1, early) in values
        else:
            with pytest.raises(ContractRefused, match="hash is gone"):
                await contract.read(1, early)


async def test_a_published_round_of_drand_is_mixed_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    async def fetch(number: int) -> bytes:
        asked.append(number)
        return ROUND_1000

    monkeypatch.setattr(randomness, "fetch_signature", fetch)
    monkeypatch.setattr(devnet, "HARDFORK", "prague")
    async with run_contract(tmp_path, "DrandRandomness") as (connection, contract):
        await connection.request("anvil_mine", hex(2), hex(12))
        prevrandao = bytes.fromhex((await connection.raw_block(1))["mixHash"][2:])
        proof = await contract.prove(1)
        assert asked == [1000]
        assert await contract.read(1, proof) == quicknet.mix(prevrandao, ROUND_1000)
        # A later block is another round's: what drand signed for the first does not do.
        later = await contract.prove(2)
        assert asked[1] == 1000 + 12 // quicknet.PERIOD_S
        with pytest.raises(ContractRefused, match="not what drand signed"):
            await contract.read(2, later)


async def test_a_header_of_another_shape_is_said(tmp_path: Path) -> None:
    async with devnet.run_anvil(0, tmp_path / "anvil.log") as rpc_url:
        connection = Connection(rpc_url)
        block = await connection.raw_block(0)
        assert len(encode_header(block)) > 500
        with pytest.raises(EnvironmentFault, match="not those of Ethereum") as fault:
            encode_header({**block, "requestsHash": "0x" + 64 * "1"})
        assert not fault.value.retryable
        await connection.close()
