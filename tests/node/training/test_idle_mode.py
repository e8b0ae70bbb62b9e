"""A node pauses while somebody uses its machine, leaves where that lasts, and joins once it is idle."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.kit.nodes import TASK, make_view
from tests.protocol.adapters.parties import make_key
from tests.protocol.spec.game.simulation import START_BLOCK, make_terms
from touchstone.node.kit.config import FAR, NodeConfig, Status
from touchstone.node.kit.following import Following
from touchstone.node.kit.recompute_queue import QUESTIONS, RecomputeQueue
from touchstone.node.kit.view import View
from touchstone.node.loop.node import Node
from touchstone.node.training import idle_mode
from touchstone.node.training.idle_mode import IdleMode, LeaveWhenBusy
from touchstone.protocol.adapters.machine.machine_use import LASTING_S, MachineUse
from touchstone.protocol.compute.program import tensor_allocator
from touchstone.protocol.compute.program.tensor_allocator import HUGE_PAGE_BYTES, allocate_vector
from touchstone.protocol.spec.game.enums import SeatRole, SeatStatus
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.state import GameState, RunningDispute, Seat, StatementRef, create_game

ACCOUNT = "0x" + "ab" * 20
SEAT = Seat(7, SeatRole.SOLVER, ACCOUNT, 0, 0, -1, -1)
TYPING = "somebody types in a terminal"


@dataclass
class Idle:
    """A seat whose machine somebody may use. game: None while the chain does not have the task; said: to the
    operator; left: (task, seat) of each call to leave."""

    game: GameState | None
    use: MachineUse | None = None
    said: list[str] = field(default_factory=list)
    left: list[tuple[bytes, int]] = field(default_factory=list)
    queue: RecomputeQueue = field(default_factory=RecomputeQueue)

    def get_view(self) -> View:
        return make_view(account=ACCOUNT, game=self.game)

    async def leave(self, task: bytes, seat: int) -> None:
        self.left.append((task, seat))

    @property
    def room(self) -> IdleMode:
        chain: Any = SimpleNamespace(game=self)
        return IdleMode(self.get_view, chain, self.queue, self.said.append, self.use)


def make_idle(seat: Seat | None = SEAT) -> tuple[Idle, MachineUse]:
    """What pauses, with its seat, and what tells of its machine."""
    game = create_game(make_terms(), BOUNDS_LOCAL, START_BLOCK)
    use = MachineUse(idle_s=600, cores=0.5)
    return Idle(replace(game, seats={} if seat is None else {seat.number: seat}), use), use


def list_due(idle: Idle, block: int) -> list[LeaveWhenBusy]:
    return list(idle_mode.list_duties(idle.use, idle.get_view(), block))


def begin_to_leave(idle: Idle) -> None:
    assert idle.game is not None
    idle.game = replace(idle.game, seats={SEAT.number: replace(SEAT, status=SeatStatus.LEAVING)})


async def take_turns() -> None:
    """Whatever can go on has gone on: a pause looks at nothing but what a test sets."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_mode, "LOOK_S", 0.0)


# A pause
async def test_heavy_work_waits_while_somebody_uses_the_machine() -> None:
    idle, use = make_idle()
    await idle.room.pause()
    assert not idle.said, "nobody uses it"
    use.note(TYPING, 0.0)
    pausing = asyncio.create_task(idle.room.pause())
    await take_turns()
    assert not pausing.done() and idle.said == [f"pausing, because somebody uses the machine: {TYPING}"]
    use.is_used = False
    await take_turns()
    assert pausing.done() and idle.said[1:] == ["the pause is over"]


async def test_a_pause_ends_where_use_lasts() -> None:
    """The seat leaves then, and what it owes is worked off."""
    idle, use = make_idle()
    use.note(TYPING, 0.0)
    pausing = asyncio.create_task(idle.room.pause())
    use.note(TYPING, LASTING_S - 1)
    await take_turns()
    assert not pausing.done()
    use.note(TYPING, LASTING_S)
    await take_turns()
    assert pausing.done()


async def test_a_seat_that_leaves_in_a_pause_works_on() -> None:
    """Its operator has typed `touchstone leave`: what it owes is due whoever sits there."""
    idle, use = make_idle()
    use.note(TYPING, 0.0)
    pausing = asyncio.create_task(idle.room.pause())
    await take_turns()
    begin_to_leave(idle)
    await take_turns()
    assert pausing.done()
    again = asyncio.create_task(idle.room.pause())
    await take_turns()
    assert again.done() and len(idle.said) == 2


@pytest.mark.parametrize("seat", [None, replace(SEAT, status=SeatStatus.CONVICTED)])
async def test_who_has_no_open_seat_does_not_pause(seat: Seat | None) -> None:
    """It plays a bond, or answers for what it did."""
    idle, use = make_idle(seat)
    use.note(TYPING, 0.0)
    known = idle.game
    for idle.game in (known, None):
        pausing = asyncio.create_task(idle.room.pause())
        await take_turns()
        assert pausing.done() and not idle.said


async def test_a_machine_that_is_not_looked_at_may_be_used_by_anybody() -> None:
    idle, _ = make_idle()
    idle.use = None
    await idle.room.pause()
    assert not list_due(idle, 10)


async def test_what_waits_for_the_own_claim_does_not_wait_for_its_pause() -> None:
    """An answer that had time when the pause began has none left when it ends: the stake was lost."""
    idle, use = make_idle()

    async def answer() -> None:
        async with idle.queue.take_turn(QUESTIONS):
            pass

    await idle.queue.let_own_go(lambda: START_BLOCK, 100, 10)
    answering = asyncio.create_task(answer())
    await take_turns()
    assert not answering.done()
    use.note(TYPING, 0.0)
    pausing = asyncio.create_task(idle.room.pause())
    await take_turns()
    assert answering.done() and not pausing.done()


async def test_a_pause_keeps_no_memory_of_steps() -> None:
    idle, use = make_idle()
    allocate_vector(HUGE_PAGE_BYTES)
    assert tensor_allocator._spare
    use.note(TYPING, 0.0)
    pausing = asyncio.create_task(idle.room.pause())
    await take_turns()
    assert not tensor_allocator._spare and not pausing.done()


# Leaving
async def test_a_seat_is_left_once_use_lasts() -> None:
    idle, use = make_idle()
    use.note(TYPING, 0.0)
    assert not list_due(idle, 10), "it pauses"
    use.note(TYPING, LASTING_S)
    (duty,) = list_due(idle, 10)
    assert duty == LeaveWhenBusy(7)
    await duty.perform(idle.room)
    assert idle.left == [(TASK, 7)]
    assert idle.said[0].startswith("somebody has used the machine for half an hour: the node gives up")
    begin_to_leave(idle)
    assert not list_due(idle, 11)


@pytest.mark.parametrize("seat", [None, replace(SEAT, status=SeatStatus.CONVICTED)])
async def test_who_has_no_open_seat_has_none_to_leave(seat: Seat | None) -> None:
    idle, use = make_idle(seat)
    use.note(TYPING, 0.0)
    use.note(TYPING, LASTING_S)
    assert not list_due(idle, 10)


# Before it joins
def make_node(idle: Idle, home: Path, folds: "asyncio.Queue[object]") -> Node:
    """A node that follows a chain. folds: the games of the task after each block, None where it is not
    there."""

    async def read() -> AsyncIterator[Any]:
        while True:
            yield SimpleNamespace(head=None, game=await folds.get())

    def take(batch: Any) -> None:
        state.head_block += 1
        state.games = {} if batch.game is None else {TASK: batch.game}

    chain: Any = SimpleNamespace(address=ACCOUNT, note=lambda head: None)
    state: Any = SimpleNamespace(games={TASK: idle.game}, head_block=START_BLOCK, take=take)
    nothing: Any = None
    config = NodeConfig(home, home, "", make_key(1), use=idle.use, notify=idle.said.append)
    return Node(config, Following(chain, state, Status(ACCOUNT), read()), nothing, nothing, nothing)


async def test_a_node_follows_the_chain_until_the_machine_is_idle_before_it_joins(tmp_path: Path) -> None:
    """A test network does not wait for it meanwhile."""
    idle, use = make_idle(None)
    folds = asyncio.Queue[object]()
    node = make_node(idle, tmp_path, folds)
    waiting = asyncio.create_task(node._wait_until_idle(TASK))
    for game in (idle.game, None, idle.game):
        folds.put_nowait(game)
    await take_turns()
    assert not waiting.done() and idle.said == ["waiting until nobody has used the machine for 10 minutes"]
    assert node.status == Status(ACCOUNT, START_BLOCK + 3, FAR)
    use.is_idle = True
    folds.put_nowait(idle.game)
    await take_turns()
    assert waiting.done() and waiting.result() is False


@pytest.mark.parametrize(
    "found",
    [
        {"seats": {SEAT.number: SEAT}},
        {"disputes": {3: RunningDispute(3, StatementRef(round=0, slot=0), 1, ACCOUNT, 99)}},
    ],
    ids=["seat", "bond"],
)
async def test_what_a_killed_run_had_sent_for_is_played_whoever_uses_the_machine(
    tmp_path: Path, found: dict[str, Any]
) -> None:
    """It was killed in the seconds between sending it and its block, and started again. It waited for an idle
    machine, while rounds held its seat: a fee for each."""
    idle, use = make_idle(None)
    folds = asyncio.Queue[object]()
    node = make_node(idle, tmp_path, folds)
    use.note(TYPING, 0.0)
    assert idle.game is not None
    folds.put_nowait(replace(idle.game, **found))
    waiting = asyncio.create_task(node._wait_until_idle(TASK))
    await take_turns()
    assert waiting.done() and waiting.result() is True


async def test_nobody_waits_for_a_machine_that_is_idle_or_not_looked_at(tmp_path: Path) -> None:
    idle, use = make_idle(None)
    use.is_idle = True
    for idle.use in (use, None):
        assert await make_node(idle, tmp_path, asyncio.Queue())._wait_until_idle(TASK) is False
    assert not idle.said
