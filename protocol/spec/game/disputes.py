"""DISPUTE seen from outside, and what is proven in one transaction.

Any number of disputes runs at once (findings, H1), each ends by a block that is known when it opens, and none
holds anybody but the seat that it names (M3). Inside, D1 to D4 of the dispute's own machine decide; here
their outcome is a fact.
"""

from protocol.spec.game.calls import ConvictSeat, DisputeStatement, EndDispute, SealProof
from protocol.spec.game.convicting import convict, forfeit_bond, return_bond
from protocol.spec.game.draft import Draft
from protocol.spec.game.enums import (
    AUDITOR_PROOFS,
    SOLVER_PROOFS,
    ClaimFate,
    GameOutcome,
    ProofKind,
)
from protocol.spec.game.events import DisputeOver, ProofSealed, StatementDisputed
from protocol.spec.game.fates import get_claim_fate
from protocol.spec.game.pools import is_closed
from protocol.spec.game.purse import bond_of
from protocol.spec.game.refusals import require
from protocol.spec.game.state import GameState, RunningDispute, StatementRef
from protocol.spec.game.statement_refs import count_open_disputes, get_statement_seat
from protocol.spec.game.timing import compute_dispute_clock, get_statement_until
from protocol.spec.statements import COMPARED


def _get_accused(draft: Draft, ref: StatementRef, signer: int | None, sender: str) -> int:
    """The seat that answers for a statement which can still be proven false."""
    state, number = draft.state, get_statement_seat(draft.state, ref, signer)
    require(not is_closed(state, number), "SeatClosed", actual=number)
    require(state.seats[number].account != sender, "OwnStatement", actual=sender)
    until = get_statement_until(state, ref)
    require(draft.block <= until, "OutsideWindow", f"until {until}", draft.block)
    return number


def apply_dispute(draft: Draft, call: DisputeStatement, sender: str) -> None:
    """The k-th open dispute on a seat costs k bonds."""
    state, ref = draft.state, call.statement
    is_claiming = call.is_signed and call.word in COMPARED
    require(ref.draw is None or is_claiming, "StatementUnknown", "a vote that claims a state", ref)
    number = _get_accused(draft, ref, call.signer, sender)
    fate = get_claim_fate(state, state.rounds[ref.round], ref.slot, draft.block)
    is_decided = fate in (ClaimFate.ACCEPTED, ClaimFate.VOID)
    require(is_decided, "ClaimUndecided", actual=fate.name)
    bond = state.terms.amounts.dispute_bond * (1 + count_open_disputes(state, number))
    require(bond <= call.bond_limit, "WrongBond", bond, call.bond_limit)
    clock = compute_dispute_clock(state, draft.block)
    draft.emit(StatementDisputed(RunningDispute(state.next_number, ref, number, sender, clock)))
    draft.take(sender, bond_of(state.next_number), bond)


def apply_end_dispute(draft: Draft, call: EndDispute, sender: str) -> None:
    """A lost dispute acquits of nothing: others go on. Where the seat is closed already, it has no object."""
    state = draft.state
    require(call.dispute in state.disputes, "NothingOpen", "an open dispute", call.dispute)
    dispute = state.disputes[call.dispute]
    if is_closed(state, dispute.seat):
        return_bond(draft, dispute.number, dispute.opener)
        draft.emit(DisputeOver(dispute.number, GameOutcome.MOOT))
        return
    is_convicted = call.outcome == GameOutcome.CONVICTED
    draft.emit(DisputeOver(dispute.number, GameOutcome.CONVICTED if is_convicted else GameOutcome.CLEARED))
    if is_convicted:
        return_bond(draft, dispute.number, dispute.opener)
        convict(draft, dispute.seat, ProofKind.DISPUTED, dispute.opener, dispute.statement)
    else:
        forfeit_bond(draft, dispute.number, state.seats[dispute.seat].account)


# --- Proofs in one transaction ------------------------------------------------------------------------------
def apply_seal_proof(draft: Draft, call: SealProof, sender: str) -> None:
    """The digest names its sender, so a copy of it seals nothing for anybody else."""
    draft.emit(ProofSealed(sender, call.digest))


def is_sealed(state: GameState, sender: str, digest: bytes, block: int) -> bool:
    """Whether a proof was sealed by its sender in an earlier block, not too long ago."""
    sealed = state.seals.get((sender, digest))
    return sealed is not None and sealed < block <= sealed + state.limits.proof_seal_blocks


def apply_convict(draft: Draft, call: ConvictSeat, sender: str) -> None:
    """A proof without a clock: the seat is closed at once."""
    sealed = is_sealed(draft.state, sender, call.digest, draft.block)
    require(sealed, "SealMissing", "an earlier block", draft.block)
    number = _get_accused(draft, call.statement, call.signer, sender)
    kinds = SOLVER_PROOFS if call.statement.draw is None else AUDITOR_PROOFS
    is_kind = call.proof in kinds
    require(is_kind and call.is_valid, "ProofInvalid", sorted(kind.name for kind in kinds), call.proof.name)
    convict(draft, number, call.proof, sender, call.statement)
