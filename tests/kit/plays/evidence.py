"""Proofs in one transaction: an honest claim and an honest vote withstand all of them, a false one the right
one alone."""

from dataclasses import replace
from typing import Any

from tests.kit.contract_calls import ContractCall
from tests.kit.played_calls import FAR
from tests.kit.played_claims import ZEROS, Model, PlayedClaim, open_leaf
from tests.kit.played_task import STRANGER
from tests.kit.plays.collection import Plays
from tests.kit.plays.contests import fells
from tests.kit.plays.rounds import make_running
from tests.kit.proofs import NO_WORK
from tests.kit.world import World, make_place
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.assignments import get_drawn_segment
from touchstone.protocol.spec.game.enums import ProofKind
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.merkle import compute_path
from touchstone.protocol.spec.openings import LeafProof
from touchstone.protocol.spec.statements import VoteWord

PLAYS = Plays("evidence")
ACCEPT, REJECT_STATE, REJECT_DELTA, REJECT_START, UNSERVED, ABSTAIN = VoteWord
START, DELTA, CARRIED, LEAF, TWO, WORD = (
    ProofKind.BOUNDARY_ZERO, ProofKind.DELTA_LEAF, ProofKind.CARRIED_ROOT, ProofKind.VOTE_LEAF,
    ProofKind.TWO_STATEMENTS, ProofKind.FALSE_WORD,
)  # fmt: skip
FOUR = Model(1_000, is_filled=True)
"""Four leaves a tensor, the last one padded."""
NAMES = ("ann", "bob", "cid", "dan", "eve", "fay")
OTHER = b"\7" * 32


def make_claims(name: str, *faults: str, **changes: Any) -> tuple[World, list[StatementRef]]:
    """Returns a round with a claim of each fault, and their names."""
    world = World(name, **{"solver_seats": 6, "least_solvers": 1, "model": FOUR, **changes})
    names = NAMES[: len(faults)]
    world.solvers(*names)
    world.verifiers("vic", "wil", "xia")
    world.starts()
    for solver, fault in zip(names, faults, strict=True):
        world.anybody(solver).commits(fault=fault)
    return world, [make_place(world, 0, solver, draw=None) for solver in names]


def make_audited(name: str, *faults: str, **changes: Any) -> tuple[World, StatementRef]:
    """Returns a round whose audits are drawn, and the primary's vote on ann's claim."""
    world, _ = make_claims(name, *(faults or ("", "", "")), **changes)
    world.draws()
    return world, make_place(world, 0, "ann")


def spoil(leaf: LeafProof) -> LeafProof:
    """Returns a leaf of which a byte is another."""
    return replace(leaf, data=bytes([leaf.data[0] ^ 1]) + leaf.data[1:])


def withstands(world: World, refusal: str, *tried: ContractCall) -> None:
    """Each proof is sealed, brought a block later, and refused by this name."""
    zoe = world.anybody("zoe")
    for made in tried:
        zoe.send(calls.SealProof(zoe.compute_digest(made)))
    world.passes()
    for made in tried:
        world.send_refused(refusal, "zoe", *made)


# Seals
@PLAYS.add
def a_proof_is_sealed_by_who_brings_it() -> World:
    """In an earlier block, and not too early. Who copies the proof, or its digest, has sealed nothing."""
    world, (ann, bob) = make_claims("a proof is sealed by who brings it", "start", "start")
    zoe, thief = world.anybody("zoe"), world.anybody("thief")
    with world.refuses("SealMissing"):
        zoe.proves(ann, START)
    digest = zoe.seals_proof(ann, START)
    with world.refuses("SealMissing", digest):
        zoe.proves(ann, START)
    world.passes()
    with world.refuses("SealMissing"):
        thief.proves(ann, START)
    thief.send(calls.SealProof(digest))
    world.passes()
    with world.refuses("SealMissing"):
        thief.proves(ann, START)
    zoe.proves(ann, START)
    zoe.seals_proof(bob, START)
    world.passes(51)
    with world.refuses("SealMissing"):
        zoe.proves(bob, START)
    zoe.seals_proof(bob, START)
    world.passes(50)
    zoe.proves(bob, START)
    return world


# Windows
@PLAYS.add
def a_claim_is_proven_until_disputes_end() -> World:
    """In the last block of its window, not behind it; so a vote."""
    world, vote = make_audited("a claim is proven until disputes end", "start", "start", "")
    zoe, until = world.anybody("zoe"), (world.state.rounds[0].closed or 0) + 200
    ann, bob = (make_place(world, 0, name, draw=None) for name in ("ann", "bob"))
    world.comes_to(until - 1)
    zoe.seals_proof(ann, START)
    world.passes()
    zoe.seals_proof(bob, START)
    zoe.seals_proof(vote, TWO)
    zoe.proves(ann, START)
    world.passes()
    for ref, proof in ((bob, START), (vote, TWO)):
        with world.refuses("OutsideWindow"):
            zoe.proves(ref, proof)
    return world


@PLAYS.add
def a_claim_of_nobody_is_not_proven() -> World:
    """Nobody committed in this slot, no solver has it, and the round has not begun."""
    world, (ann,) = make_claims("a claim of nobody is not proven", "start")
    zoe, right = world.anybody("zoe"), world.proofs.start(ann)
    places = (
        ((0, 1), "StatementUnknown"),
        ((0, (1 << 32) - 1), "StatementUnknown"),
        ((1, 0), "RoundUnknown"),
    )
    for place, refusal in places:
        made = (*right[:3], place, *right[4:])
        zoe.seals_proof(ann, START, made)
        world.passes()
        with world.refuses(refusal):
            zoe.proves(StatementRef(*place), START, made)
    return world


# Starts
@PLAYS.add
def a_wrong_start_is_proven() -> World:
    """Other weights, another step, another local step, another moment; of a right start nothing is."""
    world, refs = make_claims("a wrong start is proven", "start", "steps", "local", "moment", "")
    zoe, proofs = world.anybody("zoe"), world.proofs
    right, claim = refs[-1], proofs.get_claim(refs[-1])
    first = claim.open(0)
    elsewhere = replace(first, header=replace(first.header, weights_root=OTHER))
    zoe.fails_to_convict(
        right, START,
        (proofs.start(right), "start"),
        (proofs.start(right, first=claim.open(1)), "boundary"),
        (proofs.start(right, first=elsewhere), "boundary"),
        (proofs.start(right, first=proofs.get_claim(refs[0]).open(0)), "boundary"),
        (proofs.start(right, base=(world.behind[world.state.terms.root][0], OTHER)), "base"),
    )  # fmt: skip
    for ref in refs[:-1]:
        zoe.convicts(ref, START)
    return world


# Pseudo-gradients
@PLAYS.add
def a_wrong_delta_is_proven() -> World:
    """Another quantum, another length, final weights that are not finite or of another length."""
    world, refs = make_claims("a wrong delta is proven", "delta", "size", "infinite", "broken", "far", "")
    zoe, proofs, (ann, *_, far, right) = world.anybody("zoe"), world.proofs, refs
    assert proofs.get_claim(far).deltas[1][0] == 220, "the last scale"
    zoe.fails_to_convict(
        right, DELTA,
        (proofs.delta(right, 1), "delta"),
        (proofs.delta(right, 3), "delta"),
    )  # fmt: skip
    zoe.fails_to_convict(ann, DELTA, (proofs.delta(ann, 0), "delta"))
    zoe.fails_to_convict(far, DELTA, (proofs.delta(far, 1), "delta"))
    for ref in refs[:4]:
        zoe.convicts(ref, DELTA, proofs.delta(ref, 1))
    return world


@PLAYS.add
def other_openings_prove_no_delta() -> World:
    """Each part of a proof is under its root, and at its place."""
    world, (right, bob) = make_claims("other openings prove no delta", "", "")
    zoe, proofs, claim = world.anybody("zoe"), world.proofs, world.proofs.get_claim(right)
    final, delta = claim.open_leaf(0, claim.steps, 1), open_leaf(claim.deltas, 1)
    start, work = open_leaf(FOUR.weights, 1), claim.work
    zoe.fails_to_convict(
        right, DELTA,
        (proofs.delta(right, 1, last=claim.open(3)), "boundary"),
        (proofs.delta(right, 1, index=2), "leaf"),
        (proofs.delta(right, 1, index=1 + (1 << 40)), "leaf"),
        (proofs.delta(right, 1, work=replace(work, delta_root=OTHER)), "work"),
        (proofs.delta(right, 1, work=proofs.get_claim(bob).work), "work"),
        (proofs.delta(right, 1, base=(OTHER, FOUR.zero_root)), "base"),
        (proofs.delta(right, 1, final_leaf=proofs.get_claim(bob).open_leaf(0, claim.steps, 1)), "leaf"),
        (proofs.delta(right, 1, final_leaf=replace(final, path=final.path[:-1])), "leaf"),
        (proofs.delta(right, 1, delta_leaf=spoil(delta)), "leaf"),
        (proofs.delta(right, 1, global_leaf=spoil(start)), "leaf"),
    )  # fmt: skip
    return world


@PLAYS.add
def broken_global_weights_convict_nobody() -> World:
    """Of weights that are no numbers nothing follows for any claim."""
    model = Model(1_000, is_filled=True, is_infinite=True)
    world, (ann,) = make_claims("broken global weights convict nobody", "", model=model)
    world.anybody("zoe").fails_to_convict(ann, DELTA, (world.proofs.delta(ann, 1), "global leaf"))
    return world


@PLAYS.add
def a_scale_that_is_none_is_proven() -> World:
    """Alone, or as a leaf that is not the difference; scales and work of another claim prove nothing."""
    world, (ann, cid, bob) = make_claims("a scale that is none is proven", "scale", "scale", "")
    zoe, proofs = world.anybody("zoe"), world.proofs
    zoe.fails_to_convict(ann, DELTA, (proofs.scale(ann, 0), "scale"))
    zoe.fails_to_convict(
        bob, DELTA,
        (proofs.scale(bob, 1), "scale"),
        (proofs.scale(bob, 1, of=ann, work=proofs.get_claim(ann).work), "work"),
        (proofs.scale(bob, 1, of=ann), "leaf"),
    )  # fmt: skip
    zoe.convicts(ann, DELTA, proofs.scale(ann, 1))
    zoe.convicts(cid, DELTA, proofs.delta(cid, 1))
    return world


@PLAYS.add
def another_carried_root_is_proven() -> World:
    """By the last boundary and no other one, and not by another's work."""
    world, (ann, bob) = make_claims("another carried root is proven", "carried", "")
    zoe, proofs = world.anybody("zoe"), world.proofs
    zoe.fails_to_convict(
        bob, CARRIED,
        (proofs.carried(bob), "carried"),
        (proofs.carried(bob, work=proofs.get_claim(ann).work), "work"),
        (proofs.carried(bob, last=proofs.get_claim(bob).open(3)), "boundary"),
    )  # fmt: skip
    zoe.convicts(ann, CARRIED)
    return world


@PLAYS.add
def a_short_claim_is_proven_by_its_own_boundaries() -> World:
    """Of two segments of five: its last boundary is 2, its work leaf 3."""
    world = make_running("a short claim is proven by its own boundaries", model=FOUR)
    world.anybody("ann").commits(2, fault="delta")
    world.anybody("bob").commits(2)
    zoe, proofs = world.anybody("zoe"), world.proofs
    wrong, right = (make_place(world, 0, name, draw=None) for name in ("ann", "bob"))
    zoe.fails_to_convict(right, DELTA, (proofs.delta(right, 1), "delta"))
    zoe.fails_to_convict(right, CARRIED, (proofs.carried(right), "carried"))
    zoe.convicts(wrong, DELTA, proofs.delta(wrong, 1))
    return world


# Moments that carry over
def make_carrying(name: str, **changes: Any) -> World:
    """Returns a task whose moments carry over; nobody has committed yet."""
    return make_running(name, **{"model": FOUR, "carries": True, **changes})


def prove_start(
    world: World, index: int, name: str, work_of: int | None = None
) -> tuple[StatementRef, ContractCall]:
    """Returns a claim, and the proof of its start with the work of an earlier round, or with none."""
    ref = make_place(world, index, name, draw=None)
    if work_of is None:
        return ref, world.proofs.start(ref, work=NO_WORK)
    before = make_place(world, work_of, name, draw=None)
    return ref, world.proofs.start(ref, work=world.proofs.get_claim(before).work)


def withstands_start(world: World, reason: str, index: int, name: str, work_of: int | None = None) -> None:
    """A proof of a right start is refused."""
    ref, made = prove_start(world, index, name, work_of)
    world.anybody("zoe").fails_to_convict(ref, START, (made, reason))


def convicts_start(world: World, index: int, name: str, work_of: int | None = None) -> None:
    """A proof of a wrong start convicts."""
    ref, made = prove_start(world, index, name, work_of)
    world.anybody("zoe").convicts(ref, START, made)


def merges(world: World, *merged: str) -> None:
    """The round that runs is drawn, accepted, and merges these claims."""
    world.draws()
    world.all_accept()
    world.posts(merged=merged)


@PLAYS.add
def carried_moments_are_right() -> World:
    """They are those of the last merged claim: without its work leaf nothing is proven."""
    world = make_carrying("carried moments are right")
    world.plays_round()
    world.anybody("ann").commits()
    world.anybody("bob").commits(fault="moments anew")
    withstands_start(world, "start", 1, "ann", 0)
    withstands_start(world, "start", 0, "ann")
    withstands_start(world, "work", 1, "ann")
    convicts_start(world, 1, "bob", 0)
    return world


@PLAYS.add
def nothing_is_carried() -> World:
    """What the last merged claim ended with says nothing of the next start."""
    world = make_carrying("nothing is carried", carries=False)
    world.plays_round()
    world.all_commit()
    withstands_start(world, "start", 1, "ann")
    withstands_start(world, "start", 1, "ann", 0)
    return world


@PLAYS.add
def a_claim_that_was_not_merged_carries_nothing() -> World:
    """The next one starts with zeros."""
    world = make_carrying("a claim that was not merged carries nothing")
    world.all_commit()
    merges(world, "bob", "cid")
    world.all_commit()
    withstands_start(world, "start", 1, "ann")
    withstands_start(world, "start", 1, "bob", 0)
    return world


@PLAYS.add
def the_last_merged_claim_is_sought() -> World:
    """A round that did not merge the solver is passed over."""
    world = make_carrying("the last merged claim is sought")
    world.plays_round()
    world.all_commit()
    merges(world, "bob", "cid")
    for name in ("ann", "bob"):
        world.anybody(name).commits()
    world.anybody("cid").commits(fault="moments anew")
    withstands_start(world, "start", 2, "ann", 0)
    withstands_start(world, "start", 2, "bob", 1)
    withstands_start(world, "work", 2, "bob", 0)
    convicts_start(world, 2, "cid", 1)
    return world


@PLAYS.add
def a_round_without_the_seat_is_passed_over() -> World:
    """cid waits in round 2, where its slot is another's: round 1 merged it last."""
    world = make_carrying("a round without the seat is passed over", solver_seats=3, rounds=5)
    larger = world.solver("larger", 3_000)
    world.plays_round()
    larger.leaves()
    world.plays_round()
    assert world.get_seat("cid").number not in world.live.pool.solvers
    world.plays_round()
    for name in ("ann", "bob"):
        world.anybody(name).commits()
    world.anybody("cid").commits(fault="moments anew")
    convicts_start(world, 3, "cid", 1)
    return world


@PLAYS.add
def moments_start_anew_with_an_epoch() -> World:
    """ann was merged in round 0, which is freed: a later epoch does not look for it."""
    world = make_carrying("moments start anew with an epoch", rounds=20)
    world.plays_round()
    for _ in range(15):
        world.all_commit()
        merges(world, "bob", "cid")
    world.all_commit()
    withstands_start(world, "start", 16, "ann")
    world.comes_to((world.state.rounds[15].closed or 0) + 2 * 30 + 720 + 1)
    world.stands(16)
    world.all_settle(15)
    world.send(calls.FreeEpoch(), STRANGER)
    world.anybody("ann").commits()
    world.anybody("bob").commits(fault="moment")
    withstands_start(world, "start", 17, "ann")
    convicts_start(world, 17, "bob")
    return world


@PLAYS.add
def an_undone_round_proves_weights_alone() -> World:
    """What was merged before a root fell is forgotten: of moments nothing follows."""
    world = World("an undone round proves weights alone", solver_seats=6, model=FOUR, carries=True)
    world.solvers("ann", "bob", "cid", "dan", "eve")
    world.verifiers("vic", "wil", "xia")
    world.starts()
    world.all_commit()
    world.draws()
    world.all_accept()
    world.posts(signers=("bob", "cid", "eve"))
    world.anybody("ann").commits()
    world.anybody("dan").commits(fault="start")
    fells(world, 0)
    withstands(world, "RoundUndone", prove_start(world, 1, "ann", 0)[1])
    convicts_start(world, 1, "dan")
    return world


# Votes
@PLAYS.add
def a_vote_names_the_leaves_of_its_claim() -> World:
    """Its start and its end; who signed without being drawn answers too."""
    world, ref = make_audited("a vote names the leaves of its claim")
    zoe, proofs, segment = world.anybody("zoe"), world.proofs, get_segment(world, ref)
    right = proofs.vote(ref)
    tried = [(proofs.vote_leaf(ref, right, boundary), "vote leaf") for boundary in range(6)]
    end = proofs.vote(ref, end_leaf=OTHER)
    unserved = proofs.vote(ref, UNSERVED)
    far = proofs.vote_leaf(ref, end, segment + 1)
    tried += [
        (proofs.vote_leaf(ref, end, segment), "vote leaf"),
        (proofs.vote_leaf(ref, end, segment + 1, leaf=b"\3" * 32), "vote leaf"),
        ((*far[:4], segment + 1 + (1 << 32), *far[5:]), "vote leaf"),
        *((proofs.vote_leaf(ref, unserved, boundary), "vote leaf") for boundary in range(6)),
    ]
    zoe.fails_to_convict(ref, LEAF, *tried)
    zoe.convicts(ref, LEAF, far)
    other = world.get_auditor(0, "ann", 0, 1)
    start = proofs.vote(ref, start_leaf=OTHER, by=other.name)
    zoe.convicts(ref, LEAF, proofs.vote_leaf(ref, start, segment), signer=other.seat)
    return world


def get_segment(world: World, ref: StatementRef) -> int:
    """Returns the segment that a vote is about."""
    segment = get_drawn_segment(world.state, world.state.rounds[ref.round], ref.slot, ref.draw or 0)
    assert segment is not None
    return segment


@PLAYS.add
def one_tree_is_no_claim_of_two_lengths() -> World:
    """The root of a whole claim is committed with two segments: nodes of the tree would be its leaves, and an
    honest auditor of the whole claim would be a liar."""
    world = make_running("one tree is no claim of two lengths")
    account = world.get_party("ann").address
    whole = PlayedClaim(world.state.terms.domain, 0, account, 5, 5)
    world.claims[whole.root] = whole
    world.anybody("ann").commits(2, claim_root=whole.root)
    world.anybody("bob").commits()
    world.draws()
    ref, proofs = make_place(world, 0, "ann"), world.proofs
    segment, levels = get_segment(world, ref), whole.levels[1:]
    other = {"leaf": levels[0][segment], "path": compute_path(levels, segment)}
    made = proofs.vote_leaf(ref, proofs.vote(ref), segment, **other)
    world.anybody("zoe").fails_to_convict(ref, LEAF, (made, "vote leaf"))
    return world


@PLAYS.add
def two_votes_of_one_draw_convict() -> World:
    """By one signer, of one claim, draw and rank, and not equal."""
    world, ref = make_audited("two votes of one draw convict")
    proofs, other = world.proofs, world.get_auditor(0, "ann", 0, 1).name
    accept, reject = proofs.vote(ref), proofs.vote(ref, REJECT_DELTA)
    bob = proofs.vote(make_place(world, 0, "bob"))
    flipped = (*reject[:2], bytes([*reject[2][:-1], reject[2][-1] ^ 1]))
    seconds = (
        accept, bob, proofs.vote(ref, rank=1), proofs.vote(ref, draw=1),
        proofs.vote(ref, REJECT_DELTA, by=other), flipped,
    )  # fmt: skip
    tried = [(proofs.pair("proveTwoVotes", accept, second), "two statements") for second in seconds]
    world.anybody("zoe").fails_to_convict(ref, TWO, *tried)
    world.anybody("zoe").convicts(ref, TWO, proofs.pair("proveTwoVotes", accept, reject))
    return world


@PLAYS.add
def votes_of_two_chains_convict_nobody() -> World:
    """A round was dealt anew by a reorganisation: both votes were honest. What is signed by no auditor, or is
    incomplete, is no vote of this chain."""
    world, ref = make_audited("votes of two chains convict nobody")
    proofs, here = world.proofs, world.proofs.vote(ref)
    changes: list[dict[str, Any]] = [
        {field: OTHER} for field in ("seed", "base_root", "claim_root", "domain")
    ]
    for change in changes:
        there = proofs.vote(ref, REJECT_DELTA, **change)
        made = proofs.pair("proveTwoVotes", here, there)
        world.anybody("zoe").fails_to_convict(ref, TWO, (made, "two statements"))
    changes += [
        {"segment": 5}, {"draw": 2}, {"rank": 3}, {"by": "ann"}, {"by": "zoe"}, {"start_leaf": bytes(32)},
        {"end_leaf": bytes(32)}, {"seal": bytes(32)}, {"named_leaf": 1},
    ]  # fmt: skip
    for change in changes:
        there = proofs.vote(ref, ACCEPT, **change)
        withstands(world, "StatementUnknown", proofs.pair("proveTwoVotes", there, here))
    return world


@PLAYS.add
def two_seals_of_one_draw_convict() -> World:
    """An empty seal hides nothing; both are by one auditor."""
    world, ref = make_audited("two seals of one draw convict")
    zoe, proofs = world.anybody("zoe"), world.proofs
    one, two = proofs.sealed(ref), proofs.sealed(ref, seal=OTHER)
    empty, foreign = proofs.sealed(ref, seal=bytes(32)), proofs.sealed(ref, seal=OTHER, by="zoe")
    tried = [
        (proofs.pair("proveTwoSeals", one, second), "two statements") for second in (one, empty, foreign)
    ]
    zoe.fails_to_convict(ref, TWO, *tried)
    withstands(world, "StatementUnknown", proofs.pair("proveTwoSeals", foreign, one))
    zoe.convicts(ref, TWO, proofs.pair("proveTwoSeals", one, two))
    return world


@PLAYS.add
def a_vote_and_a_seal_of_one_draw_convict() -> World:
    """Of one rank and one auditor; a vote without a seal contradicts none, and its signature signs none."""
    world, ref = make_audited("a vote and a seal of one draw convict")
    zoe, proofs, other = world.anybody("zoe"), world.proofs, world.get_auditor(0, "ann", 0, 1).name
    accept, unserved = proofs.vote(ref), proofs.vote(ref, UNSERVED)
    wrong = proofs.sealed(ref, seal=OTHER)
    tried = [
        (accept, proofs.sealed(ref)), (accept, proofs.sealed(ref, seal=OTHER, rank=1)),
        (accept, proofs.sealed(ref, seal=OTHER, by=other)), (unserved, wrong),
        (accept, (wrong[0], *accept[1:])),
    ]  # fmt: skip
    pairs = [(proofs.pair("proveVoteAndSeal", *pair), "two statements") for pair in tried]
    zoe.fails_to_convict(ref, TWO, *pairs)
    zoe.convicts(ref, TWO, proofs.pair("proveVoteAndSeal", accept, wrong))
    return world


@PLAYS.add
def a_leaf_that_is_not_there_is_no_ground() -> World:
    """Four leaves: a REJECT of leaf 4 is false, whichever it is; a word that names none says no number."""
    world, ref = make_audited("a leaf that is not there is no ground")
    zoe, proofs = world.anybody("zoe"), world.proofs
    other = world.get_auditor(0, "ann", 0, 1)
    for word, by in ((REJECT_STATE, world.get_auditor(0, "ann")), (REJECT_DELTA, other)):
        last, behind = (proofs.vote(ref, word, named_leaf=leaf, by=by.name) for leaf in (3, 4))
        zoe.seals_proof(ref, WORD, proofs.no_leaf(last))
        world.passes()
        with world.refuses("ProofInvalid", "named leaf"):
            zoe.proves(ref, WORD, proofs.no_leaf(last), is_valid=False, signer=by.seat)
        zoe.convicts(ref, WORD, proofs.no_leaf(behind), signer=by.seat)
    third = world.get_auditor(0, "ann", 0, 2)
    accept = proofs.vote(ref, by=third.name)
    zoe.seals_proof(ref, WORD, proofs.no_leaf(accept))
    world.passes()
    with world.refuses("ProofInvalid", "named leaf"):
        zoe.proves(ref, WORD, proofs.no_leaf(accept), is_valid=False, signer=third.seat)
    withstands(world, "StatementUnknown", proofs.no_leaf(proofs.vote(ref, named_leaf=4, by=third.name)))
    return world


@PLAYS.add
def a_right_start_was_not_to_reject() -> World:
    """A wrong one was; another word is no REJECT_START."""
    world, ann = make_audited("a right start was not to reject", "moment", "", "")
    zoe, proofs, bob = world.anybody("zoe"), world.proofs, make_place(world, 0, "bob")
    zoe.fails_to_convict(ann, WORD, (proofs.right_start(ann, proofs.vote(ann, REJECT_START)), "start"))
    zoe.fails_to_convict(bob, WORD, (proofs.right_start(bob, proofs.vote(bob)), "word"))
    zoe.convicts(bob, WORD, proofs.right_start(bob, proofs.vote(bob, REJECT_START)))
    return world


@PLAYS.add
def a_right_delta_was_not_to_reject() -> World:
    """Of the leaf that it named; work that hands on other moments was to reject, whichever leaf it named."""
    world, ann = make_audited("a right delta was not to reject", "delta", "", "carried")
    zoe, proofs = world.anybody("zoe"), world.proofs
    bob, cid = (make_place(world, 0, name) for name in ("bob", "cid"))

    def reject(ref: StatementRef, shown: int = 1) -> ContractCall:
        return proofs.right_delta(ref, proofs.vote(ref, REJECT_DELTA, named_leaf=1), shown)

    zoe.fails_to_convict(ann, WORD, (reject(ann), "delta"), (reject(ann, 0), "leaf"))
    zoe.fails_to_convict(bob, WORD, (proofs.right_delta(bob, proofs.vote(bob)), "word"))
    zoe.fails_to_convict(cid, WORD, (reject(cid), "delta"))
    zoe.convicts(bob, WORD, reject(bob))
    return world


@PLAYS.add
def two_ends_bear_an_exact_word_out() -> World:
    """An ACCEPT of another end is false, and a REJECT_STATE of the same one; other words say nothing."""
    world, ann = make_audited("two ends bear an exact word out", model=Model(), is_exact=True)
    zoe, proofs, bob = world.anybody("zoe"), world.proofs, make_place(world, 0, "bob")
    world.own_ends[0, bob.slot, 0, 0] = ZEROS
    zoe.fails_to_convict(
        ann, WORD,
        (proofs.ends(ann, ACCEPT), "ends"),
        (proofs.ends(ann, REJECT_STATE), "ends"),
        (proofs.ends(ann, REJECT_DELTA), "ends"),
    )  # fmt: skip
    zoe.fails_to_convict(
        bob, WORD,
        (proofs.ends(bob, ACCEPT), "ends"),
        (proofs.ends(bob, REJECT_START), "ends"),
        (proofs.ends(bob, REJECT_STATE, own=OTHER), "ends"),
    )  # fmt: skip
    zoe.convicts(bob, WORD, proofs.ends(bob, REJECT_STATE))
    world.own_ends[0, ann.slot, 0, 0] = FAR
    zoe.convicts(ann, WORD, proofs.ends(ann, ACCEPT))
    return world


@PLAYS.add
def two_ends_may_differ_elsewhere() -> World:
    """Where a task is not exact, limits and queries decide."""
    world, ann = make_audited("two ends may differ elsewhere", model=Model())
    world.own_ends[0, ann.slot, 0, 0] = FAR
    world.anybody("zoe").fails_to_convict(ann, WORD, (world.proofs.ends(ann, ACCEPT), "ends"))
    return world
