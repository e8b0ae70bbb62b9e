"""Claims that are proven wrong in one transaction: an honest one withstands all proofs, a false one the right
one alone."""

from dataclasses import replace
from typing import Any

from eth_abi.grammar import TupleType, parse

from tests.kit.contract_calls import ContractCall
from tests.kit.played_claims import Model, open_leaf, spoil_leaf
from tests.kit.plays.collection import Plays
from tests.kit.plays.rounds import make_running
from tests.kit.world import World, make_place
from touchstone.protocol.adapters.chain.abi import load_abi
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.enums import ProofKind
from touchstone.protocol.spec.game.state import StatementRef

PLAYS = Plays("evidence")
START, DELTA, CARRIED = ProofKind.BOUNDARY_ZERO, ProofKind.DELTA_LEAF, ProofKind.CARRIED_ROOT
TWO = ProofKind.TWO_STATEMENTS
FOUR = Model(1_000, is_filled=True)
"""Four leaves a tensor, the last one padded."""
NAMES = ("ann", "bob", "cid", "dan", "eve", "fay", "gil")
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


def withstands(world: World, refusal: str, *tried: ContractCall) -> None:
    """Each proof is committed, brought a block later, and refused by this name."""
    zoe = world.anybody("zoe")
    for made in tried:
        zoe.send(calls.CommitProof(zoe.compute_digest(made)))
    world.passes()
    for made in tried:
        world.send_refused(refusal, "zoe", *made)


def make_blank(kind: str) -> Any:
    """Returns the zero value of an ABI type: an empty list, or a struct of zero values."""
    parsed = parse(kind)
    if parsed.is_array:
        size = parsed.arrlist[-1]
        return [make_blank(parsed.item_type.to_type_str())] * size[0] if size else []
    if isinstance(parsed, TupleType):
        return tuple(make_blank(one.to_type_str()) for one in parsed.components)
    base = str(parsed.base)
    return {"bytes": bytes(parsed.sub or 0), "address": "0x" + 40 * "0"}.get(base, 0)


# Commitments
@PLAYS.add
def no_proof_comes_without_a_commitment() -> World:
    """Each of them is refused for that alone, whatever is in it."""
    world = World("no proof comes without a commitment")
    world.anybody("zoe")
    proofs = [one for one in load_abi("Evidence") if one.name.startswith("prove")]
    assert len(proofs) == 12
    for one in proofs:
        blank = [make_blank(parameter.kind) for parameter in one.inputs]
        world.send_refused("ProofNotCommitted", "zoe", "Evidence", one.name, *blank)
    return world


@PLAYS.add
def a_proof_is_committed_by_who_brings_it() -> World:
    """In an earlier block, and not too early. Who copies the proof, or its digest, has committed nothing."""
    world, (ann, bob) = make_claims("a proof is committed by who brings it", "start", "start")
    zoe, thief = world.anybody("zoe"), world.anybody("thief")
    with world.refuses("ProofNotCommitted"):
        zoe.proves(ann, START)
    digest = zoe.commits_proof(ann, START)
    with world.refuses("ProofNotCommitted", digest):
        zoe.proves(ann, START)
    world.passes()
    with world.refuses("ProofNotCommitted"):
        thief.proves(ann, START)
    thief.send(calls.CommitProof(digest))
    world.passes()
    with world.refuses("ProofNotCommitted"):
        thief.proves(ann, START)
    zoe.proves(ann, START)
    zoe.commits_proof(bob, START)
    world.passes(51)
    with world.refuses("ProofNotCommitted"):
        zoe.proves(bob, START)
    zoe.commits_proof(bob, START)
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
    zoe.commits_proof(ann, START)
    world.passes()
    zoe.commits_proof(bob, START)
    zoe.commits_proof(vote, TWO)
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
        zoe.commits_proof(ann, START, made)
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
    """Another quantum, another length, final weights that are not finite or of another length. Nothing is no
    encoding of what has none."""
    faults = ("delta", "size", "infinite", "empty", "broken")
    world, refs = make_claims("a wrong delta is proven", *faults, "far", "", solver_seats=7)
    zoe, proofs, (ann, *_, far, right) = world.anybody("zoe"), world.proofs, refs
    assert proofs.get_claim(far).deltas[1][0] == 220, "the last scale"
    zoe.fails_to_convict(
        right, DELTA,
        (proofs.delta(right, 1), "delta"),
        (proofs.delta(right, 3), "delta"),
    )  # fmt: skip
    zoe.fails_to_convict(ann, DELTA, (proofs.delta(ann, 0), "delta"))
    zoe.fails_to_convict(far, DELTA, (proofs.delta(far, 1), "delta"))
    for ref in refs[: len(faults)]:
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
        (proofs.delta(right, 1, delta_leaf=spoil_leaf(delta)), "leaf"),
        (proofs.delta(right, 1, global_leaf=spoil_leaf(start)), "leaf"),
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
