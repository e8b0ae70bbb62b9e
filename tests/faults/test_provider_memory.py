"""Providers that are slow to tell what became of a transaction: nothing is mined twice."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account

from tests.faults.provider import PASS, Refusal, Request, hide, run_provider
from tests.faults.test_provider_sends import BY_HASH, RECEIPT, count, open_account
from tests.protocol.adapters.anvil import STAKE_WEI, TestChain, open_vault_chain, run_test_chain
from touchstone.protocol.adapters.chain.chain_client import Sending
from touchstone.protocol.adapters.chain.transaction_queue import QUEUE_FILE
from touchstone.protocol.adapters.chain.transactions import ResendPolicy
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.scripts.network.devnet import fund


@pytest.fixture
async def net(tmp_path: Path) -> AsyncIterator[TestChain]:
    async with run_test_chain(tmp_path) as net:
        yield net


@pytest.mark.parametrize("words", ["already known", "nonce too low"])
async def test_a_gateway_that_hands_in_twice_and_indexes_late_gets_nothing_twice(
    net: TestChain, words: str
) -> None:
    """The first backend takes it, its answer is lost inside of the provider, and the second one tells that
    it has it. Transactions can be asked for by their hash a second later."""
    async with run_provider(net.rpc_url) as provider, open_account(net, provider.url) as chain:
        sent = 0

        async def hand_in_twice(request: Request) -> Any:
            nonlocal sent
            if request.method == "eth_sendRawTransaction":
                sent += 1
                if sent == 1:
                    await request.ask(request.method, request.params)
                    raise Refusal(words)
            return PASS

        async def index_late(request: Request) -> Any:
            return None if request.method == BY_HASH and sent == 1 else PASS

        provider.faults.extend([hand_in_twice, index_late])
        await chain.vault.deposit(STAKE_WEI)
        assert await count(net, chain) == (2, 1), "an approval, and the deposit once"


async def test_a_provider_that_counts_at_the_head_whatever_block_is_named_gets_nothing_twice(
    net: TestChain,
) -> None:
    """Those that keep no old state do so. Receipts and transactions are indexed some seconds late."""

    async def count_at_head(request: Request) -> Any:
        if request.method == "eth_getTransactionCount" and request.params[1] != "pending":
            return await request.ask(request.method, [request.params[0], "latest"])
        return PASS

    async with run_provider(net.rpc_url) as provider, open_account(net, provider.url) as chain:
        late = hide([RECEIPT, BY_HASH])
        provider.faults.extend([count_at_head, late])
        depositing = asyncio.create_task(chain.vault.deposit(STAKE_WEI))
        await asyncio.sleep(3.0)
        provider.faults.remove(late)
        await depositing
        assert await count(net, chain) == (2, 1), "an approval, and the deposit once"


async def test_a_restart_forgets_nothing_that_waits(net: TestChain, tmp_path: Path) -> None:
    key, deployment = AccountKey(Account.create()), net.chain.deployment
    await fund(net.chain.connection, deployment, [key.address])
    sending = Sending(ResendPolicy(1.0, attempts=None), tmp_path / QUEUE_FILE)

    async def count_waiting(request: Request) -> Any:
        if request.method == "eth_getTransactionCount":
            return await request.ask(request.method, [request.params[0], "pending"])
        return PASS

    async with run_provider(net.rpc_url) as provider:
        async with open_vault_chain(provider.url, deployment, key, sending=sending) as chain:
            await chain.token.approve(deployment.vault, 2**256 - 1)
            await net.anvil("evm_setAutomine", False)
            depositing = asyncio.create_task(chain.vault.deposit(STAKE_WEI))
            while await net.chain.connection.transaction_count(chain.address, "pending") < 2:
                await asyncio.sleep(0.05)
            depositing.cancel()
            await asyncio.gather(depositing, return_exceptions=True)
        provider.faults.append(count_waiting)
        async with open_vault_chain(provider.url, deployment, key, sending=sending) as chain:
            provider.faults.clear()
            await net.anvil("evm_setIntervalMining", 1)
            async with asyncio.timeout(20.0):
                await chain.vault.deposit(STAKE_WEI)
            assert await count(net, chain) == (2, 1), "an approval, and the deposit once"
