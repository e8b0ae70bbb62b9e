"""The test network starts on a port of its own, funds accounts, and leaves nothing behind."""

import asyncio
from pathlib import Path

import pytest

from touchstone.protocol.adapters.chain.chain_client import open_game_chain
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.scripts.network import devnet
from touchstone.scripts.network.devnet import (
    GRANT_COIN_WEI,
    GRANT_TOKEN_WEI,
    DevnetOptions,
    claim_port,
    run_anvil,
    run_devnet,
)

ACCOUNT = "0x" + 40 * "7"


async def test_a_network_with_contracts_and_money(tmp_path: Path) -> None:
    lines: list[str] = []
    options = DevnetOptions(path=tmp_path / "d.json", log=tmp_path / "a.log", fund=(ACCOUNT,))
    async with (
        run_devnet(options, lines.append) as net,
        open_game_chain(net.rpc_url, net.deployment) as chain,
    ):
        assert await chain.token.balance_of(ACCOUNT) == GRANT_TOKEN_WEI
        assert await chain.connection.balance_of(ACCOUNT) == GRANT_COIN_WEI
        assert chain.bounds == BOUNDS_LOCAL
        assert [line.split()[0] for line in lines] == ["DevToken", *net.deployment.contracts()]


async def test_the_clock_makes_blocks_with_and_without_transactions(tmp_path: Path) -> None:
    options = DevnetOptions(path=tmp_path / "d.json", log=tmp_path / "a.log")
    async with (
        run_devnet(options, lambda _: None) as net,
        open_game_chain(net.rpc_url, net.deployment) as chain,
    ):
        before = await chain.head()
        keeping = asyncio.create_task(devnet.keep_time(net))
        await asyncio.wait_for(chain.wait_for_block(before.number + 1), 600)
        await asyncio.wait_for(devnet.fund(chain.connection, net.deployment, [ACCOUNT]), 600)
        assert await chain.token.balance_of(ACCOUNT) == GRANT_TOKEN_WEI
        keeping.cancel()


async def test_the_network_ends_with_the_block(tmp_path: Path) -> None:
    async with run_anvil(0, tmp_path / "anvil.log") as rpc_url:
        pass
    connection = Connection(rpc_url)
    with pytest.raises(EnvironmentFault, match="a chain that answers"):
        await connection.chain_id()
    await connection.close()


@pytest.mark.parametrize(("hardfork", "has_requests"), [("", False), ("osaka", True)])
async def test_the_chain_has_the_rules_that_are_asked_for(
    tmp_path: Path, hardfork: str, has_requests: bool
) -> None:
    async with run_anvil(0, tmp_path / "anvil.log", hardfork=hardfork) as rpc_url:
        connection = Connection(rpc_url)
        block = await connection.request("eth_getBlockByNumber", "latest", False)
        await connection.close()
    # Prague put the hash of execution requests into the header (EIP-7685).
    assert ("requestsHash" in block) == has_requests


async def test_a_port_that_is_taken_is_refused(tmp_path: Path) -> None:
    async with run_anvil(0, tmp_path / "a.log") as rpc_url:
        port = int(rpc_url.rsplit(":", 1)[1])
        with pytest.raises(InvalidInput, match="the port is taken"):
            async with run_anvil(port, tmp_path / "b.log"):
                pass


async def test_an_anvil_that_does_not_start_is_said_with_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devnet, "HARDFORK", "no-such-fork")
    with pytest.raises(EnvironmentFault, match="Anvil did not start") as fault:
        async with run_anvil(0, tmp_path / "anvil.log"):
            pass
    assert "no-such-fork" in str(fault.value.actual)


def test_an_asked_port_is_given() -> None:
    port = claim_port(0)
    assert claim_port(port) == port
