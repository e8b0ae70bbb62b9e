"""The base of all documents, and their shared field types.

Amounts are texts of wei, because JSON numbers lose digits in many readers. A unit is part of the field's
name.
"""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from touchstone.protocol.spec.game.enums import SeatRole


class Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a command found or did. The docstring of a subclass describes its schema."""


Id = Annotated[str, Meta(pattern="^0x[0-9a-f]{64}$", description="an id or a root of 32 bytes")]
Root = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", description="a root of 32 bytes")]
Account = Annotated[str, Meta(pattern="^0x[0-9a-fA-F]{40}$", description="an account or a contract")]
Wei = Annotated[str, Meta(pattern="^[0-9]+$", description="an amount in wei, as a text")]
Count = Annotated[int, Meta(ge=0)]


class Role(StrEnum):
    """What a seat is for."""

    SOLVER = "solver"
    VERIFIER = "verifier"
    WHISTLEBLOWER = "whistleblower"


def spell_role(role: SeatRole) -> Role:
    """Returns the word of a role."""
    return Role(role.name.lower())


def format_id(value: bytes) -> str:
    """Returns an id of 32 bytes in full: `0x` and 64 hex digits."""
    return f"0x{value.hex()}"
