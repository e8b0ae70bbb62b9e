"""The loop: each duty once at a time, pauses after refusals, no blocks waited for while somebody works."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.kit.nodes import make_view
from tests.protocol.spec.game.simulation import START_BLOCK, make_terms
from touchstone.node.defending.defence import AnswerQuery, PostRoots
from touchstone.node.joining.seat_taking import SeatRequest
from touchstone.node.kit.config import Status
from touchstone.node.kit.duty import Duty, Room, Wait
from touchstone.node.kit.following import Following
from touchstone.node.kit.view import View
from touchstone.node.loop import node_loop
from touchstone.node.loop.joined import Joined
from touchstone.node.loop.node import Node
from touchstone.node.loop.node_loop import Loop
from touchstone.node.upkeep.upkeep_duties import SendUpkeep, SettleSeats
from touchstone.protocol.adapters.chain.gate import GateShut
from touchstone.protocol.adapters.chain.refusals import ContractRefused
from touchstone.protocol.economics.assumptions import Figures
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.calls import CloseTask
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.inner_dispute import InnerDispute, InnerQuery
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.state import RunningDispute, Seat, StatementRef, create_game
from touchstone.protocol.spec.game.timing import REORG_BLOCKS
from touchstone.protocol.spec.game.vault import Vault, stake_of
from touchstone.protocol.spec.statements import Vote
from touchstone.scripts.command_line.log_lines import open_logs

TASK = b"t" * 32


class FakeState:
    """The chain as far as it was read."""

    def __init__(self) -> None:
        game = create_game(make_terms(), BOUNDS_LOCAL, START_BLOCK)
        self.games: dict[bytes, Any] = {TASK: LoggedGame(**vars(game))}
        self.head_block = START_BLOCK

    def take(self, batch: "Batch") -> None:
        batch.change(self)


Change = Callable[[FakeState], None]


@dataclass(frozen=True)
class Batch:
    """What a block changes; forget_from: from which block on earlier ones are void."""

    change: Change
    forget_from: int | None = None
    head: Any = field(default_factory=lambda: SimpleNamespace(number=0))


@dataclass
class Chain:
    """The test's hand on the clock."""

    following: Following
    queue: "asyncio.Queue[Batch]"
    loop: Loop
    listed: list[Duty[Any] | Wait]
    running: "asyncio.Task[bool]"

    def add_room(self, tools: Any, *duties: Duty[Any]) -> None:
        """One more room, in which these are due."""
        room: Room[Any] = Room(lambda view, block: iter(duties), tools)
        self.loop.rooms = [*self.loop.rooms, room]

    async def mine(self, change: Change = lambda state: None, forget_from: int | None = None) -> None:
        """One more block, with what it changes; the loop has looked at it."""

        def take(state: FakeState) -> None:
            state.head_block += 1
            change(state)

        await self.queue.put(Batch(take, forget_from))
        await self.settle()

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)


@asynccontextmanager
async def run_loop(account: str = "") -> AsyncIterator[Chain]:
    """account: whose seat the loop works for; empty: it has none."""
    queue: asyncio.Queue[Batch] = asyncio.Queue()

    async def follow() -> AsyncIterator[Any]:
        while True:
            yield await queue.get()

    state: Any = FakeState()
    chain_of = SimpleNamespace(mined_block=0, address=account, note=lambda head: None)
    following = Following(cast(Any, chain_of), state, Status("0x"), follow())
    listed: list[Duty[Any] | Wait] = []

    def find_view() -> Any:
        game = state.games.get(TASK)
        return game and SimpleNamespace(account=account, game=game, head_block=state.head_block)

    room: Room[Any] = Room(lambda view, block: iter(list(listed)), state)
    loop = Loop(following, find_view, account, lambda line: None, [room], is_seated=bool(account))
    running = asyncio.create_task(loop.run())
    chain = Chain(following, queue, loop, listed, running)
    try:
        await chain.settle()
        yield chain
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@dataclass(frozen=True)
class Work:
    """A duty that the test ends. outcomes: what each attempt comes to; None is success."""

    name: str
    outcomes: list[Exception | None] = field(default_factory=list, compare=False)
    started: list[int] = field(default_factory=list, compare=False)
    gate: asyncio.Event = field(default_factory=asyncio.Event, compare=False)

    async def perform(self, state: FakeState) -> None:
        self.started.append(state.head_block)
        await self.gate.wait()
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if outcome is not None:
            raise outcome


def refuse() -> ContractRefused:
    return ContractRefused(what="no", expected="", actual="", remedy="", name="No", values={})


async def test_a_duty_is_performed_once_at_a_time_and_the_node_waits_for_no_block_meanwhile() -> None:
    async with run_loop() as chain:
        work = Work("train")
        chain.listed.append(work)
        await chain.mine()
        await chain.mine()
        assert work.started == [START_BLOCK + 1]
        assert chain.following.status.waiting_for_block == chain.following.state.head_block
        work.gate.set()
        await chain.settle()
        assert work.started == [START_BLOCK + 1]
        assert chain.following.status.waiting_for_block > chain.following.state.head_block
        await chain.mine()
        assert len(work.started) == 2


async def test_what_is_due_and_what_failed_is_counted() -> None:
    async with run_loop() as chain:
        chain.listed += [Work("one", [refuse()]), Work("two", [refuse()]), Wait(START_BLOCK + 50)]
        await chain.mine()
        assert chain.following.meter.due == {"Work": 2} and chain.following.meter.failures == {"Work": 0}
        for work in chain.listed[:2]:
            cast(Work, work).gate.set()
        await chain.settle()
        assert chain.following.meter.failures == {"Work": 2}
        chain.listed.clear()
        await chain.mine()
        assert not chain.following.meter.due


async def test_what_a_duty_tells_is_of_the_round_that_it_belongs_to(tmp_path: Path) -> None:
    """Also what it tells from a thread. The number was read out of the words, whoever had written them."""

    @dataclass(frozen=True)
    class Tell:
        """A duty of a round, or of a draw in it."""

        round: int | None = None
        place: Any = None

        async def perform(self, tools: Any) -> None:
            await asyncio.to_thread(node_loop.log.warning, "a peer says: round 7")

    answers = SimpleNamespace(post_roots=Tell().perform)
    disputed = InnerDispute(b"d" * 32, 7, StatementRef(5, 0), 0, "x", 9)
    with open_logs("info", tmp_path / "log"):
        async with run_loop() as chain:
            chain.listed += [Tell(3), Tell(place=StatementRef(4, 0)), Tell()]
            chain.add_room(SimpleNamespace(answers=answers), PostRoots(1, disputed))
            await chain.mine()
            while chain.loop.running:
                await asyncio.sleep(0.01)
    lines = (tmp_path / "log").read_text().splitlines()
    assert sorted(line.partition("round 7")[2] for line in lines) == ["", " round=3", " round=4", " round=5"]


async def test_each_kind_of_duty_is_counted_by_itself() -> None:
    """Of fifteen kinds of duties in disputes the metric told one name."""

    async def refuse_it(about: Any) -> None:
        raise refuse()

    answers, queries = SimpleNamespace(post_roots=refuse_it), SimpleNamespace(answer_own=refuse_it)
    dispute = InnerDispute(b"d" * 32, 7, StatementRef(5, 0), 0, "x", 9)
    query = InnerQuery(b"a" * 32, 7, cast(Vote, StatementRef(5, 0)), 3, "x", 9)
    async with run_loop() as chain:
        defence = SimpleNamespace(answers=answers, queries=queries)
        chain.add_room(defence, PostRoots(1, dispute), AnswerQuery(query.name, query))
        calls = SendUpkeep(CloseTask()), SendUpkeep(SettleSeats((1,), 2))
        chain.add_room(SimpleNamespace(send_upkeep=refuse_it), *calls)
        await chain.mine()
        names = {"PostRoots", "AnswerQuery", "CloseTask", "SettleSeats"}
        assert chain.following.meter.due == dict.fromkeys(names, 1)
        await chain.settle()
        assert chain.following.meter.failures == dict.fromkeys(names, 1)


async def test_a_node_that_lags_behind_waits_for_the_block_that_holds_what_it_sent() -> None:
    """Else it sends the same again: a query that was answered meanwhile would cost a second bond."""
    async with run_loop() as chain:
        work = Work("ask")
        chain.listed.append(work)
        await chain.mine()
        cast(Any, chain.following.chain).mined_block = START_BLOCK + 4
        work.gate.set()
        await chain.settle()
        await chain.mine()
        await chain.mine()
        assert work.started == [START_BLOCK + 1]
        await chain.mine()
        assert work.started == [START_BLOCK + 1, START_BLOCK + 4]


async def test_a_made_up_receipt_of_a_far_block_ends_no_duty() -> None:
    """One endpoint may answer with any block: what failed is tried again all the same."""
    async with run_loop() as chain:
        work = Work("answer a dispute", [refuse()] * 9)
        work.gate.set()
        chain.listed.append(work)
        cast(Any, chain.following.chain).mined_block = 10**9
        for _ in range(60):
            await chain.mine()
        assert len(work.started) > 2


async def test_what_follows_a_duty_without_the_chain_does_not_wait_for_a_block() -> None:
    """An auditor seals, then it asks for the end: a block of twelve seconds lies between two looks."""
    async with run_loop() as chain:
        first, second = Work("seal"), Work("vote")
        first.gate.set()
        chain.listed.append(first)
        chain.following.notify_loop()
        await chain.settle()
        chain.listed[:] = [second]
        chain.following.notify_loop()
        await chain.settle()
        assert (first.started, second.started) == ([START_BLOCK], [START_BLOCK])


async def test_after_refusals_it_is_tried_again_after_more_and_more_blocks() -> None:
    async with run_loop() as chain:
        fault = EnvironmentFault(what="down", expected="", actual="", remedy="")
        work = Work("post", [refuse(), fault, ValueError("a bug"), None])
        work.gate.set()
        chain.listed.append(work)
        for _ in range(12):
            await chain.mine()
        assert [block - START_BLOCK for block in work.started[:4]] == [1, 2, 4, 8]


async def test_failures_of_a_duty_that_is_not_due_any_more_are_forgotten() -> None:
    """Else the pauses of all disputes of months would stay in memory."""
    async with run_loop() as chain:
        work = Work("prove", [refuse()])
        work.gate.set()
        chain.listed.append(work)
        await chain.mine()
        assert chain.loop.pauses
        chain.listed.clear()
        for _ in range(20):
            await chain.mine()
        assert not chain.loop.pauses


async def test_failures_of_a_duty_that_takes_long_are_counted_on() -> None:
    """What fails for the fourth time is told, however many blocks a try takes."""
    async with run_loop() as chain:
        work = Work("prove", [refuse(), refuse()])
        work.gate.set()
        chain.listed.append(work)
        await chain.mine()
        work.gate.clear()
        for _ in range(30):
            await chain.mine()
        work.gate.set()
        await chain.settle()
        assert chain.loop.pauses[work].failures == 2


async def test_a_block_that_a_room_waits_for_is_told() -> None:
    async with run_loop() as chain:
        chain.listed.append(Wait(START_BLOCK + 9))
        await chain.mine()
        assert chain.following.status.waiting_for_block == START_BLOCK + 9


async def test_a_message_makes_the_node_busy_until_it_has_looked() -> None:
    """Else a clock that skips idle blocks would skip what the message makes due."""
    async with run_loop() as chain:
        await chain.mine()
        assert chain.following.status.waiting_for_block > chain.following.state.head_block
        chain.following.notify_loop()
        assert chain.following.status.waiting_for_block == chain.following.state.head_block
        await chain.settle()
        assert chain.following.status.waiting_for_block > chain.following.state.head_block


async def test_it_ends_with_the_task() -> None:
    async with run_loop() as chain:
        work = Work("settle")
        chain.listed.append(work)

        def close(state: FakeState) -> None:
            state.games[TASK] = replace(state.games[TASK], is_closed=True)

        await chain.mine()
        await chain.mine(close)
        assert chain.running.done() and not chain.loop.running


SEAT = Seat(7, SeatRole.VERIFIER, "me", 0, 0, -1, -1)


def change_game(**values: Any) -> Change:
    def change(state: FakeState) -> None:
        state.games[TASK] = replace(state.games[TASK], **values)

    return change


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"is_halted": True}, "the task is halted: no further round opens"),
        ({"next_round": make_terms().rounds}, f"round {make_terms().rounds - 1} was the last"),
    ],
)
async def test_that_no_further_round_opens_is_told_once(change: dict[str, Any], told: str) -> None:
    """Afterwards a node is silent for a day and more, until it can settle."""
    async with run_loop() as chain:
        said: list[str] = []
        chain.loop.notify = said.append
        await chain.mine()
        assert not said
        await chain.mine(change_game(**change))
        await chain.mine()
        assert len(said) == 1 and told in said[0]


async def test_a_seat_whose_stake_is_too_small_to_sit_is_told_so_until_it_is_filled_up() -> None:
    """A fee has taken some of it. Nothing else would tell why the node has no work any more."""
    async with run_loop("me") as chain:
        said: list[str] = []
        chain.loop.notify = said.append
        whole = make_terms().amounts.auditor_stake
        for stake_wei in (whole, whole - 1, whole - 1, whole, whole - 2):
            vault = Vault({stake_of(SEAT.number): stake_wei})
            await chain.mine(change_game(seats={SEAT.number: SEAT}, vault=vault))
        assert len(said) == 2 and all("will be in no further round" in line for line in said)


LEFT: dict[str, Any] = {"seats": {}, "former": {SEAT.number: SEAT}}
"""The seat was paid out."""


async def test_it_ends_with_its_seat_once_that_is_paid_out_and_nothing_of_its_own_is_open() -> None:
    """A bond in a dispute against another seat would be lost."""
    dispute = RunningDispute(0, StatementRef(0, 0), 8, "me", START_BLOCK + 50)
    async with run_loop("me") as chain:
        await chain.mine()
        await chain.mine(change_game(seats={SEAT.number: SEAT}, disputes={0: dispute}))
        await chain.mine(change_game(**LEFT))
        assert not chain.running.done()
        for _ in range(REORG_BLOCKS):
            await chain.mine(change_game(disputes={}))
            assert not chain.running.done()
        await chain.mine()
        assert chain.running.done() and not await chain.running


@pytest.mark.parametrize("is_bound", [False, True])
async def test_a_node_stays_when_the_chain_takes_back_what_opened_or_ended_its_dispute(
    is_bound: bool,
) -> None:
    """Both are mined again: the opening out of the pool, or a move of the other side in place of the end. A
    node that had ended lost its bond by silence. It waits for a block, so a test network does not stop."""
    dispute = RunningDispute(0, StatementRef(0, 0), 8, "me", START_BLOCK + 50)
    async with run_loop("me") as chain:
        chain.loop.is_bound = is_bound
        if not is_bound:
            await chain.mine(change_game(seats={SEAT.number: SEAT}, disputes={0: dispute}))
        await chain.mine(change_game(disputes={0: dispute}, **LEFT))
        last = chain.following.state.head_block
        await chain.mine(change_game(disputes={}))
        assert not chain.running.done()
        assert chain.following.status.waiting_for_block <= last + REORG_BLOCKS + 1
        await chain.mine(change_game(disputes={0: dispute}, **LEFT), forget_from=last + 1)
        for _ in range(REORG_BLOCKS):
            await chain.mine()
        assert not chain.running.done(), "it is open again"
        for _ in range(REORG_BLOCKS + 1):
            await chain.mine(change_game(disputes={}))
        assert chain.running.done() and not await chain.running


async def test_it_ends_with_its_seat_also_where_the_seats_number_is_used_again_at_once() -> None:
    async with run_loop("me") as chain:
        await chain.mine(change_game(seats={SEAT.number: SEAT}))
        await chain.mine(change_game(seats={SEAT.number: replace(SEAT, account="another")}))
        assert chain.running.done() and not await chain.running


async def test_a_node_stays_when_the_chain_takes_back_the_block_in_which_it_joined() -> None:
    """Its transaction waits in the pool and is mined again: the stake is locked, and nobody would work for
    it. Meanwhile another account may get the seat's number, and be paid out."""
    other = {SEAT.number: replace(SEAT, account="another")}
    async with run_loop("me") as chain:
        await chain.mine()
        await chain.mine(change_game(seats={SEAT.number: SEAT}))
        for changed in (
            change_game(seats={}),
            change_game(former=other),
            change_game(seats=other, former={}),
        ):
            await chain.mine(changed, forget_from=START_BLOCK + 2)
            assert not chain.running.done(), "the seat was not paid out"
        again = replace(SEAT, number=SEAT.number + 1)
        await chain.mine(change_game(seats={**other, again.number: again}))
        work = Work("audit")
        chain.listed.append(work)
        await chain.mine()
        assert len(work.started) == 1 and not chain.running.done()
        await chain.mine(change_game(seats=other, former={again.number: again}))
        assert chain.running.done() and not await chain.running


async def test_a_seat_that_is_not_there_and_was_not_paid_out_has_not_left() -> None:
    """A chain's node that lags behind tells nothing of what it has not read."""
    async with run_loop("me") as chain:
        await chain.mine(change_game(seats={SEAT.number: SEAT}))
        await chain.mine(change_game(seats={}))
        assert not chain.running.done()


async def test_a_seat_that_a_chain_read_anew_does_not_have_yet_has_not_left() -> None:
    """All was read again from an endpoint that lags behind the join. Another account had had the number."""
    async with run_loop("me") as chain:
        await chain.mine(change_game(seats={SEAT.number: SEAT}))

        async def take(batch: Any) -> None:
            chain.following.meter.refolds += 1
            chain.following.reading = None
            batch.change(chain.following.state)

        vars(chain.following)["take"] = take
        await chain.mine(change_game(seats={}, former={SEAT.number: replace(SEAT, account="other")}))
        assert not chain.running.done()


async def test_a_node_waits_while_the_chain_does_not_have_its_task() -> None:
    """The chain has taken back the block in which it was posted."""
    async with run_loop() as chain:
        work = Work("serve")
        await chain.mine()
        posted = chain.following.state.games[TASK]
        await chain.mine(lambda state: state.games.clear(), forget_from=START_BLOCK)
        chain.listed.append(work)
        chain.following.notify_loop()
        await chain.settle()
        assert not chain.running.done() and not work.started
        await chain.mine(lambda state: state.games.update({TASK: posted}))
        assert not chain.running.done() and len(work.started) == 1


async def test_who_works_without_a_seat_stays_and_the_last_ones_paid_out_close_the_task() -> None:
    async with run_loop("") as chain:
        await chain.mine(change_game(seats={SEAT.number: SEAT}))
        await chain.mine(change_game(**LEFT))
        assert not chain.running.done()
    async with run_loop("me") as chain:
        await chain.mine(change_game(seats={SEAT.number: SEAT}))
        await chain.mine(change_game(**LEFT, is_halted=True, next_round=1))
        assert not chain.running.done()
        await chain.mine(change_game(is_closed=True))
        assert chain.running.done() and await chain.running


async def test_what_fails_for_long_is_told_in_ever_longer_steps_and_another_reason_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A bucket that was not there filled a log with 60 equal lines in five minutes."""
    async with run_loop() as chain:
        one, other = (EnvironmentFault(what=what, expected="", actual="", remedy="") for what in "ab")
        work = Work("mirror", [*[one] * 20, *[other] * 2])
        work.gate.set()
        chain.listed.append(work)
        while len(work.started) < 22:
            await chain.mine()
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    times = [(4, one), (8, one), (16, one), (21, other)]
    assert told == [f"Work, tried {count} times: {fault}" for count, fault in times]


async def test_a_room_that_fails_stops_no_other() -> None:
    async with run_loop() as chain:

        def fail(view: View, block: int) -> Iterator[Duty[Any] | Wait]:
            raise ValueError("a bug")

        chain.loop.rooms = [Room(fail, None), *chain.loop.rooms]
        work = Work("defend")
        chain.listed.append(work)
        await chain.mine()
        assert len(work.started) == 1


async def test_a_node_that_gets_no_seat_lets_its_processes_go() -> None:
    """Workers train from the moment a task is opened. One that hangs would keep the node from ending."""
    closed = list[str]()

    def make(name: str) -> Any:
        return SimpleNamespace(close=partial(closed.append, name))

    async def refuse(request: SeatRequest) -> None:
        raise EnvironmentFault(what="no seat", expected="one", actual="none", remedy="Choose another task.")

    async def do_nothing() -> None:
        pass

    names = ("cases", "recompute_queue", "team")
    tools = SimpleNamespace(**{name: make(name) for name in names})
    test, seats = SimpleNamespace(check_bits=do_nothing), SimpleNamespace(take_seat=refuse)
    rooms, nothing = SimpleNamespace(tools=tools, self_test=test, seat_taking=seats), cast(Any, None)

    class Joining(Node):
        fails_late = False

        async def join(self, task: bytes, figures: Figures | None = None) -> None:
            self.joined = Joined(task, b"", nothing, cast(Any, rooms), make("audits"))
            if self.fails_late:
                raise EnvironmentFault(what="no seat", expected="weights", actual="none", remedy="Wait.")

    config = cast(Any, SimpleNamespace(use=None, notify=lambda line: None))
    following = cast(Any, SimpleNamespace(take_next=do_nothing))
    for fails_late in (False, True):
        node = Joining(config, following, nothing, nothing, nothing)
        node.fails_late = fails_late
        with pytest.raises(EnvironmentFault, match="no seat"):
            await node.work_on(TASK, SeatRequest(SeatRole.SOLVER))
        assert sorted(closed) == sorted(["audits", *names])
        closed.clear()


# A fold that is wrong
async def break_rooms(chain: Chain, is_broken: Callable[[], bool]) -> list[int]:
    """The room cannot list its duties while `is_broken`; a second one still does. Returns the blocks at which
    all was folded anew."""
    anew: list[int] = []

    def list_nothing(view: View, block: int) -> Iterator[Duty[Any] | Wait]:
        if is_broken():
            raise KeyError("a seat that is not there")
        yield from ()

    async def follow() -> AsyncIterator[Any]:
        anew.append(chain.following.state.head_block)
        yield Batch(lambda state: None)
        while True:
            yield await chain.queue.get()

    cast(Any, chain.following.chain).follow = lambda **_: follow()
    cast(Any, chain.following.state).forget_all = lambda: None
    chain.loop.rooms = [Room(list_nothing, None), *chain.loop.rooms]
    return anew


async def test_a_room_that_cannot_list_its_duties_twice_has_all_read_anew() -> None:
    """A wrong fold lasts for ever, and the node would stay up and do nothing."""
    async with run_loop() as chain:
        work, broken = Work("vote"), [True]
        chain.listed.append(work)
        anew = await break_rooms(chain, lambda: broken[0] and not anew)
        await chain.mine()
        assert work.started, "the other rooms go on"
        await chain.mine()
        assert len(anew) == 1 and chain.following.meter.refolds == 1
        for _ in range(5):
            await chain.mine()
        assert len(anew) == 1 and not chain.running.done()


async def test_if_that_does_not_help_the_node_ends_so_that_its_service_starts_it_again() -> None:
    async with run_loop() as chain:
        anew = await break_rooms(chain, lambda: True)
        for _ in range(5):
            await chain.mine()
        assert len(anew) == 1 and chain.running.done()
        with pytest.raises(EnvironmentFault, match="cannot use the chain that it has read"):
            await chain.running


async def test_an_event_that_cannot_be_folded_has_all_read_anew() -> None:
    async with run_loop() as chain:
        anew = await break_rooms(chain, lambda: False)

        def fail(state: FakeState) -> None:
            raise KeyError(7)

        await chain.mine(fail)
        await chain.mine()
        assert len(anew) == 1 and not chain.running.done()


async def test_what_a_duty_fails_by_while_the_task_is_not_there_is_no_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """All is folded anew beside it: what it looks up is not there for a moment."""
    async with run_loop() as chain:
        gone = make_view()
        work, later = Work("vote", [KeyError("a round")]), Work("post", [])
        chain.listed += [work, later]
        await chain.mine()
        games = cast(Any, chain.following.state).games
        game = games.pop(TASK)
        work.gate.set()
        await chain.settle()
        games[TASK] = game
        # Another thread may tell of it only once the task is there again.
        later.outcomes.append(catch(lambda: gone.game))
        later.gate.set()
        await chain.mine()
        assert not chain.following.meter.failures["Work"] and not caplog.records
        await chain.mine()
        assert len(work.started) > 1 and len(later.started) > 1, "both are still due"


def catch(act: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as caught:
        act()
    return caught.value


async def test_a_chain_that_cannot_be_folded_from_its_beginning_ends_the_node_with_a_remedy() -> None:
    async with run_loop() as chain:
        await break_rooms(chain, lambda: False)

        def fail(state: FakeState) -> None:
            raise KeyError(7)

        cast(Any, chain.following.state).forget_all = lambda: fail(cast(Any, None))
        await chain.mine(fail)
        with pytest.raises(EnvironmentFault, match="cannot use the chain that it has read"):
            await chain.running


async def test_while_nothing_may_be_signed_a_duty_waits_and_its_pause_does_not_grow() -> None:
    """It waits for the next block, and says so: a clock that skips idle blocks once skipped its last one."""
    async with run_loop() as chain:
        shut = GateShut(what="no", expected="", actual="", remedy="")
        work = Work("vote", [shut] * 6)
        work.gate.set()
        chain.listed.append(work)
        for _ in range(7):
            await chain.mine()
            assert chain.following.status.waiting_for_block == chain.following.state.head_block + 1
        assert work.started == list(range(START_BLOCK + 1, START_BLOCK + 8))
        assert not chain.following.meter.failures["Work"]
