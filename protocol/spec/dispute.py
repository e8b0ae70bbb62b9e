"""One dispute as DisputeGame sees it: a value that events move on, its guards, and what each side must do.

D1 somebody opens, sealed, with a bond; the claimant posts k+1 state roots. D2 the opener names a step, the
claimant posts its trace. D3 anybody proves a fault of the trace, or demands leaves of it. D4 closed. Silence
convicts the claimant and closes for the opener. `DisputeBook` holds all disputes of one task, because a
claimant plays one at a time.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from protocol.spec.clock import NEVER
from protocol.spec.containers import StateHeader, TaskTerms
from protocol.spec.events import DisputeEvent, Event
from protocol.spec.game_events import (
    DisputeActivated,
    DisputeClosed,
    DisputeConvicted,
    DisputeOpened,
    LeafAnswered,
    LeafDemanded,
    OpeningSealed,
    StepNamed,
    StepRootsPosted,
    TracePosted,
)
from protocol.spec.statuses import ClaimRef, Stage

ACTIVE_STAGES = frozenset({Stage.ROOTS, Stage.NAME, Stage.TRACE, Stage.PROVE})
OPEN_STAGES = ACTIVE_STAGES | {Stage.QUEUED}
"""Settlement waits for these."""


@dataclass(frozen=True)
class Demand:
    """A leaf that somebody wants to see, of the buffer at a place of a node: 0 its output, 1 and up its
    operands."""

    challenger: str
    node: int
    place: int
    leaf_index: int


@dataclass(frozen=True)
class PostedTrace:
    """What the claimant has posted of the named step: the trace's root and the states around the step."""

    root: bytes
    start: StateHeader
    end: StateHeader


@dataclass(frozen=True)
class DisputeState:
    """One dispute. clock_block: when the stage's clock runs out; demand_clock: when the oldest open demand's
    does; answered: demands answered, in their order."""

    dispute: bytes
    terms: TaskTerms
    claim: ClaimRef
    claimant: str
    opener: str
    bond_wei: int
    stage: Stage = Stage.QUEUED
    clock_block: int = NEVER
    roots: tuple[bytes, ...] = ()
    step: int | None = None
    trace: PostedTrace | None = None
    demands: tuple[Demand, ...] = ()
    answered: int = 0
    demand_clock: int = NEVER
    reason: bytes = b""

    @property
    def has_open_demand(self) -> bool:
        """Whether the claimant owes an answer."""
        return self.answered < len(self.demands)

    @property
    def timeout_block(self) -> int:
        """From which block `timeout` succeeds: an open demand comes before the stage's clock."""
        return self.demand_clock if self.has_open_demand else self.clock_block


@dataclass(frozen=True)
class DisputeBook:
    """All disputes of one task, and the seals of openings by hash."""

    task: bytes
    terms: TaskTerms
    seals: Mapping[bytes, int] = field(default_factory=dict)
    disputes: Mapping[bytes, DisputeState] = field(default_factory=dict)


def process_book_event(book: DisputeBook, event: Event) -> DisputeBook:
    """The book after an event; foreign events leave it as it is. The first seal of a hash counts."""
    if isinstance(event, OpeningSealed):
        return replace(book, seals={event.seal_hash: event.block_number, **book.seals})
    if isinstance(event, DisputeOpened) and event.claim.audit.task == book.task:
        return replace(book, disputes={**book.disputes, event.dispute: start_dispute(book.terms, event)})
    if isinstance(event, DisputeEvent) and event.dispute in book.disputes:
        moved = process_dispute_event(book.disputes[event.dispute], event)
        return replace(book, disputes={**book.disputes, event.dispute: moved})
    return book


def count_queue(book: DisputeBook, claimant: str) -> int:
    """Open disputes of a claimant: the next one's bond doubles as often."""
    return sum(one.claimant == claimant and one.stage in OPEN_STAGES for one in book.disputes.values())


def start_dispute(terms: TaskTerms, event: DisputeOpened) -> DisputeState:
    """The state of a dispute from the event that opens it."""
    return DisputeState(
        dispute=event.dispute,
        terms=terms,
        claim=event.claim,
        claimant=event.claimant,
        opener=event.opener,
        bond_wei=event.bond_wei,
    )


def process_dispute_event(state: DisputeState, event: Event) -> DisputeState:
    """The state after an event of the chain. Events of other disputes and kinds leave it as it is."""
    handler = _HANDLERS.get(type(event))
    is_ours = isinstance(event, DisputeEvent) and event.dispute == state.dispute
    return handler(state, event) if is_ours and handler is not None else state


def _process_roots(state: DisputeState, event: StepRootsPosted) -> DisputeState:
    clock = event.block_number + state.terms.windows.name
    return replace(state, stage=Stage.NAME, clock_block=clock, roots=event.roots)


def _process_trace(state: DisputeState, event: TracePosted) -> DisputeState:
    trace = PostedTrace(event.trace_root, event.start, event.end)
    return replace(state, stage=Stage.PROVE, clock_block=event.clock_block, trace=trace)


def _process_demand(state: DisputeState, event: LeafDemanded) -> DisputeState:
    demand = Demand(event.challenger, event.node, event.place, event.leaf_index)
    return replace(state, demands=(*state.demands, demand), demand_clock=event.clock_block)


def _process_answer(state: DisputeState, event: LeafAnswered) -> DisputeState:
    """An answer starts the clock of the next open demand and gives everybody time to look at it."""
    respond, block = state.terms.windows.respond, event.block_number
    return replace(
        state,
        answered=state.answered + 1,
        demand_clock=block + respond,
        clock_block=max(state.clock_block, block) + respond,
    )


_HANDLERS: dict[type[Event], Callable[[DisputeState, Any], DisputeState]] = {
    DisputeActivated: lambda s, e: replace(s, stage=Stage.ROOTS, clock_block=e.clock_block),
    StepRootsPosted: _process_roots,
    StepNamed: lambda s, e: replace(s, stage=Stage.TRACE, step=e.step, clock_block=e.clock_block),
    TracePosted: _process_trace,
    LeafDemanded: _process_demand,
    LeafAnswered: _process_answer,
    DisputeClosed: lambda s, e: replace(s, stage=Stage.CLOSED),
    DisputeConvicted: lambda s, e: replace(s, stage=Stage.CONVICTED, reason=e.reason),
}
