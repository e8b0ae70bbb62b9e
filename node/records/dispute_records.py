"""Records and indexes a node's disputes, and what it shows and keeps for them.

Records have the fields that recovery needs and that nothing else knows. They name a statement by round, slot,
draw (CLAIM for the claim itself) and rank. For a vote they add its signature, because a liar may sign several
votes for one place.

`DisputeRecords` holds the disputes that this node opened, with their salts, and what it shows of its own
steps. It is read from the journal at the start, then updated with every record that is written through it.
Answers are on chain, so they are not written down.
"""

import secrets
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from touchstone.node.records.compute import Compute, TracedStep
from touchstone.node.records.heard_statements import KnownVote
from touchstone.node.records.wanted_steps import StepRequests
from touchstone.protocol.adapters.journal import Journal
from touchstone.protocol.adapters.messages import Word
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind
from touchstone.protocol.spec.game.state import GameState, StatementRef

CLAIM = -1
"""Stands for a draw if the statement is the claim itself."""


NO_STEP = -1
"""Stands for a step if the claimant did not show its steps, so that none could be judged."""


@dataclass(frozen=True)
class DisputePlanned:
    """Written before a dispute is opened: its subject and its salt. It keeps a dispute from being opened
    twice. `step` is the step that was judged to exceed the limits. `before` and `after` are the roots of the
    claimant's states around it, empty if it showed none."""

    task: Word
    round: int
    slot: int
    draw: int
    rank: int
    segment: int
    signature: bytes
    step: int
    before: bytes
    after: bytes
    salt: Word


@dataclass(frozen=True)
class DisputeDropped:
    """A segment that this node never disputes, because each step, computed from the claimant's own state
    before it, is within the limits. So a difference of the ends may be drift."""

    task: Word
    round: int
    slot: int
    draw: int
    rank: int
    segment: int
    signature: bytes


RECORDS = (DisputePlanned, DisputeDropped)
"""All record types of this room."""


SEARCHES_AT_ONCE = 4
"""The most traces that are searched at the same time; others wait."""


@dataclass(frozen=True)
class StatementKey:
    """A statement, and the segment about which it says "from this state, k steps lead to that state".
    `signature` is that of the vote, empty for a claim."""

    ref: StatementRef
    segment: int
    signature: bytes = b""


@dataclass
class DisputeRecords:
    """This node's disputes and queries in one task, and what it shows for them.

    `cases` are planned or opened disputes; `dropped` are segments whose difference may be drift. `first_seen`
    is when a statement was first found false. `traces` are of this node's own disputed steps, by dispute.
    `steps` are states of its own disputed segments, by round, slot and segment. `shown` are served blobs, by
    the reason. `searched` are disputes whose trace has no fault. `read` are votes that were read on chain.
    `step_requests` are steps that accounts ask for before a dispute. `borrowed` counts who uses a blob of
    others' states now; `fetched` are those that were fetched for that. `now` is the state at a block. `dice`
    are secret random bytes for random queries."""

    journal: Journal
    task: bytes
    compute: Compute = field(default_factory=Compute)
    cases: dict[StatementKey, DisputePlanned] = field(default_factory=dict)
    dropped: set[StatementKey] = field(default_factory=set)
    first_seen: dict[StatementKey, int] = field(default_factory=dict)
    traces: dict[bytes, TracedStep] = field(default_factory=dict)
    steps: dict[tuple[int, int, int], tuple[bytes, ...]] = field(default_factory=dict)
    shown: dict[object, frozenset[BlobKey]] = field(default_factory=dict)
    searched: set[bytes] = field(default_factory=set)
    read: set[object] = field(default_factory=set)
    step_requests: StepRequests = field(default_factory=StepRequests)
    borrowed: Counter[BlobKey] = field(default_factory=Counter)
    fetched: set[BlobKey] = field(default_factory=set)
    now: tuple[GameState, int, GameState] | None = None
    dice: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    searchers: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(SEARCHES_AT_ONCE, "search"), repr=False
    )
    """Threads that search traces for a fault. A search waits for loads that run in asyncio's own threads. If
    a few searches ran there too, they would wait for each other for ever, and stop this node's own
    answers."""

    def __post_init__(self) -> None:
        for record in self.journal.replay():
            self._index(record)

    def write(self, record: Any) -> None:
        """Appends a record; on return it is on disk and indexed."""
        self.journal.append(record)
        self._index(record)

    def may_read(self, account: str, kind: BlobKind, root: bytes, is_staked: bool) -> bool:
        """Returns whether an account may read a blob that is shown for a dispute or a request. `is_staked`
        says whether it may ask at all (`step_serving.is_served`)."""
        key = BlobKey(kind, root)
        return is_staked and any(key in keys for keys in self.shown.values())

    def close(self) -> None:
        """Ends the searching threads."""
        self.searchers.shutdown(wait=False, cancel_futures=True)

    def _index(self, record: Any) -> None:
        if getattr(record, "task", None) != self.task:
            return
        match record:
            case DisputePlanned():
                self.cases[to_key(record)] = record
            case DisputeDropped():
                self.dropped.add(to_key(record))


def to_key(record: DisputePlanned | DisputeDropped) -> StatementKey:
    """Returns the statement that a record is about."""
    draw = None if record.draw == CLAIM else record.draw
    return StatementKey(
        StatementRef(record.round, record.slot, draw, record.rank), record.segment, record.signature
    )


def name_vote(known: KnownVote) -> StatementKey:
    """Returns the key of a vote's statement about its segment."""
    return StatementKey(known.ref, known.vote.segment, known.signature)


def list_fields(statement_key: StatementKey) -> tuple[int, int, int, int, int, bytes]:
    """Returns round, slot, draw, rank, segment and signature as records store them."""
    ref = statement_key.ref
    draw = CLAIM if ref.draw is None else ref.draw
    return ref.round, ref.slot, draw, ref.rank, statement_key.segment, statement_key.signature
