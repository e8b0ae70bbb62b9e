"""Counts gas by the part of the game that a call went to, from the transactions of every block."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.creation import list_selectors
from touchstone.protocol.adapters.chain.deployment import PARTS, GameDeployment

ROUND_CONTRACTS = ("Rounds", "Votes", "Settlement")
"""What plays, decides and settles the rounds; everything else is of a seat, a task or a dispute."""
QUESTION_CONTRACTS = ("Disputes", "Steps", "Queries", "Evidence", "Contests")


@dataclass(frozen=True)
class Gas:
    """Gas and transactions by part or contract, failed ones included."""

    used: Mapping[str, int]
    transactions: Mapping[str, int]

    def get_sum(self, contracts: tuple[str, ...]) -> int:
        """Returns the gas of some parts."""
        return sum(self.used.get(name, 0) for name in contracts)

    def get_per_solver_round(self, claims: int) -> int:
        """Returns the gas of the rounds for each claim that was handed in."""
        return self.get_sum(ROUND_CONTRACTS) // max(claims, 1)


async def read_gas(connection: Connection, deployment: GameDeployment, first: int, last: int) -> Gas:
    """Returns the gas of the blocks [first, last]."""
    names = {address: name for name, address in deployment.contracts().items()}
    parts = {selector: part for part in PARTS for selector in list_selectors(part)}
    used, transactions = Counter[str](), Counter[str]()
    for block in range(first, last + 1):
        found = await connection.request("eth_getBlockByNumber", hex(block), True)
        sent = {one["hash"]: bytes.fromhex(one["input"][2:10]) for one in found["transactions"]}
        if not sent:
            continue
        receipts: list[dict[str, Any]] = await connection.request("eth_getBlockReceipts", hex(block))
        for receipt in receipts:
            name = names.get(str(receipt["to"] or "").lower(), "other")
            if name == "Game":
                name = parts.get(sent[receipt["transactionHash"]], name)
            used[name] += int(receipt["gasUsed"], 16)
            transactions[name] += 1
    return Gas(used, transactions)
