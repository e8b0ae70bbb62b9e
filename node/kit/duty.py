"""Duties, waits, and the rooms that list them."""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from touchstone.node.kit.view import View

Tools = TypeVar("Tools", contravariant=True)
RoomTools = TypeVar("RoomTools")


class Duty(Hashable, Protocol[Tools]):
    """One thing to do now, with the tools of its room."""

    async def perform(self, tools: Tools, /) -> None:
        """Performs the duty. Raises ContractRefused if another account was faster, ProtocolFault or
        EnvironmentFault if it has to be tried again later."""


def name_duty(duty: object) -> str:
    """Returns the name of a duty in metrics and logs: its own `title`, if its type has several kinds, or that
    of its type."""
    return str(getattr(duty, "title", type(duty).__name__))


def find_round(about: object) -> int | None:
    """Returns the round that a duty, or what it is about, belongs to; None if it belongs to none."""
    places = (about, getattr(about, "place", None), getattr(about, "statement", None))
    return next((number for one in places if isinstance(number := getattr(one, "round", None), int)), None)


@dataclass(frozen=True)
class Wait:
    """Nothing is due yet; from `block` on something may be."""

    block: int


ListDuties = Callable[[View, int], Iterator[Duty[RoomTools] | Wait]]
"""(view, block): what is due in the next block, whose number is `block`."""


@dataclass(frozen=True)
class Room(Generic[RoomTools]):
    """Duties of one kind, and the tools that perform them. Listing duties uses no tools, and a view cannot
    act."""

    list_duties: ListDuties[RoomTools]
    tools: RoomTools
