"""Queries to the signer of a vote: who may ask, what it costs, and what an answer or silence decides."""

from typing import Any

from tests.kit.actor import Actor
from tests.kit.members import make_word
from tests.kit.played_calls import FAR, NEAR
from tests.kit.played_claims import ZEROS
from tests.kit.plays.collection import Plays
from tests.kit.plays.rounds import make_running
from tests.kit.world import World, make_place
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.enums import ProofKind
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.game.timing import get_query_until
from touchstone.protocol.spec.statements import Vote, VoteWord

PLAYS = Plays("queries")
ACCEPT, REJECT_STATE, REJECT_DELTA, REJECT_START, UNSERVED, ABSTAIN = VoteWord


def make_voted(
    name: str, word: VoteWord = ACCEPT, own: bytes | None = None
) -> tuple[World, Actor, StatementRef]:
    """Returns a posted round, the auditor of ann's claim, and its vote. own: weights of its own replay."""
    world = make_running(name)
    world.all_commit()
    world.draws()
    ref = make_place(world, 0, "ann")
    if own is not None:
        world.own_ends[0, ref.slot, 0, 0] = own
    world.votes("ann", word, is_opened=False)
    if word != ACCEPT:
        for rank in (1, 2):
            world.votes("ann", ACCEPT, rank=rank, is_opened=False)
    for claimant in ("bob", "cid"):
        world.votes(claimant, ACCEPT)
    return world, world.get_auditor(0, "ann"), ref


def _answer(name: str, word: VoteWord, own: bytes | None, **facts: Any) -> World:
    world, auditor, ref = make_voted(name, word, own)
    world.posts()
    zoe = world.anybody("zoe")
    query = zoe.queries(ref, word)
    auditor.answers_query(query, **facts)
    return world


@PLAYS.add
def an_accept_of_the_same_end_is_cleared() -> World:
    """The signer gets half of the bond, the rest is burned."""
    world = _answer("an accept of the same end is cleared", ACCEPT, None)
    assert world.get_credit(world.get_auditor(0, "ann").name) == 20
    return world


@PLAYS.add
def an_accept_inside_the_limits_is_cleared() -> World:
    """Its own end differs, by less than honest hardware may."""
    return _answer("an accept inside the limits is cleared", ACCEPT, NEAR)


@PLAYS.add
def an_accept_beyond_the_limits_is_convicted() -> World:
    """Its own answer shows that it lied; the bond goes back."""
    world = _answer("an accept beyond the limits is convicted", ACCEPT, FAR, exceeds_limits=True)
    assert world.get_credit("zoe") > 40
    return world


@PLAYS.add
def a_reject_beyond_the_limits_is_cleared() -> World:
    """It said the truth of the leaf that it names."""
    return _answer("a reject beyond the limits is cleared", REJECT_STATE, FAR, exceeds_limits=True)


@PLAYS.add
def a_reject_inside_the_limits_is_convicted() -> World:
    """The leaf that it names lies within what honest hardware may differ by."""
    return _answer("a reject inside the limits is convicted", REJECT_STATE, NEAR)


@PLAYS.add
def a_reject_of_the_same_end_is_convicted() -> World:
    """It came to the claim's own end."""
    return _answer("a reject of the same end is convicted", REJECT_STATE, ZEROS)


@PLAYS.add
def an_answer_must_fit() -> World:
    """Another salt fits no vote; then nobody is convicted, and the right answer still counts."""
    world, auditor, ref = make_voted("an answer must fit")
    query = world.anybody("zoe").queries(ref)
    with world.refuses("ProofInvalid"):
        auditor.answers_query(query, is_fitting=False)
    auditor.answers_query(query)
    with world.refuses("NothingOpen"):
        auditor.answers_query(query)
    with world.refuses("NothingOpen"):
        auditor.ends_query(query)
    return world


@PLAYS.add
def an_answer_shows_what_was_sealed() -> World:
    """Both ends with what hides them, the leaves under them, the learning rates of the segment; each part
    that is another is refused for what it shows, and the right answer still counts."""
    world, auditor, ref = make_voted("an answer shows what was sealed", own=NEAR)
    query, word = world.anybody("zoe").queries(ref), make_word("another")
    *made, right = world._write_answer_query(calls.AnswerQuery(query))
    other_leaf = b"\2" * len(ZEROS)
    for reason, wrong, *place in (
        ("ends", word, 3), ("ends", world.get_party("zoe").address, 2), ("ends", word, 4), ("ends", 99, 1, 3),
        ("ends", word, 0, 0), ("leaf", other_leaf, 5, 2, 0), ("leaf", other_leaf, 6, 0, 0),
        ("leaf", (word,), 6, 1, 1), ("leaf", ZEROS + bytes(32), 5, 0, 0), ("schedule", 1, 7),
    ):  # fmt: skip
        with world.refuses("ProofInvalid", reason):
            world.send_refused("ProofInvalid", auditor.name, *made, change_part(right, place, wrong))
    auditor.answers_query(query)
    return world


def change_part(whole: tuple[Any, ...], place: list[int], part: Any) -> tuple[Any, ...]:
    """Returns a struct in which the part at a place is another."""
    first, *rest = place
    changed = change_part(whole[first], rest, part) if rest else part
    return (*whole[:first], changed, *whole[first + 1 :])


@PLAYS.add
def nobody_answers() -> World:
    """After its clock the seat is convicted; in the last block of it an answer counts."""
    world, auditor, ref = make_voted("nobody answers")
    world.posts()
    zoe = world.anybody("zoe")
    query = zoe.queries(ref)
    clock = world.state.queries[query].clock
    world.comes_to(clock)
    with world.refuses("NotLate"):
        zoe.ends_query(query)
    world.passes()
    with world.refuses("OutsideWindow"):
        auditor.answers_query(query)
    zoe.ends_query(query)
    with world.refuses("SeatNotActive"):
        auditor.leaves()
    with world.refuses("SeatIsConvicted"):
        zoe.queries(ref)
    return world


@PLAYS.add
def the_last_block_answers() -> World:
    """An answer in the block of the clock counts."""
    world, auditor, ref = make_voted("the last block answers")
    query = world.anybody("zoe").queries(ref)
    world.comes_to(world.state.queries[query].clock)
    auditor.answers_query(query)
    return world


@PLAYS.add
def a_closed_seat_is_asked_for_nothing() -> World:
    """Convicted by one query, its other one has no object: the bond goes back."""
    world, auditor, ref = make_voted("a closed seat is asked for nothing")
    zoe, yan = world.anybody("zoe"), world.anybody("yan")
    first, second = zoe.queries(ref), yan.queries(ref)
    world.comes_to(world.state.queries[first].clock + 1)
    zoe.ends_query(first)
    with world.refuses("SeatIsConvicted"):
        auditor.answers_query(second)
    yan.ends_query(second)
    assert world.get_credit("yan") == 80
    return world


@PLAYS.add
def the_kth_query_costs_k_bonds() -> World:
    """What is open on a seat makes the next one dearer, up to the limit that the sender names."""
    world, auditor, ref = make_voted("the kth query costs k bonds")
    zoe, yan, una = (world.anybody(name) for name in ("zoe", "yan", "una"))
    with world.refuses("CreditTooSmall"):
        zoe.queries(ref)
    first = zoe.queries(ref)
    with world.refuses("AlreadyQueried"):
        zoe.queries(ref)
    with world.refuses("WrongBond"):
        yan.queries(ref, bond=79)
    second = yan.queries(ref, bond=200)
    assert world.get_credit("yan") == 120, "it paid what was due"
    una.queries(ref)
    auditor.answers_query(second)
    auditor.answers_query(first)
    zoe.queries(ref)
    return world


@PLAYS.add
def other_words_are_not_asked() -> World:
    """Who was not served, abstains, or rejects something else has no leaf to show."""
    world, _, ref = make_voted("other words are not asked")
    zoe = world.anybody("zoe")
    for word in (REJECT_DELTA, REJECT_START, UNSERVED, ABSTAIN):
        with world.refuses("WordNotQueried"):
            zoe.queries(ref, word)
    return world


@PLAYS.add
def a_leaf_that_is_not_there_is_not_asked() -> World:
    """The model has one leaf; of a REJECT the named one is asked."""
    world, _, ref = make_voted("a leaf that is not there is not asked")
    with world.refuses("LeafNotQueried"):
        world.anybody("zoe").queries(ref, leaf=1)
    world.anybody("zoe").queries_otherwise("LeafNotQueried", ref, word=REJECT_STATE, named_leaf=1)
    return world


@PLAYS.add
def in_an_exact_task_nobody_is_asked() -> World:
    """There a proof shows a false word in one transaction."""
    world = make_running("in an exact task nobody is asked", is_exact=True)
    world.all_commit()
    world.draws()
    world.all_accept()
    with world.refuses("WordNotQueried"):
        world.anybody("zoe").queries(make_place(world, 0, "ann"))
    return world


@PLAYS.add
def nobody_asks_itself() -> World:
    """The signer's own account asks nothing."""
    world, auditor, ref = make_voted("nobody asks itself")
    with world.refuses("OwnStatement"):
        auditor.queries(ref)
    return world


@PLAYS.add
def a_query_comes_in_its_window() -> World:
    """Until `ask` behind the last votes; then the seat settles, and answers for nothing."""
    world, auditor, ref = make_voted("a query comes in its window", ACCEPT)
    world.posts()
    world.submitter.halts()
    world.runs_out()
    until = get_query_until(world.state, ref)
    assert until is not None
    zoe = world.anybody("zoe")
    world.comes_to(until + 1)
    with world.refuses("OutsideWindow"):
        zoe.queries(ref)
    world.settles(auditor.name, 1)
    with world.refuses("StatementUnknown"):
        zoe.queries(ref)
    zoe.queries_otherwise("RoundUnknown", ref, round=7)
    world.ends()
    return world


@PLAYS.add
def a_late_vote_is_answered_for_from_its_draw() -> World:
    """Windows of a whistleblower's vote count from the close that drew it: it is disputed and asked when the
    claim is not any more, holds its seat as long, and nobody shows its ends while late votes count."""
    world = World("a late vote is answered for from its draw", late_chance=1 << 16, least_whistleblowers=3)
    world.solvers("ann", "bob", "cid")
    world.verifiers("vic", "wil", "xia")
    world.whistleblowers("eve", "fay", "gus")
    world.starts()
    world.plays_round()
    world.all_commit()
    world.draws()
    world.votes("ann", ACCEPT, index=0, draw=1, is_opened=False)
    ref, drawn = make_place(world, 0, "ann", draw=1), world.state.rounds[0].late_from or 0
    zoe, signer = world.anybody("zoe"), world.get_auditor(0, "ann", 1)
    early = zoe.queries(ref)
    assert world.state.queries[early].clock == drawn + 70
    signer.answers_query(early)
    world.all_accept()
    world.posts()
    world.submitter.halts()
    world.runs_out()
    world.comes_to(drawn + 200)
    with world.refuses("OutsideWindow"):
        zoe.disputes(make_place(world, 0, "ann", draw=None))
    with world.refuses("OwnStatement"):
        signer.disputes(ref)
    dispute = zoe.disputes(ref)
    world.passes()
    with world.refuses("OutsideWindow"):
        zoe.disputes(ref)
    signer.shows_roots(dispute)
    world.passes(11)
    zoe.ends_dispute(dispute)
    world.comes_to(drawn + 780)
    with world.refuses("NotSettleable"):
        world.settles(signer.name, 2)
    last = zoe.queries(ref)
    world.passes()
    with world.refuses("OutsideWindow"):
        world.anybody("yan").queries(ref)
    world.comes_to(world.state.queries[last].clock + 1)
    zoe.ends_query(last)
    world.ends()
    return world


@PLAYS.add
def a_false_reject_pays_the_solver_back() -> World:
    """Two auditors made a claim void; who is convicted of it restores its pay, once."""
    world = make_running("a false reject pays the solver back")
    world.all_commit()
    world.draws()
    slot = world.get_slot("ann", 0)
    for rank in (0, 1):
        world.own_ends[0, slot, 0, rank] = ZEROS
        world.votes("ann", REJECT_STATE, rank=rank, is_opened=False)
    for claimant in ("bob", "cid"):
        world.votes(claimant, ACCEPT)
    world.posts()
    zoe = world.anybody("zoe")
    for rank in (0, 1):
        auditor = world.get_auditor(0, "ann", 0, rank)
        query = zoe.queries(make_place(world, 0, "ann", rank=rank), REJECT_STATE)
        auditor.answers_query(query)
    assert world.get_credit("ann") == 100, "restored once"
    return world


@PLAYS.add
def a_convicted_seat_is_proven_nothing_more() -> World:
    """Whoever comes second with another proof is refused."""
    world, auditor, ref = make_voted("a convicted seat is proven nothing more")
    zoe, yan = world.anybody("zoe"), world.anybody("yan")
    zoe.convicts(ref, ProofKind.TWO_STATEMENTS)
    with world.refuses("ProofNotCommitted"):
        yan.proves(ref, ProofKind.TWO_STATEMENTS)
    yan.commits_proof(ref, ProofKind.TWO_STATEMENTS)
    with world.refuses("ProofNotCommitted"):
        yan.proves(ref, ProofKind.TWO_STATEMENTS)
    world.passes()
    with world.refuses("SeatIsConvicted"):
        yan.proves(ref, ProofKind.TWO_STATEMENTS)
    world.passes(50)
    with world.refuses("ProofNotCommitted"):
        yan.proves(ref, ProofKind.TWO_STATEMENTS)
    with world.refuses("NotHolder"):
        yan.leaves(seat=auditor.seat)
    return world


@PLAYS.add
def another_vote_is_not_asked() -> World:
    """A vote about another chain, place or segment, or one that somebody else signed, makes nobody a liar."""
    world, auditor, ref = make_voted("another vote is not asked")
    zoe, word = world.anybody("zoe"), make_word("another")
    lies: list[dict[str, Any]] = [
        {"domain": word}, {"base_root": word}, {"claim_root": word}, {"seed": word}, {"slot": ref.slot ^ 1},
        {"slot": 9}, {"draw": 1}, {"draw": 1, "seed": bytes(32)}, {"draw": 3}, {"rank": 3},
        {"segment": 5}, {"segment": (1 << 32) - 1}, {"end_leaf": bytes(32)}, {"start_leaf": bytes(32)},
        {"seal": bytes(32)},
    ]  # fmt: skip
    for lie in lies:
        zoe.queries_otherwise("StatementUnknown", ref, **lie)
    world.whistleblower("eve")
    for signer in ("nobody", "zoe", "bob", "eve"):
        zoe.queries_otherwise("StatementUnknown", ref, signer=signer)
    zoe.queries(ref)
    return world


@PLAYS.add
def a_vote_without_a_draw_is_not_asked() -> World:
    """Before the draw nobody can have signed one, whatever it says."""
    world = make_running("a vote without a draw is not asked")
    world.all_commit()
    claim, word = world.live.claims[0], make_word("leaf")
    domain, base_root = world.state.terms.domain, world.live.base_root
    vote = Vote(domain, 0, base_root, bytes(32), 0, claim.claim_root, 0, 0, 0, word, word, word, ACCEPT, 0)
    for _ in range(2):
        for signer in ("vic", "wil", "xia"):
            world.anybody("zoe").queries_vote("StatementUnknown", vote, signer)
        world.closes()
    return world
