"""What a node answers in JSON: its own status, and why it refuses."""

from typing import Annotated

from msgspec import Meta

from protocol.adapters.messages import PRINTABLE, Address, Count, Form, Message, Word

MAX_STATUS_BYTES = 64 * 1024
MAX_REFUSAL_BYTES = 4096
MAX_REPORT_BYTES = 32 * 1024
MAX_LISTED = 64
"""Reports that a node lists: the latest."""
MAX_HARDWARE = 90
"""Characters: a report names the kernels of two nodes in one line."""


class ListedReport(Message, frozen=True):
    """An audit report that a node published: the root and the size of its blob."""

    root: Word
    size_bytes: Annotated[int, Meta(ge=1, le=MAX_REPORT_BYTES)]


class NodeStatus(Message, frozen=True):
    """What a node says of itself: how far it has read the chain, for which block it waits (None: for the
    others only), the class of its kernels in its own words, and the reports that it published last."""

    account: Address
    processed_block: Count
    waiting_for_block: Count | None
    hardware: Annotated[str, Meta(max_length=MAX_HARDWARE, pattern=PRINTABLE)] = ""
    reports: Annotated[tuple[ListedReport, ...], Meta(max_length=MAX_LISTED)] = ()


class Refusal(Message, frozen=True):
    """Why a request is not served."""

    what: str
    expected: str = ""
    actual: str = ""
    remedy: str = ""


STATUS = Form(NodeStatus, MAX_STATUS_BYTES, "the status is malformed")
REFUSAL = Form(Refusal, MAX_REFUSAL_BYTES, "the refusal is malformed")
