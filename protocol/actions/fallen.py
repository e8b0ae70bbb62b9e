"""Auditors of a claim that has fallen: whoever stands by a segment that an own replay shows to be false is
accused too.

An auditor answers for its own sentence, and may have accepted a right segment of a false claim. So the fall
of a claim makes its audits worth a look and proves nothing against them: a replay does. Where this node was
drawn onto the segment, or has accused the solver of it, the replay is at hand. Else it costs the training of
one segment; `own_replays` says how often a round that is done.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from protocol.actions.challenge import accuse, name_solver_claim, to_claim
from protocol.actions.claim import Train, get_dealt_batches
from protocol.actions.memory import header_of
from protocol.actions.party import Party
from protocol.actions.replay import NotServed, ask_until, fetch_served, judge_ends, train_stored
from protocol.actions.states import fetch_tensors
from protocol.actions.suspicion import list_disputes_on
from protocol.adapters.blobs import BlobKey, BlobRef, refer_state
from protocol.compute.compare import Verdict
from protocol.spec.containers import StateHeader
from protocol.spec.drawn import Drawn, get_drawn
from protocol.spec.duties import list_audits_of
from protocol.spec.economics import assume_figures, is_second_look_worth, read_sampling
from protocol.spec.pursuit import is_pursued
from protocol.spec.round import (
    AuditKey,
    RoundState,
    get_audit,
    get_audit_ref,
    get_claim,
    get_opening,
    get_settle_block,
    get_slot,
    is_accepting,
)
from protocol.spec.statuses import AuditRef, ClaimRef, ClaimStatus, Stage
from protocol.spec.tolerance import Judgement


@dataclass(frozen=True)
class JudgeAudits:
    """Judge what auditors of one draw of a fallen claim stand by. ranks: theirs; is_replayed: the segment has
    to be replayed for it."""

    round: int
    slot: int
    draw: int
    segment: int
    ranks: tuple[int, ...]
    is_replayed: bool


# --- Deciding -----------------------------------------------------------------------------------------------
def list_judgements(
    party: Party, state: RoundState, block: int, done: set[object], own_replays: int
) -> Iterator[JudgeAudits]:
    """The draws of a round whose auditors are to be judged in `block`. done: what this process has judged;
    own_replays: so many segments of the round are replayed for it at most."""
    judged = [one for one in done if isinstance(one, JudgeAudits) and one.round == state.index]
    left = own_replays - sum(one.is_replayed for one in judged)
    known = {(one.slot, one.draw, rank) for one in judged for rank in one.ranks}
    for found in _list_places(party, state, block, known):
        if found.is_replayed:
            left -= 1
        if left >= 0 or not found.is_replayed:
            yield found


def _list_places(party: Party, state: RoundState, block: int, known: set[AuditKey]) -> Iterator[JudgeAudits]:
    slots = [slot for slot in sorted(state.claims) if is_fallen(party, state, slot, block)]
    figures = assume_figures(state.terms.amounts.solver_pay)
    if not slots or not is_second_look_worth(state.terms.amounts, read_sampling(state.terms), figures):
        return
    for slot in slots:
        for draw in range(state.late_draw + 1):
            drawn = get_drawn(state, slot, draw)
            refs = [] if drawn is None else _list_accepting(party, state, slot, draw, drawn)
            refs = [ref for ref in refs if ref.key not in known]
            if drawn is None or all(is_accused(party, ref, drawn.segment) for ref in refs):
                continue
            is_at_hand = _find_own(party, refs[0], drawn) is not None
            is_at_hand = is_at_hand or all(is_found_false(party, ref, drawn.segment) for ref in refs)
            ranks = tuple(ref.rank for ref in refs)
            yield JudgeAudits(state.index, slot, draw, drawn.segment, ranks, not is_at_hand)


def is_fallen(party: Party, state: RoundState, slot: int, block: int) -> bool:
    """Whether the audits of another's claim are worth a look while they can be disputed: it was convicted, or
    this node has accused it and the last window of disputes is open. Whoever is disputed there can play for
    time until its auditors are out of reach."""
    end = get_settle_block(state, block)
    if slot in state.settled_slots or slot == get_slot(state, party.account) or block >= end:
        return False
    if get_claim(state, slot).status == ClaimStatus.CONVICTED:
        return True
    places = {(claim.audit.round, claim.audit.slot) for claim in list_open_accusations(party)}
    return (state.index, slot) in places and block >= end - state.terms.windows.dispute


def list_open_accusations(party: Party) -> list[ClaimRef]:
    """Claims of solvers that this node has accused, but for those of which its own dispute was closed: where
    it proved nothing its replay may be what is far off, and it accuses nobody else for that."""
    disputes = party.view.disputes[party.task].disputes.values()
    closed = {one.claim for one in disputes if one.opener == party.account and one.stage == Stage.CLOSED}
    made = [to_claim(one) for one in party.memory.accusations if one.by_solver]
    return [claim for claim in made if claim not in closed]


def _list_accepting(party: Party, state: RoundState, slot: int, draw: int, drawn: Drawn) -> list[AuditRef]:
    """Audits of others that say the opened end is right."""
    others = [rank for rank, auditor in enumerate(drawn.auditors) if auditor != party.account]
    accepting = [rank for rank in others if is_accepting(state, (slot, draw, rank))]
    return [get_audit_ref(state, slot, draw, rank) for rank in accepting]


def is_accused(party: Party, ref: AuditRef, segment: int) -> bool:
    """Whether this node has accused an auditor, or somebody has convicted it. Whoever else disputes it may be
    its accomplice, and before it has looked at the segment this node cannot tell."""
    claim = ClaimRef(ref, segment, by_solver=False)
    if any(to_claim(made) == claim for made in party.memory.accusations):
        return True
    return is_pursued(list_disputes_on(party, claim), party.account, {}, closes_block=0)


def is_found_false(party: Party, ref: AuditRef, segment: int) -> bool:
    """Whether this node has found already that what an auditor handed in is false: it is the end for which it
    accused the solver."""
    state = party.round(ref.round)
    is_equal = get_audit(state, ref.key).revealed == get_opening(state, ref.slot, ref.draw).end
    return is_equal and name_solver_claim(ref, segment) in list_open_accusations(party)


def _find_own(party: Party, ref: AuditRef, drawn: Drawn) -> StateHeader | None:
    """The end that this node found as an auditor of the same draw."""
    ranks = [rank for rank, auditor in enumerate(drawn.auditors) if auditor == party.account]
    state = party.round(ref.round)
    made = [party.memory.find_audit(state, (ref.slot, ref.draw, rank)) for rank in ranks]
    return next((header_of(one) for one in made if one is not None), None)


# --- Judging ------------------------------------------------------------------------------------------------
async def judge_audits(party: Party, found: JudgeAudits, train: Train) -> None:
    """Lay what these auditors handed in beside an own replay, and accuse those beyond the reject limits. What
    is not served for a window is told and left alone."""
    state = party.round(found.round)
    refs = [get_audit_ref(state, found.slot, found.draw, rank) for rank in found.ranks]
    refs = [ref for ref in refs if not is_accused(party, ref, found.segment)]
    known = [ref for ref in refs if is_found_false(party, ref, found.segment)]
    for ref in known:
        _accuse(party, ref, found.segment, "what its solver was accused of")
    rest = [ref for ref in refs if ref not in known]
    if rest:
        try:
            async with party.joined.locks["judge", (found.round, found.slot)]:
                await _judge_rest(party, rest, found, train)
        except NotServed as fault:
            party.say(f"round {found.round} slot {found.slot} segment {found.segment}: {fault.what}")


def _accuse(party: Party, ref: AuditRef, segment: int, what: str) -> None:
    auditor = get_audit(party.round(ref.round), ref.key).auditor
    party.say(f"round {ref.round} slot {ref.slot} segment {segment}: {auditor} stands by {what}: accused")
    accuse(party, ClaimRef(ref, segment, by_solver=False))


async def _judge_rest(party: Party, refs: list[AuditRef], found: JudgeAudits, train: Train) -> None:
    """`refs`: audits of one draw. What was fetched is gone afterwards, but for the start that a dispute of
    them needs."""
    until_block, borrowed = party.view.head_block + party.spec.terms.windows.dispute, list[BlobRef]()
    start = get_opening(party.round(found.round), found.slot, found.draw).start
    assert start is not None
    needed: set[BlobKey] = set()
    try:
        own = await _get_own_end(party, refs[0], found, start, until_block, train, borrowed)
        for ref in refs:
            verdict = await _judge(party, ref, (start, own), found.segment, until_block, borrowed, train)
            if verdict is not None and verdict.judgement == Judgement.REJECT:
                needed = _list_keys(start)
                what = f"a state that is {verdict.excess:.3g} times beyond the reject limit"
                _accuse(party, ref, found.segment, what)
    finally:
        for key in {blob.key for blob in borrowed} - needed - _list_own(party, found.slot, found.round):
            party.store.delete(key)


async def _get_own_end(
    party: Party,
    ref: AuditRef,
    found: JudgeAudits,
    start: StateHeader,
    until_block: int,
    train: Train,
    borrowed: list[BlobRef],
) -> StateHeader:
    drawn = get_drawn(party.round(ref.round), ref.slot, ref.draw)
    assert drawn is not None
    own = _find_own(party, ref, drawn)
    if own is not None:
        return own
    borrowed += _list_missing(party, start)
    await fetch_served(party, ref, start, until_block)
    batches = get_dealt_batches(party, found.round, found.slot)
    own = await asyncio.to_thread(train_stored, party, start, found.segment, batches, train)
    borrowed += refer_state(own, party.spec.terms.parameter_count)
    return own


async def _judge(
    party: Party,
    ref: AuditRef,
    ends: tuple[StateHeader, StateHeader],
    segment: int,
    until_block: int,
    borrowed: list[BlobRef],
    train: Train,
) -> Verdict | None:
    """What the limits say of an auditor's end; None where it is bit-equal to the own one. ends: the segment's
    start, and what this node made of it."""
    state = party.round(ref.round)
    audit, solver = get_audit(state, ref.key), state.solvers[ref.slot]
    end = audit.revealed
    assert end is not None
    start, own = ends
    if end == own:
        return None
    borrowed += _list_missing(party, end)

    async def ask() -> None:
        # The end that it shares with the solver either of them shows.
        peers = [party.view.network.find(account) for account in (audit.auditor, solver)]
        await fetch_tensors(party, peers, end)

    await ask_until(party, ask, until_block, f"the end that {audit.auditor} revealed")
    borrowed += _list_missing(party, start)
    await fetch_served(party, ref, start, until_block)
    seen = await judge_ends(party, ref, segment, (start, end, own), train, until_block)
    return seen.verdict


def _list_keys(*headers: StateHeader | None) -> set[BlobKey]:
    return {ref.key for header in headers if header is not None for ref in refer_state(header, 1)}


def _list_own(party: Party, slot: int, index: int) -> set[BlobKey]:
    """What this node's own audits of a claim stand on: a state may be the end of one, another's start."""
    state, keys = party.round(index), set[BlobKey]()
    for ref in list_audits_of(state, party.account):
        if ref.slot == slot:
            opening, made = get_opening(state, slot, ref.draw), party.memory.audits.get((index, *ref.key))
            keys |= _list_keys(opening.start, opening.end, None if made is None else header_of(made))
    return keys


def _list_missing(party: Party, header: StateHeader) -> list[BlobRef]:
    refs = refer_state(header, party.spec.terms.parameter_count)
    return [ref for ref in refs if not party.store.has(ref)]
