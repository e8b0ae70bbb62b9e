"""Defines the request to probe a node's endpoint, and the answer."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from touchstone.protocol.adapters.messages import Form, Message, Word

REACH = "reach"
"""The handler's name. Any account with an announced endpoint may ask it: do you reach me?"""
MAX_REACH_BYTES = 1024


class Reach(StrEnum):
    """What a node saw at another node's endpoint."""

    REACHED = "reached"
    REFUSED = "refused"
    SILENT = "silent"
    OTHER = "other"
    """Another certificate, or no TLS."""
    NO_ADDRESS = "no address"
    """The endpoint has no address that the node may probe: none at all, or no public one."""
    NOT_LOOKED = "not looked"
    """The node could not probe, so nothing is known."""


class ReachAsked(Message, frozen=True):
    """Asks whether the receiver reaches the sender's announced endpoint. The message does not name the
    endpoint; the receiver reads it from the chain."""


class ReachSaid(Message, frozen=True):
    """Tells what was seen at the endpoint that the chain names, and at which address."""

    url: Annotated[str, Meta(max_length=256)]
    certificate_sha256: Word
    reach: Reach
    address: Annotated[str, Meta(pattern=r"\A[0-9a-fA-F:.]{0,45}\Z")] = ""


REACH_ASKED = Form(ReachAsked, MAX_REACH_BYTES, "the request to probe an endpoint is malformed")
REACH_SAID = Form(ReachSaid, MAX_REACH_BYTES, "the answer to an endpoint probe is malformed")
