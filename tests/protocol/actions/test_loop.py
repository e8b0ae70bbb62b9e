"""The loop: an action runs once at a time, waits after failures, and GET /status tells busy from idle."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from protocol.actions.loop import MAX_PAUSE_BLOCKS, Due, Loop, Pause
from protocol.adapters.chain import Batch
from protocol.spec.errors import EnvironmentFault
from protocol.spec.events import Event
from tests.protocol.actions.facts import BOB, deposit, make_batch
from tests.protocol.actions.lone import Lone, refuse

NEXT_BLOCK = 500


@dataclass
class Bench:
    """A loop whose blocks the test makes: one by one, everything settled in between."""

    lone: Lone
    act: Callable[[str], Awaitable[None]]
    due: list[str] = field(default_factory=lambda: ["act"])
    last_block: int = 10_000
    attempts: list[tuple[str, int]] = field(default_factory=list)
    seen: list[Event] = field(default_factory=list)
    waits: dict[int, int] = field(default_factory=dict)
    """What /status said it waits for, by head."""

    async def perform(self, action: str) -> None:
        self.attempts.append((action, self.lone.party.view.head_block))
        await self.act(action)

    async def run(self, blocks: range, *found: Event) -> None:
        """Blocks one after the other; `found` are the events of the first."""
        self.lone.party.batches = self.make_batches(blocks, found)
        await self.make_loop().run()

    def make_loop(self) -> Loop[str]:
        return Loop(
            self.lone.party,
            lambda block: Due(self.due, NEXT_BLOCK),
            self.perform,
            self.seen.append,
            self.is_over,
        )

    def is_over(self) -> bool:
        return self.lone.party.view.head_block >= self.last_block

    async def make_batches(self, blocks: range, found: tuple[Event, ...]) -> AsyncIterator[Batch]:
        for block in blocks:
            yield make_batch(block, *found)
            found = ()
            await asyncio.sleep(0.001)
            status = self.lone.party.status
            assert status.processed_block == block
            self.waits[block] = status.waiting_for_block


async def fail(action: str) -> None:
    raise refuse("NotYet")


async def hang(action: str) -> None:
    await asyncio.Event().wait()


async def succeed(action: str) -> None:
    pass


async def test_a_running_action_is_not_started_again(solver: Lone) -> None:
    bench = Bench(solver, hang)
    await bench.run(range(10, 20))
    assert bench.attempts == [("act", 10)]


async def test_a_busy_node_waits_for_no_block_and_an_idle_one_for_its_next(solver: Lone) -> None:
    busy, idle = Bench(solver, hang), Bench(solver, hang, due=[])
    await busy.run(range(10, 13))
    assert busy.waits == {10: 10, 11: 11, 12: 12}
    await idle.run(range(10, 13))
    assert set(idle.waits.values()) == {NEXT_BLOCK}


async def test_a_refused_action_is_tried_again_after_more_and_more_blocks(solver: Lone) -> None:
    bench = Bench(solver, fail)
    await bench.run(range(10, 60))
    assert [block for _, block in bench.attempts] == [10, 11, 13, 17, 25, 41, 57]


async def test_a_pausing_node_says_when_it_tries_again(solver: Lone) -> None:
    bench = Bench(solver, fail)
    await bench.run(range(10, 20))
    assert bench.waits[18] == bench.waits[19] == 26, "the block that its next transaction can stand in"


async def test_one_failing_action_does_not_hold_up_another(solver: Lone) -> None:
    async def act(action: str) -> None:
        if action == "bad":
            raise EnvironmentFault(what="no peer", expected="one", actual="none", remedy="Wait.")

    bench = Bench(solver, act, due=["bad", "good"])
    await bench.run(range(10, 14))
    assert [action for action, _ in bench.attempts].count("good") == 4
    assert [action for action, _ in bench.attempts].count("bad") == 3


async def test_a_bug_in_an_action_keeps_the_node_up(solver: Lone, caplog: pytest.LogCaptureFixture) -> None:
    async def act(action: str) -> None:
        raise ZeroDivisionError

    bench = Bench(solver, act)
    await bench.run(range(10, 13))
    assert len(bench.attempts) == 2 and "nobody foresaw" in caplog.text


async def test_events_are_told_once_and_the_end_ends_it(solver: Lone) -> None:
    bench = Bench(solver, succeed, last_block=12)
    await bench.run(range(10, 20), deposit(BOB, block=10))
    assert bench.seen == [deposit(BOB, block=10)] and solver.party.view.head_block == 12


async def test_what_runs_is_cancelled_at_the_end(solver: Lone) -> None:
    ended = []

    async def act(action: str) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append(action)
            raise

    await Bench(solver, act, last_block=11).run(range(10, 20))
    await asyncio.sleep(0.001)
    assert ended == ["act"]


def test_pauses_double_up_to_a_limit() -> None:
    pause, waits = Pause(), []
    for _ in range(7):
        pause.extend(100)
        waits.append(pause.until_block - 100)
    assert waits == [1, 2, 4, 8, 16, MAX_PAUSE_BLOCKS, MAX_PAUSE_BLOCKS]
