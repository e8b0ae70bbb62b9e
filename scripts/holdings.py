"""What holds an account's stake, and until when, in the words of an operator.

Stake is exposed by a seat in a round, an audit, an outer root or a dispute. Each ends by a call that anybody
may send once its time has come. Running nodes of the task send it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from protocol.actions.view import View
from protocol.spec import events, game_events
from protocol.spec.dispute import DisputeState
from protocol.spec.exposure import Cause, OpenExposure, list_exposures
from protocol.spec.round import RoundState, get_merged_block, get_settle_block, is_empty
from protocol.spec.statuses import Role, Stage
from scripts.pace import Pace
from scripts.tasks import show_round

RoundCause = events.Enrolled | events.ReplayCommitted | events.OuterPosted | game_events.Contested


@dataclass(frozen=True)
class Holding:
    """Stake that is locked: wei, behind what, and when it is released."""

    amount_wei: int
    what: str
    until: str


def list_holdings(view: View, account: str, pace: Pace) -> list[Holding]:
    """All that holds stake of `account` (lower case), oldest first."""
    return [_describe(view, one, pace) for one in list_exposures(view.events, account)]


def list_seats(view: View, account: str) -> list[tuple[RoundState, Role]]:
    """The rounds in which a seat of `account` (lower case) still holds stake, with the role."""
    causes = [one.cause for one in list_exposures(view.events, account)]
    seats = [cause for cause in causes if isinstance(cause, events.Enrolled)]
    return [(view.tasks[seat.task].rounds[seat.round], seat.role) for seat in seats]


def _describe(view: View, exposure: OpenExposure, pace: Pace) -> Holding:
    cause = exposure.cause
    if cause is None:
        return Holding(exposure.amount_wei, "something that no event explains", "not known")
    if isinstance(cause, game_events.DisputeOpened):
        ref = cause.claim.audit
        state = view.tasks[ref.task].rounds[ref.round]
        what = f"your dispute on slot {ref.slot}"
        until = _tell_clock(view.disputes[ref.task].disputes[cause.dispute], pace)
    else:
        state = view.tasks[cause.task].rounds[cause.round]
        what, until = _name(cause), _tell_end(view, state, cause, pace)
    return Holding(exposure.amount_wei, f"{what} in {show_round(state)}", until)


def _name(cause: Cause) -> str:
    match cause:
        case events.Enrolled():
            return f"seat as {cause.role.name.lower()}"
        case events.ReplayCommitted():
            return f"audit of slot {cause.slot}"
        case events.OuterPosted():
            return "outer root that you posted"
    return "outer root by which you contest another"


def _tell_end(view: View, state: RoundState, cause: RoundCause, pace: Pace) -> str:
    match cause:
        case events.Enrolled() if cause.role == Role.SOLVER:
            return _tell_settlement(view, state, [cause.index], pace)
        case events.Enrolled():
            # The seats of auditors are released after all claims of their round.
            left = sorted(set(range(len(state.solvers))) - state.settled_slots)
            return _tell_settlement(view, state, left, pace, is_auditor=True)
        case events.ReplayCommitted():
            return _tell_settlement(view, state, [cause.slot], pace)
        case game_events.Contested() if cause.rival not in state.contests:
            return _tell_overdue(view, state, f"OuterContest.timeout(TASK, {state.index}, YOU)")
    return _tell_merge(view, state, pace)


def _tell_settlement(
    view: View, state: RoundState, slots: Sequence[int], pace: Pace, is_auditor: bool = False
) -> str:
    """When the claims of `slots`, and what hangs on them, can be settled."""
    book, settle_block = view.disputes[state.task], get_settle_block(state, pace.head_block)
    disputes = [book.disputes[name] for name, slot in state.open_disputes.items() if slot in slots]
    if disputes:
        ends = "; ".join(_tell_clock(one, pace) for one in disputes)
        return f"not before {pace.show_block(settle_block)}, and not before a dispute ends: {ends}"
    if is_empty(state, pace.head_block) or pace.head_block >= settle_block:
        return _tell_overdue(view, state, _name_settling(state, slots, is_auditor))
    latest = " at the latest" if get_merged_block(state, pace.head_block) is None else ""
    return f"from {pace.show_block(settle_block)}{latest}, when the round is settled"


def _name_settling(state: RoundState, slots: Sequence[int], is_auditor: bool) -> str:
    """The calls that settle these claims, and then the seats of auditors."""
    found = []
    if slots:
        found.append(f"RoundLedger.settleClaims(TASK, {state.index}, {slots[0]}, {slots[-1] + 1})")
    if is_auditor:
        seats = len(state.verifiers) + len(state.whistleblowers)
        found.append(f"RoundLedger.settleEnrolments(TASK, {state.index}, 0, {seats})")
    return " and then ".join(found)


def _tell_merge(view: View, state: RoundState, pace: Pace) -> str:
    """When the stake behind an outer root is free: contests of it end first."""
    clocks = [view.contests[state.task, state.index, rival].clock_block for rival in sorted(state.contests)]
    if clocks:
        return f"when a contest has ended, whose clock ends in {pace.show_block(max(clocks))}"
    if state.ready_block is not None and pace.head_block < state.ready_block:
        return f"from {pace.show_block(state.ready_block)}, when the merge is settled"
    return _tell_overdue(view, state, f"RoundLedger.settleMerge(TASK, {state.index})")


def _tell_overdue(view: View, state: RoundState, call: str) -> str:
    """Its time has come and nobody has sent the call."""
    node = "" if view.tasks[state.task].is_closed else "a running node of the task settles it; "
    return f"now: {node}anybody may call {call}"


def _tell_clock(dispute: DisputeState, pace: Pace) -> str:
    name = f"dispute 0x{dispute.dispute.hex()[:8]}"
    if dispute.stage == Stage.QUEUED:
        return f"{name} waits for its turn"
    if pace.head_block >= dispute.timeout_block:
        return f"{name} has run out of time: a running node of the task ends it"
    return f"{name} goes on until {pace.show_block(dispute.timeout_block)}, longer if it moves on"
