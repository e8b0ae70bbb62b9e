"""What a node reads behind a provider that misbehaves: no event is lost or folded twice, and it goes on by
itself.

Before, such a node lost events for ever, without a word, in 20 of 20 tries of the first play.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from protocol.adapters.chain.connection import Connection
from protocol.adapters.chain.contract_events import Event, EventReader
from protocol.adapters.chain.follower import Follower
from tests.faults.provider import Fault, HttpRefusal, Refusal, change, hide, lag, refuse, run_provider
from tests.protocol.adapters.anvil import POLL_S, STAKE_WEI, TestChain, run_test_chain

TRIES = 20
DEPOSITS = 12


@pytest.fixture
async def net(tmp_path: Path) -> AsyncIterator[TestChain]:
    async with run_test_chain(tmp_path) as net:
        yield net


class Reader:
    """One node behind a provider of its own: what it has been told of, as it stands."""

    def __init__(self, connection: Connection, net: TestChain) -> None:
        self._batches = Follower(connection, EventReader(connection, net.chain.deployment), 0).batches()
        self.events: list[Event] = []
        self.head = -1

    async def read_up_to(self, block: int) -> None:
        while self.head < block:
            batch = await anext(self._batches)
            if batch.forget_from is not None:
                self.events = [one for one in self.events if one.block_number < batch.forget_from]
            self.events += batch.events
            self.head = batch.head.number


async def act(net: TestChain, depth: int) -> None:
    """Blocks with events and without, one by one and several at once, and a reorg."""
    for number in range(DEPOSITS):
        await net.chain.purse.deposit((number + 1) * STAKE_WEI)
        if number % 3 == 2:
            await net.anvil("anvil_mine", number)
        if number == DEPOSITS // 2 and depth:
            await net.anvil("anvil_reorg", depth, [])
        await asyncio.sleep(0.05)
    await net.anvil("anvil_mine", 2)


def name_places(events: Sequence[Event]) -> list[tuple[int, int, bytes]]:
    return [(one.block_number, one.log_index, one.block_hash) for one in events]


async def play(net: TestChain, fault: Fault, depth: int = 0) -> list[int]:
    """The tries that know other events in the end than the chain has."""
    async with AsyncExitStack() as stack:
        readers = []
        for seed in range(TRIES):
            provider = await stack.enter_async_context(run_provider(net.rpc_url, fault, seed=seed))
            connection = Connection(provider.url, POLL_S)
            stack.push_async_callback(connection.close)
            readers.append(Reader(connection, net))
        stop = asyncio.Event()

        async def follow(reader: Reader) -> None:
            while not stop.is_set():
                await reader.read_up_to(reader.head + 1)

        following = [asyncio.create_task(follow(reader)) for reader in readers]
        await act(net, depth)
        head = await net.chain.head()
        stop.set()
        # The last blocks come without the fault: each reader goes on by itself.
        await net.anvil("anvil_mine", 3)
        await asyncio.gather(*following)
        await asyncio.gather(*(reader.read_up_to(head.number) for reader in readers))
    right = await net.chain.read_events(0, head.number)
    assert len(right) >= DEPOSITS - depth
    return [
        seed
        for seed, reader in enumerate(readers)
        if name_places([one for one in reader.events if one.block_number <= head.number])
        != name_places(right)
    ]


@pytest.mark.parametrize("share", [0.05, 0.3, 0.9])
@pytest.mark.parametrize("blocks", [1, 2])
async def test_provider_backends_that_are_behind_lose_no_event(
    net: TestChain, blocks: int, share: float
) -> None:
    assert await play(net, lag(blocks, share), depth=2) == []


async def test_provider_backends_that_refuse_a_range_beyond_their_head_end_no_node(net: TestChain) -> None:
    assert await play(net, lag(1, 0.3, refuses_ranges=True), depth=1) == []


BLOCK = "eth_getBlockByNumber"
ODD: dict[str, Fault] = {
    "logs are null": hide(["eth_getLogs"], 0.3),
    "blocks are null": hide([BLOCK], 0.3),
    "a hash is null": change(BLOCK, lambda block: block and {**block, "hash": None}, 0.3),
    "a base fee is null": change(BLOCK, lambda block: block and {**block, "baseFeePerGas": None}, 0.3),
    "a number is decimal": change(BLOCK, lambda block: block and {**block, "number": "7"}, 0.3),
    "logs are those of another block": change(
        "eth_getLogs", lambda logs: [{**log, "blockHash": "0x" + 64 * "7"} for log in logs], 0.3
    ),
    "logs come twice": change("eth_getLogs", lambda logs: logs + logs, 0.5),
    "logs lack a field": change(
        "eth_getLogs", lambda logs: [{k: v for k, v in log.items() if k != "logIndex"} for log in logs], 0.3
    ),
    "a proxy answers": refuse(HttpRefusal(200, "<html>Please log in</html>"), 0.3),
    "the gateway is down": refuse(HttpRefusal(502, "bad gateway"), 0.3),
    "batches are refused": refuse(HttpRefusal(400, "no batches"), 0.0),
    "extraData is long": change(BLOCK, lambda block: block and {**block, "extraData": "0x" + 97 * "ab"}),
}


@pytest.mark.parametrize("name", ODD)
async def test_provider_answers_of_another_form_count_as_none(net: TestChain, name: str) -> None:
    assert await play(net, ODD[name]) == []


ERRORS: dict[str, Refusal | HttpRefusal] = {
    "rate limit": Refusal("daily request count exceeded, request rate limited", -32005),
    "rate limit in words": Refusal("Too many requests, retry in 20ms", -32000),
    "compute units": Refusal("Your app has exceeded its compute units per second capacity", 429),
    "header not found": Refusal("header not found"),
    "missing trie node": Refusal("missing trie node 9f3 (path ) state 0x1 is not available"),
    "besu": Refusal("Block not found", -32000),
    "nethermind": Refusal("pruned history unavailable: block 17 could not be found", -32001),
    "internal": Refusal("Internal error", -32603),
    "status 429": HttpRefusal(429, "slow down", {"Retry-After": "0"}),
    "status 503": HttpRefusal(503, "", {"Retry-After": "0"}),
}


@pytest.mark.parametrize("name", ERRORS)
async def test_provider_errors_are_waited_out(
    net: TestChain, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What does not say how long it wants to be left alone is left alone for a second: here for less.
    monkeypatch.setattr("protocol.adapters.chain.rpc.FIRST_WAIT_S", 0.02)
    monkeypatch.setattr("protocol.adapters.chain.rpc.LONGEST_GUESS_S", 0.02)
    assert await play(net, refuse(ERRORS[name], 0.3)) == []


async def test_provider_is_left_alone_for_as_long_as_it_says(net: TestChain) -> None:
    refusal = HttpRefusal(429, "", {"Retry-After": "1"})
    async with run_provider(net.rpc_url, refuse(refusal, times=1)) as provider:
        connection = Connection(provider.url, POLL_S)
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        assert (await connection.head()).number >= 0
        assert loop.time() - began_s >= 1 and len(provider.asked) == 2
        await connection.close()


async def test_provider_without_batches_is_asked_one_by_one(net: TestChain) -> None:
    """Some answer a list with an error, some with a page."""
    for refusal in (HttpRefusal(400, "no"), HttpRefusal(405, ""), Refusal("batch requests are not allowed")):
        batches: list[Any] = []

        async def refuse_batches(request: Any, refusal: Any = refusal, seen: Any = batches) -> Any:
            raise refusal

        async with run_provider(net.rpc_url) as provider:
            connection = Connection(provider.url, POLL_S)
            usual = connection.providers.endpoints[0].ask_together

            async def ask_one(
                calls: Any, usual: Any = usual, provider: Any = provider, no: Any = refusal
            ) -> Any:
                provider.faults[:] = [refuse(no)] if len(calls) > 1 else []
                return await usual(calls)

            connection.providers.endpoints[0].ask_together = ask_one  # type: ignore[method-assign]
            await net.anvil("anvil_mine", 30)
            await net.chain.purse.deposit(STAKE_WEI)
            reader = Reader(connection, net)
            await reader.read_up_to((await net.chain.head()).number)
            assert name_places(reader.events) == name_places(await net.chain.read_events(0, reader.head))
            await connection.close()


async def test_provider_that_answers_nothing_is_replaced_by_another_endpoint(net: TestChain) -> None:
    async with run_provider(net.rpc_url, refuse(HttpRefusal(500, ""), 0.5)) as bad:
        connection = Connection([bad.url, "http://127.0.0.1:1", net.rpc_url], POLL_S)
        reader = Reader(connection, net)
        for _ in range(6):
            await net.chain.purse.deposit(STAKE_WEI)
            await reader.read_up_to((await net.chain.head()).number)
        assert len(reader.events) == 6
        await connection.close()


async def test_provider_that_is_stuck_or_tells_of_blocks_to_come_is_left_aside(net: TestChain) -> None:
    """Another endpoint has the blocks, whichever is asked first."""
    ahead = change(BLOCK, lambda block: block and {**block, "number": hex(int(block["number"], 16) + 2_000)})
    for fault in (lag(1_000, 1.0), ahead):
        async with run_provider(net.rpc_url, fault) as bad:
            for urls in ([bad.url, net.rpc_url], [net.rpc_url, bad.url]):
                connection = Connection(urls, POLL_S)
                reader = Reader(connection, net)
                for _ in range(3):
                    await net.chain.purse.deposit(STAKE_WEI)
                    await reader.read_up_to((await net.chain.head()).number)
                assert name_places(reader.events) == name_places(await net.chain.read_events(0, reader.head))
                await connection.close()
