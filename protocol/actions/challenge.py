"""Accusing somebody: look at the whole end state, and open a dispute when it lies beyond the reject limits.

The salt of the sealed opening is in the journal before the seal is sent, so that a node that was killed
between the two calls can still open.
"""

import asyncio
import secrets

from protocol.actions import replay
from protocol.actions.attention import publish_audit, publish_unserved
from protocol.actions.claim import Train
from protocol.actions.global_model import get_start
from protocol.actions.own_noise import get_conditioning
from protocol.actions.party import Party
from protocol.actions.replay import NotServed, compare_ends, get_server
from protocol.actions.tensors import load_tensor
from protocol.adapters.blobs import refer_delta, refer_tensor
from protocol.adapters.chain import ContractRefused
from protocol.adapters.records import AccusationMade
from protocol.compute.compare import Verdict
from protocol.compute.facts import compute_step_facts
from protocol.compute.openings import prove_node
from protocol.compute.outer import encode_delta
from protocol.compute.program import build_program, describe_program
from protocol.spec.dispute_moves import DemandLeaf, compute_opening_seal
from protocol.spec.drawn import get_drawn
from protocol.spec.params import DELTA_LEAF_BYTES
from protocol.spec.round import get_opening
from protocol.spec.statuses import AuditRef, ClaimRef
from protocol.spec.tolerance import Judgement


async def examine_end(party: Party, audit: AuditRef, segment: int, train: Train) -> None:
    """Judge the solver's opened end state against the own replay, all elements; accuse it when it is
    beyond the reject limits. What was found is published."""
    try:
        comparison = await compare_ends(party, audit, segment, train)
    except NotServed:
        publish_unserved(party, audit, segment)
        raise
    start = get_opening(party.round(audit.round), audit.slot, audit.draw).start
    assert start is not None
    judge_end(party, audit, segment, comparison.verdict)
    await publish_audit(party, audit, segment, start, comparison)


def judge_end(party: Party, audit: AuditRef, segment: int, verdict: Verdict) -> None:
    """Say what a replay found of a segment; accuse its solver where it is beyond the reject limits."""
    name = f"round {audit.round} slot {audit.slot} segment {segment}"
    if verdict.judgement != Judgement.REJECT:
        party.say(f"{name}: the end state differs, {verdict.judgement.name.lower()}")
        return
    party.say(f"{name}: the claim is {verdict.excess:.3g} times beyond the reject limit: accused")
    accuse(party, name_solver_claim(audit, segment))


async def compare_leaves(party: Party, audit: AuditRef, indices: tuple[int, ...], train: Train) -> None:
    """Have the contract judge the drawn leaves; accuse the claim whose leaves alone are beyond the reject
    limits, which is all that can be seen of a state that is not served."""
    worst = await replay.compare_leaves(party, audit, indices, train)
    drawn = get_drawn(party.round(audit.round), audit.slot, audit.draw)
    if worst == Judgement.REJECT and drawn is not None:
        accuse(party, name_solver_claim(audit, drawn.segment))


async def answer_slander(party: Party, claim: ClaimRef, train: Train) -> None:
    """Accuse an audit that puts this node's own claim beyond the reject limits, unless the segment is found
    ill-conditioned in time: then the auditor may be as honest as this node."""
    audit, at = claim.audit, claim.segment
    ends = (party.memory.boundaries[audit.round, at], party.memory.boundaries[audit.round, at + 1])
    until_block = party.view.head_block + party.spec.terms.windows.dispute // 2
    found = await get_conditioning(party, audit, at, ends, train, until_block)
    if found is not None and found.is_ill:
        party.say(
            f"round {audit.round} segment {at}: ill-conditioned, an audit that rejects it may be honest"
        )
    else:
        accuse(party, claim)


def name_solver_claim(audit: AuditRef, segment: int) -> ClaimRef:
    """The solver's own claim on a segment. Its name has no auditor in it (draw and rank 0), whoever found
    it."""
    return ClaimRef(AuditRef(audit.task, audit.round, audit.slot, 0, 0), segment, by_solver=True)


def accuse(party: Party, claim: ClaimRef) -> None:
    """Write down that this claim is to be disputed; `seal_accusation` and `open_accusation` follow."""
    audit = claim.audit
    if all(to_claim(made) != claim for made in party.memory.accusations):
        names = (party.task, audit.round, audit.slot, audit.draw, audit.rank, claim.segment, claim.by_solver)
        party.memory.write(AccusationMade(*names, salt=secrets.token_bytes(32)))


def to_claim(made: AccusationMade) -> ClaimRef:
    """The claim that a record accuses."""
    audit = AuditRef(made.task, made.round, made.slot, made.draw, made.rank)
    return ClaimRef(audit, made.segment, made.by_solver)


async def open_accusation(party: Party, made: AccusationMade) -> None:
    """Seal the opening, wait for a block, open."""
    claim = to_claim(made)
    seal = compute_opening_seal(claim, party.account, made.salt)
    try:
        await party.chain.dispute_game.open_dispute(claim, made.salt)
    except ContractRefused as refusal:
        if refusal.name != "NotSealed":
            raise
        receipt = await party.chain.dispute_game.seal_opening(seal)
        await party.chain.wait_for_block(receipt.block_number + 1)
        await party.chain.dispute_game.open_dispute(claim, made.salt)


async def demand_leaf(party: Party, move: DemandLeaf) -> None:
    """Demand a leaf of the claimant's trace."""
    facts = await asyncio.to_thread(compute_step_facts, party.spec)
    node = prove_node(build_program(describe_program(party.spec.training)).program, move.node)
    await party.chain.dispute_game.demand_leaf(move.dispute, facts, node, move.place, move.leaf_index)


async def examine_pseudo_gradient(party: Party, index: int, slot: int, draw: int) -> None:
    """Recompute the pseudo-gradient from the opened last state; a leaf that differs convicts the solver
    on chain."""
    last = get_opening(party.round(index), slot, draw).last
    claim, count = party.round(index).claims[slot], party.spec.terms.parameter_count
    assert last is not None
    server = get_server(party, AuditRef(party.task, index, slot, draw, 0))
    weights_ref, delta_ref = refer_tensor(last.weights_root, count), refer_delta(claim.delta_root, count)
    for ref in (weights_ref, delta_ref):
        await party.client.fetch_from_any(server, ref)
    begin = await party.model.load_start(index)
    weights, delta = load_tensor(party.store, weights_ref), party.store.get(delta_ref)
    expected = encode_delta(begin.weights, weights)
    if expected == delta:
        return
    leaf = next(i for i in range(len(delta)) if expected[i] != delta[i]) // DELTA_LEAF_BYTES
    start_ref = refer_tensor(get_start(party.round(index)).weights_root, count)
    refs = (start_ref, weights_ref, delta_ref)
    opened = [proof for ref in refs for proof in party.store.open_leaves(ref, [leaf])]
    party.say(f"round {index} slot {slot}: leaf {leaf} of the pseudo-gradient is wrong: proving it")
    await party.chain.outer_contest.prove_pseudo_gradient(party.task, index, slot, draw, leaf, *opened)
