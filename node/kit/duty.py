"""Defines duties, waits, and the rooms that list them."""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from touchstone.node.kit.view import View

Tools = TypeVar("Tools", contravariant=True)
RoomTools = TypeVar("RoomTools")


class Duty(Hashable, Protocol[Tools]):
    """One thing to do now, with the tools of a room."""

    async def perform(self, tools: Tools, /) -> None:
        """Performs the duty. Raises ContractRefused if another account was faster, ProtocolFault or
        EnvironmentFault if it must be tried again later."""


def name_duty(duty: object) -> str:
    """Returns the name of a duty in metrics and logs: its `title` if its type has several kinds, else the
    name of the type."""
    return str(getattr(duty, "title", type(duty).__name__))


def find_round(about: object) -> int | None:
    """Returns the round of a duty, or of what the duty is about; None if it has none."""
    places = (about, getattr(about, "place", None), getattr(about, "statement", None))
    return next((number for one in places if isinstance(number := getattr(one, "round", None), int)), None)


@dataclass(frozen=True)
class Wait:
    """Nothing is due yet. Something may be from `block` on."""

    block: int


ListDuties = Callable[[View, int], Iterator[Duty[RoomTools] | Wait]]
"""Lists what is due in the next block: `list_duties(view, block)`, where `block` is its number."""


@dataclass(frozen=True)
class Room(Generic[RoomTools]):
    """Duties of one kind, and the tools that perform them. Listing gets a view alone, so it cannot act."""

    list_duties: ListDuties[RoomTools]
    tools: RoomTools
