"""Credit for a bond, and for what it costs if others open some more before it."""

from touchstone.node.kit.view import View
from touchstone.protocol.adapters.chain.chain_client import GameChain

SPARE_BONDS = 4
"""So many may others open between a look at the chain and this node's own call: each makes it a bond
dearer."""


async def fund_bonds(chain: GameChain, view: View, open_count: int, bond_wei: int) -> int:
    """Makes sure of credit for a bond after `open_count` open ones, also if others open some more before it.
    Returns the most to pay, in wei: not more than a seat costs, nor than this account has. Raises
    ContractRefused if that does not pay what is due now."""
    due_wei, amounts = (open_count + 1) * bond_wei, view.game.terms.amounts
    limit_wei = min(due_wei + SPARE_BONDS * bond_wei, max(amounts.solver_stake, amounts.auditor_stake))
    credit, tokens = chain.purse.credit_of, chain.token.balance_of
    held_wei: int = await credit(view.account) + await tokens(view.account)
    limit_wei = max(due_wei, min(limit_wei, held_wei))
    await chain.deposit_missing(limit_wei)
    return limit_wei
