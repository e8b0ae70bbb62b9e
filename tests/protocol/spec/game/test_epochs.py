"""Epochs: a seat settles its part of one at once, and the ring of rounds goes on when all have settled the
oldest. Two rounds are an epoch here, but for the constants themselves."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.protocol.spec.game.test_posting import A, judge
from tests.protocol.spec.game.world import World, make_quiet_world, make_world, post, solver
from touchstone.protocol.spec.game import calls, epochs
from touchstone.protocol.spec.game.enums import ContestTurn, GameOutcome
from touchstone.protocol.spec.game.epochs import get_epoch, get_epoch_start, has_place
from touchstone.protocol.spec.game.events import SeatSettled
from touchstone.protocol.spec.game.open_questions import is_questioned
from touchstone.protocol.spec.game.reducer import fold
from touchstone.protocol.spec.game.settling import is_contested
from touchstone.protocol.spec.game.state import OpenAsk, RootContest, StatementRef
from touchstone.protocol.spec.game.terms import EPOCH_ROUNDS, RING_ROUNDS
from touchstone.protocol.spec.game.upkeep import list_upkeep
from touchstone.protocol.spec.statements import VoteWord


def test_the_ring_has_128_rounds_in_epochs_of_16() -> None:
    assert (EPOCH_ROUNDS, RING_ROUNDS) == (16, 128)
    assert [get_epoch(index) for index in (0, 15, 16, 31, 32)] == [0, 0, 1, 1, 2]
    assert get_epoch_start(3) == 48
    state = make_world().state
    assert has_place(state, 127) and not has_place(state, 128)
    freed = replace(state, freed_epochs=1)
    assert has_place(freed, 143) and not has_place(freed, 144)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(epochs, "EPOCH_ROUNDS", 2)
    monkeypatch.setattr(epochs, "RING_ROUNDS", 4)
    yield


def play_rounds(count: int, **changes: int) -> World:
    """Rounds that are judged and posted."""
    world = make_quiet_world(**{"rounds": 9, **changes})
    for index in range(count):
        judge(world, (A, A, A), index)
        assert post(world, (0, 1), (0, 1, 2), index) is None
    return world


def settle(world: World, number: int, until: int) -> str | None:
    return world.try_send(calls.SettleSeat(number, until), "x")


# --- Settling -----------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("small")
def test_a_seat_settles_its_whole_part_of_an_epoch() -> None:
    world = play_rounds(3)
    world.jump(5_000)
    assert settle(world, solver(0), 0) == "NotSettleable", "round 1 holds it too"
    assert settle(world, solver(0), 2) == "NotSettleable", "round 3 runs, in the next epoch"
    assert settle(world, solver(0), 1) is None
    world.send(calls.LetStand(3), "x")
    assert world.state.next_round == 4, "it was not dealt for long, so round 4 does not run"


@pytest.mark.usefixtures("small")
def test_a_later_round_without_the_seat_does_not_hold_it() -> None:
    world = make_quiet_world(rounds=9, solvers=4)
    judge(world, (A, A, A, A), 0)
    world.send(calls.LeaveSeat(solver(3)), "solver3")
    assert post(world, (0, 1, 2), (0, 1, 2, 3)) is None
    judge(world, (A, A, A, A), 1)
    assert post(world, (0, 1, 2), (0, 1, 2, 3), 1) is None
    judge(world, (A, A, A, A), 2)
    assert post(world, (0, 1, 2), (0, 1, 2, 3), 2) is None
    assert solver(3) in world.state.rounds[2].pool.solvers
    assert solver(3) not in world.state.rounds[3].pool.solvers, "of the same epoch"
    world.jump(5_000)
    assert settle(world, solver(3), 2) is None and settle(world, solver(2), 2) == "NotSettleable"


@pytest.mark.usefixtures("small")
def test_a_question_on_another_round_of_the_epoch_holds_the_seat() -> None:
    world = play_rounds(1)
    judge(world, (A, A, A), 1)
    world.send(calls.DisputeStatement(StatementRef(1, 0), 80), "whistle0")
    world.send(calls.HaltTask(), "submitter")
    assert post(world, (0, 1), (0, 1, 2), 1) is None
    world.jump(5_000)
    assert settle(world, solver(0), 1) == "NotSettleable" and settle(world, solver(1), 1) is None
    world.send(calls.EndDispute(0, outcome=GameOutcome.CLEARED), "x")
    assert settle(world, solver(0), 1) is None


@pytest.mark.usefixtures("small")
def test_contests_hold_epochs_from_theirs_on_and_none_before() -> None:
    world = play_rounds(3)
    world.send(calls.OpenContest(2, 300), "watcher")
    world.send(calls.AnswerContest(0), "solver2")
    world.jump(5_000)
    world.send(calls.LetStand(3), "x")
    assert settle(world, solver(0), 1) is None, "round 2 is of a later epoch"
    world.jump(10_000)
    assert settle(world, solver(0), 3) == "ContestRuns"
    world.send(calls.EndRootContest(0), "x")
    assert settle(world, solver(0), 3) is None


@pytest.mark.usefixtures("small")
def test_a_contest_holds_the_rounds_before_its_own_in_the_same_epoch() -> None:
    world = play_rounds(2)
    world.send(calls.OpenContest(1, 300), "watcher")
    world.send(calls.AnswerContest(0), "solver2")
    world.jump(5_000)
    assert settle(world, solver(0), 1) == "ContestRuns"


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("index", "until", "is_held"), [(0, 0, True), (1, 0, True), (2, 1, False), (1, 2, True)]
)
def test_what_is_open_holds_whole_epochs(index: int, until: int, is_held: bool) -> None:
    contest = RootContest(0, index, b"", 0, "watcher", ContestTurn.ANSWER, 0)
    ask = OpenAsk(1, StatementRef(index, 0, 0, 0), solver(0), VoteWord.ACCEPT, 0, "asker", 0)
    state = replace(make_world().state, contests={0: contest}, asks={1: ask})
    assert is_contested(state, until) == is_questioned(state, solver(0), until) == is_held


# --- The ring -----------------------------------------------------------------------------------------------
def settle_all(world: World, until: int) -> None:
    """Without waiting for their windows."""
    for number in list(world.state.seats):
        world.state = fold(world.state, SeatSettled(number, until), world.block)


@pytest.mark.usefixtures("small")
def test_a_pool_without_a_place_is_not_frozen_and_the_task_stands() -> None:
    world = play_rounds(3)
    assert set(world.state.pools) == {0, 1, 2, 3}
    judge(world, (A, A, A), 3)
    assert 4 not in world.state.pools and 5 not in world.state.pools
    assert post(world, (0, 1), (0, 1, 2), 3) is None
    assert world.state.next_round == 4, "the task stands"
    assert world.try_send(calls.StartRounds(), "x") == "RingFull"
    settle_all(world, 1)
    assert calls.FreeEpoch() in list_upkeep(world.state, world.block)
    world.send(calls.FreeEpoch(), "x")
    world.send(calls.StartRounds(), "x")
    assert {4, 5} <= set(world.state.pools)


@pytest.mark.usefixtures("small")
def test_no_pool_is_frozen_behind_one_that_is_not() -> None:
    world = play_rounds(2)
    judge(world, (A, A, A), 2)
    assert 4 not in world.state.pools, "no place when round 2 closed"
    settle_all(world, 1)
    world.send(calls.FreeEpoch(), "x")
    assert post(world, (0, 1), (0, 1, 2), 2) is None
    judge(world, (A, A, A), 3)
    assert set(world.state.pools) == {2, 3}, "there is a place for 5 now, but not for 4 before it"
    assert post(world, (0, 1), (0, 1, 2), 3) is None
    assert world.state.next_round == 4 and world.try_send(calls.StartRounds(), "x") is None


@pytest.mark.usefixtures("small")
def test_a_start_freezes_one_pool_where_the_second_has_no_place() -> None:
    world = make_world(rounds=9)
    world.state = replace(world.state, next_round=3)
    world.send(calls.StartRounds(), "x")
    assert set(world.state.pools) == {3}
    world.state = replace(world.state, start=None, pools={}, next_round=4)
    assert world.try_send(calls.StartRounds(), "x") == "RingFull"


@pytest.mark.usefixtures("small")
def test_an_epoch_is_freed_once_all_seats_have_settled_it() -> None:
    world = play_rounds(2)
    world.send(calls.OpenContest(1, 300), "watcher")
    assert world.try_send(calls.FreeEpoch(), "x") == "NotSettleable"
    settle_all(world, 1)
    assert world.try_send(calls.FreeEpoch(), "x") == "NotSettleable", "a contest is open"
    world.send(calls.AnswerContest(0), "solver2")
    world.jump(world.block + 11)
    world.send(calls.EndRootContest(0), "x")
    late = world.state.seats[solver(0)]
    world.state = replace(world.state, seats={**world.state.seats, solver(0): replace(late, settled=1)})
    assert world.try_send(calls.FreeEpoch(), "x") == "NotSettleable", "one has not settled round 1"
    settle_all(world, 1)
    world.send(calls.FreeEpoch(), "x")
    assert world.state.freed_epochs == 1 and set(world.state.rounds) == {2}
    assert world.try_send(calls.JudgeVotes(1), "x") == "RoundUnknown", "it is forgotten"
    for number in (solver(0), 99):
        assert world.try_send(calls.SettleSeat(number, 1), "x") == "RoundUnknown", "before anything else"
    assert world.try_send(calls.FreeEpoch(), "x") == "NotSettleable"
    settle_all(world, 3)
    assert world.try_send(calls.FreeEpoch(), "x") == "NotSettleable", "round 3 was not opened"
