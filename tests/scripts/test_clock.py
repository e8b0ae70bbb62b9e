"""Idle time is skipped only when everybody is idle, and never beyond what somebody waits for."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from eth_account import Account
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from node.submit import create_task
from protocol.actions.party import Party as Submitter
from protocol.actions.party import open_party
from protocol.actions.view import View
from protocol.adapters.chain.abi import find_function, load_abi
from protocol.adapters.chain.client import Chain, open_chain
from protocol.adapters.chain.transactions import Sender
from protocol.adapters.chain.values import encode_call
from protocol.adapters.keys import AccountKey
from protocol.adapters.wire.answers import NodeStatus
from protocol.adapters.wire.tls import load_or_create_identity, make_server_context
from scripts.clock import (
    FAR_BLOCKS,
    NEVER,
    PAGE_BLOCKS,
    DevnetClock,
    compute_skip,
)
from scripts.creation import compute_creation_code
from scripts.devnet import CHAIN_ID, GRANT_COIN_WEI, give_coin
from tests.e2e.test_twin import DISPUTES, HONEST, ROUNDS
from tests.e2e.twin import prepare
from tests.e2e.twin_chain import Sending, open_twin_chain
from tests.e2e.twin_dispute import DisputeTwin
from tests.e2e.world import ONE_ROUND_PLAN, WINDOWS, make_dataset, open_world
from tests.protocol.adapters.anvil import POLL_S, QUICK, STAKE_WEI, TestChain, run_test_chain

HEAD = 100


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


@pytest.fixture
async def net(tmp_path: Path) -> AsyncIterator[TestChain]:
    """A chain with a registry; its ledger is never called here."""
    async with run_test_chain(tmp_path) as net:
        vault = net.chain.deployment.vault
        sender = Sender(net.chain.connection, net.account, CHAIN_ID, QUICK)
        receipt = await sender.send("", compute_creation_code("TaskRegistry", [vault] * 3), "TaskRegistry")
        deployment = structs.replace(net.chain.deployment, registry=str(receipt["contractAddress"]).lower())
        async with open_chain(net.rpc_url, deployment, net.account, poll_s=POLL_S, patience=QUICK) as chain:
            yield replace(net, chain=chain)


@pytest.fixture
async def parties(net: TestChain, tmp_path: Path) -> AsyncIterator[tuple[Party, Party]]:
    """Two parties that have announced themselves."""
    pair = Party(tmp_path / "a"), Party(tmp_path / "b")
    for party in pair:
        await announce(net, party, await party.start())
    yield pair
    for party in pair:
        await party.stop()


async def announce(net: TestChain, party: Party, url: str, fingerprint: bytes = b"") -> None:
    await give_coin(net.chain.connection, party.key.address, GRANT_COIN_WEI)
    deployment = net.chain.deployment
    async with open_chain(net.rpc_url, deployment, party.key, poll_s=POLL_S, patience=QUICK) as chain:
        await chain.registry.announce(url, fingerprint or party.identity.fingerprint)


async def wait_for_pool(chain: Chain, count: int = 1) -> None:
    """Until so many transactions wait for a block."""
    async with asyncio.timeout(60):
        while int((await chain.connection.request("txpool_status"))["pending"], 16) < count:
            await asyncio.sleep(POLL_S)


@pytest.fixture
async def clock(net: TestChain, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DevnetClock]:
    """A clock whose own blocks are out of the way: a slow test must not see one."""
    monkeypatch.setattr("scripts.clock.BLOCK_S", 1e9)
    monkeypatch.setattr("scripts.clock.BURST_S", 1e9)
    clock = DevnetClock(net.chain)
    async with clock:
        yield clock


async def set_all_waiting(chain: Chain, parties: tuple[Party, ...], *blocks: int) -> int:
    head = (await chain.head()).number
    for party, block in zip(parties, blocks, strict=True):
        party.status |= {"processed_block": head, "waiting_for_block": head + block}
    return head


async def test_all_idle_skips_to_just_before_the_first_deadline(
    net: TestChain, parties: tuple[Party, Party], clock: DevnetClock
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
    net: TestChain, parties: tuple[Party, Party], clock: DevnetClock
) -> None:
    head = await set_all_waiting(net.chain, parties, 50, 0)
    assert await clock.tick() == 0
    parties[1].status["waiting_for_block"] = head + 50
    assert await clock.tick() == 49


async def test_a_party_that_is_down_stops_the_skipping(
    net: TestChain, parties: tuple[Party, Party], clock: DevnetClock
) -> None:
    await set_all_waiting(net.chain, parties, 50, 50)
    await parties[1].stop()
    assert await clock.tick() == 0


@pytest.mark.parametrize("change", [{"processed_block": "7"}, {"waiting_for_block": 10**30}, {"more": 1}])
async def test_a_malformed_status_stops_the_skipping(
    net: TestChain, parties: tuple[Party, Party], clock: DevnetClock, change: dict[str, object]
) -> None:
    await set_all_waiting(net.chain, parties, 50, 50)
    parties[1].status |= change
    assert await clock.tick() == 0


async def test_another_certificate_or_account_counts_as_down(
    net: TestChain, parties: tuple[Party, Party], clock: DevnetClock
) -> None:
    await set_all_waiting(net.chain, parties, 50, 50)
    parties[0].status["account"] = parties[1].key.address.lower()
    assert await clock.tick() == 0
    parties[0].status["account"] = parties[0].key.address.lower()
    url = f"https://127.0.0.1:{parties[1]._runner.addresses[0][1]}"  # type: ignore[union-attr]
    await announce(net, parties[0], url)
    await set_all_waiting(net.chain, parties, 50, 50)
    assert await clock.tick() == 0


async def test_who_has_just_sent_something_is_not_skipped_over(
    net: TestChain, parties: tuple[Party, Party], clock: DevnetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await net.anvil("evm_setAutomine", False)
    await set_all_waiting(net.chain, parties, 50, 50)
    sending = asyncio.create_task(net.chain.vault.deposit(STAKE_WEI))
    await wait_for_pool(net.chain)
    assert await clock.tick() == 0
    # A short while later the transaction gets its block.
    monkeypatch.setattr("scripts.clock.BURST_S", 0.0)
    assert await clock.tick() == 1
    await sending
    assert await clock.tick() == 0


async def test_a_jump_ends_where_somebody_sends_something(
    net: TestChain, parties: tuple[Party, Party], clock: DevnetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = iter((0, 0, 1))  # Before the jump, after its first page, after its second.

    async def count_waiting() -> int:
        return next(waiting)

    monkeypatch.setattr(clock, "_count_waiting", count_waiting)
    head = await set_all_waiting(net.chain, parties, 4 * PAGE_BLOCKS, 4 * PAGE_BLOCKS)
    assert await clock.tick() == 2 * PAGE_BLOCKS
    assert (await net.chain.head()).number == head + 2 * PAGE_BLOCKS


async def test_nothing_is_skipped_before_all_are_there(net: TestChain, parties: tuple[Party, Party]) -> None:
    await set_all_waiting(net.chain, parties, 50, 50)
    async with DevnetClock(net.chain, least_parties=3) as clock:
        assert await clock.tick() == 0
    async with DevnetClock(net.chain, least_parties=2) as clock:
        assert await clock.tick() == 49


async def test_without_parties_real_time_goes_on(net: TestChain, clock: DevnetClock) -> None:
    assert await clock.tick() == 0


async def test_an_unreachable_announcement_is_left_out(
    net: TestChain, parties: tuple[Party, Party], clock: DevnetClock
) -> None:
    await announce(net, parties[1], "ftp://nowhere")
    await set_all_waiting(net.chain, parties, 50, 0)
    assert await clock.tick() == 49


async def test_an_announcement_that_is_no_text_stops_nobody(
    net: TestChain, parties: tuple[Party, Party], clock: DevnetClock
) -> None:
    registry = net.chain.deployment.registry
    sender = Sender(net.chain.connection, net.account, CHAIN_ID, QUICK)
    announce = encode_call(
        find_function(load_abi("ITaskRegistry"), "announce"), ["https://" + "~" * 9, bytes(32)]
    )
    await sender.send(registry, announce.replace(b"~", b"\xff"), "TaskRegistry.announce")
    await set_all_waiting(net.chain, parties, 50, 20)
    assert await clock.tick() == 19
    view = View("", CHAIN_ID, registry)
    view.take(await anext(net.chain.follow()))
    assert set(view.network.peers) == {party.key.address.lower() for party in parties}


async def test_a_block_comes_in_time_whoever_is_busy(
    net: TestChain, parties: tuple[Party, Party], clock: DevnetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = await set_all_waiting(net.chain, parties, 50, 0)
    assert await clock.tick() == 0
    monkeypatch.setattr("scripts.clock.BLOCK_S", 0.0)
    assert await clock.tick() == 1
    assert (await net.chain.head()).number == head + 1


async def test_a_running_clock_makes_the_blocks_alone(
    net: TestChain, clock: DevnetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scripts.clock.BLOCK_S", 0.1)
    running = asyncio.create_task(clock.run())
    await net.chain.wait_for_block((await net.chain.head()).number + 3)
    receipt = await net.chain.vault.deposit(STAKE_WEI)
    running.cancel()
    assert receipt.find("Deposited").block_number == receipt.block_number
    assert await net.anvil("anvil_getAutomine") is False


# --- Announced stake ----------------------------------------------------------------------------------------
async def announce_unstaking(net: TestChain, amount_wei: int = STAKE_WEI) -> int:
    """Some stake that is to leave; returns the block from which it can."""
    await net.chain.vault.deposit(amount_wei)
    receipt = await net.chain.vault.request_unbond(amount_wei)
    ready_block: int = receipt.find("UnbondingStarted").arguments["ready_block"]
    return ready_block


async def test_without_tasks_announced_stake_does_not_wait(net: TestChain, clock: DevnetClock) -> None:
    ready_block = await announce_unstaking(net)
    head = (await net.chain.head()).number
    assert await clock.tick() == ready_block - head > PAGE_BLOCKS
    assert (await net.chain.head()).number == ready_block
    assert (await net.chain.vault.withdraw()).find("Withdrawn").arguments["amount_wei"] == STAKE_WEI
    assert await clock.tick() == 0


async def test_of_one_accounts_announcements_the_last_counts(net: TestChain, clock: DevnetClock) -> None:
    await announce_unstaking(net)
    await net.anvil("anvil_mine", 30)
    ready_block = await announce_unstaking(net)
    await clock.tick()
    assert (await net.chain.head()).number == ready_block


async def test_in_real_time_announced_stake_waits(net: TestChain, clock: DevnetClock) -> None:
    await announce_unstaking(net)
    async with DevnetClock(net.chain, least_parties=NEVER) as always:
        assert await always.tick() == 0


async def test_parties_that_are_down_do_not_hold_announced_stake(
    net: TestChain, parties: tuple[Party, Party], clock: DevnetClock
) -> None:
    await parties[1].stop()
    ready_block = await announce_unstaking(net)
    await clock.tick()
    assert (await net.chain.head()).number == ready_block


async def test_the_way_to_announced_stake_ends_where_somebody_sends_something(
    net: TestChain, clock: DevnetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = iter((0, 1))  # Before the first page, after it.

    async def count_waiting() -> int:
        return next(waiting)

    monkeypatch.setattr(clock, "_count_waiting", count_waiting)
    await announce_unstaking(net)
    assert await clock.tick() == PAGE_BLOCKS


@pytest.fixture
async def submitter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Submitter]:
    """Who may post tasks, on all contracts, has announced some stake, and no block comes by itself."""
    monkeypatch.setattr("scripts.clock.BLOCK_S", 1e9)
    monkeypatch.setattr("scripts.clock.BURST_S", 1e9)
    async with open_world(tmp_path, []) as world, open_party(world.configure("submitter")) as submitter:
        await submitter.chain.token.approve(submitter.chain.deployment.vault, 2 * STAKE_WEI)
        await submitter.chain.vault.deposit(STAKE_WEI)
        await submitter.chain.vault.request_unbond(STAKE_WEI)
        yield submitter


async def test_an_open_task_holds_announced_stake_until_it_is_closed(submitter: Submitter) -> None:
    chain = submitter.chain
    task = await create_task(submitter, ONE_ROUND_PLAN, make_dataset(), bytes(32))
    async with DevnetClock(chain) as clock:
        assert await clock.tick() == 0
        # Nobody enrols, so the round ends empty and the task can be closed.
        await chain.connection.request("anvil_mine", WINDOWS.enrol + WINDOWS.seal)
        assert await clock.tick() == 0
        await chain.registry.close_task(task)
        await clock.tick()
        ready_block = (await chain.vault.unbonding_of(chain.address)).ready_block
        assert (await chain.head()).number == ready_block


async def test_the_way_to_announced_stake_ends_where_a_task_is_posted(
    submitter: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = submitter.chain
    async with DevnetClock(chain) as clock:
        assert await clock.tick() > PAGE_BLOCKS
        await chain.vault.deposit(STAKE_WEI)
        await chain.vault.request_unbond(STAKE_WEI)
        await chain.connection.request("evm_setAutomine", False)
        posting = asyncio.create_task(create_task(submitter, ONE_ROUND_PLAN, make_dataset(), bytes(32)))
        await wait_for_pool(chain)
        await chain.connection.request("anvil_mine", 1)  # The approval of the escrow.
        await wait_for_pool(chain)

        async def count_none() -> int:
            return 0

        # As if the node told of the task's transaction only once it is in a block.
        monkeypatch.setattr(clock, "_count_waiting", count_none)
        assert await clock.tick() == PAGE_BLOCKS
        assert await clock.tick() == 0
        await posting


def test_a_dispute_on_a_closed_task_holds_announced_stake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task closes at its expiry, whatever is open. Who is disputed then still loses stake by silence."""
    monkeypatch.setattr("scripts.clock.BLOCK_S", 1e9)
    monkeypatch.setattr("scripts.clock.BURST_S", 1e9)
    with open_twin_chain(tmp_path) as chain:
        prepare(chain)
        twin = DisputeTwin(chain, ROUNDS[HONEST], DISPUTES["second dispute waits its turn"])
        opened = [int(step["block"]) for step in twin.script["steps"] if step["call"] == "openDispute"]
        for block in range(max(opened) + 1):
            steps = [step for step in twin.script["steps"] if step["block"] == block]
            twin.play_block(twin.base_block + block, steps)
        task, opener = twin.round.state.task, twin.opener_of("a")
        chain.mine_to(int(chain.read("TaskRegistry", "expiryBlock", task)))
        ends = [
            Sending(opener, "TaskRegistry", "closeTask", (task,)),
            Sending(opener, "StakeVault", "requestUnbond", (1,)),
        ]
        assert not any(one.error for one in chain.mine(ends))

        async def tick() -> int:
            async with (
                open_chain(chain.rpc_url, chain.deployment) as connected,
                DevnetClock(connected) as clock,
            ):
                return await clock.tick()

        # The claimant owes step roots in the first dispute, and after it in the second.
        assert asyncio.run(tick()) == 0
        silence = [Sending(opener, "DisputeGame", "timeout", (twin.id_of(name),)) for name in ("a", "b")]
        assert not any(one.error for one in chain.mine(silence))
        assert asyncio.run(tick()) > 0
