"""What a node answers in JSON: its own status, and why it refuses."""

from typing import Annotated

from msgspec import Meta

from protocol.adapters.messages import PRINTABLE, Address, Count, Form, Message

MAX_STATUS_BYTES = 4096
MAX_REFUSAL_BYTES = 4096
MAX_HARDWARE = 90
"""Characters."""


class NodeStatus(Message, frozen=True):
    """What a node says of itself: how far it has read the chain, for which block it waits (None: for the
    others only), and the class of its kernels in its own words."""

    account: Address
    processed_block: Count
    waiting_for_block: Count | None
    hardware: Annotated[str, Meta(max_length=MAX_HARDWARE, pattern=PRINTABLE)] = ""


class Refusal(Message, frozen=True):
    """Why a request is not served."""

    what: str
    expected: str = ""
    actual: str = ""
    remedy: str = ""


STATUS = Form(NodeStatus, MAX_STATUS_BYTES, "the status is malformed")
REFUSAL = Form(Refusal, MAX_REFUSAL_BYTES, "the refusal is malformed")
