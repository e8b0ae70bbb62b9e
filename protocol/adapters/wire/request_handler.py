"""A handler answers one kind of message of peers; a room of the node opens one for each kind."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256

from touchstone.protocol.adapters.messages import Message

PATH = "requests"
"""POST /requests/<name>?sha256=<of the body>: a signed message in JSON, answered by one. The signature covers
the path, so it covers the body."""
BODY_DIGEST = "sha256"
NAME_PATTERN = "{name:[a-z][a-z-]{0,31}}"


def format_handler(name: str, body: bytes) -> str:
    """Returns the path of the handler of this name."""
    return f"/{PATH}/{name}?{BODY_DIGEST}={sha256(body).hexdigest()}"


Answer = Callable[[str, bytes], Awaitable[Message]]
"""answer(account, body): the answer to what `account` sent."""


@dataclass(frozen=True)
class RequestHandler:
    """Handles one kind of message. most_bytes: the longest message; answer(account, body): returns the answer
    to what `account` sent. It raises ProtocolFault for an error that stays, EnvironmentFault for one that may
    pass; the sender is told both."""

    most_bytes: int
    answer: Answer
