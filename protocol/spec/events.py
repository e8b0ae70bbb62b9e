"""What the round's contracts say happened: one frozen class an event, fields in snake case in their order.

Hashes, roots, seeds and ids are raw 32 bytes; accounts are `0x` and 40 lower-case hexadecimal digits; every
event carries its block number. Disputes, contests and money are in `game_events.py`; `event_log.py` makes the
classes from decoded logs.
"""

from dataclasses import dataclass

from protocol.spec.containers import StateHeader, StateLeaves, TaskTerms
from protocol.spec.statuses import AuditStatus, ClaimStatus, Role
from protocol.spec.tolerance import Judgement


@dataclass(frozen=True, kw_only=True)
class Event:
    """Base of all events. block_number: the block whose log it was."""

    block_number: int


@dataclass(frozen=True, kw_only=True)
class RoundEvent(Event):
    """An event of one round of one task."""

    task: bytes
    round: int


@dataclass(frozen=True, kw_only=True)
class SlotEvent(RoundEvent):
    """An event of one solver's slot in a round."""

    slot: int


@dataclass(frozen=True, kw_only=True)
class AuditEvent(SlotEvent):
    """An event of one audit."""

    draw: int
    rank: int


@dataclass(frozen=True, kw_only=True)
class DisputeEvent(Event):
    """An event of one dispute, named by its id."""

    dispute: bytes


# --- TaskRegistry -------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Announced(Event):
    """Where an account serves blobs, and its pinned certificate."""

    account: str
    url: str
    certificate_sha256: bytes


@dataclass(frozen=True, kw_only=True)
class TaskCreated(Event):
    """A task with its canonical content; round 0 starts with it."""

    task: bytes
    submitter: str
    terms: TaskTerms
    training: bytes


@dataclass(frozen=True, kw_only=True)
class RoundStarted(RoundEvent):
    """Enrolment opened; the roots are the global model and momentum that the round starts from."""

    start_block: int
    weights_root: bytes
    momentum_root: bytes


@dataclass(frozen=True, kw_only=True)
class Enrolled(RoundEvent):
    """An account joined a round; a solver's index is its slot."""

    role: Role
    account: str
    index: int


@dataclass(frozen=True, kw_only=True)
class BeaconSealed(RoundEvent):
    """Shards and samples are dealt."""

    beacon: bytes


@dataclass(frozen=True, kw_only=True)
class RoundEmpty(RoundEvent):
    """The round ended without work."""


@dataclass(frozen=True, kw_only=True)
class TaskClosed(Event):
    """The rest of the escrow went back to the submitter."""

    task: bytes
    refund_wei: int


# --- RoundLedger --------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Committed(SlotEvent):
    """A solver's irrevocable claim."""

    solver: str
    claim_root: bytes
    delta_root: bytes


@dataclass(frozen=True, kw_only=True)
class DrawSealed(RoundEvent):
    """Segments and auditors of all claims are drawn."""

    draw_seed: bytes


@dataclass(frozen=True, kw_only=True)
class LateSealed(RoundEvent):
    """Late audits are drawn."""

    late_seed: bytes


@dataclass(frozen=True, kw_only=True)
class ClaimJudged(SlotEvent):
    """A claim has a verdict, an escalation or a conviction."""

    status: ClaimStatus
    reason: bytes


@dataclass(frozen=True, kw_only=True)
class OuterPosted(RoundEvent):
    """The outer root over `included` claims; poster is the zero address where none was accepted."""

    poster: str
    weights_root: bytes
    momentum_root: bytes
    included: int


@dataclass(frozen=True, kw_only=True)
class RoundMerged(RoundEvent):
    """The outer root stands from ready_block on unless it is contested; again after a contest replaced it."""

    ready_block: int
    weights_root: bytes
    momentum_root: bytes


@dataclass(frozen=True, kw_only=True)
class ClaimSettled(SlotEvent):
    """Pay and exposures of a claim are done with."""

    status: ClaimStatus


@dataclass(frozen=True, kw_only=True)
class EnrolmentSettled(RoundEvent):
    """A verifier's or whistleblower's enrolment exposure is released."""

    account: str


@dataclass(frozen=True, kw_only=True)
class PayForfeited(SlotEvent):
    """A solver was silent in its late audit: no pay, and F burned."""

    reason: bytes


@dataclass(frozen=True, kw_only=True)
class MergeSettled(RoundEvent):
    """The poster of the outer root that stands got bond and pay."""

    poster: str


# --- AuditBook ----------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class StartOpened(SlotEvent):
    """The solver opened the start state of a draw."""

    draw: int
    start: StateHeader


@dataclass(frozen=True, kw_only=True)
class ReplayCommitted(AuditEvent):
    """An auditor sealed its result."""

    auditor: str
    commitment: bytes


@dataclass(frozen=True, kw_only=True)
class Unserved(AuditEvent):
    """An auditor could not get the start state."""

    auditor: str


@dataclass(frozen=True, kw_only=True)
class Abstained(AuditEvent):
    """An auditor could not validate."""

    auditor: str


@dataclass(frozen=True, kw_only=True)
class EndOpened(SlotEvent):
    """The solver opened the end of a draw and the last state of its claim."""

    draw: int
    end: StateHeader
    last: StateHeader


@dataclass(frozen=True, kw_only=True)
class Revealed(AuditEvent):
    """An auditor showed its end state."""

    auditor: str
    end: StateHeader


@dataclass(frozen=True, kw_only=True)
class LeavesSealed(RoundEvent):
    """The leaves of a phase are drawn."""

    phase: int
    leaf_seed: bytes


@dataclass(frozen=True, kw_only=True)
class LeavesOpened(SlotEvent):
    """The solver opened the drawn leaves of its end state, in the draw's order, for the audits of a phase."""

    draw: int
    phase: int
    leaves: tuple[StateLeaves, ...]


@dataclass(frozen=True, kw_only=True)
class AuditJudged(AuditEvent):
    """An audit ended; worst is the worst judgement of its leaves."""

    status: AuditStatus
    worst: Judgement


@dataclass(frozen=True, kw_only=True)
class AuditorConvicted(AuditEvent):
    """An auditor lost the exposure of its own claim."""

    auditor: str
    reason: bytes
