"""How storage of old rounds is used again: 128 rounds have places, and 16 at once are freed."""

from typing import Any

from tests.kit.played_task import STRANGER
from tests.kit.plays.collection import Plays
from tests.kit.plays.rounds import make_running
from tests.kit.world import World, make_place
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.enums import ProofKind, SeatRole
from touchstone.protocol.spec.game.round_pay import sum_audits
from touchstone.protocol.spec.game.timing import get_duty_until
from touchstone.protocol.spec.statements import VoteWord

PLAYS = Plays("ring")
RING, EPOCH = 128, 16


def make_long(name: str, rounds: int, **changes: Any) -> World:
    """Returns a task of so many rounds, in which nobody has to commit."""
    amounts = {"dropped_fee": 0, **changes.pop("amounts", {})}
    return make_running(name, rounds=rounds, amounts=amounts, **changes)


def skips(world: World, to: int) -> None:
    """Nobody commits to the rounds before `to`."""
    while not world.is_paused and world.live.index < to:
        world.runs_out()


def frees(world: World) -> None:
    """The oldest epoch is freed."""
    world.send(calls.FreeEpoch(), STRANGER)


def settles_epoch(world: World, epoch: int) -> None:
    """The clock comes to where an epoch can be settled, and all settle it."""
    last = EPOCH * (epoch + 1) - 1
    for index in range(EPOCH * epoch, last + 1):
        world.comes_to((get_duty_until(world.state, world.state.rounds[index]) or 0) + 1)
    world.all_settle(last)


def list_audited(world: World, names: list[str]) -> list[str]:
    """Returns the auditors that round 0 pays."""
    busy = sum_audits(world.state, world.state.rounds[0])
    return [name for name in names if world.get_seat(name).number in busy]


def make_audited(name: str) -> tuple[World, list[str]]:
    """Returns a task of two epochs whose first round was played, and who of its nine verifiers audited it."""
    world = World(name, rounds=24, amounts={"dropped_fee": 0})
    names = [f"verifier {number}" for number in range(9)]
    world.solvers("ann", "bob", "cid")
    world.verifiers(*names)
    world.starts()
    world.plays_round()
    return world, list_audited(world, names)


@PLAYS.add
def a_ring_of_rounds_is_full() -> World:
    """No place is left for a round until all seats have settled the oldest epoch, and it is freed."""
    world = make_long("a ring of rounds is full", 200)
    with world.refuses("NotSettleable"):
        frees(world)
    skips(world, 500)
    assert world.is_paused and world.state.next_round == 128
    with world.refuses("RingFull"):
        world.asks_for_start()
    world.comes_to((get_duty_until(world.state, world.state.rounds[15]) or 0) + 1)
    for name in ("ann", "bob"):
        world.settles(name, 15)
    with world.refuses("NotSettleable"):
        frees(world)
    world.settles("cid", 15)
    frees(world)
    with world.refuses("RoundUnknown"):
        world.settles("ann", 3)
    with world.refuses("RoundUnknown"):
        world.anybody("zoe").contests(3)
    world.starts()
    assert world.live.index == 128
    world.all_commit()
    world.draws()
    world.all_accept()
    world.posts()
    return world


@PLAYS.add
def idle_auditors_hold_no_epoch() -> World:
    """Who earned something settles it first; whoever earned and owes nothing need not. A dispute that nobody
    has ended holds the epoch, also one about a vote that never counted."""
    world, audited = make_audited("idle auditors hold no epoch")
    assert 0 < len(audited) < 9
    zoe, vote = world.anybody("zoe"), make_place(world, 0, "ann", rank=1)
    dispute = zoe.disputes(vote, word=VoteWord.ACCEPT)
    skips(world, 20)
    world.comes_to((get_duty_until(world.state, world.state.rounds[15]) or 0) + 1)
    for name in ("ann", "bob", "cid", *audited[1:]):
        world.settles(name, 15)
    with world.refuses("NotSettleable"):
        frees(world)
    world.settles(audited[0], 15)
    with world.refuses("NotSettleable"):
        frees(world)
    zoe.ends_dispute(dispute)
    frees(world)
    skips(world, 30)
    world.ends()
    return world


@PLAYS.add
def an_auditor_that_has_settled_and_left_holds_no_epoch() -> World:
    """It earned something in the epoch and settled it with the last round that held it. It need not settle
    the rounds behind."""
    world, audited = make_audited("an auditor that has settled and left holds no epoch")
    world.anybody(audited[0]).leaves()
    skips(world, 20)
    number = world.get_seat(audited[0]).number
    last = max(index for index, one in world.state.rounds.items() if number in one.pool.verifiers)
    assert last < 15
    world.comes_to((get_duty_until(world.state, world.state.rounds[15]) or 0) + 1)
    world.settles(audited[0], last)
    for name in ("ann", "bob", "cid", *audited[1:]):
        world.settles(name, 15)
    frees(world)
    return world


@PLAYS.add
def a_number_that_is_used_again_holds_no_epoch() -> World:
    """Who had the number before was paid in this epoch, and was paid out: the new holder is idle."""
    world, (gone, *audited) = make_audited("a number that is used again holds no epoch")
    number = world.get_seat(gone).number
    world.anybody(gone).leaves()
    skips(world, 4)
    until = max(get_duty_until(world.state, world.state.rounds[index]) or 0 for index in range(3))
    while world.block <= until:
        world.runs_out()
    assert world.live.index < EPOCH
    world.settles(gone, 2)
    world.send(calls.PayOut(number), STRANGER)
    late = world.anybody("late")
    late.joins(SeatRole.VERIFIER)
    assert world.get_seat("late").number == number
    skips(world, 20)
    world.comes_to((get_duty_until(world.state, world.state.rounds[15]) or 0) + 1)
    for name in ("ann", "bob", "cid", *audited):
        world.settles(name, 15)
    frees(world)
    return world


@PLAYS.add
def draws_of_a_freed_epoch_are_no_silence() -> World:
    """An idle auditor counts as settled there, so it has missed nothing."""
    world = make_long("draws of a freed epoch are no silence", 24)
    skips(world, 20)
    settles = (get_duty_until(world.state, world.state.rounds[15]) or 0) + 1
    world.comes_to(settles)
    for name in ("ann", "bob", "cid"):
        world.settles(name, 15)
    frees(world)
    with world.refuses("NotSilent"):
        world.anybody("zoe").marks_silent("vic", (0, 0, 0), (1, 0, 0), (2, 0, 0))
    return world


@PLAYS.add
def an_epoch_is_freed_while_rounds_run() -> World:
    """A task of two epochs: the first is freed once all have settled it."""
    world = make_long("an epoch is freed while rounds run", 24)
    skips(world, 17)
    world.comes_to((get_duty_until(world.state, world.state.rounds[15]) or 0) + 1)
    while not world.is_paused and world.live.index < 20:
        world.runs_out()
    world.all_settle(15)
    frees(world)
    with world.refuses("NotSettleable"):
        frees(world)
    with world.refuses("RoundUnknown"):
        world.settles("ann", 3)
    skips(world, 30)
    world.ends()
    return world


@PLAYS.add
def who_joined_later_has_settled_before() -> World:
    """A seat owes nothing for rounds before it came."""
    world = make_long("who joined later has settled before", 24)
    skips(world, 10)
    late = world.anybody("late")
    late.joins(SeatRole.VERIFIER)
    skips(world, 30)
    world.passes_duties()
    world.all_settle()
    world.ends()
    return world


@PLAYS.add
def a_task_of_one_epoch_is_freed() -> World:
    """No later round has to be opened first."""
    world = make_long("a task of one epoch is freed", EPOCH)
    skips(world, EPOCH)
    world.passes_duties()
    world.all_settle()
    frees(world)
    return world


@PLAYS.add
def a_freed_epoch_gives_sixteen_places() -> World:
    """Then the ring is full again; a halt ends it."""
    world = make_long("a freed epoch gives sixteen places", 200)
    skips(world, 500)
    settles_epoch(world, 0)
    frees(world)
    world.starts()
    skips(world, 500)
    assert world.state.next_round == RING + EPOCH
    with world.refuses("RingFull"):
        world.asks_for_start()
    world.submitter.halts()
    world.ends()
    return world


@PLAYS.add
def an_epoch_is_freed_too_late() -> World:
    """Round 128 had no place when it was to be frozen: the task stands, and a start freezes two rounds."""
    world = make_long("an epoch is freed too late", 200)
    skips(world, RING - 1)
    settles_epoch(world, 0)
    assert world.live.index == RING - 1
    frees(world)
    skips(world, 500)
    assert world.is_paused and world.state.next_round == RING
    world.starts()
    skips(world, 500)
    assert world.state.next_round == RING + EPOCH
    return world


@PLAYS.add
def a_start_has_one_place_left() -> World:
    """Only round 127 is frozen; the place of the next one is still that of round 0, which is paid."""
    world = make_long("a start has one place left", 200, least_solvers=3)
    world.plays_round()
    skips(world, RING - 3)
    world.anybody("cid").leaves()
    skips(world, 500)
    assert world.is_paused and world.state.next_round == RING - 1
    world.solver("dan")
    world.starts()
    skips(world, 500)
    assert world.is_paused and world.state.next_round == RING
    settles_epoch(world, 0)
    assert [world.get_credit(name) for name in ("ann", "bob", "cid", "vic")] == [100, 100, 100, 10]
    return world


@PLAYS.add
def what_is_open_two_epochs_later_holds_nothing() -> World:
    """Counts of epoch 9 have the place of epoch 0: a query and a contest there do not hold epoch 7."""
    world = make_long("what is open two epochs later holds nothing", 400)
    skips(world, 500)
    for epoch in range(7):
        settles_epoch(world, epoch)
        frees(world)
    world.starts()
    skips(world, RING + EPOCH)
    world.deals()
    world.all_commit()
    world.draws()
    world.all_accept()
    world.posts()
    zoe, asked = world.anybody("zoe"), world.get_auditor(RING + EPOCH, "ann").name
    query = zoe.queries(make_place(world, RING + EPOCH, "ann"))
    contest = zoe.contests(RING + EPOCH)
    settles_epoch(world, 7)
    frees(world)
    for name in ("ann", asked):
        with world.refuses("NotSettleable"):
            world.settles(name, RING + EPOCH)
    world.comes_to(world.state.queries[query].clock + 1)
    zoe.ends_query(query)
    zoe.ends_contest(contest)
    return world


@PLAYS.add
def a_new_lap_shows_nothing_of_the_old() -> World:
    """Round 0 had a short claim, two auditors who were not served, and late rejects; then it fell and was
    posted again. Round 128 takes its place."""
    world = World(
        "a new lap shows nothing of the old", rounds=200, late_chance=1 << 16, least_whistleblowers=3,
        segment_count=6, solver_seats=5, least_solvers=1, amounts={"dropped_fee": 0, "unserved_fee": 1},
    )  # fmt: skip
    names = ("ann", "bob", "cid", "dan", "eve")
    ann, *others = [world.solver(name, 2_010) for name in names]
    for name in ("vic", "wil", "xia"):
        world.verifier(name, 510)
    world.whistleblowers("fay", "gus", "hal")
    world.starts()
    ann.commits(4)
    for one in others:
        one.commits()
    world.draws()
    for rank in (0, 1):
        world.votes("ann", VoteWord.UNSERVED, rank=rank, is_opened=False)
    for name in names[1:]:
        world.votes(name, VoteWord.ACCEPT)
    world.posts(signers=("cid", "dan", "eve"))
    world.all_commit()
    world.draws()
    for rank in (0, 1):
        world.votes("bob", VoteWord.REJECT_STATE, index=0, draw=1, rank=rank)
    contest = world.anybody("zoe").contests(0)
    world.passes(11)
    world.anybody("zoe").ends_contest(contest)
    world.posts(index=0, merged=["bob"], signers=("ann", "bob"))
    world.starts()
    skips(world, 500)
    settles_epoch(world, 0)
    frees(world)
    world.starts()
    assert world.live.index == RING
    ann.commits()
    world.anybody("bob").commits(5)
    world.draws()
    world.all_accept()
    world.posts()
    world.submitter.halts()
    world.runs_out()
    world.ends()
    return world


@PLAYS.add
def a_new_lap_forgets_convictions() -> World:
    """ann's claim of round 0 was proven false. Round 128 takes its place, and the claim of dan, who has ann's
    number by then, is merged."""
    world = World(
        "a new lap forgets convictions",
        rounds=200,
        solver_seats=4,
        least_solvers=1,
        amounts={"dropped_fee": 0},
    )
    ann, bob, cid = world.solvers("ann", "bob", "cid")
    world.verifiers("vic", "wil", "xia")
    world.starts()
    ann.commits(fault="start")
    bob.commits()
    cid.commits()
    world.anybody("zoe").convicts(make_place(world, 0, "ann", draw=None), ProofKind.BOUNDARY_ZERO)
    world.draws()
    for name in ("bob", "cid"):
        for draw in range(world.state.terms.draws):
            world.votes(name, VoteWord.ACCEPT, draw=draw)
    world.posts()
    skips(world, 500)
    settles_epoch(world, 0)
    world.anybody("zoe").pays_out("ann")
    dan = world.solver("dan")
    assert dan.seat == 1 << 16, "ann's number"
    frees(world)
    world.starts()
    assert world.live.index == RING
    dan.commits()
    bob.commits()
    world.draws()
    world.all_accept()
    world.posts()
    assert world.state.rounds[RING].merged == (0, 1)
    world.submitter.halts()
    world.runs_out()
    world.ends()
    return world


@PLAYS.add
def a_full_ring_is_halted_by_vote() -> World:
    """No place is free, and all have settled: holders of shares halt the task, and places are freed after."""
    world = make_long("a full ring is halted by vote", 200)
    world.plays_round()
    skips(world, 500)
    world.passes_duties()
    world.all_settle()
    for name in ("ann", "bob"):
        world.anybody(name).votes_halt()
    assert world.shares.until_round == RING, "all eight epochs"
    world.passes(200)
    world.halts_by_vote()
    frees(world)
    with world.refuses("TaskHalted"):
        world.asks_for_start()
    world.ends()
    return world
