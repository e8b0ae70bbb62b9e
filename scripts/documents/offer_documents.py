"""The document of `touchstone tasks`: what each task of a deployment offers to who takes a seat."""

from typing import Annotated, Literal

from msgspec import Meta

from touchstone.scripts.documents.document_fields import Account, Count, Document, Id, Role, Wei
from touchstone.scripts.documents.overview_documents import RefusedTask


class SeatOffer(Document, frozen=True):
    """What a seat of a role earns and locks, and how many are free."""

    role: Role
    locks_wei: Annotated[Wei, Meta(description="the least stake of a seat")]
    pay_wei: Annotated[Wei, Meta(description="the pay of one accepted claim, or of one audit")]
    paid_for: Literal["claim", "audit"]
    per_round: Annotated[
        float, Meta(ge=0, description="claims or audits of one more seat in a round, on average")
    ]
    taken: Count
    free: Annotated[Count, Meta(description="seats that can be taken at the least stake")]


class TaskOffer(Document, frozen=True):
    """A task, what its seats need and give. Times are in blocks."""

    task: Id
    submitter: Account
    status: str
    takes_seats: bool
    rounds_opened: Count
    rounds: Count
    first_round: Annotated[
        Count | None, Meta(description="the first round of a seat taken now; null: not known while paused")
    ]
    lacks: Annotated[str, Meta(description="the seats that the task waits for")]
    parameters: Count
    is_exact: bool
    steps: Annotated[Count, Meta(description="training steps of a solver in a round")]
    segment_steps: Annotated[Count, Meta(description="training steps of a segment, which an audit replays")]
    step_tokens: Annotated[Count | None, Meta(description="tokens of a step; null: the text is malformed")]
    round_blocks: Annotated[Count, Meta(description="blocks in which a solver trains a round")]
    replay_blocks: Annotated[Count, Meta(description="blocks in which an auditor replays a segment")]
    least_memory_bytes: Annotated[Count, Meta(description="memory besides the tensors of a step")]
    seats: list[SeatOffer]


class TasksDocument(Document, frozen=True):
    """The tasks of a deployment for who looks for work; first those that take seats."""

    chain_id: Count
    block: Count
    block_s: Annotated[float | None, Meta(description="seconds of a block; null: not known")]
    tasks: list[TaskOffer]
    refused: list[RefusedTask]
