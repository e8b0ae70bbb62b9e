"""The documents about models, data and measurements."""

from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta

from touchstone.scripts.documents.document_fields import Account, Count, Document, Id, Root


class PackedFileDocument(Document, frozen=True):
    """A file that was packed, with what the dataset has of it."""

    path: str
    documents: Count
    tokens: Count


class LeftOutDocument(Document, frozen=True):
    """A file of a folder that was not read, or a bad document, with its file and its line or row."""

    path: str
    reason: str


class DataPackDocument(Document, frozen=True):
    """A folder with a task's tokens, and the files that were read for it."""

    folder: str
    token_count: Count
    heldout_tokens: Count
    documents: Count
    vocabulary_size: Count
    token_bytes: Literal[1, 2, 4]
    root: Root
    files: list[PackedFileDocument]
    left_out: list[LeftOutDocument]
    bad_documents: Count
    first_bad: list[LeftOutDocument]
    notices: list[str]
    sampled_characters: Count
    lost_share: Annotated[float, Meta(ge=0, le=1)]
    unknown_share: Annotated[float, Meta(ge=0, le=1)]


class ExportDocument(Document, frozen=True):
    """A model that was written, and how many rounds had trained it."""

    task: Id
    folder: str
    outer_root: Id
    rounds_trained: Count


class EvalDocument(Document, frozen=True):
    """A loss in nats a token, and the standard error of this mean in nats: over rows of a folder, or batches
    of a task; null if there was one. No perplexity if that would be too large for a float."""

    loss_nats: float
    standard_error: Annotated[float, Meta(ge=0)] | None
    perplexity: float | None
    tokens: Count


class SampleDocument(Document, frozen=True):
    """The prompt, and the text with which the model continued it."""

    text: str


class ReplayResult(StrEnum):
    """The verdict that an auditor would give on a segment."""

    ACCEPT = "ACCEPT"
    REJECT_START = "REJECT_START"
    REJECT_STATE = "REJECT_STATE"


class Quantity(StrEnum):
    """A part of a state in which two machines may differ."""

    FIRST_MOMENT = "first moment"
    SECOND_MOMENT = "second moment"
    WEIGHTS = "weights"


class DistanceDocument(Document, frozen=True):
    """The distance between the two ends of a segment; null if one of them is not finite."""

    quantity: Quantity
    distance: float | None
    limit: float


class ReplayDocument(Document, frozen=True):
    """The result of a segment's replay: an auditor's verdict, and the distance between the ends."""

    task: Id
    round: Count
    slot: Count
    solver: Annotated[str, Meta(pattern="^0x[0-9a-f]{40}$")]
    segment: Count
    result: ReplayResult
    claimed_end: Id
    own_end: Id | None
    distances: list[DistanceDocument]


class CalibrateDocument(Document, frozen=True):
    """A signed profile, with the largest distances, by the limit that each is compared with."""

    profile: str
    operator: Account
    largest_distances: dict[str, Annotated[float, Meta(ge=0)]]


class PolicyDocument(Document, frozen=True):
    """Limits of a task in the units of docs/spec.md, section 6."""

    operators: list[Account]
    limits: dict[str, Annotated[str, Meta(pattern="^-?[0-9]+$")]]
