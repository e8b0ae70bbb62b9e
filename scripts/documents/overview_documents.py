"""The document of `touchstone status`: tasks, seats, rounds and money on chain, and the node."""

from enum import StrEnum
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from touchstone.protocol.adapters.reports.node_state import End, HealthIssue
from touchstone.protocol.economics.account_locks import LockKind
from touchstone.protocol.spec.game.money_reasons import MoneyReason
from touchstone.scripts.documents.document_fields import Account, Count, Document, Id, Role, Wei

Reasons = Annotated[dict[MoneyReason, Wei], Meta(description="an amount for each reason")]


class TaskFacts(Document, frozen=True):
    """A task."""

    task: Id
    submitter: Account
    status: str
    rounds_opened: Count
    rounds: Count
    solvers: Count
    verifiers: Count
    whistleblowers: Count
    lacks: str
    escrow_wei: Wei
    contests: Count
    disputes: Count
    queries: Count
    still_open: list[str]
    can_be_closed: bool


class RefusedTask(Document, frozen=True):
    """A task that this version does not take part in."""

    task: Id
    reason: str


class AccountFacts(Document, frozen=True):
    """What the account of the home has outside of tasks."""

    address: Account
    coin_wei: Wei
    wallet_wei: Wei
    credit_wei: Wei


class SeatState(StrEnum):
    """The state of a seat."""

    ACTIVE = "active"
    LEAVING = "leaving"
    CONVICTED = "convicted"


class SeatFacts(Document, frozen=True):
    """A seat, what it needs, and what holds its stake."""

    task: Id
    role: Role
    number: Count
    stake_wei: Wei
    account: Account
    state: SeatState
    required_wei: Wei
    held_by: list[str]


class LockFacts(Document, frozen=True):
    """Money that is locked."""

    kind: LockKind
    wei: Wei
    until_block: Annotated[
        Count | None,
        Meta(
            description="the money cannot come back before this block (of an open seat: if it leaves now); "
            "null: not while the task runs"
        ),
    ]


class SeatRoundFacts(Document, frozen=True):
    """What a seat earned and lost in a round."""

    role: Role
    number: Count
    round: Count
    settled_block: Count | None
    due_block: Annotated[Count | None, Meta(description="the block in which the round is settled, estimated")]
    reasons: Reasons


class MoneyFacts(Document, frozen=True):
    """What an account has in a task."""

    task: Id
    account: Account
    locked_wei: Annotated[Wei, Meta(description="stakes, bonds and escrows")]
    earned_wei: Annotated[Wei, Meta(description="what settlements pay if nothing more happens")]
    open_wei: Annotated[Wei, Meta(description="pay of claims that audits still decide")]
    owed_wei: Annotated[Wei, Meta(description="fees that settlements take if nothing more happens")]
    settled_wei: Annotated[
        Wei,
        Meta(description="what became credit: pay, restitution, shares of slashes and bonds, revenue"),
    ]
    spent_wei: Annotated[
        Wei,
        Meta(
            description="escrow of its own task that was paid to members or burned; revenue that it paid in"
        ),
    ]
    lost_wei: Annotated[Wei, Meta(description="fees, the stake of a convicted seat, bonds")]
    unpaid_wei: Annotated[Wei, Meta(description="pay that claims of settled rounds did not get")]
    locks: list[LockFacts]
    rounds: list[SeatRoundFacts]
    reasons: Annotated[dict[MoneyReason, Wei], Meta(description="an amount for each reason that is settled")]


class RoundState(StrEnum):
    """The phase of a round."""

    TRAINING = "training"
    AUDITS = "audits"
    POSTED = "posted"
    STANDING = "standing"
    FALLEN = "fallen"
    UNDONE = "undone"


class RoundFacts(Document, frozen=True):
    """A round of a task, and the root that it ended with."""

    round: Count
    state: RoundState
    opened_block: Count
    closed_block: Count | None
    solvers: Count
    claims: Count
    votes: Count
    merged: Count
    root: Id | None


class IssueFacts(Document, frozen=True):
    """A health issue of the node, in the node's own words."""

    kind: HealthIssue
    since_s: Count
    said: str


class NodeFacts(Document, frozen=True):
    """What the node of the home last wrote of itself; times in seconds since 1970."""

    running: bool
    end: End
    started_s: Count
    seen_s: Count
    block: Count
    restarts: Count
    kills: Count
    health_issues: list[IssueFacts]
    model: str
    model_warning: str


class TopDocument(Document, frozen=True):
    """One look at a node: its own note, what it owes the chain first and by which block (empty: nothing), how
    many other members of the task have an endpoint, and a sentence for each task with money. fault says why
    the chain could not be asked."""

    node: NodeFacts | None
    head_block: Count
    next_duty: str
    next_block: Count
    peers: Count
    money: list[str]
    fault: str


class StatusDocument(Document, frozen=True):
    """What the chain tells; with a task named, its rounds and all of its seats."""

    block: Count
    tasks: list[TaskFacts]
    refused: list[RefusedTask]
    account: AccountFacts
    seats: list[SeatFacts]
    money: Annotated[
        list[MoneyFacts],
        Meta(
            description="what the account has in each task; with a task named, what every account has in it"
        ),
    ]
    node: NodeFacts | None
    rounds: list[RoundFacts] | UnsetType = UNSET
