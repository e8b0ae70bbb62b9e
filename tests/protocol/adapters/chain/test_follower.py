"""Every event once and in order, whatever the chain takes back and whatever a provider's backends lack."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.protocol.adapters.anvil import STAKE_WEI, TestChain, run_test_chain
from touchstone.protocol.adapters.chain import follower as module
from touchstone.protocol.adapters.chain.answers import Head
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.contract_events import Event, EventReader
from touchstone.protocol.adapters.chain.follower import Follower, LogBatch
from touchstone.protocol.spec.errors import EnvironmentFault


@pytest.fixture
async def net(tmp_path: Path) -> AsyncIterator[TestChain]:
    async with run_test_chain(tmp_path) as net:
        yield net


def read_deposits(batch: LogBatch) -> list[int]:
    return [e.arguments["wei_"] // STAKE_WEI for e in batch.events if e.name == "Deposited"]


async def read_next(follower: Follower, net: TestChain) -> LogBatch:
    batch = await follower.read_up_to(await net.chain.head())
    assert batch is not None
    return batch


def make_follower(net: TestChain, processed: Sequence[Head] = ()) -> Follower:
    reader = EventReader(net.chain.connection, net.chain.deployment)
    return Follower(net.chain.connection, reader, 0, processed)


async def deposit(net: TestChain, *amounts: int) -> None:
    for amount in amounts:
        await net.chain.vault.deposit(amount * STAKE_WEI)


async def test_a_follower_hands_out_every_event_once(net: TestChain) -> None:
    follower = make_follower(net)
    await deposit(net, 1)
    assert read_deposits(await read_next(follower, net)) == [1]
    # A gap: several blocks between two looks.
    await deposit(net, 2)
    await net.anvil("anvil_mine", 5)
    await deposit(net, 3)
    assert read_deposits(await read_next(follower, net)) == [2, 3]
    assert await follower.read_up_to(await net.chain.head()) is None
    await net.anvil("anvil_mine", 1)
    batch = await read_next(follower, net)
    assert batch.events == () and batch.forget_from is None


async def test_blocks_far_below_the_head_are_read_in_ranges(net: TestChain) -> None:
    follower = make_follower(net)
    await deposit(net, 1)
    await net.anvil("anvil_mine", 200)
    await deposit(net, 2)
    assert read_deposits(await read_next(follower, net)) == [1, 2]
    await deposit(net, 3)
    await net.anvil("anvil_mine", 150)
    await deposit(net, 4)
    batch = await read_next(follower, net)
    assert read_deposits(batch) == [3, 4] and batch.forget_from is None


@pytest.mark.parametrize("depth", [1, 2, 3, 8])
async def test_a_reorg_is_noticed_and_read_again_from_the_fork(net: TestChain, depth: int) -> None:
    follower = make_follower(net)
    for amount in range(8):
        await deposit(net, amount + 1)
        assert read_deposits(await read_next(follower, net)) == [amount + 1]
    head = (await net.chain.head()).number
    await net.anvil("anvil_reorg", depth, [])
    await deposit(net, 9)
    batch = await read_next(follower, net)
    assert batch.forget_from == head - depth + 1
    assert read_deposits(batch) == [9]
    await net.anvil("anvil_mine", 1)
    assert (await read_next(follower, net)).forget_from is None


async def test_a_head_that_is_not_higher_counts_once_it_was_seen_twice(net: TestChain) -> None:
    """Only then it is a reorg and no backend that lags."""
    follower = make_follower(net)
    await deposit(net, 1)
    await read_next(follower, net)
    await net.anvil("anvil_reorg", 1, [])
    assert await follower.read_up_to(await net.chain.head()) is None
    batch = await read_next(follower, net)
    assert batch.forget_from == batch.head.number and batch.events == ()


async def test_a_backend_that_lags_voids_nothing(net: TestChain) -> None:
    follower, heads = make_follower(net), []
    for amount in (1, 2, 3):
        await deposit(net, amount)
        heads.append(await net.chain.head())
        await read_next(follower, net)
    for head in (heads[1], heads[0], heads[1], heads[1], heads[2]):
        assert await follower.read_up_to(head) is None


async def test_a_backend_that_is_far_behind_voids_nothing(net: TestChain) -> None:
    """What links it to the newest block was read in a range, so its blocks are not known by their hashes."""
    follower = make_follower(net)
    await deposit(net, 1)
    old = (await read_next(follower, net)).head
    await net.anvil("anvil_mine", 300)
    stuck = await net.chain.connection.block(old.number + 5)
    assert stuck is not None
    await read_next(follower, net)
    for _ in range(3):
        with suppress(EnvironmentFault):
            assert await follower.read_up_to(stuck) is None
    await deposit(net, 2)
    batch = await read_next(follower, net)
    assert read_deposits(batch) == [2] and batch.forget_from is None


@pytest.mark.parametrize("gap", [0, 100])
async def test_another_chain_is_not_followed(net: TestChain, tmp_path: Path, gap: int) -> None:
    """It is as good as silence: what was read stays, and goes on when the right chain answers."""
    follower = make_follower(net)
    await net.anvil("anvil_mine", 80)
    await deposit(net, 1)
    await read_next(follower, net)
    (tmp_path / "other").mkdir()
    async with run_test_chain(tmp_path / "other") as other:
        await other.anvil("anvil_mine", (await net.chain.head()).number + gap)
        right, follower._connection = follower._connection, other.chain.connection
        for _ in range(3):
            with pytest.raises(EnvironmentFault, match="forks off") as fault:
                await follower.read_up_to(await other.chain.head())
            assert fault.value.retryable
        follower._connection = right
    await deposit(net, 2)
    batch = await read_next(follower, net)
    assert read_deposits(batch) == [2] and batch.forget_from is None


async def test_another_chain_that_is_shown_in_between_two_questions_is_not_taken(
    net: TestChain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its head and its logs come from the wrong endpoint, and what links them to the right chain from the
    right one: far from the newest block that was read no header links the two."""
    follower = make_follower(net)
    # Two chains that begin in the same second have one genesis.
    await net.anvil("anvil_mine", 80)
    await deposit(net, 1)
    await read_next(follower, net)
    (tmp_path / "other").mkdir()
    async with run_test_chain(tmp_path / "other") as other:
        await other.anvil("anvil_mine", 300)
        head, right, usual = await other.chain.head(), net.chain.connection, Connection.block

        async def ask_the_right_one(self: Connection, number: int) -> Head | None:
            return await usual(right, number)

        monkeypatch.setattr(Connection, "block", ask_the_right_one)
        follower._connection = other.chain.connection
        follower._reader = EventReader(other.chain.connection, net.chain.deployment)
        with pytest.raises(EnvironmentFault, match="forks off"):
            await follower.read_up_to(head)


async def test_a_fork_that_lasted_for_more_than_the_near_blocks_is_left_again(net: TestChain) -> None:
    """The endpoint was on it, and shows nothing but the right chain from then on."""
    follower = make_follower(net)
    await deposit(net, 1)
    fork = (await read_next(follower, net)).head
    snapshot = await net.anvil("evm_snapshot")
    for _ in range(module.NEAR_BLOCKS + 2):
        await net.anvil("anvil_mine", 1)
        old = (await read_next(follower, net)).head
    await net.anvil("evm_revert", snapshot)
    await net.anvil("anvil_mine", module.NEAR_BLOCKS - 5, 13)
    for _ in range(module.FORK_LOOKS + 1):
        # It is no higher than what was read: a backend that is stuck would show the same.
        with suppress(EnvironmentFault):
            assert await follower.read_up_to(await net.chain.head()) is None
    await deposit(net, 2)
    await net.anvil("anvil_mine", 20, 13)
    for look in range(module.FORK_LOOKS - 1):
        with pytest.raises(EnvironmentFault, match="forks off"):
            await follower.read_up_to(await net.chain.head())
        if not look:
            # What was read is seen in between: all is looked at anew.
            assert await follower.read_up_to(old) is None
            with pytest.raises(EnvironmentFault, match="forks off"):
                await follower.read_up_to(await net.chain.head())
    batch = await read_next(follower, net)
    assert batch.forget_from == fork.number + 1 and read_deposits(batch) == [2]
    await net.anvil("anvil_mine", 1)
    assert (await read_next(follower, net)).forget_from is None


async def test_what_was_handed_out_before_this_process_is_not_read_again(net: TestChain) -> None:
    """Of an earlier run only some heads are known, and the chain may have taken the newest back."""
    heads = []
    for amount in (1, 2, 3):
        await deposit(net, amount)
        heads.append(await net.chain.head())
    await net.anvil("anvil_reorg", 1, [])
    await net.anvil("anvil_mine", 100)
    follower = make_follower(net, [heads[0], heads[2]])
    batch = await read_next(follower, net)
    assert batch.forget_from == heads[0].number + 1 and read_deposits(batch) == [2]
    beside = make_follower(net, [heads[0], replace(heads[2], number=heads[2].number + 70)])
    assert read_deposits(await read_next(beside, net)) == [2]


async def test_a_gap_that_nobody_told_of_is_found_by_reading_again(
    net: TestChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backend that has a block and not its logs: it is found out later, and all is read again from
    there."""
    usual = EventReader.read_blocks
    hidden = set[int]()

    async def hide(self: EventReader, blocks: Sequence[Head]) -> list[list[Event]]:
        found = await usual(self, blocks)
        return [[] if block.number in hidden else events for block, events in zip(blocks, found, strict=True)]

    monkeypatch.setattr(EventReader, "read_blocks", hide)
    batches = net.chain.follow()
    await anext(batches)
    hidden.add((await net.chain.head()).number + 2)
    for amount in (1, 2, 3):
        await deposit(net, amount)
    assert read_deposits(await anext(batches)) == [1, 3]
    hidden.clear()
    await net.anvil("anvil_mine", module.NEAR_BLOCKS // 2)
    assert (await anext(batches)).events == ()
    again = await anext(batches)
    assert read_deposits(again) == [2, 3]
    assert again.forget_from == min(event.block_number for event in again.events)


def fail(times: int) -> Callable[..., Any]:
    """Stands for `EventReader.read_blocks` of a provider that is silent so many times."""
    usual, left = EventReader.read_blocks, times

    async def fail_first(self: EventReader, blocks: Sequence[Head]) -> list[list[Event]]:
        nonlocal left
        left -= 1
        if left >= 0:
            raise EnvironmentFault(what="silent", expected="", actual="", remedy="", retryable=False)
        return await usual(self, blocks)

    return fail_first


async def test_a_chain_that_hides_its_logs_for_a_while_is_asked_again(
    net: TestChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tells of a head, and a moment later it is silent, or the provider has had enough requests."""
    await deposit(net, 1)
    monkeypatch.setattr(EventReader, "read_blocks", fail(3))
    assert read_deposits(await anext(net.chain.follow())) == [1]
    monkeypatch.setattr(EventReader, "read_blocks", fail(10**9))
    with pytest.raises(EnvironmentFault, match="silent"):
        await anext(net.chain.follow(grace_s=0.2))


async def test_a_node_does_not_end_however_long_the_chain_is_silent(net: TestChain) -> None:
    batches = net.chain.follow(grace_s=float("inf"))
    usual, net.chain.connection.providers.endpoints[0].url = net.rpc_url, "http://127.0.0.1:1"
    waiting = asyncio.ensure_future(anext(batches))
    while net.chain.connection.health.errors["connection"] < 3:
        await asyncio.sleep(0.01)
    assert not waiting.done()
    net.chain.connection.providers.endpoints[0].url = usual
    assert (await waiting).head == await net.chain.head()


async def test_following_goes_on_with_each_head(net: TestChain) -> None:
    batches = net.chain.follow()
    first = await anext(batches)
    assert first.events == () and first.head.number == (await net.chain.head()).number
    waiting = asyncio.ensure_future(anext(batches))
    await deposit(net, 1)
    assert read_deposits(await waiting) == [1]
