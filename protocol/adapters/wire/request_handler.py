"""Defines handlers: each answers one kind of message of peers."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256

from touchstone.protocol.adapters.messages import Message

PATH = "requests"
"""POST /requests/<name>?sha256=<of the body>: a signed message in JSON, answered by another message. The
signature covers the path, so it covers the body."""
BODY_DIGEST = "sha256"
NAME_PATTERN = "{name:[a-z][a-z-]{0,31}}"


def format_handler(name: str, body: bytes) -> str:
    """Returns the path of a handler."""
    return f"/{PATH}/{name}?{BODY_DIGEST}={sha256(body).hexdigest()}"


Answer = Callable[[str, bytes], Awaitable[Message]]
"""`answer(account, body)` returns the answer to the body that `account` sent."""


@dataclass(frozen=True)
class RequestHandler:
    """Handles one kind of message, of at most `most_bytes`. `answer(account, body)` returns the answer to
    what `account` sent. It raises ProtocolFault for a lasting error, EnvironmentFault for an error that may
    pass; the sender is told both."""

    most_bytes: int
    answer: Answer
