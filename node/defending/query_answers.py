"""Answers questions about own statements, and about those of absent signers."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from touchstone.node.kit.party import Party
from touchstone.node.kit.states import fetch_tensors, has_state, keep_state, open_state_leaves
from touchstone.node.kit.view import View
from touchstone.node.records.heard_statements import KnownVote
from touchstone.node.training.segments import find_replay, iterate_states, require_claimed_end, require_same
from touchstone.node.upkeep.upkeep_duties import get_question
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof
from touchstone.protocol.spec.game.audit_deadlines import may_open
from touchstone.protocol.spec.game.dispute_moves import is_answerable
from touchstone.protocol.spec.game.enums import SeatStatus
from touchstone.protocol.spec.game.inner_dispute import InnerAsk
from touchstone.protocol.spec.merkle import compute_path
from touchstone.protocol.spec.schedule import compute_schedule_levels, compute_schedule_sums
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.statements import Vote
from touchstone.whistleblower.known_statements import find_solver, get_inner, get_now
from touchstone.whistleblower.queries import NO_LEAF


@dataclass(frozen=True)
class Ends:
    """Both ends of a replay, and the salt of its seal."""

    claimed: BoundaryProof
    own: StateHeader
    seal_salt: bytes


def list_own_asked(view: View, block: int) -> Iterator[InnerAsk]:
    """Open asks on this node's own votes. An answer shows both ends: as long as a reserve could copy them it
    waits, and its clock waits with it."""
    respond = view.game.terms.windows.respond
    for one in get_inner(view).asks.values():
        seat = get_now(view).seats.get(one.seat)
        is_mine = seat is not None and seat.account == view.account and seat.status != SeatStatus.CLOSED
        is_safe = may_open(get_now(view), one.vote, block) or block > one.clock - respond
        if is_mine and is_safe and is_answerable(one, block):
            yield one


def list_others_asked(party: Party, block: int) -> Iterator[InnerAsk]:
    """Open asks on others' votes, in the second half of their time, that this node can answer from what it
    has: the signer's end is the claim's, and that state is in the store."""
    late = party.game.terms.windows.respond // 2
    for one in get_inner(party.view).asks.values():
        seat = get_now(party.view).seats.get(one.seat)
        is_open = seat is not None and seat.status != SeatStatus.CLOSED
        is_others = is_open and seat is not None and party.account not in (seat.account, one.asker)
        is_late = is_answerable(one, block) and block + late > one.clock
        if is_others and is_late and _find_shared(party, one) is not None:
            yield one


def _find_shared(party: Party, opened: InnerAsk) -> Ends | None:
    """The ends of another's vote that are one state which this node has."""
    ref, account = opened.statement, get_now(party.view).seats[opened.seat].account
    for known in party.task.audits.known.list_votes(ref.round):
        if (known.ref, known.auditor) == (ref, account) and known.opening is not None:
            end = _find_boundary(party.view, known)
            is_shared = known.opening.claim_end_root == known.opening.own_end_root
            if end is not None and is_shared and has_state(party, end.header):
                return Ends(end, end.header, known.opening.seal_salt)
    return None


def _find_boundary(view: View, known: KnownVote) -> BoundaryProof | None:
    openings = view.audits.get_openings(known.vote.round, known.vote.slot)
    return openings.boundaries.get(known.vote.segment + 1)


async def answer_own(party: Party, opened: InnerAsk) -> None:
    """Show both leaves of this node's own vote."""
    replay = find_replay(party.view, opened.statement)
    ends = Ends(require_claimed_end(replay), replay.own_end, replay.seal_salt)
    async with party.task.locks["restore", opened.statement.round]:
        if not has_state(party, ends.own):
            work = (_restore_own, party, opened, replay.start.header, replay.own_end)
            await party.task.retraining.compute(opened.clock, *work)
        await _restore_claimed(party, opened, ends.claimed.header)
    await _send(party, opened, ends)


async def answer_others(party: Party, opened: InnerAsk) -> None:
    """Show the leaf of another's vote whose two ends are one."""
    ends = _find_shared(party, opened)
    if ends is not None:
        await _send(party, opened, ends)


async def _restore_claimed(party: Party, opened: InnerAsk, end: StateHeader) -> None:
    known = party.state.network.peers
    solver = find_solver(get_now(party.view), opened.statement.round, opened.statement.slot)
    peers = [known[account] for account in (solver, opened.asker) if account in known]
    await fetch_tensors(party, peers, end)


def _restore_own(party: Party, opened: InnerAsk, start: StateHeader, end: StateHeader) -> None:
    place = (opened.statement.round, opened.statement.slot)
    replay = find_replay(party.view, opened.statement)
    *_, last = iterate_states(party, place, replay.segment, start)
    require_same(end, keep_state(party, last))


async def _send(party: Party, opened: InnerAsk, ends: Ends) -> None:
    shown = await asyncio.to_thread(_show, party, opened, ends)
    await party.chain.asks.answer(party.task.task, get_question(opened), shown)


def _show(party: Party, opened: InnerAsk, ends: Ends) -> dict[str, Any]:
    vote = opened.vote
    [claimed] = open_state_leaves(party, ends.claimed.header, [opened.leaf])
    own, rate_sum, path = NO_LEAF, 0, list[bytes]()
    if ends.own != ends.claimed.header:
        [own] = open_state_leaves(party, ends.own, [opened.leaf])
        sums, index = compute_schedule_sums(party.task.spec), get_schedule_index(party.view, vote)
        rate_sum, path = sums[index], compute_path(compute_schedule_levels(sums), index)
    return {
        "claimed_end": ends.claimed.header,
        "own_end": ends.own,
        "solver": find_solver(get_now(party.view), vote.round, vote.slot),
        "boundary_salt": ends.claimed.salt,
        "seal_salt": ends.seal_salt,
        "claimed": claimed,
        "own": own,
        "learning_rate_sum": rate_sum,
        "schedule_path": path,
    }


def get_schedule_index(view: View, vote: Vote) -> int:
    """The number of a vote's segment in the task."""
    return vote.round * view.spec.terms.segment_count + vote.segment
