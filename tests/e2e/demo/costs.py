"""Gas by contract, from the receipts of every block."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.deployment import GameDeployment

ROUND_CONTRACTS = ("Rounds", "Votes", "Settlement")
"""What plays, decides and settles the rounds; everything else is of a seat, a task or a dispute."""
QUESTION_CONTRACTS = ("Disputes", "Asks", "Evidence", "Contests")


@dataclass(frozen=True)
class Gas:
    """Gas and transactions by contract, failed ones included."""

    used: Mapping[str, int]
    transactions: Mapping[str, int]

    def get_sum(self, contracts: tuple[str, ...]) -> int:
        """Gas of some contracts."""
        return sum(self.used.get(name, 0) for name in contracts)

    def get_per_solver_round(self, claims: int) -> int:
        """Gas of the rounds for each claim that was handed in."""
        return self.get_sum(ROUND_CONTRACTS) // max(claims, 1)


async def read_gas(connection: Connection, deployment: GameDeployment, first: int, last: int) -> Gas:
    """Of the blocks [first, last]."""
    names = {address: name for name, address in deployment.contracts().items()}
    used, transactions = Counter[str](), Counter[str]()
    for block in range(first, last + 1):
        if not int(await connection.request("eth_getBlockTransactionCountByNumber", hex(block)), 16):
            continue
        receipts: list[dict[str, Any]] = await connection.request("eth_getBlockReceipts", hex(block))
        for receipt in receipts:
            name = names.get(str(receipt["to"] or "").lower(), "other")
            used[name] += int(receipt["gasUsed"], 16)
            transactions[name] += 1
    return Gas(used, transactions)
