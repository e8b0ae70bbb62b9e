"""From a decoded log to an event: the registry by which the chain adapter needs to know no event by name."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from protocol.spec import events, game_events
from protocol.spec.errors import InvalidInput
from protocol.spec.events import Event

_BASES = (events.Event, events.RoundEvent, events.SlotEvent, events.AuditEvent, events.DisputeEvent)


def _list_event_types() -> list[type[Event]]:
    found = [*vars(events).values(), *vars(game_events).values()]
    return [
        kind for kind in found if isinstance(kind, type) and issubclass(kind, Event) and kind not in _BASES
    ]


EVENT_TYPES: dict[str, type[Event]] = {kind.__name__: kind for kind in _list_event_types()}
"""Every event class by its Solidity name; names are unique over all contracts."""


def event_from_log(name: str, arguments: Mapping[str, Any], block_number: int) -> Event:
    """The event `name` of decoded arguments by snake-case name. Raises InvalidInput on an unknown event or
    other arguments than the event has."""
    kind = EVENT_TYPES.get(name)
    names = [] if kind is None else [field.name for field in fields(kind) if field.name != "block_number"]
    if kind is None or set(arguments) != set(names):
        raise InvalidInput(
            what="no such event in this version's contracts",
            expected=f"{name}({', '.join(names)})" if kind else "an event of contracts/interfaces",
            actual=f"{name}({', '.join(arguments)})",
            remedy="Check that the deployment file belongs to this version.",
        )
    return kind(block_number=block_number, **arguments)
