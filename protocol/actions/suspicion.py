"""What a node looks into of its own accord: ends that differ from its replay, pseudo-gradients, audits that
reject its own work.

Nothing here is owed to the protocol. It is how a cheat is found by somebody whom it would pay to find it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from protocol.actions.challenge import to_claim
from protocol.actions.memory import header_of
from protocol.actions.party import Party
from protocol.adapters.records import AccusationMade
from protocol.spec.dispute import DisputeState, count_queue
from protocol.spec.drawn import get_drawn
from protocol.spec.duties import list_audits_of
from protocol.spec.economics import is_bond_worth
from protocol.spec.round import RoundState, get_audit, get_claim, get_opening, get_slot
from protocol.spec.settlement import REVEALED_STATUSES
from protocol.spec.statuses import AuditRef, AuditStatus, ClaimRef, ClaimStatus, Stage
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


Suspicion = ExamineEnd | ExaminePseudoGradient | AnswerSlander | OpenAccusation


def list_suspicions(party: Party, state: RoundState, done: set[object]) -> Iterator[Suspicion]:
    """What to look into in one round. `done`: what this process has looked into already."""
    yield from (found for found in _list_examinations(party, state) if found not in done)
    accused = {to_claim(made) for made in party.memory.accusations}
    for claim in list_slanders(party, state):
        if claim not in accused and (answer := AnswerSlander(claim)) not in done:
            yield answer
    yield from list_accusations(party, state)


def _list_examinations(party: Party, state: RoundState) -> Iterator[Suspicion]:
    for audit in list_audits_of(state, party.account):
        made = party.memory.audits.get((audit.round, *audit.key))
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


def list_accusations(party: Party, state: RoundState) -> Iterator[OpenAccusation]:
    """Accusations written down for this round that nobody pursues yet."""
    book = party.view.disputes[party.task]
    for made in party.memory.accusations:
        if made.round != state.index or not is_standing(party, state, made):
            continue
        known = [dispute for dispute in book.disputes.values() if dispute.claim == to_claim(made)]
        if not is_pursued(known, party.account):
            yield OpenAccusation(made)


def is_standing(party: Party, state: RoundState, made: AccusationMade) -> bool:
    """Whether a dispute on what is accused can still gain anything."""
    if made.by_solver:
        return is_disputable(state, made.slot)
    audit = get_audit(state, (made.slot, made.draw, made.rank))
    if made.slot in state.settled_slots or audit.status not in REVEALED_STATUSES:
        return False
    if made.slot == get_slot(state, party.account):
        return is_disputable(state, made.slot)
    # Nothing of this node's own is at stake: it is for the finder's share alone.
    queued = count_queue(party.view.disputes[party.task], audit.auditor)
    return is_bond_worth(state.terms.amounts, queued)


def is_pursued(disputes: Sequence[DisputeState], me: str) -> bool:
    """Whether these disputes, all on one claim, make another one needless: one is this node's own, or another
    one is on its way.

    An accomplice could open one, prove nothing and let it end: that acquits nobody, so one that was closed
    does not count, and after it nobody else's is waited for."""
    if any(dispute.opener == me for dispute in disputes):
        return True
    return bool(disputes) and all(dispute.stage != Stage.CLOSED for dispute in disputes)


def list_slanders(party: Party, state: RoundState) -> Iterator[ClaimRef]:
    """Audits that put this node's own claim beyond the reject limits."""
    slot = get_slot(state, party.account)
    for key, audit in state.audits.items():
        if key[0] == slot and audit.status == AuditStatus.REJECTS and audit.worst == Judgement.REJECT:
            drawn = get_drawn(state, key[0], key[1])
            if drawn is not None:
                yield ClaimRef(AuditRef(state.task, state.index, *key), drawn.segment, by_solver=False)
