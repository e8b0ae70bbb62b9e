"""Answering a dispute on this node's own claim: recompute the segment and open what is asked.

Both kinds of claim say the same sentence, so both are defended alike; only where the start state lies
differs.
"""

import asyncio
from collections.abc import Iterator

from protocol.actions.claim import get_dealt_batches, open_boundary
from protocol.actions.party import Party
from protocol.actions.states import load_state, open_leaf
from protocol.adapters.chain.types import BoundaryProof
from protocol.compute.digest import StateTrees, build_state_trees
from protocol.compute.step import iterate_steps
from protocol.spec.codec import compute_state_root
from protocol.spec.containers import StateHeader
from protocol.spec.drawn import get_drawn
from protocol.spec.errors import InvalidInput
from protocol.spec.round import RoundState, get_opening, get_slot
from protocol.spec.statuses import ClaimRef


async def post_step_roots(party: Party, dispute: bytes, claim: ClaimRef) -> None:
    """Recompute the segment and post the root of each step's state, start and end included."""
    roots = await asyncio.to_thread(compute_step_roots, party, claim)
    await party.chain.dispute_game.post_step_roots(dispute, roots, _open_ends(party, claim))


def compute_step_roots(party: Party, claim: ClaimRef) -> tuple[bytes, ...]:
    """The k+1 state roots of the claimed segment as this node computes them."""
    return tuple(compute_state_root(trees.header) for trees in iterate_trees(party, claim))


async def answer_demand(
    party: Party, dispute: bytes, claim: ClaimRef, demand: int, state_index: int, tensor: int, leaf_index: int
) -> None:
    """Recompute up to a step state and open one leaf of it. tensor: 0 W, 1 m, 2 v."""
    trees = await asyncio.to_thread(_find_trees, party, claim, state_index)
    tree = (trees.weights, trees.first_moment, trees.second_moment)[tensor]
    await party.chain.dispute_game.answer_demand(dispute, demand, trees.header, open_leaf(tree, leaf_index))


def iterate_trees(party: Party, claim: ClaimRef) -> Iterator[StateTrees]:
    """The trees of all k+1 states of the claimed segment, recomputed from its start."""
    state = load_state(party, get_claimed_start(party, claim))
    yield build_state_trees(state)
    steps, training = party.spec.terms.segment_steps, party.spec.training
    batches = get_dealt_batches(party, claim.audit.round, claim.audit.slot)
    for stepped, _ in iterate_steps(state, training, batches, claim.segment * steps, steps):
        yield build_state_trees(stepped)


def get_claimed_start(party: Party, claim: ClaimRef) -> StateHeader:
    """The state that a claim starts from: opened on chain, or a boundary of this node's own claim."""
    state, slot = party.round(claim.audit.round), claim.audit.slot
    if not claim.by_solver:
        start = get_opening(state, slot, claim.audit.draw).start
        assert start is not None
        return start
    if slot == get_slot(state, party.account):
        return party.memory.boundaries[(claim.audit.round, claim.segment)]
    found = find_opened_start(state, slot, claim.segment)
    if found is None:
        raise InvalidInput(
            what="the start of the disputed segment was never opened",
            expected=f"segment {claim.segment} drawn and opened",
            actual="no opening",
            where=f"round {claim.audit.round} slot {slot}",
            remedy="Dispute a segment that was drawn.",
        )
    return found


def find_opened_start(state: RoundState, slot: int, segment: int) -> StateHeader | None:
    """The opened start of a segment of a slot, whichever draw it was drawn in."""
    for draw in range(state.terms.segment_draws + 1):
        drawn = get_drawn(state, slot, draw)
        if drawn is not None and drawn.segment == segment:
            return get_opening(state, slot, draw).start
    return None


def find_start_steps(state: RoundState, slot: int, segment: int) -> tuple[int, int] | None:
    """Local and global step that a segment of a slot starts from, None where its start was never opened."""
    start = find_opened_start(state, slot, segment)
    return (start.local_step, start.global_step) if start else None


def _find_trees(party: Party, claim: ClaimRef, state_index: int) -> StateTrees:
    return next(trees for index, trees in enumerate(iterate_trees(party, claim)) if index == state_index)


def _open_ends(party: Party, claim: ClaimRef) -> list[BoundaryProof]:
    if not claim.by_solver:
        return []
    return [
        open_boundary(party, claim.audit.round, boundary) for boundary in (claim.segment, claim.segment + 1)
    ]
