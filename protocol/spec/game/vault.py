"""Holds all money of a task in one value: whole wei in pots, moved and never made.

The sum changes only by deposits from OUTSIDE and withdrawals to it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from touchstone.protocol.spec.errors import InvalidInput


class PotKind(IntEnum):
    """The kind of a pot. SLASHED is empty between calls. HELD is what slashes have left, until a fall takes
    it for work that it undid, or the task closes. RESTITUTION is what falls have taken. REVENUE belongs to
    the holders of the task's shares, whom the machine does not know."""

    OUTSIDE = 0
    ESCROW = 1
    STAKE = 2
    BOND = 3
    CREDIT = 4
    BURNED = 5
    SLASHED = 6
    RESTITUTION = 7
    REVENUE = 8
    HELD = 9


class Pot(NamedTuple):
    """A place for money. `key` is a seat's number (STAKE), a bond's number (BOND), an account (CREDIT), else
    0."""

    kind: PotKind
    key: int | str = 0


OUTSIDE, ESCROW = Pot(PotKind.OUTSIDE), Pot(PotKind.ESCROW)
BURNED, SLASHED = Pot(PotKind.BURNED), Pot(PotKind.SLASHED)
HELD, RESTITUTION = Pot(PotKind.HELD), Pot(PotKind.RESTITUTION)
REVENUE = Pot(PotKind.REVENUE)


def stake_of(seat: int) -> Pot:
    """Returns the pot of a seat's stake."""
    return Pot(PotKind.STAKE, seat)


def bond_of(number: int) -> Pot:
    """Returns the pot of a bond of a contest, a query or a dispute."""
    return Pot(PotKind.BOND, number)


def credit_of(account: str) -> Pot:
    """Returns the pot of an account's credit."""
    return Pot(PotKind.CREDIT, account)


@dataclass(frozen=True)
class Vault:
    """Wei by pot; a missing pot is empty."""

    wei: Mapping[Pot, int] = field(default_factory=dict)

    def get_wei(self, pot: Pot) -> int:
        """Returns the wei in a pot."""
        return self.wei.get(pot, 0)

    def compute_total(self) -> int:
        """Returns all money in the task."""
        return sum(self.wei.values())


def move_wei(vault: Vault, source: Pot, target: Pot, wei: int) -> Vault:
    """Returns the vault after `wei` moved from source to target. Raises InvalidInput if the source holds
    less, which would be a bug, because the rules never do that."""
    held = wei if source == OUTSIDE else vault.get_wei(source)
    if not 0 <= wei <= held:
        raise InvalidInput(
            what="a pot holds less money than is to be moved",
            expected=f"0 to {held} wei",
            actual=wei,
            remedy="Report it: the machine's rules ask for more than there is.",
            where=f"{source.kind.name} {source.key}",
        )
    changed = dict(vault.wei)
    for pot, more_wei in ((source, -wei), (target, wei)):
        if pot == OUTSIDE:
            continue
        changed[pot] = changed.get(pot, 0) + more_wei
        if not changed[pot]:
            del changed[pot]
    return Vault(changed)
