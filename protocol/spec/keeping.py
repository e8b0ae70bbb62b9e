"""The calls that anybody may send and somebody must: what is due now, and whose turn it is to send it.

All enrolled parties keep the round going. For each call they stand in a rotation that nobody chose; position
p may send it p blocks after it fell due, so that not all send at once and a dead one is replaced.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from protocol.spec import calls
from protocol.spec.calls import Call
from protocol.spec.clock import NEVER
from protocol.spec.drawn import compute_draws, compute_late_draws
from protocol.spec.duties import needs_leaves
from protocol.spec.guards import check_call, has_poster
from protocol.spec.hashing import hash_words, tag_word
from protocol.spec.params import PHASE_LATE, PHASE_PRIMARY, PHASE_RESERVES
from protocol.spec.round import (
    RoundState,
    get_audit_deadlines,
    get_claim,
    get_included,
    get_late_deadlines,
    get_settle_block,
    is_empty,
)
from protocol.spec.statuses import FINAL_CLAIM_STATUSES, ClaimStatus, RoundStatus

TAG_KEEPER = "touchstone.keeper"
SPREAD_BLOCKS = 16
"""A round must not wait long for the dead: everybody may send this many blocks after a call fell due."""
PAGE_DRAWS = 20
"""Draws judged or settled in one transaction: of 20, everybody silent, settling costs 14.6 M gas."""
PAGE_ACCOUNTS = 32
"""Enrolments settled in one transaction."""


Seal = calls.SealBeacon | calls.SealDraw | calls.SealLate | calls.SealLeaves
"""The calls that fix a draw from the randomness of a block."""


@dataclass(frozen=True)
class Due:
    """A call that is due: since which block, and in which block its window closes."""

    call: Call
    due_block: int
    closes_block: int = NEVER


def get_keeper_actions(state: RoundState, block: int) -> tuple[Call, ...]:
    """All permissionless calls that are due in `block`, whoever's turn it is."""
    return tuple(due.call for due in list_due(state, block))


def get_my_keeper_actions(state: RoundState, me: str, block: int) -> tuple[Call, ...]:
    """The permissionless calls that are due in `block` and that it is `me`'s turn to send."""
    found = list_due(state, block)
    return tuple(due.call for due in found if is_turn(state, me, due, block))


def keeper_turn(state: RoundState, me: str, call: Call, block: int, due_block: int) -> bool:
    """Whether `me` may send `call`, due since `due_block`, in `block` without a window to keep."""
    return is_turn(state, me, Due(call, due_block), block)


def is_turn(state: RoundState, me: str, due: Due, block: int) -> bool:
    """Whether the rotation has reached `me`. Who is not enrolled stands behind everybody."""
    parties = (*state.solvers, *state.verifiers, *state.whistleblowers)
    # Half of the window is kept for whoever is left.
    spread = max(1, min(SPREAD_BLOCKS, len(parties), (due.closes_block - due.due_block) // 2))
    if me not in parties:
        return block >= due.due_block + spread
    position = (parties.index(me) - _get_offset(state, due.call)) % len(parties)
    return block >= due.due_block + position * spread // len(parties)


def _get_offset(state: RoundState, call: Call) -> int:
    kind, page = tag_word(type(call).__name__), get_claim_page(state, getattr(call, "slot", 0))
    return int.from_bytes(hash_words(TAG_KEEPER, state.domain, state.index, kind, page), "big")


def get_claim_page(state: RoundState, slot: int) -> int:
    """The page of a slot: its claims are judged and settled by one party, in one transaction."""
    return slot // max(1, PAGE_DRAWS // (state.terms.segment_draws + 1))


def list_due(state: RoundState, block: int) -> tuple[Due, ...]:
    """The permissionless calls that the contracts accept in `block` and that serve a purpose."""
    found = [*_list_seals(state, block), *_list_verdicts(state, block)]
    found += [*_list_merge(state, block), *_list_settlements(state, block)]
    return tuple(
        due for due in found if block >= due.due_block and check_call(state, due.call, "", block) is None
    )


def _list_seals(state: RoundState, block: int) -> Iterator[Due]:
    clock, late = state.deadlines, get_late_deadlines(state, block)
    yield Due(calls.SealBeacon(state.index), clock.beacon_block + 1, clock.beacon_end)
    if any(claim.status == ClaimStatus.COMMITTED for claim in state.claims.values()):
        yield Due(calls.SealDraw(state.index), clock.draw_block + 1, clock.draw_end)
    if late is not None and state.terms.late_rate and state.whistleblowers and get_included(state):
        yield Due(calls.SealLate(state.index), late.late_block + 1, late.late_end)
    for phase in (PHASE_PRIMARY, PHASE_RESERVES, PHASE_LATE):
        audits = get_audit_deadlines(state, phase, block)
        if audits is not None and _is_phase_open(state, phase):
            yield Due(calls.SealLeaves(state.index, phase), audits.leaves_block + 1, audits.leaves_end)


def get_sealed_block(state: RoundState, call: Seal, block: int) -> int:
    """The block whose randomness a seal takes, as known at `block`; 0 for a late one while unknown."""
    if isinstance(call, calls.SealBeacon):
        return state.deadlines.beacon_block
    if isinstance(call, calls.SealDraw):
        return state.deadlines.draw_block
    if isinstance(call, calls.SealLate):
        late = get_late_deadlines(state, block)
        return late.late_block if late else 0
    audits = get_audit_deadlines(state, call.phase, block)
    return audits.leaves_block if audits else 0


def _is_phase_open(state: RoundState, phase: int) -> bool:
    draws = compute_late_draws(state) if phase == PHASE_LATE else compute_draws(state)
    return any(needs_leaves(state, slot, draw, phase) for slot, draw in draws)


def _list_verdicts(state: RoundState, block: int) -> Iterator[Due]:
    """A verdict falls due at a deadline, or after the last audit that it waited for. An escalation must come
    while the reserves it calls can still replay."""
    clock = state.deadlines
    ticks = [clock.train_end, clock.draw_end, clock.start_end, clock.show_end, clock.open_end]
    ticks += [clock.compare_end, clock.reserve_compare_end]
    last = max((tick for tick in ticks if tick <= block), default=clock.train_end)
    for slot in range(len(state.solvers)):
        changes = [audit.changed_block + 1 for key, audit in state.audits.items() if key[0] == slot]
        if get_claim(state, slot).status not in FINAL_CLAIM_STATUSES:
            due = max(last, *changes, 0)
            yield Due(calls.Judge(state.index, slot), due, due + state.terms.windows.replay // 2)


def _list_merge(state: RoundState, block: int) -> Iterator[Due]:
    if included := get_included(state):
        judged = max(claim.changed_block for claim in state.claims.values())
        yield Due(calls.PostOuter(state.index, included), judged + 1)
    ready = get_empty_block(state) if is_empty(state, block) else state.ready_block
    if ready is not None:
        if has_poster(state):
            yield Due(calls.SettleMerge(state.index), ready)
        if not state.is_advanced:
            yield Due(calls.Advance(state.index), ready)


def get_empty_block(state: RoundState) -> int:
    """Since when an EMPTY round can be over: somebody said so, or the beacon's window closed."""
    clock, is_said = state.deadlines, state.status == RoundStatus.EMPTY
    return clock.beacon_block + 1 if is_said else clock.beacon_end


def _list_settlements(state: RoundState, block: int) -> Iterator[Due]:
    is_over = is_empty(state, block)
    opens = get_empty_block(state) if is_over else get_settle_block(state, block)
    slots = [slot for slot in range(len(state.solvers)) if slot not in state.settled_slots]
    yield from (Due(calls.SettleClaim(state.index, slot), opens) for slot in slots)
    accounts = (*state.verifiers, *state.whistleblowers)
    left = [i for i, account in enumerate(accounts) if account not in state.settled_accounts]
    if left and not slots:
        end = min(left[0] + PAGE_ACCOUNTS, len(accounts))
        yield Due(calls.SettleEnrolments(state.index, left[0], end), opens)
