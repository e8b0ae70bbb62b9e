"""Answers queries about this node's own votes, and about votes of silent signers."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from touchstone.node.kit.known_statements import find_solver, get_inner, get_now, get_question
from touchstone.node.kit.locks import Locks
from touchstone.node.kit.recompute_queue import RecomputeQueue
from touchstone.node.kit.states import StateStore
from touchstone.node.kit.view import GetView, View
from touchstone.node.records.heard_statements import KnownVote
from touchstone.node.training.segments import (
    Segments,
    find_replay,
    require_claimed_end,
    require_same,
)
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.spec.game.audit_deadlines import may_open
from touchstone.protocol.spec.game.dispute_moves import is_answerable
from touchstone.protocol.spec.game.enums import SeatStatus
from touchstone.protocol.spec.game.inner_dispute import InnerQuery
from touchstone.protocol.spec.merkle import compute_path
from touchstone.protocol.spec.openings import LeafProof, StateLeaves
from touchstone.protocol.spec.schedule import compute_schedule_levels, compute_schedule_sums
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.statements import Vote

NO_LEAF = StateLeaves(*(LeafProof(b"", ()) for _ in range(3)))
"""An empty leaf, sent instead of the auditor's leaf if both ends are equal."""


@dataclass(frozen=True)
class Ends:
    """Both ends of a replay, and the salt of its seal."""

    claimed: BoundaryProof
    own: StateHeader
    seal_salt: bytes


def list_own_asked(view: View, block: int) -> Iterator[InnerQuery]:
    """Yields the open queries on this node's own votes. An answer shows both ends, so it waits while a
    reserve auditor could copy them; its time limit waits too."""
    respond = view.game.terms.windows.respond
    for one in get_inner(view).queries.values():
        seat = get_now(view).seats.get(one.seat)
        is_mine = seat is not None and seat.account == view.account and seat.status != SeatStatus.CONVICTED
        is_safe = may_open(get_now(view), one.vote, block) or block > one.clock - respond
        if is_mine and is_safe and is_answerable(one, block):
            yield one


def list_others_asked(view: View, block: int) -> Iterator[InnerQuery]:
    """Yields open queries on others' votes that this node can answer, in the second half of their time. It
    can if the signer's end equals the claim's, and that state is in the store."""
    late = view.game.terms.windows.respond // 2
    for one in get_inner(view).queries.values():
        seat = get_now(view).seats.get(one.seat)
        is_open = seat is not None and seat.status != SeatStatus.CONVICTED
        is_others = is_open and seat is not None and view.account not in (seat.account, one.asker)
        is_late = is_answerable(one, block) and block + late > one.clock
        if is_others and is_late and _find_shared(view, one) is not None:
            yield one


def _find_shared(view: View, opened: InnerQuery) -> Ends | None:
    """Returns both ends of another's vote if they are equal and in this node's store."""
    ref, account = opened.statement, get_now(view).seats[opened.seat].account
    for known in view.audits.list_votes(ref.round):
        if (known.ref, known.auditor) == (ref, account) and known.opening is not None:
            end = _find_boundary(view, known)
            is_shared = known.opening.claim_end_root == known.opening.own_end_root
            if end is not None and is_shared and view.stored.has(end.header):
                return Ends(end, end.header, known.opening.seal_salt)
    return None


def _find_boundary(view: View, known: KnownVote) -> BoundaryProof | None:
    openings = view.audits.get_openings(known.vote.round, known.vote.slot)
    return openings.boundaries.get(known.vote.segment + 1)


@dataclass(frozen=True)
class QueryAnswers:
    """Answers queries about this node's own votes, and about votes of silent signers."""

    get_view: GetView
    client: BlobClient
    states: StateStore
    chain: GameChain
    recompute_queue: RecomputeQueue
    locks: Locks
    segments: Segments

    async def answer_own(self, opened: InnerQuery) -> None:
        """Shows the leaf of both ends of this node's own vote."""
        replay = find_replay(self.get_view(), opened.statement)
        ends = Ends(require_claimed_end(replay), replay.own_end, replay.seal_salt)
        async with self.locks["restore", opened.statement.round]:
            if not self.states.has(ends.own):
                work = (self._restore_own, opened, replay.start.header, replay.own_end)
                await self.recompute_queue.compute(opened.clock, *work)
            await self._restore_claimed(opened, ends.claimed.header)
        await self._send(opened, ends)

    async def answer_others(self, opened: InnerQuery) -> None:
        """Shows the leaf of another node's vote whose two ends are equal."""
        ends = _find_shared(self.get_view(), opened)
        if ends is not None:
            await self._send(opened, ends)

    async def _restore_claimed(self, opened: InnerQuery, end: StateHeader) -> None:
        view = self.get_view()
        known = view.chain_state.network.peers
        solver = find_solver(get_now(view), opened.statement.round, opened.statement.slot)
        peers = [known[account] for account in (solver, opened.asker) if account in known]
        await self.states.fetch(self.client, peers, end)

    def _restore_own(self, opened: InnerQuery, start: StateHeader, end: StateHeader) -> None:
        place = (opened.statement.round, opened.statement.slot)
        replay = find_replay(self.get_view(), opened.statement)
        *_, last = self.segments.iterate_states(place, replay.segment, start)
        require_same(end, self.states.keep(last))

    async def _send(self, opened: InnerQuery, ends: Ends) -> None:
        shown = await asyncio.to_thread(self._show, opened, ends)
        await self.chain.game.answer_query(self.get_view().task, get_question(opened), shown)

    def _show(self, opened: InnerQuery, ends: Ends) -> dict[str, Any]:
        view = self.get_view()
        vote = opened.vote
        [claimed] = self.states.open_leaves(ends.claimed.header, [opened.leaf])
        own, rate_sum, path = NO_LEAF, 0, list[bytes]()
        if ends.own != ends.claimed.header:
            [own] = self.states.open_leaves(ends.own, [opened.leaf])
            sums, index = compute_schedule_sums(view.spec), get_schedule_index(view, vote)
            rate_sum, path = sums[index], compute_path(compute_schedule_levels(sums), index)
        return {
            "claimed_end": ends.claimed.header,
            "own_end": ends.own,
            "solver": find_solver(get_now(view), vote.round, vote.slot),
            "boundary_salt": ends.claimed.salt,
            "seal_salt": ends.seal_salt,
            "claimed": claimed,
            "own": own,
            "learning_rate_sum": rate_sum,
            "schedule_path": path,
        }


def get_schedule_index(view: View, vote: Vote) -> int:
    """Returns the number of a vote's segment, counted over the whole task."""
    return vote.round * view.spec.terms.segment_count + vote.segment
