"""A chain of one round in memory: guards decide, and an accepted call logs the events that the contracts log.

Block hashes are SHA-256 of the block number; states are made-up headers; an auditor's result is `equal` to
the solver's, `near` (inside the accept limits) or `far`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from protocol.spec import calls, events
from protocol.spec.calls import Call
from protocol.spec.containers import Amounts, Limits, StateHeader, TaskTerms, Windows
from protocol.spec.draw import compute_beacon, compute_draw_seed, compute_late_seed, compute_leaf_seed
from protocol.spec.drawn import get_drawn
from protocol.spec.events import Event
from protocol.spec.guards import Refusal, check_call
from protocol.spec.params import DEVNET, MIN_VERIFIERS
from protocol.spec.round import (
    RoundState,
    get_audit,
    get_audit_deadlines,
    get_enrolled,
    get_included,
    get_late_deadlines,
    get_opening,
    get_slot,
    is_empty,
    process_event,
    start_round,
)
from protocol.spec.settlement import settle
from protocol.spec.statuses import FINAL_CLAIM_STATUSES, AuditStatus
from protocol.spec.tolerance import Judgement
from protocol.spec.verdict import Penalty, get_audit_events, get_verdict_events, judge

NOBODY = "0x" + 40 * "0"
WINDOWS = Windows(
    enrol=10, delay=2, seal=6, train=6, start=6, replay=8, show=8, open=6, merge=6, dispute=8, respond=5,
    name=5, prove=8,
)  # fmt: skip


def make_account(name: str) -> str:
    return "0x" + sha256(name.encode()).hexdigest()[:40]


def make_word(*parts: object) -> bytes:
    return sha256(repr(parts).encode()).digest()


def make_terms(**changes: Any) -> TaskTerms:
    amounts: Amounts = DEVNET.amounts
    limits = Limits(1 << 44, 1 << 60, 1 << 44, 1 << 60, 1 << 44, 1 << 41)
    terms = TaskTerms(
        submitter=make_account("submitter"),
        salt=bytes(32),
        initial_weights_root=make_word("weights"),
        zero_root=make_word("zero"),
        schedule_root=make_word("schedule"),
        step_root=make_word("step"),
        parameter_count=512,
        rounds=2,
        inner_steps=4,
        segment_steps=2,
        max_solvers=4,
        max_verifiers=8,
        max_whistleblowers=2,
        segment_draws=1,
        leaf_draws=2,
        late_rate=1 << 16,
        carry_moments=0,
        outer_learning_rate=0x3F333333,
        outer_momentum=0x3F666666,
        windows=WINDOWS,
        amounts=amounts,
        accept=limits,
        reject=limits,
    )
    return replace(terms, **changes)


def make_round(terms: TaskTerms, start_block: int = 100) -> RoundState:
    started = events.RoundStarted(
        block_number=start_block,
        task=make_word("task"),
        round=0,
        start_block=start_block,
        weights_root=terms.initial_weights_root,
        momentum_root=terms.zero_root,
    )
    return start_round(terms, make_word("domain"), started)


def make_header(slot: int, boundary: int, by: str = "solver") -> StateHeader:
    weights, first, second = (make_word(name, slot, boundary, by) for name in "wmv")
    return StateHeader(weights, first, second, local_step=boundary * 2, global_step=boundary * 2)


@dataclass
class Simulator:
    """results: what an auditor's replay gives, by (slot, draw, rank); log and penalties grow with calls."""

    state: RoundState
    results: Mapping[tuple[int, int, int], str] = field(default_factory=dict)
    log: list[Event] = field(default_factory=list)
    penalties: list[Penalty] = field(default_factory=list)

    def send(self, call: Call, sender: str, block: int) -> Refusal:
        """Plays one call in one block; a refused call changes nothing."""
        refusal = check_call(self.state, call, sender, block)
        if refusal is None:
            for event in list(_EFFECTS[type(call)](self, call, sender, block)):
                self.emit(event)
        return refusal

    def emit(self, event: Event) -> None:
        self.log.append(event)
        self.state = process_event(self.state, event)

    def where(self, block: int, **more: Any) -> dict[str, Any]:
        return {"block_number": block, "task": self.state.task, "round": self.state.index, **more}

    def result_of(self, key: tuple[int, int, int]) -> str:
        return self.results.get(key, "equal")


def _hash_of(block: int) -> bytes:
    return make_word("block", block)


def _enrol(sim: Simulator, call: calls.Enrol, sender: str, block: int) -> Iterator[Event]:
    index = len(get_enrolled(sim.state, call.role))
    yield events.Enrolled(**sim.where(block, role=call.role, account=sender, index=index))


def _seal_beacon(sim: Simulator, call: calls.SealBeacon, sender: str, block: int) -> Iterator[Event]:
    state = sim.state
    if not state.solvers or len(state.verifiers) < MIN_VERIFIERS:
        yield events.RoundEmpty(**sim.where(block))
    else:
        beacon = compute_beacon(state.domain, state.index, _hash_of(state.deadlines.beacon_block))
        yield events.BeaconSealed(**sim.where(block, beacon=beacon))


def _advance(sim: Simulator, call: calls.Advance, sender: str, block: int) -> Iterator[Event]:
    if is_empty(sim.state, block) and sim.state.status != 4:
        yield events.RoundEmpty(**sim.where(block))
    where = sim.where(block) | {"round": sim.state.index + 1, "start_block": block}
    where |= {"weights_root": make_word("new"), "momentum_root": make_word("new m")}
    yield events.RoundStarted(**where)


def _commit(sim: Simulator, call: calls.CommitClaim, sender: str, block: int) -> Iterator[Event]:
    slot = get_slot(sim.state, sender)
    roots = {"claim_root": make_word("claim", slot), "delta_root": make_word("delta", slot)}
    yield events.Committed(**sim.where(block, slot=slot, solver=sender, **roots))


def _seal_draw(sim: Simulator, call: calls.SealDraw, sender: str, block: int) -> Iterator[Event]:
    randomness = _hash_of(sim.state.deadlines.draw_block)
    seed = compute_draw_seed(sim.state.domain, sim.state.index, randomness)
    yield events.DrawSealed(**sim.where(block, draw_seed=seed))


def _judge(sim: Simulator, call: calls.Judge, sender: str, block: int) -> Iterator[Event]:
    before = sim.state
    for verdict in judge(before, call.slot, block):
        sim.penalties += verdict.penalties
        for event in list(get_verdict_events(sim.state, verdict, block)):
            sim.emit(event)
    yield from _merge_empty(sim, block)


def _merge_empty(sim: Simulator, block: int) -> Iterator[Event]:
    state = sim.state
    judged = sum(claim.status in FINAL_CLAIM_STATUSES for claim in state.claims.values())
    if state.outer is None and judged == len(state.solvers) and not get_included(state):
        yield from _outer(sim, block, NOBODY, state.weights_root, state.momentum_root)


def _outer(sim: Simulator, block: int, poster: str, weights: bytes, momentum: bytes) -> Iterator[Event]:
    roots = {"weights_root": weights, "momentum_root": momentum}
    included = len(get_included(sim.state))
    yield events.OuterPosted(**sim.where(block, poster=poster, included=included, **roots))
    ready = block + sim.state.terms.windows.merge
    yield events.RoundMerged(**sim.where(block, ready_block=ready, **roots))


def _post_outer(sim: Simulator, call: calls.PostOuter, sender: str, block: int) -> Iterator[Event]:
    yield from _outer(sim, block, sender, make_word("new"), make_word("new m"))


def _settle_merge(sim: Simulator, call: calls.SettleMerge, sender: str, block: int) -> Iterator[Event]:
    outer = sim.state.outer
    assert outer is not None
    yield events.MergeSettled(**sim.where(block, poster=outer.poster))


def _seal_late(sim: Simulator, call: calls.SealLate, sender: str, block: int) -> Iterator[Event]:
    late = get_late_deadlines(sim.state, block)
    assert late is not None
    seed = compute_late_seed(sim.state.domain, sim.state.index, _hash_of(late.late_block))
    yield events.LateSealed(**sim.where(block, late_seed=seed))


def _settle_claim(sim: Simulator, call: calls.SettleClaim, sender: str, block: int) -> Iterator[Event]:
    done = settle(sim.state, call.slot, block)
    for verdict in done.verdicts:
        sim.penalties += verdict.penalties
        for event in list(get_verdict_events(sim.state, verdict, block)):
            sim.emit(event)
    for event in list(_merge_empty(sim, block)):
        sim.emit(event)
    sim.penalties += done.penalties
    slot, claim = call.slot, sim.state.claims.get(call.slot)
    if done.forfeit_reason:
        reason = done.forfeit_reason.encode().ljust(32, b"\0")
        yield events.PayForfeited(**sim.where(block, slot=slot, reason=reason))
    yield events.ClaimSettled(**sim.where(block, slot=slot, status=claim.status if claim else 0))
    yield from get_audit_events(sim.state, done.audits, block)


def _settle_enrolments(
    sim: Simulator, call: calls.SettleEnrolments, sender: str, block: int
) -> Iterator[Event]:
    accounts = (*sim.state.verifiers, *sim.state.whistleblowers)[call.first : call.end]
    for account in accounts:
        if account not in sim.state.settled_accounts:
            yield events.EnrolmentSettled(**sim.where(block, account=account))


def _open_start(sim: Simulator, call: calls.OpenStart, sender: str, block: int) -> Iterator[Event]:
    slot = get_slot(sim.state, sender)
    assert slot is not None
    start = make_header(slot, call.boundary)
    yield events.StartOpened(**sim.where(block, slot=slot, draw=call.draw, start=start))


def _open_end(sim: Simulator, call: calls.OpenEnd, sender: str, block: int) -> Iterator[Event]:
    slot = get_slot(sim.state, sender)
    assert slot is not None
    end, last = make_header(slot, call.boundary), make_header(slot, call.last_boundary)
    yield events.EndOpened(**sim.where(block, slot=slot, draw=call.draw, end=end, last=last))
    audit = get_audit(sim.state, (slot, call.draw, 0))
    if audit.status == AuditStatus.REVEALED and audit.revealed == end:
        yield _judged(sim, block, (slot, call.draw, 0), Judgement.ACCEPT)


def _open_leaves(sim: Simulator, call: calls.OpenLeaves, sender: str, block: int) -> Iterator[Event]:
    where = sim.where(block, slot=get_slot(sim.state, sender), draw=call.draw)
    yield events.LeavesOpened(**where, phase=call.phase, leaves=())


def _of_audit(sim: Simulator, call: Any, block: int) -> dict[str, Any]:
    ref = call.audit
    return sim.where(block, slot=ref.slot, draw=ref.draw, rank=ref.rank)


def _commit_replay(sim: Simulator, call: calls.CommitReplay, sender: str, block: int) -> Iterator[Event]:
    where = _of_audit(sim, call, block)
    yield events.ReplayCommitted(**where, auditor=sender, commitment=make_word(sender))


def _say_unserved(sim: Simulator, call: calls.SayUnserved, sender: str, block: int) -> Iterator[Event]:
    yield events.Unserved(**_of_audit(sim, call, block), auditor=sender)


def _abstain(sim: Simulator, call: calls.Abstain, sender: str, block: int) -> Iterator[Event]:
    yield events.Abstained(**_of_audit(sim, call, block), auditor=sender)


def _reveal(sim: Simulator, call: calls.Reveal, sender: str, block: int) -> Iterator[Event]:
    ref = call.audit
    drawn = get_drawn(sim.state, ref.slot, ref.draw)
    assert drawn is not None
    by = "solver" if sim.result_of(ref.key) == "equal" else sender
    end = make_header(ref.slot, drawn.segment + 1, by)
    yield events.Revealed(**_of_audit(sim, call, block), auditor=sender, end=end)
    if get_opening(sim.state, ref.slot, ref.draw).end == end:
        yield _judged(sim, block, ref.key, Judgement.ACCEPT)


def _compare(sim: Simulator, call: calls.CompareLeaves, sender: str, block: int) -> Iterator[Event]:
    is_far = sim.result_of(call.audit.key) == "far"
    yield _judged(sim, block, call.audit.key, Judgement.REJECT if is_far else call.worst)


def _judged(sim: Simulator, block: int, key: tuple[int, int, int], worst: Judgement) -> Event:
    status = AuditStatus.ACCEPTS if worst == Judgement.ACCEPT else AuditStatus.REJECTS
    where = sim.where(block, slot=key[0], draw=key[1], rank=key[2])
    return events.AuditJudged(**where, status=status, worst=worst)


def _seal_leaves(sim: Simulator, call: calls.SealLeaves, sender: str, block: int) -> Iterator[Event]:
    clock = get_audit_deadlines(sim.state, call.phase, block)
    assert clock is not None
    randomness = _hash_of(clock.leaves_block)
    seed = compute_leaf_seed(sim.state.domain, sim.state.index, call.phase, randomness)
    yield events.LeavesSealed(**sim.where(block, phase=call.phase, leaf_seed=seed))


_EFFECTS: dict[type[Call], Callable[[Simulator, Any, str, int], Iterator[Event]]] = {
    calls.Enrol: _enrol,
    calls.SealBeacon: _seal_beacon,
    calls.Advance: _advance,
    calls.CommitClaim: _commit,
    calls.SealDraw: _seal_draw,
    calls.Judge: _judge,
    calls.PostOuter: _post_outer,
    calls.SettleMerge: _settle_merge,
    calls.SealLate: _seal_late,
    calls.SettleClaim: _settle_claim,
    calls.SettleEnrolments: _settle_enrolments,
    calls.OpenStart: _open_start,
    calls.OpenEnd: _open_end,
    calls.OpenLeaves: _open_leaves,
    calls.CommitReplay: _commit_replay,
    calls.SayUnserved: _say_unserved,
    calls.Abstain: _abstain,
    calls.Reveal: _reveal,
    calls.CompareLeaves: _compare,
    calls.SealLeaves: _seal_leaves,
}
