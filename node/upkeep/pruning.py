"""Pruning: the disk of a node holds what `kept.py` names, and nothing that was settled.

    a record names it, it must stay             stays
    a record names it, its windows are over     goes
    no record names it                          stays for STRAY_AUDITS audits: it may be fetched, replayed or
                                                exported just now; then goes
    of another task of this home, or a dataset  stays

A pruning may be killed at any moment: the next one decides anew, from the chain and the journal. What was
pruned too early for a solver is trained again from boundary 0 (`dispute/segments.py`).
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from touchstone.node.defending.step_serving import forget
from touchstone.node.kit.duty import Duty
from touchstone.node.kit.party import Party
from touchstone.node.kit.recompute_queue import AUDITS, NOBODY, NotWanted
from touchstone.node.kit.retention_windows import (
    find_asked_until,
    find_shown_until,
    find_supported_until,
    is_answerable,
    list_shown_segments,
    list_stages,
)
from touchstone.node.kit.states import has_state
from touchstone.node.records.round_seats import find_carried_round, find_own_slot
from touchstone.node.records.wanted_steps import Steps
from touchstone.node.training.segments import find_own_boundary, restore_boundary
from touchstone.node.upkeep.deletion import (
    delete_blobs,
    learn_foreign,
    learn_works,
    list_here,
    list_removable,
    open_books,
)
from touchstone.node.upkeep.retention import list_kept
from touchstone.protocol.adapters.store.blobs import refer_tensor
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.state import GameRound, GameState
from touchstone.protocol.spec.game.timing import REORG_BLOCKS
from touchstone.whistleblower.known_statements import get_inner, get_now

log = logging.getLogger(__name__)


Restored = Iterator[tuple[tuple[int, int], int]]
"""(round, boundary), and the last block for it: in which an auditor still waits, this node can move in a
dispute, or the next claim may be committed to."""


@dataclass(frozen=True)
class Prune:
    """Delete what nothing needs any more. stages: of the windows, so that each change is one duty."""

    stages: tuple[object, ...]

    async def perform(self, party: Party) -> None:
        """Decide here, delete in a thread."""
        memory, block = party.task.pruning, party.state.head_block + 1
        await learn_foreign(party)
        candidates = await asyncio.to_thread(list_here, party.store)
        await learn_works(party, candidates)
        books, state = open_books(party), get_now(party.view)
        forget_steps(party, state, block - REORG_BLOCKS)
        kept = list_kept(state, books, block - REORG_BLOCKS)
        goes = list_removable(state, books, memory, candidates, kept.keys(), block)
        freed = await asyncio.to_thread(delete_blobs, party.store, goes)
        memory.done = self.stages
        if goes:
            log.info("pruned %s blobs, %.1f MB", len(goes), freed / 1e6)


@dataclass(frozen=True)
class RestoreBoundary:
    """Train a boundary of the own claim of an older round again: an auditor is about to ask for it, this node
    disputes a vote on it, or the next claim goes on from its moments. It is left once it is not listed any
    more."""

    round: int
    boundary: int

    async def perform(self, party: Party) -> None:
        """Raises EnvironmentFault where this machine comes to another state than the journal has."""
        with suppress(NotWanted):
            await restore_boundary(party, self.round, self.boundary, partial(self._find_until, party))

    def _find_until(self, party: Party) -> int:
        return party.task.pruning.due.get((self.round, self.boundary), NOBODY)


def list_duties(party: Party, block: int) -> Iterator[Duty]:
    """What is to be deleted, and what has to be there again, at `block`."""
    state = get_now(party.view)
    stages = (*list_stages(state, block - REORG_BLOCKS), party.task.pruning.begun)
    if stages != party.task.pruning.done:
        yield Prune(stages)
    due: dict[tuple[int, int], int] = {}
    for place, until in _list_due(party, state, block):
        due[place] = min(until, due.get(place, until))
    party.task.pruning.due = due
    yield from (RestoreBoundary(*place) for place in due)


def _list_due(party: Party, state: GameState, block: int) -> Restored:
    yield from _list_carried(party, state, block)
    yield from _list_needed(party, block)
    for game_round in state.rounds.values():
        if is_answerable(state, game_round, block):
            yield from _list_restored(party, state, game_round, block)


def _list_carried(party: Party, state: GameState, block: int) -> Restored:
    """The state whose moments the next claim goes on from: after a fall that of an older round, which was
    pruned."""
    seat = find_seat(state, party.account)
    if seat is None or not party.task.spec.terms.carry_moments:
        return
    index = find_carried_round(state, state.next_round - 1, seat)
    boundaries = {} if index is None else party.task.claims.find(state.rounds[index]).boundaries
    if index is not None and boundaries and not has_state(party, boundaries[max(boundaries)]):
        newest = state.rounds.get(state.next_round - 1)
        began = None if newest is None else newest.trained_from
        until = 0 if began is None else began + state.terms.windows.train_min
        # A round may run longer than that. What has no clock any more goes before no answer that has one.
        yield (index, max(boundaries)), until if until > block else AUDITS


def _list_needed(party: Party, block: int) -> Restored:
    """Starts that this node needs to name a step of a vote on its own claim, in a dispute that it opened. The
    vote's signer may show none of its steps."""
    for dispute in get_inner(party.view).disputes.values():
        is_running = dispute.is_open and dispute.opener == party.account and block <= dispute.clock
        start = find_own_boundary(party.view, dispute) if is_running else None
        if start is not None and not has_state(party, start):
            yield (dispute.statement.round, dispute.segment), dispute.clock


def _list_restored(party: Party, state: GameState, game_round: GameRound, block: int) -> Restored:
    """Lowest first: each is trained on from the one before it. Of the last one an auditor wants the weights
    alone."""
    slot = find_own_slot(state, game_round, party.account)
    if slot is None or slot not in game_round.claims or game_round.beacon is None:
        return
    work = party.task.claims.find(game_round)
    segments = list_shown_segments(state, game_round, slot, block)
    until = find_shown_until(state, game_round, slot, block)
    if work.finished is None or not segments or until is None:
        return
    wanted = {boundary for segment in segments for boundary in (segment, segment + 1)}
    for boundary in sorted(wanted):
        if not has_state(party, work.boundaries[boundary]):
            yield (game_round.index, boundary), until
    last, count = max(work.boundaries), party.task.spec.terms.parameter_count
    if not party.store.has(refer_tensor(work.boundaries[last].weights_root, count)):
        yield (game_round.index, last), until


def forget_steps(party: Party, state: GameState, block: int) -> None:
    """Stop showing steps that a peer asked for, once their round is over, or auditors may ask no more."""
    handler = party.task.cases.step_requests
    for place, steps in list(handler.shown.items()):
        game_round = state.rounds.get(place[1])
        if game_round is None or not _is_asked(state, game_round, place[2], steps, block):
            del handler.shown[place]
            forget(party, ("wanted", steps.roots))


def _is_asked(state: GameState, game_round: GameRound, place: int, steps: Steps, block: int) -> bool:
    """Whether peers may still ask for steps that are shown."""
    where = divmod(place, state.terms.segment_count)
    lasts = [find(state, game_round, *where) for find in (find_asked_until, find_supported_until)]
    is_over = steps.is_auditor and not any(last is not None and block <= last for last in lasts)
    return is_answerable(state, game_round, block) and not is_over
