"""To whom a node shows the steps of its segments: each question costs it the training of a segment."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.kit.nodes import SIGNING, TASK, change_tools, make_view, open_joined
from tests.node.merging.stage import make_world
from tests.node.upkeep.test_pruning import draw_late, jump, open_solver
from touchstone.node.defending import defence, step_requests
from touchstone.node.defending.defence import ForgetSteps
from touchstone.node.defending.step_requests import StepsAsked, is_auditor
from touchstone.node.kit.chain_state import ChainState
from touchstone.node.kit.duty import Room
from touchstone.node.kit.view import View
from touchstone.node.loop.node_loop import Loop
from touchstone.node.records.wanted_steps import MAX_WANTED
from touchstone.protocol.adapters.chain.contract_events import Event
from touchstone.protocol.adapters.messages import encode_message
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.drawn_audits import get_drawn
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.inner_dispute import DisputeStage, InnerBook, InnerDispute
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.scripts.roles.role_nodes import Member
from touchstone.whistleblower.claimant_waiting import BlocksLeft, start_waiting, wait_for

OTHER = b"o" * 32
MEMBER, STRANGER, OPENER = ("0x" + digit * 40 for digit in "123")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Member]:
    """One with a dispute, two members of its task, and a stranger that has a seat in another one."""
    with open_joined(tmp_path, make_world().state, account="0x" + "9" * 40) as node:
        for task, account in ((TASK, MEMBER), (OTHER, STRANGER)):
            words = {"task": task, "seat": 1 << 16, "account": account, "stake_wei": 1}
            node.state._seated.take(Event("Seats", "SeatJoined", words, 1, 0, b"", b""))
        opened = InnerDispute(b"n" * 32, 1 << 16, StatementRef(0, 0), 0, OPENER, 100)
        node.state.inner[TASK] = InnerBook(10, {opened.name: opened})
        yield node


@pytest.mark.parametrize(("account", "is_noted"), [(MEMBER, True), (STRANGER, False), (OPENER, True)])
async def test_a_cheap_seat_elsewhere_has_nothing_computed(
    node: Member, account: str, is_noted: bool
) -> None:
    """Anybody posts a task with the least stakes and takes a thousand seats in it."""
    with pytest.raises(EnvironmentFault, match="not shown now"):
        await node.rooms.step_answers.answer_steps(account, encode_message(StepsAsked(TASK, 0, 0, 1)))
    assert node.state.is_staked(account) == (account != OPENER)
    assert bool(node.rooms.tools.cases.step_requests.wanted) == is_noted


async def test_a_question_wakes_the_loop_only_where_it_is_noted_and_once_a_block(
    node: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each notice all duties are listed, in the thread that serves."""
    changed, drawn = list[str](), "0x" + "4" * 40
    monkeypatch.setattr(step_requests, "is_auditor", lambda _, account, asked: account == drawn)
    for member in (drawn, *(f"0x{number:040x}" for number in range(MAX_WANTED + 1))):
        node.state._seated._members[member, TASK] += 1

    async def ask(account: str, segment: int, times: int = 3) -> list[str]:
        changed.clear()
        change_tools(node, notify_loop=lambda: changed.append(account))
        for _ in range(times):
            with pytest.raises(EnvironmentFault, match="not shown now"):
                await node.rooms.step_answers.answer_steps(
                    account, encode_message(StepsAsked(TASK, 0, 0, segment))
                )
        return changed

    assert await ask(MEMBER, 1) == [MEMBER], "asked again, it waits already"
    assert not await ask(MEMBER, 2), "it has one request that waits"
    assert await ask(drawn, 1) == [drawn], "an auditor's goes before"
    node.rooms.tools.cases.step_requests.drop((TASK, 0, 1))
    assert not await ask(MEMBER, 1) and not await ask(drawn, 1), "again in the same block"
    node.state.head_block += 1
    node.rooms.tools.cases.step_requests.drop((TASK, 0, 1))
    assert await ask(MEMBER, 1) == [MEMBER] and await ask(drawn, 1) == [drawn], "in the next one"
    for number in range(MAX_WANTED):
        await ask(f"0x{number:040x}", 2 + number)
    assert not await ask(f"0x{MAX_WANTED:040x}", 99), "so many wait that it is not noted"


@pytest.mark.parametrize("phase", [RoundPhase.POSTED, RoundPhase.UNDONE])
async def test_an_auditor_has_steps_beside_the_own_claim_though_a_member_asked_before(
    tmp_path: Path, phase: RoundPhase
) -> None:
    """Also in a round that is undone: what it finds there it disputes as well."""
    async with open_solver(tmp_path, is_pruned=False) as (stage, node):
        windows, slot = node.game.terms.windows, stage.get_slot(1)
        draw_late(stage)
        drawn = get_drawn(node.game, 0, slot, node.game.terms.draws, 0)
        stage.world.state = replace(
            node.game, rounds={**node.game.rounds, 0: replace(node.game.rounds[0], phase=phase)}
        )
        jump(stage, stage.world.block + 2 * windows.audit_max + 1)
        assert drawn is not None
        asked = StepsAsked(TASK, 0, slot, drawn.segment)
        assert is_auditor(node.get_view(), drawn.seat.account, asked)
        accounts = [seat.account for seat in node.game.seats.values()]
        member = next(one for one in accounts if not is_auditor(node.get_view(), one, asked))
        rooms = [Room(defence.list_duties, node.rooms.defence)]
        loop = Loop(node.following, node.get_view, node.account, node.config.notify, rooms)
        shown = node.rooms.tools.cases.step_requests.shown
        node.chain.mined_block = 0  # type: ignore[misc]
        await node.rooms.tools.recompute_queue.let_own_go(
            lambda: node.state.head_block, windows.train_min, windows.train_min
        )
        for account in (member, drawn.seat.account):
            node.state._seated._members[account, TASK] += 1
            with pytest.raises(EnvironmentFault, match="not shown now"):
                await node.rooms.step_answers.answer_steps(account, encode_message(asked))
            loop._schedule()
            await asyncio.sleep(0)

        async def wait() -> None:
            while not shown:
                await asyncio.sleep(0.01)

        await asyncio.wait_for(wait(), 60)
        node.rooms.tools.recompute_queue.end_own()
        await asyncio.gather(*loop.running.values())
        assert (await node.rooms.step_answers.answer_steps(drawn.seat.account, encode_message(asked))).states


async def test_steps_stay_shown_until_the_last_dispute_on_the_segment_ends(tmp_path: Path) -> None:
    """Whose steps are not shown in an open dispute is taken for silent."""
    async with open_solver(tmp_path, is_pruned=False) as (stage, node):
        slot, segment = stage.get_slot(1), 1
        seat, roots = node.game.rounds[0].claims[slot].seat, (b"r" * 32,) * 3
        disputes = {
            name: InnerDispute(
                name, seat, StatementRef(0, slot), segment, OPENER, 9_999, DisputeStage.NAME, roots
            )
            for name in (b"1" * 32, b"2" * 32)
        }
        node.state.inner[TASK] = InnerBook(10, disputes)
        for one in list(disputes.values()):
            await node.rooms.step_serving.show_steps(one)
        asked = encode_message(StepsAsked(TASK, 0, slot, segment))
        states = (await node.rooms.step_answers.answer_steps(OPENER, asked)).states
        for name, is_shown in ((b"1" * 32, True), (b"2" * 32, False)):
            disputes[name] = replace(disputes[name], stage=DisputeStage.CLEARED)
            for kind in ("steps", "trace"):
                await ForgetSteps(kind, name).perform(node.rooms.defence)
            assert bool(node.rooms.tools.cases.steps) == is_shown
            if is_shown:
                assert (await node.rooms.step_answers.answer_steps(OPENER, asked)).states == states


def get_view() -> View:
    """A chain that stands at block 10."""
    return make_view(head_block=10)


async def test_what_is_shown_before_the_block_is_given_on() -> None:
    async def show() -> int:
        return 7

    assert await wait_for(get_view, 11, show()) == 7


async def test_at_the_block_the_asking_has_ended() -> None:
    ended = asyncio.Event()

    async def trickle() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(EnvironmentFault, match="has not shown the requested data in time"):
        await wait_for(get_view, 10, trickle())
    assert ended.is_set()


async def test_patience_for_several_things_is_that_for_one() -> None:
    """Blocks that pass while one is waited for are gone for the next; `until` counts as well."""
    state = ChainState("", BOUNDS_LOCAL, SIGNING, head_block=10)
    get_view, blocks_left = partial(make_view, state=state), BlocksLeft(5)

    async def show() -> int:
        state.head_block += 3
        return 7

    assert await blocks_left.wait(get_view, 99, show()) == 7
    assert blocks_left.blocks == 2
    state.head_block += 50  # What the node does meanwhile is its own time.
    assert await blocks_left.wait(get_view, 99, show()) == 7
    assert blocks_left.blocks == 0
    with pytest.raises(EnvironmentFault, match="has not shown the requested data in time"):
        await blocks_left.wait(get_view, 99, asyncio.Event().wait())
    with pytest.raises(EnvironmentFault, match="has not shown the requested data in time"):
        await BlocksLeft(9).wait(get_view, state.head_block, asyncio.Event().wait())


@pytest.mark.parametrize(("until", "expected"), [(9, 11), (10, 11), (12, 12)])
def test_a_node_that_was_down_waits_one_block(until: int, expected: int) -> None:
    assert start_waiting(get_view(), until) == expected
