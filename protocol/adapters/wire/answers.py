"""What a node answers in JSON: its own status, and why it refuses."""

from protocol.adapters.messages import Address, Count, Form, Message

MAX_STATUS_BYTES = 4096
MAX_REFUSAL_BYTES = 4096


class NodeStatus(Message, frozen=True):
    """What a node says of itself: how far it has read the chain, and for which block it waits (None: for
    the others only)."""

    account: Address
    processed_block: Count
    waiting_for_block: Count | None


class Refusal(Message, frozen=True):
    """Why a request is not served."""

    what: str
    expected: str = ""
    actual: str = ""
    remedy: str = ""


STATUS = Form(NodeStatus, MAX_STATUS_BYTES, "the status is malformed")
REFUSAL = Form(Refusal, MAX_REFUSAL_BYTES, "the refusal is malformed")
