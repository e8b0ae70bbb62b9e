"""Shares: minted by settled work alone, what they earn, and how their majority halts a task."""

from collections.abc import Callable
from functools import partial
from typing import Any

from tests.kit.actor import Actor
from tests.kit.members import make_word
from tests.kit.played_task import STRANGER
from tests.kit.plays.collection import Plays
from tests.kit.plays.ring import skips
from tests.kit.plays.rounds import make_running
from tests.kit.share_book import MOST_REVENUE_WEI
from tests.kit.world import World, make_place
from touchstone.protocol.spec.game.enums import ProofKind
from touchstone.protocol.spec.game.timing import get_duty_until

PLAYS = Plays("shares")
EPOCH = 16
DISPUTE = 200
ALL = 330
"""Shares of one round: a hundred for each solver, ten for each verifier."""


def make_epoch(name: str, **changes: Any) -> World:
    """Returns a task whose first epoch has ended and can be settled: of its rounds the first one was
    played."""
    amounts = {"dropped_fee": 0, **changes.pop("amounts", {})}
    world = make_running(name, **{"rounds": 60, **changes, "amounts": amounts})
    world.plays_round()
    passes_epoch(world, 0)
    return world


def passes_epoch(world: World, epoch: int) -> None:
    """Nobody commits any more, until the epoch has ended and can be settled."""
    skips(world, EPOCH * (epoch + 1))
    world.comes_to((get_duty_until(world.state, world.state.rounds[EPOCH * epoch + EPOCH - 1]) or 0) + 1)


def plays_alone(world: World, *names: str) -> None:
    """A round of the next epoch in which these commit; all accept."""
    while world.live.beacon is None:
        skips(world, world.live.index + 1)
        world.deals()
    for name in names:
        world.anybody(name).commits()
    world.draws()
    world.all_accept()
    world.posts()


def make_settled(name: str, **changes: Any) -> tuple[World, list[Actor]]:
    """Returns a task whose first epoch all have settled, and its three solvers."""
    world = make_epoch(name, **changes)
    world.all_settle(EPOCH - 1)
    return world, world.solvers("ann", "bob", "cid")


def make_voted(name: str, **changes: Any) -> tuple[World, list[Actor]]:
    """Returns a task that its solvers may halt by their votes, and them."""
    world, solvers = make_settled(name, **changes)
    for one in solvers:
        one.votes_halt()
    world.passes(DISPUTE)
    return world, solvers


@PLAYS.add
def work_is_paid_in_shares() -> World:
    """One for each wei that a settlement pays, and nobody else makes any."""
    world = make_epoch("work is paid in shares")
    assert world.shares.supply == 0, "nothing is settled"
    world.all_settle(EPOCH - 1)
    assert world.anybody("ann").shares == 100 and world.shares.supply == ALL
    account = world.get_party(STRANGER).address
    world.send_refused("NotModule", STRANGER, "Shares", "mint", world.task, account, 1)
    world.send_refused("NotModule", STRANGER, "Shares", "create", make_word("another task"))
    for call in (
        ("mint", account, 1), ("distribute", 1), ("takeEarned", account), ("setVotes", account, 0, 0),
    ):  # fmt: skip
        world.send_refused("NotShares", STRANGER, "TaskShares", *call)
    return world


@PLAYS.add
def a_convicted_solver_gets_no_shares() -> World:
    """The pay of its accepted claim is burned; what it had before stays, and so does its vote."""
    world = make_running("a convicted solver gets no shares", rounds=60, amounts={"dropped_fee": 0})
    world.anybody("ann").commits(fault="start")
    for name in ("bob", "cid"):
        world.anybody(name).commits()
    world.draws()
    world.all_accept()
    world.posts()
    world.anybody("zoe").convicts(make_place(world, 0, "ann", draw=None), ProofKind.BOUNDARY_ZERO)
    passes_epoch(world, 0)
    world.all_settle(EPOCH - 1)
    assert world.anybody("ann").shares == 0 and world.anybody("bob").shares == 100
    return world


@PLAYS.add
def shares_outlive_a_conviction() -> World:
    """Who is convicted after it settled keeps shares and vote; its slash mints none."""
    world, (ann, *_) = make_settled("shares outlive a conviction")
    ann.votes_halt()
    if world.live.beacon is None:
        world.runs_out()
        world.deals()
    index = world.live.index
    ann.commits(fault="start")
    world.anybody("zoe").convicts(make_place(world, index, "ann", draw=None), ProofKind.BOUNDARY_ZERO)
    assert (ann.shares, world.shares.votes, world.shares.supply) == (100, 100, ALL)
    ann.votes_halt(0)
    ann.sends_shares("zoe", 100)
    return world


@PLAYS.add
def revenue_is_claimed_in_proportion() -> World:
    """Seven wei a share, once, and nothing stays."""
    world, _ = make_settled("revenue is claimed in proportion")
    world.pays_revenue("zoe", 7 * ALL)
    for name in ("ann", "bob", "cid", "vic", "wil", "xia"):
        world.claims_revenue(name)
        with world.refuses("NothingMoved"):
            world.claims_revenue(name)
    assert world.get_credit("ann") == 800 and world.get_credit("vic") == 80
    return world


@PLAYS.add
def parts_of_a_wei_are_never_lost() -> World:
    """Three shares, one wei three times: what cannot be divided waits for the next revenue."""
    amounts = {"solver_pay": 1, "audit_pay": 0}
    world, solvers = make_settled("parts of a wei are never lost", amounts=amounts)
    for _ in range(3):
        with world.refuses("NothingMoved"):
            world.claims_revenue("ann")
        world.pays_revenue("zoe", 1)
    for one in solvers:
        world.claims_revenue(one.name)
    return world


@PLAYS.add
def revenue_is_refused() -> World:
    """None before there are shares, nothing, more than the credit, too much in all, of another task."""
    world = make_epoch("revenue is refused")
    with world.refuses("NothingMoved"):
        world.pays_revenue("zoe", 0)
    with world.refuses("NoShares"):
        world.pays_revenue("zoe", 1)
    world.all_settle(EPOCH - 1)
    with world.refuses("CreditTooSmall"):
        world.pays_revenue("zoe", 1)
    world.pays_revenue("zoe", 1)
    with world.refuses("CreditTooSmall"):
        world.pays_revenue("zoe", MOST_REVENUE_WEI - 1)
    with world.refuses("RevenueTooLarge"):
        world.pays_revenue("zoe", MOST_REVENUE_WEI)
    other = make_word("another task")
    account = world.get_party("ann").address
    for call in (
        ("payRevenue", other, 1), ("claimRevenue", other, account), ("voteHalt", other, 0),
        ("haltByVote", other),
    ):  # fmt: skip
        world.send_refused("TaskUnknown", STRANGER, "Shares", *call)
    return world


@PLAYS.add
def shares_that_move_take_later_revenue_alone() -> World:
    """What was earned stays with who had them; shares that come back bring nothing along."""
    world, (ann, bob, _) = make_settled("shares that move take later revenue alone")
    world.pays_revenue("zoe", ALL)
    ann.sends_shares("bob", 100)
    world.pays_revenue("zoe", 2 * ALL)
    bob.sends_shares("ann", 200)
    for name in ("ann", "bob"):
        world.claims_revenue(name)
    assert world.get_credit("ann") == 200 and world.get_credit("bob") == 600
    with world.refuses("InsufficientBalance"):
        bob.sends_shares("ann", 1)
    world.pays_revenue("zoe", ALL)
    return world


@PLAYS.add
def work_that_is_settled_later_takes_later_revenue_alone() -> World:
    """All of the first revenue belongs to who has settled."""
    world = make_epoch("work that is settled later takes later revenue alone")
    world.settles("ann", EPOCH - 1)
    world.pays_revenue("zoe", 100)
    world.settles("bob", EPOCH - 1)
    with world.refuses("NothingMoved"):
        world.claims_revenue("bob")
    world.pays_revenue("zoe", 400)
    for name in ("ann", "bob"):
        world.claims_revenue(name)
    assert world.get_credit("ann") == 400 and world.get_credit("bob") == 300
    return world


@PLAYS.add
def more_than_half_halts_a_task() -> World:
    """Half of all shares is no majority; more is one, from that block on, after the dispute window."""
    world, (ann, bob, cid) = make_settled("more than half halts a task")
    cid.sends_shares("ann", 65)
    ann.votes_halt()
    with world.refuses("NoShareMajority"):
        world.halts_by_vote()
    with world.refuses("TooManyVotes"):
        cid.votes_halt(36)
    cid.votes_halt(1)
    began = world.block
    world.passes()
    bob.votes_halt()
    assert world.shares.since == began, "more votes do not begin it anew"
    for one in (bob, cid):
        one.votes_halt(0)
    assert world.shares.since == 0, "taken back"
    world.anybody("vic").votes_halt()
    began = world.block
    world.comes_to(began + DISPUTE - 1)
    with world.refuses("NoShareMajority"):
        world.halts_by_vote()
    world.passes()
    world.halts_by_vote()
    with world.refuses("TaskHalted"):
        world.halts_by_vote()
    world.runs_out()
    with world.refuses("TaskHalted"):
        world.asks_for_start()
    world.ends()
    return world


@PLAYS.add
def shares_that_vote_stay() -> World:
    """Nobody sends them, so they vote once; lent shares come back without their vote alone."""
    world, (ann, bob, _) = make_settled("shares that vote stay")
    ann.votes_halt(97)
    with world.refuses("SharesVote"):
        ann.sends_shares("zoe", 4)
    ann.sends_shares("zoe", 3)
    world.send_raw("ann", "TaskShares", "approve", world.get_party("bob").address, 1_000)
    with world.refuses("SharesVote"):
        world.takes_shares("bob", "ann", 1)
    ann.votes_halt(0)
    world.takes_shares("bob", "ann", 97)
    bob.votes_halt()
    with world.refuses("SharesVote"):
        bob.sends_shares("ann", 97)
    bob.votes_halt(0)
    bob.sends_shares("ann", 97)
    assert world.shares.votes == 0, "no vote is left behind"
    return world


@PLAYS.add
def who_settles_first_halts_nothing() -> World:
    """A seat that left holds all shares there are, or sells them; others settle before a halt, and end it."""
    world = make_running("who settles first halts nothing", rounds=60, amounts={"dropped_fee": 0})
    ann, buyer = world.anybody("ann"), world.anybody("buyer")
    ann.leaves()
    world.plays_round()
    skips(world, 4)
    world.comes_to((get_duty_until(world.state, world.state.rounds[0]) or 0) + 1)
    world.settles("ann", 3)
    ann.sends_shares("buyer", 100)
    buyer.votes_halt()
    assert world.shares.since == world.block, "it holds all shares"
    passes_epoch(world, 0)
    with world.refuses("WorkUnsettled"):
        world.halts_by_vote()
    world.all_settle(EPOCH - 1)
    with world.refuses("NoShareMajority"):
        world.halts_by_vote()
    return world


@PLAYS.add
def an_epoch_that_was_not_played_halts_nothing() -> World:
    """All seats left and were paid out: nobody has anything to settle, and the task is not halted."""
    world = make_running("an epoch that was not played halts nothing", amounts={"dropped_fee": 0})
    for number in list(world.state.seats):
        world.anybody(world.get_name(world.state.seats[number].account)).leaves()
    world.plays_round()
    skips(world, 60)
    world.passes_duties()
    world.all_settle()
    names = ("ann", "bob")
    for name in names:
        world.anybody(name).votes_halt()
    for number in list(world.state.seats):
        world.submitter.pays_out(number)
    world.passes(DISPUTE)
    with world.refuses("WorkUnsettled"):
        world.halts_by_vote()
    return world


@PLAYS.add
def a_majority_waits_for_every_epoch() -> World:
    """It begins after the second epoch, which has to be settled too, and goes on: new shares of who voted
    with all that it had vote with the others."""
    world, solvers = make_settled("a majority waits for every epoch")
    plays_alone(world, "ann", "bob", "cid")
    skips(world, 2 * EPOCH)
    for one in solvers:
        one.votes_halt()
    began = world.block
    passes_epoch(world, 1)
    world.passes(DISPUTE)
    with world.refuses("WorkUnsettled"):
        world.halts_by_vote()
    for number in sorted(world.state.seats, reverse=True):
        world.settles(world.get_name(world.state.seats[number].account), 2 * EPOCH - 1)
    assert world.shares.since == began and world.shares.votes == 600, "new shares vote"
    world.halts_by_vote()
    return world


@PLAYS.add
def new_shares_vote_as_their_holder_did() -> World:
    """With a part, taken back, or with none of none: then they do not."""
    world, (ann, bob, cid) = make_settled("new shares vote as their holder did")
    ann.votes_halt()
    world.anybody("vic").sends_shares("ann", 1)
    bob.votes_halt()
    bob.votes_halt(99)
    cid.votes_halt()
    cid.votes_halt(0)
    world.anybody("late").votes_halt(0)
    world.anybody("late").joins(world.get_seat("ann").role, 5_000)
    skips(world, world.live.index + 3)
    plays_alone(world, "ann", "bob", "cid", "late")
    passes_epoch(world, 1)
    for name in ("cid", "bob", "ann", "late"):
        world.settles(name, 2 * EPOCH - 1)
    votes = [world.shares.get(world.get_party(name).address).votes for name in ("ann", "bob", "cid", "late")]
    assert votes == [200, 99, 0, 0]
    with world.refuses("SharesVote"):
        ann.sends_shares("bob", 2)
    ann.sends_shares("bob", 1)
    return world


@PLAYS.add
def a_majority_begins_when_somebody_asks() -> World:
    """New shares make it: nobody knows it before a call of the vote, which may be a stranger's."""
    world, (ann, *_) = make_settled("a majority begins when somebody asks")
    ann.votes_halt()
    for _ in range(2):
        plays_alone(world, "ann")
    passes_epoch(world, 1)
    world.settles("ann", 2 * EPOCH - 1)
    with world.refuses("NoShareMajority"):
        world.halts_by_vote()
    assert world.shares.since == 0, "nobody has asked"
    world.anybody(STRANGER).votes_halt()
    assert world.shares.since == world.block, "from now on"
    return world


def _halts_at(name: str, step: int) -> World:
    """A round runs; before the step of this number the votes halt the task. All is settled and paid."""
    world, _ = make_voted(name, late_chance=0)
    world.runs_out()
    world.deals()
    index = world.live.index
    steps: list[Callable[[], object]] = [
        world.all_commit, world.closes, world.draws, partial(world.all_accept, index), world.posts,
    ]  # fmt: skip
    for number, play in enumerate(steps):
        if number == step:
            world.halts_by_vote()
        play()
    if step == len(steps):
        world.halts_by_vote()
        world.runs_out()
    assert world.is_paused, "no later round opens"
    world.ends()
    assert all(world.shares.get(world.get_party(one).address).shares == 200 for one in ("ann", "bob", "cid"))
    return world


for _step, _when in enumerate(("trains", "commits", "is_drawn", "is_audited", "is_posted", "has_a_root")):
    _name = f"a_halt_before_a_round_{_when}"
    PLAYS[_name] = partial(_halts_at, _name.replace("_", " "), _step)


@PLAYS.add
def a_root_falls_after_a_halt() -> World:
    """Its signers are slashed; all others settle and get their stakes."""
    world, _ = make_voted("a root falls after a halt")
    world.runs_out()
    world.deals()
    index = world.live.index
    world.all_commit()
    world.draws()
    world.all_accept()
    world.posts(signers=["ann", "bob"])
    world.halts_by_vote()
    contest = world.anybody("zoe").contests(index)
    world.passes(11)
    world.anybody("zoe").ends_contest(contest)
    world.stands_after_fall()
    world.passes_duties()
    world.all_settle()
    assert world.get_stake("ann") == 0 and world.get_stake("cid") == 2_000
    world.ends()
    return world


@PLAYS.add
def a_query_holds_a_halt() -> World:
    """The seat that is asked does not settle before the query has ended; the majority goes on."""
    world = make_running("a query holds a halt", rounds=60, amounts={"dropped_fee": 0})
    world.plays_round()
    query = world.anybody("zoe").queries(make_place(world, 0, "ann"))
    held = world.get_auditor(0, "ann").name
    passes_epoch(world, 0)
    for name in (one for one in ("ann", "bob", "cid", "vic", "wil", "xia") if one != held):
        world.settles(name, EPOCH - 1)
    for name in ("ann", "bob", "cid"):
        world.anybody(name).votes_halt()
    world.passes(DISPUTE)
    with world.refuses("NotSettleable"):
        world.settles(held, EPOCH - 1)
    with world.refuses("WorkUnsettled"):
        world.halts_by_vote()
    world.anybody("zoe").ends_query(query)
    world.settles(held, EPOCH - 1)
    world.halts_by_vote()
    return world


@PLAYS.add
def a_standing_task_is_halted() -> World:
    """No round runs, a start would pass; then the votes halt it."""
    world, (ann, bob, _) = make_voted("a standing task is halted")
    for one in (ann, bob):
        one.leaves()
    for _ in range(3):
        world.runs_out()
    assert world.is_paused
    world.solver("dan")
    world.halts_by_vote()
    with world.refuses("TaskHalted"):
        world.asks_for_start()
    world.ends()
    return world


@PLAYS.add
def who_joins_again_is_paid_once() -> World:
    """A seat left, settled and came back: its new one has nothing to settle before it."""
    world = make_running("who joins again is paid once", rounds=60, amounts={"dropped_fee": 0})
    ann = world.anybody("ann")
    ann.leaves()
    world.plays_round()
    skips(world, 4)
    world.comes_to((get_duty_until(world.state, world.state.rounds[0]) or 0) + 1)
    world.settles("ann", 3)
    with world.refuses("AlreadySettled"):
        world.settles("ann", 3)
    world.submitter.pays_out("ann")
    world.solver("ann")
    passes_epoch(world, 0)
    world.all_settle(EPOCH - 1)
    assert ann.shares == 100 and world.shares.supply == ALL
    return world


@PLAYS.add
def a_closed_task_earns() -> World:
    """Its model is still used: holders are paid, votes halt nothing."""
    world, solvers = make_voted("a closed task earns")
    world.halts_by_vote()
    world.runs_out()
    world.ends()
    world.pays_revenue("zoe", ALL)
    for one in solvers:
        one.votes_halt(0)
        world.claims_revenue(one.name)
    assert world.get_credit("ann") == 100
    with world.refuses("NoShareMajority"):
        world.halts_by_vote()
    return world
