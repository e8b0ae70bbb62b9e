"""Who joins, who is displaced, who is silent, and when a stake comes out."""

import pytest

from protocol.spec.game import calls
from protocol.spec.game.drawing import get_drawn_seat
from protocol.spec.game.enums import SeatRole, SeatStatus
from protocol.spec.game.pools import freeze_pool
from protocol.spec.game.purse import credit_of, stake_of
from protocol.spec.game.seats import count_silences
from protocol.spec.statements import VoteWord
from tests.protocol.spec.game.world import (
    SUBMITTER,
    World,
    commit,
    make_quiet_world,
    make_world,
    seal_draw,
    vote,
)


def join(world: World, account: str, wei: int, role: SeatRole = SeatRole.SOLVER) -> str | None:
    return world.try_send(calls.JoinSeat(role, wei), account)


def test_a_seat_takes_the_lowest_free_number_and_holds_its_stake() -> None:
    world = make_world(solvers=0, verifiers=0, whistleblowers=0)
    assert join(world, "a", 2_000) is None and join(world, "b", 500, SeatRole.VERIFIER) is None
    assert [world.state.seats[n].account for n in (0, 1)] == ["a", "b"]
    assert world.state.purse.get_wei(stake_of(0)) == 2_000


@pytest.mark.parametrize(
    ("account", "wei", "name"),
    [("solver0", 2_000, "AlreadySeated"), ("new", 1_999, "StakeWrong"), ("new", (1 << 90) + 1, "StakeWrong")],
)
def test_joining_is_refused(account: str, wei: int, name: str) -> None:
    assert join(make_world(), account, wei) == name


def test_nobody_joins_a_halted_task() -> None:
    world = make_world()
    assert world.try_send(calls.HaltTask(), "x") == "NotSubmitter"
    world.send(calls.HaltTask(), SUBMITTER)
    assert join(world, "new", 2_000) == "TaskHalted"
    assert world.try_send(calls.HaltTask(), SUBMITTER) == "TaskHalted"


def test_a_larger_stake_displaces_the_smallest_solver_unharmed() -> None:
    world = make_world(solvers=4)
    world.send(calls.TopUp(0, 5), "solver0")
    assert join(world, "new", 2_000) == "SeatsTaken"
    assert join(world, "new", 2_001) is None
    statuses = {seat.account: seat.status for seat in world.state.seats.values()}
    assert statuses["solver3"] == SeatStatus.LEAVING, "of equal stakes the highest number goes"
    assert statuses["solver0"] == statuses["new"] == SeatStatus.OPEN
    world.send(calls.PayOut(world.get_seat("solver3").number), "x")
    assert world.state.purse.get_wei(credit_of("solver3")) == 2_000


def test_verifier_seats_are_not_limited() -> None:
    world = make_world(solver_seats=1, solvers=1, verifiers=30)
    assert len(freeze_pool(world.state).verifiers) == 30


def test_a_seat_below_its_stake_does_not_sit_until_it_tops_up() -> None:
    world = make_quiet_world(rounds=1)
    number = world.get_seat("solver2").number
    commit(world, "solver0"), commit(world, "solver1")
    world.play(until=lambda w: w.state.purse.get_wei(stake_of(number)) == 1_940)
    assert number not in freeze_pool(world.state).solvers, "the fee of DROPPED was taken"
    assert world.try_send(calls.TopUp(number, 60), "x") == "NotOwner"
    assert world.try_send(calls.TopUp(number, 0), "solver2") == "StakeWrong"
    world.send(calls.TopUp(number, 60), "solver2")
    assert number in freeze_pool(world.state).solvers


def test_a_leaving_seat_must_still_serve_the_pools_frozen_before() -> None:
    world = make_quiet_world()
    number = world.get_seat("solver1").number
    assert world.try_send(calls.LeaveSeat(number), "solver0") == "NotOwner"
    world.send(calls.LeaveSeat(number), "solver1")
    assert world.try_send(calls.LeaveSeat(number), "solver1") == "SeatClosed"
    assert world.try_send(calls.PayOut(number), "x") == "SeatBusy"
    assert commit(world, "solver1") is None, "it sits in round 0"
    assert number in world.state.pools[1].solvers, "and in round 1, frozen at the start"
    commit(world, "solver0"), commit(world, "solver2")
    world.jump(world.block + 1)
    assert number not in world.get_now().pools[2].solvers


def test_an_open_seat_is_not_paid_out_while_the_task_runs() -> None:
    assert make_world().try_send(calls.PayOut(0), "x") == "TaskRuns"


def test_a_solver_is_silent_after_three_missed_rounds() -> None:
    world = make_quiet_world(rounds=6)
    number = world.get_seat("solver2").number
    for index in range(3):
        assert world.try_send(calls.MarkSilent(number), "x") == "NotSilent"
        world.play(until=lambda w, i=index: i in w.state.rounds)  # type: ignore[misc]
        commit(world, "solver0", index), commit(world, "solver1", index)
        world.silenced = {"keeper": world.block, "other keeper": world.block}
        world.jump(world.block + 41)
        assert count_silences(world.get_now(), world.get_seat("solver2"), world.block) == index + 1
        world.silenced = {}
        if index < 2:
            world.play(until=lambda w, i=index: i + 1 in w.state.rounds)  # type: ignore[misc]
    world.send(calls.MarkSilent(number), "x")
    assert world.get_seat("solver2").status == SeatStatus.LEAVING
    assert world.try_send(calls.MarkSilent(0), "x") == "NotSilent", "who commits is not silent"


def test_an_auditor_is_silent_after_three_draws_and_a_vote_clears_it() -> None:
    world = make_quiet_world(solvers=4, verifiers=3, draws=1)
    for i in range(4):
        commit(world, f"solver{i}")
    seal_draw(world)
    primary = {slot: get_primary(world, slot) for slot in range(4)}
    assert primary[0] == primary[3], "four claims, three verifiers"
    seat = world.state.seats[primary[0]]
    assert count_silences(world.state, seat, world.block) == 0
    closed = world.state.rounds[0].closed
    assert closed is not None
    world.jump(closed + 61)
    assert count_silences(world.get_now(), seat, world.block) == 2
    assert world.try_send(calls.MarkSilent(seat.number), "x") == "NotSilent"


def get_primary(world: World, slot: int) -> int:
    from_round = world.state.rounds[0]
    return next(n for n in from_round.pool.verifiers if is_primary(world, n, slot))


def is_primary(world: World, number: int, slot: int) -> bool:
    return get_drawn_seat(world.state, world.state.rounds[0], slot, 0, 0) == number


def test_a_counted_vote_clears_the_silences_before_it() -> None:
    world = make_quiet_world(solvers=4, verifiers=3, rounds=6)
    for i in range(4):
        commit(world, f"solver{i}")
    seal_draw(world)
    seat = world.state.seats[get_primary(world, 0)]
    closed = world.state.rounds[0].closed or 0
    world.jump(closed + 10)
    for rank in (1, 2):
        assert vote(world, 0, 0, rank, VoteWord.ACCEPT)
    assert count_silences(world.state, seat, world.block) == 1, "decided without its word"
    world.jump(closed + 11)
    assert vote(world, 3, 0, 0, VoteWord.ACCEPT)
    assert count_silences(world.state, world.state.seats[seat.number], world.block) == 0


def test_unknown_seats_are_refused() -> None:
    world = make_world()
    for call in (calls.MarkSilent(99), calls.PayOut(99), calls.LeaveSeat(99), calls.SettleSeat(99, 0)):
        assert world.try_send(call, "x") == "SeatUnknown"


def test_only_credit_is_withdrawn() -> None:
    assert make_world().try_send(calls.WithdrawCredit(), "solver0") == "NothingOpen"
