"""Seats that are not heard of any more leave, unharmed: what counts as silence, and what does not."""

from typing import Any

from tests.kit.plays.collection import Plays
from tests.kit.world import World
from touchstone.protocol.spec.game.assignments import get_drawn_seat
from touchstone.protocol.spec.statements import VoteWord

PLAYS = Plays("silence")
ACCEPT = VoteWord.ACCEPT


def make_task(name: str, **changes: Any) -> World:
    """Returns a task of three solvers, six verifiers and two draws, whose first round runs."""
    least = {"least_whistleblowers": 3 if changes.get("late_chance") else 0, "least_verifiers": 6}
    world = World(name, **{"draws": 2, "rounds": 8, **least, **changes})
    world.solvers("ann", "bob", "cid")
    world.verifiers("vic", "wil", "xia", "yan", "zac", "una")
    if changes.get("late_chance"):
        world.whistleblowers("eve", "fay", "gus")
    world.starts()
    return world


def plays_without(world: World, *silent: str, signers: list[str] | None = None) -> None:
    """A round in which these solvers do not commit. signers: who signs its root, all where none are named."""
    names = [world.get_name(world.state.seats[number].account) for number in world.live.pool.solvers]
    for name in (name for name in names if name not in silent):
        world.anybody(name).commits()
    world.draws()
    world.all_accept()
    world.posts(signers=signers)


def plays_unheard(world: World, verifier: str) -> None:
    """A round in which a verifier does not vote: the reserves of its draw accept instead."""
    world.all_commit()
    world.draws()
    index = world.live.index
    world.comes_to((world.live.closed or 0) + 10)
    seat = world.get_seat(verifier).number
    for slot, draw in world.list_places(index):
        claimant = world.get_name(world.state.rounds[index].claims[slot].account)
        is_its = get_drawn_seat(world.state, world.state.rounds[index], slot, draw, 0) == seat
        for rank in (1, 2) if is_its else (0,):
            world.votes(claimant, ACCEPT, index=index, draw=draw, rank=rank)
    world.posts()


def list_missed(world: World, name: str, draw: int | None = None) -> list[tuple[int, int, int]]:
    """Returns the draws of all rounds whose primary a party is."""
    seat, found = world.get_seat(name).number, []
    for index in world.state.rounds:
        for place in world.list_places(index):
            drawn = get_drawn_seat(world.state, world.state.rounds[index], *place, 0)
            if drawn == seat and draw in (None, place[1]):
                found.append((index, *place))
    return found


@PLAYS.add
def a_solver_missed_three_rounds() -> World:
    """Named in order, since its last claim, and not more than were."""
    world = make_task("a solver missed three rounds")
    zoe = world.anybody("zoe")
    for index in range(3):
        if index == 2:
            with world.refuses("NotSilent"):
                zoe.marks_silent("cid", 0, 1, 2)
        plays_without(world, "cid")
    for missed in ((0, 1), (), (0, 1, 2, 3), (0, 0, 2), (1, 0, 2), (0, 1, 7)):
        with world.refuses("NotSilent"):
            zoe.marks_silent("cid", *missed)
    for wrong in ((0, (1, 1, 0), 2), (0, 1, (2, 0, 1))):
        with world.refuses("NotSilent"):
            zoe.marks_silent("cid", *wrong)
    with world.refuses("NotSilent"):
        zoe.marks_silent("bob", 0, 1, 2)
    with world.refuses("SeatUnknown"):
        zoe.marks_silent(1 << 16 | 3, 0, 1, 2)
    zoe.marks_silent("cid", 0, 1, 2)
    assert world.get_stake("cid") == 2_000, "unharmed"
    with world.refuses("SeatNotActive"):
        zoe.marks_silent("cid", 0, 1, 2)
    return world


@PLAYS.add
def no_solver_is_silent_while_a_contest_runs() -> World:
    """An honest one does not train on a wrong root; nor for `respond` after a contest was lost."""
    world = make_task("no solver is silent while a contest runs")
    for _ in range(3):
        plays_without(world, "cid")
    zoe = world.anybody("zoe")
    contest = zoe.contests(2)
    with world.refuses("NotSilent"):
        zoe.marks_silent("cid", 0, 1, 2)
    world.anybody("bob").answers_contest(contest)
    world.passes(11)
    zoe.ends_contest(contest)
    world.passes(10)
    with world.refuses("NotSilent"):
        zoe.marks_silent("cid", 0, 1, 2)
    world.passes()
    zoe.marks_silent("cid", 0, 1, 2)
    return world


@PLAYS.add
def a_close_comes_before_silence() -> World:
    """The pool after next is as it was in the closing block: a seat that is retired later sits in it."""
    world = make_task("a close comes before silence")
    for _ in range(3):
        plays_without(world, "cid")
    world.anybody("ann").commits()
    world.anybody("bob").commits()
    world.closes()
    world.passes()
    world.anybody("zoe").marks_silent("cid", 0, 1, 2)
    assert len(world.state.pools[5].solvers) == 3
    return world


@PLAYS.add
def a_solver_that_waits_is_silent_too() -> World:
    """A pool that does not hold the seat says nothing about it."""
    world = make_task("a solver that waits is silent too", solver_seats=3)
    for index in range(3):
        if index == 1:
            world.solver("larger", 3_000)
        plays_without(world, "cid")
    world.anybody("zoe").marks_silent("cid", 0, 1, 2)
    return world


@PLAYS.add
def a_claim_shows_that_a_seat_is_there() -> World:
    """A commitment since the first of the missed rounds."""
    world = make_task("a claim shows that a seat is there")
    for _ in range(3):
        plays_without(world, "cid")
    world.anybody("cid").commits()
    with world.refuses("NotSilent"):
        world.anybody("zoe").marks_silent("cid", 0, 1, 2)
    return world


@PLAYS.add
def a_verifier_missed_three_draws() -> World:
    """As a primary; a vote as a reserve shows that it is there."""
    world = make_task("a verifier missed three draws")
    zoe = world.anybody("zoe")
    for index in range(3):
        plays_unheard(world, "zac")
        if index == 1:
            with world.refuses("NotSilent"):
                zoe.marks_silent("zac", *list_missed(world, "zac"))
    missed = list_missed(world, "zac")
    assert len(missed) == 3
    wrong = [
        (missed[0], (3, *missed[1][1:]), missed[2]), (missed[0], (9, *missed[1][1:]), missed[2]),
        (missed[1], missed[0], missed[2]), (missed[0], missed[0], missed[2]),
        (missed[0], (*missed[1][:2], missed[1][2] ^ 1), missed[2]),
        (missed[0], (missed[1][0], 7, 0), missed[2]),
    ]  # fmt: skip
    for places in wrong:
        with world.refuses("NotSilent"):
            zoe.marks_silent("zac", *places)
    with world.refuses("NotSilent"):
        zoe.marks_silent("vic", *list_missed(world, "vic"))
    zoe.marks_silent("zac", *missed)
    return world


@PLAYS.add
def a_whistleblower_missed_three_late_draws() -> World:
    """A draw that nobody decided is over behind two audit_max."""
    world = make_task("a whistleblower missed three late draws", late_chance=1 << 16, rounds=4)
    for _ in range(4):
        world.plays_round()
    name = world.get_auditor(0, "ann", 2).name
    missed = [place for place in list_missed(world, name, 2) if place[0] < 3][:3]
    until = (world.state.rounds[3].closed or 0) + 60
    world.comes_to(until)
    with world.refuses("NotSilent"):
        world.anybody("zoe").marks_silent(name, *missed)
    world.passes()
    world.anybody("zoe").marks_silent(name, *missed)
    world.ends()
    return world


@PLAYS.add
def what_was_undone_is_no_silence() -> World:
    """Rounds that a fall undid ask nothing of anybody."""
    world = make_task("what was undone is no silence")
    world.solver("dan")
    plays_without(world, "cid")
    plays_without(world, "cid", signers=["ann", "bob"])
    plays_without(world, "cid", "dan")
    contest = world.anybody("zoe").contests(1)
    world.passes(11)
    world.anybody("zoe").ends_contest(contest)
    with world.refuses("NotSilent"):
        world.anybody("zoe").marks_silent("cid", 0, 1, 2)
    return world


@PLAYS.add
def undone_draws_are_no_silence() -> World:
    """Nor do draws of such rounds."""
    world = make_task("undone draws are no silence")
    for _ in range(3):
        plays_unheard(world, "zac")
    missed = list_missed(world, "zac")
    contest = world.anybody("zoe").contests(0)
    world.passes(11)
    world.anybody("zoe").ends_contest(contest)
    with world.refuses("NotSilent"):
        world.anybody("zoe").marks_silent("zac", *missed)
    return world
