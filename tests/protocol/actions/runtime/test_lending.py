"""A node leaves while somebody uses its machine, and waits between two seats; its home's file says so."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from protocol.actions.runtime import watching
from protocol.actions.runtime.config import PartyConfig
from protocol.actions.runtime.watching import (
    GiveUpSeat,
    Past,
    Watch,
    list_duties,
    take_over,
    wait_until_idle,
)
from protocol.adapters.machine import MachineUse
from protocol.adapters.reports import End, NodeState, read_node_state, tell_node_state
from protocol.compute.program import tensor_allocator
from protocol.compute.program.tensor_allocator import HUGE_PAGE_BYTES, allocate_vector
from protocol.spec.game.state import Seat, SeatRole, SeatStatus
from tests.protocol.actions.runtime.test_watching import ACCOUNT, list_lines, make_party
from tests.protocol.adapters.parties import make_key

TASK = b"t" * 32
SEAT = Seat(7, SeatRole.SOLVER, ACCOUNT, 0, 0, -1, -1)


def lend(home: Path, seat: Seat | None = SEAT) -> tuple[Any, MachineUse]:
    """A party whose machine is lent, with its seat, and what tells of the machine."""
    party, use = make_party(home), MachineUse(idle_s=600, cores=0.5)
    party.config = PartyConfig(home, home, "", make_key(1), use=use)
    party.game = SimpleNamespace(seats={} if seat is None else {seat.number: seat})
    party.task = SimpleNamespace(task=TASK)
    party.said, party.wakes, party.left = [], [], []

    async def leave(task: bytes, seat: int) -> None:
        party.left.append((task, seat, read_state(home).is_leaving))

    party.chain.tasks = SimpleNamespace(leave=leave)
    party.say, party.wake = party.said.append, lambda: party.wakes.append(use.is_used)
    return party, use


def read_state(home: Path) -> NodeState:
    state = read_node_state(home)
    assert state is not None
    return state


async def test_a_seat_is_left_once_somebody_uses_the_machine(tmp_path: Path) -> None:
    """That it leaves for this reason is on the disk before the chain has it: a node that is killed then takes
    the seat again later, as it would have."""
    party, use = lend(tmp_path)
    assert not list(list_duties(party, 10))
    use.note("somebody types in a terminal", 0.0)
    (duty,) = list_duties(party, 10)
    assert duty == GiveUpSeat(7) and use.is_leaving
    await duty.perform(party)
    assert party.left == [(TASK, 7, True)]
    assert party.said[0].startswith("somebody types in a terminal: the seat leaves.")


@pytest.mark.parametrize("seat", [None, SeatStatus.LEAVING, SeatStatus.CLOSED])
async def test_who_has_no_open_seat_has_none_to_leave(tmp_path: Path, seat: SeatStatus | None) -> None:
    party, use = lend(tmp_path, None if seat is None else replace(SEAT, status=seat))
    use.note("used", 0.0)
    assert not list(list_duties(party, 10))


async def test_a_machine_that_is_not_lent_may_be_used_by_anybody(tmp_path: Path) -> None:
    party, _ = lend(tmp_path)
    party.config = replace(party.config, use=None)
    assert not list(list_duties(party, 10))


async def test_a_leave_that_was_never_sent_is_forgotten_once_the_machine_is_idle_again(
    tmp_path: Path,
) -> None:
    """Its operator may type `touchstone leave` later, and is not to find the stake locked again."""
    party, use = lend(tmp_path)
    use.note("used", 0.0)
    assert list(list_duties(party, 10))
    use.is_used = False
    assert not list(list_duties(party, 10)) and not use.is_leaving


async def test_the_loop_looks_at_once_when_the_machine_is_used(tmp_path: Path) -> None:
    party, use = lend(tmp_path)
    watch = Watch(party)
    await watch.look()
    assert not party.wakes
    use.note("used", 0.0)
    await watch.look()
    await watch.look()
    assert party.wakes == [True]


async def test_why_a_seat_leaves_is_known_to_the_next_run(tmp_path: Path) -> None:
    party, use = lend(tmp_path)
    use.is_leaving = True
    Watch(party).write()
    lines = list(tell_node_state(read_state(tmp_path), time.time()))
    assert any("somebody uses the machine" in line for line in lines)
    again = MachineUse(idle_s=600, cores=0.5)
    take_over(tmp_path, again)
    assert again.is_leaving
    take_over(tmp_path)


async def test_between_two_seats_the_home_says_that_its_node_waits_and_no_restart_is_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "WRITE_S", 0.01)
    party, use = lend(tmp_path)
    use.is_leaving = True
    async with Watch(party, take_over(tmp_path, use)).running():
        pass
    waiting = asyncio.create_task(wait_until_idle(party.config, use))
    while not (state := read_state(tmp_path)).is_waiting(time.time()):
        await asyncio.sleep(0.01)
    assert not state.is_leaving and not use.is_leaving and not waiting.done()
    assert list(tell_node_state(state, time.time())) == [
        "the node of this home has no seat: it waits until nobody uses the machine"
    ]
    assert "was killed while it waited" in next(tell_node_state(state, time.time() + 3_600))
    use.is_idle = True
    await waiting
    assert take_over(tmp_path, use) == Past() and list_lines(caplog) == []


async def begin_waiting(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple["asyncio.Task[None]", MachineUse]:
    """A node that has written that it waits, and goes on waiting."""
    monkeypatch.setattr(watching, "WRITE_S", 0.01)
    party, use = lend(folder)
    waiting = asyncio.create_task(wait_until_idle(party.config, use))
    while read_node_state(folder) is None:
        await asyncio.sleep(0.01)
    return waiting, use


async def test_a_node_that_is_stopped_while_it_waits_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that has never had a seat, and so no file."""
    waiting, _ = await begin_waiting(tmp_path, monkeypatch)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert read_state(tmp_path).end is End.STOPPED
    assert take_over(tmp_path) == Past(1, 0, End.STOPPED)


async def test_what_a_thread_computed_to_its_end_while_the_node_waits_keeps_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that leaves cannot end the thread in which it trains."""
    waiting, use = await begin_waiting(tmp_path, monkeypatch)
    allocate_vector(HUGE_PAGE_BYTES)
    assert tensor_allocator._spare
    for _ in range(500):
        if not tensor_allocator._spare:
            break
        await asyncio.sleep(0.01)
    assert not tensor_allocator._spare and not waiting.done()
    use.is_idle = True
    await waiting
