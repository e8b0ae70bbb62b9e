"""Who waits for another's contest of a wrong root is not marked silent when that one is lost (0031)."""

from dataclasses import replace

from tests.protocol.spec.game.simulation import (
    Simulation,
    commit,
    make_quiet_world,
    make_word,
    post,
    seal_draw,
    solver,
    vote,
)
from tests.protocol.spec.game.test_posting import A, judge
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.enums import RoundPhase, SeatStatus
from touchstone.protocol.spec.game.presets import WINDOWS_LOCAL
from touchstone.protocol.spec.game.silence import is_missed
from touchstone.protocol.spec.game.state import MissedPlace

RESPOND = 30
HONEST = "solver2"
MISSED = tuple(MissedPlace(index) for index in (1, 2, 3))


def make_forged() -> Simulation:
    """solver0 and solver1 post a wrong root of round 0, a friend contests it at once and answers itself. The
    honest one does not train on it, and waits for what comes of the contest (13.3). Rounds 1 to 3 pass."""
    windows = replace(WINDOWS_LOCAL, respond=RESPOND)
    assert windows.dispute >= 2 * 2 * RESPOND, "terms that a deployment allows"
    world = make_quiet_world(rounds=8, windows=windows)
    judge(world, (A, A, A), 0)
    assert post(world, (0, 1), (0, 1, 2), root=make_word("wrong")) is None
    world.send(calls.OpenContest(0, 300), "friend")
    turns = [calls.AnswerContest(0), calls.NameChild(0, 1), calls.AnswerContest(0), calls.NameChild(0, 1)]
    blocks = {1: (130,), 2: (158, 184), 3: (213,)}
    for index in (1, 2, 3):
        assert commit(world, "solver0", index) is None and commit(world, "solver1", index) is None
        for block in blocks[index]:
            world.jump(block)
            world.send(turns.pop(0), "friend")
        if index < 3:
            seal_draw(world, index)
            assert vote(world, 0, 0, 0, A, index) and vote(world, 1, 0, 0, A, index)
            assert post(world, (0, 1), (0, 1), index) is None
    world.jump(world.state.rounds[3].opened + WINDOWS_LOCAL.train_min + 1)
    until = world.state.rounds[0].root_until
    assert world.block < until - 2 * RESPOND, "before this a node waits while somebody else contests"
    assert world.try_send(calls.MarkSilent(solver(2), MISSED), "friend") == "NotSilent", "a contest runs"
    return world


def end_and_mark(world: Simulation) -> str | None:
    """The friend named a leaf that is right and brings it: the contest ends in the block of its choice."""
    world.send(calls.BringLeaf(0), "friend")
    assert world.state.rounds[0].phase == RoundPhase.POSTED and not world.state.contests
    return world.try_send(calls.MarkSilent(solver(2), MISSED), "friend")


def fell(world: Simulation) -> None:
    """The honest one contests in the next block, and the root falls: nobody can answer for it."""
    world.jump(world.block + 1)
    world.send(calls.OpenContest(0, 300), HONEST)
    world.jump(world.block + RESPOND + 1)
    world.send(calls.EndRootContest(max(world.state.contests)), "x")
    assert world.state.rounds[0].phase == RoundPhase.FALLEN


def test_nobody_is_silent_who_waited_for_anothers_contest_of_a_wrong_root() -> None:
    assert end_and_mark(make_forged()) == "NotSilent"


def test_the_honest_rest_goes_on_after_a_fall() -> None:
    """least_solvers is 1: with the honest seat open the task starts again."""
    world = make_forged()
    end_and_mark(world)
    fell(world)
    seat = world.state.seats[solver(2)]
    assert not any(is_missed(world.state.rounds[r], seat) for r in (1, 2, 3)), "undone: no fee"
    assert post(world, (2,), (2,)) is None
    assert world.try_send(calls.StartRounds(), "x") is None
    assert world.get_seat(HONEST).status == SeatStatus.ACTIVE
