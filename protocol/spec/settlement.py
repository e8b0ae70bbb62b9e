"""Who is paid and who loses what at settlement. Twin of `RoundLedger.settleClaim`, `AuditBook.settle`."""

from dataclasses import dataclass

from protocol.spec.drawn import get_auditor
from protocol.spec.hashing import tag_word
from protocol.spec.params import MIN_VERIFIERS
from protocol.spec.round import AuditKey, RoundState, get_audit, get_claim, get_opening, is_empty
from protocol.spec.statuses import AuditStatus, ClaimStatus
from protocol.spec.verdict import (
    PAY_BURNING,
    SILENT,
    Enforcement,
    Penalty,
    PenaltyKind,
    Verdict,
    apply_verdict,
    enforce,
    judge,
    was_called_late,
)

REVEALED_STATUSES = frozenset({AuditStatus.REVEALED, AuditStatus.ACCEPTS, AuditStatus.REJECTS})
"""Paid at settlement, and disputable."""
SILENCE_DIVISOR = 2
"""Of the fees that silent reserves burned their solver gets at most one part in two."""


@dataclass(frozen=True)
class Settlement:
    """What settling a claim does. verdicts: what nobody had judged; penalties: beyond those of the verdicts;
    forfeit_reason: why an accepted solver's late audit cost it F and its pay, empty where it did not;
    silence_pay_wei: what a solver whose auditors said nothing gets of its pay (as far as their enrolments
    held the fees); burned_pay_wei: what a void claim keeps from its submitter."""

    verdicts: tuple[Verdict, ...] = ()
    penalties: tuple[Penalty, ...] = ()
    audits: tuple[tuple[AuditKey, AuditStatus], ...] = ()
    paid_auditors: tuple[str, ...] = ()
    is_solver_paid: bool = False
    forfeit_reason: str = ""
    silence_pay_wei: int = 0
    burned_pay_wei: int = 0


def settle(state: RoundState, slot: int, block: int) -> Settlement:
    """What settleClaim does at `block`; only meaningful where the guard lets the call pass."""
    if is_empty(state, block):
        return Settlement()
    verdicts = judge(state, slot, block)
    for verdict in verdicts:
        state = apply_verdict(state, verdict, block)
    late = enforce(state, (slot, state.late_draw, 0), block)
    forfeit, claim = _find_forfeit(state, slot, late), get_claim(state, slot)
    own = [Penalty(claim.solver, PenaltyKind.FEE, tag_word(forfeit))] if forfeit else []
    done = [late, *_end_silences(state, slot, block)]
    changed = [one for one in done if one.status != AuditStatus.NONE]
    is_burned = claim.status == ClaimStatus.VOID and claim.reason in PAY_BURNING
    silence_pay_wei = _compute_silence_pay(state, slot) if is_burned else 0
    paid = [get_audit(state, one.key).auditor for one in changed if one.status in REVEALED_STATUSES]
    return Settlement(
        verdicts=verdicts,
        penalties=(*(one.penalty for one in done if one.penalty is not None), *own),
        audits=tuple((one.key, one.status) for one in changed),
        paid_auditors=tuple(paid),
        is_solver_paid=claim.status == ClaimStatus.ACCEPTED and not forfeit,
        forfeit_reason=forfeit,
        silence_pay_wei=silence_pay_wei,
        burned_pay_wei=state.terms.amounts.solver_pay - silence_pay_wei if is_burned else 0,
    )


def _compute_silence_pay(state: RoundState, slot: int) -> int:
    """Of a claim that is void because nobody spoke: a part of what its reserves burned for that, in wei."""
    claim, amounts = get_claim(state, slot), state.terms.amounts
    if claim.reason != tag_word(SILENT) or was_called_late(state, slot):
        return 0
    keys = [(slot, draw, rank) for draw in claim.escalated_draws for rank in range(1, MIN_VERIFIERS)]
    silent = sum(get_audit(state, key).status == AuditStatus.NONE for key in keys)
    return min(amounts.solver_pay, silent * amounts.no_show_fee // SILENCE_DIVISOR)


def _find_forfeit(state: RoundState, slot: int, late: Enforcement) -> str:
    """What the solver failed to open in its late audit."""
    is_convicted = get_claim(state, slot).status == ClaimStatus.CONVICTED
    if is_convicted or get_auditor(state, late.key) is None:
        return ""
    opening = get_opening(state, slot, state.late_draw)
    if opening.start is None or opening.end is None:
        return "start" if opening.start is None else "end"
    return "leaves" if late.status == AuditStatus.REVEALED else ""


def _end_silences(state: RoundState, slot: int, block: int) -> list[Enforcement]:
    """Slashes what nobody has slashed yet; fees fall with a verdict or not at all."""
    if not get_claim(state, slot).claim_root:
        return []
    ranks = range(MIN_VERIFIERS)
    keys = [(slot, draw, rank) for draw in range(state.terms.segment_draws) for rank in ranks]
    said = [key for key in keys if get_audit(state, key).status != AuditStatus.NONE]
    return [enforce(state, key, block) for key in said]
