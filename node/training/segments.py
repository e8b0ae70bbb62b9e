"""Recomputes segments: of this node's own claims and votes, which it must defend, and from others' states.

A claim and a vote both say "from this state, k steps led to that state". So both are computed alike; only the
place of the start differs. Pruned boundaries are trained again, segment by segment, from the last one that is
left. Each end must equal the one in the journal before anything is shown.
"""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

from touchstone.node.kit.config import Notify
from touchstone.node.kit.known_statements import find_solver, get_inner, get_now
from touchstone.node.kit.recompute_queue import AUDITS, RecomputeQueue, Turn, Until
from touchstone.node.kit.states import StateStore
from touchstone.node.kit.view import GetView, View
from touchstone.node.models.own_openings import get_finished, list_own_boundaries
from touchstone.node.records.dispute_records import DisputeRecords
from touchstone.node.records.heard_statements import OwnReplay
from touchstone.node.records.round_seats import find_carried_round, get_shards
from touchstone.node.training.claims import Training, find_carried
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.compute.batches import Corpus, get_batch
from touchstone.protocol.compute.digest import state_header
from touchstone.protocol.compute.program.training_state import GetBatch, TrainingState
from touchstone.protocol.spec.commitments import compute_state_root
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.dispute_moves import list_disputed_segments
from touchstone.protocol.spec.game.inner_dispute import InnerDispute
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.state_headers import StateHeader

BITS_REMEDY = "Bring back the versions of torch and of the drivers that the statement was made with."

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Segments:
    """Replays segments of claims and restores their boundaries, from the states that are kept."""

    get_view: GetView
    client: BlobClient
    states: StateStore
    cases: DisputeRecords
    recompute_queue: RecomputeQueue
    corpus: Corpus
    notify: Notify
    training: Training

    def get_batches(self, index: int, slot: int) -> GetBatch:
        """Returns the data that the beacon of a round assigns to a slot."""
        view = self.get_view()
        game_round = get_now(view).rounds[index]
        assert game_round.beacon is not None
        shard = get_shards(game_round)[slot]
        return partial(get_batch, self.corpus, view.spec.training, game_round.beacon, shard)

    def iterate_states(
        self, place: tuple[int, int], segment: int, start: StateHeader
    ) -> Iterator[TrainingState]:
        """Yields all k + 1 states of a segment as this node computes them from a start in its store. `place`
        is round and slot, which choose the data."""
        view = self.get_view()
        state, steps = self.states.load(start), view.spec.terms.segment_steps
        yield state
        batches, train = self.get_batches(*place), self.cases.compute.train
        for step in range(segment * steps, (segment + 1) * steps):
            state, _ = train(state, view.spec.training, batches, step, 1)
            yield state

    def compute_roots(self, place: tuple[int, int], segment: int, start: StateHeader) -> tuple[bytes, ...]:
        """Returns the k + 1 state roots of a segment, from `iterate_states`."""
        states = self.iterate_states(place, segment, start)
        return tuple(compute_state_root(state_header(state)) for state in states)

    def compute_state(
        self, place: tuple[int, int], segment: int, start: StateHeader, step: int
    ) -> TrainingState:
        """Returns the state before step `step` of a segment."""
        return next(islice(self.iterate_states(place, segment, start), step, None))

    async def restore_own_start(self, dispute: InnerDispute) -> StateHeader:
        """Returns the start of a segment of this node's own statement, and puts it into the store. Raises
        EnvironmentFault if it can neither be found nor made again."""
        ref = dispute.statement
        if ref.draw is None:
            return await self.restore_boundary(ref.round, dispute.segment, dispute.clock)
        replay = find_replay(self.get_view(), ref)
        solver = find_solver(get_now(self.get_view()), ref.round, ref.slot)
        known = self.get_view().chain_state.network.peers
        peers = [known[account] for account in (solver, dispute.opener) if account in known]
        await self.states.fetch(self.client, peers, replay.start.header)
        return replay.start.header

    async def restore_boundary(self, index: int, boundary: int, until: Until = AUDITS) -> StateHeader:
        """Returns a boundary of this node's own claim, trained again from the last earlier one that is left.
        `until` is the last block for the answer that needs it."""
        boundaries = get_finished(self.get_view(), index).boundaries
        if _find_last_kept(self.get_view(), index, boundary) is None:
            header = await asyncio.to_thread(self.states.keep, await self._begin_own(index))
            self._require_journalled(index, 0, boundaries[0], header)
        if not self.states.has(boundaries[boundary]):
            async with self.recompute_queue.take_turn(until) as turn:
                await self._train_on(turn, index, boundary)
        return boundaries[boundary]

    async def _begin_own(self, index: int) -> TrainingState:
        """Returns boundary 0 of this node's own claim, from the base root."""
        view = self.get_view()
        game = get_now(view)
        carried = find_carried(view, game, index)
        seat = find_seat(game, view.account)
        if carried is not None and seat is not None and not self.states.has(carried):
            earlier = find_carried_round(game, index, seat)
            assert earlier is not None
            await self.restore_boundary(earlier, max(get_finished(self.get_view(), earlier).boundaries))
        return await self.training.begin_state(
            await self.training.compute_start(index, game.rounds[index].base_root, carried)
        )

    async def _train_on(self, turn: Turn, index: int, boundary: int) -> None:
        """Trains from boundary to boundary. On the way it keeps those that another open dispute needs, so
        that nothing is trained twice."""
        boundaries, recompute_queue = get_finished(self.get_view(), index).boundaries, self.recompute_queue
        first = _find_last_kept(self.get_view(), index, boundary) or 0
        if first == boundary:
            return
        state = await recompute_queue.run(self.states.load, boundaries[first])
        for segment in range(first, boundary):
            await recompute_queue.give_way(turn)
            is_kept = segment + 1 in {boundary, *list_disputed(self.get_view(), index)}
            state = await recompute_queue.run(self._train_segment, index, segment, state, is_kept)

    def _train_segment(self, index: int, segment: int, state: TrainingState, is_kept: bool) -> TrainingState:
        view = self.get_view()
        steps, training = view.spec.terms.segment_steps, view.spec.training
        batches = self.get_batches(index, get_own_slot(view, index))
        state, _ = self.cases.compute.train(state, training, batches, segment * steps, steps)
        header = self.states.keep(state) if is_kept else state_header(state)
        expected = get_finished(view, index).boundaries[segment + 1]
        self._require_journalled(index, segment + 1, expected, header)
        return state

    def _require_journalled(
        self, index: int, boundary: int, expected: StateHeader, actual: StateHeader
    ) -> None:
        """Raises EnvironmentFault as `require_same` does, and warns the operator, because a stake may be at
        risk."""
        if actual != expected:
            place = f"round {index}, boundary {boundary}"
            self.notify(f"{place}: trained again, it has other bits than the journal. {BITS_REMEDY}")
            log.error("%s: this machine computes other bits than the journal has. %s", place, BITS_REMEDY)
        require_same(expected, actual)


def find_own_boundary(view: View, dispute: InnerDispute) -> StateHeader | None:
    """Returns the start of a disputed segment, if the statement is about this node's own claim. None if it is
    not, or another home made the claim."""
    ref = dispute.statement
    if find_solver(get_now(view), ref.round, ref.slot) != view.account:
        return None
    return list_own_boundaries(view, ref.round).get(dispute.segment)


def find_replay(view: View, ref: StatementRef) -> OwnReplay:
    """Returns this node's replay for its vote at a place. Raises EnvironmentFault if there is none."""
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
    """Returns the claim's end that a replay was compared with. Raises EnvironmentFault if this home does not
    know it."""
    if replay.claimed_end is None:
        raise EnvironmentFault(
            what="the end of the claim that this node voted on is not known",
            expected=f"the opening of boundary {replay.segment + 1}",
            actual="none",
            remedy="Start with the home that made the vote.",
        )
    return replay.claimed_end


def _find_last_kept(view: View, index: int, boundary: int) -> int | None:
    boundaries = get_finished(view, index).boundaries
    return next((n for n in range(boundary, -1, -1) if view.stored.has(boundaries[n])), None)


def list_disputed(view: View, index: int) -> set[int]:
    """Returns the segments of this node's own claim of a round whose start an open dispute needs."""
    claim = StatementRef(index, get_own_slot(view, index))
    return list_disputed_segments(get_inner(view), claim, view.account)


def get_own_slot(view: View, index: int) -> int:
    """Returns the slot of this node's own claim of a round."""
    claims = get_now(view).rounds[index].claims
    return next(slot for slot in claims if find_solver(get_now(view), index, slot) == view.account)


def require_same(expected: StateHeader, actual: StateHeader) -> None:
    """Raises EnvironmentFault if this machine computes another state than the one that it must defend."""
    if actual != expected:
        raise EnvironmentFault(
            what="this machine computes other bits than when it made the statement that is disputed",
            expected=compute_state_root(expected).hex(),
            actual=compute_state_root(actual).hex(),
            remedy=BITS_REMEDY,
        )
