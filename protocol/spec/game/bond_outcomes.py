"""Ends a bond: it is returned, or it is lost."""

from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.vault import BURNED, Pot, bond_of, credit_of


def return_bond(draft: Draft, number: int, account: str) -> None:
    """Returns the whole bond."""
    draft.move(bond_of(number), credit_of(account), draft.state.vault.get_wei(bond_of(number)))


def forfeit_bond(draft: Draft, number: int, account: str | None) -> None:
    """Pays half of a bond to `account`, which had to answer, and burns the rest. If `account` is None, nobody
    answered, and all of it is burned."""
    pot: Pot = bond_of(number)
    wei = draft.state.vault.get_wei(pot)
    if account is not None:
        draft.move(pot, credit_of(account), wei // 2)
    draft.move(pot, BURNED, draft.state.vault.get_wei(pot))
