"""What holds a stake, beside what the machine refuses to pay out; and until when."""

from dataclasses import replace

from tests.protocol.spec.game.simulation import Simulation, check_game_call, make_quiet_world, post
from tests.protocol.spec.game.test_posting import make_judged
from tests.protocol.spec.game.test_settling import SETTLE
from touchstone.protocol.adapters.chain.pace import Pace
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.enums import GameOutcome, SeatStatus
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.game.upkeep import list_upkeep
from touchstone.scripts.money.holdings import Holding, describe_release, find_holding


def hold(world: Simulation, account: str) -> Holding:
    seat = find_seat(world.state, account)
    assert seat is not None
    return find_holding(world.state, seat, Pace(world.block, None))


def pay_all(world: Simulation, account: str) -> str | None:
    """Settle and pay out the seat in the next block; the refusal of the latter, None where it passes."""
    number = world.get_seat(account).number
    world.jump(world.block + 1)
    for call in list_upkeep(world.state, world.block):
        if isinstance(call, calls.SettleSeat) and call.seat == number:
            world.send(call, "x")
    refusal = check_game_call(world.state, calls.PayOut(number), "x", world.block)
    return None if refusal is None else refusal.name


def test_an_open_seat_is_held_by_itself_and_by_its_rounds() -> None:
    world = make_quiet_world(rounds=3)
    held = hold(world, "solver0")
    assert held.stake_wei == 2_000
    assert "touchstone leave" in held.held_by[0] and "training" in held.held_by[0]
    assert "round 0 has no root yet" in held.held_by
    assert "round 1 is to come, and its pool is frozen" in held.held_by
    world.send(calls.LeaveSeat(world.get_seat("solver0").number), "solver0")
    assert not any("touchstone leave" in line for line in hold(world, "solver0").held_by)
    assert pay_all(world, "solver0") == "SeatBusy"


def test_a_stake_is_held_to_the_last_block_in_which_it_can_be_questioned() -> None:
    world = make_judged(rounds=1)
    post(world, (0, 1), (0, 1, 2))
    [line] = hold(world, "solver0").held_by
    until = int(line.rsplit(" ", 1)[1])
    assert line == f"round 0, until block {until}" and until >= SETTLE - 1
    world.jump(until - 1)
    assert hold(world, "solver0").held_by and pay_all(world, "solver0") == "SeatBusy"
    assert not hold(world, "solver0").held_by
    assert describe_release(hold(world, "solver0")) == "now: touchstone withdraw"
    assert pay_all(world, "solver0") is None


def test_of_many_rounds_that_hold_a_stake_the_last_one_to_be_over_is_told() -> None:
    world = make_judged(rounds=1)
    post(world, (0, 1), (0, 1, 2))
    first = world.state.rounds[0]
    assert first.closed is not None
    rounds = {index: replace(first, index=index, closed=first.closed + index) for index in range(4)}
    [line] = find_holding(
        replace(world.state, rounds=rounds), world.get_seat("solver0"), Pace(world.block, None)
    ).held_by
    [alone] = hold(world, "solver0").held_by
    until = int(alone.rsplit(" ", 1)[1])
    assert line == f"rounds 0 to 3, until block {until + 3}"


def test_an_open_dispute_holds_the_stake_longer() -> None:
    world = make_judged(rounds=1)
    post(world, (0, 1), (0, 1, 2))
    world.jump(world.block + 100)
    world.send(calls.DisputeStatement(StatementRef(0, 0), 80), "whistle0")
    clock = world.state.disputes[0].clock
    assert f"a question on round 0, until block {clock}" in hold(world, "solver0").held_by
    world.send(calls.EndDispute(0, outcome=GameOutcome.CONVICTED), "x")
    held = hold(world, "solver0")
    assert held.stake_wei == 0 and held.held_by == ("it was convicted: there is nothing left",)


def test_who_never_sat_is_free_once_it_has_left() -> None:
    world = make_quiet_world(rounds=3)
    world.send(calls.JoinSeat(world.get_seat("solver0").role, 2_000), "late")
    assert len(hold(world, "late").held_by) == 1
    world.send(calls.LeaveSeat(world.get_seat("late").number), "late")
    assert not hold(world, "late").held_by and pay_all(world, "late") is None


def test_a_contest_holds_the_seats_of_its_epoch() -> None:
    world = make_judged(rounds=1)
    post(world, (0, 1), (0, 1, 2))
    before = len(hold(world, "solver2").held_by)
    world.send(calls.OpenContest(0, 300), "whistle0")
    found = hold(world, "solver2").held_by
    assert len(found) == before + 1 and "a contest of round 0" in found[-1]


def test_the_machine_remembers_a_convicted_seat_that_is_paid_out() -> None:
    """So that a service does not stake again for it (`scripts/wallet.refuse_unasked`)."""
    world = make_judged(rounds=1)
    post(world, (0, 1), (0, 1, 2))
    world.jump(world.block + 100)
    world.send(calls.DisputeStatement(StatementRef(0, 0), 80), "whistle0")
    number = world.get_seat("solver0").number
    world.send(calls.EndDispute(0, outcome=GameOutcome.CONVICTED), "x")
    world.jump(world.block + SETTLE)
    for call in list_upkeep(world.state, world.block):
        if isinstance(call, calls.SettleSeat) and call.seat == number:
            world.send(call, "x")
    world.send(calls.PayOut(number), "x")
    seat = world.state.former[number]
    assert (seat.account, seat.status) == ("solver0", SeatStatus.CONVICTED)
