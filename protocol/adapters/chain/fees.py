"""What a transaction offers for its gas (EIP-1559), and what it offers next if it is not mined."""

import secrets
from dataclasses import dataclass

from touchstone.protocol.adapters.chain.connection import Connection

BUMP_PERCENT = 130
"""Nodes replace a waiting transaction only for at least 10 % more; 30 % catches up with a rising base fee."""
LEAST_BUMP_PERCENT = 110
SALT_WEI = 1 << 20
"""Below this a random amount is added to the fee limit: two processes that sign the same call with the same
nonce would otherwise sign the same transaction, and both would take its receipt for their own."""
NO_CAP_WEI = 1 << 128
MOST_TIP_TIMES, MOST_TIP_WEI = 10, 5 * 10**9
"""An endpoint names the tip, and the node pays it. If the operator names no most for one gas, it is believed
up to ten base fees, or five gwei if that is more."""
MOST_TIMES = 3
"""What a pool has and nobody mines is offered at most so many times what the head asks for."""


@dataclass(frozen=True)
class FeeOffer:
    """The most that one gas may cost, and the part of it that the block's proposer gets, in wei."""

    max_fee_wei: int
    tip_wei: int

    def raise_to(self, asked: "FeeOffer", cap_wei: int) -> "FeeOffer":
        """Returns the offer that replaces this one: as much more as nodes ask for, or what the head asks for
        if that is more; at most `cap_wei`."""
        tip_wei = max(_add(self.tip_wei, BUMP_PERCENT), asked.tip_wei)
        max_fee_wei = max(_add(self.max_fee_wei, BUMP_PERCENT), asked.max_fee_wei, tip_wei)
        return FeeOffer(max_fee_wei, tip_wei).keep_to(cap_wei)

    def is_below(self, asked: "FeeOffer") -> bool:
        """Returns whether `asked` is more, by more than the random amount in both."""
        return asked.max_fee_wei > self.max_fee_wei + SALT_WEI or asked.tip_wei > self.tip_wei

    def keep_to(self, cap_wei: int) -> "FeeOffer":
        """Returns the offer, at most `cap_wei`."""
        return FeeOffer(min(self.max_fee_wei, cap_wei), min(self.tip_wei, cap_wei))

    def may_replace(self, other: "FeeOffer") -> bool:
        """Returns whether nodes take this offer in place of a waiting one."""
        pairs = ((self.tip_wei, other.tip_wei), (self.max_fee_wei, other.max_fee_wei))
        return all(new >= _add(old, LEAST_BUMP_PERCENT) - 1 for new, old in pairs)


def limit_tip(tip_wei: int, base_fee_wei: int, cap_wei: int) -> int:
    """Returns the tip that is paid if an endpoint asks for `tip_wei`. cap_wei: as the operator allows."""
    most_wei = max(MOST_TIP_TIMES * base_fee_wei, MOST_TIP_WEI) if cap_wei >= NO_CAP_WEI else cap_wei
    return min(tip_wei, most_wei)


async def ask_fee(connection: Connection, cap_wei: int) -> FeeOffer:
    """Returns what the head asks for: the tip that the endpoint thinks right, as far as it is believed, and
    twice the base fee, which so may rise for six blocks. At most `cap_wei`. Raises EnvironmentFault."""
    base_fee_wei = (await connection.head()).base_fee_wei
    tip_wei = limit_tip(await connection.priority_fee(), base_fee_wei, cap_wei)
    return FeeOffer(2 * base_fee_wei + tip_wei + secrets.randbelow(SALT_WEI), tip_wei).keep_to(cap_wei)


def _add(amount: int, percent: int) -> int:
    return amount * percent // 100 + 1
