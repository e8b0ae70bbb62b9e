"""Splits calls so that each part fits into one transaction.

Some calls grow with the number of solvers or auditors. The chain's node is asked how many items fit: all of
them, then half as many, until a part fits.
"""

from collections.abc import Callable, Sequence
from typing import Any

from touchstone.protocol.adapters.chain.contract import Contract
from touchstone.protocol.adapters.chain.refusals import ContractRefused
from touchstone.protocol.adapters.chain.transactions import MOST_GAS, limit_gas
from touchstone.protocol.spec.errors import EnvironmentFault

MOST_DATA_BYTES = 126 * 1024
"""Ethereum nodes pass on transactions of 128 KiB at most, signature and envelope included."""
Arrange = Callable[[Sequence[Any]], tuple[Any, ...]]
"""Returns the arguments of a call for some of the items."""


async def count_fitting(contract: Contract, name: str, items: Sequence[Any], arrange: Arrange) -> int:
    """Returns how many of the first `items` fit into one call of a function. It tries all, a half, a quarter
    and so on, down to one. Raises as `fits` does."""
    count = len(items)
    while count > 1 and not await fits(contract, name, arrange(items[:count])):
        count = -(-count // 2)
    return count


async def fits(contract: Contract, name: str, arguments: Sequence[Any]) -> bool:
    """Returns whether a call fits into one transaction, with the usual margin of gas. Raises ContractRefused
    if the contract refuses it by name, EnvironmentFault if the chain is silent."""
    if len(contract.encode(name, *arguments)) > MOST_DATA_BYTES:
        return False
    try:
        gas = await contract.estimate_gas(name, *arguments)
    except ContractRefused as refusal:
        # A nested call ran out of gas.
        if refusal.name != "Unknown":
            raise
        return False
    except EnvironmentFault as fault:
        # More gas than the chain's node allows for a call.
        if fault.retryable:
            raise
        return False
    return limit_gas(gas) < MOST_GAS
