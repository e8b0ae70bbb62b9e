"""Segments recomputed: from this node's own claims and votes, which it answers for, and from others' states.

Both kinds of statement say the same sentence, "from this state, k steps, I got that state", so both are
computed alike; only where the start lies differs. What was pruned is trained again from the last boundary
that is left, segment by segment, and each end must be the journalled one before anything is shown.
"""

import asyncio
import logging
from collections.abc import Iterator
from functools import partial
from itertools import islice

from protocol.actions.dispute.knowing import get_now
from protocol.actions.dispute.sources import OwnReplay
from protocol.actions.dispute.standing import find_solver
from protocol.actions.merge.opening import get_finished
from protocol.actions.merge.places import get_shards
from protocol.actions.merge.starting import begin_state, compute_start, find_carried
from protocol.actions.runtime.party import Party
from protocol.actions.runtime.states import fetch_tensors, has_state, keep_state, load_state
from protocol.compute.data import get_batch
from protocol.compute.digest import state_header
from protocol.compute.step import GetBatch, TrainingState
from protocol.spec.codec import compute_state_root
from protocol.spec.containers import StateHeader
from protocol.spec.errors import EnvironmentFault
from protocol.spec.game.inner_dispute import InnerDispute
from protocol.spec.game.state import StatementRef

BITS_REMEDY = "Bring back the versions of torch and of the drivers that the statement was made with."

log = logging.getLogger(__name__)


def get_batches(party: Party, index: int, slot: int) -> GetBatch:
    """The data that the beacon of a round dealt to a slot."""
    game_round = get_now(party).rounds[index]
    assert game_round.beacon is not None
    shard = get_shards(game_round)[slot]
    return partial(get_batch, party.task.corpus, party.task.spec.training, game_round.beacon, shard)


def iterate_states(
    party: Party, place: tuple[int, int], segment: int, start: StateHeader
) -> Iterator[TrainingState]:
    """All k + 1 states of a segment as this node computes them from a start in its store. place: round and
    slot, whose data it is."""
    state, steps = load_state(party, start), party.task.spec.terms.segment_steps
    yield state
    batches, train = get_batches(party, *place), party.task.cases.compute.train
    for step in range(segment * steps, (segment + 1) * steps):
        state, _ = train(state, party.task.spec.training, batches, step, 1)
        yield state


def compute_roots(
    party: Party, place: tuple[int, int], segment: int, start: StateHeader
) -> tuple[bytes, ...]:
    """The k + 1 state roots of a segment, from `iterate_states`."""
    states = iterate_states(party, place, segment, start)
    return tuple(compute_state_root(state_header(state)) for state in states)


def compute_state(
    party: Party, place: tuple[int, int], segment: int, start: StateHeader, step: int
) -> TrainingState:
    """The state before step `step` of a segment."""
    return next(islice(iterate_states(party, place, segment, start), step, None))


# --- Starts -------------------------------------------------------------------------------------------------
async def restore_own_start(party: Party, dispute: InnerDispute) -> StateHeader:
    """The start of a segment of this node's own statement, in the store from then on. Raises EnvironmentFault
    where it can neither be found nor made again."""
    ref = dispute.statement
    if ref.draw is None:
        return await restore_boundary(party, ref.round, dispute.segment)
    replay = find_replay(party, ref)
    solver = find_solver(get_now(party), ref.round, ref.slot)
    known = party.state.network.peers
    peers = [known[account] for account in (solver, dispute.opener) if account in known]
    await fetch_tensors(party, peers, replay.start.header)
    return replay.start.header


def find_replay(party: Party, ref: StatementRef) -> OwnReplay:
    """This node's replay for its vote at a place. Raises EnvironmentFault where there is none."""
    found = next((one for one in party.task.audits.list_replays(ref.round) if one.ref == ref), None)
    if found is None:
        raise EnvironmentFault(
            what="the journal lacks the replay for a vote of this account",
            expected=f"a replay for {ref}",
            actual="none",
            remedy="Start with the home that made it.",
        )
    return found


async def restore_boundary(party: Party, index: int, boundary: int) -> StateHeader:
    """A boundary of this node's own claim, trained again from the last one before it that is left."""
    async with party.task.locks["restore", index]:
        boundaries = get_finished(party, index).boundaries
        kept = [number for number in range(boundary + 1) if has_state(party, boundaries[number])]
        if not kept:
            state = await _begin_own(party, index)
            header = await asyncio.to_thread(keep_state, party, state)
            _require_journalled(party, index, 0, boundaries[0], header)
        if not kept or kept[-1] < boundary:
            await asyncio.to_thread(_train_on, party, index, kept[-1] if kept else 0, boundary)
        return boundaries[boundary]


async def _begin_own(party: Party, index: int) -> TrainingState:
    """Boundary 0 of this node's own claim, from the base root."""
    game = get_now(party)
    carried = find_carried(party, game, index)
    return await begin_state(party, await compute_start(party, index, game.rounds[index].base_root, carried))


def _train_on(party: Party, index: int, first: int, boundary: int) -> None:
    boundaries, steps = get_finished(party, index).boundaries, party.task.spec.terms.segment_steps
    slot, training = get_own_slot(party, index), party.task.spec.training
    batches, train = get_batches(party, index, slot), party.task.cases.compute.train
    state = load_state(party, boundaries[first])
    for segment in range(first, boundary):
        state, _ = train(state, training, batches, segment * steps, steps)
        header = keep_state(party, state) if segment + 1 == boundary else state_header(state)
        _require_journalled(party, index, segment + 1, boundaries[segment + 1], header)


def _require_journalled(
    party: Party, index: int, boundary: int, expected: StateHeader, actual: StateHeader
) -> None:
    """Raises EnvironmentFault as `require_same` does, and tells the operator: a stake may be at risk."""
    if actual != expected:
        place = f"round {index}, boundary {boundary}"
        party.say(f"{place}: trained again, it has other bits than the journal. {BITS_REMEDY}")
        log.error("%s: this machine computes other bits than the journal has. %s", place, BITS_REMEDY)
    require_same(expected, actual)


def get_own_slot(party: Party, index: int) -> int:
    """The slot of this node's own claim of a round."""
    claims = get_now(party).rounds[index].claims
    return next(slot for slot in claims if find_solver(get_now(party), index, slot) == party.account)


def require_same(expected: StateHeader, actual: StateHeader) -> None:
    """Raises EnvironmentFault where this machine comes to another state than the one that it answers for."""
    if actual != expected:
        raise EnvironmentFault(
            what="this machine computes other bits than when it made the statement that is disputed",
            expected=compute_state_root(expected).hex(),
            actual=compute_state_root(actual).hex(),
            remedy=BITS_REMEDY,
        )
