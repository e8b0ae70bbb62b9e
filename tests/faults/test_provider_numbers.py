"""One absurd number out of an endpoint that is right before and after."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.provider import PASS, Refusal, Request, change, refuse, run_provider
from tests.faults.test_provider_sends import RECEIPT, count, open_account
from tests.protocol.adapters.anvil import STAKE_WEI, TestChain, run_test_chain


@pytest.fixture
async def net(tmp_path: Path) -> AsyncIterator[TestChain]:
    async with run_test_chain(tmp_path) as net:
        yield net


def notify_once(method: str, said: str, tag: str = "") -> Any:
    left = 1

    async def answer(request: Request) -> Any:
        nonlocal left
        if request.method == method and left and (not tag or tag in request.params):
            left -= 1
            return said
        return PASS

    return answer


async def deposit_after(net: TestChain, fault: Any) -> tuple[int, int, list[str]]:
    """A deposit through the fault, then another one once all is right. Transactions, credit, what failed."""
    failed = []
    async with run_provider(net.rpc_url) as provider, open_account(net, provider.url) as chain:
        provider.faults.append(fault)
        await net.anvil("evm_setIntervalMining", 1)
        for _ in range(3):
            try:
                async with asyncio.timeout(8.0):
                    await chain.vault.deposit(STAKE_WEI)
            except Exception as error:
                failed.append(f"{type(error).__name__}: {error}"[:150])
            provider.faults.clear()
        return *await count(net, chain), failed


async def test_one_count_of_waiting_transactions_that_is_too_high_costs_no_transactions(
    net: TestChain,
) -> None:
    mined, credit, failed = await deposit_after(
        net, notify_once("eth_getTransactionCount", hex(150), "pending")
    )
    assert (mined, credit) == (4, 3), f"{mined} transactions paid for {credit} deposits; {failed}"


async def test_one_count_that_is_far_too_high_does_not_end_all_sending(net: TestChain) -> None:
    fault = notify_once("eth_getTransactionCount", hex(1_000_000), "pending")
    mined, credit, failed = await deposit_after(net, fault)
    assert credit >= 2, f"{credit} deposits, {mined} transactions paid; {failed}"


async def test_one_count_that_no_file_can_hold_does_not_end_all_sending(net: TestChain) -> None:
    fault = notify_once("eth_getTransactionCount", hex(1 << 63), "pending")
    _mined, credit, failed = await deposit_after(net, fault)
    assert credit >= 2, failed


async def test_one_gas_estimate_that_no_file_can_hold_does_not_end_all_sending(net: TestChain) -> None:
    _mined, credit, failed = await deposit_after(net, notify_once("eth_estimateGas", hex(1 << 63)))
    assert credit >= 2, failed


async def test_a_number_that_is_called_used_for_a_while_costs_no_transactions(net: TestChain) -> None:
    """A backend in a bad state says so of every transaction; it counts none of them."""
    async with run_provider(net.rpc_url) as provider, open_account(net, provider.url) as chain:
        provider.faults.append(refuse(Refusal("nonce too low"), 1.0, ["eth_sendRawTransaction"], times=30))
        try:
            async with asyncio.timeout(20.0):
                await chain.vault.deposit(STAKE_WEI)
        except TimeoutError:
            pass
        mined, credit = await count(net, chain)
    assert mined <= 4 and credit == 1, f"{mined} transactions paid for {credit} deposits"


async def test_a_receipt_of_a_block_that_is_not_there_does_not_end_all_duties(net: TestChain) -> None:
    """`Loop._perform` looks at no duty again before `mined_block`: all that are performed from now on."""
    async with run_provider(net.rpc_url) as provider, open_account(net, provider.url) as chain:
        provider.faults.append(change(RECEIPT, lambda found: found and {**found, "blockNumber": hex(10**12)}))
        try:
            async with asyncio.timeout(5.0):
                await chain.vault.deposit(STAKE_WEI)
        except TimeoutError:
            pass
        provider.faults.clear()
        # As `GameChain.note` does with the next folded block.
        chain.connection.floor = (await net.chain.head()).number
        await chain.vault.deposit(STAKE_WEI)
        head = (await net.chain.head()).number
        assert chain.mined_block <= head, f"no duty is looked at again before block {chain.mined_block:,}"


async def test_a_made_up_receipt_in_a_made_up_block_beyond_the_head_is_not_believed(net: TestChain) -> None:
    """All later calls would be asked of a state that no endpoint has: until the next block is folded, or, for
    who folds nothing, for ever."""
    far, made_up = hex(10**9), "0x" + "ab" * 32

    async def answer(request: Request) -> Any:
        if request.method == "eth_getBlockByNumber" and request.params[0] == far:
            latest = await request.ask(request.method, ["latest", False])
            return {**latest, "number": far, "hash": made_up}
        return PASS

    move = {"blockNumber": far, "blockHash": made_up}
    async with run_provider(net.rpc_url) as provider, open_account(net, provider.url) as chain:
        provider.faults += [answer, change(RECEIPT, lambda found: found and {**found, **move})]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3.0):
                await chain.vault.deposit(STAKE_WEI)
        provider.faults.clear()
        await chain.vault.deposit(STAKE_WEI)
        head = (await net.chain.head()).number
        assert chain.mined_block <= head and chain.connection.floor <= head
        assert await count(net, chain) == (2, 1), "the same transaction was waited for"
