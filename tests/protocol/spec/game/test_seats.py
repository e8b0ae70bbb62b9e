"""Who joins, who waits for a place, and when a stake comes out."""

from collections.abc import Iterator
from dataclasses import replace

from tests.protocol.spec.game.simulation import (
    Simulation,
    make_world,
)
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.enums import SeatRole, SeatStatus
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.state import compute_seat_id
from touchstone.protocol.spec.game.terms import AUDITOR_SEATS_MAX
from touchstone.protocol.spec.game.timing import get_live_round


def join(world: Simulation, account: str, wei: int, role: SeatRole = SeatRole.SOLVER) -> str | None:
    return world.try_send(calls.JoinSeat(role, wei), account)


def fill(role: SeatRole, count: int) -> Simulation:
    """A task of 64 solver seats in which `count` numbers of a role are held."""
    world = make_world(solvers=0, verifiers=0, whistleblowers=0, solver_seats=64)
    for i in range(count):
        world.send(calls.JoinSeat(role, 2_000), f"member{i}")
    return world


def test_all_numbers_of_auditors_can_be_taken() -> None:
    world = fill(SeatRole.VERIFIER, 1)
    seat = world.get_seat("member0")
    numbers = [compute_seat_id(SeatRole.VERIFIER, i) for i in range(AUDITOR_SEATS_MAX - 1)]
    seats = {number: replace(seat, number=number, account=str(number)) for number in numbers}
    world.state = replace(world.state, seats=seats)
    assert join(world, "last", 500, SeatRole.VERIFIER) is None
    assert world.get_seat("last").number == 2 << 16 | 1_023
    assert join(world, "new", 500, SeatRole.VERIFIER) == "SeatsTaken"
    assert join(world, "new", 500, SeatRole.WHISTLEBLOWER) is None, "the other role has its own"


# Joining
def test_who_joins_and_leaves_before_a_freeze_pushes_nobody_out() -> None:
    """Accounts of one wei more join in one block, leave, are paid out and withdraw: it cost nothing, and
    every honest solver was out for days. A task that was paused so long could be closed by anybody."""
    world = make_world(solvers=4, rounds=4)
    world.plans = [flash]
    world.play()
    assert world.state.next_round == 4 and world.state.is_closed
    assert all(len(pool.solvers) == 4 for pool in world.pools.values())
    world.withdraw_all()
    for i in range(4):
        assert world.withdrawn[f"pest{i}"] == world.deposited[f"pest{i}"] >= 2_001
        assert world.get_gain(f"solver{i}") >= 4 * 100, "all four rounds are trained and paid"


def flash(world: Simulation) -> Iterator[tuple[str, calls.GameCall]]:
    """In each block in which a round runs: all that a pest can do to the pool within it."""
    live = get_live_round(world.get_now())
    if live is None or live.closed is not None:
        return
    sent = {(sender, type(call)) for block, sender, call in world.acts if block == world.block}
    for pest in (f"pest{i}" for i in range(4)):
        seat = find_seat(world.state, pest)
        if seat is None and (pest, calls.JoinSeat) not in sent:
            yield pest, calls.JoinSeat(SeatRole.SOLVER, 2_001)
        elif seat is not None and seat.status == SeatStatus.ACTIVE:
            yield pest, calls.LeaveSeat(seat.number)
        elif seat is not None:
            yield pest, calls.PayOut(seat.number)
