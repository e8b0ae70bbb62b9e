"""How many times the gas of the figures calls take on the chain at hand."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account

from touchstone.node.kit.gas_factor import PROBE_GAS, measure_gas_factor
from touchstone.protocol.adapters.chain.chain_client import GameChain, open_game_chain
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.refusals import ContractRefused
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.scripts.network.contract_creation import deploy_game
from touchstone.scripts.network.devnet import GRANT_COIN_WEI, give_coin, run_anvil

WORDS = {"what": "", "expected": "", "actual": "", "remedy": ""}


@pytest.fixture(params=["cancun", "osaka"])
async def chain(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[GameChain]:
    """The contracts on an Anvil, read by somebody without an account."""
    async with run_anvil(0, tmp_path / "anvil.log", hardfork=request.param) as rpc_url:
        connection, key = Connection(rpc_url, poll_s=0.02), AccountKey(Account.create())
        await give_coin(connection, key.address, GRANT_COIN_WEI)
        made = await deploy_game(connection, key, BOUNDS_LOCAL, report=lambda _: None)
        await connection.close()
        async with open_game_chain(rpc_url, made) as opened:
            yield opened


async def test_the_figures_are_those_of_ethereum_as_it_is(
    chain: GameChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where calls take more, all duties do."""
    assert await measure_gas_factor(chain) == 1.0
    gas = 0

    async def answer(*_: Any) -> int:
        return gas

    estimate = chain.connection.estimate_gas
    data = chain.game.encode("announce", 30 * "x", b"y" * 32)
    gas = await estimate("0x" + 20 * "cc", chain.game.address, data, "")
    assert 0.98 * PROBE_GAS < gas <= PROBE_GAS, "the figures were measured under other rules"
    monkeypatch.setattr(chain.connection, "estimate_gas", answer)
    gas = 3 * PROBE_GAS
    assert await measure_gas_factor(chain) == 3.0
    gas = PROBE_GAS // 2
    assert await measure_gas_factor(chain) == 1.0


@pytest.mark.parametrize(
    "failure",
    [EnvironmentFault(**WORDS, retryable=False), ContractRefused(name="Unknown", values={}, **WORDS)],
)
async def test_where_nothing_can_be_estimated_the_figures_stand(
    chain: GameChain, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    async def fail(*_: Any) -> int:
        raise failure

    monkeypatch.setattr(chain.connection, "estimate_gas", fail)
    assert await measure_gas_factor(chain) == 1.0
