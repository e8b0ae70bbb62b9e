"""Which calls the contracts refuse, in the order in which they look. Twin of every `revert` of a round.

Error names are Solidity's. What only hashing can tell comes as a fact of the call (`calls.py`); money (free
stake, escrow) and whether a contract knows the task are left to the chain.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from protocol.spec import calls
from protocol.spec.calls import Call
from protocol.spec.clock import NEVER
from protocol.spec.drawn import Drawn, compute_leaf_indices, get_auditor, get_drawn
from protocol.spec.params import PHASE_LATE, PHASE_PRIMARY, PHASE_RESERVES
from protocol.spec.round import (
    OuterRoot,
    RoundState,
    get_audit,
    get_audit_deadlines,
    get_claim,
    get_enrolled,
    get_included,
    get_late_deadlines,
    get_merge_by,
    get_opening,
    get_phase,
    get_role,
    get_settle_block,
    get_slot,
    is_empty,
)
from protocol.spec.statuses import (
    FINAL_CLAIM_STATUSES,
    AuditRef,
    AuditStatus,
    ClaimStatus,
    Role,
    RoundStatus,
)
from protocol.spec.verdict import judge_once

TRAINED = (RoundStatus.TRAINING, RoundStatus.MERGED)


@dataclass(frozen=True)
class RuleViolation:
    """A refusal: the Solidity error's name; its arguments by snake-case name as far as the state knows."""

    name: str
    values: Mapping[str, Any]


Refusal = RuleViolation | None


def check_call(state: RoundState, call: Call, sender: str, block: int) -> Refusal:
    """Why the contracts refuse `call` of `sender` in `block`, the block that would hold it; None: they don't.

    Raises KeyError on an action that is no contract call."""
    return _GUARDS[type(call)](state, call, sender, block)


def _refuse(name: str, **values: Any) -> RuleViolation:
    return RuleViolation(name, values)


def _check_window(opens: int, closes: int, block: int) -> Refusal:
    if opens <= block < closes:
        return None
    return _refuse("OutsideWindow", opens_block=opens, closes_block=closes, block_number=block)


def get_status(state: RoundState, block: int) -> RoundStatus:
    """The round's status; an overdue beacon makes it EMPTY before anybody says so."""
    return RoundStatus.EMPTY if is_empty(state, block) else state.status


def _check_trained(state: RoundState, block: int) -> Refusal:
    status = get_status(state, block)
    return None if status in TRAINED else _refuse("RoundNotTrained", actual=status)


# --- TaskRegistry -------------------------------------------------------------------------------------------
def _check_enrol(state: RoundState, call: calls.Enrol, sender: str, block: int) -> Refusal:
    if state.is_advanced:
        return _refuse("WrongRound", actual=state.index)
    if refusal := _check_window(state.start_block, state.deadlines.enrol_end, block):
        return refusal
    if get_role(state, sender) != Role.NONE:
        return _refuse("AlreadyEnrolled", account=sender)
    capacity = get_capacity(state, call.role)
    is_full = len(get_enrolled(state, call.role)) >= capacity
    return _refuse("RoundFull", role=call.role, capacity=capacity) if is_full else None


def get_capacity(state: RoundState, role: Role) -> int:
    """Seats of a role in a round."""
    terms = state.terms
    seats = {Role.SOLVER: terms.max_solvers, Role.VERIFIER: terms.max_verifiers}
    return seats.get(role, terms.max_whistleblowers if role == Role.WHISTLEBLOWER else 0)


def _check_seal_beacon(state: RoundState, call: calls.SealBeacon, sender: str, block: int) -> Refusal:
    if state.status != RoundStatus.ENROLLING:
        # The registry hears of the merge when it starts the next round.
        is_unheard = state.status == RoundStatus.MERGED and not state.is_advanced
        actual = RoundStatus.TRAINING if is_unheard else state.status
        return _refuse("WrongStatus", expected=int(RoundStatus.ENROLLING), actual=int(actual))
    return _check_window(state.deadlines.beacon_block + 1, state.deadlines.beacon_end, block)


def _check_advance(state: RoundState, call: calls.Advance, sender: str, block: int) -> Refusal:
    # The contract advances whatever round runs: a repeated call is about the one that was just started.
    if state.index + state.is_advanced + 1 >= state.terms.rounds:
        return _refuse("TaskFinished", task=state.task)
    if state.is_advanced:
        return _refuse("NotYet", block_number=block)
    if is_empty(state, block):
        return None
    if state.status == RoundStatus.ENROLLING:
        return _refuse("NotYet", ready_block=state.deadlines.beacon_end, block_number=block)
    ready = state.ready_block
    if ready is None or block < ready or state.contests:
        return _refuse("NotYet", ready_block=ready or 0, block_number=block)
    return None


# --- RoundLedger --------------------------------------------------------------------------------------------
def _check_commit(state: RoundState, call: calls.CommitClaim, sender: str, block: int) -> Refusal:
    if refusal := _check_trained(state, block):
        return refusal
    if refusal := _check_window(state.deadlines.beacon_block + 1, state.deadlines.train_end, block):
        return refusal
    slot = get_slot(state, sender)
    if slot is None:
        return _refuse("NotEnrolled", account=sender)
    if get_claim(state, slot).status != ClaimStatus.NONE:
        return _refuse("AlreadyCommitted", slot=slot)
    if not call.is_start_expected:
        return _refuse("WrongStart")
    return None if call.is_proof_valid else _refuse("BoundaryMismatch", boundary=0)


def _check_seal_draw(state: RoundState, call: calls.SealDraw, sender: str, block: int) -> Refusal:
    if refusal := _check_trained(state, block):
        return refusal
    if state.draw_seed is not None:
        return _refuse("AlreadySealed", seed=state.draw_seed)
    return _check_window(state.deadlines.draw_block + 1, state.deadlines.draw_end, block)


def _check_judge(state: RoundState, call: calls.Judge, sender: str, block: int) -> Refusal:
    if refusal := _check_trained(state, block) or _check_slot(state, call.slot):
        return refusal
    if judge_once(state, call.slot, block) is None:
        return _refuse("NothingDue", slot=call.slot, actual=get_claim(state, call.slot).status)
    return None


def _check_slot(state: RoundState, slot: int) -> Refusal:
    if 0 <= slot < len(state.solvers):
        return None
    return _refuse("SlotUnknown", slot=slot, solvers=len(state.solvers))


def _check_post_outer(state: RoundState, call: calls.PostOuter, sender: str, block: int) -> Refusal:
    if refusal := _check_trained(state, block):
        return refusal
    if state.outer is not None:
        return _refuse_merged(state.outer)
    judged = sum(claim.status in FINAL_CLAIM_STATUSES for claim in state.claims.values())
    if judged != len(state.solvers):
        return _refuse("NotJudged", judged=judged, expected=len(state.solvers))
    if len(call.included) != (accepted := len(get_included(state))):
        return _refuse("OtherSet", included=len(call.included), accepted=accepted)
    return None


def is_merged(state: RoundState, block: int) -> bool:
    """Whether the outer root stands: posted, its merge window over, not contested."""
    return state.ready_block is not None and block >= state.ready_block and not state.contests


def _check_settle_merge(state: RoundState, call: calls.SettleMerge, sender: str, block: int) -> Refusal:
    if refusal := _check_trained(state, block):
        return refusal
    if not is_merged(state, block):
        known = {} if state.ready_block is None else {"ready_block": state.ready_block}
        return _refuse("NotMerged", **known, block_number=block)
    if state.outer is None or (not state.is_merge_settled and has_poster(state)):
        return None
    return _refuse_merged(state.outer)


def _refuse_merged(outer: OuterRoot) -> RuleViolation:
    return _refuse("AlreadyMerged", poster=outer.poster, posted_block=outer.posted_block)


def has_poster(state: RoundState) -> bool:
    """Whether somebody posted the outer root: with no accepted claim it is merged by itself."""
    return state.outer is not None and int(state.outer.poster, 16) != 0


def _check_seal_late(state: RoundState, call: calls.SealLate, sender: str, block: int) -> Refusal:
    if refusal := _check_trained(state, block):
        return refusal
    if state.late_seed is not None:
        return _refuse("AlreadySealed", seed=state.late_seed)
    late = get_late_deadlines(state, block)
    if late is None:
        return _refuse("NotMerged", ready_block=get_merge_by(state), block_number=block)
    return _check_window(late.late_block + 1, late.late_end, block)


def _check_settle_claim(state: RoundState, call: calls.SettleClaim, sender: str, block: int) -> Refusal:
    if refusal := _check_slot(state, call.slot):
        return refusal
    if call.slot in state.settled_slots:
        return _refuse("AlreadySettled", slot=call.slot)
    if is_empty(state, block):
        return None
    if refusal := _check_trained(state, block):
        return refusal
    if refusal := _check_window(get_settle_block(state, block), NEVER, block):
        return refusal
    is_disputed = call.slot in state.open_disputes.values()
    return _refuse("DisputeOpen", slot=call.slot) if is_disputed else None


def _check_settle_enrolments(
    state: RoundState, call: calls.SettleEnrolments, sender: str, block: int
) -> Refusal:
    if is_empty(state, block):
        return None
    if refusal := _check_trained(state, block):
        return refusal
    settled, expected = len(state.settled_slots), len(state.solvers)
    return None if settled == expected else _refuse("RoundNotSettled", settled=settled, expected=expected)


# --- AuditBook: the solver ----------------------------------------------------------------------------------
@dataclass(frozen=True)
class _SolverFrame:
    slot: int
    drawn: Drawn


def _get_solver_frame(state: RoundState, draw: int, sender: str) -> _SolverFrame | RuleViolation:
    slot = get_slot(state, sender)
    if slot is None:
        return _refuse("NotSolver", actual=sender)
    drawn = get_drawn(state, slot, draw)
    return _refuse("NotDrawn", slot=slot, draw=draw, rank=0) if drawn is None else _SolverFrame(slot, drawn)


def _check_open_start(state: RoundState, call: calls.OpenStart, sender: str, block: int) -> Refusal:
    frame = _get_solver_frame(state, call.draw, sender)
    if isinstance(frame, RuleViolation):
        return frame
    clock = get_audit_deadlines(state, get_phase(state, call.draw, 0), block)
    if refusal := _check_window(0, clock.start_end if clock else 0, block):
        return refusal
    if get_opening(state, frame.slot, call.draw).start is not None:
        return _refuse("AlreadyOpened", slot=frame.slot, draw=call.draw)
    is_right = call.is_proof_valid and call.boundary == frame.drawn.segment
    return None if is_right else _refuse("BoundaryMismatch", boundary=frame.drawn.segment)


def _check_open_end(state: RoundState, call: calls.OpenEnd, sender: str, block: int) -> Refusal:
    frame = _get_solver_frame(state, call.draw, sender)
    if isinstance(frame, RuleViolation):
        return frame
    if refusal := _check_show(state, get_phase(state, call.draw, 0), block):
        return refusal
    opening, last = get_opening(state, frame.slot, call.draw), state.terms.segment_count
    if opening.end is not None:
        return _refuse("AlreadyOpened", slot=frame.slot, draw=call.draw)
    if opening.start is None:
        return _refuse("StartNotOpened", slot=frame.slot, draw=call.draw)
    boundaries = (frame.drawn.segment + 1, last)
    is_right = call.is_proof_valid and (call.boundary, call.last_boundary) == boundaries
    return None if is_right else _refuse("BoundaryMismatch", boundary=boundaries[0])


def _check_show(state: RoundState, phase: int, block: int) -> Refusal:
    clock = get_audit_deadlines(state, phase, block)
    return _check_window(clock.replay_end if clock else 0, clock.show_end if clock else 0, block)


def _check_open_leaves(state: RoundState, call: calls.OpenLeaves, sender: str, block: int) -> Refusal:
    frame = _get_solver_frame(state, call.draw, sender)
    if isinstance(frame, RuleViolation):
        return frame
    if call.phase > PHASE_LATE or (call.phase == PHASE_LATE) != (call.draw == state.late_draw):
        return _refuse("WrongPhase", draw=call.draw, phase=call.phase)
    clock = get_audit_deadlines(state, call.phase, block)
    opens, closes = (clock.leaves_block, clock.open_end) if clock else (0, 0)
    if refusal := _check_window(opens, closes, block):
        return refusal
    opening, where = get_opening(state, frame.slot, call.draw), {"slot": frame.slot, "draw": call.draw}
    if opening.end is None:
        return _refuse("EndNotOpened", **where)
    if call.phase in opening.leaf_phases:
        return _refuse("AlreadyOpened", **where)
    if call.phase not in state.leaf_seeds:
        return _refuse("LeavesNotOpened", **where, phase=call.phase)
    return _check_leaves(state, frame.slot, call.draw, call.phase, call.indices, call.is_proof_valid)


def _check_leaves(
    state: RoundState, slot: int, draw: int, phase: int, indices: tuple[int, ...], is_valid: bool
) -> Refusal:
    expected = compute_leaf_indices(state, slot, draw, phase)
    if len(indices) != len(expected):
        return _refuse("WrongLeafCount", expected=len(expected), actual=len(indices))
    return None if is_valid and indices == expected else _refuse("LeafMismatch")


# --- AuditBook: the auditor ---------------------------------------------------------------------------------
def _check_auditor(state: RoundState, ref: AuditRef, sender: str, expected: AuditStatus) -> Refusal:
    auditor = get_auditor(state, ref.key)
    if auditor is None:
        return _refuse("NotDrawn", slot=ref.slot, draw=ref.draw, rank=ref.rank)
    if auditor != sender:
        return _refuse("NotAuditor", expected=auditor, actual=sender)
    actual = get_audit(state, ref.key).status
    return None if actual == expected else _refuse("WrongAuditStatus", expected=expected, actual=actual)


def _check_take_up(
    state: RoundState, call: calls.CommitReplay | calls.SayUnserved | calls.Abstain, sender: str, block: int
) -> Refusal:
    ref = call.audit
    if refusal := _check_auditor(state, ref, sender, AuditStatus.NONE):
        return refusal
    phase = get_phase(state, ref.draw, ref.rank)
    clock = get_audit_deadlines(state, phase, block)
    opens, closes = (clock.replay_opens, clock.replay_end) if clock else (0, 0)
    if refusal := _check_window(opens, closes, block):
        return refusal
    if get_opening(state, ref.slot, ref.draw).start is None:
        return _refuse("StartNotOpened", slot=ref.slot, draw=ref.draw)
    is_called = phase != PHASE_RESERVES or ref.draw in get_claim(state, ref.slot).escalated_draws
    return None if is_called else _refuse("NotEscalated", slot=ref.slot, draw=ref.draw)


def _check_reveal(state: RoundState, call: calls.Reveal, sender: str, block: int) -> Refusal:
    ref = call.audit
    if refusal := _check_auditor(state, ref, sender, AuditStatus.COMMITTED):
        return refusal
    if refusal := _check_show(state, get_phase(state, ref.draw, ref.rank), block):
        return refusal
    return None if call.is_commitment_met else _refuse("CommitmentMismatch")


def _check_compare(state: RoundState, call: calls.CompareLeaves, sender: str, block: int) -> Refusal:
    ref, phase = call.audit, get_phase(state, call.audit.draw, call.audit.rank)
    if refusal := _check_auditor(state, ref, sender, AuditStatus.REVEALED):
        return refusal
    clock = get_audit_deadlines(state, phase, block)
    opens, closes = (clock.leaves_block, clock.compare_end) if clock else (0, 0)
    if refusal := _check_window(opens, closes, block):
        return refusal
    if phase not in get_opening(state, ref.slot, ref.draw).leaf_phases:
        return _refuse("LeavesNotOpened", slot=ref.slot, draw=ref.draw, phase=phase)
    drawn = len(compute_leaf_indices(state, ref.slot, ref.draw, phase))
    indices = call.indices if len(call.indices) != drawn + 1 else call.indices[:drawn]
    return _check_leaves(state, ref.slot, ref.draw, phase, indices, call.are_proofs_valid)


def _check_seal_leaves(state: RoundState, call: calls.SealLeaves, sender: str, block: int) -> Refusal:
    if not PHASE_PRIMARY <= call.phase <= PHASE_LATE:
        return _refuse("WrongPhase", draw=0, phase=call.phase)
    if call.phase in state.leaf_seeds:
        return _refuse("AlreadySealed", seed=state.leaf_seeds[call.phase])
    clock = get_audit_deadlines(state, call.phase, block)
    # Before the merge is known every late window is empty: it closes at block 0.
    return _check_window((clock.leaves_block if clock else 0) + 1, clock.leaves_end if clock else 0, block)


_GUARDS: dict[type[Call], Callable[[RoundState, Any, str, int], Refusal]] = {
    calls.Enrol: _check_enrol,
    calls.SealBeacon: _check_seal_beacon,
    calls.Advance: _check_advance,
    calls.CommitClaim: _check_commit,
    calls.SealDraw: _check_seal_draw,
    calls.Judge: _check_judge,
    calls.PostOuter: _check_post_outer,
    calls.SettleMerge: _check_settle_merge,
    calls.SealLate: _check_seal_late,
    calls.SettleClaim: _check_settle_claim,
    calls.SettleEnrolments: _check_settle_enrolments,
    calls.OpenStart: _check_open_start,
    calls.OpenEnd: _check_open_end,
    calls.OpenLeaves: _check_open_leaves,
    calls.CommitReplay: _check_take_up,
    calls.SayUnserved: _check_take_up,
    calls.Abstain: _check_take_up,
    calls.Reveal: _check_reveal,
    calls.CompareLeaves: _check_compare,
    calls.SealLeaves: _check_seal_leaves,
}
