"""Nothing is signed or sent while the endpoints may be on another chain than the folded one, or the clock is
wrong."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from protocol.adapters.chain.answers import Head
from protocol.adapters.chain.connection import Connection
from protocol.adapters.chain.gate import Gate, GateShut, find_age_fault
from tests.faults.provider import HttpRefusal, lag, refuse, run_provider
from tests.protocol.adapters.anvil import POLL_S, STAKE_WEI, TestChain, run_test_chain


@pytest.fixture
async def net(tmp_path: Path) -> AsyncIterator[TestChain]:
    async with run_test_chain(tmp_path) as net:
        net.chain.gate.folded = await net.chain.head()
        yield net


async def count_sent(net: TestChain) -> int:
    return await net.chain.connection.transaction_count(net.chain.address, "pending")


async def test_on_the_folded_chain_all_is_sent(net: TestChain) -> None:
    await net.anvil("anvil_mine", 3)
    await net.chain.purse.deposit(STAKE_WEI)
    assert net.chain.gate.reason == ""


async def test_who_folds_nothing_asks_the_chain_for_each_thing(net: TestChain) -> None:
    net.chain.gate.folded = None
    await net.chain.purse.deposit(STAKE_WEI)


async def test_after_a_reorg_nothing_is_sent_before_it_is_folded(net: TestChain) -> None:
    before = await count_sent(net)
    await net.anvil("anvil_mine", 1)
    net.chain.gate.folded = await net.chain.head()
    await net.anvil("anvil_reorg", 1, [])
    with pytest.raises(GateShut, match="at an endpoint") as shut:
        await net.chain.purse.deposit(STAKE_WEI)
    assert shut.value.retryable and net.chain.gate.reason and await count_sent(net) == before
    net.chain.gate.folded = await net.chain.head()
    await net.chain.purse.deposit(STAKE_WEI)
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
    monkeypatch.setattr("protocol.adapters.chain.gate.PAUSE_S", 0.01)
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


async def test_a_backend_that_is_behind_for_a_moment_is_asked_again(net: TestChain) -> None:
    async with run_provider(net.rpc_url, lag(1, 0.3), seed=5) as provider:
        connection = Connection(provider.url, POLL_S)
        gate = Gate(connection)
        gate.folded = net.chain.gate.folded
        passed = await asyncio.gather(*(gate.pass_through() for _ in range(30)), return_exceptions=True)
        assert sum(isinstance(one, GateShut) for one in passed) <= 3
        await connection.close()


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
