"""What each role must do next: (state, me, block) -> actions. A role performs them and asks again.

`block` is the block that would hold a call sent now: the latest one + 1. An action is returned as long as it
is due and the state does not show it done, so a role that restarts asks the same question and gets the same
answer. Every contract call returned here passes `guards.check_call` in that block (a test holds this).
"""

from collections.abc import Iterator
from operator import itemgetter

from protocol.spec import calls
from protocol.spec.calls import Call
from protocol.spec.clock import NEVER
from protocol.spec.drawn import (
    Drawn,
    compute_draws,
    compute_late_draws,
    compute_leaf_indices,
    get_auditor,
    get_drawn,
)
from protocol.spec.guards import check_call, get_status
from protocol.spec.params import PHASE_LATE, PHASE_PRIMARY, PHASE_RESERVES
from protocol.spec.round import (
    RoundState,
    get_audit,
    get_audit_deadlines,
    get_audit_ref,
    get_claim,
    get_merge_by,
    get_opening,
    get_phase,
    get_settle_block,
    get_shard,
    get_slot,
    is_accepting,
)
from protocol.spec.statuses import AuditRef, AuditStatus, ClaimStatus, Role, RoundStatus

LIVE = frozenset({ClaimStatus.COMMITTED, ClaimStatus.ESCALATED, ClaimStatus.ACCEPTED})
"""The solver still has something to gain by answering."""


# --- The solver ---------------------------------------------------------------------------------------------
def get_solver_actions(state: RoundState, me: str, block: int) -> tuple[Call, ...]:
    """What a solver must do: enrol, train and commit; open and serve its drawn segments; open leaves."""
    return tuple(_keep_due(state, me, block, _list_solver_actions(state, me, block)))


def _list_solver_actions(state: RoundState, me: str, block: int) -> Iterator[Call]:
    slot = get_slot(state, me)
    if slot is None:
        yield calls.Enrol(state.index, Role.SOLVER)
    elif get_claim(state, slot).status == ClaimStatus.NONE:
        if get_status(state, block) == RoundStatus.TRAINING and block < state.deadlines.train_end:
            yield calls.Train(state.index, slot, get_shard(state, slot))
        yield calls.CommitClaim(state.index)
    else:
        for draw in range(state.terms.segment_draws + 1):
            drawn = get_drawn(state, slot, draw)
            if drawn is not None:
                yield from _list_draw_actions(state, slot, draw, drawn, block)


def _list_draw_actions(state: RoundState, slot: int, draw: int, drawn: Drawn, block: int) -> Iterator[Call]:
    """A claim that failed owes nothing more; what was opened is served until settlement, for disputes."""
    opening, last = get_opening(state, slot, draw), state.terms.segment_count
    start, end = drawn.segment, drawn.segment + 1
    if get_claim(state, slot).status in LIVE:
        yield calls.OpenStart(state.index, draw, start)
        yield calls.OpenEnd(state.index, draw, end, last)
        phases = (PHASE_LATE,) if draw == state.late_draw else (PHASE_PRIMARY, PHASE_RESERVES)
        for phase in phases:
            if needs_leaves(state, slot, draw, phase):
                indices = compute_leaf_indices(state, slot, draw, phase)
                yield calls.OpenLeaves(state.index, draw, phase, indices)
    if opening.start is not None and slot not in state.settled_slots:
        shown = (start,) if opening.end is None else tuple(sorted({start, end, last}))
        yield calls.ServeState(state.index, slot, draw, shown, opening.end is not None)


def needs_leaves(state: RoundState, slot: int, draw: int, phase: int) -> bool:
    """Whether an auditor of this phase revealed a result that differs: leaves must be drawn and opened."""
    ranks = (1, 2) if phase == PHASE_RESERVES else (0,)
    return any(is_waiting_for_leaves(state, get_audit_ref(state, slot, draw, rank)) for rank in ranks)


def is_waiting_for_leaves(state: RoundState, ref: AuditRef) -> bool:
    """Whether an audit revealed a result other than the end that the solver opened."""
    is_open = get_opening(state, ref.slot, ref.draw).end is not None
    return (
        is_open
        and get_audit(state, ref.key).status == AuditStatus.REVEALED
        and not is_accepting(state, ref.key)
    )


# --- The auditors -------------------------------------------------------------------------------------------
def get_auditor_actions(
    state: RoundState, me: str, block: int, role: Role = Role.VERIFIER
) -> tuple[Call, ...]:
    """What a verifier (ranks 0 to 2) or whistleblower (late audits) must do: enrol as `role`, replay and
    commit (or say why not), reveal, compare leaves."""
    return tuple(_keep_due(state, me, block, _list_auditor_actions(state, me, block, role)))


def _list_auditor_actions(state: RoundState, me: str, block: int, role: Role) -> Iterator[Call]:
    if me not in state.verifiers and me not in state.whistleblowers:
        yield calls.Enrol(state.index, role)
        return
    for ref in list_audits_of(state, me):
        phase = get_phase(state, ref.draw, ref.rank)
        if is_wanted(state, ref, block):
            drawn = get_drawn(state, ref.slot, ref.draw)
            segment = drawn.segment if drawn else 0
            yield calls.Replay(state.index, ref, segment)
            yield calls.CommitReplay(state.index, ref, segment)
        yield calls.Reveal(state.index, ref)
        if is_waiting_for_leaves(state, ref):
            indices = compute_leaf_indices(state, ref.slot, ref.draw, phase)
            yield calls.CompareLeaves(state.index, ref, indices)


def list_audits_of(state: RoundState, account: str) -> tuple[AuditRef, ...]:
    """All audits that the draws gave to an account, reserves that were never called included."""
    draws = {**compute_draws(state), **compute_late_draws(state)}
    return tuple(
        get_audit_ref(state, slot, draw, rank)
        for (slot, draw), drawn in sorted(draws.items(), key=itemgetter(0))
        for rank, auditor in enumerate(drawn.auditors)
        if auditor == account
    )


def is_wanted(state: RoundState, ref: AuditRef, block: int) -> bool:
    """Whether a replay is worth starting: the start is open, nothing was said, the claim is still judged.

    Late audits are wanted whatever became of the claim: silence costs F."""
    wanted = {PHASE_PRIMARY: ClaimStatus.COMMITTED, PHASE_RESERVES: ClaimStatus.ESCALATED}
    phase, status = get_phase(state, ref.draw, ref.rank), get_claim(state, ref.slot).status
    call = calls.CommitReplay(state.index, ref, 0)
    auditor = get_auditor(state, ref.key) or ""
    is_live = status == wanted.get(phase, status)
    return is_live and check_call(state, call, auditor, block) is None


def _keep_due(state: RoundState, me: str, block: int, actions: Iterator[Call]) -> Iterator[Call]:
    for action in actions:
        if isinstance(action, calls.OFF_CHAIN) or check_call(state, action, me, block) is None:
            yield action


def get_next_deadline(state: RoundState, block: int) -> int:
    """The first block after `block` in which anything can become due for anybody by the clock alone; NEVER
    when the round has nothing left. Events (an opening, a reveal) make things due at any time."""
    others = (get_merge_by(state), get_settle_block(state, block), state.ready_block or 0)
    clocks = [vars(state.deadlines).values(), others]
    clock = get_audit_deadlines(state, PHASE_LATE, block)
    if clock is not None:
        clocks.append(vars(clock).values())
    # The hash of a block can be used one block later.
    ticks = {tick + extra for some in clocks for tick in some for extra in (0, 1)}
    return min((tick for tick in ticks if tick > block), default=NEVER)
