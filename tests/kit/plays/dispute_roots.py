"""Disputes narrowed down to a step: whose turn it is, what silence costs, and to what roots are bound."""

from dataclasses import replace
from typing import Any

from tests.kit.members import make_word
from tests.kit.played_calls import FAR
from tests.kit.played_claims import ZEROS
from tests.kit.plays.collection import Plays
from tests.kit.plays.rounds import make_running
from tests.kit.plays.steps import (
    OTHER,
    SEGMENT,
    find_claimant,
    make_accepted,
    place,
    plays,
    requires_convicted,
    spoil,
)
from tests.kit.toy_step import (
    STEP_MODEL,
)
from tests.kit.world import World, make_place
from touchstone.protocol.spec.commitments import compute_boundary_leaf, compute_state_root
from touchstone.protocol.spec.game.assignments import get_drawn_segment
from touchstone.protocol.spec.game.enums import ProofKind, SeatStatus
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.statements import VoteWord, compute_seal

PLAYS = Plays("dispute_roots")
ACCEPT, REJECT_STATE, REJECT_DELTA, REJECT_START, UNSERVED, ABSTAIN = VoteWord


def list_votes(world: World, count: int) -> list[StatementRef]:
    """Returns votes of so many different auditors."""
    found = dict[int, StatementRef]()
    for name in ("ann", "bob", "cid"):
        for rank in range(3):
            found.setdefault(world.get_drawn(0, name, 0, rank), make_place(world, 0, name, 0, rank))
    return list(found.values())[:count]


# Turns
def plays_silence(world: World, refs: list[StatementRef]) -> World:
    """Whoever is silent at its turn loses, one block after its clock and no sooner. Each move comes in the
    last block that takes it, so no dispute lasts longer than six answers."""
    zoe, opened = world.anybody("zoe"), world.block
    waits = [zoe.disputes(refs[turns // 2 if turns % 2 == 0 else 3], segment=SEGMENT) for turns in range(6)]
    for turn, silent in enumerate(waits):
        world.comes_to(opened + 10 * (turn + 1))
        for dispute in waits[turn + 1 :]:
            plays(world, dispute, turn)
        with world.refuses("NotLate"):
            zoe.ends_dispute(silent)
        world.passes()
        with world.refuses("OutsideWindow"):
            plays(world, silent, turn)
        name = find_claimant(world, silent).name
        world.anybody("yan").ends_dispute(silent)
        assert (world.get_seat(name).status == SeatStatus.CONVICTED) == (turn % 2 == 0)
    world.winds_down()
    world.ends()
    return world


@PLAYS.add
def a_silent_side_of_a_claim_loses() -> World:
    """At each of its six turns."""
    world, _ = make_accepted("a silent side of a claim loses", "", "", "", "")
    return plays_silence(world, [place(world, name) for name in ("ann", "bob", "cid", "dan")])


@PLAYS.add
def a_silent_side_of_a_vote_loses() -> World:
    """Its auditor answers as a claimant does."""
    world, _ = make_accepted("a silent side of a vote loses", verifiers=4)
    return plays_silence(world, list_votes(world, 4))


@PLAYS.add
def a_conviction_ends_every_dispute_of_the_seat() -> World:
    """At each turn: no move is taken, no other dispute opened, and all bonds go back at once."""
    world, zoe = make_accepted("a conviction ends every dispute of the seat", "delta")
    ann = place(world, "ann")
    disputes = [zoe.disputes(ann, segment=SEGMENT) for _ in range(6)]
    for turns, dispute in enumerate(disputes):
        for turn in range(turns):
            plays(world, dispute, turn)
    world.anybody("yan").convicts(ann, ProofKind.DELTA_LEAF, world.proofs.delta(ann, 1))
    for turn, dispute in enumerate(disputes):
        with world.refuses("SeatIsConvicted"):
            plays(world, dispute, turn)
    with world.refuses("SeatIsConvicted"):
        zoe.disputes(ann)
    for dispute in disputes:
        world.anybody("bob").ends_dispute(dispute)
    assert world.get_credit("zoe") == sum(range(7)) * 80
    return world


@PLAYS.add
def the_kth_dispute_costs_k_bonds() -> World:
    """Each that ends makes the next one cheaper; one that convicts makes the others moot."""
    world, zoe = make_accepted("the kth dispute costs k bonds")
    disputes = [zoe.disputes(place(world, "ann")) for _ in range(5)]
    plays(world, disputes[2], 0)
    world.passes(11)
    zoe.ends_dispute(disputes[2])
    assert world.get_credit("ann") == 3 * 80 // 2
    zoe.ends_dispute(disputes[4])
    requires_convicted(world, "ann")
    for dispute in (disputes[0], disputes[1], disputes[3]):
        zoe.ends_dispute(dispute)
    assert world.get_credit("zoe") == (5 + 1 + 2 + 4) * 80 + 150
    return world


# Opening
@PLAYS.add
def a_vote_of_another_chain_is_not_disputed() -> World:
    """Nor one that somebody else signed, or that says less than its word needs."""
    world, zoe = make_accepted("a vote of another chain is not disputed", whistleblowers=1)
    ref, sign = make_place(world, 0, "ann"), world.proofs.vote
    changes: list[dict[str, Any]] = [
        {field: OTHER} for field in ("domain", "base_root", "claim_root", "seed")
    ]
    changes += [{"segment": 5}, {"by": "wes"}, {"by": "ann"}, {"seal": bytes(32)}, {"draw": 2}]
    for change in changes:
        made = ("Disputes", "disputeVote", world.task, sign(ref, **change), 1_000, make_word(change))
        world.send_refused("StatementUnknown", "zoe", *made)
    unserved = ("Disputes", "disputeVote", world.task, sign(ref, UNSERVED), 1_000, make_word("unserved"))
    world.send_refused("StatementUnknown", "zoe", *unserved)
    zoe.disputes(ref)
    return world


# Roots
def refuses_roots(world: World, dispute: int, *tried: tuple[str, str, dict[str, Any]]) -> None:
    """The claimant cannot answer with these roots."""
    for refusal, reason, other in tried:
        with world.refuses(refusal, reason):
            find_claimant(world, dispute).shows_roots(dispute, **other)


@PLAYS.add
def roots_of_a_claim_are_bound_to_it() -> World:
    """One for each state; the first and the last are its boundaries."""
    world, zoe = make_accepted("roots of a claim are bound to it")
    dispute = zoe.disputes(place(world, "ann"), segment=SEGMENT)
    moves = world.moves(dispute)
    roots, (_, right) = moves.list_roots(), moves.post_roots()
    with world.refuses("NotHolder"):
        world.anybody("bob").shows_roots(dispute)
    refuses_roots(
        world, dispute,
        ("NotBound", "count", {"roots": roots[:-1]}),
        ("NotBound", "start", {"roots": spoil(roots, 0)}),
        ("NotBound", "end", {"roots": spoil(roots, 5)}),
        ("ProofInvalid", "boundary", {"end": moves.claim.open(0)}),
        ("ProofInvalid", "boundary", {"start": moves.claim.open(SEGMENT + 1)}),
    )  # fmt: skip
    with world.refuses("StatementUnknown"):
        world.anybody("ann")._moves(
            dispute, ("postVoteRoots", (roots, moves.claim.solver, *right[1:], OTHER))
        )
    plays(world, dispute, 0)
    with world.refuses("WrongTurn"):
        plays(world, dispute, 0)
    return world


@PLAYS.add
def roots_of_a_vote_are_bound_to_its_seal() -> World:
    """The start is the claim's, the end what the auditor sealed."""
    world, zoe = make_accepted("roots of a vote are bound to its seal")
    dispute = zoe.disputes(make_place(world, 0, "ann"))
    moves = world.moves(dispute)
    roots, start = moves.list_roots(), moves.claim.open(moves.segment)
    refuses_roots(
        world, dispute,
        ("ProofInvalid", "boundary", {"solver": world.get_party("zoe").address}),
        ("ProofInvalid", "boundary", {"start": replace(start, salt=OTHER)}),
        ("ProofInvalid", "boundary", {"start": moves.claim.open(moves.segment + 1)}),
        ("NotBound", "vote", {"salt": OTHER, "end": start}),
        ("NotBound", "vote", {"roots": spoil(roots, 5), "end": start}),
        ("NotBound", "start", {"roots": spoil(roots, 0)}),
    )  # fmt: skip
    with world.refuses("StatementUnknown"):
        find_claimant(world, dispute)._moves(dispute, ("postClaimRoots", (roots, start, start)))
    plays(world, dispute, 0)
    return world


@PLAYS.add
def an_auditor_chooses_no_start() -> World:
    """One that replayed nothing signs for zeros, from which no step moves. It is not the claim's, nor can it
    bring the claim's: it is silent."""
    world, zoe = make_accepted("an auditor chooses no start")
    ref = make_place(world, 0, "ann")
    vote, shown, auditor = world._vote(ref, ACCEPT)
    claim, zero = world.proofs.get_claim(ref), STEP_MODEL.zero_root
    right = claim.open(vote.segment)
    start = replace(
        right, header=StateHeader(zero, zero, zero, right.header.local_step, right.header.global_step)
    )
    root = compute_state_root(start.header)
    leaf = compute_boundary_leaf(vote.domain, 0, claim.solver, vote.segment, start.salt, root)
    said = (vote.domain, 0, ref.slot, 0, 0, auditor.address, leaf, shown[2], shown[3])
    world.other_votes[ref] = world.proofs.vote(ref, start_leaf=leaf, seal=compute_seal(*said))
    dispute = zoe.disputes(ref)
    roots = world.moves(dispute).list_roots()
    refuses_roots(
        world, dispute,
        ("ProofInvalid", "boundary", {"start": start, "roots": [root, *roots[1:]]}),
        ("NotBound", "vote", {}),
    )  # fmt: skip
    world.passes(11)
    zoe.ends_dispute(dispute)
    requires_convicted(world, world.get_name(auditor.address))
    return world


@PLAYS.add
def a_solver_may_have_settled_meanwhile() -> World:
    """A vote is disputed in the last block; while its auditor has its turn the claim's solver settles."""
    windows = {"dispute": 2 * 30 + 720}
    world, zoe = make_accepted("a solver may have settled meanwhile", is_halted=True, windows=windows)
    world.comes_to((world.state.rounds[0].closed or 0) + 780)
    dispute = zoe.disputes(make_place(world, 0, "ann"))
    world.passes()
    world.settles("ann", 0)
    plays(world, dispute, 0)
    return world


@PLAYS.add
def the_ends_bear_an_exact_word_out() -> World:
    """All steps of a replay may be right and the word false: ACCEPT of another end, or REJECT_STATE."""
    world = World("the ends bear an exact word out", is_exact=True)
    world.solvers("ann", "bob", "cid")
    world.verifiers("vic", "wil", "xia", "yan", "zac", "una")
    world.starts()
    world.all_commit()
    world.draws()
    cases = (
        ("ann", 0, ACCEPT, FAR),
        ("bob", 0, REJECT_STATE, FAR),
        ("bob", 1, REJECT_STATE, ZEROS),
        ("cid", 0, ACCEPT, ZEROS),
    )
    for name, rank, word, own in cases:
        world.own_ends[0, world.get_slot(name, 0), 0, rank] = own
        world.votes(name, word, rank=rank, is_opened=False)
    zoe = world.anybody("zoe")
    for name, rank, word, own in sorted(cases, key=lambda case: (case[2] == ACCEPT) == (case[3] == FAR)):
        dispute = zoe.disputes(make_place(world, 0, name, 0, rank))
        auditor = find_claimant(world, dispute)
        if (word == ACCEPT) == (own == ZEROS):
            auditor.shows_roots(dispute)
            continue
        with world.refuses("NotBound", "vote"):
            auditor.shows_roots(dispute)
        world.passes(11)
        zoe.ends_dispute(dispute)
        requires_convicted(world, auditor.name)
    return world


def plays_word_without_end(name: str, is_exact: bool) -> World:
    """An auditor that said REJECT_START has compared no ends: none is opened for it."""
    world = make_running(name, is_exact=is_exact)
    world.all_commit()
    world.draws()
    for rank in (0, 1):
        world.votes("ann", REJECT_START, rank=rank, is_opened=False)
    zoe = world.anybody("zoe")
    dispute = zoe.disputes(make_place(world, 0, "ann"))
    moves = world.moves(dispute)
    find_claimant(world, dispute).shows_roots(dispute, end=moves.claim.open(moves.segment))
    zoe.names_step(dispute, 0)
    return world


@PLAYS.add
def a_word_without_an_end_needs_none() -> World:
    """In a task with limits."""
    return plays_word_without_end("a word without an end needs none", False)


@PLAYS.add
def an_exact_word_without_an_end_needs_none() -> World:
    """In an exact task."""
    return plays_word_without_end("an exact word without an end needs none", True)


@PLAYS.add
def steps_of_another_place_cannot_be_posted() -> World:
    """Global steps that the chain does not give, and more local steps than these: who claims them is silent,
    and so is an auditor that was given them by another cheat."""
    faults = ("later", "more local", "later", "more local", "more local", "more local")
    world, zoe = make_accepted("steps of another place cannot be posted", *faults, verifiers=6)
    votes = [make_place(world, 0, "cid")]
    for name in ("dan", "eve", "fay"):
        slot = world.get_slot(name, 0)
        if get_drawn_segment(world.state, world.state.rounds[0], slot, 0):
            votes.append(make_place(world, 0, name))
    assert len(votes) > 1
    for ref in (place(world, "ann"), place(world, "bob"), *votes[:2]):
        dispute = zoe.disputes(ref, segment=SEGMENT)
        claimant = find_claimant(world, dispute)
        with world.refuses("WrongSteps"):
            claimant.shows_roots(dispute)
        world.passes(11)
        zoe.ends_dispute(dispute)
        requires_convicted(world, claimant.name)
    return world
