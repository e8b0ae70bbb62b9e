"""Desks: who answers which messages of peers. A room of the node opens one for each kind of message."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from protocol.adapters.messages import Message


@dataclass(frozen=True)
class Desk:
    """One kind of message and who answers it. most_bytes: of the message; answer(account, body): the answer
    to what `account` sent. It raises ProtocolFault for what is wrong for ever, EnvironmentFault for what may
    be right later; both are told to the sender."""

    most_bytes: int
    answer: Callable[[str, bytes], Awaitable[Message]]
