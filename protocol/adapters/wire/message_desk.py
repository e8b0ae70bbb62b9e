"""A desk answers one kind of message of peers; a room of the node opens one for each kind."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256

from touchstone.protocol.adapters.messages import Message

DESK = "desk"
"""POST /desk/<name>?sha256=<of the body>: a message in JSON, answered by one; signed. The signature covers
the path, so it covers the body."""


BODY_DIGEST = "sha256"


DESK_PATTERN = "{name:[a-z][a-z-]{0,31}}"


def format_desk(name: str, body: bytes) -> str:
    """The path of a message to the desk of this name."""
    return f"/{DESK}/{name}?{BODY_DIGEST}={sha256(body).hexdigest()}"


@dataclass(frozen=True)
class Desk:
    """One kind of message and who answers it. most_bytes: of the message; answer(account, body): the answer
    to what `account` sent. It raises ProtocolFault for what is wrong for ever, EnvironmentFault for what may
    be right later; both are told to the sender."""

    most_bytes: int
    answer: Callable[[str, bytes], Awaitable[Message]]
