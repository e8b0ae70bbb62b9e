"""Provides credit for a bond, even if others open disputes first and make it dearer."""

from touchstone.node.kit.view import View
from touchstone.protocol.adapters.chain.chain_client import GameChain

SPARE_BONDS = 4
"""The number of bonds that others may open between a look at the chain and this node's call. Each one adds a
bond to the price."""


async def fund_bonds(chain: GameChain, view: View, open_count: int, bond_wei: int) -> int:
    """Makes sure that the credit pays a bond on top of `open_count` open ones, even if a few more are opened
    first. Returns the most to pay in wei; it exceeds neither the price of a seat nor the account's money.
    Raises ContractRefused if that is less than the present price."""
    due_wei, amounts = (open_count + 1) * bond_wei, view.game.terms.amounts
    limit_wei = min(due_wei + SPARE_BONDS * bond_wei, max(amounts.solver_stake, amounts.auditor_stake))
    credit, tokens = chain.vault.credit_of, chain.token.balance_of
    held_wei: int = await credit(view.account) + await tokens(view.account)
    limit_wei = max(due_wei, min(limit_wei, held_wei))
    await chain.deposit_missing(limit_wei)
    return limit_wei
