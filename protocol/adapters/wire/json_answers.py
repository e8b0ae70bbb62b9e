"""Defines JSON answers of a node: its status, and why it refuses."""

from typing import Annotated

from msgspec import Meta

from touchstone.protocol.adapters.messages import Address, Count, Form, Message

MAX_STATUS_BYTES = 4096
MAX_REFUSAL_BYTES = 4096


class NodeStatus(Message, frozen=True):
    """A node's report of itself: how far it has read the chain, and the block that it waits for (None: it
    waits only for others)."""

    account: Address
    processed_block: Count
    waiting_for_block: Count | None


class RefusalAnswer(Message, frozen=True):
    """Why a request is refused. `unix_second` is the server's time if the time of a signature was wrong."""

    what: str
    expected: str = ""
    actual: str = ""
    remedy: str = ""
    unix_second: Annotated[int, Meta(ge=0, lt=1 << 40)] | None = None


STATUS_FORM = Form(NodeStatus, MAX_STATUS_BYTES, "the status is malformed")
REFUSAL = Form(RefusalAnswer, MAX_REFUSAL_BYTES, "the refusal is malformed")
