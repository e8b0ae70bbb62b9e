"""Which votes count, when an opening is paid, and what votes make of claims."""

from dataclasses import replace
from typing import Any

from tests.kit.members import hand_vote
from tests.kit.played_calls import FAR
from tests.kit.played_task import STRANGER
from tests.kit.plays.collection import Plays
from tests.kit.world import World, make_place
from touchstone.protocol.spec.game.calls import HandedOpening, JudgeVotes
from touchstone.protocol.spec.game.claim_status import get_votes
from touchstone.protocol.spec.game.enums import ProofKind
from touchstone.protocol.spec.statements import VoteWord

PLAYS = Plays("votes")
ACCEPT, REJECT_STATE, REJECT_DELTA, REJECT_START, UNSERVED, ABSTAIN = VoteWord
NAMES = ("ann", "bob", "cid")


def make_drawn(name: str, is_ann_leaving: bool = False, **changes: Any) -> World:
    """Returns a task whose first round is drawn: two draws a claim, of six verifiers."""
    whistleblowers = 3 if changes.get("late_chance") else 0
    least = {"least_verifiers": 6, "least_whistleblowers": whistleblowers}
    world = World(name, **{"draws": 2, **least, **changes})
    world.solvers(*NAMES)
    world.verifiers("vic", "wil", "xia", "yan", "zac", "una")
    if whistleblowers:
        world.whistleblowers("eve", "fay", "gus")
    world.starts()
    if is_ann_leaving:
        world.anybody("ann").leaves()
    world.all_commit()
    world.draws()
    return world


def require_words(world: World, claimant: str, draw: int, *words: VoteWord | None, index: int = 0) -> None:
    """Fails unless exactly these words are counted, by rank."""
    votes = get_votes(world.state.rounds[index], world.get_slot(claimant, index), draw)
    found = tuple(votes[rank].word if rank in votes else None for rank in range(3))
    assert found == (*words, None, None, None)[:3], found


@PLAYS.add
def every_word_counts() -> World:
    """Each word is counted by its rank; a REJECT and its reserve's word are opened once the draw is over."""
    world = make_drawn("every word counts")
    world.votes("bob", ACCEPT, is_opened=False)
    world.votes("bob", ABSTAIN, draw=1, is_opened=False)
    world.votes("bob", REJECT_DELTA, draw=1, rank=1)
    require_words(world, "bob", 1, ABSTAIN, REJECT_DELTA)
    world.votes("ann", REJECT_START, is_opened=False)
    world.votes("ann", UNSERVED, draw=1, is_opened=False)
    require_words(world, "ann", 1, UNSERVED)
    return world


@PLAYS.add
def a_bad_vote_is_skipped() -> World:
    """Another signer, another seed, claim or segment: none is refused, and the one good vote counts."""
    world = make_drawn("a bad vote is skipped")
    slot = world.get_slot("ann", 0)
    good = world.make_vote(0, slot, 0, 0, ACCEPT)
    bad = (
        replace(good, signer=world.get_party("zoe").address), replace(good, seed=bytes(32)),
        replace(good, claim_root=bytes(32)), replace(good, segment=(good.segment + 1) % 5),
        replace(good, is_complete=False),
    )  # fmt: skip
    for one in bad:
        world.send(JudgeVotes(0, (one,), ()), STRANGER)
    require_words(world, "ann", 0)
    world.send(JudgeVotes(0, (*bad, good), ()), STRANGER)
    require_words(world, "ann", 0, ACCEPT)
    return world


@PLAYS.add
def a_spoilt_vote_is_skipped() -> World:
    """A place that does not exist, a word that is none, a bit changed: nothing counts, nothing is refused."""
    world = make_drawn("a spoilt vote is skipped")
    vote, _, auditor = world._vote(make_place(world, 0, "ann"), ACCEPT)
    good = hand_vote(vote, None, auditor, world.signing)
    spoilt = [
        good._replace(slot=3), good._replace(slot=1 << 8), good._replace(draw=2), good._replace(draw=255),
        good._replace(rank=3), good._replace(rank=255), good._replace(word=0), good._replace(word=7),
        good._replace(word=255), good._replace(named_leaf=1), good._replace(is_opened=True),
        good._replace(start_leaf=bytes(32)), good._replace(end_leaf=_flip(good.end_leaf)),
        good._replace(seal=_flip(good.seal)), good._replace(r=bytes(32)), good._replace(vs=_flip(good.vs)),
    ]  # fmt: skip
    world.send_raw(STRANGER, "Votes", "judge", world.task, 0, spoilt)
    require_words(world, "ann", 0)
    return world


def _flip(word: bytes) -> bytes:
    return bytes([word[0] ^ 1]) + word[1:]


@PLAYS.add
def nothing_is_drawn_yet() -> World:
    """Votes before the draw count nothing; of a round that nobody opened they are refused."""
    world = World("nothing is drawn yet")
    world.solvers("ann", "bob")
    world.verifiers("vic", "wil", "xia")
    world.starts()
    world.all_commit()
    empty = (0, 0, 0, 0, False, 0, *(bytes(32),) * 3, (bytes(32),) * 4, *(bytes(32),) * 2)
    world.send_raw(STRANGER, "Votes", "judge", world.task, 0, [empty])
    world.closes()
    with world.refuses("RoundUnknown"):
        world.send(JudgeVotes(1), STRANGER)
    world.send(JudgeVotes(0), STRANGER)
    return world


@PLAYS.add
def the_first_of_two_votes_counts() -> World:
    """What a rank has said stays said."""
    world = make_drawn("the first of two votes counts")
    world.votes("ann", ABSTAIN, is_opened=False)
    world.votes("ann", ACCEPT, is_fitting=False)
    world.votes("ann", ABSTAIN)
    require_words(world, "ann", 0, ABSTAIN)
    return world


@PLAYS.add
def another_word_opens_nothing() -> World:
    """Who said REJECT and opens an ACCEPT is not paid; another REJECT is, once."""
    world = make_drawn("another word opens nothing")
    world.votes("ann", REJECT_STATE, is_opened=False)
    world.votes("ann", ABSTAIN, rank=1, is_opened=False)
    world.votes("ann", ACCEPT, is_fitting=False)
    world.votes("ann", REJECT_STATE)
    world.votes("bob", REJECT_STATE, is_opened=False)
    world.votes("bob", ABSTAIN, rank=1, is_opened=False)
    world.votes("bob", REJECT_DELTA)
    world.votes("bob", REJECT_STATE)
    assert get_votes(world.state.rounds[0], world.get_slot("bob", 0), 0)[0].is_opened
    return world


@PLAYS.add
def a_convicted_auditor_does_not_count() -> World:
    """Two votes of one draw take its seat; the vote that it hands in later is skipped."""
    world = make_drawn("a convicted auditor does not count")
    zoe = world.anybody("zoe")
    zoe.convicts(make_place(world, 0, "ann"), ProofKind.TWO_STATEMENTS)
    world.votes("ann", ACCEPT)
    require_words(world, "ann", 0)
    return world


@PLAYS.add
def reserves_wait_for_the_primary() -> World:
    """They count once the primary has said something, or from a third of audit_max."""
    world = make_drawn("reserves wait for the primary")
    closed = world.state.rounds[0].closed or 0
    world.comes_to(closed + 9)
    world.votes("ann", ACCEPT, rank=1, is_opened=False)
    require_words(world, "ann", 0)
    world.votes("ann", UNSERVED, draw=1, is_opened=False)
    world.votes("ann", ACCEPT, draw=1, rank=1, is_opened=False)
    world.comes_to(closed + 10)
    world.votes("ann", ACCEPT, rank=2, is_opened=False)
    require_words(world, "ann", 0, None, None, ACCEPT)
    return world


@PLAYS.add
def a_decided_draw_takes_no_more() -> World:
    """After an ACCEPT of the primary, or once it cannot be accepted; an UNSERVED still counts then."""
    world = make_drawn("a decided draw takes no more")
    world.votes("ann", ACCEPT, is_opened=False)
    world.votes("ann", REJECT_STATE, rank=1, is_opened=False)
    require_words(world, "ann", 0, ACCEPT)
    world.votes("ann", ABSTAIN, draw=1, is_opened=False)
    world.votes("ann", ABSTAIN, draw=1, rank=1, is_opened=False)
    world.votes("ann", ACCEPT, draw=1, rank=2, is_opened=False)
    require_words(world, "ann", 1, ABSTAIN, ABSTAIN)
    world.votes("ann", UNSERVED, draw=1, rank=2, is_opened=False)
    require_words(world, "ann", 1, ABSTAIN, ABSTAIN, UNSERVED)
    return world


@PLAYS.add
def each_draw_must_accept() -> World:
    """A claim is accepted by all its draws; both reserves stand for a primary that rejects."""
    world = make_drawn("each draw must accept")
    world.votes("ann", ACCEPT, is_opened=False)
    world.votes("ann", REJECT_STATE, draw=1, is_opened=False)
    world.votes("ann", ACCEPT, draw=1, rank=1, is_opened=False)
    world.votes("ann", ACCEPT, draw=1, rank=2, is_opened=False)
    world.votes("bob", REJECT_STATE, is_opened=False)
    world.votes("bob", REJECT_STATE, rank=2, is_opened=False)
    world.votes("bob", ACCEPT, draw=1, is_opened=False)
    world.posts_late()
    assert world.state.rounds[0].merged == (world.get_slot("ann", 0),)
    return world


@PLAYS.add
def the_last_block_of_votes() -> World:
    """After audit_max a claim is accepted for pay alone, after two it is void."""
    world = make_drawn("the last block of votes")
    closed = world.state.rounds[0].closed or 0
    world.comes_to(closed + 30)
    for draw in (0, 1):
        world.votes("ann", ACCEPT, draw=draw, is_opened=False)
    world.votes("bob", ACCEPT, is_opened=False)
    world.passes()
    world.votes("bob", ACCEPT, draw=1, is_opened=False)
    world.posts()
    assert world.state.rounds[0].merged == (world.get_slot("ann", 0),), "bob came too late for the merge"
    world.comes_to(closed + 60)
    world.votes("cid", ACCEPT, index=0, is_opened=False)
    require_words(world, "cid", 0, ACCEPT)
    world.passes()
    world.votes("cid", ACCEPT, index=0, draw=1, is_opened=False)
    require_words(world, "cid", 1)
    return world


@PLAYS.add
def the_last_block_of_openings() -> World:
    """Three audit_max after the close nothing is opened any more."""
    world = make_drawn("the last block of openings")
    world.votes("ann", ACCEPT, is_opened=False)
    world.votes("ann", ACCEPT, draw=1, is_opened=False)
    world.votes("bob", REJECT_STATE, is_opened=False)
    closed = world.state.rounds[0].closed or 0
    world.comes_to(closed + 61)
    world.votes("bob", REJECT_STATE)
    world.comes_to(closed + 90)
    world.opens("ann", index=0)
    assert get_votes(world.state.rounds[0], world.get_slot("ann", 0), 0)[0].is_opened
    world.passes()
    world.opens("ann", index=0, draw=1)
    assert not get_votes(world.state.rounds[0], world.get_slot("ann", 0), 1)[0].is_opened
    return world


@PLAYS.add
def an_opening_must_fit() -> World:
    """Another salt opens another vote; before the draw is decided nothing is opened; it is paid once."""
    world = make_drawn("an opening must fit")
    world.votes("ann", ACCEPT, is_opened=False)
    world.opens("ann", index=0, is_fitting=False)
    world.opens("ann", index=0)
    world.opens("ann", index=0)
    world.votes("bob", REJECT_STATE)
    require_words(world, "bob", 0, REJECT_STATE)
    world.votes("bob", ABSTAIN, rank=1)
    world.votes("bob", ABSTAIN, rank=1, is_opened=False)
    world.opens("bob", index=0)
    assert get_votes(world.state.rounds[0], world.get_slot("bob", 0), 0)[0].is_opened
    return world


@PLAYS.add
def a_claim_of_three_segments_has_one_draw() -> World:
    """So few segments give one draw of the two; who votes in a second one is skipped."""
    world = make_drawn("a claim of three segments has one draw", segment_count=3)
    slot = world.get_slot("cid", 0)
    world.votes("cid", ACCEPT)
    vote, _, auditor = world._vote(make_place(world, 0, "cid"), ACCEPT)
    handed = hand_vote(replace(vote, draw=1), None, auditor, world.signing)
    world.send_raw(STRANGER, "Votes", "judge", world.task, 0, [handed])
    assert {one for one in world.list_places(0) if one[0] == slot} == {(slot, 0)}
    return world


@PLAYS.add
def exact_votes_bear_out_their_word() -> World:
    """In an exact task an ACCEPT shows one root, a REJECT of the state two; other REJECTs any."""
    world = make_drawn("exact votes bear out their word", is_exact=True)
    slot = world.get_slot("ann", 0)
    world.votes("ann", ACCEPT)
    world.own_ends[0, slot, 1, 0] = FAR
    world.votes("ann", ACCEPT, draw=1, is_complete=False, is_fitting=False)
    require_words(world, "ann", 1)
    world.votes("ann", ACCEPT, draw=1, is_opened=False)
    world.votes("ann", ACCEPT, draw=1, is_fitting=False)
    assert not get_votes(world.state.rounds[0], slot, 1)[0].is_opened
    slot = world.get_slot("bob", 0)
    world.votes("bob", ABSTAIN, is_opened=False)
    world.votes("bob", REJECT_STATE, rank=1)
    world.votes("bob", ABSTAIN, draw=1, is_opened=False)
    world.own_ends[0, slot, 1, 1] = bytes(len(FAR))
    world.votes("bob", REJECT_STATE, draw=1, rank=1, is_complete=False, is_fitting=False)
    require_words(world, "bob", 1, ABSTAIN)
    world.votes("bob", REJECT_START, draw=1, rank=1)
    require_words(world, "bob", 1, ABSTAIN, REJECT_START)
    return world


@PLAYS.add
def other_roots_are_accepted_within_limits() -> World:
    """Where a task has limits, an ACCEPT may have another root than the claim."""
    world = make_drawn("other roots are accepted within limits")
    world.own_ends[0, world.get_slot("ann", 0), 0, 0] = FAR
    world.votes("ann", ACCEPT)
    assert get_votes(world.state.rounds[0], world.get_slot("ann", 0), 0)[0].is_opened
    return world


@PLAYS.add
def late_votes_have_windows_of_their_own() -> World:
    """They count from the close that drew them, reserves later, and are opened until three audit_max."""
    world = make_drawn("late votes have windows of their own", late_chance=1 << 16)
    world.all_accept()
    world.posts()
    world.all_commit()
    world.draws()
    late_from = world.state.rounds[0].late_from or 0
    world.comes_to(late_from + 9)
    world.votes("ann", ACCEPT, index=0, draw=2, rank=1, is_opened=False)
    world.comes_to(late_from + 60)
    world.votes("ann", ACCEPT, index=0, draw=2, is_opened=False)
    world.votes("cid", ACCEPT, index=0, draw=2, is_opened=False)
    world.passes()
    world.votes("bob", ACCEPT, index=0, draw=2, is_opened=False)
    require_words(world, "bob", 2)
    world.comes_to(late_from + 90)
    world.opens("ann", index=0, draw=2)
    world.passes()
    world.opens("cid", index=0, draw=2)
    assert not get_votes(world.state.rounds[0], world.get_slot("cid", 0), 2)[0].is_opened
    return world


@PLAYS.add
def many_votes_come_in_one_call() -> World:
    """Votes and openings of a whole round, some of them twice, some spoilt: the good ones count."""
    world = make_drawn("many votes come in one call")
    votes = [world.make_vote(0, slot, draw, 0, ACCEPT) for slot, draw in world.list_places(0)]
    votes += [world.make_vote(0, slot, draw, 1, REJECT_STATE) for slot, draw in world.list_places(0)]
    openings = tuple(HandedOpening(slot, draw, 0) for slot, draw in world.list_places(0))
    world.send(JudgeVotes(0, tuple(votes), openings), STRANGER)
    world.posts()
    assert len(world.state.rounds[0].merged) == 3
    return world


@PLAYS.add
def the_last_rounds_are_drawn_by_a_closing_seed() -> World:
    """Late audits that no later round draws: in a window behind audit_max, once, and only where it stands."""
    world = make_drawn("the last rounds are drawn by a closing seed", late_chance=1 << 16)
    with world.refuses("NoDrawDue"):
        world.seals_closing()
    world.submitter.halts()
    world.all_accept()
    world.posts()
    closed = world.state.rounds[0].closed or 0
    with world.refuses("OutsideWindow"):
        world.seals_closing()
    world.comes_to(closed + 39)
    world.seals_closing()
    assert world.state.rounds[0].late_from == closed + 30
    with world.refuses("NoDrawDue"):
        world.seals_closing()
    world.votes("ann", ACCEPT, index=0, draw=2)
    world.ends()
    return world


@PLAYS.add
def a_task_stands_later_than_audits_last() -> World:
    """The closing draw counts from where the task stands; claims that nobody decided get one too."""
    world = make_drawn("a task stands later than audits last", late_chance=1 << 16)
    world.submitter.halts()
    world.comes_to((world.state.rounds[0].closed or 0) + 36)
    world.stands()
    since = world.block
    world.comes_to(since + 9)
    world.seals_closing()
    assert world.state.rounds[0].late_from == since and len(world.state.rounds[0].late_slots) == 3
    world.ends()
    return world


@PLAYS.add
def a_closing_seed_is_missed() -> World:
    """Behind its window, and once disputes are over, nothing is sealed; nor where no audit is late."""
    world = make_drawn("a closing seed is missed", late_chance=1 << 16)
    world.submitter.halts()
    world.all_accept()
    world.posts()
    world.comes_to((world.state.rounds[0].closed or 0) + 200)
    with world.refuses("OutsideWindow"):
        world.seals_closing()
    world.passes()
    with world.refuses("NoDrawDue"):
        world.seals_closing()
    world.ends()
    return world


@PLAYS.add
def no_audit_is_late() -> World:
    """Without a late chance there is no closing draw."""
    world = make_drawn("no audit is late")
    world.submitter.halts()
    world.all_accept()
    world.posts()
    with world.refuses("NoDrawDue"):
        world.seals_closing()
    return world


@PLAYS.add
def a_pending_start_will_draw() -> World:
    """A start that is asked for draws what is late, so that the closing seed has to wait."""
    world = make_drawn("a pending start will draw", is_ann_leaving=True, late_chance=1 << 16, least_solvers=3)
    world.all_accept()
    world.posts()
    world.plays_round()
    assert world.is_paused
    world.solver("dan")
    world.asks_for_start()
    with world.refuses("NoDrawDue"):
        world.seals_closing()
    return world


@PLAYS.add
def two_closing_seeds_of_one_task() -> World:
    """Each round keeps the seed that drew it."""
    changes = {"late_chance": 1 << 16, "least_solvers": 3, "rounds": 8}
    world = make_drawn("two closing seeds of one task", is_ann_leaving=True, **changes)
    world.all_accept()
    world.posts()
    world.plays_round()
    world.draws_the_last()
    first = world.state.rounds[1].late_seed
    dan = world.solver("dan")
    world.starts()
    dan.leaves()
    world.plays_round()
    world.plays_round()
    world.draws_the_last()
    assert world.state.rounds[1].late_seed == first != world.state.rounds[3].late_seed
    world.votes("bob", ACCEPT, index=1, draw=2, is_opened=False)
    require_words(world, "bob", 2, ACCEPT, index=1)
    world.ends()
    return world


@PLAYS.add
def a_draw_takes_what_was_missed() -> World:
    """The next draw that is sealed draws the late audits of rounds before; one without claims has none."""
    world = make_drawn("a draw takes what was missed", late_chance=1 << 16, least_solvers=1)
    world.all_accept()
    world.posts()
    world.runs_out()
    if world.live.beacon is None:
        world.deals()
    world.anybody("ann").commits()
    closed = world.closes()
    world.draws()
    assert world.state.rounds[0].late_from == closed
    return world


@PLAYS.add
def a_batch_counts_in_its_order() -> World:
    """In one call the primary's vote makes way for those of the reserves behind it, not before it."""
    world = make_drawn("a batch counts in its order")
    slot = world.get_slot("ann", 0)
    first, second = (world.make_vote(0, slot, 0, rank, ACCEPT) for rank in (1, 2))
    primary = world.make_vote(0, slot, 0, 0, ABSTAIN)
    world.send(JudgeVotes(0, (first, primary, second), (HandedOpening(slot, 0, 2),)), STRANGER)
    require_words(world, "ann", 0, ABSTAIN, None, ACCEPT)
    return world


@PLAYS.add
def a_mixed_batch_counts_all() -> World:
    """Slots, late draws and primaries in any order; a void claim has no late draw."""
    world = make_drawn("a mixed batch counts all", late_chance=1 << 16)
    closed = world.state.rounds[0].closed or 0
    for draw in (0, 1):
        world.votes("ann", ACCEPT, draw=draw)
    world.comes_to(closed + 30)
    for rank in (0, 1):
        world.votes("cid", ABSTAIN, rank=rank, is_opened=False)
    world.posts()
    world.all_commit()
    world.draws()
    assert len(world.state.rounds[0].late_slots) == 2, "one was void"
    ann, bob = world.get_slot("ann", 0), world.get_slot("bob", 0)
    votes = (
        world.make_vote(0, bob, 0, 0, ACCEPT), world.make_vote(0, ann, 2, 0, REJECT_STATE),
        world.make_vote(0, bob, 1, 0, ACCEPT), world.make_vote(0, bob, 2, 0, ACCEPT),
        world.make_vote(0, ann, 2, 1, UNSERVED),
    )  # fmt: skip
    openings = (HandedOpening(bob, 0, 0), HandedOpening(bob, 1, 0), HandedOpening(bob, 2, 0))
    world.send(JudgeVotes(0, votes, openings), STRANGER)
    world.opens("ann", index=0, draw=2)
    require_words(world, "ann", 2, REJECT_STATE, UNSERVED)
    return world


@PLAYS.add
def late_auditors_who_were_not_served_cost_fees() -> World:
    """The solver and both whistleblowers pay, in the round that is audited; its later pay stays."""
    world = make_drawn("late auditors who were not served cost fees", late_chance=1 << 16)
    world.all_accept()
    world.posts()
    world.all_commit()
    world.draws()
    auditors = [world.get_auditor(0, "bob", 2, rank) for rank in (0, 1)]
    for rank in (0, 1):
        world.votes("bob", UNSERVED, index=0, draw=2, rank=rank, is_opened=False)
    world.all_accept()
    world.submitter.halts()
    world.posts()
    world.passes_duties()
    world.all_settle()
    assert [world.get_stake(one.name) for one in auditors] == [430, 430]
    assert world.get_stake("bob") == 1_930 and world.get_credit("bob") == 100, "round 1 alone"
    world.ends()
    return world
