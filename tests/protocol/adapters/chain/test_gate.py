"""Nothing is signed or sent while the endpoints may be on another chain than the folded one, or the clock is
wrong."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.provider import Fault, HttpRefusal, Request, lag, refuse, run_provider
from tests.protocol.adapters.anvil import POLL_S, STAKE_WEI, TestChain, run_test_chain
from touchstone.protocol.adapters.chain.answers import Head
from touchstone.protocol.adapters.chain.connection import REQUEST_TIMEOUT_S, Connection
from touchstone.protocol.adapters.chain.contract_events import EventReader
from touchstone.protocol.adapters.chain.follower import Follower
from touchstone.protocol.adapters.chain.gate import (
    BLOCK_S,
    STUCK_BLOCKS,
    Gate,
    GateShut,
    find_age_fault,
    list_live,
)


@pytest.fixture
async def net(tmp_path: Path) -> AsyncIterator[TestChain]:
    async with run_test_chain(tmp_path) as net:
        net.chain.gate.folded = await net.chain.head()
        yield net


async def count_sent(net: TestChain) -> int:
    return await net.chain.connection.transaction_count(net.chain.address, "pending")


async def test_on_the_folded_chain_all_is_sent(net: TestChain) -> None:
    await net.anvil("anvil_mine", 3)
    await net.chain.vault.deposit(STAKE_WEI)
    assert net.chain.gate.reason == ""


async def test_who_folds_nothing_asks_the_chain_for_each_thing(net: TestChain) -> None:
    net.chain.gate.folded = None
    await net.chain.vault.deposit(STAKE_WEI)


async def test_after_a_reorg_nothing_is_sent_before_it_is_folded(net: TestChain) -> None:
    before = await count_sent(net)
    await net.anvil("anvil_mine", 1)
    net.chain.gate.folded = await net.chain.head()
    await net.anvil("anvil_reorg", 1, [])
    with pytest.raises(GateShut, match="at an endpoint") as shut:
        await net.chain.vault.deposit(STAKE_WEI)
    assert shut.value.retryable and net.chain.gate.reason and await count_sent(net) == before
    net.chain.gate.folded = await net.chain.head()
    await net.chain.vault.deposit(STAKE_WEI)
    assert net.chain.gate.reason == ""


async def test_at_another_chain_with_the_same_id_nothing_is_sent(net: TestChain, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    async with run_test_chain(tmp_path / "other") as other:
        await other.anvil("anvil_mine", (await net.chain.head()).number + 5)
        gate = Gate(other.chain.connection)
        gate.folded = net.chain.gate.folded
        with pytest.raises(GateShut, match="at an endpoint"):
            await gate.pass_through()


@pytest.mark.parametrize("is_first", [True, False])
async def test_two_endpoints_that_disagree_are_a_reason_to_wait(
    net: TestChain, tmp_path: Path, is_first: bool
) -> None:
    (tmp_path / "other").mkdir()
    async with run_test_chain(tmp_path / "other") as other:
        await other.anvil("anvil_mine", (await net.chain.head()).number + 5)
        urls = [other.rpc_url, net.rpc_url] if is_first else [net.rpc_url, other.rpc_url]
        connection = Connection(urls, POLL_S)
        gate = Gate(connection)
        gate.folded = net.chain.gate.folded
        with pytest.raises(GateShut, match="at an endpoint"):
            await gate.pass_through()
        await connection.close()


async def test_an_endpoint_that_is_silent_or_behind_does_not_stop_a_node_that_has_another(
    net: TestChain,
) -> None:
    await net.anvil("anvil_mine", STUCK_BLOCKS + 1)
    net.chain.gate.folded = await net.chain.head()
    faults = (refuse(HttpRefusal(500)), lag(100, 1.0))
    for fault in faults:
        async with run_provider(net.rpc_url, fault) as bad:
            connection = Connection([bad.url, net.rpc_url], POLL_S)
            gate = Gate(connection)
            gate.folded = net.chain.gate.folded
            await gate.pass_through()
            await connection.close()


async def test_an_endpoint_that_is_far_behind_or_silent_shuts_the_gate(
    net: TestChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("touchstone.protocol.adapters.chain.gate.PAUSE_S", 0.01)
    faults = {
        "no endpoint that has block": lag(100, 1.0),
        "no endpoint that answers": refuse(HttpRefusal(500)),
    }
    for said, fault in faults.items():
        async with run_provider(net.rpc_url, fault) as bad:
            connection = Connection(bad.url, POLL_S)
            gate = Gate(connection)
            gate.folded = net.chain.gate.folded
            with pytest.raises(GateShut, match=said):
                await gate.pass_through()
            await connection.close()


async def test_an_endpoint_that_lacks_the_folded_block_and_is_not_stuck_shuts_the_gate(
    net: TestChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one may have made the block up."""
    monkeypatch.setattr("touchstone.protocol.adapters.chain.gate.PAUSE_S", 0.01)
    await net.anvil("anvil_mine", 20)
    net.chain.gate.folded = await net.chain.head()
    for blocks in (1, STUCK_BLOCKS):
        async with run_provider(net.rpc_url, lag(blocks, 1.0)) as behind:
            connection = Connection([net.rpc_url, behind.url], POLL_S)
            gate = Gate(connection)
            gate.folded = net.chain.gate.folded
            with pytest.raises(GateShut, match="no block .* at an endpoint"):
                await gate.pass_through()
            await connection.close()


@pytest.mark.parametrize(
    ("preset", "off_blocks", "off_s", "is_new", "is_stuck"),
    [
        ("own", 8, 10**6, False, False), ("own", 9, 0, False, True), ("own", 1 << 40, 0, True, False),
        ("12s", 1, 59, True, False), ("12s", 1, 61, True, True), ("12s", 1 << 40, 59, False, False),
        ("2s", 6, 29, False, False), ("2s", 6, 31, True, True),
    ],
)  # fmt: skip
def test_an_endpoint_is_stuck_that_is_below_another_and_old(
    preset: str, off_blocks: int, off_s: int, is_new: bool, is_stuck: bool
) -> None:
    """On a chain whose pace is not known one that tells of nothing new is: the other one may lie."""
    low = Head(100, b"h" * 32, b"p" * 32, 1_000_000, 1)
    high = replace(low, number=low.number + off_blocks, block_hash=b"i" * 32)
    live = list_live([high, low], preset, low.timestamp_s + off_s, low.number - is_new)
    # Both are as old here: only who is below can be stuck.
    assert live == ([high] if is_stuck else [low, high])


async def test_a_backend_that_is_behind_for_a_moment_is_asked_again(net: TestChain) -> None:
    async with run_provider(net.rpc_url, lag(1, 0.3), seed=5) as provider:
        connection = Connection(provider.url, POLL_S)
        gate = Gate(connection)
        gate.folded = net.chain.gate.folded
        passed = await asyncio.gather(*(gate.pass_through() for _ in range(30)), return_exceptions=True)
        assert sum(isinstance(one, GateShut) for one in passed) <= 3
        await connection.close()


FASTER = 20.0
"""All times are a twentieth: 1 s is 20 s of a node with ordinary settings."""


async def hang(request: Request) -> object:
    await asyncio.sleep(5.0)
    return None


BUSY = refuse(HttpRefusal(429, "", {"Retry-After": "1"}))


@pytest.mark.parametrize(("fault", "preset"), [(hang, "12s"), (BUSY, "2s")], ids=["hangs", "is busy"])
async def test_one_of_two_endpoints_that_hangs_or_is_busy_does_not_stop_the_node(
    net: TestChain, fault: Fault, preset: str
) -> None:
    """The other one is waited for a moment, and then left out for a while."""
    loop = asyncio.get_running_loop()
    start, began_s = (await net.chain.head()).timestamp_s, loop.time()

    def now() -> float:
        return start + FASTER * (loop.time() - began_s)

    async def mine() -> None:
        while True:
            await asyncio.sleep(BLOCK_S[preset] / FASTER)
            await net.anvil("evm_setNextBlockTimestamp", hex(int(now())))
            await net.anvil("evm_mine")

    mining = asyncio.create_task(mine())
    async with run_provider(net.rpc_url, fault) as bad:
        urls, poll_s = [net.rpc_url, bad.url], BLOCK_S[preset] / FASTER / 8
        connection = Connection(urls, poll_s, REQUEST_TIMEOUT_S / FASTER)
        gate = Gate(connection, now)
        gate.preset = preset
        try:
            async with asyncio.timeout(30.0):
                async for batch in Follower(
                    connection, EventReader(connection, net.chain.deployment), 0
                ).batches():
                    gate.folded = batch.head
                    with suppress(GateShut):
                        await gate.pass_through()
                        if batch.head.number > 20:
                            break
        finally:
            mining.cancel()
            await connection.close()
        first = bad.asked.count("eth_getBlockByNumber")
        assert 0 < first < 20, "it is asked again, and not each time"


HEAD = Head(7, b"h" * 32, b"p" * 32, 1_000_000, 1)


@pytest.mark.parametrize(
    ("preset", "off_s", "is_right"),
    [
        ("12s", 0, True), ("12s", 59, True), ("12s", 61, False), ("12s", 90, False), ("12s", 3_600, False),
        ("12s", -14, True), ("12s", -16, False), ("12s", -90, False), ("12s", -3_600, False),
        ("2s", 29, True), ("2s", 31, False), ("2s", -16, False),
        ("local", 10**6, True), ("own", -(10**6), True),
    ],
)  # fmt: skip
def test_a_head_is_that_of_now_as_far_as_the_chain_s_pace_tells(
    preset: str, off_s: int, is_right: bool
) -> None:
    """off_s: this machine's clock is so far ahead of the newest block."""
    assert (find_age_fault(HEAD, preset, HEAD.timestamp_s + off_s) == "") == is_right


async def test_behind_a_head_that_is_not_of_now_nothing_is_signed(net: TestChain) -> None:
    folded = await net.chain.head()
    for off_s in (-3_600, -90, 90, 3_600):
        gate = Gate(net.chain.connection, now=lambda off_s=off_s: folded.timestamp_s + off_s)  # type: ignore[misc]
        gate.preset, gate.folded = "2s", folded
        with pytest.raises(GateShut, match="this machine's clock"):
            await gate.pass_through()
        gate.folded = replace(folded, timestamp_s=folded.timestamp_s + off_s)
        await gate.pass_through()
