"""How rounds start, take commitments, close, are drawn, get a root, or stand."""

from typing import Any

from tests.kit.members import make_word
from tests.kit.plays.collection import Plays
from tests.kit.world import World, make_place
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.enums import ProofKind
from touchstone.protocol.spec.game.timing import compute_draw_window
from touchstone.protocol.spec.game.vault import BURNED
from touchstone.protocol.spec.statements import VoteWord

PLAYS = Plays("rounds")


def make_running(name: str, **changes: Any) -> World:
    """Returns a task of three solvers and three verifiers whose first round runs."""
    world = World(name, **changes)
    world.solvers("ann", "bob", "cid")
    world.verifiers("vic", "wil", "xia")
    world.starts()
    return world


@PLAYS.add
def too_few_have_joined() -> World:
    """A start needs enough seats of each role, and nothing is sealed before it."""
    world = World("too few have joined", least_whistleblowers=1)
    world.solver("ann")
    world.verifiers("vic", "wil", "xia")
    world.whistleblower("yan")
    with world.refuses("PoolTooSmall"):
        world.asks_for_start()
    world.solver("bob")
    world.anybody("vic").leaves()
    with world.refuses("PoolTooSmall"):
        world.asks_for_start()
    world.verifier("zac")
    world.anybody("yan").leaves()
    with world.refuses("PoolTooSmall"):
        world.asks_for_start()
    world.whistleblower("zoe")
    with world.refuses("NoDrawDue"):
        world.seals_start()
    world.asks_for_start()
    with world.refuses("StartPending"):
        world.asks_for_start()
    return world


@PLAYS.add
def a_start_is_sealed_in_its_window() -> World:
    """Not before its block is past, and once: one randomness deals both rounds."""
    world = World("a start is sealed in its window")
    world.solvers("ann", "bob")
    world.verifiers("vic", "wil", "xia")
    world.asks_for_start()
    assert world.state.start is not None
    beacon_block = world.state.start.beacon_block
    world.comes_to(beacon_block)
    with world.refuses("OutsideWindow"):
        world.seals_start()
    world.comes_to(beacon_block + 200)
    world.seals_start()
    assert set(world.state.beacons) == {0, 1}
    with world.refuses("NotPaused"):
        world.asks_for_start()
    with world.refuses("NoDrawDue"):
        world.seals_start()
    return world


@PLAYS.add
def a_start_lapses() -> World:
    """Where nobody seals it, it can be asked for again."""
    world = World("a start lapses")
    world.solvers("ann", "bob")
    world.verifiers("vic", "wil", "xia")
    world.asks_for_start()
    world.passes(203)
    with world.refuses("OutsideWindow"):
        world.seals_start()
    world.starts()
    assert world.live.index == 0
    return world


@PLAYS.add
def a_pool_shrinks_before_its_start_is_sealed() -> World:
    """A conviction makes the frozen pool too small."""
    world = World("a pool shrinks before its start is sealed", rounds=6)
    ann, bob = world.solvers("ann", "bob")
    world.verifiers("vic", "wil", "xia")
    world.starts()
    bob.leaves()
    world.plays_round()
    ann.commits(fault="start")
    bob.commits()
    world.draws()
    world.all_accept()
    world.posts()
    assert world.is_paused
    world.solver("cid")
    world.asks_for_start()
    zoe = world.anybody("zoe")
    zoe.convicts(make_place(world, 1, "ann", draw=None), ProofKind.BOUNDARY_ZERO)
    world.passes(3)
    with world.refuses("PoolTooSmall"):
        world.seals_start()
    return world


@PLAYS.add
def a_commitment_is_refused() -> World:
    """Wrong rounds, bases, beacons, lengths and senders, and a second claim of one seat."""
    world = World("a commitment is refused", segment_count=6, draws=2, least_verifiers=6)
    ann, bob, cid = world.solvers("ann", "bob", "cid")
    vic, *_ = world.verifiers("vic", "wil", "xia", "yan", "zac", "una")
    world.starts()
    with world.refuses("RoundUnknown"):
        ann.commits(round=1)
    with world.refuses("NotCommitter"):
        world.anybody("zoe").commits()
    with world.refuses("NotCommitter"):
        vic.commits()
    with world.refuses("WrongBase"):
        bob.commits(base_root=make_word("x"))
    with world.refuses("WrongBeacon"):
        bob.commits(beacon=make_word("x"))
    with world.refuses("WrongSegments"):
        bob.commits(3)
    with world.refuses("WrongSegments"):
        bob.commits(7)
    bob.commits(4)
    with world.refuses("AlreadyCommitted"):
        bob.commits()
    ann.commits(5, fault="start")
    world.anybody("zoe").convicts(make_place(world, 0, "ann", draw=None), ProofKind.BOUNDARY_ZERO)
    with world.refuses("SeatIsConvicted"):
        ann.commits()
    late = world.solver("late")
    with world.refuses("NotCommitter"):
        late.commits()
    cid.commits()
    world.draws()
    with world.refuses("OutsideWindow"):
        world.anybody("late").commits()
    world.all_accept()
    world.posts(merged=["bob", "cid"])
    with world.refuses("RoundNotRunning"):
        cid.commits(round=0)
    return world


@PLAYS.add
def the_last_commitment_closes_a_round() -> World:
    """All that were counted at the opening have committed: that block is the last."""
    world = make_running("the last commitment closes a round")
    world.passes(5)
    world.all_commit()
    with world.refuses("NoDrawDue"):
        world.send(calls.DrawAudits(0), "stranger")
    closed = world.closes()
    world.submitter.halts()
    assert world.state.rounds[0].closed == closed == world.state.rounds[0].opened + 5
    with world.refuses("OutsideWindow"):
        world.anybody("ann").commits()
    return world


@PLAYS.add
def two_thirds_close_a_round_after_the_least_time() -> World:
    """The closing block itself takes commitments; a later second claim closes with its own block."""
    world = make_running("two thirds close a round after the least time")
    ann, bob, cid = (world.anybody(name) for name in ("ann", "bob", "cid"))
    opened = world.live.opened
    ann.commits()
    world.comes_to(opened + 40)
    cid.commits()
    bob.commits()
    assert world.closes() == opened + 40
    world.draws()
    world.all_accept()
    world.posts()
    opened = world.live.opened
    ann.commits()
    world.comes_to(opened + 41)
    cid.commits()
    world.passes()
    with world.refuses("OutsideWindow"):
        bob.commits()
    assert world.closes() == opened + 41
    return world


@PLAYS.add
def few_commit_and_the_longest_time_passes() -> World:
    """One claim: the round closes after train_max, whose block still takes it."""
    world = make_running("few commit and the longest time passes")
    world.comes_to(world.live.opened + 80)
    world.anybody("ann").commits()
    assert world.closes() == world.state.rounds[0].opened + 80
    world.draws()
    world.all_accept()
    world.posts()
    return world


@PLAYS.add
def a_convicted_seat_is_not_waited_for() -> World:
    """A seat that was closed before a round opened is not counted there, and its signature not later."""
    world = World("a convicted seat is not waited for")
    ann, bob, cid = world.solvers("ann", "bob", "cid")
    world.verifiers("vic", "wil", "xia")
    world.starts()
    ann.commits()
    bob.commits()
    cid.commits(fault="start")
    world.draws()
    world.all_accept()
    world.anybody("zoe").convicts(make_place(world, 0, "cid", draw=None), ProofKind.BOUNDARY_ZERO)
    with world.refuses("NotMergeable"):
        world.posts(merged=["ann", "bob", "cid"])
    world.posts(signers=["ann", "bob"])
    opened = world.live.opened
    ann.commits()
    bob.commits()
    assert world.closes() == opened, "all that counted"
    world.draws()
    world.all_accept()
    world.posts(signers=["ann", "bob", "cid"])
    assert len(world.state.rounds[1].signers) == 2, "its signature counts no more"
    return world


@PLAYS.add
def a_draw_is_sealed_in_its_window() -> World:
    """After its block, before reserves count, once, and of a round that is closed."""
    world = make_running("a draw is sealed in its window")
    world.all_commit()
    closed = world.closes()
    first, last = compute_draw_window(world.state, closed)
    with world.refuses("OutsideWindow"):
        world.send(calls.DrawAudits(0), "stranger")
    assert first > world.block
    world.comes_to(last)
    world.send(calls.DrawAudits(0), "stranger")
    assert world.state.rounds[0].seed is not None and 2 in world.state.beacons
    with world.refuses("NoDrawDue"):
        world.send(calls.DrawAudits(0), "stranger")
    with world.refuses("RoundUnknown"):
        world.send(calls.DrawAudits(1), "stranger")
    with world.refuses("RoundUnknown"):
        world.send(calls.DrawRound(1), "stranger")
    with world.refuses("NoDrawDue"):
        world.send(calls.DrawRound(0), "stranger")
    return world


@PLAYS.add
def a_draw_is_missed() -> World:
    """Nobody seals: the claims are void without a fee, their pay stays the submitter's, and the base root
    stands."""
    world = make_running("a draw is missed", rounds=3)
    world.all_commit()
    closed = world.closes()
    _, last = compute_draw_window(world.state, closed)
    world.comes_to(last)
    with world.refuses("NotLate"):
        world.stands()
    world.passes()
    with world.refuses("OutsideWindow"):
        world.send(calls.DrawAudits(0), "stranger")
    world.stands()
    world.plays_round()
    world.plays_round()
    world.ends()
    assert world.state.vault.get_wei(BURNED) == 0
    return world


@PLAYS.add
def a_round_opens_without_a_beacon() -> World:
    """Two draws missed: a block of its own deals it, and training counts from the seal."""
    world = make_running("a round opens without a beacon")
    for _ in range(2):
        world.all_commit()
        world.comes_to(world.closes() + 10)
        world.stands()
    live = world.live
    assert live.beacon is None and live.beacon_block is not None
    with world.refuses("WrongBeacon"):
        world.anybody("ann").commits()
    world.comes_to(live.beacon_block)
    with world.refuses("OutsideWindow"):
        world.send(calls.DrawRound(2), "stranger")
    world.passes(7)
    world.deals()
    with world.refuses("NoDrawDue"):
        world.send(calls.DrawRound(2), "stranger")
    world.anybody("ann").commits()
    world.anybody("bob").commits()
    assert world.closes() == live.beacon_block + 47, "train_min from the seal"
    world.draws()
    world.all_accept()
    world.posts()
    world.submitter.halts()
    world.runs_out()
    world.ends()
    return world


@PLAYS.add
def a_beacon_never_comes() -> World:
    """The round closes with the last block that could seal it, and costs nobody a fee."""
    world = make_running("a beacon never comes")
    for _ in range(2):
        world.all_commit()
        world.comes_to(world.closes() + 10)
        world.stands()
    beacon_block = world.live.beacon_block or 0
    world.comes_to(beacon_block + 200)
    with world.refuses("NotNewest"):
        world.stands(2)
    world.passes()
    with world.refuses("OutsideWindow"):
        world.send(calls.DrawRound(2), "stranger")
    world.stands(2)
    world.submitter.halts()
    world.comes_to((world.live.beacon_block or 0) + 201)
    with world.refuses("OutsideWindow"):
        world.send(calls.DrawRound(3), "stranger")
    world.stands()
    world.ends()
    assert all(one.refused != "" for one in world.log)
    return world


@PLAYS.add
def an_older_round_is_drawn_later() -> World:
    """Round 0 gets its draw while it can; what round 1 has dealt stays."""
    world = make_running("an older round is drawn later")
    world.comes_to(world.live.opened + 81)
    world.stands()
    world.all_commit()
    world.draws()
    dealt = world.state.beacons[3]
    world.send(calls.DrawAudits(0), "stranger")
    assert world.state.beacons[3] == dealt
    return world


@PLAYS.add
def a_root_is_posted_in_its_window() -> World:
    """Undecided claims are waited for, then `post` blocks are left; what is merged is accepted and signed."""
    world = make_running("a root is posted in its window")
    with world.refuses("NotNewest"):
        world.posts(index=0, merged=[], root=make_word("root"))
    with world.refuses("NotNewest"):
        world.stands(0)
    world.all_commit()
    world.draws()
    closed = world.state.rounds[0].closed or 0
    for claimant in ("ann", "bob"):
        world.votes(claimant, VoteWord.ACCEPT)
    world.comes_to(closed + 29)
    with world.refuses("OutsideWindow"):
        world.posts()
    world.passes()
    with world.refuses("NotMergeable"):
        world.posts(merged=[])
    with world.refuses("NotMergeable"):
        world.posts(merged=["cid"])
    with world.refuses("NotMergeable"):
        world.posts(merged=["ann", "bob", "cid"])
    with world.refuses("NoMajority"):
        world.posts(signers=["ann"])
    with world.refuses("NotNewest"):
        world.send(calls.PostRoot(1, (0,), make_word("root"), ()), "stranger")
    world.comes_to(closed + 35)
    with world.refuses("NotLate"):
        world.stands()
    world.posts(signers=["bob", "cid"])
    with world.refuses("NotNewest"):
        world.posts(index=0)
    with world.refuses("NotNewest"):
        world.stands(0)
    world.passes(100)
    with world.refuses("NotNewest"):
        world.posts(index=0, merged=["ann"])
    return world


@PLAYS.add
def nobody_posts_in_time() -> World:
    """The base root stands, and the next round starts from it."""
    world = make_running("nobody posts in time")
    world.all_commit()
    world.draws()
    world.all_accept()
    closed = world.state.rounds[0].closed or 0
    with world.refuses("NotLate"):
        world.stands()
    world.comes_to(closed + 36)
    with world.refuses("OutsideWindow"):
        world.posts()
    world.stands()
    assert world.live.base_root == world.state.rounds[0].base_root
    return world


@PLAYS.add
def nothing_can_be_merged() -> World:
    """All auditors abstain: the base root stands at once, and a halted task ends."""
    world = make_running("nothing can be merged")
    world.submitter.halts()
    world.all_commit()
    world.draws()
    for claimant in ("ann", "bob", "cid"):
        for rank in (0, 1):
            world.votes(claimant, VoteWord.ABSTAIN, rank=rank, is_opened=False)
    world.stands()
    assert world.is_paused
    world.ends()
    return world


@PLAYS.add
def a_root_is_copied() -> World:
    """A seat commits to the root of another one: who signed one slot did not sign the other."""
    world = make_running("a root is copied")
    ann, bob, cid = (world.anybody(name) for name in ("ann", "bob", "cid"))
    ann.commits()
    bob.commits()
    cid.commits(claim_root=world.state.rounds[0].claims[1].claim_root)
    world.draws()
    for claimant in ("ann", "bob"):
        world.votes(claimant, VoteWord.ACCEPT)
    world.votes("cid", VoteWord.ACCEPT, is_opened=False)
    world.posts(merged=["bob"])
    return world


@PLAYS.add
def a_standing_task_is_started_again() -> World:
    """Too few are left: it stands, and its next round starts from the root that stood."""
    world = World("a standing task is started again", rounds=4)
    ann, _ = world.solvers("ann", "bob")
    world.verifiers("vic", "wil", "xia")
    world.starts()
    ann.leaves()
    world.plays_round()
    world.plays_round()
    assert world.is_paused
    with world.refuses("PoolTooSmall"):
        world.asks_for_start()
    world.solver("cid")
    world.starts()
    assert world.live.base_root == world.state.rounds[1].root
    world.plays_round()
    world.plays_round()
    world.ends()
    return world


@PLAYS.add
def a_halted_task_ends_with_its_round() -> World:
    """The round that runs is played to its end, and no other one follows."""
    world = make_running("a halted task ends with its round")
    with world.refuses("NotSubmitter"):
        world.anybody("zoe").halts()
    world.submitter.halts()
    with world.refuses("TaskHalted"):
        world.submitter.halts()
    world.plays_round()
    assert world.is_paused
    with world.refuses("TaskHalted"):
        world.asks_for_start()
    world.ends()
    return world
