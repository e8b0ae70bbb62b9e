"""One round as the contracts see it: a value that events move on (docs/spec.md, section 7).

Twin of TaskRegistry, RoundLedger and AuditBook. `process_event` trusts the chain: the contract has checked,
so an event only records. What the clock alone decides (a deadline passed, nobody said so) is not in the
state; `verdict.py` computes it for a block.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from protocol.spec import events
from protocol.spec.clock import (
    AuditDeadlines,
    Deadlines,
    LateDeadlines,
    compute_deadlines,
    compute_late_deadlines,
)
from protocol.spec.containers import OuterHeader, StateHeader, TaskTerms
from protocol.spec.draw import draw_shard
from protocol.spec.events import Event, RoundEvent
from protocol.spec.game_events import (
    Contested,
    ContestEnded,
    DisputeClosed,
    DisputeConvicted,
    DisputeOpened,
)
from protocol.spec.params import PHASE_LATE, PHASE_PRIMARY, PHASE_RESERVES
from protocol.spec.statuses import AuditRef, AuditStatus, ClaimStatus, Role, RoundStatus
from protocol.spec.tolerance import Judgement

AuditKey = tuple[int, int, int]
"""(slot, draw, rank)."""
DrawKey = tuple[int, int]
"""(slot, draw)."""


@dataclass(frozen=True)
class Claim:
    """A solver's claim; roots are empty where nothing was committed.

    changed_block: when the status last changed; accepted_block: when it was accepted, 0 if never;
    is_excluded: convicted before the outer root was posted; escalated_draws: whose reserves were called, in
    escalated_block."""

    solver: str
    claim_root: bytes = b""
    delta_root: bytes = b""
    status: ClaimStatus = ClaimStatus.NONE
    reason: bytes = b""
    changed_block: int = 0
    accepted_block: int = 0
    is_excluded: bool = False
    escalated_draws: frozenset[int] = frozenset()
    escalated_block: int = 0


@dataclass(frozen=True)
class Opening:
    """What the solver opened of one draw; leaf_phases: the phases whose leaves it opened."""

    start: StateHeader | None = None
    end: StateHeader | None = None
    last: StateHeader | None = None
    leaf_phases: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Audit:
    """What one auditor did. worst: the worst judgement of its leaves, None before they were compared;
    changed_block: when its status last changed."""

    auditor: str
    status: AuditStatus = AuditStatus.NONE
    commitment: bytes = b""
    revealed: StateHeader | None = None
    worst: Judgement | None = None
    changed_block: int = 0


@dataclass(frozen=True)
class OuterRoot:
    """The posted outer root; the poster is the zero address where no claim was accepted."""

    poster: str
    weights_root: bytes
    momentum_root: bytes
    posted_block: int


@dataclass(frozen=True)
class RoundState:
    """One round. weights_root and momentum_root are what it starts from; a solver's position is its slot.

    posted_block: of the first outer root; ready_block: when the next round may start; contests: the rivals
    whose contests of the posted root run; open_disputes: slot by dispute."""

    terms: TaskTerms
    task: bytes
    domain: bytes
    index: int
    start_block: int
    weights_root: bytes
    momentum_root: bytes
    status: RoundStatus = RoundStatus.ENROLLING
    beacon: bytes | None = None
    solvers: tuple[str, ...] = ()
    verifiers: tuple[str, ...] = ()
    whistleblowers: tuple[str, ...] = ()
    claims: Mapping[int, Claim] = field(default_factory=dict)
    draw_seed: bytes | None = None
    late_seed: bytes | None = None
    openings: Mapping[DrawKey, Opening] = field(default_factory=dict)
    audits: Mapping[AuditKey, Audit] = field(default_factory=dict)
    leaf_seeds: Mapping[int, bytes] = field(default_factory=dict)
    outer: OuterRoot | None = None
    contests: frozenset[str] = frozenset()
    posted_block: int | None = None
    ready_block: int | None = None
    is_merge_settled: bool = False
    settled_slots: frozenset[int] = frozenset()
    settled_accounts: frozenset[str] = frozenset()
    open_disputes: Mapping[bytes, int] = field(default_factory=dict)
    is_advanced: bool = False

    @cached_property
    def deadlines(self) -> Deadlines:
        """Deadlines from the start block."""
        return compute_deadlines(self.start_block, self.terms.windows)

    @property
    def is_contested(self) -> bool:
        """Whether a contest of the posted root holds the next round."""
        return bool(self.contests)

    @property
    def late_draw(self) -> int:
        """The draw index of late audits: q."""
        return self.terms.segment_draws


# --- Reading ------------------------------------------------------------------------------------------------
def get_slot(state: RoundState, account: str) -> int | None:
    """The slot of a solver, None for others."""
    return state.solvers.index(account) if account in state.solvers else None


def get_enrolled(state: RoundState, role: Role) -> tuple[str, ...]:
    """Accounts enrolled in `role`, in order."""
    by_role = {Role.SOLVER: state.solvers, Role.VERIFIER: state.verifiers}
    return by_role.get(role, state.whistleblowers if role == Role.WHISTLEBLOWER else ())


def get_role(state: RoundState, account: str) -> Role:
    """What an account is in this round."""
    roles = (Role.SOLVER, Role.VERIFIER, Role.WHISTLEBLOWER)
    return next((role for role in roles if account in get_enrolled(state, role)), Role.NONE)


def get_claim(state: RoundState, slot: int) -> Claim:
    """The claim of a slot; status NONE where nothing was committed."""
    return state.claims.get(slot) or Claim(solver=state.solvers[slot])


def get_opening(state: RoundState, slot: int, draw: int) -> Opening:
    """What the solver opened of a draw, maybe nothing."""
    return state.openings.get((slot, draw), Opening())


def get_audit(state: RoundState, key: AuditKey) -> Audit:
    """What an auditor did, maybe nothing (auditor is then empty)."""
    return state.audits.get(key, Audit(auditor=""))


def get_shard(state: RoundState, slot: int) -> int:
    """The shard of a slot. Needs the beacon."""
    if state.beacon is None:
        raise ValueError("a shard is dealt by the beacon, which is not sealed")
    return draw_shard(state.beacon, slot, len(state.solvers))


def get_included(state: RoundState) -> tuple[int, ...]:
    """Slots of the claims that the outer root is made of, in ascending order of shard: the accepted ones,
    less those convicted before it was posted."""
    slots = [slot for slot, claim in state.claims.items() if claim.accepted_block and not claim.is_excluded]
    return tuple(sorted(slots, key=lambda slot: get_shard(state, slot)))


def get_phase(state: RoundState, draw: int, rank: int) -> int:
    """The phase in which an audit plays: its windows and its leaf draw."""
    if draw == state.late_draw:
        return PHASE_LATE
    return PHASE_PRIMARY if rank == 0 else PHASE_RESERVES


def get_audit_deadlines(state: RoundState, phase: int, block: int) -> AuditDeadlines | None:
    """The clock of a phase; None for late audits while it is not known from where they count."""
    if phase == PHASE_LATE:
        late = get_late_deadlines(state, block)
        return None if late is None else late.audits
    return state.deadlines.primary if phase == PHASE_PRIMARY else state.deadlines.reserves


def get_audit_ref(state: RoundState, slot: int, draw: int, rank: int) -> AuditRef:
    """The full name of an audit of this round."""
    return AuditRef(task=state.task, round=state.index, slot=slot, draw=draw, rank=rank)


def is_accepting(state: RoundState, key: AuditKey) -> bool:
    """Whether an audit accepts: its leaves do, or it revealed the very state that the solver opened."""
    audit, end = get_audit(state, key), get_opening(state, key[0], key[1]).end
    is_equal = audit.status == AuditStatus.REVEALED and end is not None and audit.revealed == end
    return is_equal or audit.status == AuditStatus.ACCEPTS


def get_merge_by(state: RoundState) -> int:
    """The block by which a round should be merged; late deadlines count from it at the latest."""
    return state.deadlines.reserve_compare_end + state.terms.windows.merge


def get_merged_block(state: RoundState, block: int) -> int | None:
    """From where late deadlines count, as known at `block`; None while neither merged nor overdue."""
    merge_by = get_merge_by(state)
    if state.posted_block is None:
        return merge_by if block >= merge_by else None
    return min(state.posted_block, merge_by)


def get_late_deadlines(state: RoundState, block: int) -> LateDeadlines | None:
    """Deadlines from the merge, as known at `block`; None while it is not known from where they count."""
    merged = get_merged_block(state, block)
    return None if merged is None else compute_late_deadlines(merged, state.terms.windows)


def get_settle_block(state: RoundState, block: int) -> int:
    """disputeEnd: disputes open before it, claims settle from it on. Before the merge: its latest value."""
    merged = get_merged_block(state, block)
    late = compute_late_deadlines(get_merge_by(state) if merged is None else merged, state.terms.windows)
    return late.dispute_end


def get_model(state: RoundState) -> OuterHeader:
    """The roots of the global model after a round, as they stand now: what it starts from where none is
    posted."""
    where = state if state.outer is None else state.outer
    return OuterHeader(where.weights_root, where.momentum_root)


def is_model_settled(state: RoundState) -> bool:
    """Whether nothing can replace the model after a round any more: the contracts let its merge settle, and
    the next round start, only once its root stands."""
    return state.is_merge_settled or state.is_advanced


def is_empty(state: RoundState, block: int) -> bool:
    """Whether the round ended without work, also where nobody has said so yet."""
    overdue = state.status == RoundStatus.ENROLLING and block >= state.deadlines.beacon_end
    return overdue or state.status == RoundStatus.EMPTY


# --- Moving on ----------------------------------------------------------------------------------------------
def start_round(terms: TaskTerms, domain: bytes, event: events.RoundStarted) -> RoundState:
    """The state of a round from the event that opens it."""
    return RoundState(
        terms=terms,
        task=event.task,
        domain=domain,
        index=event.round,
        start_block=event.start_block,
        weights_root=event.weights_root,
        momentum_root=event.momentum_root,
    )


def process_event(state: RoundState, event: Event) -> RoundState:
    """The state after an event of the chain. Events of other rounds, tasks or kinds leave it as it is."""
    handler = _HANDLERS.get(type(event))
    return state if handler is None or not _is_ours(state, event) else handler(state, event)


def _is_ours(state: RoundState, event: Event) -> bool:
    if isinstance(event, DisputeOpened):
        return (event.claim.audit.task, event.claim.audit.round) == (state.task, state.index)
    if isinstance(event, DisputeClosed | DisputeConvicted):
        return event.dispute in state.open_disputes
    if isinstance(event, events.RoundStarted):
        return event.task == state.task and event.round == state.index + 1
    return isinstance(event, RoundEvent) and (event.task, event.round) == (state.task, state.index)


def _process_enrolled(state: RoundState, event: events.Enrolled) -> RoundState:
    name = {Role.SOLVER: "solvers", Role.VERIFIER: "verifiers"}.get(event.role, "whistleblowers")
    changes: dict[str, Any] = {name: (*get_enrolled(state, event.role), event.account)}
    return replace(state, **changes)


def _process_committed(state: RoundState, event: events.Committed) -> RoundState:
    claim = Claim(
        event.solver, event.claim_root, event.delta_root, ClaimStatus.COMMITTED, b"", event.block_number
    )
    return replace(state, claims={**state.claims, event.slot: claim})


def _process_judged(state: RoundState, event: events.ClaimJudged) -> RoundState:
    claim, slot = get_claim(state, event.slot), event.slot
    changes: dict[str, Any] = {}
    if event.status == ClaimStatus.ACCEPTED:
        changes["accepted_block"] = event.block_number
    elif event.status == ClaimStatus.ESCALATED:
        draws = range(state.terms.segment_draws)
        changes["escalated_block"] = event.block_number
        changes["escalated_draws"] = frozenset(d for d in draws if not is_accepting(state, (slot, d, 0)))
    elif event.status == ClaimStatus.CONVICTED:
        changes["is_excluded"] = claim.is_excluded or state.outer is None
    claim = replace(
        claim, status=event.status, reason=event.reason, changed_block=event.block_number, **changes
    )
    return replace(state, claims={**state.claims, slot: claim})


def _change_opening(state: RoundState, slot: int, draw: int, **changes: Any) -> RoundState:
    opening = replace(get_opening(state, slot, draw), **changes)
    return replace(state, openings={**state.openings, (slot, draw): opening})


def _process_leaves_opened(state: RoundState, event: events.LeavesOpened) -> RoundState:
    phases = get_opening(state, event.slot, event.draw).leaf_phases | {event.phase}
    return _change_opening(state, event.slot, event.draw, leaf_phases=phases)


def _change_audit(state: RoundState, event: events.AuditEvent, **changes: Any) -> RoundState:
    key = (event.slot, event.draw, event.rank)
    audit = replace(get_audit(state, key), changed_block=event.block_number, **changes)
    return replace(state, audits={**state.audits, key: audit})


def _process_outer_posted(state: RoundState, event: events.OuterPosted) -> RoundState:
    outer = OuterRoot(event.poster, event.weights_root, event.momentum_root, event.block_number)
    first = event.block_number if state.posted_block is None else state.posted_block
    # Contests of a root that was replaced no longer hold the round.
    return replace(state, outer=outer, posted_block=first, contests=frozenset())


def _process_dispute_over(state: RoundState, event: DisputeClosed | DisputeConvicted) -> RoundState:
    left = {name: slot for name, slot in state.open_disputes.items() if name != event.dispute}
    return replace(state, open_disputes=left)


_HANDLERS: dict[type[Event], Callable[[RoundState, Any], RoundState]] = {
    events.RoundStarted: lambda s, e: replace(s, is_advanced=True),
    events.Enrolled: _process_enrolled,
    events.BeaconSealed: lambda s, e: replace(s, status=RoundStatus.TRAINING, beacon=e.beacon),
    events.RoundEmpty: lambda s, e: replace(s, status=RoundStatus.EMPTY),
    events.Committed: _process_committed,
    events.DrawSealed: lambda s, e: replace(s, draw_seed=e.draw_seed),
    events.LateSealed: lambda s, e: replace(s, late_seed=e.late_seed),
    events.ClaimJudged: _process_judged,
    events.OuterPosted: _process_outer_posted,
    events.RoundMerged: lambda s, e: replace(s, status=RoundStatus.MERGED, ready_block=e.ready_block),
    events.MergeSettled: lambda s, e: replace(s, is_merge_settled=True),
    events.ClaimSettled: lambda s, e: replace(s, settled_slots=s.settled_slots | {e.slot}),
    events.EnrolmentSettled: lambda s, e: replace(s, settled_accounts=s.settled_accounts | {e.account}),
    events.StartOpened: lambda s, e: _change_opening(s, e.slot, e.draw, start=e.start),
    events.EndOpened: lambda s, e: _change_opening(s, e.slot, e.draw, end=e.end, last=e.last),
    events.LeavesSealed: lambda s, e: replace(s, leaf_seeds={**s.leaf_seeds, e.phase: e.leaf_seed}),
    events.LeavesOpened: _process_leaves_opened,
    events.ReplayCommitted: lambda s, e: _change_audit(
        s, e, auditor=e.auditor, commitment=e.commitment, status=AuditStatus.COMMITTED
    ),
    events.Unserved: lambda s, e: _change_audit(s, e, auditor=e.auditor, status=AuditStatus.UNSERVED),
    events.Abstained: lambda s, e: _change_audit(s, e, auditor=e.auditor, status=AuditStatus.ABSTAINED),
    events.Revealed: lambda s, e: _change_audit(
        s, e, auditor=e.auditor, revealed=e.end, status=AuditStatus.REVEALED
    ),
    events.AuditJudged: lambda s, e: _change_audit(s, e, status=e.status, worst=e.worst),
    events.AuditorConvicted: lambda s, e: _change_audit(s, e, auditor=e.auditor, status=AuditStatus.SLASHED),
    DisputeOpened: lambda s, e: replace(s, open_disputes={**s.open_disputes, e.dispute: e.claim.audit.slot}),
    DisputeClosed: _process_dispute_over,
    DisputeConvicted: _process_dispute_over,
    Contested: lambda s, e: replace(s, contests=s.contests | {e.rival}),
    ContestEnded: lambda s, e: replace(s, contests=s.contests - {e.rival}),
}
