"""Answering a dispute on this node's own claim: recompute the segment, trace the named step, open what is
asked.

Both kinds of claim say the same sentence, so both are defended alike; only where the start state lies
differs.
"""

import asyncio
from collections.abc import Iterator
from itertools import islice

from protocol.actions.boundaries import read_boundary
from protocol.actions.claim import get_dealt_batches, open_boundary
from protocol.actions.dispute.casebook import Compute as Compute
from protocol.actions.party import Party, TracedStep
from protocol.actions.states import keep_state, load_state
from protocol.actions.traces import TraceKeeper, describe_layout, drop_traces
from protocol.adapters.chain.types import BoundaryProof
from protocol.compute.digest import state_header
from protocol.compute.facts import compute_step_facts
from protocol.compute.openings import open_demanded, prove_outputs
from protocol.compute.program import build_program, describe_program
from protocol.compute.step import TrainingState
from protocol.spec.codec import compute_state_root
from protocol.spec.containers import StateHeader
from protocol.spec.dispute import DisputeState
from protocol.spec.dispute_moves import AnswerDemand
from protocol.spec.program import get_constant_roots
from protocol.spec.round import get_opening, get_slot
from protocol.spec.statuses import ClaimRef

HONEST = Compute()


async def post_step_roots(party: Party, dispute: bytes, claim: ClaimRef, compute: Compute = HONEST) -> None:
    """Recompute the segment and post the root of each step's state, start and end included."""
    roots = await asyncio.to_thread(compute_step_roots, party, claim, compute)
    await party.chain.dispute_game.post_step_roots(dispute, roots, _open_ends(party, claim))


def compute_step_roots(party: Party, claim: ClaimRef, compute: Compute = HONEST) -> tuple[bytes, ...]:
    """The k+1 state roots of the claimed segment as this node computes them."""
    states = iterate_states(party, claim, compute)
    return tuple(compute_state_root(state_header(state)) for state in states)


async def post_trace(party: Party, dispute: DisputeState, compute: Compute = HONEST) -> None:
    """Run the named step again, keep all of it to be served, and post the root of its trace."""
    tree, start, end = await trace_named_step(party, dispute, compute)
    facts, proof = await asyncio.to_thread(compute_step_facts, party.spec), prove_outputs(tree)
    game = party.chain.dispute_game
    await game.post_trace(dispute.dispute, facts, tree.root, start, end, proof)


async def answer_demand(
    party: Party, dispute: DisputeState, move: AnswerDemand, compute: Compute = HONEST
) -> None:
    """Open the demanded leaf of the trace of the named step."""
    tree, start, _ = await trace_named_step(party, dispute, compute)
    opening = await asyncio.to_thread(open_demanded, tree, move.node, move.place, move.leaf_index)
    await party.chain.dispute_game.answer_demand(dispute.dispute, move.demand, start, opening)


async def trace_named_step(party: Party, dispute: DisputeState, compute: Compute = HONEST) -> TracedStep:
    """The trace of the named step as this node computes it, once for each dispute."""
    traces, name = party.joined.traces, dispute.dispute
    async with party.joined.locks["trace", name]:
        if name not in traces:
            assert dispute.step is not None
            await asyncio.to_thread(drop_traces, party.store, list_needed_traces(party))
            traced = await asyncio.to_thread(trace_step, party, dispute.claim, dispute.step, compute)
            # A claimant has one dispute at its turn.
            traces.clear()
            traces[name] = traced
        return traces[name]


def list_needed_traces(party: Party) -> set[bytes]:
    """Roots of this node's traces that a proof may still be about, and of the claims that are shown: what is
    not settled."""
    rounds = party.view.tasks[party.task].rounds
    claims = {
        claim.claim_root
        for state in rounds
        for slot, claim in state.claims.items()
        if slot not in state.settled_slots
    }
    return claims | {
        dispute.trace.root
        for dispute in party.view.disputes[party.task].disputes.values()
        if dispute.trace is not None
        and dispute.claimant == party.account
        and dispute.claim.audit.slot not in party.round(dispute.claim.audit.round).settled_slots
    }


def trace_step(party: Party, claim: ClaimRef, step: int, compute: Compute = HONEST) -> TracedStep:
    """The trace of step `step` of the claimed segment and the states around it; all of it lies in the store
    then."""
    start = next(islice(iterate_states(party, claim, compute), step, None))
    spec, first = party.spec.training, claim.segment * party.spec.terms.segment_steps
    batches = get_dealt_batches(party, claim.audit.round, claim.audit.slot)
    program = build_program(describe_program(spec)).program
    keeper = TraceKeeper(party.store, describe_layout(program), get_constant_roots(program))
    tree, end = compute.retrace(start, spec, batches, first + step, keeper.keep)
    keeper.finish()
    return TracedStep(tree, keep_state(party, start), keep_state(party, end))


def iterate_states(party: Party, claim: ClaimRef, compute: Compute = HONEST) -> Iterator[TrainingState]:
    """All k+1 states of the claimed segment, recomputed from its start."""
    state = load_state(party, get_claimed_start(party, claim))
    yield state
    steps, training = party.spec.terms.segment_steps, party.spec.training
    batches = get_dealt_batches(party, claim.audit.round, claim.audit.slot)
    for step in range(claim.segment * steps, (claim.segment + 1) * steps):
        state, _ = compute.train(state, training, batches, step, 1)
        yield state


def get_claimed_start(party: Party, claim: ClaimRef) -> StateHeader:
    """The state that a claim starts from: opened on chain, a boundary of this node's own claim, or one that
    its solver showed."""
    state, slot = party.round(claim.audit.round), claim.audit.slot
    if not claim.by_solver:
        start = get_opening(state, slot, claim.audit.draw).start
        assert start is not None
        return start
    if slot == get_slot(state, party.account):
        return party.memory.boundaries[(claim.audit.round, claim.segment)]
    return read_boundary(party, claim.audit.round, slot, claim.segment)


def _open_ends(party: Party, claim: ClaimRef) -> list[BoundaryProof]:
    if not claim.by_solver:
        return []
    return [
        open_boundary(party, claim.audit.round, boundary) for boundary in (claim.segment, claim.segment + 1)
    ]
