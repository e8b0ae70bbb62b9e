"""What a node looks into of its own accord: ends that differ from its replay, pseudo-gradients, audits that
reject its own work.

Nothing here is owed to the protocol. It is how a cheat is found by somebody whom it would pay to find it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from protocol.actions.challenge import to_claim
from protocol.actions.memory import header_of
from protocol.actions.party import Party
from protocol.adapters.records import AccusationMade
from protocol.spec.dispute import OPEN_STAGES, DisputeState, count_queue
from protocol.spec.dispute_moves import find_first_difference
from protocol.spec.drawn import get_drawn
from protocol.spec.duties import list_audits_of
from protocol.spec.economics import is_bond_worth, is_conviction_worth
from protocol.spec.pursuit import find_earliest_closing, is_in_time, is_pursued
from protocol.spec.round import RoundState, get_audit, get_claim, get_opening, get_slot
from protocol.spec.settlement import REVEALED_STATUSES
from protocol.spec.statuses import AuditRef, AuditStatus, ClaimRef, ClaimStatus
from protocol.spec.tolerance import Judgement


@dataclass(frozen=True)
class ExamineEnd:
    """Judge the solver's opened end state against the own replay, all elements."""

    audit: AuditRef
    segment: int


@dataclass(frozen=True)
class ExaminePseudoGradient:
    """Recompute a claim's pseudo-gradient from its opened last state."""

    round: int
    slot: int
    draw: int


@dataclass(frozen=True)
class AnswerSlander:
    """See whether an audit that puts this node's own claim beyond the reject limits may be noise; accuse it
    where it is none. claim: the auditor's."""

    claim: ClaimRef


@dataclass(frozen=True)
class OpenAccusation:
    """Open the dispute that was decided on."""

    made: AccusationMade


OwnRoots = Mapping[bytes, Sequence[bytes]]
"""By dispute: the step roots of its segment as this node has them; none where it could not compute them."""
Suspicion = ExamineEnd | ExaminePseudoGradient | AnswerSlander | OpenAccusation


def list_suspicions(
    party: Party, state: RoundState, done: set[object], own_roots: OwnRoots
) -> Iterator[Suspicion]:
    """What to look into in one round. `done`: what this process has looked into already."""
    yield from (found for found in _list_examinations(party, state) if found not in done)
    accused = {to_claim(made) for made in party.memory.accusations}
    for claim in list_slanders(party, state):
        if claim not in accused and (answer := AnswerSlander(claim)) not in done:
            yield answer
    yield from list_accusations(party, state, own_roots)


def _list_examinations(party: Party, state: RoundState) -> Iterator[Suspicion]:
    for audit in list_audits_of(state, party.account):
        made = party.memory.find_audit(state, audit.key)
        opening, drawn = get_opening(state, audit.slot, audit.draw), get_drawn(state, audit.slot, audit.draw)
        if made is None or opening.end is None or drawn is None or not is_disputable(state, audit.slot):
            continue
        if get_audit(state, audit.key).status >= AuditStatus.REVEALED and opening.end != header_of(made):
            yield ExamineEnd(audit, drawn.segment)
        if audit.rank == 0:
            yield ExaminePseudoGradient(state.index, audit.slot, audit.draw)


def is_disputable(state: RoundState, slot: int) -> bool:
    """Whether a dispute on a claim of this slot can still gain anything."""
    return slot not in state.settled_slots and get_claim(state, slot).status != ClaimStatus.CONVICTED


def list_accusations(party: Party, state: RoundState, own_roots: OwnRoots) -> Iterator[OpenAccusation]:
    """Accusations written down for this round that nothing pursues yet as this node itself would. While it
    finds out whether another's dispute does, it waits: there is time to open its own in any case."""
    waiting = set(list_comparable(party, own_roots))
    for made in party.memory.accusations:
        if made.round != state.index or not is_standing(party, state, made):
            continue
        known = list_disputes_on(party, to_claim(made))
        closes_block = find_earliest_closing(state, party.view.head_block + 1)
        is_waiting = any(dispute.dispute in waiting for dispute in known)
        own_steps = {name: _find_step(party, name, roots) for name, roots in own_roots.items()}
        if not is_waiting and not is_pursued(known, party.account, own_steps, closes_block):
            yield OpenAccusation(made)


def list_comparable(party: Party, own_roots: OwnRoots) -> list[bytes]:
    """Disputes of others that could do for one of this node's own, if they are about the step that it would
    name: what it has accused, and has time to see them end."""
    found = []
    for made in party.memory.accusations:
        state, known = party.round(made.round), list_disputes_on(party, to_claim(made))
        is_open = all(one.opener != party.account and one.stage in OPEN_STAGES for one in known)
        if is_open and is_standing(party, state, made):
            closes_block = find_earliest_closing(state, party.view.head_block + 1)
            found += [one.dispute for one in known if is_in_time(one, closes_block)]
    return [name for name in found if name not in own_roots]


def list_disputes_on(party: Party, claim: ClaimRef) -> list[DisputeState]:
    """All disputes that were opened on a claim."""
    return [one for one in party.view.disputes[party.task].disputes.values() if one.claim == claim]


def _find_step(party: Party, dispute: bytes, own_roots: Sequence[bytes]) -> int | None:
    known = party.view.disputes[party.task].disputes.get(dispute)
    return None if known is None else find_first_difference(known.roots, own_roots)


def is_standing(party: Party, state: RoundState, made: AccusationMade) -> bool:
    """Whether a dispute on what is accused can still gain anything, and its bond is worth it now."""
    book, amounts = party.view.disputes[party.task], state.terms.amounts
    if made.by_solver:
        queued = count_queue(book, state.solvers[made.slot])
        return is_disputable(state, made.slot) and is_conviction_worth(amounts, queued)
    audit = get_audit(state, (made.slot, made.draw, made.rank))
    if made.slot in state.settled_slots or audit.status not in REVEALED_STATUSES:
        return False
    if made.slot == get_slot(state, party.account):
        return is_disputable(state, made.slot)
    # Nothing of this node's own is at stake: it is for the finder's share alone.
    return is_bond_worth(amounts, count_queue(book, audit.auditor))


def list_slanders(party: Party, state: RoundState) -> Iterator[ClaimRef]:
    """Audits that put this node's own claim beyond the reject limits."""
    slot = get_slot(state, party.account)
    for key, audit in state.audits.items():
        if key[0] == slot and audit.status == AuditStatus.REJECTS and audit.worst == Judgement.REJECT:
            drawn = get_drawn(state, key[0], key[1])
            if drawn is not None:
                yield ClaimRef(AuditRef(state.task, state.index, *key), drawn.segment, by_solver=False)
