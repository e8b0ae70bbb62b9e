"""Convicts a seat: closes it, and splits its whole stake. Twin of `Convictions.sol`.

The finder gets a quarter at most, and no more than the cap. The submitter gets a quarter at most, and no more
than it may still have to pay. The rest, half or more, first pays for accepted work that the fault made void
(`compensation.py`); then it is burned. A solver's rest is held until its number is free, because a root that
it signed may fall later: then the rest pays for the work that falls with the root. Open queries and disputes
on the seat end once an account sends EndQuery or EndDispute.
"""

from touchstone.protocol.spec.game.compensation import compute_owed, has_taken_pay, restore_pay
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.enums import ProofKind, SeatRole
from touchstone.protocol.spec.game.events import PayHeld, SeatConvicted
from touchstone.protocol.spec.game.pools import get_stake, is_convicted
from touchstone.protocol.spec.game.state import Fall, StatementRef
from touchstone.protocol.spec.game.vault import (
    BURNED,
    ESCROW,
    SLASHED,
    credit_of,
    held_of,
    restitution_of,
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
    keep_rest(draft, number)


def convict_signers(
    draft: Draft, signers: tuple[int, ...], finder: str, index: int, undone: list[int]
) -> None:
    """Closes all seats that signed the root of round `index`, which fell. The rest of the slash is held for
    accepted claims of the undone rounds until they settle."""
    left = tuple(number for number in signers if not is_convicted(draft.state, number))
    take_held(draft, signers)
    for number in left:
        draft.emit(SeatConvicted(number, ProofKind.WRONG_MERGE, None))
    take_stakes(draft, left, finder)
    owed = compute_owed(draft.state, undone, draft.block)
    number, vault = len(draft.state.falls), draft.state.vault
    held = min(owed, vault.get_wei(SLASHED) + vault.get_wei(restitution_of(number)))
    draft.emit(PayHeld(Fall(number, index + 1, draft.state.next_round - 1, owed, held)))
    hold_pay(draft, number, held)


def keep_rest(draft: Draft, number: int) -> None:
    """Burns the rest of the slash; if the seat is a solver's, the rest is held."""
    is_solver = number >> 16 == SeatRole.SOLVER
    draft.move(SLASHED, held_of(number) if is_solver else BURNED, draft.state.vault.get_wei(SLASHED))


def take_held(draft: Draft, signers: tuple[int, ...]) -> None:
    """Takes the rest of earlier convictions of the signers for the fall that comes next. Finder and submitter
    have their shares of it already."""
    for number in signers:
        if is_convicted(draft.state, number):
            pot = restitution_of(len(draft.state.falls))
            draft.move(held_of(number), pot, draft.state.vault.get_wei(held_of(number)))


def hold_pay(draft: Draft, number: int, held: int) -> None:
    """Holds money for a fall, from earlier convictions first, and burns the rest of the slash."""
    pot = restitution_of(number)
    taken = draft.state.vault.get_wei(pot)
    draft.move(pot, BURNED, max(taken - held, 0))
    draft.move(SLASHED, pot, max(held - taken, 0))
    draft.move(SLASHED, BURNED, draft.state.vault.get_wei(SLASHED))


def take_stakes(draft: Draft, numbers: tuple[int, ...], finder: str) -> None:
    """Takes the stakes, and pays the finder and the submitter; the rest stays in SLASHED."""
    for number in numbers:
        draft.move(stake_of(number), SLASHED, get_stake(draft.state, number))
    total = draft.state.vault.get_wei(SLASHED)
    draft.move(SLASHED, credit_of(finder), min(total // 4, draft.state.terms.amounts.finder_cap))
    refund = min(total // 4, draft.state.vault.get_wei(ESCROW))
    draft.move(SLASHED, credit_of(draft.state.terms.submitter), refund)
