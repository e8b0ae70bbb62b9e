"""What becomes of a bond in the end: it goes back, or it is lost."""

from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.purse import BURNED, Pot, bond_of, credit_of


def return_bond(draft: Draft, number: int, account: str) -> None:
    """Gives the whole bond back."""
    draft.move(bond_of(number), credit_of(account), draft.state.purse.get_wei(bond_of(number)))


def forfeit_bond(draft: Draft, number: int, account: str | None) -> None:
    """Gives half of a bond to `account`, which had to answer, and burns the rest. account: None if no account
    answered; then all of it is burned."""
    pot: Pot = bond_of(number)
    wei = draft.state.purse.get_wei(pot)
    if account is not None:
        draft.move(pot, credit_of(account), wei // 2)
    draft.move(pot, BURNED, draft.state.purse.get_wei(pot))
