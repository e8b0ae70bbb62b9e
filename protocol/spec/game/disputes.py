"""The dispute of a claim or a vote, seen from outside. Twin of `Disputes.sol`.

Any number of disputes may run at once (findings, H1). Each ends by a block that is known when it opens, and
delays only the accused seat (M3). The moves inside (D1 to D4) decide it; here its outcome is a fact.
"""

from touchstone.protocol.spec.game.bond_outcomes import forfeit_bond, return_bond
from touchstone.protocol.spec.game.calls import DisputeStatement, EndDispute
from touchstone.protocol.spec.game.claim_status import is_statement_decided
from touchstone.protocol.spec.game.convicting import convict
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.enums import GameOutcome, ProofKind
from touchstone.protocol.spec.game.events import DisputeOver, StatementDisputed
from touchstone.protocol.spec.game.open_questions import count_open_disputes
from touchstone.protocol.spec.game.pools import is_convicted
from touchstone.protocol.spec.game.rule_refusals import require
from touchstone.protocol.spec.game.state import RunningDispute
from touchstone.protocol.spec.game.statement_seats import get_accused
from touchstone.protocol.spec.game.timing import compute_dispute_clock
from touchstone.protocol.spec.game.vault import bond_of
from touchstone.protocol.spec.statements import COMPARED


def apply_dispute(draft: Draft, call: DisputeStatement, sender: str) -> None:
    """Opens a dispute. The k-th open dispute on a seat costs k bonds."""
    state, ref = draft.state, call.statement
    is_claiming = call.is_signed and call.word in COMPARED
    require(ref.draw is None or is_claiming, "StatementUnknown", "a vote that claims a state", ref)
    number = get_accused(draft, ref, call.signer, sender)
    require(is_statement_decided(state, ref, draft.block), "ClaimUndecided", actual=ref)
    bond = state.terms.amounts.dispute_bond * (1 + count_open_disputes(state, number))
    require(bond <= call.bond_limit, "WrongBond", bond, call.bond_limit)
    clock = compute_dispute_clock(state, draft.block)
    draft.emit(StatementDisputed(RunningDispute(state.next_number, ref, number, sender, clock)))
    draft.take(sender, bond_of(state.next_number), bond)


def apply_end_dispute(draft: Draft, call: EndDispute, sender: str) -> None:
    """Ends a dispute. If its opener loses, the seat is not acquitted: other disputes go on. If the seat is
    already closed, the dispute is moot."""
    state = draft.state
    require(call.dispute in state.disputes, "NothingOpen", "an open dispute", call.dispute)
    dispute = state.disputes[call.dispute]
    if is_convicted(state, dispute.seat):
        return_bond(draft, dispute.number, dispute.opener)
        draft.emit(DisputeOver(dispute.number, GameOutcome.MOOT))
        return
    if call.outcome != GameOutcome.CONVICTED:
        forfeit_bond(draft, dispute.number, state.seats[dispute.seat].account)
        draft.emit(DisputeOver(dispute.number, GameOutcome.CLEARED))
        return
    return_bond(draft, dispute.number, dispute.opener)
    draft.emit(DisputeOver(dispute.number, GameOutcome.CONVICTED))
    convict(draft, dispute.seat, ProofKind.DISPUTED, dispute.opener, dispute.statement)
