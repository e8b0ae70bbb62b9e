"""Contests of posted roots: whose move it is, what silence costs, and what a fall undoes."""

from typing import Any

from tests.kit.actor import Actor
from tests.kit.played_task import STRANGER
from tests.kit.plays.collection import Plays
from tests.kit.plays.rounds import make_running
from tests.kit.world import World, make_place
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.enums import ProofKind, RoundPhase
from touchstone.protocol.spec.game.upkeep import list_upkeep
from touchstone.protocol.spec.game.vault import BURNED, RESTITUTION
from touchstone.protocol.spec.statements import VoteWord

PLAYS = Plays("contests")
ACCEPT = VoteWord.ACCEPT


def make_posted(name: str, is_right: bool = True, **changes: Any) -> tuple[World, Actor]:
    """Returns a task whose first root is posted, and who will contest it."""
    signers = changes.pop("signers", None)
    world = make_running(name, **changes)
    world.all_commit()
    world.draws()
    world.all_accept()
    world.posts(root=None if is_right else world.make_root("wrong", name), signers=signers)
    return world, world.anybody("zoe")


def fells(world: World, index: int, by: str = "zoe") -> None:
    """A root falls: nobody answers its contest."""
    contest = world.anybody(by).contests(index)
    world.passes(11)
    world.anybody(by).ends_contest(contest)


def require_phases(world: World, *phases: RoundPhase) -> None:
    """Fails unless the first rounds are in these phases."""
    assert tuple(world.state.rounds[index].phase for index in range(len(phases))) == phases


@PLAYS.add
def a_right_root_stands() -> World:
    """It is answered down to the leaf, which the contract computes; half of the bond goes to the answerer."""
    world, zoe = make_posted("a right root stands")
    contest = zoe.contests(0)
    world.anybody("bob").answers_contest(contest)
    zoe.names_child(contest, 1)
    with world.refuses("ProofInvalid"):
        world.anybody("ann").brings_leaf(contest, is_right=False)
    world.anybody("ann").brings_leaf(contest)
    assert world.get_credit("ann") == 150, "who brought the leaf"
    assert world.state.vault.get_wei(BURNED) == 150, "the other half"
    require_phases(world, RoundPhase.POSTED)
    with world.refuses("NothingOpen"):
        zoe.ends_contest(contest)
    return world


@PLAYS.add
def a_wrong_root_falls() -> World:
    """No inputs compute its leaf: its signers are convicted, and another majority posts again."""
    world, zoe = make_posted("a wrong root falls", is_right=False, signers=["ann", "bob"])
    contest = zoe.contests(0)
    world.anybody("ann").answers_contest(contest)
    zoe.names_child(contest)
    with world.refuses("ProofInvalid"):
        world.anybody("ann").brings_leaf(contest, is_right=False)
    world.passes(11)
    zoe.ends_contest(contest)
    require_phases(world, RoundPhase.FALLEN, RoundPhase.UNDONE)
    with world.refuses("RoundNotRunning"):
        world.anybody("cid").commits(round=1)
    world.posts(signers=["cid"])
    require_phases(world, RoundPhase.POSTED, RoundPhase.UNDONE)
    return world


@PLAYS.add
def silence_of_the_answerers_fells_a_root() -> World:
    """Nobody answers the contest at all."""
    world, zoe = make_posted("silence of the answerers fells a root")
    contest = zoe.contests(0)
    world.passes(10)
    with world.refuses("NotLate"):
        zoe.ends_contest(contest)
    world.passes()
    with world.refuses("OutsideWindow"):
        world.anybody("bob").answers_contest(contest)
    zoe.ends_contest(contest)
    return world


@PLAYS.add
def silence_of_the_contester_lets_it_stand() -> World:
    """It names no child: the last answerer gets half of the bond."""
    world, zoe = make_posted("silence of the contester lets it stand")
    contest = zoe.contests(0)
    world.anybody("bob").answers_contest(contest)
    world.passes(11)
    with world.refuses("OutsideWindow"):
        zoe.names_child(contest)
    world.anybody("cid").ends_contest(contest)
    assert world.get_credit("bob") == 150
    return world


@PLAYS.add
def silence_before_the_leaf_fells_a_root() -> World:
    """The leaf is named, and nobody brings its inputs in time."""
    world, zoe = make_posted("silence before the leaf fells a root")
    contest = zoe.contests(0)
    world.anybody("bob").answers_contest(contest)
    zoe.names_child(contest)
    world.passes(11)
    with world.refuses("OutsideWindow"):
        world.anybody("bob").brings_leaf(contest)
    zoe.ends_contest(contest)
    return world


@PLAYS.add
def a_contest_is_refused() -> World:
    """Without a posted root, behind its window, without the bond."""
    world = make_running("a contest is refused")
    zoe = world.anybody("zoe")
    with world.refuses("NothingOpen"):
        zoe.contests(0)
    with world.refuses("RoundUnknown"):
        zoe.contests(1)
    world.plays_round()
    with world.refuses("WrongBond"):
        zoe.contests(0, bond=299)
    with world.refuses("CreditTooSmall"):
        zoe.contests(0)
    zoe.deposits(301)
    world.comes_to(world.state.rounds[0].root_until)
    contest = zoe.contests(0)
    assert world.get_credit("zoe") == 1, "the bond came out of its credit"
    made = world.log[-1].made
    assert made is not None
    world.send_refused("ContestExists", "zoe", *made[:4], 1_000, made[5])
    world.passes()
    with world.refuses("OutsideWindow"):
        world.anybody("yan").contests(0)
    with world.refuses("NothingOpen"):
        zoe.ends_contest(contest + 7)
    return world


@PLAYS.add
def moves_out_of_turn_are_refused() -> World:
    """Each move has its turn, its party and its nodes."""
    world, zoe = make_posted("moves out of turn are refused")
    bob = world.anybody("bob")
    contest = zoe.contests(0)
    with world.refuses("WrongTurn"):
        zoe.names_child(contest)
    with world.refuses("WrongTurn"):
        bob.brings_leaf(contest)
    with world.refuses("NothingOpen"):
        bob.answers_contest(contest + 1)
    with world.refuses("ProofInvalid"):
        world.send_refused(
            "ProofInvalid", "bob", "Contests", "answerContest", world.task, world.ids[contest], []
        )
        bob.answers_contest(contest, is_hashing=False)
    bob.answers_contest(contest)
    with world.refuses("WrongTurn"):
        bob.answers_contest(contest)
    with world.refuses("NotContester"):
        bob.names_child(contest)
    nodes = world.behind[world.state.contests[contest].root]
    name = world.ids[contest]
    world.send_refused("ProofInvalid", "zoe", "Contests", "nameChild", world.task, name, 2, nodes)
    world.send_refused("ProofInvalid", "zoe", "Contests", "nameChild", world.task, name, 0, nodes[:1])
    zoe.names_child(contest)
    with world.refuses("WrongTurn"):
        zoe.names_child(contest)
    with world.refuses("WrongTurn"):
        bob.answers_contest(contest)
    return world


@PLAYS.add
def the_kth_contest_costs_k_bonds() -> World:
    """So many that they cannot all be answered would fell a right root."""
    world, zoe = make_posted("the kth contest costs k bonds")
    zoe.contests(0)
    with world.refuses("WrongBond"):
        world.anybody("yan").contests(0, bond=599)
    second = world.anybody("yan").contests(0, bond=1_000)
    assert world.get_credit("yan") == 400, "it paid what was due"
    third = zoe.contests(0)
    for contest in (second, third):
        world.anybody("bob").answers_contest(contest)
    world.passes(11)
    for contest in (second, third):
        world.anybody("bob").ends_contest(contest)
    assert world.get_credit("bob") == 300 + 450
    world.plays_round()
    with world.refuses("WrongBond"):
        zoe.contests(1, bond=599)
    zoe.contests(1, bond=600)
    return world


@PLAYS.add
def other_contests_are_moot_after_a_fall() -> World:
    """Their bonds go back, those of later rounds too; moves in them are refused."""
    world, zoe = make_posted("other contests are moot after a fall", signers=["ann", "bob"])
    world.plays_round()
    yan, una = world.anybody("yan"), world.anybody("una")
    first, second, third = zoe.contests(0), yan.contests(0), una.contests(1)
    world.passes(11)
    zoe.ends_contest(first)
    assert set(world.state.contests) == {second, third}, "a fall ends its own contest only"
    for actor, contest in ((yan, second), (una, third)):
        with world.refuses("NothingOpen"):
            world.anybody("bob").answers_contest(contest)
        with world.refuses("NothingOpen"):
            actor.names_child(contest)
        with world.refuses("NothingOpen"):
            world.anybody("bob").brings_leaf(contest)
        assert calls.EndRootContest(contest) in list_upkeep(world.state, world.block)
        actor.ends_contest(contest)
    assert world.get_credit("yan") == 600 and world.get_credit("una") == 900
    return world


@PLAYS.add
def the_same_root_posted_again_is_another_posting() -> World:
    """A contest of the first posting has no object any more."""
    world, zoe = make_posted("the same root posted again is another posting", signers=["ann", "bob"])
    first, second = zoe.contests(0), world.anybody("yan").contests(0)
    world.passes(11)
    zoe.ends_contest(first)
    world.posts(signers=["cid"])
    assert world.state.rounds[0].root == world.state.terms.root
    world.anybody("yan").ends_contest(second)
    assert world.get_credit("yan") == 600, "moot"
    return world


@PLAYS.add
def a_fallen_round_is_posted_in_its_window() -> World:
    """`post` blocks from the fall; then its base root stands."""
    world, _ = make_posted("a fallen round is posted in its window", signers=["ann", "bob"])
    fells(world, 0)
    world.passes(6)
    with world.refuses("OutsideWindow"):
        world.posts(signers=["cid"])
    world.stands(0)
    assert world.is_paused, "two solvers are gone"
    return world


@PLAYS.add
def a_contest_holds_settlement() -> World:
    """While a root of the epoch is contested nobody settles, and the task does not close."""
    world, zoe = make_posted("a contest holds settlement", windows={"respond": 100, "dispute": 284})
    world.submitter.halts()
    world.runs_out()
    for game_round in (0, 1):
        assert world.state.rounds[game_round].closed is not None
    world.comes_to(world.state.rounds[0].root_until)
    contest = zoe.contests(0)
    world.passes(60)
    world.anybody("bob").answers_contest(contest)
    world.passes_duties()
    with world.refuses("ContestRuns"):
        world.settles("cid", 1)
    with world.refuses("TaskRuns"):
        world.closes_task()
    world.comes_to(world.state.contests[contest].clock + 1)
    zoe.ends_contest(contest)
    world.settles("cid", 1)
    return world


@PLAYS.add
def a_later_root_falls_alone() -> World:
    """The round before it keeps its root."""
    world, _ = make_posted("a later root falls alone")
    world.all_commit()
    world.draws()
    world.all_accept()
    world.posts(signers=["ann", "bob"])
    fells(world, 1)
    require_phases(world, RoundPhase.POSTED, RoundPhase.FALLEN)
    return world


@PLAYS.add
def late_audits_of_a_fallen_round_count() -> World:
    """The seed of a later round drew them, which is undone; its claims can still be proven false."""
    world = World("late audits of a fallen round count", late_chance=1 << 16, least_whistleblowers=3)
    world.solvers("ann", "bob", "cid")
    world.verifiers("vic", "wil", "xia")
    world.whistleblowers("eve", "fay", "gus")
    world.starts()
    world.all_commit()
    world.draws()
    world.all_accept()
    world.posts(root=world.make_root("wrong", world.name), signers=["ann", "bob"])
    for name in ("ann", "bob"):
        world.anybody(name).commits()
    world.anybody("cid").commits(fault="start")
    world.draws()
    fells(world, 0)
    require_phases(world, RoundPhase.FALLEN, RoundPhase.UNDONE)
    world.votes("cid", ACCEPT, index=0, draw=1, is_opened=False)
    late, zoe = make_place(world, 0, "cid", draw=1), world.anybody("zoe")
    dispute = zoe.disputes(late)
    world.passes(11)
    zoe.ends_dispute(dispute)
    zoe.convicts(make_place(world, 1, "cid", draw=None), ProofKind.BOUNDARY_ZERO)
    assert not world.state.disputes and world.get_held() == 2_850 + 250 + 1_350
    return world


@PLAYS.add
def what_is_undone_counts_nothing() -> World:
    """Of a round that an earlier fall undid no vote counts, and no draw is sealed."""
    world, _ = make_posted("what is undone counts nothing", signers=["ann", "bob"])
    world.all_commit()
    contest = world.anybody("zoe").contests(0)
    world.draws()
    vote = world.make_vote(1, world.get_slot("cid", 1), 0, 0, ACCEPT)
    world.passes(11)
    world.anybody("zoe").ends_contest(contest)
    world.send(calls.JudgeVotes(1, (vote,), (calls.HandedOpening(vote.slot, 0, 0),)), STRANGER)
    assert not world.state.rounds[1].votes
    with world.refuses("NoDrawDue"):
        world.send(calls.DrawAudits(1), STRANGER)
    return world


@PLAYS.add
def an_undone_round_is_never_drawn() -> World:
    """It closed before the fall, and its draw was still to be sealed."""
    world, _ = make_posted("an undone round is never drawn", signers=["ann", "bob"])
    contest = world.anybody("zoe").contests(0)
    world.passes(11)
    world.all_commit()
    world.closes()
    world.anybody("zoe").ends_contest(contest)
    world.passes(2)
    with world.refuses("NoDrawDue"):
        world.send(calls.DrawAudits(1), STRANGER)
    return world


@PLAYS.add
def a_fall_makes_good_what_it_undid() -> World:
    """The signers' stakes pay finder and submitter, then the accepted claims of the undone rounds."""
    world, _ = make_posted("a fall makes good what it undid", signers=["ann", "bob"])
    world.all_commit()
    world.draws()
    world.all_accept()
    fells(world, 0)
    assert world.state.vault.get_wei(RESTITUTION) == 100, "cid alone is owed"
    world.submitter.halts()
    world.posts(signers=["cid"])
    world.passes_duties()
    world.all_settle()
    assert world.get_credit("cid") == 200, "round 0 and what was undone"
    world.ends()
    return world


@PLAYS.add
def a_small_slash_pays_shares() -> World:
    """It holds less than what is owed: each undone claim gets its part, a short one less, rounded down."""
    amounts = {"solver_stake": 600, "solver_pay": 500}
    world = World("a small slash pays shares", amounts=amounts)
    world.solvers("ann", "bob", "cid", "dan")
    world.verifiers("vic", "wil", "xia")
    world.starts()
    world.all_commit()
    world.draws()
    world.all_accept()
    world.posts(signers=["ann", "bob", "cid"])
    for name in ("ann", "bob", "cid"):
        world.anybody(name).commits()
    world.anybody("dan").commits(3)
    world.draws()
    world.all_accept()
    world.posts(signers=["ann", "bob", "cid"])
    world.all_commit()
    world.draws()
    world.all_accept()
    fells(world, 0)
    world.submitter.halts()
    world.posts(signers=["dan"])
    world.ends()
    return world


@PLAYS.add
def a_contest_excuses_nobody() -> World:
    """Who does not commit pays the fee, also while a contest runs."""
    world, zoe = make_posted("a contest excuses nobody")
    contest = zoe.contests(0)
    world.submitter.halts()
    world.anybody("bob").answers_contest(contest)
    world.anybody("ann").commits()
    world.passes(11)
    zoe.ends_contest(contest)
    world.draws()
    world.all_accept()
    world.posts()
    world.passes_duties()
    world.all_settle()
    assert world.get_stake("bob") == world.get_stake("cid") == 1_940
    world.ends()
    return world


@PLAYS.add
def a_root_falls_until_nobody_is_left() -> World:
    """Each majority that posts a wrong root is convicted, and a smaller one may post again."""
    world = World("a root falls until nobody is left", solver_seats=9, least_solvers=1)
    names = [f"sol {i}" for i in range(9)]
    world.solvers(*names)
    world.verifiers("vic", "wil", "xia")
    world.starts()
    world.all_commit()
    world.draws()
    world.all_accept()
    for count in (5, 3, 1):
        left = [name for name in names if world.get_seat(name).status.name != "CONVICTED"]
        world.posts(signers=left[:count])
        fells(world, 0)
    assert len(world.state.falls) == 3
    world.stands_after_fall()
    return world


@PLAYS.add
def signers_among_friends_lose_half() -> World:
    """The finder gets a capped part, the submitter another; the rest is held where nothing was undone."""
    world = make_running("signers among friends lose half", rounds=1)
    world.all_commit()
    world.draws()
    world.all_accept()
    world.posts()
    fells(world, 0, by="cid")
    assert world.get_credit("cid") == 300 + 150
    world.stands_after_fall()
    world.passes_duties()
    world.all_settle()
    world.ends()
    return world


@PLAYS.add
def a_seat_is_convicted_by_its_root_and_by_its_claim() -> World:
    """A seat that is closed already is not convicted again by the root that it signed."""
    world, zoe = make_posted("a seat is convicted by its root and by its claim", signers=["ann", "bob"])
    world.anybody("ann").commits(fault="start")
    zoe.convicts(make_place(world, 1, "ann", draw=None), ProofKind.BOUNDARY_ZERO)
    fells(world, 0)
    return world
