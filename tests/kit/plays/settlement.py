"""When a seat settles, what it is paid and what it owes."""

from tests.kit.played_task import STRANGER
from tests.kit.plays.collection import Plays
from tests.kit.plays.rounds import make_running
from tests.kit.plays.votes import make_drawn
from tests.kit.world import World, make_place
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.timing import get_duty_until
from touchstone.protocol.spec.game.vault import BURNED
from touchstone.protocol.spec.statements import VoteWord

PLAYS = Plays("settlement")
ACCEPT, REJECT_STATE, REJECT_DELTA, REJECT_START, UNSERVED, ABSTAIN = VoteWord


def accept_rest(world: World, index: int, *claimants: str) -> None:
    """The primaries of these claims accept."""
    for claimant in claimants:
        for draw in range(world.state.terms.draws):
            world.votes(claimant, ACCEPT, index=index, draw=draw)


@PLAYS.add
def duty_ends_before_a_seat_settles() -> World:
    """In the last block in which a statement can cost something it is too early; a seat settles once."""
    world = make_running("duty ends before a seat settles")
    world.submitter.halts()
    world.plays_round()
    until = get_duty_until(world.state, world.state.rounds[0])
    assert until == (world.state.rounds[0].closed or 0) + 780
    world.comes_to(until)
    for name in ("ann", "vic"):
        with world.refuses("NotSettleable"):
            world.settles(name, 0)
    world.passes()
    world.settles("ann", 0)
    with world.refuses("AlreadySettled"):
        world.settles("ann", 0)
    with world.refuses("SeatUnknown"):
        world.send(calls.SettleSeat(1 << 16 | 9, 0), STRANGER)
    with world.refuses("RoundUnknown"):
        world.settles("ann", 1)
    assert world.get_credit("ann") == 100
    world.ends()
    return world


@PLAYS.add
def an_epoch_is_settled_at_once() -> World:
    """A later round of the epoch that holds the seat must be settled with it; one that does not need not."""
    world = make_running("an epoch is settled at once")
    world.anybody("cid").leaves()
    for _ in range(4):
        world.plays_round()
    world.passes_duties()
    with world.refuses("NotSettleable"):
        world.settles("ann", 2)
    world.settles("cid", 2)
    assert world.get_credit("cid") == 200
    world.settles("ann", 3)
    world.ends()
    return world


@PLAYS.add
def a_place_that_was_taken_pays_nothing() -> World:
    """Where a pool does not hold a seat its place is another's, and so is the pay."""
    world = make_running("a place that was taken pays nothing", solver_seats=3)
    world.solver("larger", 3_000)
    for _ in range(4):
        world.plays_round()
    world.passes_duties()
    world.all_settle()
    assert world.get_credit("larger") == 200, "rounds 2 and 3"
    assert sorted(world.get_credit(name) for name in ("ann", "bob", "cid")) == [200, 400, 400]
    world.ends()
    return world


@PLAYS.add
def a_late_verifier_is_held_by_its_own_pool() -> World:
    """It joined behind the start, and sits in later rounds."""
    world = make_running("a late verifier is held by its own pool")
    world.verifier("late")
    for _ in range(4):
        world.plays_round()
    with world.refuses("NotSettleable"):
        world.settles("late", 3)
    world.ends()
    return world


@PLAYS.add
def a_settlement_closes_a_round_first() -> World:
    """A fee that it takes changes no pool of a round that is over."""
    world = make_running("a settlement closes a round first", rounds=20)
    for index in range(16):
        world.anybody("ann").commits()
        world.anybody("bob").commits()
        if index:
            world.anybody("cid").commits()
        world.draws()
        world.all_accept()
        world.posts()
    until = get_duty_until(world.state, world.state.rounds[15])
    assert until is not None
    world.comes_to(until + 1)
    world.settles("cid", 15)
    assert world.get_stake("cid") == 1_940 and len(world.state.pools[18].solvers) == 3
    return world


@PLAYS.add
def a_fee_above_the_stake_takes_the_stake() -> World:
    """And no more: solver and both auditors lose all that they have there."""
    world = make_drawn("a fee above the stake takes the stake", amounts={"unserved_fee": 5_000})
    world.submitter.halts()
    for rank in (0, 1):
        world.votes("ann", UNSERVED, rank=rank, is_opened=False)
    accept_rest(world, 0, "bob", "cid")
    world.posts()
    auditor = world.get_auditor(0, "ann")
    world.passes_duties()
    world.all_settle()
    assert world.get_stake("ann") == 0 and world.get_stake(auditor.name) == 0
    world.ends()
    return world


@PLAYS.add
def unserved_auditors_pay_too() -> World:
    """Two say that they were shown nothing: the solver pays, and so do these two; its claim is void."""
    world = make_drawn("unserved auditors pay too")
    world.votes("ann", UNSERVED, is_opened=False)
    world.votes("ann", UNSERVED, rank=1, is_opened=False)
    accept_rest(world, 0, "bob", "cid")
    auditors = [world.get_auditor(0, "ann", 0, rank) for rank in (0, 1)]
    world.posts()
    world.submitter.halts()
    world.runs_out()
    world.passes_duties()
    world.all_settle()
    assert [world.get_stake(one.name) for one in auditors] == [430, 430]
    assert world.get_stake("ann") == 2_000 - 70 - 60, "it missed round 1 too"
    fees = 3 * 70 + 3 * 60
    assert world.state.vault.get_wei(BURNED) == world.state.terms.amounts.solver_pay + fees, "and ann's pay"
    world.ends()
    return world


@PLAYS.add
def a_third_unserved_pays_too() -> World:
    """Reserves first, then the primary; a primary with another word does not pay."""
    world = make_drawn("a third unserved pays too")
    world.comes_to((world.state.rounds[0].closed or 0) + 10)
    for draw in (0, 1):
        for rank in (1, 2):
            world.votes("ann", UNSERVED, draw=draw, rank=rank, is_opened=False)
    world.votes("ann", UNSERVED, is_opened=False)
    world.votes("ann", ABSTAIN, draw=1, is_opened=False)
    world.comes_to((world.state.rounds[0].closed or 0) + 36)
    world.stands()
    world.submitter.halts()
    world.runs_out()
    world.passes_duties()
    world.all_settle()
    assert world.get_stake("ann") == 2_000 - 140 - 60, "two draws, and round 1"
    world.ends()
    return world


@PLAYS.add
def rejecting_primaries_are_paid_as_their_reserves() -> World:
    """Both primaries of a claim reject, all four reserves accept: ten votes are opened, and paid."""
    world = make_drawn("rejecting primaries are paid as their reserves")
    for draw in (0, 1):
        world.votes("ann", REJECT_STATE, draw=draw)
        for rank in (1, 2):
            world.votes("ann", ACCEPT, draw=draw, rank=rank)
    accept_rest(world, 0, "bob", "cid")
    world.posts()
    for draw in (0, 1):
        for rank in (0, 1):
            world.opens("ann", index=0, draw=draw, rank=rank)
    world.submitter.halts()
    world.all_commit()
    world.comes_to(world.closes() + 10)
    world.stands()
    world.passes_duties()
    world.all_settle()
    earned = sum(world.get_credit(name) for name in ("vic", "wil", "xia", "yan", "zac", "una"))
    assert earned == 100 and world.get_credit("ann") == 100
    world.ends()
    return world


@PLAYS.add
def late_audits_pay_whistleblowers() -> World:
    """Every claim is audited late: by the next round's draw, the last ones by the closing draw."""
    world = make_drawn("late audits pay whistleblowers", late_chance=1 << 16)
    world.all_accept()
    world.posts()
    world.plays_round()
    for claimant in ("ann", "bob", "cid"):
        world.votes(claimant, ACCEPT, index=0, draw=2)
    world.plays_round()
    world.plays_round()
    world.draws_the_last()
    world.votes("bob", ACCEPT, index=3, draw=2)
    world.passes_duties()
    world.all_settle()
    assert sum(world.get_credit(name) for name in ("eve", "fay", "gus")) == 80, "four late votes"
    assert world.get_credit("ann") == 400
    world.ends()
    return world


@PLAYS.add
def late_audits_take_pay() -> World:
    """A claim that fails late loses its pay; not served late, a fee; an ABSTAIN against it takes nothing."""
    world = make_drawn("late audits take pay", late_chance=1 << 16)
    world.all_accept()
    world.posts()
    world.all_commit()
    world.draws()
    world.votes("ann", REJECT_DELTA, index=0, draw=2, is_opened=False)
    world.votes("ann", REJECT_START, index=0, draw=2, rank=1)
    world.opens("ann", index=0, draw=2)
    for rank in (0, 1):
        world.votes("bob", UNSERVED, index=0, draw=2, rank=rank, is_opened=False)
    world.votes("cid", ABSTAIN, index=0, draw=2, is_opened=False)
    world.votes("cid", REJECT_STATE, index=0, draw=2, rank=1, is_opened=False)
    world.all_accept()
    world.posts()
    world.submitter.halts()
    world.all_commit()
    world.comes_to(world.closes() + 10)
    world.stands()
    world.passes_duties()
    world.all_settle()
    assert [world.get_credit(name) for name in ("ann", "bob", "cid")] == [100, 100, 200]
    assert world.get_stake("bob") == 1_930
    world.ends()
    return world


@PLAYS.add
def a_short_claim_earns_its_share() -> World:
    """Of six segments four are enough for both draws; its pay is rounded down."""
    world = World("a short claim earns its share", segment_count=6, draws=2, least_verifiers=6)
    ann, bob, cid = world.solvers("ann", "bob", "cid")
    world.verifiers("vic", "wil", "xia", "yan", "zac", "una")
    world.starts()
    bob.commits(5)
    cid.commits(4)
    ann.commits()
    world.draws()
    world.all_accept()
    world.posts()
    world.submitter.halts()
    world.plays_round()
    world.passes_duties()
    world.all_settle()
    assert [world.get_credit(name) for name in ("ann", "bob", "cid")] == [200, 183, 166]
    world.ends()
    return world


@PLAYS.add
def fees_take_a_seat_out_of_pools() -> World:
    """Who owes fees sits in no pool frozen later, until its stake is whole again."""
    world = make_drawn("fees take a seat out of pools", windows={"dispute": 2_000})
    for rank in (0, 1):
        world.votes("ann", UNSERVED, rank=rank, is_opened=False)
    accept_rest(world, 0, "bob", "cid")
    world.posts()
    for _ in range(2):
        world.runs_out()
    world.anybody("bob").leaves()
    world.runs_out()
    assert world.is_paused
    world.passes_duties()
    world.all_settle()
    with world.refuses("TaskOver"):
        world.asks_for_start()
    world.ends()
    return world


@PLAYS.add
def stakes_are_made_whole() -> World:
    """A task stands; its seats owe fees, so that no pool is large enough before they have added to it."""
    world = World("stakes are made whole", rounds=40, least_solvers=3, windows={"dispute": 2_000})
    ann, bob, cid = world.solvers("ann", "bob", "cid")
    world.verifiers("vic", "wil", "xia")
    world.starts()
    cid.leaves()
    world.runs_out()
    world.runs_out()
    assert world.is_paused, "two are too few"
    world.solver("dan")
    world.passes_duties()
    world.all_settle(1)
    assert world.get_stake("ann") == 1_880
    with world.refuses("PoolTooSmall"):
        world.asks_for_start()
    ann.tops_up(120)
    bob.tops_up(119)
    with world.refuses("PoolTooSmall"):
        world.asks_for_start()
    bob.tops_up(1)
    world.starts()
    world.plays_round()
    return world


@PLAYS.add
def many_seats_settle_in_one_call() -> World:
    """Each once, though it is named twice; who is asked or disputed, or is nobody, is left out."""
    world = make_running("many seats settle in one call", rounds=1, windows={"dispute": 800})
    world.plays_round()
    zoe, auditors = world.anybody("zoe"), [world.get_seat(name).number for name in ("vic", "wil", "xia")]
    ann, bob, cid = (world.get_seat(name).number for name in ("ann", "bob", "cid"))
    world.comes_to((get_duty_until(world.state, world.state.rounds[0]) or 0) - 20)
    dispute = zoe.disputes(make_place(world, 0, "ann", draw=None))
    world.passes_duties()
    with world.refuses("NotSettleable"):
        world.settles("ann", 0)
    world.settles_together(bob, ann, bob, 1 << 16 | 9, *auditors, cid, cid, until=0)
    assert [world.get_credit(name) for name in ("ann", "bob", "cid", "vic")] == [0, 100, 100, 10]
    world.comes_to(world.disputes[dispute].clock + 1)
    zoe.ends_dispute(dispute)
    world.settles_together(ann, until=0)
    world.ends()
    return world
