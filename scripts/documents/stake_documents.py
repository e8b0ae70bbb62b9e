"""The documents about seats, stakes, credit and shares."""

from typing import Literal

from touchstone.scripts.documents.document_fields import Account, Count, Document, Id, Role, Wei


class StakeDocument(Document, frozen=True):
    """A seat after its stake was raised; below required_wei it sits in no round."""

    task: Id
    role: Role
    number: Count
    stake_wei: Wei
    required_wei: Wei


class LeaveDocument(Document, frozen=True):
    """A seat that leaves, and what holds its stake."""

    task: Id
    role: Role
    number: Count
    stake_wei: Wei
    held_by: list[str]


class WithdrawDocument(Document, frozen=True):
    """The amount that was taken out, the wallet afterwards, the stakes that are still held, and the account
    that has the amount now."""

    account: Account
    withdrawn_wei: Wei
    wallet_wei: Wei
    held: list[str]
    paid_to: Account


class SolveDocument(Document, frozen=True):
    """How a solver's work ended: the task was closed, or the seat has left."""

    task: Id
    role: Literal["solver"]
    is_task_closed: bool


class VerifyDocument(Document, frozen=True):
    """How a verifier's work ended: the task was closed, or the seat has left."""

    task: Id
    role: Literal["verifier"]
    is_task_closed: bool


class WatchDocument(Document, frozen=True):
    """How a whistleblower's work ended: the task was closed, or the seat has left."""

    task: Id
    role: Literal["whistleblower"]
    is_task_closed: bool


class SharesDocument(Document, frozen=True):
    """Shares of a task, those of this account, and the vote to halt it. halt_block and settled_before are 0
    without a majority."""

    task: Id
    token: Account
    supply: Wei
    held: Wei
    votes: Wei
    claimable_wei: Wei
    revenue_wei: Wei
    voting: Wei
    majority_since: Count
    halt_block: Count
    settled_before: Count


class SharesPayDocument(Document, frozen=True):
    """Revenue that was paid in for the holders of a task's shares."""

    task: Id
    paid_wei: Wei
    supply: Wei


class SharesClaimDocument(Document, frozen=True):
    """Revenue that became credit of this account."""

    task: Id
    claimed_wei: Wei
