"""What the clock and the audits decide. Twin of `RoundLedger.judge` and `AuditBook.enforce`.

Majorities decide merging and pay only. An account is slashed here for silence after a commitment, never for
what it said; convictions come from disputes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from protocol.spec.drawn import get_auditor
from protocol.spec.events import AuditJudged, AuditorConvicted, ClaimJudged, Event
from protocol.spec.hashing import tag_word
from protocol.spec.params import PHASE_PRIMARY
from protocol.spec.round import (
    AuditKey,
    RoundState,
    get_audit,
    get_audit_deadlines,
    get_claim,
    get_opening,
    get_phase,
    is_accepting,
    process_event,
)
from protocol.spec.statuses import AuditStatus, ClaimStatus, RoundStatus
from protocol.spec.tolerance import Judgement

MAJORITY = 2
"""of the three auditors of an escalated draw."""
SILENT, UNDECIDED, REJECTED = "silent", "undecided", "rejected"
"""Why a draw without a majority voids its claim: nobody but who accepts spoke, nobody rejects, somebody
rejects. From light to grave; whatever the solver failed to do is graver."""
BLAMELESS = (SILENT, UNDECIDED, REJECTED)
PAY_BURNING = frozenset({tag_word(SILENT), tag_word(UNDECIDED)})
"""Reasons of a void claim whose pay does not go back to the submitter."""


class PenaltyKind(IntEnum):
    """FEE: F is burned of the enrolment exposure. STAKE: the whole exposure of the claim is slashed."""

    FEE = 0
    STAKE = 1


@dataclass(frozen=True)
class Penalty:
    """What an account loses, and for what (a word as in the contracts' logs)."""

    account: str
    kind: PenaltyKind
    reason: bytes


@dataclass(frozen=True)
class Verdict:
    """One stage of judging a claim. audits: what enforcing the deadlines made of audits on the way."""

    slot: int
    status: ClaimStatus
    reason: bytes
    penalties: tuple[Penalty, ...] = ()
    audits: tuple[tuple[AuditKey, AuditStatus], ...] = ()


@dataclass(frozen=True)
class Enforcement:
    """An audit's status once its deadlines are applied, and what its auditor loses by it."""

    key: AuditKey
    status: AuditStatus
    penalty: Penalty | None = None


# --- Audits -------------------------------------------------------------------------------------------------
def enforce(state: RoundState, key: AuditKey, block: int) -> Enforcement:
    """Applies an audit's deadlines at `block`: F for silence, the stake for a result not shown.

    An audit still REVEALED after openEnd waits for a solver that did not open its end or its leaves."""
    audit, phase = get_audit(state, key), get_phase(state, key[1], key[2])
    clock = get_audit_deadlines(state, phase, block)
    if clock is None:
        return Enforcement(key, audit.status)
    if audit.status == AuditStatus.NONE:
        return _enforce_silence(state, key, block >= clock.replay_end)
    if audit.status == AuditStatus.COMMITTED and block >= clock.show_end:
        return _slash(key, audit.auditor, "unrevealed")
    if audit.status != AuditStatus.REVEALED:
        return Enforcement(key, audit.status)
    if is_accepting(state, key):
        return Enforcement(key, AuditStatus.ACCEPTS)
    opening = get_opening(state, key[0], key[1])
    if phase not in state.leaf_seeds and opening.end is not None and block >= clock.leaves_end:
        return Enforcement(key, AuditStatus.REJECTS)
    if phase in opening.leaf_phases and block >= clock.compare_end:
        return _slash(key, audit.auditor, "uncompared")
    return Enforcement(key, audit.status)


def _enforce_silence(state: RoundState, key: AuditKey, is_over: bool) -> Enforcement:
    auditor, is_started = get_auditor(state, key), get_opening(state, key[0], key[1]).start is not None
    if auditor is None or not is_started or not is_over:
        return Enforcement(key, AuditStatus.NONE)
    return Enforcement(key, AuditStatus.NONE, Penalty(auditor, PenaltyKind.FEE, tag_word("no replay")))


def _slash(key: AuditKey, auditor: str, reason: str) -> Enforcement:
    return Enforcement(key, AuditStatus.SLASHED, Penalty(auditor, PenaltyKind.STAKE, tag_word(reason)))


# --- Verdicts -----------------------------------------------------------------------------------------------
def judge(state: RoundState, slot: int, block: int) -> tuple[Verdict, ...]:
    """All stages of the verdict on a claim that are due at `block`, in order; empty where nothing is."""
    verdicts = []
    while (verdict := judge_once(state, slot, block)) is not None:
        verdicts.append(verdict)
        state = apply_verdict(state, verdict, block)
    return tuple(verdicts)


def judge_once(state: RoundState, slot: int, block: int) -> Verdict | None:
    """The next stage of the verdict on a claim, None where the clock does not allow one yet."""
    if state.status not in (RoundStatus.TRAINING, RoundStatus.MERGED):
        return None
    claim = get_claim(state, slot)
    if claim.status == ClaimStatus.NONE and block >= state.deadlines.train_end:
        return _fail(state, slot, "uncommitted", status=ClaimStatus.DROPPED)
    if claim.status == ClaimStatus.COMMITTED:
        return _judge_primaries(state, slot, block)
    if claim.status == ClaimStatus.ESCALATED and block >= state.deadlines.reserve_compare_end:
        return _judge_reserves(state, slot, block)
    return None


def _judge_primaries(state: RoundState, slot: int, block: int) -> Verdict | None:
    clock, q = state.deadlines, state.terms.segment_draws
    if state.draw_seed is None:
        return _fail(state, slot, "undrawn", fee=False) if block >= clock.draw_end else None
    if block < clock.start_end:
        return None
    openings = [get_opening(state, slot, draw) for draw in range(q)]
    if any(opening.start is None for opening in openings):
        return _fail(state, slot, "start")
    if block < clock.show_end:
        return None
    found = [enforce(state, (slot, draw, 0), block) for draw in range(q)]
    if any(opening.end is None for opening in openings):
        return _fail(state, slot, "end", found)
    if all(one.status == AuditStatus.ACCEPTS for one in found):
        return _verdict(slot, ClaimStatus.ACCEPTED, "accepted", found)
    if block < clock.open_end:
        return None
    missing = [PHASE_PRIMARY not in opening.leaf_phases for opening in openings]
    if any(one.status == AuditStatus.REVEALED and missing[one.key[1]] for one in found):
        return _fail(state, slot, "leaves", found)
    return _verdict(slot, ClaimStatus.ESCALATED, "primary", found) if block >= clock.compare_end else None


def _judge_reserves(state: RoundState, slot: int, block: int) -> Verdict:
    draws = sorted(get_claim(state, slot).escalated_draws)
    is_late = was_called_late(state, slot)
    found = {
        draw: [_enforce_called(state, (slot, draw, rank), block, is_late) for rank in range(3)]
        for draw in draws
    }
    reasons = [reason for reason in (_judge_draw(found[draw]) for draw in draws) if reason]
    done = [one for draw in draws for one in found[draw] if one.key[2] > 0]
    if not reasons:
        return _verdict(slot, ClaimStatus.ACCEPTED, "accepted", done)
    reason = max(reasons, key=_weigh_reason)
    unserved = [
        Penalty(get_audit(state, one.key).auditor, PenaltyKind.FEE, tag_word("unserved"))
        for draw in draws
        if _judge_draw(found[draw]) == "unserved"
        for one in found[draw]
        if one.status == AuditStatus.UNSERVED
    ]
    return _fail(state, slot, reason, done, fee=reason not in BLAMELESS, more=unserved)


def _weigh_reason(reason: str) -> int:
    return BLAMELESS.index(reason) if reason in BLAMELESS else len(BLAMELESS)


def was_called_late(state: RoundState, slot: int) -> bool:
    """Whether the reserves of an escalated claim were called when half of their replay window was over:
    whoever of them says nothing then pays no fee."""
    call_end = state.deadlines.compare_end + state.terms.windows.replay // 2
    return get_claim(state, slot).escalated_block >= call_end


def _enforce_called(state: RoundState, key: AuditKey, block: int, is_late: bool) -> Enforcement:
    found = enforce(state, key, block)
    return replace(found, penalty=None) if is_late and found.status == AuditStatus.NONE else found


def _judge_draw(found: list[Enforcement]) -> str:
    """Why an escalated draw voids the claim; empty when two of its three auditors accept."""
    statuses = [one.status for one in found]
    if AuditStatus.REVEALED in statuses:
        return "leaves"
    if statuses.count(AuditStatus.ACCEPTS) >= MAJORITY:
        return ""
    if statuses.count(AuditStatus.UNSERVED) >= MAJORITY:
        return "unserved"
    if AuditStatus.REJECTS in statuses:
        return REJECTED
    is_silent = set(statuses) <= {AuditStatus.NONE, AuditStatus.ACCEPTS}
    return SILENT if is_silent else UNDECIDED


def _verdict(
    slot: int, status: ClaimStatus, reason: str, found: list[Enforcement], more: tuple[Penalty, ...] = ()
) -> Verdict:
    penalties = tuple(one.penalty for one in found if one.penalty is not None)
    audits = tuple((one.key, one.status) for one in found if one.status != AuditStatus.NONE)
    return Verdict(slot, status, tag_word(reason), (*penalties, *more), audits)


def _fail(
    state: RoundState,
    slot: int,
    reason: str,
    found: list[Enforcement] | None = None,
    *,
    status: ClaimStatus = ClaimStatus.VOID,
    fee: bool = True,
    more: list[Penalty] | None = None,
) -> Verdict:
    own = [Penalty(state.solvers[slot], PenaltyKind.FEE, tag_word(reason))] if fee else []
    return _verdict(slot, status, reason, found or [], (*(more or []), *own))


def apply_verdict(state: RoundState, verdict: Verdict, block: int) -> RoundState:
    """The state after the events that the contract logs for a verdict."""
    for event in get_verdict_events(state, verdict, block):
        state = process_event(state, event)
    return state


def get_verdict_events(state: RoundState, verdict: Verdict, block: int) -> Iterator[Event]:
    """The events of a verdict, without those of the merge of an empty set."""
    yield from get_audit_events(state, verdict.audits, block)
    yield ClaimJudged(
        block_number=block,
        task=state.task,
        round=state.index,
        slot=verdict.slot,
        status=verdict.status,
        reason=verdict.reason,
    )


def get_audit_events(
    state: RoundState, audits: tuple[tuple[AuditKey, AuditStatus], ...], block: int
) -> Iterator[Event]:
    """The events of audits whose status the deadlines changed."""
    for key, status in audits:
        audit, (slot, draw, rank) = get_audit(state, key), key
        where: dict[str, Any] = {"block_number": block, "task": state.task, "round": state.index}
        where |= {"slot": slot, "draw": draw, "rank": rank}
        if audit.status == status:
            continue
        if status == AuditStatus.SLASHED:
            yield AuditorConvicted(**where, auditor=audit.auditor, reason=tag_word("silent"))
        else:
            yield AuditJudged(**where, status=status, worst=Judgement.GREY)
