"""What a claim of a round has to start from: the base root's weights, and moments of zero or carried on."""

import asyncio
from dataclasses import dataclass

from protocol.actions.merge.bases import load_base
from protocol.actions.merge.global_model import load_weights
from protocol.actions.merge.places import find_carried_round
from protocol.actions.runtime.party import Party
from protocol.actions.runtime.states import has_state, load_state
from protocol.compute.step import TrainingState, begin_round
from protocol.spec.codec import compute_state_root
from protocol.spec.containers import OuterHeader, StateHeader
from protocol.spec.errors import EnvironmentFault
from protocol.spec.game.pools import find_seat
from protocol.spec.game.state import GameState


@dataclass(frozen=True)
class ClaimStart:
    """outer: what stands behind the base root; header: boundary 0; carried: the state whose moments go on."""

    outer: OuterHeader
    header: StateHeader
    carried: StateHeader | None = None


async def compute_start(
    party: Party, index: int, base_root: bytes, carried: StateHeader | None
) -> ClaimStart:
    """Where this node's claim of round `index` starts. carried: the state whose moments go on."""
    outer = await load_base(party, base_root)
    return ClaimStart(outer, make_start_header(party, index, outer.weights_root, carried), carried)


def make_start_header(
    party: Party, index: int, weights_root: bytes, carried: StateHeader | None
) -> StateHeader:
    """Boundary 0 of this node's claim of round `index`."""
    terms = party.task.spec.terms
    step = index * terms.inner_steps
    if carried is None:
        return StateHeader(weights_root, terms.zero_root, terms.zero_root, 0, step)
    moments = (carried.first_moment_root, carried.second_moment_root, carried.local_step)
    return StateHeader(weights_root, *moments, step)


def find_carried(party: Party, state: GameState, index: int) -> StateHeader | None:
    """The last state of this node's last merged claim before round `index`, where moments carry over."""
    seat = find_seat(state, party.account)
    if not party.task.spec.terms.carry_moments or seat is None:
        return None
    earlier = find_carried_round(state, index, seat)
    if earlier is None:
        return None
    boundaries = party.task.claims.find(state.rounds[earlier]).boundaries
    return boundaries[max(boundaries)]


async def begin_state(party: Party, start: ClaimStart) -> TrainingState:
    """The state at boundary 0. Raises EnvironmentFault while the carried moments are not on disk."""
    if start.carried is not None and not has_state(party, start.carried):
        raise EnvironmentFault(
            what="the moments that a claim goes on from were pruned",
            expected=f"the end of an older claim, {compute_state_root(start.carried).hex()}",
            actual="not on disk: the root of a round after it fell",
            remedy="Wait: the node trains that claim again from its start.",
        )
    weights = await load_weights(party, start.outer)
    if start.carried is None:
        return begin_round(weights, start.header.global_step)
    carried = await asyncio.to_thread(load_state, party, start.carried)
    return begin_round(weights, start.header.global_step, carried)
