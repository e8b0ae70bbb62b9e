"""Idle time is skipped only when everybody is idle, and never beyond what somebody waits for."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from eth_account import Account
from hypothesis import given
from hypothesis import strategies as st

from touchstone.node.kit.chain_state import ChainState
from touchstone.protocol.adapters.chain.abi import find_function, load_abi
from touchstone.protocol.adapters.chain.abi_values import encode_call
from touchstone.protocol.adapters.chain.chain_client import GameChain, Sending, open_game_chain
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.contract_events import Event
from touchstone.protocol.adapters.chain.creation import compute_game_code
from touchstone.protocol.adapters.chain.deployment import GAME_CONTRACTS, GameDeployment
from touchstone.protocol.adapters.chain.transactions import ResendPolicy, Sender
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.adapters.wire.json_answers import NodeStatus
from touchstone.protocol.adapters.wire.tls_contexts import make_server_context
from touchstone.protocol.adapters.wire.tls_identity import load_or_create_identity
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.scripts.network.devnet import CHAIN_ID, GRANT_COIN_WEI, give_coin, run_anvil
from touchstone.scripts.network.devnet_clock import FAR_BLOCKS, PAGE_BLOCKS, DevnetClock, compute_skip

HEAD = 100
POLL_S = 0.02
QUICK = ResendPolicy(resend_after_s=0.3, attempts=5)


def waits(block: int | None, processed: int = HEAD) -> NodeStatus:
    return NodeStatus("0xa", processed, block)


@pytest.mark.parametrize(
    ("peers", "skip"),
    [
        ([], 0),
        ([waits(110)], 9),
        ([waits(110), waits(105)], 4),
        ([waits(110), waits(101)], 0),
        ([waits(110), waits(100)], 0),
        ([waits(110), waits(0)], 0),
        ([waits(110), None], 0),
        ([waits(110), waits(110, processed=99)], 0),
        ([waits(110), waits(110, processed=101)], 0),
        ([waits(110), waits(None)], 9),
        ([waits(None)], 0),
        ([waits(10**12)], 0),
        ([waits(10**12), waits(110)], 9),
        ([waits(HEAD + FAR_BLOCKS)], FAR_BLOCKS - 1),
    ],
)
def test_the_decision(peers: list[NodeStatus | None], skip: int) -> None:
    assert compute_skip(HEAD, peers) == skip


@given(
    st.lists(st.builds(NodeStatus, st.just("0xa"), st.integers(98, 102), st.none() | st.integers(95, 120)))
)
def test_nobody_is_ever_skipped_over(peers: list[NodeStatus]) -> None:
    skip = compute_skip(HEAD, peers)
    assert skip >= 0
    if skip:
        assert all(peer.processed_block == HEAD for peer in peers)
        assert all(p.waiting_for_block is None or p.waiting_for_block > HEAD + skip for p in peers)


class Party:
    """A tiny node: it serves a status that the test writes, over TLS."""

    def __init__(self, folder: Path) -> None:
        self.key = AccountKey(Account.create())
        self.identity = load_or_create_identity(folder)
        self.status: dict[str, Any] = {
            "account": self.key.address.lower(),
            "processed_block": 0,
            "waiting_for_block": 0,
        }
        self._runner: web.AppRunner | None = None

    async def start(self) -> str:
        """Serve; return the URL."""
        application = web.Application()
        application.router.add_get("/status", self._answer)
        self._runner = web.AppRunner(application)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=make_server_context(self.identity))
        await site.start()
        return f"https://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _answer(self, _: web.Request) -> web.Response:
        return web.json_response(self.status)


@dataclass(frozen=True)
class Net:
    """A chain with a contract where parties announce themselves; no other is ever called here."""

    rpc_url: str
    chain: GameChain

    async def anvil(self, method: str, *params: Any) -> Any:
        return await self.chain.connection.request(method, *params)


@pytest.fixture
async def net(tmp_path: Path) -> AsyncIterator[Net]:
    async with run_anvil(0, tmp_path / "anvil.log") as rpc_url:
        connection, key = Connection(rpc_url, POLL_S), AccountKey(Account.create())
        await give_coin(connection, key.address, GRANT_COIN_WEI)
        where = dict.fromkeys((*GAME_CONTRACTS.values(), "token"), key.address.lower())
        sender = Sender(connection, key, CHAIN_ID, QUICK)
        receipt = await sender.send("", compute_game_code("Tasks", where, BOUNDS_LOCAL), "Tasks")
        where["Tasks"] = receipt.contract_address
        receipt = await sender.send("", compute_game_code("Game", where, BOUNDS_LOCAL), "Game")
        game = receipt.contract_address
        others = {name: f"0x{i:040x}" for i, name in enumerate(("token", *GAME_CONTRACTS), 0x1000)}
        for address in others.values():
            await connection.request("anvil_setCode", address, "0x00")
        deployment = GameDeployment(chain_id=CHAIN_ID, deploy_block=0, **{**others, "game": game})
        await connection.close()
        async with open_game_chain(rpc_url, deployment, key, poll_s=POLL_S, sending=Sending(QUICK)) as chain:
            yield Net(rpc_url, chain)


@pytest.fixture
async def parties(net: Net, tmp_path: Path) -> AsyncIterator[tuple[Party, Party]]:
    """Two parties that have announced themselves."""
    pair = Party(tmp_path / "a"), Party(tmp_path / "b")
    for party in pair:
        await announce(net, party, await party.start())
    yield pair
    for party in pair:
        await party.stop()


async def announce(net: Net, party: Party, url: str, fingerprint: bytes = b"") -> None:
    await give_coin(net.chain.connection, party.key.address, GRANT_COIN_WEI)
    deployment = net.chain.deployment
    async with open_game_chain(
        net.rpc_url, deployment, party.key, poll_s=POLL_S, sending=Sending(QUICK)
    ) as chain:
        await chain.game.announce(url, fingerprint or party.identity.fingerprint)


def give_seat(clock: DevnetClock, party: Party) -> None:
    """As if the clock had read that the party has joined a task."""
    values = {"task": bytes(32), "seat": 1, "account": party.key.address.lower()}
    clock._seated.take(Event("Seats", "SeatJoined", values, 1, 0, bytes(32), bytes(32)))


async def wait_for_pool(chain: GameChain, count: int = 1) -> None:
    """Until so many transactions wait for a block."""
    async with asyncio.timeout(60):
        while int((await chain.connection.request("txpool_status"))["pending"], 16) < count:
            await asyncio.sleep(POLL_S)


@pytest.fixture
async def clock(net: Net, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DevnetClock]:
    """A clock whose own blocks are out of the way: a slow test must not see one."""
    monkeypatch.setattr("touchstone.scripts.network.devnet_clock.BLOCK_S", 1e9)
    monkeypatch.setattr("touchstone.scripts.network.devnet_clock.BURST_S", 1e9)
    clock = DevnetClock(net.chain)
    async with clock:
        yield clock


async def set_all_waiting(chain: GameChain, parties: tuple[Party, ...], *blocks: int) -> int:
    head = (await chain.head()).number
    for party, block in zip(parties, blocks, strict=True):
        party.status |= {"processed_block": head, "waiting_for_block": head + block}
    return head


async def test_all_idle_skips_to_just_before_the_first_deadline(
    net: Net, parties: tuple[Party, Party], clock: DevnetClock
) -> None:
    head = await set_all_waiting(net.chain, parties, 50, 20)
    assert await clock.tick() == 19
    assert (await net.chain.head()).number == head + 19
    # Nobody has read the new head yet: no further skip.
    assert await clock.tick() == 0
    await set_all_waiting(net.chain, parties, 31, 1)
    assert await clock.tick() == 0
    await set_all_waiting(net.chain, parties, 31, 40)
    assert await clock.tick() == 30


async def test_a_busy_party_stops_the_skipping(
    net: Net, parties: tuple[Party, Party], clock: DevnetClock
) -> None:
    head = await set_all_waiting(net.chain, parties, 50, 0)
    assert await clock.tick() == 0
    parties[1].status["waiting_for_block"] = head + 50
    assert await clock.tick() == 49


@pytest.mark.parametrize("change", [{"processed_block": "7"}, {"waiting_for_block": 10**30}, {"more": 1}])
async def test_a_malformed_status_stops_the_skipping(
    net: Net, parties: tuple[Party, Party], clock: DevnetClock, change: dict[str, object]
) -> None:
    await set_all_waiting(net.chain, parties, 50, 50)
    give_seat(clock, parties[1])
    parties[1].status |= change
    assert await clock.tick() == 0


async def test_another_certificate_or_account_counts_as_down(
    net: Net, parties: tuple[Party, Party], clock: DevnetClock
) -> None:
    await set_all_waiting(net.chain, parties, 50, 50)
    give_seat(clock, parties[0])
    parties[0].status["account"] = parties[1].key.address.lower()
    assert await clock.tick() == 0
    parties[0].status["account"] = parties[0].key.address.lower()
    url = f"https://127.0.0.1:{parties[1]._runner.addresses[0][1]}"  # type: ignore[union-attr]
    await announce(net, parties[0], url)
    await set_all_waiting(net.chain, parties, 50, 50)
    assert await clock.tick() == 0


async def test_who_has_just_sent_something_is_not_skipped_over(
    net: Net, parties: tuple[Party, Party], clock: DevnetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await net.anvil("evm_setAutomine", False)
    await set_all_waiting(net.chain, parties, 50, 50)
    sending = asyncio.create_task(net.chain.game.announce("https://127.0.0.1:1", b"\1" * 32))
    await wait_for_pool(net.chain)
    assert await clock.tick() == 0
    # A short while later the transaction gets its block.
    monkeypatch.setattr("touchstone.scripts.network.devnet_clock.BURST_S", 0.0)
    assert await clock.tick() == 1
    await sending
    assert await clock.tick() == 0


async def test_a_jump_ends_where_somebody_sends_something(
    net: Net, parties: tuple[Party, Party], clock: DevnetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = iter((0, 0, 1))  # Before the jump, after its first page, after its second.

    async def count_waiting() -> int:
        return next(waiting)

    monkeypatch.setattr(clock, "_count_waiting", count_waiting)
    head = await set_all_waiting(net.chain, parties, 4 * PAGE_BLOCKS, 4 * PAGE_BLOCKS)
    assert await clock.tick() == 2 * PAGE_BLOCKS
    assert (await net.chain.head()).number == head + 2 * PAGE_BLOCKS


async def test_nothing_is_skipped_before_all_are_there(net: Net, parties: tuple[Party, Party]) -> None:
    await set_all_waiting(net.chain, parties, 50, 50)
    async with DevnetClock(net.chain, least_parties=3) as clock:
        assert await clock.tick() == 0
    async with DevnetClock(net.chain, least_parties=2) as clock:
        assert await clock.tick() == 49


async def test_without_parties_real_time_goes_on(net: Net, clock: DevnetClock) -> None:
    assert await clock.tick() == 0


async def test_an_unreachable_announcement_is_left_out(
    net: Net, parties: tuple[Party, Party], clock: DevnetClock
) -> None:
    await announce(net, parties[1], "ftp://nowhere")
    await set_all_waiting(net.chain, parties, 50, 0)
    assert await clock.tick() == 49


async def test_an_announcement_that_is_no_text_stops_nobody(
    net: Net, parties: tuple[Party, Party], clock: DevnetClock
) -> None:
    key, tasks = AccountKey(Account.create()), net.chain.deployment.game
    await give_coin(net.chain.connection, key.address, GRANT_COIN_WEI)
    sender = Sender(net.chain.connection, key, CHAIN_ID, QUICK)
    announce = encode_call(find_function(load_abi("ITasks"), "announce"), ["https://" + "~" * 9, bytes(32)])
    await sender.send(tasks, announce.replace(b"~", b"\xff"), "Game.announce")
    await set_all_waiting(net.chain, parties, 50, 20)
    assert await clock.tick() == 19
    state = ChainState("", BOUNDS_LOCAL, net.chain.signing)
    state.take(await anext(net.chain.follow()))
    assert set(state.network.peers) == {party.key.address.lower() for party in parties}


async def test_a_block_comes_in_time_whoever_is_busy(
    net: Net, parties: tuple[Party, Party], clock: DevnetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = await set_all_waiting(net.chain, parties, 50, 0)
    assert await clock.tick() == 0
    monkeypatch.setattr("touchstone.scripts.network.devnet_clock.BLOCK_S", 0.0)
    assert await clock.tick() == 1
    assert (await net.chain.head()).number == head + 1


async def test_a_running_clock_makes_the_blocks_alone(
    net: Net, clock: DevnetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("touchstone.scripts.network.devnet_clock.BLOCK_S", 0.1)
    running = asyncio.create_task(clock.run())
    await net.chain.wait_for_block((await net.chain.head()).number + 3)
    receipt = await net.chain.game.announce("https://127.0.0.1:1", b"\1" * 32)
    running.cancel()
    assert receipt.find("Announced").block_number == receipt.block_number
    assert await net.anvil("anvil_getAutomine") is False


# Parties that are gone
async def test_a_party_that_is_gone_and_has_no_seat_is_not_waited_for(
    net: Net, parties: tuple[Party, Party], clock: DevnetClock
) -> None:
    await set_all_waiting(net.chain, parties, 50, 20)
    await parties[1].stop()
    assert await clock.tick() == 49
    # With a seat it has something to lose: its blocks come in real time.
    give_seat(clock, parties[1])
    await set_all_waiting(net.chain, parties, 50, 20)
    assert await clock.tick() == 0
