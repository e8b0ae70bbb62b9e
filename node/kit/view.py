"""Defines what a decision may look at: one task as folded, and this node's own records. Nothing here acts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from touchstone.node.kit.chain_state import ChainState
from touchstone.node.kit.retention_windows import PruningMemory
from touchstone.node.records.claim_records import ClaimBook
from touchstone.node.records.dispute_records import DisputeRecords
from touchstone.node.records.known_audits import KnownAudits
from touchstone.protocol.adapters.chain.gate import GateShut
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobRef
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.task_spec import TaskSpec


class StoredData(Protocol):
    """The blobs on the disk. A decision may ask which exist, but cannot read them."""

    def has(self, header: StateHeader) -> bool:
        """Returns whether a state is on the disk."""

    def has_blob(self, ref: BlobRef) -> bool:
        """Returns whether a blob is on the disk."""

    def get_size_bytes(self, key: BlobKey) -> int | None:
        """Returns the length of a blob in bytes; None if it is not on the disk."""


@dataclass(frozen=True)
class View:
    """The state of a node at one moment. `account` is in lower case. `domain` separates the task's hashes and
    statements from others. `found_game` is the game folded up to `head_block`, None while the chain does not
    have the task. `chain_state` is the rest of the fold. `audits` and `cases` are records of audits and of
    disputes. `stored` says what is on the disk."""

    account: str
    task: bytes
    domain: bytes
    spec: TaskSpec
    found_game: LoggedGame | None
    head_block: int
    chain_state: ChainState
    claims: ClaimBook
    audits: KnownAudits
    cases: DisputeRecords
    pruning: PruningMemory
    stored: StoredData

    @property
    def is_task_known(self) -> bool:
        """Returns whether the chain has the task. A reorg may undo the block in which it was posted."""
        return self.found_game is not None

    @property
    def game(self) -> LoggedGame:
        """The folded game of the task. Raises as `require_game`."""
        return require_game(self.found_game, self.task)

    def is_member(self, account: str) -> bool:
        """Returns whether an account is the submitter of the task or has a seat in it. A seat of another task
        does not count, because any account can post a task with seats that cost next to nothing."""
        return self.chain_state.is_member(account, self.task) or account == self.game.terms.submitter


def require_game(game: LoggedGame | None, task: bytes) -> LoggedGame:
    """Raises GateShut while the chain does not have the task: a reorg removed the block in which it was
    posted, or all is folded anew."""
    if game is None:
        raise GateShut(
            what="the node cannot work on the task now",
            expected=f"task {task.hex()}",
            actual="the chain as read so far does not have the task",
            remedy="You need to do nothing: the node waits for the block in which the task was posted.",
        )
    return game


GetView = Callable[[], View]
"""Returns the view for a decision now. Call it again after each wait, because the chain goes on."""

FindView = Callable[[], View | None]
"""Returns the view, or None before a task is joined and while the chain does not have it."""
