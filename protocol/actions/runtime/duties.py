"""What a node has to do: a room lists its duties, the loop performs them.

A duty is a frozen dataclass that says what it is about, so that equal ones are one. A room lists what is due
now from what the chain told and what the journal knows, without asking anybody: `list_duties(party, block)`.
What will become due at a block that the machine does not know of, it announces as a `Wait`.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Protocol

from protocol.actions.runtime.party import Party


class Duty(Hashable, Protocol):
    """One thing to do now."""

    async def perform(self, party: Party) -> None:
        """Do it. Raises ContractRefused where somebody was faster, ProtocolFault or EnvironmentFault where it
        has to be tried again later."""


@dataclass(frozen=True)
class Wait:
    """Nothing is due yet; from `block` on something may be."""

    block: int


ListDuties = Callable[[Party, int], Iterator[Duty | Wait]]
"""(party, block): what is due for the party in the next block, whose number is `block`."""
