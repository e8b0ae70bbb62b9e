"""Defines the part that a party plays: a role, a seat, and the rooms whose duties it performs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from touchstone.node.joining.seat_taking import SeatRequest
from touchstone.node.kit.duty import Duty, Room, Wait
from touchstone.node.kit.view import View
from touchstone.node.loop.node import Node
from touchstone.node.loop.node_loop import Loop
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.scripts.roles.role_nodes import Member, Solver, Verifier, Whistleblower

Change = Callable[[Duty[Any]], Duty[Any] | None]
"""What a cheat does in the place of a duty; None: nothing."""


def list_usual_rooms(node: Member) -> Sequence[Room[Any]]:
    """Returns the rooms of the node's role."""
    return node.list_rooms()


@dataclass(frozen=True)
class Part:
    """What a party does. `list_rooms` gives the rooms whose duties it performs once it has joined. `spoil`
    changes the node of a cheat then."""

    role: type[Member]
    request: SeatRequest
    list_rooms: Callable[[Member], Sequence[Room[Any]]] = list_usual_rooms
    spoil: Callable[[Member], None] = lambda node: None

    def make_loop(self, node: Member) -> Loop:
        """Returns the loop of a node that has joined."""
        return make_loop(node, self.list_rooms(node))


def make_loop(node: Node, rooms: Sequence[Room[Any]]) -> Loop:
    """Returns a loop that performs the duties of these rooms until the task is closed."""
    return Loop(node.following, node.find_view, node.account, node.config.notify, rooms)


HONEST = {
    SeatRole.SOLVER: Part(Solver, SeatRequest(SeatRole.SOLVER)),
    SeatRole.VERIFIER: Part(Verifier, SeatRequest(SeatRole.VERIFIER)),
    SeatRole.WHISTLEBLOWER: Part(Whistleblower, SeatRequest(SeatRole.WHISTLEBLOWER)),
}
"""The honest part by role."""


def get_lister(room: Room[Any]) -> Any:
    """Returns the function that lists the duties of a room, without what is bound to it."""
    return getattr(room.list_duties, "func", room.list_duties)


def change_duties(rooms: Sequence[Room[Any]], listers: Sequence[Any], change: Change) -> list[Room[Any]]:
    """Returns the rooms, with each duty that one of `listers` lists changed. Raises LookupError if no room is
    listed by them, because a cheat would be honest."""

    def list_changed(room: Room[Any], view: View, block: int) -> Iterator[Duty[Any] | Wait]:
        for duty in room.list_duties(view, block):
            changed = duty if isinstance(duty, Wait) else change(duty)
            if changed is not None:
                yield changed

    if not any(get_lister(room) in listers for room in rooms):
        raise LookupError(f"no room whose duties one of {listers} lists")
    return [
        replace(room, list_duties=partial(list_changed, room)) if get_lister(room) in listers else room
        for room in rooms
    ]
