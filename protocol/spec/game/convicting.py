"""Convicts a seat: closes it, and splits its whole stake. Twin of `Convictions.sol`.

The finder gets a quarter at most, and no more than the cap. The submitter gets a quarter at most, and no more
than it may still have to pay. The rest, half or more, first pays for accepted work that the fault made void
(`compensation.py`). What is left is held: it pays for accepted work that a fall undoes, also a later one, and
is burned when the task closes. Open queries and disputes on the seat end once an account sends EndQuery or
EndDispute.
"""

from touchstone.protocol.spec.game.compensation import compute_owed, has_taken_pay, restore_pay
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.enums import ProofKind
from touchstone.protocol.spec.game.events import PayHeld, SeatConvicted
from touchstone.protocol.spec.game.pools import get_stake, is_convicted
from touchstone.protocol.spec.game.state import Fall, StatementRef
from touchstone.protocol.spec.game.vault import (
    ESCROW,
    HELD,
    RESTITUTION,
    SLASHED,
    credit_of,
    stake_of,
)


def convict(draft: Draft, number: int, proof: ProofKind, finder: str, ref: StatementRef) -> None:
    """Closes a seat for one of its statements. If a false REJECT took a claim's pay, the slash pays it, and
    the escrow's part for it is burned."""
    is_restored = has_taken_pay(draft.state, number, ref, draft.block)
    draft.emit(SeatConvicted(number, proof, ref))
    take_stakes(draft, (number,), finder)
    if is_restored:
        restore_pay(draft, ref)
    keep_rest(draft)


def convict_signers(
    draft: Draft, signers: tuple[int, ...], finder: str, index: int, undone: list[int]
) -> None:
    """Closes all seats that signed the root of round `index`, which fell. What slashes have left, this one
    and earlier ones, is set aside for accepted claims of the undone rounds until they settle."""
    left = tuple(number for number in signers if not is_convicted(draft.state, number))
    for number in left:
        draft.emit(SeatConvicted(number, ProofKind.WRONG_MERGE, None))
    take_stakes(draft, left, finder)
    keep_rest(draft)
    owed = compute_owed(draft.state, undone, draft.block)
    held = min(owed, draft.state.vault.get_wei(HELD))
    number = len(draft.state.falls)
    draft.emit(PayHeld(Fall(number, index + 1, draft.state.next_round - 1, owed, held)))
    draft.move(HELD, RESTITUTION, held)


def keep_rest(draft: Draft) -> None:
    """Holds the rest of the slash."""
    draft.move(SLASHED, HELD, draft.state.vault.get_wei(SLASHED))


def take_stakes(draft: Draft, numbers: tuple[int, ...], finder: str) -> None:
    """Takes the stakes, and pays the finder and the submitter; the rest stays in SLASHED."""
    for number in numbers:
        draft.move(stake_of(number), SLASHED, get_stake(draft.state, number))
    total = draft.state.vault.get_wei(SLASHED)
    draft.move(SLASHED, credit_of(finder), min(total // 4, draft.state.terms.amounts.finder_cap))
    refund = min(total // 4, draft.state.vault.get_wei(ESCROW))
    draft.move(SLASHED, credit_of(draft.state.terms.submitter), refund)
