"""Events in the words of an operator: one line for each that matters to people, none for the others."""

from protocol.spec import events, game_events
from protocol.spec.events import Event
from protocol.spec.statuses import AuditStatus
from protocol.spec.tolerance import Judgement

WEI_PER_TOKEN = 10**18


def narrate(event: Event, me: str = "") -> str:
    """One line, or nothing. `me`: the account that reads it is called "you"."""

    def who(account: str) -> str:
        return "you" if account == me else account[:8]

    def at(found: events.RoundEvent) -> str:
        return f"round {found.round}:"

    match event:
        case events.TaskCreated():
            return f"task 0x{event.task.hex()[:8]} posted by {who(event.submitter)}"
        case events.RoundStarted():
            return f"round {event.round} starts at block {event.start_block}"
        case events.RoundEmpty():
            return f"round {event.round} is empty: nobody to train or to audit it"
        case events.Committed():
            return f"{at(event)} slot {event.slot} ({who(event.solver)}) committed to its claim"
        case events.ClaimJudged():
            return f"{at(event)} slot {event.slot} is {event.status.name.lower()}{_tell_reason(event.reason)}"
        case events.AuditJudged() if event.status == AuditStatus.REJECTS or event.worst != Judgement.ACCEPT:
            found = f"{event.status.name.lower()} (worst leaf: {event.worst.name.lower()})"
            return f"{at(event)} an audit of slot {event.slot} {found}"
        case events.AuditorConvicted():
            return f"{at(event)} auditor {who(event.auditor)} convicted{_tell_reason(event.reason)}"
        case events.RoundMerged():
            return f"round {event.round} merged: global model 0x{event.weights_root.hex()[:8]}"
        case game_events.DisputeOpened():
            disputed = event.claim.audit.round
            return f"{who(event.opener)} disputes a claim of {who(event.claimant)} in round {disputed}"
        case game_events.DisputeConvicted():
            reason = _tell_reason(event.reason)
            return f"{who(event.claimant)} lost a dispute{reason}; found by {who(event.finder)}"
        case game_events.DisputeClosed():
            return "a dispute was closed: nothing was proven in time"
        case game_events.Contested():
            return f"{at(event)} {who(event.rival)} contests the outer root"
        case game_events.ContestEnded():
            return f"{at(event)} a contest ended, {who(event.loser)} lost it{_tell_reason(event.reason)}"
        case game_events.Slashed():
            reason = _tell_reason(event.reason)
            return f"SLASHED: {who(event.account)} loses {tell_tokens(event.amount_wei)}{reason}"
        case game_events.FeeBurned():
            amount, reason = tell_tokens(event.amount_wei), _tell_reason(event.reason)
            return f"{who(event.account)} pays a no-show fee of {amount}{reason}"
        case game_events.Paid() if event.account == me:
            return f"you earned {tell_tokens(event.amount_wei)}{_tell_reason(event.reason)}"
        case events.TaskClosed():
            amount = tell_tokens(event.refund_wei)
            return f"task 0x{event.task.hex()[:8]} closed; {amount} returned to the submitter"
    return ""


def tell_tokens(amount_wei: int) -> str:
    """An amount in whole tokens."""
    return f"{amount_wei / WEI_PER_TOKEN:g} tokens"


def _tell_reason(reason: bytes) -> str:
    text = reason.rstrip(b"\0").decode("ascii", "replace")
    return f" ({text})" if text else ""
