"""What a node reads behind a provider that misbehaves: no event is lost or folded twice, and it goes on by
itself.

Before, such a node lost events for ever, without a word, in 20 of 20 tries of the first play.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

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
from tests.faults.test_provider_sends import count, open_account
from tests.protocol.adapters.anvil import POLL_S, STAKE_WEI, TestChain, run_test_chain
from touchstone.protocol.adapters.chain.connection import Connection, check_deployment
from touchstone.protocol.adapters.chain.contract_events import Event, EventReader
from touchstone.protocol.adapters.chain.follower import Follower
from touchstone.protocol.adapters.chain.gate import STUCK_BLOCKS, Gate
from touchstone.protocol.adapters.chain.rpc import Endpoint

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
        await net.chain.vault.deposit((number + 1) * STAKE_WEI)
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
    "a log is cut short": change(
        "eth_getLogs", lambda logs: [{**log, "data": log["data"][:34]} for log in logs], 0.3
    ),
    "logs lack a field": change(
        "eth_getLogs", lambda logs: [{k: v for k, v in log.items() if k != "logIndex"} for log in logs], 0.3
    ),
    "a proxy answers": refuse(HttpRefusal(200, "<html>Please log in</html>"), 0.3),
    "the time to wait is no number": refuse(HttpRefusal(503, "", {"Retry-After": "2\u00b2"}), 0.3),
    "a redirect to no host": refuse(HttpRefusal(302, "", {"Location": "http://a..b/"}), 0.3),
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
    monkeypatch.setattr("touchstone.protocol.adapters.chain.rpc.FIRST_WAIT_S", 0.02)
    monkeypatch.setattr("touchstone.protocol.adapters.chain.rpc.LONGEST_GUESS_S", 0.02)
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
            await net.chain.vault.deposit(STAKE_WEI)
            reader = Reader(connection, net)
            await reader.read_up_to((await net.chain.head()).number)
            assert name_places(reader.events) == name_places(await net.chain.read_events(0, reader.head))
            await connection.close()


async def test_provider_that_answers_nothing_is_replaced_by_another_endpoint(net: TestChain) -> None:
    async with run_provider(net.rpc_url, refuse(HttpRefusal(500, ""), 0.5)) as bad:
        connection = Connection([bad.url, "http://127.0.0.1:1", net.rpc_url], POLL_S)
        reader = Reader(connection, net)
        for _ in range(6):
            await net.chain.vault.deposit(STAKE_WEI)
            await reader.read_up_to((await net.chain.head()).number)
        assert len(reader.events) == 6
        await connection.close()


async def test_provider_that_is_stuck_or_tells_of_blocks_to_come_is_left_aside(net: TestChain) -> None:
    """Another endpoint has the blocks, whichever is asked first. A chain of few blocks has none that is
    stuck."""
    await net.anvil("anvil_mine", 2 * STUCK_BLOCKS)
    ahead = change(BLOCK, lambda block: block and {**block, "number": hex(int(block["number"], 16) + 2_000)})
    for fault in (lag(1_000, 1.0), ahead):
        async with run_provider(net.rpc_url, fault) as bad:
            for urls in ([bad.url, net.rpc_url], [net.rpc_url, bad.url]):
                connection = Connection(urls, POLL_S)
                reader = Reader(connection, net)
                for _ in range(3):
                    await net.chain.vault.deposit(STAKE_WEI)
                    await reader.read_up_to((await net.chain.head()).number)
                assert name_places(reader.events) == name_places(await net.chain.read_events(0, reader.head))
                await connection.close()


# Several endpoints
@asynccontextmanager
async def open_both(net: TestChain, fault: Fault) -> AsyncIterator[Connection]:
    """An endpoint that misbehaves is named first, and one that is right."""
    async with run_provider(net.rpc_url, fault) as bad:
        connection = Connection([bad.url, net.rpc_url], POLL_S)
        try:
            yield connection
        finally:
            await connection.close()


async def read_all(net: TestChain, connection: Connection) -> list[int]:
    """The blocks of the deposits that are read up to the head."""
    reader = Reader(connection, net)
    async with asyncio.timeout(20.0):
        await reader.read_up_to((await net.chain.head()).number)
    return [event.block_number for event in reader.events if event.name == "Deposited"]


def name_hash(number: int) -> str:
    return "0x" + f"{number:x}".rjust(64, "f")


def make_up(real: dict[str, Any], deposit: dict[str, Any], ahead: int) -> Fault:
    """So many linked blocks above a real one, with a deposit in each near one."""
    fork = int(real["number"], 16)

    async def answer(request: Request) -> Any:
        method, params = request.method, request.params
        if method == BLOCK:
            number = fork + ahead if params[0] == "latest" else int(params[0], 16)
            if fork < number <= fork + ahead:
                parent = real["hash"] if number == fork + 1 else name_hash(number - 1)
                return {**real, "number": hex(number), "hash": name_hash(number), "parentHash": parent}
        if method == "eth_getLogs" and params[0].get("blockHash", "").startswith("0xffff"):
            number = int(params[0]["blockHash"].removeprefix("0x").lstrip("f"), 16)
            return [{**deposit, "blockHash": params[0]["blockHash"], "blockNumber": hex(number)}]
        return [] if method == "eth_getLogs" and "fromBlock" in params[0] else PASS

    return answer


@pytest.mark.parametrize("ahead", [5, 1 << 40])
async def test_blocks_that_one_of_two_endpoints_makes_up_are_not_folded(net: TestChain, ahead: int) -> None:
    """The lower head counts: what only one of them has, nobody folds. The gate is open meanwhile."""
    await net.chain.vault.deposit(STAKE_WEI)
    real = await net.chain.connection.request(BLOCK, "latest", False)
    chosen = {"address": net.chain.vault.address, "blockHash": real["hash"]}
    [deposit] = await net.chain.connection.request("eth_getLogs", chosen)
    async with open_both(net, make_up(real, deposit, ahead)) as connection:
        reader, gate = Reader(connection, net), Gate(connection)
        gate.folded = head = await net.chain.head()
        await reader.read_up_to(head.number)
        await gate.pass_through()
        for _ in range(3 if ahead > STUCK_BLOCKS else 0):
            # The chain rests meanwhile: a far head is looked at, until the other one tells of something new.
            reading = asyncio.ensure_future(reader.read_up_to(reader.head + 1))
            await asyncio.sleep(0.3)
            await net.chain.vault.deposit(STAKE_WEI)
            async with asyncio.timeout(20.0):
                await reading
        assert reader.head == (await net.chain.head()).number
    assert all(event.block_hash[:2] != b"\xff\xff" for event in reader.events)


@pytest.mark.parametrize("depth", [0, 100])
async def test_logs_that_one_of_two_endpoints_leaves_out_are_waited_for(net: TestChain, depth: int) -> None:
    """Near the head and deep below it. Nobody can tell which one is right: both are named to the operator."""
    await net.chain.vault.deposit(STAKE_WEI)
    await net.anvil("anvil_mine", depth)
    async with run_provider(net.rpc_url, change("eth_getLogs", lambda found: [])) as bad:
        connection = Connection([bad.url, net.rpc_url], POLL_S)
        batches = Reader(connection, net)._batches
        reading = asyncio.ensure_future(anext(batches))
        while not connection.health.unread:
            await asyncio.sleep(0.01)
        assert not reading.done()
        assert all(name.rstrip("/") in connection.health.unread for name in (bad.url, net.rpc_url))
        bad.faults.clear()
        async with asyncio.timeout(20.0):
            batch = await reading
        assert [event.name for event in batch.events] == ["Deposited"] and not connection.health.unread
        await connection.close()


async def test_logs_beyond_the_range_that_was_asked_for_are_folded_once(net: TestChain) -> None:
    """A gateway that splits ranges at bounds of its own cache answers with more than was asked for."""
    await net.chain.vault.deposit(STAKE_WEI)
    await net.anvil("anvil_mine", 70)
    await net.chain.vault.deposit(STAKE_WEI)

    async def widen(request: Request) -> Any:
        if request.method == "eth_getLogs" and "toBlock" in request.params[0]:
            return await request.ask(request.method, [{**request.params[0], "toBlock": "latest"}])
        return PASS

    async with open_both(net, widen) as connection:
        found = await read_all(net, connection)
    assert len(found) == len(set(found)) == 2


ONE_ODD: dict[str, Fault] = {
    "numbers are lists": change("eth_getLogs", lambda found: {"id": []}),
    "logs are cut short": change("eth_getLogs", lambda logs: [{**log, "data": "0x"} for log in logs]),
    "its key is wrong": refuse(Refusal("Must be authenticated!")),
    "its account is disabled": refuse(Refusal("account disabled")),
    "its plan has no logs": refuse(Refusal("eth_getLogs: upgrade your plan"), 1.0, ["eth_getLogs"]),
    "it says that blocks revert": refuse(Refusal("reverted", 3, "0x01"), 1.0, [BLOCK, "eth_getLogs"]),
    "it redirects to no host": refuse(HttpRefusal(302, "", {"Location": f"http://{70 * 'a'}.com/"})),
    "it is busy for an hour": refuse(HttpRefusal(429, "", {"Retry-After": "3600"})),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE_ODD)
async def test_one_of_two_endpoints_is_enough_to_read(net: TestChain, name: str) -> None:
    await net.chain.vault.deposit(STAKE_WEI)
    async with open_both(net, ONE_ODD[name]) as connection:
        await check_deployment(connection, net.chain.deployment)
        assert len(await read_all(net, connection)) == 1


async def test_a_call_is_sent_where_one_of_two_endpoints_refuses_all(net: TestChain) -> None:
    async with run_provider(net.rpc_url) as bad, open_account(net, bad.url) as chain:
        chain.connection.providers.endpoints.append(Endpoint(net.rpc_url, 5.0))
        bad.faults.append(refuse(Refusal("Must be authenticated!")))
        await chain.vault.deposit(STAKE_WEI)
        assert await count(net, chain) == (2, 1)


@pytest.mark.parametrize("status", [404, 413])
async def test_a_gateway_that_refuses_several_requests_once_is_asked_so_again(
    net: TestChain, status: int
) -> None:
    """Else calls come from states before the folded block, for as long as the process runs."""
    async with run_provider(net.rpc_url) as provider, open_account(net, provider.url) as chain:
        await net.anvil("anvil_mine", 3)
        chain.connection.floor = (await chain.head()).number
        provider.faults.append(refuse(HttpRefusal(status), times=1))
        await chain.vault.credit_of(chain.address)
        assert not chain.connection.providers.lacks
        await chain.vault.deposit(STAKE_WEI)
        provider.faults.append(lag(1, 0.5))
        credits = {await chain.vault.credit_of(chain.address) for _ in range(12)}
    assert credits == {STAKE_WEI}
