"""The documents about task files, and about tasks that were posted, halted and closed."""

from typing import Annotated

from msgspec import Meta

from touchstone.scripts.documents.document_fields import Account, Count, Document, Id, Wei


class AmountDocument(Document, frozen=True):
    """An amount of a task and its bounds; greatest_wei is empty if there is none."""

    name: str
    amount_wei: Wei
    least_wei: Wei
    greatest_wei: Annotated[str, Meta(pattern="^[0-9]*$")]
    because: str


class TrialDocument(Document, frozen=True):
    """Steps that were trained on this machine, and the loss at their begin and end, in nats; null if it is no
    finite number."""

    steps: Count
    first_loss: float
    last_loss: float | None
    is_diverging: bool


class TaskCheckDocument(Document, frozen=True):
    """A task file that can be posted; weights_root is empty for fresh weights. trial is null if no steps were
    tried."""

    file: str
    parameters: Count
    rounds: Count
    escrow_wei: Wei
    weights_root: Annotated[str, Meta(pattern="^([0-9a-f]{64})?$")]
    amounts: list[AmountDocument]
    trial: TrialDocument | None


class TaskCreateDocument(Document, frozen=True):
    """A task that was posted, written before it is served."""

    task: Id
    submitter: Account
    escrow_wei: Wei


class TaskServeDocument(Document, frozen=True):
    """An own task that is served again, written before it is served."""

    task: Id
    submitter: Account


class TaskCloseDocument(Document, frozen=True):
    """A task that was closed, and what became credit of its submitter."""

    task: Id
    refund_wei: Wei
    submitter: Account


class HaltDocument(Document, frozen=True):
    """A task that opens no further round."""

    task: Id


class TaskExampleDocument(Document, frozen=True):
    """The files of the example that the command wrote."""

    folder: str
    files: list[str]


class TaskInitDocument(Document, frozen=True):
    """A task file that was written."""

    file: str
    parameters: Count
    rounds: Count


class TaskRecordDocument(Document, frozen=True):
    """A step that was recorded."""

    folder: str
    nodes: Count
    parameters: Count
