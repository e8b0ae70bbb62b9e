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

from touchstone.node.kit.party import Party
from touchstone.node.kit.recompute_queue import AUDITS, Turn, Until
from touchstone.node.kit.states import fetch_tensors, has_state, keep_state, load_state
from touchstone.node.kit.view import View
from touchstone.node.models.own_openings import get_finished, list_own_boundaries
from touchstone.node.records.heard_statements import OwnReplay
from touchstone.node.records.round_seats import find_carried_round, get_shards
from touchstone.node.training.claims import begin_state, compute_start, find_carried
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof
from touchstone.protocol.compute.batches import get_batch
from touchstone.protocol.compute.digest import state_header
from touchstone.protocol.compute.program.training_state import GetBatch, TrainingState
from touchstone.protocol.spec.commitments import compute_state_root
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.dispute_moves import list_disputed_segments
from touchstone.protocol.spec.game.inner_dispute import InnerDispute
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.whistleblower.known_statements import find_solver, get_inner, get_now

BITS_REMEDY = "Bring back the versions of torch and of the drivers that the statement was made with."

log = logging.getLogger(__name__)


def get_batches(party: Party, index: int, slot: int) -> GetBatch:
    """The data that the beacon of a round dealt to a slot."""
    game_round = get_now(party.view).rounds[index]
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


async def restore_own_start(party: Party, dispute: InnerDispute) -> StateHeader:
    """The start of a segment of this node's own statement, in the store from then on. Raises EnvironmentFault
    where it can neither be found nor made again."""
    ref = dispute.statement
    if ref.draw is None:
        return await restore_boundary(party, ref.round, dispute.segment, dispute.clock)
    replay = find_replay(party.view, ref)
    solver = find_solver(get_now(party.view), ref.round, ref.slot)
    known = party.state.network.peers
    peers = [known[account] for account in (solver, dispute.opener) if account in known]
    await fetch_tensors(party, peers, replay.start.header)
    return replay.start.header


def find_own_boundary(view: View, dispute: InnerDispute) -> StateHeader | None:
    """The start of a disputed segment, where the claim that the statement is about is this node's own; None
    where it is not, or where this home did not make it."""
    ref = dispute.statement
    if find_solver(get_now(view), ref.round, ref.slot) != view.account:
        return None
    return list_own_boundaries(view, ref.round).get(dispute.segment)


def find_replay(view: View, ref: StatementRef) -> OwnReplay:
    """This node's replay for its vote at a place. Raises EnvironmentFault where there is none."""
    found = next((one for one in view.audits.list_replays(ref.round) if one.ref == ref), None)
    if found is None:
        raise EnvironmentFault(
            what="the journal lacks the replay for a vote of this account",
            expected=f"a replay for {ref}",
            actual="none",
            remedy="Start with the home that made it.",
        )
    return found


def require_claimed_end(replay: OwnReplay) -> BoundaryProof:
    """The end of the claim that a replay was compared with. Raises EnvironmentFault where this home does not
    know it."""
    if replay.claimed_end is None:
        raise EnvironmentFault(
            what="the end of the claim that this node voted on is not known",
            expected=f"the opening of boundary {replay.segment + 1}",
            actual="none",
            remedy="Start with the home that made the vote.",
        )
    return replay.claimed_end


async def restore_boundary(party: Party, index: int, boundary: int, until: Until = AUDITS) -> StateHeader:
    """A boundary of this node's own claim, trained again from the last one before it that is left. until: the
    last block for the answer that needs it."""
    boundaries = get_finished(party.view, index).boundaries
    if _find_last_kept(party, index, boundary) is None:
        header = await asyncio.to_thread(keep_state, party, await _begin_own(party, index))
        _require_journalled(party, index, 0, boundaries[0], header)
    if not has_state(party, boundaries[boundary]):
        async with party.task.retraining.take_turn(until) as turn:
            await _train_on(party, turn, index, boundary)
    return boundaries[boundary]


def _find_last_kept(party: Party, index: int, boundary: int) -> int | None:
    boundaries = get_finished(party.view, index).boundaries
    return next((n for n in range(boundary, -1, -1) if has_state(party, boundaries[n])), None)


async def _begin_own(party: Party, index: int) -> TrainingState:
    """Boundary 0 of this node's own claim, from the base root."""
    game = get_now(party.view)
    carried = find_carried(party.view, game, index)
    seat = find_seat(game, party.account)
    if carried is not None and seat is not None and not has_state(party, carried):
        earlier = find_carried_round(game, index, seat)
        assert earlier is not None
        await restore_boundary(party, earlier, max(get_finished(party.view, earlier).boundaries))
    return await begin_state(party, await compute_start(party, index, game.rounds[index].base_root, carried))


async def _train_on(party: Party, turn: Turn, index: int, boundary: int) -> None:
    """On the way what another open dispute wants is kept too, so that nothing is trained twice for it."""
    boundaries, retraining = get_finished(party.view, index).boundaries, party.task.retraining
    first = _find_last_kept(party, index, boundary) or 0
    if first == boundary:
        return
    state = await retraining.run(load_state, party, boundaries[first])
    for segment in range(first, boundary):
        await retraining.give_way(turn)
        is_kept = segment + 1 in {boundary, *list_disputed(party.view, index)}
        state = await retraining.run(_train_segment, party, index, segment, state, is_kept)


def _train_segment(
    party: Party, index: int, segment: int, state: TrainingState, is_kept: bool
) -> TrainingState:
    steps, training = party.task.spec.terms.segment_steps, party.task.spec.training
    batches = get_batches(party, index, get_own_slot(party.view, index))
    state, _ = party.task.cases.compute.train(state, training, batches, segment * steps, steps)
    header = keep_state(party, state) if is_kept else state_header(state)
    expected = get_finished(party.view, index).boundaries[segment + 1]
    _require_journalled(party, index, segment + 1, expected, header)
    return state


def list_disputed(view: View, index: int) -> set[int]:
    """Segments of this node's own claim of a round whose start it needs in an open dispute."""
    claim = StatementRef(index, get_own_slot(view, index))
    return list_disputed_segments(get_inner(view), claim, view.account)


def _require_journalled(
    party: Party, index: int, boundary: int, expected: StateHeader, actual: StateHeader
) -> None:
    """Raises EnvironmentFault as `require_same` does, and tells the operator: a stake may be at risk."""
    if actual != expected:
        place = f"round {index}, boundary {boundary}"
        party.say(f"{place}: trained again, it has other bits than the journal. {BITS_REMEDY}")
        log.error("%s: this machine computes other bits than the journal has. %s", place, BITS_REMEDY)
    require_same(expected, actual)


def get_own_slot(view: View, index: int) -> int:
    """The slot of this node's own claim of a round."""
    claims = get_now(view).rounds[index].claims
    return next(slot for slot in claims if find_solver(get_now(view), index, slot) == view.account)


def require_same(expected: StateHeader, actual: StateHeader) -> None:
    """Raises EnvironmentFault where this machine comes to another state than the one that it answers for."""
    if actual != expected:
        raise EnvironmentFault(
            what="this machine computes other bits than when it made the statement that is disputed",
            expected=compute_state_root(expected).hex(),
            actual=compute_state_root(actual).hex(),
            remedy=BITS_REMEDY,
        )
