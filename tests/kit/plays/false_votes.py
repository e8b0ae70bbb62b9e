"""Votes and seals that are proven false in one transaction: an honest signer withstands all proofs."""

from typing import Any

from tests.kit.contract_calls import ContractCall
from tests.kit.played_calls import FAR
from tests.kit.played_claims import ZEROS, Model, PlayedClaim
from tests.kit.plays.collection import Plays
from tests.kit.plays.evidence import OTHER, make_audited, withstands
from tests.kit.plays.rounds import make_running
from tests.kit.world import World, make_place
from touchstone.protocol.spec.game.assignments import get_drawn_segment
from touchstone.protocol.spec.game.enums import ProofKind
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.merkle import compute_path
from touchstone.protocol.spec.statements import VoteWord

PLAYS = Plays("false_votes")
ACCEPT, REJECT_STATE, REJECT_DELTA, REJECT_START, UNSERVED, ABSTAIN = VoteWord
LEAF, TWO, WORD = ProofKind.VOTE_LEAF, ProofKind.TWO_STATEMENTS, ProofKind.FALSE_WORD


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
        zoe.commits_proof(ref, WORD, proofs.no_leaf(last))
        world.passes()
        with world.refuses("ProofInvalid", "named leaf"):
            zoe.proves(ref, WORD, proofs.no_leaf(last), is_valid=False, signer=by.seat)
        zoe.convicts(ref, WORD, proofs.no_leaf(behind), signer=by.seat)
    third = world.get_auditor(0, "ann", 0, 2)
    accept = proofs.vote(ref, by=third.name)
    zoe.commits_proof(ref, WORD, proofs.no_leaf(accept))
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
