"""Disputes of one step down to one number: traces, leaves, proofs, and what convicts."""

from dataclasses import replace
from typing import Any

from tests.kit.actor import Actor
from tests.kit.played_claims import JUMP, spoil_leaf
from tests.kit.plays.collection import Plays
from tests.kit.toy_step import (
    FACTS,
    LABELS,
    SCALARS,
    STEP_MODEL,
    STEP_ROOT,
    TENSOR,
    TOKENS,
    Lie,
    open_scalars,
)
from tests.kit.world import World, make_place
from touchstone.protocol.spec.game.enums import SeatStatus
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.merkle import hash_leaf
from touchstone.protocol.spec.openings import BufferOpening, LeafProof

PLAYS = Plays("steps")
OTHER = b"\7" * 32
STEP, SEGMENT = 1, 2
LIE: Lie = (TENSOR, 130, 1)
EIGHT = [(0, i % 2, i % 2) for i in range(8)]
"""Leaves of node 0: of its output, and of the weights."""


def make_accepted(
    name: str,
    *faults: str,
    verifiers: int = 3,
    whistleblowers: int = 0,
    is_halted: bool = False,
    **changes: Any,
) -> tuple[World, Actor]:
    """Returns a posted round of claims with these faults, which nobody has found, and who disputes them."""
    world = World(name, **{"model": STEP_MODEL, "step_root": STEP_ROOT, "solver_seats": 6, **changes})
    names = ("ann", "bob", "cid", "dan", "eve", "fay")[: max(3, len(faults))]
    world.solvers(*names)
    world.verifiers(*("vic", "wil", "xia", "yan", "zac", "una")[:verifiers])
    world.whistleblowers(*["wes"][:whistleblowers])
    world.starts()
    for i, solver in enumerate(names):
        world.anybody(solver).commits(fault=faults[i] if i < len(faults) else "")
    world.draws()
    world.all_accept()
    if is_halted:
        world.submitter.halts()
    world.posts()
    return world, world.anybody("zoe")


def place(world: World, name: str) -> StatementRef:
    """Returns the name of a claim of round 0."""
    return make_place(world, 0, name, draw=None)


def find_claimant(world: World, dispute: int) -> Actor:
    """Returns whose claim or vote is disputed."""
    seat = world.state.disputes[dispute].seat
    return world.anybody(world.get_name(world.state.seats[seat].account))


def plays(world: World, dispute: int, turn: int) -> None:
    """One turn of a dispute."""
    zoe, claimant = world.anybody("zoe"), find_claimant(world, dispute)
    moves = (
        lambda: claimant.shows_roots(dispute),
        lambda: zoe.names_step(dispute, STEP),
        lambda: claimant.shows_trace(dispute),
        lambda: zoe.demands(dispute, *EIGHT),
        lambda: claimant.shows_leaves(dispute, 0, 8),
        lambda: zoe.proves_operation(dispute, 0),
    )
    moves[turn]()


def disputes_to_trace(world: World, ref: StatementRef, lie: Lie | None = None) -> int:
    """A dispute up to where proofs are brought."""
    dispute = world.anybody("zoe").disputes(ref, segment=SEGMENT, lie=lie)
    for turn in range(3):
        plays(world, dispute, turn)
    return dispute


def requires_convicted(world: World, *names: str) -> None:
    """Fails unless these seats are closed."""
    assert all(world.get_seat(name).status == SeatStatus.CONVICTED for name in names)


def spoil(roots: list[bytes], at: int) -> list[bytes]:
    """Returns roots of which one is another."""
    return [OTHER if i == at else root for i, root in enumerate(roots)]


# Steps and traces
@PLAYS.add
def a_step_is_named_by_the_opener() -> World:
    """Of the roots that were posted, one of five steps."""
    world, zoe = make_accepted("a step is named by the opener")
    dispute = zoe.disputes(place(world, "ann"), segment=SEGMENT)
    plays(world, dispute, 0)
    roots = world.moves(dispute).list_roots()
    with world.refuses("NotOpener"):
        world.anybody("yan").names_step(dispute, 0)
    with world.refuses("NotBelow", "step"):
        zoe.names_step(dispute, 5)
    for other in (spoil(roots, 3), roots[:-1]):
        with world.refuses("NotBound", "roots"):
            zoe.names_step(dispute, 0, other)
    zoe.names_step(dispute, 4)
    world.anybody("ann").shows_trace(dispute)
    return world


@PLAYS.add
def a_trace_leads_from_state_to_state() -> World:
    """By the task's program: its head is shown, and its outputs are the three tensors of the state after."""
    world, zoe = make_accepted("a trace leads from state to state")
    ann, dispute = world.anybody("ann"), zoe.disputes(place(world, "ann"), segment=SEGMENT)
    for turn in range(2):
        plays(world, dispute, turn)
    step = world.moves(dispute).step
    proof = step.outputs
    wrong_path = (OTHER, *proof.weights_path[1:])
    tried: list[tuple[str, int, dict[str, Any]]] = [
        ("FactsMismatch", 0, {"facts": replace(FACTS, token_bytes=4)}),
        ("HeaderMismatch", 0, {"start": step.end}),
        ("HeaderMismatch", 0, {"end": step.start}),
        ("HeadMismatch", 0, {"proof": replace(proof, head=b"other")}),
        ("HeadMismatch", 0, {"proof": replace(proof, head=b"\1" + proof.head[1:])}),
        ("OutputMismatch", 0, {"root": OTHER}),
        ("OutputMismatch", 0, {"proof": replace(proof, weights_path=wrong_path)}),
        ("OutputMismatch", 1, {"proof": replace(proof, first_moment_path=wrong_path)}),
        ("OutputMismatch", 2, {"proof": replace(proof, second_moment_path=wrong_path)}),
    ]
    for refusal, reason, other in tried:
        with world.refuses(refusal, reason or b""):
            ann.shows_trace(dispute, **other)
    with world.refuses("NotHolder"):
        world.anybody("bob").shows_trace(dispute)
    ann.shows_trace(dispute)
    with world.refuses("WrongTurn"):
        ann.shows_trace(dispute)
    return world


@PLAYS.add
def a_state_of_other_steps_is_not_shown() -> World:
    """In the middle of a segment: its opener names it, as the state after the step and as the one before."""
    world, zoe = make_accepted("a state of other steps is not shown", "jump", "jump")
    for name, step in (("ann", JUMP - 1), ("bob", JUMP)):
        claimant, dispute = world.anybody(name), zoe.disputes(place(world, name), segment=SEGMENT)
        claimant.shows_roots(dispute)
        zoe.names_step(dispute, step)
        with world.refuses("WrongSteps"):
            claimant.shows_trace(dispute)
        world.passes(11)
        zoe.ends_dispute(dispute)
        requires_convicted(world, name)
    return world


# Proofs
@PLAYS.add
def one_wrong_number_convicts() -> World:
    """A solver, whose claim is void, or an auditor, whose claim is not touched; the elements beside it are
    right. The last block takes the proof."""
    world, zoe = make_accepted("one wrong number convicts")
    for ref in (place(world, "ann"), make_place(world, 0, "bob")):
        dispute = disputes_to_trace(world, ref, LIE)
        name = find_claimant(world, dispute).name
        with world.refuses("NoFault", 129):
            zoe.proves_operation(dispute, 129)
        world.comes_to(world.disputes[dispute].clock)
        zoe.proves_operation(dispute, 130)
        requires_convicted(world, name)
    return world


@PLAYS.add
def nothing_of_an_honest_claim_is_proven() -> World:
    """Whatever is tried: in every place of the node, and of each kind of data. It is cleared."""
    world, zoe = make_accepted("nothing of an honest claim is proven")
    dispute = disputes_to_trace(world, place(world, "ann"))
    for element in (0, 127, 128, 299):
        with world.refuses("NoFault", element):
            zoe.proves_operation(dispute, element)
    for buffer in (TOKENS, LABELS, SCALARS):
        for position in (0, 1, 2) if buffer == SCALARS else (0, 79, 80, 159):
            with world.refuses("NoFault", position):
                zoe.proves_datum(dispute, buffer, position)
    move = world.moves(dispute).prove_operation(0)
    made = world.moves(dispute).write(move)
    world.passes(11)
    world.anybody("yan").ends_dispute(dispute)
    assert world.get_credit("ann") == 40
    world.send_refused("NothingOpen", "zoe", *made)
    with world.refuses("NothingOpen"):
        zoe.ends_dispute(dispute)
    return world


@PLAYS.add
def a_wrong_datum_convicts() -> World:
    """A token, a label, a learning rate, a bias correction."""
    lies = ((TOKENS, 140, 1), (LABELS, 79, 1), (SCALARS, 0, 1), (SCALARS, 2, 1))
    world, zoe = make_accepted("a wrong datum convicts", "", "", "", "")
    for name, lie in zip(("ann", "bob", "cid", "dan"), lies, strict=True):
        dispute = disputes_to_trace(world, place(world, name), lie)
        zoe.proves_datum(dispute, *lie[:2])
        requires_convicted(world, name)
    return world


@PLAYS.add
def an_entry_outside_the_vocabulary_is_token_zero() -> World:
    """For every node: who shows the entry itself shows another datum."""
    world, zoe = make_accepted("an entry outside the vocabulary is token zero")
    for name, buffer in (("ann", TOKENS), ("bob", LABELS)):
        honest = disputes_to_trace(world, place(world, name))
        position, entry = world.moves(honest).step.find_outside(buffer)
        with world.refuses("NoFault", position):
            zoe.proves_datum(honest, buffer, position)
        liar = disputes_to_trace(world, place(world, name), (buffer, position, entry))
        zoe.proves_datum(liar, buffer, position)
        requires_convicted(world, name)
    return world


@PLAYS.add
def scalars_go_by_both_clocks() -> World:
    """The learning rate by the global step, the corrections by the local one, which may be less."""
    world, zoe = make_accepted("scalars go by both clocks", *["less local"] * 4)
    honest = disputes_to_trace(world, place(world, "dan"))
    assert world.moves(honest).step.start.local_step == world.moves(honest).step.start.global_step - 1
    for which, name in enumerate(("ann", "bob", "cid")):
        with world.refuses("NoFault", which):
            zoe.proves_datum(honest, SCALARS, which)
        dispute = disputes_to_trace(world, place(world, name), (SCALARS, which, 1))
        zoe.proves_datum(dispute, SCALARS, which)
        requires_convicted(world, name)
    return world


@PLAYS.add
def what_is_not_proven_convicts_nobody() -> World:
    """Each part of a proof is under its root, of this step and of this trace, and in time."""
    world, zoe = make_accepted("what is not proven convicts nobody")
    dispute = zoe.disputes(place(world, "ann"), segment=SEGMENT, lie=LIE)
    for turn in range(2):
        plays(world, dispute, turn)
    with world.refuses("WrongTurn"):
        zoe.proves_operation(dispute, 130)
    plays(world, dispute, 2)
    with world.refuses("NotOpener"):
        world.anybody("yan").proves_operation(dispute, 130)
    step, nothing = world.moves(dispute).step, BufferOpening(bytes(32), (), b"", ())
    empty, opening = {"opening": nothing, "datum": LeafProof(b"", ())}, step.open_element(SCALARS, 0)
    spoiled = replace(opening, leaves=b"\1" + opening.leaves[1:])
    token, scalars = step.open_datum(TOKENS, 0), step.open_datum(SCALARS, 0)
    other, forged = open_scalars(step.local + 1), replace(spoiled, root=hash_leaf(spoiled.leaves))
    tried: list[tuple[str, str | int | bytes, int, int, dict[str, Any]]] = [
        ("NotBelow", "datum", 6, 0, empty),
        ("NotBelow", "datum", 2, 0, empty),
        ("LeafUnknown", 3, SCALARS, 3, empty),
        ("WrongLeafBytes", 4, SCALARS, 0, empty),
        ("LeafMismatch", b"", SCALARS, 0, {"opening": spoiled}),
        ("BufferMismatch", b"", SCALARS, 0, {"opening": forged}),
        ("LeafMismatch", FACTS.dataset_root, TOKENS, 0, {"datum": spoil_leaf(token)}),
        ("LeafMismatch", FACTS.scalars_root, SCALARS, 0, {"datum": other}),
        ("LeafMismatch", FACTS.scalars_root, SCALARS, 0, {"datum": spoil_leaf(scalars)}),
        ("HeaderMismatch", b"", SCALARS, 0, {"start": step.end}),
        ("FactsMismatch", STEP_ROOT, SCALARS, 0, {"facts": replace(FACTS, token_bytes=1)}),
    ]  # fmt: skip
    for refusal, reason, buffer, position, parts in tried:
        with world.refuses(refusal, reason):
            zoe.proves_datum(dispute, buffer, position, **parts)
    proof = step.prove(130)
    lies: list[tuple[str, dict[str, Any]]] = [
        ("WrongOpeningBytes", {"openings": proof.openings + b"\0"}),
        ("TraceMismatch", {"openings": bytes([proof.openings[0] ^ 1]) + proof.openings[1:]}),
        ("ElementUnknown", {"element": 300}),
        ("NodeMismatch", {"node": replace(proof.node, number=1)}),
        ("HeaderMismatch", {"start": step.end}),
        ("FactsMismatch", {"facts": replace(FACTS, token_bytes=1)}),
    ]
    for refusal, parts in lies:
        with world.refuses(refusal):
            zoe.proves_operation(dispute, 130, **parts)
    world.comes_to(world.disputes[dispute].clock + 1)
    with world.refuses("OutsideWindow"):
        zoe.proves_operation(dispute, 130)
    return world


# Leaves
@PLAYS.add
def leaves_are_shown_then_a_lie_is_proven() -> World:
    """Or before they are shown. They may come in several calls, each in the last block."""
    world, zoe = make_accepted("leaves are shown then a lie is proven")
    for name in ("ann", "bob"):
        dispute = disputes_to_trace(world, place(world, name), LIE)
        zoe.demands(dispute, *EIGHT)
        if name == "ann":
            world.anybody(name).shows_leaves(dispute, 0, 3)
            world.comes_to(world.disputes[dispute].clock)
            world.anybody(name).shows_leaves(dispute, 3, 8)
            world.comes_to(world.disputes[dispute].clock)
        zoe.proves_operation(dispute, 130)
        requires_convicted(world, name)
    return world


@PLAYS.add
def a_leaf_that_is_withheld_convicts() -> World:
    """Seven of eight are not all."""
    world, zoe = make_accepted("a leaf that is withheld convicts")
    ann, dispute = world.anybody("ann"), disputes_to_trace(world, place(world, "ann"))
    zoe.demands(dispute, *EIGHT)
    ann.shows_leaves(dispute, 0, 7)
    world.comes_to(world.disputes[dispute].clock)
    with world.refuses("NotLate"):
        zoe.ends_dispute(dispute)
    world.passes()
    with world.refuses("OutsideWindow"):
        ann.shows_leaves(dispute, 7, 8)
    zoe.ends_dispute(dispute)
    requires_convicted(world, "ann")
    return world


@PLAYS.add
def a_trace_that_is_served_to_nobody_goes_free() -> World:
    """Known and open (docs/decisions/0031): one wrong element, and eight leaves that do not hold it. The
    opener proves a fault of another's trace only if it knows the trace."""
    world, zoe = make_accepted("a trace that is served to nobody goes free")
    dispute = disputes_to_trace(world, place(world, "ann"), LIE)
    zoe.demands(
        dispute, (0, 0, 0), (0, 0, 2), (0, 1, 0), (0, 1, 1), (0, 1, 0), (0, 1, 1), (1, 1, 0), (1, 1, 1)
    )
    world.anybody("ann").shows_leaves(dispute, 0, 8)
    world.passes(11)
    zoe.ends_dispute(dispute)
    assert world.get_credit("ann") == 40
    return world


@PLAYS.add
def leaves_are_demanded_once() -> World:
    """By the opener, at most eight, of the task's program, and none that everybody has."""
    world, zoe = make_accepted("leaves are demanded once")
    dispute = disputes_to_trace(world, place(world, "ann"))
    one = (0, 0, 0)
    tried: list[tuple[str, str | int | bytes, tuple[tuple[int, int, int], ...], dict[str, Any]]] = [
        ("NothingDemanded", b"", (), {}),
        ("NotBelow", "leaves", (one,) * 9, {}),
        ("ConstantDemanded", 6, ((0, 2, 0),), {}),
        ("PlaceUnknown", 3, ((0, 3, 0),), {}),
        ("LeafUnknown", 3, ((0, 0, 3),), {}),
        ("NodeMismatch", FACTS.program_root, (one,), {"number": 1}),
        ("FactsMismatch", STEP_ROOT, (one,), {"facts": replace(FACTS, program_root=OTHER)}),
    ]
    for refusal, reason, places, parts in tried:
        with world.refuses(refusal, reason):
            zoe.demands(dispute, *places, **parts)
    with world.refuses("NotOpener"):
        world.anybody("yan").demands(dispute, one)
    zoe.demands(dispute, *EIGHT[:2])
    with world.refuses("WrongTurn"):
        zoe.demands(dispute, one)
    world.anybody("ann").shows_leaves(dispute, 0, 2)
    with world.refuses("WrongTurn"):
        zoe.demands(dispute, one)
    world.passes(11)
    zoe.ends_dispute(dispute)
    assert world.get_credit("ann") == 40
    return world


@PLAYS.add
def demanded_leaves_are_shown() -> World:
    """By the claimant, in their order, of its own trace and state, and no more."""
    world, zoe = make_accepted("demanded leaves are shown")
    ann, dispute = world.anybody("ann"), disputes_to_trace(world, place(world, "ann"))
    zoe.demands(dispute, *EIGHT[:2])
    step = world.moves(dispute).step
    right = [step.open_demanded(*one) for one in EIGHT[:2]]
    with world.refuses("NotHolder"):
        world.anybody("bob").shows_leaves(dispute, 0, 1)
    tried: list[tuple[str, str | int | bytes, dict[str, Any]]] = [
        ("LeafMismatch", b"", {"openings": [step.open_demanded(0, 0, 1)]}),
        ("BufferMismatch", b"", {"openings": [step.open_element(TOKENS, 0)]}),
        ("WrongLeafBytes", 512, {"openings": [step.open_demanded(0, 1, 1)]}),
        ("HeaderMismatch", b"", {"start": step.end}),
        ("NotBelow", "leaves", {"openings": [*right, right[0]]}),
    ]
    for refusal, reason, parts in tried:
        with world.refuses(refusal, reason):
            ann.shows_leaves(dispute, 0, 1, **parts)
    ann.shows_leaves(dispute, 0, 2)
    return world
