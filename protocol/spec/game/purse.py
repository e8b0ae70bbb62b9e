"""All money of a task in one value: whole numbers of wei in pots, moved and never made.

The sum changes by deposits from OUTSIDE and by withdrawals to it, and by nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from touchstone.protocol.spec.errors import InvalidInput


class PotKind(IntEnum):
    """What the money of a pot is. SLASHED is empty between calls; RESTITUTION is held for work that a
    fall made undone; REVENUE belongs to the holders of the task's shares, whom the machine does not know."""

    OUTSIDE = 0
    ESCROW = 1
    STAKE = 2
    BOND = 3
    CREDIT = 4
    BURNED = 5
    SLASHED = 6
    RESTITUTION = 7
    REVENUE = 8


class Pot(NamedTuple):
    """A place for money. key: a seat's number (STAKE), a bond's number (BOND), an account (CREDIT), a fall's
    number (RESTITUTION), else 0."""

    kind: PotKind
    key: int | str = 0


OUTSIDE, ESCROW = Pot(PotKind.OUTSIDE), Pot(PotKind.ESCROW)
BURNED, SLASHED = Pot(PotKind.BURNED), Pot(PotKind.SLASHED)
REVENUE = Pot(PotKind.REVENUE)


def stake_of(seat: int) -> Pot:
    """Returns the stake of a seat."""
    return Pot(PotKind.STAKE, seat)


def bond_of(number: int) -> Pot:
    """Returns the pot of the bond of a contest, an ask or a dispute."""
    return Pot(PotKind.BOND, number)


def credit_of(account: str) -> Pot:
    """Returns what an account may withdraw."""
    return Pot(PotKind.CREDIT, account)


def restitution_of(fall: int) -> Pot:
    """Returns the pot of what a slash holds for accepted claims of rounds that a fall made undone."""
    return Pot(PotKind.RESTITUTION, fall)


@dataclass(frozen=True)
class Purse:
    """wei by pot; a pot that is not there holds nothing."""

    wei: Mapping[Pot, int] = field(default_factory=dict)

    def get_wei(self, pot: Pot) -> int:
        """Returns what a pot holds."""
        return self.wei.get(pot, 0)

    def compute_total(self) -> int:
        """Returns all money in the task."""
        return sum(self.wei.values())


def move_wei(purse: Purse, source: Pot, target: Pot, wei: int) -> Purse:
    """Returns the purse after `wei` moved from source to target. Raises InvalidInput if the source holds
    less. The rules never ask for that, so it would be a bug of ours."""
    held = wei if source == OUTSIDE else purse.get_wei(source)
    if not 0 <= wei <= held:
        raise InvalidInput(
            what="a pot cannot give what it does not hold",
            expected=f"0 to {held} wei",
            actual=wei,
            remedy="Report it: the machine's rules ask for more than there is.",
            where=f"{source.kind.name} {source.key}",
        )
    changed = dict(purse.wei)
    for pot, more_wei in ((source, -wei), (target, wei)):
        if pot == OUTSIDE:
            continue
        changed[pot] = changed.get(pot, 0) + more_wei
        if not changed[pot]:
            del changed[pot]
    return Purse(changed)
