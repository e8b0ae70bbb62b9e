"""Chooses what a transaction pays for its gas (EIP-1559), and what it offers next if it is not mined."""

import secrets
from dataclasses import dataclass

from touchstone.protocol.adapters.chain.connection import Connection

BUMP_PERCENT = 130
"""Nodes replace a waiting transaction only for at least 10 % more; 30 % catches up with a rising base fee."""
LEAST_BUMP_PERCENT = 110
SALT_WEI = 1 << 20
"""A random amount below this is added to the fee limit. Otherwise two processes that sign the same call with
the same nonce would sign the same transaction, and both take its receipt for their own."""
NO_CAP_WEI = 1 << 128
MOST_TIP_TIMES, MOST_TIP_WEI = 10, 5 * 10**9
"""An endpoint names the tip that the node pays. If the operator sets no limit for one gas, a tip is accepted
up to ten base fees, or five gwei if that is more."""
MOST_TIMES = 3
"""If a transaction stays unmined in the pool, its fee is raised up to this many times the fee that the head
asks for."""


@dataclass(frozen=True)
class FeeOffer:
    """The most that one gas may cost, and the part of it that goes to the block's proposer, in wei."""

    max_fee_wei: int
    tip_wei: int

    def raise_to(self, asked: "FeeOffer", cap_wei: int) -> "FeeOffer":
        """Returns the offer that replaces this one: this one plus the increase that nodes require, or the
        head's fee if that is more, but at most `cap_wei`."""
        tip_wei = max(_add(self.tip_wei, BUMP_PERCENT), asked.tip_wei)
        max_fee_wei = max(_add(self.max_fee_wei, BUMP_PERCENT), asked.max_fee_wei, tip_wei)
        return FeeOffer(max_fee_wei, tip_wei).keep_to(cap_wei)

    def is_below(self, asked: "FeeOffer") -> bool:
        """Returns whether `asked` is higher, by more than the random amount in both offers."""
        return asked.max_fee_wei > self.max_fee_wei + SALT_WEI or asked.tip_wei > self.tip_wei

    def keep_to(self, cap_wei: int) -> "FeeOffer":
        """Returns the offer, limited to `cap_wei`."""
        return FeeOffer(min(self.max_fee_wei, cap_wei), min(self.tip_wei, cap_wei))

    def may_replace(self, other: "FeeOffer") -> bool:
        """Returns whether nodes accept this offer as a replacement of a waiting one."""
        pairs = ((self.tip_wei, other.tip_wei), (self.max_fee_wei, other.max_fee_wei))
        return all(new >= _add(old, LEAST_BUMP_PERCENT) - 1 for new, old in pairs)


def limit_tip(tip_wei: int, base_fee_wei: int, cap_wei: int) -> int:
    """Returns the tip that this node pays if an endpoint asks for `tip_wei`. `cap_wei` is the operator's
    limit."""
    most_wei = max(MOST_TIP_TIMES * base_fee_wei, MOST_TIP_WEI) if cap_wei >= NO_CAP_WEI else cap_wei
    return min(tip_wei, most_wei)


async def ask_fee(connection: Connection, cap_wei: int) -> FeeOffer:
    """Returns the fee for the present head: the endpoint's tip, limited, plus twice the base fee. It suffices
    while the base fee rises for six blocks. At most `cap_wei`. Raises EnvironmentFault."""
    base_fee_wei = (await connection.head()).base_fee_wei
    tip_wei = limit_tip(await connection.priority_fee(), base_fee_wei, cap_wei)
    return FeeOffer(2 * base_fee_wei + tip_wei + secrets.randbelow(SALT_WEI), tip_wei).keep_to(cap_wei)


def _add(amount: int, percent: int) -> int:
    return amount * percent // 100 + 1
