"""Who joins, tops up and leaves, who waits for a place, and when a stake comes out."""

from typing import Any

from tests.kit.plays.collection import Plays
from tests.kit.world import World, make_place
from touchstone.protocol.spec.game.enums import ProofKind, SeatRole
from touchstone.protocol.spec.game.timing import get_duty_until
from touchstone.protocol.spec.statements import VoteWord

PLAYS = Plays("seats")
SOLVER, VERIFIER, WHISTLEBLOWER = SeatRole
MOST = 1 << 90
"""The greatest amount of the deployment."""


def make_seated(name: str, **changes: Any) -> World:
    """Returns a task with as many seats as its rounds need."""
    world = World(name, **changes)
    world.solvers("ann", "bob")
    world.verifiers("vic", "wil", "xia")
    return world


@PLAYS.add
def a_quiet_task() -> World:
    """Two rounds of honest work, to the last wei."""
    world = World("a quiet task", rounds=2)
    world.solvers("ann", "bob", "cid")
    world.verifiers("vic", "wil", "xia")
    world.starts()
    world.plays_round()
    world.plays_round()
    world.passes_duties()
    world.all_settle()
    assert world.get_credit("ann") == 200 and world.get_credit("vic") == 20
    world.ends()
    return world


@PLAYS.add
def a_seat_is_refused() -> World:
    """Too little stake, too much, no money, a second seat, a halted task."""
    world = World("a seat is refused")
    zoe, poor = world.anybody("zoe"), world.anybody("poor")
    with world.refuses("StakeWrong"):
        zoe.joins(SOLVER, 1_999)
    with world.refuses("StakeWrong"):
        zoe.joins(VERIFIER, MOST + 1)
    zoe.joins(VERIFIER, MOST)
    with world.refuses("AlreadySeated"):
        zoe.joins(SOLVER)
    poor.deposits(1_999)
    with world.refuses("CreditTooSmall"):
        poor.joins(SOLVER)
    world.send_refused("SeatUnknown", "poor", "Seats", "join", world.task, 0, 1_000)
    with world.refuses("NotSubmitter"):
        zoe.halts()
    world.submitter.halts()
    with world.refuses("TaskHalted"):
        poor.joins(VERIFIER)
    with world.refuses("TaskHalted"):
        world.submitter.halts()
    with world.refuses("TaskHalted"):
        world.starts()
    return world


@PLAYS.add
def a_stake_grows() -> World:
    """Only its holder adds to a stake, and not beyond the greatest amount."""
    world = World("a stake grows")
    ann, bob = world.solvers("ann", "bob")
    ann.tops_up(5)
    with world.refuses("StakeWrong"):
        ann.tops_up(0)
    ann.deposits(MOST)
    with world.refuses("StakeWrong"):
        ann.tops_up(MOST - 2_004)
    ann.tops_up(MOST - 2_005)
    with world.refuses("NotHolder"):
        bob.tops_up(1, seat=ann.seat)
    with world.refuses("SeatUnknown"):
        bob.tops_up(1, seat=bob.seat + 1)
    with world.refuses("CreditTooSmall"):
        bob.tops_up(1)
    return world


@PLAYS.add
def money_comes_and_goes() -> World:
    """Nothing is no deposit, and without credit there is nothing to withdraw."""
    world = World("money comes and goes")
    zoe = world.anybody("zoe")
    with world.refuses("NothingMoved"):
        zoe.deposits(0)
    with world.refuses("NothingMoved"):
        zoe.withdraws()
    zoe.deposits(7)
    zoe.withdraws()
    return world


@PLAYS.add
def all_rounds_are_used() -> World:
    """Once the last round is opened nobody joins, and no round is started."""
    world = make_seated("all rounds are used", rounds=1)
    world.starts()
    zoe = world.anybody("zoe")
    with world.refuses("TaskOver"):
        zoe.joins(SOLVER)
    world.plays_round()
    with world.refuses("TaskOver"):
        world.starts()
    world.ends()
    return world


@PLAYS.add
def a_task_that_nobody_started() -> World:
    """After `dispute` blocks without a round it is over: it cannot be joined, and closes."""
    world = World("a task that nobody started")
    world.solver("ann")
    world.passes(199)
    world.solver("bob")
    with world.refuses("TaskRuns"):
        world.closes_task()
    with world.refuses("TaskRuns"):
        world.submitter.pays_out("ann")
    world.passes()
    world.submitter.pays_out("ann")
    with world.refuses("TaskOver"):
        world.solver("cid")
    world.submitter.pays_out("bob")
    world.closes_task()
    assert world.get_credit("submitter") > 0
    return world


@PLAYS.add
def a_start_makes_a_task_run_again() -> World:
    """A task that is over can be started, and then be joined again."""
    world = make_seated("a start makes a task run again")
    world.passes(200)
    world.asks_for_start()
    world.solver("late")
    return world


@PLAYS.add
def a_smaller_stake_waits() -> World:
    """Four places: who brings more than the smallest takes its place, and gives it back by leaving."""
    world = World("a smaller stake waits")
    for name, wei in {"ann": 2_100, "bob": 2_050, "cid": 2_000, "dan": 2_300}.items():
        world.solver(name, wei)
    world.verifiers("vic", "wil", "xia")
    with world.refuses("SeatsTaken"):
        world.solver("eve", 2_000)
    eve = world.solver("eve", 2_001)
    with world.refuses("TaskRuns"):
        world.submitter.pays_out("cid")
    eve.leaves()
    world.solver("fay", 2_060)
    world.anybody("cid").tops_up(100)
    world.starts()
    assert world.get_slot("cid", 0) == 1, "bob waits"
    world.plays_round()
    return world


@PLAYS.add
def a_seat_leaves() -> World:
    """It serves in pools that were frozen before, then its stake is paid out, by anybody."""
    world = World("a seat leaves", rounds=3)
    ann, bob, cid = world.solvers("ann", "bob", "cid")
    world.verifiers("vic", "wil", "xia")
    world.starts()
    with world.refuses("NotHolder"):
        ann.leaves(seat=cid.seat)
    with world.refuses("SeatUnknown"):
        ann.leaves(seat=cid.seat + 1)
    cid.leaves()
    with world.refuses("SeatNotActive"):
        cid.leaves()
    with world.refuses("SeatNotActive"):
        cid.tops_up(1)
    with world.refuses("SeatBusy"):
        world.submitter.pays_out("cid")
    for _ in range(3):
        world.plays_round()
    assert len(world.state.rounds[1].pool.solvers) == 3, "frozen before"
    assert len(world.state.rounds[2].pool.solvers) == 2, "frozen behind"
    world.passes_duties()
    with world.refuses("NotSettleable"):
        world.settles("cid", 0)
    world.settles("cid", 1)
    with world.refuses("SeatUnknown"):
        world.submitter.pays_out(cid.seat + 1)
    world.submitter.pays_out("cid")
    assert world.get_credit("cid") == 2_200, "its stake and two rounds"
    world.ends()
    return world


@PLAYS.add
def a_seat_that_is_asked_stays() -> World:
    """While a query or a dispute of a seat is open, its stake does not come out."""
    world = make_seated("a seat that is asked stays", rounds=1)
    world.starts()
    world.plays_round()
    zoe = world.anybody("zoe")
    vic = world.get_name(world.state.seats[world.get_drawn(0, "ann")].account)
    until = get_duty_until(world.state, world.state.rounds[0])
    assert until is not None
    world.comes_to(until - 3)
    query = zoe.queries(make_place(world, 0, "ann"))
    with world.refuses("SeatBusy"):
        zoe.pays_out(vic)
    world.passes_duties()
    with world.refuses("NotSettleable"):
        world.settles(vic, 0)
    world.anybody(vic).answers_query(query)
    world.ends()
    return world


@PLAYS.add
def an_open_seat_comes_out_once_the_task_is_over() -> World:
    """Halted, played to the end and settled: no other seat is paid out before."""
    world = make_seated("an open seat comes out once the task is over")
    world.starts()
    with world.refuses("TaskRuns"):
        world.submitter.pays_out("vic")
    world.submitter.halts()
    world.plays_round()
    with world.refuses("SeatBusy"):
        world.submitter.pays_out("vic")
    world.passes_duties()
    world.settles("vic", 0)
    world.submitter.pays_out("vic")
    world.ends()
    return world


@PLAYS.add
def a_payment_records_the_close() -> World:
    """A seat that never sat is paid out while a round runs; the call closes the round that is due."""
    world = World("a payment records the close")
    ann, bob, _ = world.solvers("ann", "bob", "cid")
    world.verifiers("vic", "wil", "xia")
    world.starts()
    late = world.verifier("late")
    late.leaves()
    ann.commits()
    bob.commits()
    world.closes()
    world.passes()
    world.submitter.pays_out("late")
    assert world.state.rounds[0].closed == world.state.rounds[0].opened + 40
    return world


@PLAYS.add
def a_pool_is_frozen_with_the_close() -> World:
    """Who joins behind a closing block is not in the pool after next, though nobody has recorded it."""
    world = World("a pool is frozen with the close", solver_seats=3)
    ann, bob, _ = world.solvers("ann", "bob", "cid")
    world.verifiers("vic", "wil", "xia")
    world.starts()
    ann.commits()
    bob.commits()
    world.closes()
    world.passes()
    larger = world.solver("larger", 3_000)
    world.draws()
    world.all_accept()
    world.posts()
    assert larger.seat not in world.state.pools[2].solvers
    return world


@PLAYS.add
def a_larger_stake_comes_behind_a_frozen_pool() -> World:
    """Who waits and adds to its stake behind a closing block takes nobody's place in the pool after next."""
    world = World("a larger stake comes behind a frozen pool", solver_seats=3)
    ann, bob, _ = world.solvers("ann", "bob", "cid")
    world.verifiers("vic", "wil", "xia")
    world.starts()
    waiting = world.solver("waiting", 2_500)
    cid = world.anybody("cid")
    cid.tops_up(1_000)
    for one in (ann, bob):
        one.tops_up(1_000)
    ann.commits()
    bob.commits()
    world.closes()
    world.passes()
    waiting.tops_up(1_000)
    world.draws()
    world.all_accept()
    world.posts()
    assert waiting.seat not in world.state.pools[2].solvers
    return world


@PLAYS.add
def a_start_holds_its_seats_until_it_lapses() -> World:
    """Pools of a start hold a seat for as long as the start can be sealed."""
    world = make_seated("a start holds its seats until it lapses")
    world.asks_for_start()
    world.anybody("vic").leaves()
    assert world.state.start is not None
    world.comes_to(world.state.start.beacon_block + 200)
    with world.refuses("SeatBusy"):
        world.submitter.pays_out("vic")
    with world.refuses("StartPending"):
        world.asks_for_start()
    world.passes()
    world.submitter.pays_out("vic")
    with world.refuses("OutsideWindow"):
        world.seals_start()
    return world


@PLAYS.add
def a_halted_start_holds_nobody() -> World:
    """No start is sealed after a halt, so its pools hold nobody."""
    world = make_seated("a halted start holds nobody")
    world.asks_for_start()
    world.anybody("vic").leaves()
    world.submitter.halts()
    world.submitter.pays_out("vic")
    world.passes(3)
    with world.refuses("TaskHalted"):
        world.seals_start()
    return world


@PLAYS.add
def a_convicted_seat_makes_room() -> World:
    """The number of a convicted seat is free once it is paid out; its stake is gone."""
    world = World("a convicted seat makes room")
    ann, bob, cid = world.solvers("ann", "bob", "cid")
    world.verifiers("vic", "wil", "xia")
    world.starts()
    number = ann.seat
    ann.commits(fault="start")
    bob.commits()
    cid.commits()
    zoe = world.anybody("zoe")
    zoe.convicts(make_place(world, 0, "ann", draw=None), ProofKind.BOUNDARY_ZERO)
    with world.refuses("SeatBusy"):
        zoe.pays_out("ann")
    with world.refuses("SeatNotActive"):
        ann.leaves()
    world.draws()
    world.all_accept()
    world.posts(merged=["bob", "cid"])
    world.all_commit()
    world.closes()
    world.passes(10)
    world.stands()
    world.submitter.halts()
    world.closes()
    world.stands()
    world.passes_duties()
    world.all_settle()
    zoe.pays_out("ann")
    assert number not in world.state.seats
    world.ends()
    return world


@PLAYS.add
def numbers_of_convicted_seats_are_used_again() -> World:
    """Two solvers and two verifiers are convicted, one of each is paid out: who takes its number sits, claims
    and votes; the other number is not free."""
    world = World("numbers of convicted seats are used again", windows={"dispute": 800}, solver_seats=5)
    ann, bob, cid = world.solvers("ann", "bob", "cid")
    world.verifiers("vic", "wil", "xia")
    world.starts()
    for one in (ann, bob):
        one.commits(fault="start")
    cid.commits()
    zoe = world.anybody("zoe")
    for name in ("ann", "bob"):
        zoe.convicts(make_place(world, 0, name, draw=None), ProofKind.BOUNDARY_ZERO)
    world.draws()
    auditors = {name: world.get_auditor(0, name) for name in ("ann", "bob", "cid")}
    for name in ("ann", "bob"):
        zoe.convicts(make_place(world, 0, name), ProofKind.TWO_STATEMENTS)
    world.votes("cid", VoteWord.ACCEPT)
    world.posts(merged=["cid"])
    assert world.is_paused, "one solver is too few"
    with world.refuses("PoolTooSmall"):
        world.asks_for_start()
    world.passes_duties()
    world.all_settle()
    for gone, role in ((ann, SOLVER), (auditors["ann"], VERIFIER)):
        number = gone.seat
        zoe.pays_out(number)
        new = world._seated(role, f"new {role.name}", None)
        assert new.seat == number, "the number of a convicted seat"
        newer = world._seated(role, f"newer {role.name}", None)
        assert newer.seat == world.get_seat("cid" if role == SOLVER else "xia").number + 1, (
            "the other is not free"
        )
    world.starts()
    world.plays_round()
    assert len(world.state.rounds[1].merged) == 3
    return world


@PLAYS.add
def solvers_take_all_numbers() -> World:
    """Of 64 numbers four are places: a larger stake has no number before the smallest one that waits is paid
    out; no other can be."""
    world = World("solvers take all numbers")
    names = [f"solver {number}" for number in range(64)]
    for number, name in enumerate(names):
        world.solver(name, 2_000 + number)
    with world.refuses("SeatsTaken"):
        world.solver("larger", 5_000)
    for waiting in (60, 63):
        with world.refuses("TaskRuns"):
            world.submitter.pays_out(names[waiting])
    number = world.get_seat(names[59]).number
    world.submitter.pays_out(names[59])
    with world.refuses("TaskRuns"):
        world.submitter.pays_out(names[58])
    assert world.solver("larger", 5_000).seat == number, "the free number"
    return world


@PLAYS.add
def all_numbers_are_places() -> World:
    """64 places: who left gives its number back once it is paid out, and not before."""
    world = World("all numbers are places", solver_seats=64)
    solvers = [world.solver(f"solver {number}") for number in range(64)]
    with world.refuses("SeatsTaken"):
        world.solver("late", 2_000)
    number = solvers[62].seat
    solvers[62].leaves()
    with world.refuses("SeatsTaken"):
        world.solver("late", 2_000)
    world.submitter.pays_out(number)
    assert world.solver("late", 2_000).seat == number, "the free number"
    return world


def make_full(name: str) -> World:
    """Returns a task whose four places are taken, by stakes of 2,000, 2,100, 2,000 and 2,300."""
    world = World(name)
    for member, wei in {"ann": 2_000, "bob": 2_100, "cid": 2_000, "dan": 2_300}.items():
        world.solver(member, wei)
    world.verifiers("vic", "wil", "xia")
    return world


def require_pool(world: World, *names: str) -> None:
    """Fails unless these solvers sit in round 0."""
    found = {world.get_name(world.state.seats[number].account) for number in world.state.pools[0].solvers}
    assert found == set(names), found


@PLAYS.add
def of_equal_stakes_the_highest_number_waits() -> World:
    """A larger one has come: of two smallest the one with the higher number makes room."""
    world = make_full("of equal stakes the highest number waits")
    world.solver("eve", 2_001)
    world.starts()
    require_pool(world, "ann", "bob", "dan", "eve")
    return world


@PLAYS.add
def who_waits_sits_again() -> World:
    """Once the larger one has left before the freeze."""
    world = make_full("who waits sits again")
    world.solver("eve", 2_001).leaves()
    world.starts()
    require_pool(world, "ann", "bob", "cid", "dan")
    return world


@PLAYS.add
def who_adds_to_its_stake_sits() -> World:
    """Another one waits in its place."""
    world = make_full("who adds to its stake sits")
    world.solver("eve", 2_050)
    world.anybody("cid").tops_up(100)
    world.starts()
    require_pool(world, "bob", "cid", "dan", "eve")
    return world


@PLAYS.add
def a_pool_is_frozen_anew() -> World:
    """A start lapsed; a larger stake since then is in the pools of the next one."""
    world = make_full("a pool is frozen anew")
    world.solver("eve", 2_050)
    world.anybody("cid").tops_up(100)
    world.asks_for_start()
    require_pool(world, "bob", "cid", "dan", "eve")
    world.passes(300)
    world.anybody("ann").tops_up(100)
    world.starts()
    require_pool(world, "ann", "bob", "cid", "dan")
    return world
