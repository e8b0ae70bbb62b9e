"""What a node sends through a provider that misbehaves: each call is mined once, and nothing waits for ever.

Before, one deposit was signed and mined ten times behind a provider that shows no receipts, and a base fee
that rose 40-fold left every later call of the account behind the first for ever.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account
from eth_account.typed_transactions.typed_transaction import TypedTransaction
from hexbytes import HexBytes

from tests.faults.provider import (
    PASS,
    Fault,
    HttpRefusal,
    Refusal,
    Request,
    change,
    hide,
    lag,
    refuse,
    run_provider,
)
from tests.protocol.adapters.anvil import STAKE_WEI, TestChain, VaultChain, open_vault_chain, run_test_chain
from touchstone.protocol.adapters.chain.chain_client import Sending
from touchstone.protocol.adapters.chain.refusals import ContractRefused
from touchstone.protocol.adapters.chain.rpc import Endpoint
from touchstone.protocol.adapters.chain.transactions import ResendPolicy
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.scripts.network.devnet import fund

TRIES = 20
DEPOSITS = 3
PATIENT = Sending(ResendPolicy(resend_after_s=1.0, attempts=None))
"""As a node: it never gives up."""
RECEIPT, BY_HASH = "eth_getTransactionReceipt", "eth_getTransactionByHash"


@pytest.fixture
async def net(tmp_path: Path) -> AsyncIterator[TestChain]:
    async with run_test_chain(tmp_path) as net:
        yield net


@asynccontextmanager
async def open_account(net: TestChain, rpc_url: str, sending: Sending = PATIENT) -> AsyncIterator[VaultChain]:
    """A new account with money, which sends through `rpc_url`."""
    key, deployment = AccountKey(Account.create()), net.chain.deployment
    await fund(net.chain.connection, deployment, [key.address])
    async with open_vault_chain(net.rpc_url, deployment, key) as direct:
        await direct.token.approve(deployment.vault, 2**256 - 1)
    async with open_vault_chain(rpc_url, deployment, key, sending=sending) as chain:
        yield chain


async def count(net: TestChain, chain: VaultChain) -> tuple[int, int]:
    """Transactions of an account, and its credit in stakes."""
    mined = await net.chain.connection.transaction_count(chain.address, "latest")
    return mined, await net.chain.vault.credit_of(chain.address) // STAKE_WEI


async def act(chain: VaultChain) -> None:
    """Some deposits. What fails is tried again, as the loop of a node does."""
    for _ in range(DEPOSITS):
        while True:
            try:
                await chain.vault.deposit(STAKE_WEI)
                break
            except (ContractRefused, EnvironmentFault) as fault:
                if isinstance(fault, EnvironmentFault) and not fault.retryable:
                    raise
            await asyncio.sleep(0.5)


async def play(net: TestChain, *faults: Fault, tries: int = TRIES) -> None:
    """Accounts that each deposit some times, one after the other, behind a provider of their own."""
    async with AsyncExitStack() as stack:
        chains = []
        for seed in range(tries):
            provider = await stack.enter_async_context(run_provider(net.rpc_url, seed=seed))
            chains.append(await stack.enter_async_context(open_account(net, provider.url)))
            provider.faults.extend(faults)

        await net.anvil("evm_setIntervalMining", 1)
        await asyncio.gather(*map(act, chains))
        counts = [await count(net, chain) for chain in chains]
    assert counts == [(1 + DEPOSITS, DEPOSITS)] * tries, "an approval, and each deposit once"


INDEXING = Refusal("transaction indexing is in progress")
PLAYS: dict[str, list[Fault]] = {
    "receipts come late": [hide([RECEIPT], 0.8)],
    "receipts and transactions come late": [hide([RECEIPT, BY_HASH], 0.8)],
    "the index is built": [refuse(INDEXING, 0.7, [RECEIPT, BY_HASH])],
    "one block behind": [lag(1, 0.3)],
    "two blocks behind": [lag(2, 0.9)],
    "calls fail at times": [refuse(Refusal("Internal error", -32603), 0.2)],
}


@pytest.mark.parametrize("name", PLAYS)
async def test_provider_has_each_call_mined_once(net: TestChain, name: str) -> None:
    await play(net, *PLAYS[name])


@pytest.mark.parametrize("hidden", [[RECEIPT], [RECEIPT, BY_HASH]])
async def test_provider_that_shows_no_receipt_gets_nothing_twice(net: TestChain, hidden: list[str]) -> None:
    """The chain has counted the nonce. The block tells that it was this very call; nothing is signed anew."""
    async with (
        run_provider(net.rpc_url, hide(hidden)) as provider,
        open_account(net, provider.url) as chain,
    ):
        sending = asyncio.create_task(chain.vault.deposit(STAKE_WEI))
        while provider.asked.count("eth_getBlockByNumber") + provider.asked.count(BY_HASH) < 12:
            await asyncio.sleep(0.05)
        assert await count(net, chain) == (2, 1) and not sending.done()
        provider.faults.clear()
        assert (await sending).find("Deposited").arguments["wei_"] == STAKE_WEI
        assert await count(net, chain) == (2, 1)


async def test_provider_that_loses_answers_gets_nothing_twice(net: TestChain) -> None:
    async def lose(request: Request) -> Any:
        if request.method == "eth_sendRawTransaction" and request.chance.random() < 0.6:
            await request.ask(request.method, request.params)
            raise Refusal("upstream request timeout", -32000)
        return PASS

    await play(net, lose)


async def test_provider_that_forgets_what_it_took_is_given_it_again(
    net: TestChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or it was on another chain when it took it. It is the same transaction, for the same fee."""
    monkeypatch.setattr("touchstone.protocol.adapters.chain.transactions.HAND_INS", 10_000)
    slow = Sending(ResendPolicy(resend_after_s=1_000.0, attempts=None))
    taken: list[str] = []

    async def forget(request: Request) -> Any:
        if request.method != "eth_sendRawTransaction":
            return PASS
        taken.append(request.params[0])
        return "0x" + 64 * "0" if len(taken) < 4 else PASS

    async with run_provider(net.rpc_url) as provider, open_account(net, provider.url, slow) as chain:
        provider.faults.append(forget)
        await chain.vault.deposit(STAKE_WEI)
        assert len({*taken}) == 1 and await count(net, chain) == (2, 1)


@pytest.mark.parametrize("knows_its_own", [True, False])
async def test_provider_that_told_of_too_few_transactions_holds_up_no_later_call(
    net: TestChain, knows_its_own: bool
) -> None:
    """It was on another chain for a moment, in which it took what was signed with a number that is used."""
    async with run_provider(net.rpc_url) as provider, open_account(net, provider.url) as chain:
        await chain.vault.deposit(STAKE_WEI)
        await net.anvil("anvil_mine", 20)
        sender = chain.sender
        assert sender is not None
        if not knows_its_own:
            sender.mined_nonces.next_nonce = 0

        async def be_elsewhere(request: Request) -> Any:
            if request.method == "eth_sendRawTransaction":
                provider.faults.clear()
                return "0x" + 64 * "0"
            return "0x0" if request.method == "eth_getTransactionCount" else PASS

        provider.faults.append(be_elsewhere)
        await chain.vault.deposit(STAKE_WEI)
        assert await count(net, chain) == (3, 2) and sender.queue.list_all() == []


def emulate_pool(net: TestChain, *, needs_tip_wei: int = 0) -> Fault:
    """The words of geth's pool: a replacement pays 10 % more in both, and a tip has a least amount."""
    waiting: dict[tuple[str, int], tuple[int, int]] = {}

    async def answer(request: Request) -> Any:
        if request.method != "eth_sendRawTransaction":
            return PASS
        raw = HexBytes(request.params[0])
        sent = TypedTransaction.from_bytes(raw).as_dict()
        place = (Account.recover_transaction(raw), sent["nonce"])
        fees = (sent["maxFeePerGas"], sent["maxPriorityFeePerGas"])
        if fees[1] < needs_tip_wei:
            raise Refusal(f"transaction underpriced: tip needed 1, minimum needed {needs_tip_wei}")
        before = waiting.get(place)
        if before is not None and any(new * 100 < old * 110 for new, old in zip(fees, before, strict=True)):
            if fees == before:
                raise Refusal("already known")
            raise Refusal("replacement transaction underpriced")
        waiting[place] = fees
        return PASS

    return answer


@asynccontextmanager
async def raise_base_fee(net: TestChain, times: int) -> AsyncIterator[None]:
    """Every block wants so many times the base fee of now."""
    base_fee = (await net.chain.head()).base_fee_wei

    async def mine() -> None:
        while True:
            await net.anvil("anvil_setNextBlockBaseFeePerGas", hex(times * base_fee))
            await net.anvil("anvil_mine", 1)
            await asyncio.sleep(0.3)

    await net.anvil("evm_setAutomine", False)
    mining = asyncio.create_task(mine())
    try:
        yield
    finally:
        mining.cancel()
        await asyncio.gather(mining, return_exceptions=True)


@pytest.mark.parametrize("times", [10, 40])
async def test_provider_whose_fees_rise_holds_up_no_later_call(net: TestChain, times: int) -> None:
    """What waits is offered what the head asks for, and what waits behind it follows."""
    quick = Sending(ResendPolicy(resend_after_s=0.2, attempts=None))
    async with (
        run_provider(net.rpc_url, emulate_pool(net)) as provider,
        open_account(net, provider.url, quick) as chain,
    ):
        await net.anvil("evm_setAutomine", False)
        before = await count(net, chain)
        sending = [asyncio.create_task(chain.vault.deposit(STAKE_WEI)) for _ in range(4)]
        while await net.chain.connection.transaction_count(chain.address, "pending") < before[0] + 4:
            await asyncio.sleep(0.02)
        async with raise_base_fee(net, times):
            await asyncio.gather(*sending)
        assert await count(net, chain) == (before[0] + 4, 4)


async def test_provider_that_names_the_tip_that_it_wants_gets_it(net: TestChain) -> None:
    """Beyond five gwei, and ten base fees, only an operator pays it who has named a most for one gas."""
    wanted_wei = 7 * 10**9
    generous = Sending(PATIENT.resend_policy, cap_wei=100 * 10**9)
    async with (
        run_provider(net.rpc_url) as provider,
        open_account(net, provider.url, generous) as chain,
    ):
        provider.faults.append(emulate_pool(net, needs_tip_wei=wanted_wei))
        receipt = await chain.vault.deposit(STAKE_WEI)
    assert receipt.fee_wei // receipt.gas_used >= wanted_wei


async def test_provider_without_a_tip_or_a_fee_history_has_a_gas_price(net: TestChain) -> None:
    lacking = ["eth_maxPriorityFeePerGas", "eth_feeHistory"]
    no_method = Refusal("the method does not exist/is not available", -32601)
    no_tag = Refusal("invalid block tag: pending")

    async def refuse_pending(request: Request) -> Any:
        if "pending" in [one for one in request.params if isinstance(one, str)]:
            raise no_tag
        return PASS

    for methods in (lacking[:1], lacking):
        async with (
            run_provider(net.rpc_url, refuse(no_method, 1.0, methods), refuse_pending) as provider,
            open_account(net, provider.url) as chain,
        ):
            await chain.vault.deposit(STAKE_WEI)
            assert await count(net, chain) == (2, 1)
            assert set(methods) | {"pending"} <= chain.connection.providers.lacks


async def test_provider_s_fees_above_the_operator_s_cap_are_not_paid_and_that_is_told(net: TestChain) -> None:
    base_fee = (await net.chain.head()).base_fee_wei
    capped = Sending(ResendPolicy(resend_after_s=0.2, attempts=4), cap_wei=6 * base_fee)
    async with open_account(net, net.rpc_url, capped) as chain, raise_base_fee(net, 10):
        with pytest.raises(EnvironmentFault, match="not mined"):
            await chain.vault.deposit(STAKE_WEI)
        assert chain.sender is not None and chain.sender.is_capped
        [waiting] = chain.sender.queue.list_all()
        assert waiting.fee.max_fee_wei <= 6 * base_fee


async def test_provider_tells_a_nonce_too_high_or_too_low_for_a_moment(net: TestChain) -> None:
    for words in ("nonce too high", "nonce too low: next nonce 9, tx nonce 1", "OldNonce"):
        async with (
            run_provider(net.rpc_url) as provider,
            open_account(net, provider.url) as chain,
        ):
            provider.faults.append(refuse(Refusal(words), 1.0, ["eth_sendRawTransaction"], times=2))
            await chain.vault.deposit(STAKE_WEI)
            assert (await count(net, chain))[1] == 1


async def test_provider_whose_receipt_has_another_form_is_asked_again(net: TestChain) -> None:
    broken = change(RECEIPT, lambda found: found and {**found, "logs": None}, 0.5)
    await play(net, broken, tries=4)


async def test_provider_that_is_silent_may_have_taken_what_another_refuses(net: TestChain) -> None:
    """One endpoint refuses the call, and the other takes it and its answer is lost. Sent again, the call is
    waited for: signed anew it would be mined twice."""
    taken = set[str]()

    async def take_and_be_silent(request: Request) -> Any:
        if request.method != "eth_sendRawTransaction":
            return PASS
        if request.params[0] not in taken:
            taken.add(request.params[0])
            await request.ask(request.method, request.params)
        raise HttpRefusal(500)

    refusing = refuse(Refusal("exceeds the configured cap"), 1.0, ["eth_sendRawTransaction"])
    async with (
        run_provider(net.rpc_url, refusing) as first,
        run_provider(net.rpc_url, take_and_be_silent) as second,
        open_account(net, first.url) as chain,
    ):
        chain.connection.providers.endpoints.append(Endpoint(second.url, 5.0))
        await net.anvil("evm_setAutomine", False)
        with pytest.raises(EnvironmentFault, match="exceeds the configured cap"):
            await chain.vault.deposit(STAKE_WEI)
        again = asyncio.create_task(chain.vault.deposit(STAKE_WEI))
        await asyncio.sleep(0.3)
        await net.anvil("evm_setIntervalMining", 1)
        await again
        assert await count(net, chain) == (2, 1)


async def test_provider_that_has_a_call_already_outweighs_one_that_refuses_it(net: TestChain) -> None:
    async def take_twice(request: Request) -> Any:
        if request.method == "eth_sendRawTransaction":
            await request.ask(request.method, request.params)
        return PASS

    refusing = refuse(Refusal("exceeds the configured cap"), 1.0, ["eth_sendRawTransaction"])
    async with (
        run_provider(net.rpc_url, refusing) as first,
        run_provider(net.rpc_url, take_twice) as second,
        open_account(net, first.url) as chain,
    ):
        chain.connection.providers.endpoints.append(Endpoint(second.url, 5.0))
        await chain.vault.deposit(STAKE_WEI)
        assert await count(net, chain) == (2, 1)
