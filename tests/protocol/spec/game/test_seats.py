"""Who joins, who waits for a place, and when a stake comes out."""

from collections.abc import Iterator
from dataclasses import replace

from tests.protocol.spec.game.world import (
    World,
    get_credit,
    make_world,
    solver,
)
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.enums import SeatRole, SeatStatus
from touchstone.protocol.spec.game.pools import find_seat, freeze_pool
from touchstone.protocol.spec.game.purse import BURNED, move_wei, stake_of
from touchstone.protocol.spec.game.state import compute_seat_id
from touchstone.protocol.spec.game.terms import AUDITOR_SEATS_MAX, SOLVER_SEATS_MAX
from touchstone.protocol.spec.game.timing import get_live_round


def join(world: World, account: str, wei: int, role: SeatRole = SeatRole.SOLVER) -> str | None:
    return world.try_send(calls.JoinSeat(role, wei), account)


def test_a_seat_takes_the_lowest_free_number_of_its_role_and_holds_its_stake() -> None:
    world = make_world(solvers=0, verifiers=0, whistleblowers=0)
    roles = {
        "a": SeatRole.SOLVER,
        "b": SeatRole.VERIFIER,
        "c": SeatRole.VERIFIER,
        "d": SeatRole.WHISTLEBLOWER,
    }
    for account, role in roles.items():
        assert join(world, account, 2_000, role) is None
    ids = {seat.account: number for number, seat in world.state.seats.items()}
    assert ids == {"a": 1 << 16, "b": 2 << 16, "c": 2 << 16 | 1, "d": 3 << 16}
    assert world.state.purse.get_wei(stake_of(1 << 16)) == 2_000
    world.send(calls.LeaveSeat(2 << 16), "b")
    assert join(world, "e", 500, SeatRole.VERIFIER) is None
    assert world.get_seat("e").number == 2 << 16 | 2, "a leaving seat holds its number"
    world.send(calls.PayOut(2 << 16), "x")
    assert join(world, "f", 500, SeatRole.VERIFIER) is None and world.get_seat("f").number == 2 << 16


def fill(role: SeatRole, count: int) -> World:
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


def test_a_leaving_solver_holds_its_number_until_it_is_paid_out() -> None:
    world = fill(SeatRole.SOLVER, SOLVER_SEATS_MAX)
    assert join(world, "new", 2_001) == "SeatsTaken"
    assert world.get_seat("member63").status == SeatStatus.OPEN, "so nobody is displaced"
    world.send(calls.LeaveSeat(solver(5)), "member5")
    assert join(world, "new", 2_000) == "SeatsTaken", "63 are open, 64 numbers are held"
    world.send(calls.PayOut(solver(5)), "x")
    assert join(world, "new", 2_000) is None and world.get_seat("new").number == solver(5)


# --- Credit -------------------------------------------------------------------------------------------------
# --- Joining ------------------------------------------------------------------------------------------------
def test_who_joins_and_leaves_before_a_freeze_pushes_nobody_out() -> None:
    """Accounts of one wei more join in one block, leave, are paid out and withdraw: it cost nothing, and
    every honest solver was out for days. A task that stood still so long could be closed by anybody."""
    world = make_world(solvers=4, rounds=4)
    world.plans = [flash]
    world.play()
    assert world.state.next_round == 4 and world.state.is_closed
    assert all(len(pool.solvers) == 4 for pool in world.pools.values())
    world.withdraw_all()
    for i in range(4):
        assert world.withdrawn[f"pest{i}"] == world.deposited[f"pest{i}"] >= 2_001
        assert world.get_gain(f"solver{i}") >= 4 * 100, "all four rounds are trained and paid"


def flash(world: World) -> Iterator[tuple[str, calls.GameCall]]:
    """In each block in which a round runs: all that a pest can do to the pool within it."""
    live = get_live_round(world.get_now())
    if live is None or live.closed is not None:
        return
    sent = {(sender, type(call)) for block, sender, call in world.acts if block == world.block}
    for pest in (f"pest{i}" for i in range(4)):
        seat = find_seat(world.state, pest)
        if seat is None and (pest, calls.JoinSeat) not in sent:
            yield pest, calls.JoinSeat(SeatRole.SOLVER, 2_001)
        elif seat is not None and seat.status == SeatStatus.OPEN:
            yield pest, calls.LeaveSeat(seat.number)
        elif seat is not None:
            yield pest, calls.PayOut(seat.number)


def test_a_waiting_seat_makes_room_where_all_numbers_are_held() -> None:
    """Else small stakes could hold all 64 numbers, and no larger one came in."""
    world = make_world(solvers=0, verifiers=0, whistleblowers=0)
    for i in range(SOLVER_SEATS_MAX):
        world.send(calls.JoinSeat(SeatRole.SOLVER, 2_000 + i), f"member{i}")
    assert join(world, "new", 9_000) == "SeatsTaken"
    assert world.try_send(calls.PayOut(solver(60)), "x") == "TaskRuns", "it sits"
    assert world.try_send(calls.PayOut(solver(59)), "x") is None and get_credit(world, "member59") == 2_059
    assert world.try_send(calls.PayOut(solver(58)), "x") == "TaskRuns", "there is room now"
    assert join(world, "new", 9_000) is None and world.get_seat("new").number == solver(59)


def test_verifier_seats_are_not_limited() -> None:
    world = make_world(solver_seats=1, solvers=1, verifiers=30)
    assert len(freeze_pool(world.state).verifiers) == 30


def test_a_seat_below_its_stake_does_not_sit_until_it_tops_up() -> None:
    world = make_world()
    number = world.get_seat("solver2").number
    world.state = replace(world.state, purse=move_wei(world.state.purse, stake_of(number), BURNED, 60))
    assert number not in freeze_pool(world.state).solvers, "a fee was taken"
    assert world.try_send(calls.TopUp(number, 60), "x") == "NotHolder"
    assert world.try_send(calls.TopUp(number, 0), "solver2") == "StakeWrong"
    world.send(calls.TopUp(number, 60), "solver2")
    assert number in freeze_pool(world.state).solvers
