"""What an endpoint can make an operator pay who has set no `max_fee_gwei`, for fees and for gas."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.provider import PASS, Refusal, Request, change, run_provider
from tests.faults.test_provider_sends import open_account
from tests.protocol.adapters.anvil import STAKE_WEI, TestChain, run_test_chain
from touchstone.protocol.adapters.chain.chain_client import Sending
from touchstone.protocol.adapters.chain.creation import compute_creation_code
from touchstone.protocol.adapters.chain.transactions import ResendPolicy
from touchstone.protocol.spec.errors import TouchstoneError

GWEI = 10**9
COIN_WEI = 5 * 10**16
"""0.05 coins: some hundred calls at the price of this chain."""


@pytest.fixture
async def net(tmp_path: Path) -> AsyncIterator[TestChain]:
    async with run_test_chain(tmp_path) as net:
        yield net


async def test_an_endpoint_that_drops_what_it_takes_does_not_make_the_call_dear(net: TestChain) -> None:
    """The head asks for the same all the time: forty tries, ten minutes with ordinary settings, once cost
    20,000 times the price. The account could not pay that, and never sent anything again."""
    quick = Sending(ResendPolicy(resend_after_s=0.1, attempts=None))
    left = 40

    async def drop(request: Request) -> Any:
        nonlocal left
        if request.method != "eth_sendRawTransaction" or left == 0:
            return PASS
        left -= 1
        return "0x" + 64 * "0"

    async with run_provider(net.rpc_url) as provider, open_account(net, provider.url, quick) as chain:
        usual = await chain.vault.deposit(STAKE_WEI)
        await net.anvil("anvil_setBalance", chain.address, hex(COIN_WEI))
        provider.faults.append(drop)
        dear = await chain.vault.deposit(STAKE_WEI)
    usual_wei, dear_wei = usual.fee_wei / usual.gas_used, dear.fee_wei / dear.gas_used
    assert dear_wei < 4 * usual_wei, f"{dear_wei / GWEI:,.1f} gwei a gas instead of {usual_wei / GWEI:,.1f}"


async def test_the_tip_that_an_endpoint_names_is_paid_within_bounds(net: TestChain) -> None:
    greedy = change("eth_maxPriorityFeePerGas", lambda found: hex(50_000 * GWEI))
    async with run_provider(net.rpc_url) as provider, open_account(net, provider.url) as chain:
        usual = await chain.vault.deposit(STAKE_WEI)
        provider.faults.append(greedy)
        dear = await chain.vault.deposit(STAKE_WEI)
    dear_wei = dear.fee_wei // dear.gas_used
    usual_wei = usual.fee_wei / usual.gas_used
    assert dear_wei < 1_000 * GWEI, f"{dear_wei / GWEI:,.0f} gwei a gas, usual is {usual_wei / GWEI:,.1f}"


async def test_the_least_tip_that_a_refusal_names_is_paid_within_bounds(net: TestChain) -> None:
    async with run_provider(net.rpc_url) as provider, open_account(net, provider.url) as chain:
        told = False

        async def want_more(request: Request) -> Any:
            nonlocal told
            if request.method == "eth_sendRawTransaction" and not told:
                told = True
                raise Refusal(f"transaction underpriced: tip needed 1, minimum needed {50_000 * GWEI}")
            return PASS

        provider.faults.append(want_more)
        dear = await chain.vault.deposit(STAKE_WEI)
    dear_wei = dear.fee_wei // dear.gas_used
    assert dear_wei < 1_000 * GWEI, f"{dear_wei / GWEI:,.0f} gwei a gas"


async def test_a_call_that_ran_out_of_gas_is_given_more_the_next_time(net: TestChain) -> None:
    low = change("eth_estimateGas", lambda found: hex(int(found, 16) // 3))
    burned = []
    async with run_provider(net.rpc_url) as provider, open_account(net, provider.url) as chain:
        provider.faults.append(low)
        assert chain.sender is not None
        for _ in range(6):
            try:
                await chain.sender.send("", compute_creation_code("DevToken", []), "new DevToken")
                break
            except TouchstoneError as fault:
                burned.append(str(fault.actual))
    assert len(burned) < 6, f"six tries, all burned: {burned[-1]}"
