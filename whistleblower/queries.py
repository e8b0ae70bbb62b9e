"""Asks: this node questions a signer, and answers asks on its own and on absent signers' votes.

ASK. A signer whose vote this node knows to be wrong must show a leaf of both ends on chain, or loses its
seat. An ACCEPT is asked for the leaf that this node found beyond the limits, a REJECT for the leaf that it
names. By chance an ACCEPT is also asked for any leaf (`find_spot_leaf`).

Where the signer's replay is known to have come to the claim's own end, an ask may prove nothing. An ACCEPT
of that kind would pass any ask, so this node disputes it. A REJECT of that kind is false whatever the leaf
holds, so this node asks about it.

ANSWER. This node always answers asks on its own votes. It answers asks on others' votes once half of the
time to answer is over. An answer shows a leaf of the claim's end and of the signer's own end. Both were
kept; a pruned end is fetched or trained again.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from touchstone.node.kit.party import (
    Party,
    fetch_tensors,
    fund_bonds,
    has_state,
    keep_state,
    open_state_leaves,
)
from touchstone.node.kit.view import View
from touchstone.node.models.claim_openings import list_own_boundaries
from touchstone.node.records.dispute_records import KnownVote, OwnReplay, Sentence
from touchstone.node.training.segments import find_replay, iterate_states, require_claimed_end, require_same
from touchstone.node.upkeep.upkeep_duties import get_question
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof
from touchstone.protocol.spec.containers import LeafProof, StateHeader, StateLeaves
from touchstone.protocol.spec.game.auditing import may_open
from touchstone.protocol.spec.game.disputes import ASKED_WORDS, count_open_asks
from touchstone.protocol.spec.game.inner_dispute import AskEnding, InnerAsk, is_answerable
from touchstone.protocol.spec.game.state import SeatStatus, StatementRef
from touchstone.protocol.spec.game.timing import get_ask_until
from touchstone.protocol.spec.merkle import compute_path, count_tensor_leaves
from touchstone.protocol.spec.schedule import compute_schedule_levels, compute_schedule_sums
from touchstone.protocol.spec.statements import Vote, VoteWord
from touchstone.whistleblower.known_statements import (
    find_accused,
    find_solver,
    find_spot_leaf,
    find_vote,
    get_inner,
    get_now,
    is_counted,
    list_provable_rounds,
    sign_form,
)

TELLING = frozenset({AskEnding.OPEN, AskEnding.CLEARED})
"""An ask that others opened and that is open, or was answered, needs no second one."""


@dataclass(frozen=True)
class Doubt:
    """A vote and the leaf that its signer is to show."""

    statement: StatementRef
    signature: bytes
    leaf: int


# --- What to ask --------------------------------------------------------------------------------------------
def list_doubts(view: View, block: int) -> Iterator[Doubt]:
    """Votes of others that this node's own knowledge contradicts and that can be asked about in `block`."""
    if view.game.terms.is_exact:
        return
    for game_round in list_provable_rounds(get_now(view), block):
        for known in view.audits.list_votes(game_round.index):
            leaf = _find_leaf(view, known)
            if leaf is not None and _is_askable(view, known, block) and not _is_asked(view, known, leaf):
                yield Doubt(known.ref, known.signature, leaf)


def _is_askable(view: View, known: KnownVote, block: int) -> bool:
    seat, until = find_accused(get_now(view), known.ref, known), get_ask_until(get_now(view), known.ref)
    is_open = seat is not None and seat.status != SeatStatus.CLOSED and seat.account != view.account
    if not is_open or until is None or known.vote.word not in ASKED_WORDS:
        return False
    # Until votes stop counting, no signer has to answer, and the opening may still tell more.
    is_ripe = known.opening is not None or block > until - view.game.terms.windows.ask
    return is_ripe and block <= until


def _is_asked(view: View, known: KnownVote, leaf: int) -> bool:
    """Whether this node has asked this, or another account's ask already gives the same answer.

    The other ask must be of this very vote and seat. A liar may sign another vote for the same place, and so
    may an auditor that was not drawn for it."""
    seat = find_accused(get_now(view), known.ref, known)
    asks = [one for one in get_inner(view).asks.values() if (one.vote, one.leaf) == (known.vote, leaf)]
    here = [one for one in asks if seat is not None and one.seat == seat.number]
    return any(one.asker == view.account or one.ending in TELLING for one in here)


def _find_leaf(view: View, known: KnownVote) -> int | None:
    """For which leaf to ask; None where nothing speaks against the vote, or an ask would not show it."""
    vote = known.vote
    replays = view.audits.list_replays(vote.round)
    here = [one for one in replays if (one.ref.slot, one.segment) == (vote.slot, vote.segment)]
    leaf_count = count_tensor_leaves(view.spec.terms.parameter_count)
    if vote.word == VoteWord.ACCEPT:
        beyond = next((one.beyond_leaf for one in here if one.beyond_leaf is not None), None)
        if beyond is None:
            return find_spot_leaf(get_now(view), view.account, view.cases.dice, known, leaf_count)
        return None if _is_copied(known) else beyond
    if vote.word != VoteWord.REJECT_STATE:
        return None
    is_leaf = vote.named_leaf < leaf_count
    return vote.named_leaf if is_leaf and _is_false_rejection(view, known, here) else None


def _is_copied(known: KnownVote) -> bool:
    """Whether the auditor's own end is known to be the claim's."""
    opening = known.opening
    return opening is not None and opening.own_end_root == opening.claim_end_root


def _is_false_rejection(view: View, known: KnownVote, here: list[OwnReplay]) -> bool:
    """Whether the rejected end is one that this node stands by, and nothing shows that the auditor's own end
    is another. Where the auditor did come to another end, its own steps are to be judged."""
    if known.opening is not None:
        return _is_copied(known)
    if not is_counted(get_now(view), known):  # It harms no claim, and an honest one may have drifted.
        return False
    is_own = find_solver(get_now(view), known.vote.round, known.vote.slot) == view.account
    has_claim = is_own and known.vote.segment + 1 in list_own_boundaries(view, known.vote.round)
    return has_claim or any(one.claimed_end is not None and one.beyond_leaf is None for one in here)


# --- Asking -------------------------------------------------------------------------------------------------
async def ask(party: Party, doubt: Doubt) -> None:
    """Ask the signer. The k-th open ask on a seat costs k bonds."""
    known = _find(party.view, doubt.statement.round, doubt.signature)
    if known is None:
        return
    accused, ref = find_accused(get_now(party.view), known.ref, known), known.ref
    assert accused is not None
    async with party.task.locks["credit", None]:
        count = count_open_asks(get_now(party.view), accused.number)
        limit_wei = await fund_bonds(party, count, party.game.terms.amounts.ask_bond)
        form = sign_form(known.vote, known.signature)
        await party.chain.asks.ask(party.task.task, form, doubt.leaf, limit_wei)
    party.say(f"round {ref.round} slot {ref.slot}: asked {known.auditor} to show leaf {doubt.leaf}")


def _find(view: View, index: int, signature: bytes) -> KnownVote | None:
    return find_vote(view, Sentence(StatementRef(index, 0), 0, signature))


NO_LEAF = StateLeaves(*(LeafProof(b"", ()) for _ in range(3)))
"""In place of the own leaf where both ends are one state."""


@dataclass(frozen=True)
class Ends:
    """Both ends of a replay, and the salt of its seal."""

    claimed: BoundaryProof
    own: StateHeader
    seal_salt: bytes


# --- What to answer -----------------------------------------------------------------------------------------
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


# --- Answering ----------------------------------------------------------------------------------------------
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
