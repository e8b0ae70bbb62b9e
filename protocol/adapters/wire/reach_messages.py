"""The question whether a node's endpoint can be reached, and its answer."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from touchstone.protocol.adapters.messages import Form, Message, Word

REACH = "reach"
"""The handler of a question that any account with an announced endpoint may ask: do you reach me?"""
MAX_REACH_BYTES = 1024


class Reach(StrEnum):
    """What a node saw at another's endpoint."""

    REACHED = "reached"
    REFUSED = "refused"
    SILENT = "silent"
    OTHER = "other"
    """Another certificate, or no TLS."""
    NO_ADDRESS = "no address"
    """The endpoint has no address at which the node may look: none at all, or none of the public internet."""
    NOT_LOOKED = "not looked"
    """Nothing in the endpoint's way is known: the node could not look."""


class ReachAsked(Message, frozen=True):
    """Asks whether the receiver reaches the sender's announced endpoint. The endpoint is read from the chain:
    the message names none."""


class ReachSaid(Message, frozen=True):
    """What was seen, and at which address, of the endpoint that the chain names."""

    url: Annotated[str, Meta(max_length=256)]
    certificate_sha256: Word
    reach: Reach
    address: Annotated[str, Meta(pattern=r"\A[0-9a-fA-F:.]{0,45}\Z")] = ""


REACH_ASKED = Form(ReachAsked, MAX_REACH_BYTES, "the question for reach is malformed")
REACH_SAID = Form(ReachSaid, MAX_REACH_BYTES, "the answer about reach is malformed")
