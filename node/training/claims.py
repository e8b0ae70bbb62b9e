"""Makes a solver's claim: finds its start, trains it segment by segment, and commits to it.

A claim starts from the base root's weights, and from moments that are zero or carried over. One loop trains
the present round and an expected one: segment by segment, keeping every boundary, then the claim's root. When
a claim of the present round is trained, it is committed to.

The journal has the salts before training, each boundary as it is reached, and the claim before it is sent. A
node that was killed goes on at its last boundary, and can only repeat what it said before. Work on another
base root or beacon stays in the journal and does not count.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, takewhile

from touchstone.node.kit.config import Meter, Notify
from touchstone.node.kit.duty import Duty
from touchstone.node.kit.locks import Locks
from touchstone.node.kit.loss_board import LossBoard
from touchstone.node.kit.recompute_queue import RecomputeQueue
from touchstone.node.kit.retention_windows import PruningMemory
from touchstone.node.kit.states import StateStore
from touchstone.node.kit.stored_tensors import keep_tree
from touchstone.node.kit.view import GetView, View
from touchstone.node.models.global_model import GlobalModel
from touchstone.node.models.outer_step import OuterSteps
from touchstone.node.models.own_openings import compute_leaves
from touchstone.node.records.claim_records import (
    ClaimBook,
    ClaimBoundaryReached,
    ClaimFinished,
    ClaimSaltsDrawn,
    ClaimWork,
    SegmentTrained,
    compute_basis,
)
from touchstone.node.records.round_seats import find_carried_round, find_own_slot, get_shards
from touchstone.node.training.idle_mode import IdleMode
from touchstone.node.training.worker_team import Team
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobKind, refer_delta
from touchstone.protocol.compute.batches import Corpus, get_batch, prepare_steps
from touchstone.protocol.compute.digest import build_delta_tree
from touchstone.protocol.compute.outer.pseudo_gradients import encode_delta
from touchstone.protocol.compute.program.devices import copy_to_host
from touchstone.protocol.compute.program.step import begin_round, train_segment
from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.spec.claim_tree import compute_carried_root, compute_claim_root
from touchstone.protocol.spec.commitments import compute_state_root
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.game.enums import RoundPhase, SeatStatus
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.state import GameRound, GameState
from touchstone.protocol.spec.game.timing import get_live_round
from touchstone.protocol.spec.signed_reports import to_millionths
from touchstone.protocol.spec.state_headers import OuterHeader, StateHeader

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ClaimStart:
    """The start of a claim. `outer` is the outer header of the base root, `header` is boundary 0, `carried`
    is the state whose moments are carried over."""

    outer: OuterHeader
    header: StateHeader
    carried: StateHeader | None = None


def make_start_header(
    view: View, index: int, weights_root: bytes, carried: StateHeader | None
) -> StateHeader:
    """Returns boundary 0 of this node's claim of round `index`."""
    terms = view.spec.terms
    step = index * terms.inner_steps
    if carried is None:
        return StateHeader(weights_root, terms.zero_root, terms.zero_root, 0, step)
    moments = (carried.first_moment_root, carried.second_moment_root, carried.local_step)
    return StateHeader(weights_root, *moments, step)


def find_carried(view: View, state: GameState, index: int) -> StateHeader | None:
    """Returns the last state of this node's last merged claim before round `index`, if moments carry over."""
    seat = find_seat(state, view.account)
    if not view.spec.terms.carry_moments or seat is None:
        return None
    earlier = find_carried_round(state, index, seat)
    if earlier is None:
        return None
    boundaries = view.claims.find(state.rounds[earlier]).boundaries
    return boundaries[max(boundaries)]


@dataclass(frozen=True)
class Origin:
    """What a claim is trained from. `shard` is the data of this node's slot; `carried` is the state whose
    moments are carried over, None if they start from zero."""

    index: int
    base_root: bytes
    beacon: bytes
    shard: int
    carried: StateHeader | None = None

    @property
    def basis(self) -> bytes:
        """The name of this origin in the journal, together with the round."""
        return compute_basis(self.base_root, self.beacon)


def get_basis(game_round: GameRound) -> bytes | None:
    """Returns the basis that a claim of the round is trained from; None before the round has a beacon."""
    beacon = game_round.beacon
    return None if beacon is None else compute_basis(game_round.base_root, beacon)


def read_origin(view: View, state: GameState, game_round: GameRound) -> Origin:
    """Returns what this node's claim of a round is trained from. The round has a beacon, and this node has a
    slot in it."""
    slot = find_own_slot(state, game_round, view.account)
    assert slot is not None and game_round.beacon is not None
    shard, carried = get_shards(game_round)[slot], find_carried(view, state, game_round.index)
    return Origin(game_round.index, game_round.base_root, game_round.beacon, shard, carried)


LOSS_MAX_NATS = 1e6
"""The largest loss that is recorded. If a segment's loss is larger or not a number, it is not recorded, and
the losses of its round are not reported."""


TRAINING = ("training", None)
"""The key of the lock for training. One own claim is trained at a time, because two at once would both be
late."""


Require = Callable[[], object]
"""Raises EnvironmentFault if a round is, or will be, trained from something else."""


@dataclass(frozen=True)
class Training:
    """Trains this node's own claims, segment by segment, and keeps and records each boundary."""

    get_view: GetView
    store: BlobStore
    states: StateStore
    chain: GameChain
    claims: ClaimBook
    pruning_memory: PruningMemory
    recompute_queue: RecomputeQueue
    team: Team | None
    corpus: Corpus
    locks: Locks
    notify: Notify
    meter: Meter
    board: LossBoard | None
    idle_mode: IdleMode
    model: GlobalModel
    outer_steps: OuterSteps

    async def compute_start(self, index: int, base_root: bytes, carried: StateHeader | None) -> ClaimStart:
        """Returns where this node's claim of round `index` starts. `carried` is the state whose moments are
        carried over."""
        outer = await self.outer_steps.load_base(base_root)
        return ClaimStart(
            outer, make_start_header(self.get_view(), index, outer.weights_root, carried), carried
        )

    async def begin_state(self, start: ClaimStart) -> TrainingState:
        """Returns the state at boundary 0. Raises EnvironmentFault while the carried moments are not on
        disk."""
        if start.carried is not None and not self.states.has(start.carried):
            raise EnvironmentFault(
                what="the moments that a claim starts from were pruned",
                expected=f"the end of an older claim, {compute_state_root(start.carried).hex()}",
                actual="not on disk: the root of a round after it fell",
                remedy="Wait: the node trains that claim again from its start.",
            )
        weights = await self.model.load_weights(start.outer)
        if start.carried is None:
            return begin_round(weights, start.header.global_step)
        carried = await asyncio.to_thread(self.states.load, start.carried)
        return begin_round(weights, start.header.global_step, carried)

    async def finish_claim(self, origin: Origin, require: Require) -> ClaimFinished:
        """Returns the claim of a round, trained if it is not yet, and in the journal. The caller holds
        `TRAINING`. `require` is called before each segment.

        Raises what `require` raises, and ProtocolFault if this node's own merge contradicts the base root.
        That is checked for a speculative claim too, because the root may merge other claims than expected."""
        await self.outer_steps.check_base(origin.base_root)
        self.pruning_memory.note_work(origin.index, origin.basis)
        work = self.claims.works[origin.index, origin.basis]
        if not work.salts or not _is_begun_right(self.get_view(), origin, work):
            self.begin_anew(origin.index, origin.basis)
        if not is_whole(self.get_view(), work):
            delta = await self._train(origin, work, require)
            self.claims.write(await asyncio.to_thread(self._conclude, origin, work, delta))
            self.meter.rounds_trained += 1
        assert work.finished is not None
        return work.finished

    def begin_anew(self, index: int, basis: bytes) -> None:
        """Draws the salts of a claim. Earlier training of this claim does not count any more."""
        view = self.get_view()
        salts = tuple(secrets.token_bytes(32) for _ in range(view.spec.terms.segment_count + 1))
        self.claims.write(ClaimSaltsDrawn(view.task, index, basis, salts))

    async def _train(self, origin: Origin, work: ClaimWork, require: Require) -> bytes:
        """Trains the remaining segments, and returns the pseudo-gradient. The state stays on the device. Each
        boundary is copied, hashed and kept while the next segment is trained, the last one while the
        pseudo-gradient is encoded. A segment waits while somebody uses the machine (`pause`), or an urgent
        answer on chain is computed (`RecomputeQueue`)."""
        state, first = await self._resume(origin, work)
        round_blocks = self.get_view().game.terms.windows.train_min
        segment_blocks = -(-round_blocks // self.get_view().spec.terms.segment_count)
        keeping: Awaitable[None] = asyncio.sleep(0)
        preparing: asyncio.Future[None] | None = None
        try:
            segments = range(first, self.get_view().spec.terms.segment_count)
            for segment in segments:
                # Its own data first; what was fetched ahead is here already.
                await self._prepare(origin, segment)
                preparing = asyncio.ensure_future(self._prepare_ahead(origin, segment + 1))
                await self.idle_mode.pause()
                await self.recompute_queue.let_own_go(
                    lambda: self.get_view().head_block, round_blocks, segment_blocks
                )
                require()
                state, losses = await self._train_segment(origin, segment, state)
                await keeping
                reached = (origin, segment + 1, state, losses)
                keeping = asyncio.ensure_future(asyncio.to_thread(self._reach, *reached))
            return await asyncio.to_thread(self._encode, work, state)
        finally:
            if preparing is not None:
                preparing.cancel()
            self.recompute_queue.end_own()
            # After any error, reached boundaries are in the journal before the caller goes on.
            await keeping

    async def _prepare(self, origin: Origin, segment: int) -> None:
        """Fetches the data of a segment. Raises EnvironmentFault if no peer serves some of it; then the claim
        waits."""
        spec = self.get_view().spec
        steps, place = spec.terms.segment_steps, (self.corpus, spec.training, origin.beacon, origin.shard)
        await prepare_steps(*place, range(segment * steps, (segment + 1) * steps))

    async def _prepare_ahead(self, origin: Origin, segment: int) -> None:
        """Fetches the data of the next segment while this one is trained. A failure is ignored, because it is
        tried again when the segment begins."""
        if segment < self.get_view().spec.terms.segment_count:
            try:
                await self._prepare(origin, segment)
            except (ProtocolFault, EnvironmentFault) as fault:
                log.info("%s", fault)

    async def _train_segment(
        self, origin: Origin, segment: int, state: TrainingState
    ) -> tuple[TrainingState, list[float]]:
        """Trains one more segment, with this node's workers if it has some. Returns the state after it and
        the losses of its steps."""
        view = self.get_view()
        terms, training = view.spec.terms, view.spec.training
        train = train_segment if self.team is None else self.team.train
        batches = partial(get_batch, self.corpus, training, origin.beacon, origin.shard)
        step, steps = segment * terms.segment_steps, terms.segment_steps
        state, losses = await asyncio.to_thread(train, state, training, batches, step, steps)
        self.meter.tokens_trained += steps * training.sequences_per_step * training.sequence_tokens
        self.meter.loss = float(losses[-1])
        if self.board is not None:
            self.board.add(origin.index * terms.inner_steps + step, losses)
        done = f"trained {step + steps} of {terms.inner_steps} steps"
        self.notify(f"round {origin.index}: {done}, loss {losses[-1]:.3f}")
        return state, losses

    async def _resume(self, origin: Origin, work: ClaimWork) -> tuple[TrainingState, int]:
        """Returns the state to go on from, and the number of its boundary."""
        last = _count_kept(self.get_view(), work) - 1
        if last >= 0:
            return await asyncio.to_thread(self.states.load, work.boundaries[last]), last
        start = await self.compute_start(origin.index, origin.base_root, origin.carried)
        state = await self.begin_state(start)
        if self.states.has(
            start.header
        ):  # The merge has already kept the weights, and an earlier round the moments.
            self._note(origin, 0, start.header)
        else:
            await asyncio.to_thread(self._reach, origin, 0, state)
        return state, 0

    def _reach(
        self, origin: Origin, boundary: int, state: TrainingState, losses: Sequence[float] = ()
    ) -> None:
        """Keeps a boundary and records it, after the losses of the segment before it. A node that was killed
        between these records trains the segment again. Only the first and the last boundary stay in the
        system's cache, because this node reads them again soon."""
        view = self.get_view()
        is_cached = boundary in (0, view.spec.terms.segment_count)
        header = self.states.keep(state, is_cached=is_cached)
        self._require_same(origin, boundary, header)
        if losses and all(abs(loss) < LOSS_MAX_NATS for loss in losses):
            figures = [to_millionths(loss) for loss in losses]
            of_steps = (len(figures), figures[0], figures[-1], sum(figures))
            place = (view.task, origin.index, origin.basis, boundary - 1)
            self.claims.write(SegmentTrained(*place, *of_steps))
        self._note(origin, boundary, header)

    def _require_same(self, origin: Origin, boundary: int, header: StateHeader) -> None:
        """Raises EnvironmentFault if a claim that is written down had another state at a boundary. It may be
        on its way to the chain, so nothing may take its place in the journal."""
        work = self.claims.works[origin.index, origin.basis]
        known = work.boundaries.get(boundary)
        if work.finished is not None and known not in (None, header):
            raise EnvironmentFault(
                what="this machine computes other bits than when it finished the claim",
                expected=f"boundary {boundary} of round {origin.index} as the journal has it",
                actual="another state",
                remedy="Bring back the versions of torch and of the drivers that the claim was made with.",
                retryable=False,
            )

    def _note(self, origin: Origin, boundary: int, header: StateHeader) -> None:
        place = (self.get_view().task, origin.index, origin.basis, boundary)
        roots = (header.weights_root, header.first_moment_root, header.second_moment_root)
        self.claims.write(ClaimBoundaryReached(*place, *roots, header.local_step, header.global_step))

    def _encode(self, work: ClaimWork, end: TrainingState) -> bytes:
        return encode_delta(self.states.load(work.boundaries[0]).weights, copy_to_host(end.weights))

    def _conclude(self, origin: Origin, work: ClaimWork, delta: bytes) -> ClaimFinished:
        """Returns the contents of the claim, and puts its pseudo-gradient into the store."""
        view = self.get_view()
        delta_root = keep_tree(self.store, BlobKind.DELTA, build_delta_tree(delta)).key.root
        segments = view.spec.terms.segment_count
        carried = compute_carried_root(work.boundaries[segments])
        root = compute_claim_root(compute_leaves(view, origin.index, work, delta_root))
        place = (view.task, origin.index, origin.basis)
        return ClaimFinished(*place, root, segments, delta_root, carried)


def is_whole(view: View, work: ClaimWork) -> bool:
    """Returns whether a claim is trained and all of it is in the store. Older speculations are deleted, and
    may be made again."""
    if work.finished is None:
        return False
    ref = refer_delta(work.finished.delta_root, view.spec.terms.parameter_count)
    return view.stored.has_blob(ref) and _count_kept(view, work) == view.spec.terms.segment_count + 1


def _count_kept(view: View, work: ClaimWork) -> int:
    """Returns how many boundaries are in the store without a gap, from the first on."""
    return len(
        list(takewhile(lambda b: b in work.boundaries and view.stored.has(work.boundaries[b]), count()))
    )


def _is_begun_right(view: View, origin: Origin, work: ClaimWork) -> bool:
    """Returns whether boundary 0, if there is one, has the moments that the claim must start from. A root
    that merges other claims may equal the expected root, while the moments of this seat differ."""
    first = work.boundaries.get(0)
    if first is None:
        return True
    return first == make_start_header(view, origin.index, first.weights_root, origin.carried)


@dataclass(frozen=True)
class MakeClaim:
    """Train a round and commit to it. `basis` names its base root, beacon and carried moments."""

    round: int
    basis: bytes

    async def perform(self, room: "Training") -> None:
        """Trains the remaining segments, records the claim, sends it. Raises as `require_round` and
        `GameChain.require_provable` do."""
        await room.chain.require_provable()
        async with room.locks[TRAINING]:
            origin = read_origin(room.get_view(), room.get_view().game, self.require_round(room))
            finished = await room.finish_claim(origin, partial(self.require_round, room))
            game_round = self.require_round(room)
        await room.chain.require_provable()
        words = (game_round.base_root, game_round.beacon, finished.claim_root, finished.segments)
        await room.chain.game.commit(room.get_view().task, self.round, *words)
        room.notify(f"round {self.round}: the claim is on the chain")

    def require_round(self, room: "Training") -> GameRound:
        """Returns the round, while it has the same basis and takes this node's claim. Raises EnvironmentFault
        after a reorg or the fall of a root, and once the round has closed without the claim, because more
        training would delay the next round."""
        view = room.get_view()
        state = get_state_at(view.game, view.head_block + 1)
        game_round = state.rounds.get(self.round)
        if game_round is None or get_basis(game_round) != self.basis:
            raise EnvironmentFault(
                what="the round starts from something else now",
                expected=f"round {self.round} on the base root and beacon that it was trained from",
                actual="others, or none",
                remedy="Only time is lost: the node trains the round again.",
            )
        slot = find_own_slot(state, game_round, view.account)
        if game_round.closed is not None and slot not in game_round.claims:
            raise EnvironmentFault(
                what="the round has closed without this node's claim",
                expected=f"a commitment to round {self.round} by block {game_round.closed}",
                actual="none: training took too long",
                remedy="Nothing to do: the node goes on with the next round.",
            )
        return game_round


def list_duties(view: View, block: int) -> Iterator[Duty[Training]]:
    """Yields the duty to make the claim of the present round, while the chain takes it."""
    state = get_state_at(view.game, block)
    game_round, seat = get_live_round(state), find_seat(state, view.account)
    if game_round is None or seat is None or seat.status == SeatStatus.CONVICTED:
        return
    basis, slot = get_basis(game_round), find_own_slot(state, game_round, view.account)
    is_taking = game_round.phase == RoundPhase.RUNNING and game_round.closed is None
    if is_taking and basis is not None and slot is not None and slot not in game_round.claims:
        yield MakeClaim(game_round.index, basis)
