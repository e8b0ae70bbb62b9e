"""Prunes a node's disk: it keeps what `retention.py` lists, and deletes what was settled.

    a record names it, it must stay             stays
    a record names it, its windows are over     goes
    no record names it                          stays for STRAY_AUDITS audits, because it may be fetched,
                                                replayed or exported just now; then goes
    of another task of this home, or a dataset  stays

While the chain lacks a round of which there are records, all stays: a provider may be behind.

Pruning may be killed at any moment: the next one decides anew, from the chain and the journal. If a solver
pruned a state too early, it trains it again from boundary 0 (`node/training/segments.py`).
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from touchstone.node.defending.step_serving import StepServing
from touchstone.node.kit.duty import Duty
from touchstone.node.kit.known_statements import get_inner, get_now
from touchstone.node.kit.recompute_queue import AUDITS, NOBODY, NotWanted
from touchstone.node.kit.retention_windows import (
    PruningMemory,
    find_asked_until,
    find_shown_until,
    find_supported_until,
    is_answerable,
    list_in_use,
    list_shown_segments,
    list_stages,
)
from touchstone.node.kit.view import GetView, View
from touchstone.node.records.dispute_records import DisputeRecords
from touchstone.node.records.round_seats import find_carried_round, find_own_slot
from touchstone.node.records.wanted_steps import Steps
from touchstone.node.training.segments import Segments, find_own_boundary
from touchstone.node.upkeep.deletion import (
    Deletion,
    delete_blobs,
    list_here,
    list_removable,
)
from touchstone.node.upkeep.retention import list_kept
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import refer_tensor
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.state import GameRound, GameState
from touchstone.protocol.spec.game.timing import REORG_BLOCKS

log = logging.getLogger(__name__)


Restored = Iterator[tuple[tuple[int, int], int]]
"""Maps (round, boundary) to the last block for it: an auditor waits until then, this node can move in a
dispute, or the next claim can be committed to."""


@dataclass(frozen=True)
class Prune:
    """Delete what nothing needs any more. `stages` are those of the windows, so that each change is one
    duty."""

    stages: tuple[object, ...]

    async def perform(self, room: "Pruning") -> None:
        """Decides what to delete, then deletes it in a thread."""
        memory, block = room.pruning_memory, room.get_view().head_block + 1
        await room.deletion.learn_foreign()
        candidates = await asyncio.to_thread(list_here, room.store)
        await room.deletion.learn_works(candidates)
        books, state = room.deletion.open_books(), get_now(room.get_view())
        room.forget_steps(state, block - REORG_BLOCKS)
        kept = list_kept(state, books, block - REORG_BLOCKS)
        goes = list_removable(state, books, memory, candidates, kept.keys(), block)
        used = partial(list_in_use, books.cases, books.audits)
        freed = await asyncio.to_thread(delete_blobs, room.store, goes, used)
        memory.done = self.stages
        if goes:
            log.info("pruned %s blobs, %.1f MB", len(goes), freed / 1e6)


@dataclass(frozen=True)
class RestoreBoundary:
    """Train a boundary of this node's older claim again. It is needed if an auditor is about to ask for it,
    if this node disputes a vote on it, or if the next claim starts from its moments. Training stops once the
    duty is not listed any more."""

    round: int
    boundary: int

    async def perform(self, room: "Pruning") -> None:
        """Trains the boundary. Raises EnvironmentFault if this machine gets another state than the journal
        has."""
        with suppress(NotWanted):
            await room.segments.restore_boundary(self.round, self.boundary, partial(self._find_until, room))

    def _find_until(self, room: "Pruning") -> int:
        view = room.get_view()
        due = find_due(view, view.head_block + 1) if view.is_task_known else {}
        return due.get((self.round, self.boundary), NOBODY)


@dataclass(frozen=True)
class Pruning:
    """Deletes what nothing needs any more, and restores what is needed again."""

    get_view: GetView
    store: BlobStore
    cases: DisputeRecords
    pruning_memory: PruningMemory
    deletion: Deletion
    segments: Segments
    step_serving: StepServing

    def forget_steps(self, state: GameState, block: int) -> None:
        """Stops showing steps that a peer asked for, once their round is over or auditors may not ask any
        more."""
        handler = self.cases.step_requests
        for place, steps in list(handler.shown.items()):
            game_round = state.rounds.get(place[1])
            if game_round is None or not _is_asked(state, game_round, place[2], steps, block):
                del handler.shown[place]
                self.step_serving.forget(("wanted", steps.roots))


def list_duties(view: View, block: int) -> Iterator[Duty[Pruning]]:
    """Yields what to delete and what to restore at `block`."""
    state = get_now(view)
    stages = (*list_stages(state, block - REORG_BLOCKS), view.pruning.begun)
    if stages != view.pruning.done and not _is_behind(view, state):
        yield Prune(stages)
    yield from (RestoreBoundary(*place) for place in find_due(view, block))


def _is_behind(view: View, state: GameState) -> bool:
    """Returns whether this node has records of a round that the chain lacks: its provider is behind, or a
    reorg took the round back. Until the round is there, nobody can tell what must stay of it."""
    rounds = {index for index, places in list(view.audits.book.places.items()) if places}
    rounds |= {key.round for key in list(view.claims.merges)}
    # The round to come is trained speculatively, and no later one.
    rounds |= {index - 1 for index, _ in list(view.claims.works)}
    return max(rounds, default=-1) >= state.next_round


def find_due(view: View, block: int) -> dict[tuple[int, int], int]:
    """Returns (round, boundary) of what must be trained again at `block`, with the last block for each."""
    due: dict[tuple[int, int], int] = {}
    for place, until in _list_due(view, get_now(view), block):
        due[place] = min(until, due.get(place, until))
    return due


def _list_due(view: View, state: GameState, block: int) -> Restored:
    yield from _list_carried(view, state, block)
    yield from _list_needed(view, block)
    for game_round in state.rounds.values():
        if is_answerable(state, game_round, block):
            yield from _list_restored(view, state, game_round, block)


def _list_carried(view: View, state: GameState, block: int) -> Restored:
    """Returns the boundary whose moments the next claim starts from. After a root fell, it belongs to an
    older round, which was pruned."""
    seat = find_seat(state, view.account)
    if seat is None or not view.spec.terms.carry_moments:
        return
    index = find_carried_round(state, state.next_round - 1, seat)
    boundaries = {} if index is None else view.claims.find(state.rounds[index]).boundaries
    if index is not None and boundaries and not view.stored.has(boundaries[max(boundaries)]):
        newest = state.rounds.get(state.next_round - 1)
        began = None if newest is None else newest.trained_from
        until = 0 if began is None else began + state.terms.windows.train_min
        # A round may run longer than that. Work without a deadline yields to answers with one.
        yield (index, max(boundaries)), until if until > block else AUDITS


def _list_needed(view: View, block: int) -> Restored:
    """Returns the starts that this node needs to name a step in its own disputes, about votes on its own
    claim. The votes' signers may show none of their steps."""
    for dispute in get_inner(view).disputes.values():
        is_running = dispute.is_open and dispute.opener == view.account and block <= dispute.clock
        start = find_own_boundary(view, dispute) if is_running else None
        if start is not None and not view.stored.has(start):
            yield (dispute.statement.round, dispute.segment), dispute.clock


def _list_restored(view: View, state: GameState, game_round: GameRound, block: int) -> Restored:
    """Returns the boundaries to restore, the lowest first, because each is trained from the one before. An
    auditor wants only the weights of the last boundary."""
    slot = find_own_slot(state, game_round, view.account)
    if slot is None or slot not in game_round.claims or game_round.beacon is None:
        return
    work = view.claims.find(game_round)
    segments = list_shown_segments(state, game_round, slot, block)
    until = find_shown_until(state, game_round, slot, block)
    if work.finished is None or not segments or until is None:
        return
    wanted = {boundary for segment in segments for boundary in (segment, segment + 1)}
    for boundary in sorted(wanted):
        if not view.stored.has(work.boundaries[boundary]):
            yield (game_round.index, boundary), until
    last, count = max(work.boundaries), view.spec.terms.parameter_count
    if not view.stored.has_blob(refer_tensor(work.boundaries[last].weights_root, count)):
        yield (game_round.index, last), until


def _is_asked(state: GameState, game_round: GameRound, place: int, steps: Steps, block: int) -> bool:
    """Returns whether peers may still ask for the steps that are shown."""
    where = divmod(place, state.terms.segment_count)
    lasts = [find(state, game_round, *where) for find in (find_asked_until, find_supported_until)]
    is_over = steps.is_auditor and not any(last is not None and block <= last for last in lasts)
    return is_answerable(state, game_round, block) and not is_over
