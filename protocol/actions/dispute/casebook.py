"""This node's part in disputes and asks: what it opened with which salt, and what it shows of its own steps.

Read from the journal at the start, then kept in step with every record that is written through it. What was
answered stands on chain and is not written down.
"""

import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from protocol.actions.dispute.records import CLAIM, CaseDropped, CaseMade
from protocol.actions.dispute.sources import KnownVote
from protocol.actions.step_desk import StepDesk
from protocol.adapters.blobs import BlobKey, BlobKind
from protocol.adapters.journal import Journal
from protocol.compute.retrace import Retrace, retrace
from protocol.compute.step import GetBatch, TrainingState, train_segment
from protocol.compute.trace import TraceTree
from protocol.spec.containers import StateHeader, TrainingSpec
from protocol.spec.game.state import GameState, StatementRef

SEARCHES_AT_ONCE = 4
"""Traces that are searched at the same time; others wait their turn."""
Train = Callable[[TrainingState, TrainingSpec, GetBatch, int, int], tuple[TrainingState, list[float]]]
"""The signature of `compute.step.train_segment`."""


@dataclass(frozen=True)
class Compute:
    """What a node trusts to compute for it: segments, and the trace of a step."""

    train: Train = train_segment
    retrace: Retrace = retrace


class TracedStep(NamedTuple):
    """A step as this node computes it: its trace, and the states before and after it."""

    tree: TraceTree
    start: StateHeader
    end: StateHeader


@dataclass(frozen=True)
class Sentence:
    """A statement, and the segment of which it says "from this state, k steps, I got that state". signature:
    of the vote, empty for a claim."""

    ref: StatementRef
    segment: int
    signature: bytes = b""


@dataclass
class CaseBook:
    """cases: what is to be disputed, or was; dropped: what drift may explain; first_seen: when a statement
    was first found false; traces: of this node's own disputed steps, by dispute; steps: states of its own
    disputed segments, by round, slot and segment; shown: what is served, by what for; searched: disputes
    whose trace has no fault; read: votes that were looked for on chain; desk: whose steps are wanted before a
    dispute; now: the state at a block; dice: for spot asks, told nobody."""

    journal: Journal
    task: bytes
    compute: Compute = field(default_factory=Compute)
    cases: dict[Sentence, CaseMade] = field(default_factory=dict)
    dropped: set[Sentence] = field(default_factory=set)
    first_seen: dict[Sentence, int] = field(default_factory=dict)
    traces: dict[bytes, TracedStep] = field(default_factory=dict)
    steps: dict[tuple[int, int, int], tuple[bytes, ...]] = field(default_factory=dict)
    shown: dict[object, frozenset[BlobKey]] = field(default_factory=dict)
    searched: set[bytes] = field(default_factory=set)
    read: set[object] = field(default_factory=set)
    desk: StepDesk = field(default_factory=StepDesk)
    now: tuple[GameState, int, GameState] | None = None
    dice: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    searchers: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(SEARCHES_AT_ONCE, "search"), repr=False
    )
    """Threads of searches for a fault. A search waits for what asyncio's own threads load: among those, a few
    disputes at once would wait for each other for ever, and this node's own answers with them."""

    def __post_init__(self) -> None:
        for record in self.journal.replay():
            self._index(record)

    def write(self, record: Any) -> None:
        """Append a record; on return it is on disk and indexed."""
        self.journal.append(record)
        self._index(record)

    def may_read(self, account: str, kind: BlobKind, root: bytes, is_staked: bool) -> bool:
        """Whether an account is shown a blob because of a dispute or of wanted steps: whoever has stake."""
        key = BlobKey(kind, root)
        return is_staked and any(key in keys for keys in self.shown.values())

    def close(self) -> None:
        """Let the searching threads go."""
        self.searchers.shutdown(wait=False, cancel_futures=True)

    def _index(self, record: Any) -> None:
        if getattr(record, "task", None) != self.task:
            return
        match record:
            case CaseMade():
                self.cases[to_sentence(record)] = record
            case CaseDropped():
                self.dropped.add(to_sentence(record))


def to_sentence(record: CaseMade | CaseDropped) -> Sentence:
    """What a record is about."""
    draw = None if record.draw == CLAIM else record.draw
    return Sentence(
        StatementRef(record.round, record.slot, draw, record.rank), record.segment, record.signature
    )


def name_vote(known: KnownVote) -> Sentence:
    """What a vote says of its segment."""
    return Sentence(known.ref, known.vote.segment, known.signature)


def list_fields(sentence: Sentence) -> tuple[int, int, int, int, int, bytes]:
    """Round, slot, draw, rank, segment and signature as records have them."""
    ref = sentence.ref
    draw = CLAIM if ref.draw is None else ref.draw
    return ref.round, ref.slot, draw, ref.rank, sentence.segment, sentence.signature
