"""Each transaction is mined once, whatever the fee market, a crash or a reorg do."""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

from tests.protocol.adapters.anvil import (
    POLL_S,
    QUICK,
    STAKE_WEI,
    TestChain,
    open_vault_chain,
    run_test_chain,
)
from tests.protocol.adapters.lossy import run_lossy_node
from touchstone.protocol.adapters.chain import transactions
from touchstone.protocol.adapters.chain.chain_client import Sending
from touchstone.protocol.adapters.chain.fees import FeeOffer
from touchstone.protocol.adapters.chain.refusals import ContractRefused
from touchstone.protocol.adapters.chain.transaction_queue import QUEUE_FILE, TransactionQueue, Waiting
from touchstone.protocol.adapters.chain.transactions import GAS_MARGIN_PERCENT, ResendPolicy
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput


@pytest.fixture
async def net(tmp_path: Path) -> AsyncIterator[TestChain]:
    async with run_test_chain(tmp_path) as net:
        yield net


async def count_mined(net: TestChain) -> int:
    return await net.chain.connection.transaction_count(net.chain.address, "latest")


async def count_pending(net: TestChain) -> int:
    return await net.chain.connection.transaction_count(net.chain.address, "pending")


async def wait_until_pending(net: TestChain, count: int) -> None:
    async with asyncio.timeout(10):
        while await count_pending(net) < count:
            await asyncio.sleep(POLL_S)


async def find_pending(net: TestChain, nonce: int) -> dict[str, str]:
    """The transaction of our account that waits with this nonce."""
    pool = cast(dict[str, Any], await net.anvil("txpool_content"))
    return cast(dict[str, str], pool["pending"][net.chain.address][str(nonce)])


def sign_transfer(net: TestChain, nonce: int, fee_wei: int, gas: int = 21_000) -> bytes:
    """A transfer of nothing to oneself, as another process of our account might send it."""
    transaction = {
        "type": 2, "chainId": net.chain.deployment.chain_id, "nonce": nonce, "gas": gas,
        "to": to_checksum_address(net.account.address), "data": b"", "value": 0,
        "maxFeePerGas": fee_wei, "maxPriorityFeePerGas": fee_wei,
    }  # fmt: skip
    return bytes(net.account.sign_transaction(transaction).raw_transaction)


async def test_many_at_once_are_all_mined(net: TestChain) -> None:
    receipts = await asyncio.gather(*(net.chain.vault.deposit(STAKE_WEI) for _ in range(10)))
    assert len({receipt.transaction_hash for receipt in receipts}) == 10
    assert await net.chain.vault.credit_of(net.chain.address) == 10 * STAKE_WEI


async def test_a_receipt_has_the_events_of_its_call(net: TestChain) -> None:
    receipt = await net.chain.vault.deposit(STAKE_WEI)
    assert receipt.find("Deposited").arguments == {"account": net.chain.address, "wei_": STAKE_WEI}
    assert receipt.gas_used > 21_000 and receipt.fee_wei >= receipt.gas_used
    assert net.chain.mined_block == receipt.block_number
    with pytest.raises(KeyError):
        receipt.find("Withdrawn")


async def test_a_refusal_costs_nothing(net: TestChain) -> None:
    before = await count_mined(net)
    with pytest.raises(ContractRefused) as refusal:
        await net.chain.vault.take(net.chain.address, bytes(32), STAKE_WEI)
    assert refusal.value.name == "NotModule"
    assert refusal.value.values == {"caller": net.chain.address}
    assert refusal.value.where == "Vault.take"
    assert "Call the module" in refusal.value.remedy
    assert await count_mined(net) == before


async def test_a_refusal_after_the_estimate_is_told_as_well(
    net: TestChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if somebody had changed the state between the estimate and the block.
    async def estimate_gas(*_: object) -> int:
        return 200_000

    monkeypatch.setattr(net.chain.connection, "estimate_gas", estimate_gas)
    before = await count_mined(net)
    with pytest.raises(ContractRefused, match="Call the module") as refusal:
        await net.chain.vault.take(net.chain.address, bytes(32), STAKE_WEI)
    assert refusal.value.name == "NotModule"
    assert await count_mined(net) == before + 1


async def test_a_revert_whose_reason_is_gone_can_be_tried_again(
    net: TestChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def estimate_gas(*_: object) -> int:
        return 27_000

    monkeypatch.setattr(transactions, "GAS_MARGIN", 0)
    monkeypatch.setattr(net.chain.connection, "estimate_gas", estimate_gas)
    # Too little gas: the same call is not refused when it is asked for again.
    with pytest.raises(EnvironmentFault, match="reverted in block") as fault:
        await net.chain.vault.deposit(STAKE_WEI)
    assert fault.value.retryable


async def test_a_cheap_transaction_is_sent_again_with_a_higher_fee(net: TestChain) -> None:
    await net.anvil("evm_setAutomine", False)
    before = await count_mined(net)
    sending = asyncio.create_task(net.chain.vault.deposit(STAKE_WEI))
    await wait_until_pending(net, before + 1)
    base_fee = (await net.chain.head()).base_fee_wei
    await net.anvil("anvil_setNextBlockBaseFeePerGas", hex(4 * base_fee))
    await net.anvil("anvil_mine", 1)
    assert await count_mined(net) == before, "the fee was to be too low"
    await net.anvil("anvil_setNextBlockBaseFeePerGas", hex(4 * base_fee))
    await net.anvil("evm_setIntervalMining", 1)
    receipt = await asyncio.wait_for(sending, 600)
    assert receipt.fee_wei >= 2 * base_fee * receipt.gas_used
    assert await net.chain.vault.credit_of(net.chain.address) == STAKE_WEI


async def test_without_blocks_it_gives_up_with_the_hash(net: TestChain) -> None:
    await net.anvil("evm_setAutomine", False)
    with pytest.raises(EnvironmentFault, match="not mined after 5 attempts") as fault:
        await net.chain.vault.deposit(STAKE_WEI)
    assert "0x" in str(fault.value.actual) and fault.value.retryable


async def test_who_has_no_coin_is_told_so_and_that_trying_again_does_not_help(net: TestChain) -> None:
    await net.anvil("anvil_setBalance", to_checksum_address(net.account.address), "0x0")
    with pytest.raises(EnvironmentFault, match="no coin for gas") as fault:
        await net.chain.vault.deposit(STAKE_WEI)
    assert not fault.value.retryable and "touchstone init --devnet" in fault.value.remedy


async def test_after_a_crash_what_was_sent_is_waited_for(net: TestChain) -> None:
    await net.anvil("evm_setAutomine", False)
    before = await count_mined(net)
    crashing = asyncio.create_task(net.chain.vault.deposit(STAKE_WEI))
    await wait_until_pending(net, before + 1)
    crashing.cancel()
    await net.anvil("evm_setIntervalMining", 1)
    async with open_vault_chain(
        net.rpc_url, net.chain.deployment, net.account, sending=Sending(ResendPolicy(resend_after_s=20))
    ) as again:
        # By now the deposit is mined, so whoever asks does not send it a second time.
        assert await again.vault.credit_of(again.address) == STAKE_WEI
        assert await again.recover() == 0


async def crash_while_sending(net: TestChain) -> int:
    """A deposit waits with this nonce, and the process that sent it is gone."""
    await net.anvil("evm_setAutomine", False)
    before = await count_mined(net)
    crashing = asyncio.create_task(net.chain.vault.deposit(STAKE_WEI))
    await wait_until_pending(net, before + 1)
    crashing.cancel()
    await asyncio.gather(crashing, return_exceptions=True)
    return before


async def test_after_a_crash_what_is_stuck_goes_on_for_more(net: TestChain) -> None:
    before = await crash_while_sending(net)
    sent = await find_pending(net, before)
    recovering = asyncio.create_task(net.chain.recover())
    async with asyncio.timeout(10):
        while (now := await find_pending(net, before))["hash"] == sent["hash"]:
            await asyncio.sleep(POLL_S)
    assert now["input"] == sent["input"] and int(now["maxFeePerGas"], 16) > int(sent["maxFeePerGas"], 16)
    await net.anvil("anvil_mine", 1)
    assert await recovering == 1
    assert await count_mined(net) == before + 1 == await count_pending(net)
    assert await net.chain.vault.credit_of(net.chain.address) == STAKE_WEI


async def test_after_a_crash_the_same_call_is_waited_for_and_not_signed_anew(net: TestChain) -> None:
    before = await crash_while_sending(net)
    again = asyncio.create_task(net.chain.vault.deposit(STAKE_WEI))
    await asyncio.sleep(2 * POLL_S)
    await net.anvil("evm_setIntervalMining", 1)
    await again
    assert await count_mined(net) == before + 1 == await count_pending(net)
    assert await net.chain.vault.credit_of(net.chain.address) == STAKE_WEI


@pytest.mark.parametrize("is_there", [False, True])
def test_the_file_of_waiting_transactions_is_its_owners_alone(tmp_path: Path, is_there: bool) -> None:
    """Also one that an earlier version has made, whatever the usual mode of new files."""
    usual = os.umask(0o022)
    try:
        if is_there:
            sqlite3.connect(tmp_path / QUEUE_FILE).execute("CREATE TABLE other (one)")
        queue = TransactionQueue("0xa", tmp_path / QUEUE_FILE)
        queue.put(Waiting(1, "0xb", b"", 1, FeeOffer(1, 1), (b"h",), 1))
        files = {one.name: one.stat().st_mode & 0o777 for one in tmp_path.iterdir()}
        queue.close()
    finally:
        os.umask(usual)
    assert files == dict.fromkeys([QUEUE_FILE, f"{QUEUE_FILE}-wal", f"{QUEUE_FILE}-shm"], 0o600)


async def test_a_new_process_goes_on_with_the_queue_of_the_last_one(net: TestChain, tmp_path: Path) -> None:
    where, sending = (net.rpc_url, net.chain.deployment, net.account), Sending(QUICK, tmp_path / "queue")
    await net.anvil("evm_setAutomine", False)
    before = await count_mined(net)
    async with open_vault_chain(*where, sending=sending) as first:
        crashing = asyncio.create_task(first.vault.deposit(STAKE_WEI))
        await wait_until_pending(net, before + 1)
        crashing.cancel()
        await asyncio.gather(crashing, return_exceptions=True)
    sent = await find_pending(net, before)
    async with open_vault_chain(*where, sending=sending) as second:
        # Nothing mines, so the start goes on without it; for more, and not replaced by another call.
        now = await find_pending(net, before)
        assert now["input"] == sent["input"] and now["hash"] != sent["hash"]
        await net.anvil("evm_setIntervalMining", 1)
        await asyncio.gather(second.vault.deposit(STAKE_WEI), second.vault.deposit(2 * STAKE_WEI))
        assert second.sender is not None and second.sender.queue.list_all() == []
    assert await count_mined(net) == before + 2
    assert await net.chain.vault.credit_of(net.chain.address) == 3 * STAKE_WEI


async def test_what_another_program_left_stuck_is_replaced(net: TestChain) -> None:
    await net.anvil("evm_setAutomine", False)
    before = await count_mined(net)
    await net.chain.connection.broadcast(sign_transfer(net, before, fee_wei=2 * 10**9, gas=90_000))
    await wait_until_pending(net, before + 1)
    recovering = asyncio.create_task(net.chain.recover())
    async with asyncio.timeout(10):
        while int((await find_pending(net, before))["gas"], 16) == 90_000:
            await asyncio.sleep(POLL_S)
    await net.anvil("anvil_mine", 1)
    assert await recovering == 1 and await count_mined(net) == before + 1


async def test_beside_another_process_what_waits_is_left_to_it(net: TestChain) -> None:
    """A command of the operator must not replace what a running node has sent: its window may close."""
    await net.anvil("evm_setAutomine", False)
    before = await count_mined(net)
    node = asyncio.create_task(net.chain.vault.deposit(STAKE_WEI))
    await wait_until_pending(net, before + 1)
    sent = (await find_pending(net, before))["input"]
    impatient = ResendPolicy(resend_after_s=POLL_S, attempts=3)
    async with open_vault_chain(
        net.rpc_url, net.chain.deployment, net.account, sending=Sending(impatient), is_alone=False
    ) as command:
        assert (await find_pending(net, before))["input"] == sent
        second = asyncio.create_task(command.vault.deposit(2 * STAKE_WEI))
        await wait_until_pending(net, before + 2)
        await net.anvil("anvil_mine", 1)
        await asyncio.gather(node, second)
    assert await count_mined(net) == before + 2
    assert await net.chain.vault.credit_of(net.chain.address) == 3 * STAKE_WEI


async def test_a_reorg_that_drops_a_transaction_blocks_no_later_one(net: TestChain) -> None:
    await net.chain.vault.deposit(STAKE_WEI)
    await net.anvil("anvil_reorg", 1, [])
    assert await net.chain.vault.credit_of(net.chain.address) == 0
    await net.chain.vault.deposit(2 * STAKE_WEI)
    assert await net.chain.vault.credit_of(net.chain.address) == 2 * STAKE_WEI


async def test_a_gap_left_by_a_reorg_is_closed(net: TestChain) -> None:
    await net.chain.vault.deposit(STAKE_WEI)
    await net.anvil("evm_setAutomine", False)
    before = await count_mined(net)
    sending = asyncio.create_task(net.chain.vault.deposit(2 * STAKE_WEI))
    await wait_until_pending(net, before + 1)
    await net.anvil("anvil_reorg", 1, [])
    await net.anvil("evm_setIntervalMining", 1)
    await asyncio.wait_for(sending, 600)
    assert await net.chain.vault.credit_of(net.chain.address) == 2 * STAKE_WEI


async def test_two_processes_of_one_account_do_not_collide(net: TestChain) -> None:
    async with open_vault_chain(net.rpc_url, net.chain.deployment, net.account) as other:
        await asyncio.gather(*(c.vault.deposit(STAKE_WEI) for c in (net.chain, other) for _ in range(5)))
    assert await net.chain.vault.credit_of(net.chain.address) == 10 * STAKE_WEI


@pytest.mark.parametrize("is_mined_at_once", [True, False])
async def test_a_lost_answer_sends_nothing_twice(net: TestChain, is_mined_at_once: bool) -> None:
    # The node takes the transaction and its answer is lost: asked again, it calls the nonce taken.
    if not is_mined_at_once:
        await net.anvil("evm_setAutomine", False)
    before, deployment = await count_mined(net), net.chain.deployment
    async with (
        run_lossy_node(net.rpc_url, "eth_sendRawTransaction") as rpc_url,
        open_vault_chain(rpc_url, deployment, net.account) as chain,
    ):
        sending = asyncio.create_task(chain.vault.deposit(STAKE_WEI))
        if not is_mined_at_once:
            await wait_until_pending(net, before + 1)
            await net.anvil("evm_setIntervalMining", 1)
        receipt = await asyncio.wait_for(sending, 600)
    assert receipt.find("Deposited").arguments["wei_"] == STAKE_WEI
    assert await count_mined(net) == before + 1
    assert await net.chain.vault.credit_of(net.chain.address) == STAKE_WEI


async def test_what_another_process_displaced_is_sent_anew(net: TestChain) -> None:
    await net.anvil("evm_setAutomine", False)
    before = await count_mined(net)
    sending = asyncio.create_task(net.chain.vault.deposit(STAKE_WEI))
    await wait_until_pending(net, before + 1)
    await net.anvil("evm_setIntervalMining", 1)
    rival = sign_transfer(net, before, fee_wei=100 * (await net.chain.head()).base_fee_wei)
    await net.chain.connection.broadcast(rival)
    await asyncio.wait_for(sending, 600)
    assert await count_mined(net) == before + 2
    assert await net.chain.vault.credit_of(net.chain.address) == STAKE_WEI


async def test_no_version_of_a_call_displaces_another(net: TestChain) -> None:
    """The call may have been signed again since this one was read: sent anew, it would be paid twice."""
    assert net.chain.sender is not None
    queue, mined = net.chain.sender.queue, net.chain.sender.mined_nonces
    nonce, head = await count_mined(net), await net.chain.head()
    raws = [sign_transfer(net, nonce, fee_wei=k * head.base_fee_wei) for k in (50, 100)]
    hashes, fee = [bytes(keccak(raw)) for raw in raws], FeeOffer(100 * head.base_fee_wei, 0)
    early = Waiting(nonce, net.chain.address, b"", 21_000, fee, (hashes[0],), head.number)
    queue.put(early.sign_again(fee, hashes[1]))
    await net.chain.connection.broadcast(raws[1])
    assert not await mined.is_displaced(early)
    queue.drop(nonce)
    assert await mined.is_displaced(early), "of a call that is not ours"


async def test_two_processes_never_take_one_transaction_for_their_own(
    net: TestChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A node that is mining the first may count it in neither the pool nor the block and take the second.
    await net.anvil("evm_setAutomine", False)
    before = await count_mined(net)
    async with open_vault_chain(net.rpc_url, net.chain.deployment, net.account) as other:
        sent: list[bytes] = []

        async def broadcast(raw: bytes) -> None:
            sent.append(raw)
            if len(sent) > 1:
                await net.chain.connection.broadcast(raw)

        async def count(address: str, block: str) -> int:
            return before if not sent else await net.chain.connection.transaction_count(address, block)

        monkeypatch.setattr(other.connection, "broadcast", broadcast)
        monkeypatch.setattr(other.connection, "transaction_count", count)
        first = asyncio.create_task(net.chain.vault.deposit(STAKE_WEI))
        await wait_until_pending(net, before + 1)
        second = asyncio.create_task(other.vault.deposit(STAKE_WEI))
        async with asyncio.timeout(10):
            while not sent:
                await asyncio.sleep(POLL_S)
        await net.anvil("evm_setIntervalMining", 1)
        receipts = await asyncio.wait_for(asyncio.gather(first, second), 600)
    assert len({receipt.transaction_hash for receipt in receipts}) == 2
    assert await net.chain.vault.credit_of(net.chain.address) == 2 * STAKE_WEI


async def test_without_a_signer_nothing_is_sent(net: TestChain) -> None:
    async with open_vault_chain(net.rpc_url, net.chain.deployment) as reader:
        assert reader.address == ""
        assert await reader.recover() == 0
        with pytest.raises(InvalidInput, match="an account that signs"):
            await reader.vault.deposit(STAKE_WEI)


async def test_an_account_without_coin_is_told_so(net: TestChain) -> None:
    await net.anvil("anvil_setBalance", net.account.address, "0x0")
    with pytest.raises(EnvironmentFault, match="coin"):
        await net.chain.vault.deposit(STAKE_WEI)


def test_the_margin_adds_gas() -> None:
    assert GAS_MARGIN_PERCENT > 100
