"""A duty: one thing to do now, and until when to wait for the next."""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Protocol

from touchstone.node.kit.party import Party


class Duty(Hashable, Protocol):
    """One thing to do now."""

    async def perform(self, party: Party) -> None:
        """Do it. Raises ContractRefused where another account was faster, ProtocolFault or EnvironmentFault
        where it has to be tried again later."""


def name_duty(duty: Duty) -> str:
    """Returns the name of a duty in metrics and logs: its own `title`, where its type has several kinds, or
    that of its type."""
    return str(getattr(duty, "title", type(duty).__name__))


def find_round(about: object) -> int | None:
    """Returns the round that a duty, or what it is about, belongs to; None where it belongs to none."""
    places = (about, getattr(about, "place", None), getattr(about, "statement", None))
    return next((number for one in places if isinstance(number := getattr(one, "round", None), int)), None)


@dataclass(frozen=True)
class Wait:
    """Nothing is due yet; from `block` on something may be."""

    block: int


ListDuties = Callable[[Party, int], Iterator[Duty | Wait]]
"""(party, block): what is due for the party in the next block, whose number is `block`."""
