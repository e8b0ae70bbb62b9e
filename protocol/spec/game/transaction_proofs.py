"""Applies proofs in one transaction, which convict a seat at once. Twin of `Evidence.sol`."""

from touchstone.protocol.spec.game.calls import CommitProof, ConvictSeat
from touchstone.protocol.spec.game.convicting import convict
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.enums import AUDITOR_PROOFS, SOLVER_PROOFS
from touchstone.protocol.spec.game.events import ProofCommitted
from touchstone.protocol.spec.game.rule_refusals import require
from touchstone.protocol.spec.game.state import GameState
from touchstone.protocol.spec.game.statement_seats import get_accused


def apply_commit_proof(draft: Draft, call: CommitProof, sender: str) -> None:
    """Commits to a proof by its digest. The digest names its sender, so a copy of it is useless to another
    account."""
    draft.emit(ProofCommitted(sender, call.digest))


def is_sealed(state: GameState, sender: str, digest: bytes, block: int) -> bool:
    """Returns whether the sender has committed to a proof in an earlier block, not too long ago."""
    sealed = state.seals.get((sender, digest))
    return sealed is not None and sealed < block <= sealed + state.bounds.proof_commit_blocks


def apply_convict(draft: Draft, call: ConvictSeat, sender: str) -> None:
    """Convicts a seat at once, by a proof that needs no answer."""
    sealed = is_sealed(draft.state, sender, call.digest, draft.block)
    require(sealed, "ProofNotCommitted", "an earlier block", draft.block)
    number = get_accused(draft, call.statement, call.signer, sender)
    kinds = SOLVER_PROOFS if call.statement.draw is None else AUDITOR_PROOFS
    is_kind = call.proof in kinds
    require(is_kind and call.is_valid, "ProofInvalid", sorted(kind.name for kind in kinds), call.proof.name)
    convict(draft, number, call.proof, sender, call.statement)
