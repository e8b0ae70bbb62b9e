"""From a decoded log to an event: the registry by which the chain adapter needs to know no event by name."""

from collections.abc import Mapping
from dataclasses import fields
from enum import IntEnum
from typing import Any, get_type_hints

from protocol.spec import events, game_events
from protocol.spec.errors import InvalidInput
from protocol.spec.events import Event
from protocol.spec.statuses import AuditRef, ClaimRef

ADDRESS_CHARACTERS = 42
_BASES = (events.Event, events.RoundEvent, events.SlotEvent, events.AuditEvent, events.DisputeEvent)


def _list_event_types() -> list[type[Event]]:
    found = [*vars(events).values(), *vars(game_events).values()]
    return [
        kind for kind in found if isinstance(kind, type) and issubclass(kind, Event) and kind not in _BASES
    ]


EVENT_TYPES: dict[str, type[Event]] = {kind.__name__: kind for kind in _list_event_types()}
"""Every event class by its Solidity name; names are unique over all contracts."""
_FIELD_TYPES = {kind: get_type_hints(kind) for kind in EVENT_TYPES.values()}


def event_from_log(name: str, arguments: Mapping[str, Any], block_number: int) -> Event:
    """The event `name` from decoded arguments by snake-case name; enums may come as numbers, addresses in any
    case.

    Raises InvalidInput on an unknown event or other arguments than the event has."""
    kind = EVENT_TYPES.get(name)
    given = {"from_" if key == "from" else key: value for key, value in arguments.items()}
    names = [] if kind is None else [field.name for field in fields(kind) if field.name != "block_number"]
    if kind is None or set(given) != set(names):
        raise InvalidInput(
            what="no such event in this version's contracts",
            expected=f"{name}({', '.join(names)})" if kind else "an event of contracts/interfaces",
            actual=f"{name}({', '.join(given)})",
            remedy="Check that the deployment file belongs to this version.",
        )
    types = _FIELD_TYPES[kind]
    return kind(
        block_number=block_number, **{key: _coerce(types[key], value) for key, value in given.items()}
    )


def _coerce(kind: Any, value: Any) -> Any:
    if isinstance(kind, type) and issubclass(kind, IntEnum):
        return kind(value)
    if kind is ClaimRef:
        audit = AuditRef(*(getattr(value.audit, field.name) for field in fields(AuditRef)))
        return ClaimRef(audit=audit, segment=value.segment, by_solver=value.by_solver)
    if kind is str and value[:2] == "0x" and len(value) == ADDRESS_CHARACTERS:
        return value.lower()
    return tuple(value) if isinstance(value, list) else value
