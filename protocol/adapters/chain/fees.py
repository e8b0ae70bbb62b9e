"""What a transaction offers for its gas (EIP-1559), and what it offers next where it is not mined."""

import secrets
from dataclasses import dataclass

from protocol.adapters.chain.connection import Connection

BUMP_PERCENT = 130
"""Nodes replace a waiting transaction only for at least 10 % more; 30 % catches up with a rising base fee."""
LEAST_BUMP_PERCENT = 110
SALT_WEI = 1 << 20
"""Below this a random amount is added to the fee limit: two processes that sign the same call with the same
nonce would otherwise sign the same transaction, and both would take its receipt for their own."""
NO_CAP_WEI = 1 << 128


@dataclass(frozen=True)
class FeeOffer:
    """What one gas may cost in all, and what of it the block's proposer gets, in wei."""

    max_fee_wei: int
    tip_wei: int

    def raise_to(self, asked: "FeeOffer", cap_wei: int) -> "FeeOffer":
        """Returns the offer that replaces this one: as much more as nodes ask for, or what the head asks for
        where that is more; at most `cap_wei`."""
        tip_wei = max(_add(self.tip_wei, BUMP_PERCENT), asked.tip_wei)
        max_fee_wei = max(_add(self.max_fee_wei, BUMP_PERCENT), asked.max_fee_wei, tip_wei)
        return FeeOffer(max_fee_wei, tip_wei).keep_to(cap_wei)

    def keep_to(self, cap_wei: int) -> "FeeOffer":
        """Returns the offer, at most `cap_wei`."""
        return FeeOffer(min(self.max_fee_wei, cap_wei), min(self.tip_wei, cap_wei))

    def may_replace(self, other: "FeeOffer") -> bool:
        """Returns whether nodes take this offer in place of a waiting one."""
        pairs = ((self.tip_wei, other.tip_wei), (self.max_fee_wei, other.max_fee_wei))
        return all(new >= _add(old, LEAST_BUMP_PERCENT) - 1 for new, old in pairs)


async def ask_fee(connection: Connection) -> FeeOffer:
    """Returns what the head asks for: the tip that the node thinks right, and twice the base fee, which so
    may rise for six blocks. Raises EnvironmentFault."""
    tip_wei = await connection.priority_fee()
    base_fee_wei = (await connection.head()).base_fee_wei
    return FeeOffer(2 * base_fee_wei + tip_wei + secrets.randbelow(SALT_WEI), tip_wei)


def _add(amount: int, percent: int) -> int:
    return amount * percent // 100 + 1
