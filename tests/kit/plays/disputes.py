"""Disputes of claims and votes from outside: who opens one, when, for how much, and how silence ends it."""

from tests.kit.plays.collection import Plays
from tests.kit.plays.rounds import make_running
from tests.kit.plays.votes import make_drawn
from tests.kit.world import World, make_place
from touchstone.protocol.spec.game.enums import ProofKind
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.statements import VoteWord

PLAYS = Plays("disputes")
ACCEPT, REJECT_STATE, REJECT_DELTA, REJECT_START, UNSERVED, ABSTAIN = VoteWord


def make_accepted(name: str) -> tuple[World, StatementRef]:
    """Returns a posted round, and the name of ann's claim in it."""
    world = make_running(name)
    world.plays_round()
    return world, make_place(world, 0, "ann", draw=None)


@PLAYS.add
def an_undecided_claim_is_not_disputed() -> World:
    """Neither it nor a vote on it, before the votes have decided; accepted or void it can be."""
    world = make_drawn("an undecided claim is not disputed")
    zoe = world.anybody("zoe")
    with world.refuses("ClaimUndecided"):
        zoe.disputes(make_place(world, 0, "ann", draw=None))
    world.votes("ann", ACCEPT, is_opened=False)
    with world.refuses("ClaimUndecided"):
        zoe.disputes(make_place(world, 0, "ann"))
    world.votes("ann", ACCEPT, draw=1, is_opened=False)
    zoe.disputes(make_place(world, 0, "ann", draw=None))
    zoe.disputes(make_place(world, 0, "ann"))
    for rank in (0, 1):
        world.votes("bob", ABSTAIN, rank=rank, is_opened=False)
    zoe.disputes(make_place(world, 0, "bob", draw=None))
    world.comes_to((world.state.rounds[0].closed or 0) + 61)
    zoe.disputes(make_place(world, 0, "cid", draw=None))
    return world


@PLAYS.add
def a_vote_is_disputed_once_its_draw_is_over() -> World:
    """A reserve of the draw could copy what its auditor has to show: so not while votes of the draw count.
    Also after another draw has failed the claim, and for a late vote long after the claim was accepted."""
    world = make_drawn("a vote is disputed once its draw is over", late_chance=1 << 16)
    zoe = world.anybody("zoe")
    for rank in (0, 1):
        world.votes("ann", REJECT_STATE, rank=rank, is_opened=False)
    world.votes("ann", REJECT_STATE, draw=1, is_opened=False)
    zoe.disputes(make_place(world, 0, "ann"))
    with world.refuses("ClaimUndecided"):
        zoe.disputes(make_place(world, 0, "ann", 1))
    world.votes("ann", REJECT_STATE, draw=1, rank=1)
    zoe.disputes(make_place(world, 0, "ann", 1))
    for name in ("bob", "cid"):
        for draw in (0, 1):
            world.votes(name, ACCEPT, draw=draw, is_opened=False)
    world.posts()
    world.all_commit()
    world.draws()
    world.votes("bob", REJECT_STATE, index=0, draw=2, is_opened=False)
    with world.refuses("ClaimUndecided"):
        zoe.disputes(make_place(world, 0, "bob", 2))
    world.comes_to((world.state.rounds[0].late_from or 0) + 60)
    with world.refuses("ClaimUndecided"):
        zoe.disputes(make_place(world, 0, "bob", 2))
    world.passes()
    zoe.disputes(make_place(world, 0, "bob", 2))
    return world


@PLAYS.add
def a_claim_of_a_running_round_is_not_disputed() -> World:
    """It is not decided; a claim that nobody made is unknown, and so is a round."""
    world = make_running("a claim of a running round is not disputed")
    zoe = world.anybody("zoe")
    world.anybody("ann").commits()
    with world.refuses("ClaimUndecided"):
        zoe.disputes(make_place(world, 0, "ann", draw=None))
    with world.refuses("StatementUnknown"):
        zoe.disputes(make_place(world, 0, "bob", draw=None))
    with world.refuses("StatementUnknown"):
        zoe.disputes(StatementRef(0, 60))
    with world.refuses("RoundUnknown"):
        zoe.disputes(StatementRef(1, 0))
    return world


@PLAYS.add
def a_dispute_comes_in_its_window() -> World:
    """Until `dispute` behind the close; its own party, a closed seat and a small bond are refused."""
    world, ref = make_accepted("a dispute comes in its window")
    zoe, yan = world.anybody("zoe"), world.anybody("yan")
    with world.refuses("OwnStatement"):
        world.anybody("ann").disputes(ref)
    with world.refuses("CreditTooSmall"):
        zoe.disputes(ref)
    with world.refuses("WrongBond"):
        zoe.disputes(ref, bond=79)
    world.comes_to((world.state.rounds[0].closed or 0) + 200)
    zoe.disputes(ref)
    made = world.log[-1].made
    assert made is not None
    world.send_refused("DisputeExists", "zoe", *made[:6], 1_000, made[7])
    world.send_refused("StatementUnknown", "zoe", *made[:5], 5, *made[6:])
    with world.refuses("WrongBond"):
        yan.disputes(ref, bond=159)
    yan.disputes(ref, bond=1_000)
    assert world.get_credit("yan") == 840
    world.passes()
    with world.refuses("OutsideWindow"):
        zoe.disputes(ref)
    return world


@PLAYS.add
def a_window_ends_though_nobody_closed_the_round() -> World:
    """A round whose closing block is past counts as closed there."""
    world = make_running("a window ends though nobody closed the round")
    world.anybody("ann").commits()
    world.comes_to(world.closes() + 201)
    with world.refuses("OutsideWindow"):
        world.anybody("zoe").disputes(make_place(world, 0, "ann", draw=None))
    return world


@PLAYS.add
def words_that_claim_no_state_are_not_disputed() -> World:
    """Who was not served, or abstains, claims nothing."""
    world = make_drawn("words that claim no state are not disputed")
    zoe = world.anybody("zoe")
    world.votes("ann", UNSERVED, is_opened=False)
    world.votes("ann", ABSTAIN, rank=1, is_opened=False)
    world.votes("bob", REJECT_START, is_opened=False)
    world.votes("bob", REJECT_DELTA, rank=1, is_opened=False)
    world.votes("cid", REJECT_STATE, is_opened=False)
    world.votes("cid", REJECT_STATE, rank=1, is_opened=False)
    for rank in (0, 1):
        with world.refuses("StatementUnknown"):
            zoe.disputes(make_place(world, 0, "ann", rank=rank))
    for rank in (0, 1):
        zoe.disputes(make_place(world, 0, "bob", rank=rank))
    zoe.disputes(make_place(world, 0, "cid"))
    return world


@PLAYS.add
def a_settled_seat_answers_for_nothing() -> World:
    """Once it has settled the round, its claim is unknown."""
    world, ref = make_accepted("a settled seat answers for nothing")
    world.submitter.halts()
    world.runs_out()
    world.passes_duties()
    world.settles("ann", 1)
    with world.refuses("StatementUnknown"):
        world.anybody("zoe").disputes(ref)
    return world


@PLAYS.add
def a_silent_claimant_is_convicted() -> World:
    """It posts no roots in time; before its clock nobody ends the dispute, after it nobody moves."""
    world, ref = make_accepted("a silent claimant is convicted")
    zoe, ann = world.anybody("zoe"), world.anybody("ann")
    dispute = zoe.disputes(ref)
    world.passes(10)
    with world.refuses("NotLate"):
        zoe.ends_dispute(dispute)
    world.passes()
    with world.refuses("OutsideWindow"):
        ann.shows_roots(dispute)
    zoe.ends_dispute(dispute)
    with world.refuses("NothingOpen"):
        zoe.ends_dispute(dispute)
    with world.refuses("SeatIsConvicted"):
        zoe.disputes(ref)
    return world


@PLAYS.add
def a_silent_opener_loses_its_bond() -> World:
    """It names no step: the claimant is cleared and gets half of the bond."""
    world, ref = make_accepted("a silent opener loses its bond")
    zoe, ann = world.anybody("zoe"), world.anybody("ann")
    dispute = zoe.disputes(ref)
    with world.refuses("NotHolder"):
        world.anybody("bob").shows_roots(dispute)
    ann.shows_roots(dispute)
    with world.refuses("WrongTurn"):
        ann.shows_roots(dispute)
    world.passes(10)
    with world.refuses("NotLate"):
        zoe.ends_dispute(dispute)
    world.passes()
    with world.refuses("OutsideWindow"):
        zoe.names_step(dispute, 2)
    ann.ends_dispute(dispute)
    assert world.get_credit("ann") == 40
    return world


@PLAYS.add
def a_step_is_named_and_not_shown() -> World:
    """The claimant shows no trace of the step: it is convicted."""
    world, ref = make_accepted("a step is named and not shown")
    zoe, ann = world.anybody("zoe"), world.anybody("ann")
    dispute = zoe.disputes(ref)
    with world.refuses("WrongTurn"):
        zoe.names_step(dispute, 0)
    ann.shows_roots(dispute)
    with world.refuses("NotOpener"):
        ann.names_step(dispute, 0)
    with world.refuses("NotBelow"):
        zoe.names_step(dispute, 5)
    zoe.names_step(dispute, 4)
    with world.refuses("WrongTurn"):
        zoe.names_step(dispute, 4)
    world.passes(11)
    zoe.ends_dispute(dispute)
    return world


@PLAYS.add
def a_vote_is_disputed() -> World:
    """Its auditor shows the roots of its own replay; silent in another one, it is convicted."""
    world = make_running("a vote is disputed")
    world.plays_round()
    zoe, ref = world.anybody("zoe"), make_place(world, 0, "ann")
    auditor = world.get_auditor(0, "ann")
    with world.refuses("OwnStatement"):
        auditor.disputes(ref)
    first = zoe.disputes(ref)
    second = world.anybody("yan").disputes(ref)
    auditor.shows_roots(first)
    world.passes(11)
    zoe.ends_dispute(first)
    world.anybody("yan").ends_dispute(second)
    return world


@PLAYS.add
def a_disputed_false_reject_restores_pay() -> World:
    """Two auditors made a claim void; the one that cannot answer pays it back."""
    world = make_running("a disputed false reject restores pay")
    world.all_commit()
    world.draws()
    for rank in (0, 1):
        world.votes("ann", REJECT_STATE, rank=rank, is_opened=False)
    for claimant in ("bob", "cid"):
        world.votes(claimant, ACCEPT)
    world.posts()
    zoe = world.anybody("zoe")
    dispute = zoe.disputes(make_place(world, 0, "ann"))
    world.passes(11)
    zoe.ends_dispute(dispute)
    assert world.get_credit("ann") == 100
    return world


@PLAYS.add
def a_dispute_of_a_closed_seat_is_moot() -> World:
    """Convicted otherwise meanwhile: the bond goes back, and no move is taken."""
    world = make_running("a dispute of a closed seat is moot")
    world.anybody("ann").commits(fault="start")
    world.anybody("bob").commits()
    world.anybody("cid").commits()
    world.draws()
    world.all_accept()
    world.posts()
    zoe, yan = world.anybody("zoe"), world.anybody("yan")
    ref = make_place(world, 0, "ann", draw=None)
    dispute = zoe.disputes(ref)
    yan.convicts(ref, ProofKind.BOUNDARY_ZERO)
    with world.refuses("SeatIsConvicted"):
        world.anybody("ann").shows_roots(dispute)
    zoe.ends_dispute(dispute)
    assert world.get_credit("zoe") == 80
    return world


@PLAYS.add
def a_dispute_holds_its_seat() -> World:
    """While it is open the seat neither settles nor is paid out; others do."""
    world = make_running("a dispute holds its seat", rounds=1, windows={"respond": 100, "dispute": 800})
    world.plays_round()
    until = (world.state.rounds[0].closed or 0) + 800
    world.comes_to(until)
    zoe = world.anybody("zoe")
    dispute = zoe.disputes(make_place(world, 0, "ann", draw=None))
    world.passes()
    with world.refuses("NotSettleable"):
        world.settles("ann", 0)
    with world.refuses("SeatBusy"):
        zoe.pays_out("ann")
    world.settles("bob", 0)
    world.anybody("ann").shows_roots(dispute)
    world.passes(101)
    zoe.ends_dispute(dispute)
    world.ends()
    return world
