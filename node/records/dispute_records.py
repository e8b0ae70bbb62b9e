"""This node's part in disputes and asks: journal records, known statements, and its own shown steps.

Journal records have the fields that recovery needs and that nothing else knows. They name a statement by
round, slot, draw (CLAIM: the claim itself) and rank. For a vote they add its signature, because a liar may
sign several votes for one place.

`StepDesk` notes for which segments peers have asked this node for step states, and which it has at hand.
Recomputing a segment costs the training of k steps. So what auditors ask for is bounded by what was drawn:
each segment is recomputed once and stays as long as they may ask. What others ask for is bounded by number.

`CaseBook` holds what this node opened, with which salt, and what it shows of its own steps. It is read from
the journal at the start, then kept in step with every record written through it. Answers stand on chain
and are not written down.
"""

import secrets
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from touchstone.node.records.claim_records import Wakes, WorkProof
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof
from touchstone.protocol.adapters.journal import Journal
from touchstone.protocol.adapters.messages import Word
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind
from touchstone.protocol.compute.bounds.trace import Retrace, TraceTree, retrace
from touchstone.protocol.compute.program.step import GetBatch, TrainingState, replay_segment
from touchstone.protocol.spec.containers import StateHeader, TrainingSpec
from touchstone.protocol.spec.game.state import GameState, StatementRef
from touchstone.protocol.spec.statements import Sealed, Vote, VoteOpening

CLAIM = -1
"""In place of a draw: the statement is the claim."""
NO_STEP = -1
"""In place of a step: the claimant did not show its steps, so none could be judged."""


@dataclass(frozen=True)
class CaseMade:
    """Before a dispute is opened: what it is about and its salt, so that it is opened once. step: the one
    that was judged to lie beyond the limits, from the claimant's state `before` to its state `after` (roots,
    empty where the claimant showed none)."""

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
class CaseDropped:
    """Each step of a segment lies inside the limits of what this node makes of the claimant's own state
    before it: its end may be drift, so it is never disputed."""

    task: Word
    round: int
    slot: int
    draw: int
    rank: int
    segment: int
    signature: bytes


RECORDS = (CaseMade, CaseDropped)
"""All kinds of this room."""


@dataclass(frozen=True)
class KnownVote:
    """A vote that this node was handed, found on chain or signed itself. auditor: who signed it, lower case;
    opening: what opens it, once it is known."""

    vote: Vote
    signature: bytes
    auditor: str
    opening: VoteOpening | None = None

    @property
    def ref(self) -> StatementRef:
        """Its place."""
        return StatementRef(self.vote.round, self.vote.slot, self.vote.draw, self.vote.rank)


@dataclass(frozen=True)
class KnownSeal:
    """A seal that this node was handed."""

    said: Sealed
    signature: bytes
    auditor: str


@dataclass(frozen=True)
class ClaimOpenings:
    """What a solver has shown of its claim: boundaries by number, the work leaf, the last boundary."""

    boundaries: Mapping[int, BoundaryProof] = field(default_factory=dict)
    work: WorkProof | None = None
    last: BoundaryProof | None = None


@dataclass(frozen=True)
class OwnReplay:
    """What this node's own replay of a drawn segment found. start: the claim's opened start; own_end: what
    the replay came to; claimed_end: the claim's opened end; beyond_leaf: the state leaf that lies farthest
    beyond the limits, None where all lie inside; seal_salt: of the seal that was signed for it."""

    ref: StatementRef
    segment: int
    start: BoundaryProof
    own_end: StateHeader
    claimed_end: BoundaryProof | None
    beyond_leaf: int | None
    seal_salt: bytes


Place = tuple[bytes, int, int]
"""(task, round, segment of this node's claim)"""

MAX_WANTED = 8
"""Requests that wait of accounts that are no auditors of the segment, one of each account."""
MAX_SHOWN = 2
"""Segments whose step states are kept for these: the last ones asked for."""
MAX_GRANTED = 4
"""Segments that are recomputed in a round for all of these together."""


class Asker(NamedTuple):
    """is_auditor: its judgement may hang on the steps. It was drawn for the segment, or trained it, or is a
    whistleblower and the claim is convicted."""

    account: str
    is_auditor: bool


class Steps(NamedTuple):
    """The k + 1 state roots of a segment, and whether an auditor of it asked for them."""

    roots: tuple[bytes, ...]
    is_auditor: bool


@dataclass
class StepDesk:
    """Requests for step states, and their answers, from memory. Auditors of a segment go first, and no other
    request takes their places. The caller of `find` has checked that the account may ask.
    What auditors asked for goes once they may ask no more (`pruning_duties.forget_steps`)."""

    wanted: OrderedDict[Place, Asker] = field(default_factory=OrderedDict)
    """Who asked, by segment; an auditor of it takes the place of another member."""
    shown: OrderedDict[Place, Steps] = field(default_factory=OrderedDict)
    """By segment."""
    is_news: bool = False
    """Whether the last question added a request, or made one an auditor's."""
    wakes: Wakes = field(default_factory=Wakes)
    _granted: Counter[tuple[bytes, int]] = field(default_factory=Counter)

    def find(self, asker: Asker, task: bytes, index: int, segment: int) -> bytes | None:
        """The roots, one after the other; None where they are not at hand: then the request is noted, unless
        it is another's than an auditor's and these have had their share."""
        place = (task, index, segment)
        shown, known, self.is_news = self.shown.get(place), self.wanted.get(place), False
        if shown is not None:
            self.shown[place] = Steps(shown.roots, shown.is_auditor or asker.is_auditor)
            return b"".join(shown.roots)
        if asker.is_auditor:
            self.is_news = known is None or not known.is_auditor
            self.wanted[place] = asker
            self.wanted.move_to_end(place, last=False)
        elif self._may_ask(asker.account, place):
            self.is_news = True
            self.wanted[place] = asker
        return None

    def is_urgent(self, place: Place) -> bool:
        """Whether an auditor waits for a segment."""
        return place in self.wanted and self.wanted[place].is_auditor

    def drop(self, place: Place) -> None:
        """Not to be shown."""
        self.wanted.pop(place, None)

    def offer(self, place: Place, roots: tuple[bytes, ...]) -> list[tuple[bytes, ...]]:
        """Show these from now on; what is returned is shown no more."""
        is_auditor = self.is_urgent(place)
        self.drop(place)
        self._granted[place[:2]] += not is_auditor
        self.shown[place] = Steps(roots, is_auditor)
        others = [one for one, steps in self.shown.items() if not steps.is_auditor]
        return [self.shown.pop(one).roots for one in others[: max(0, len(others) - MAX_SHOWN)]]

    def _may_ask(self, account: str, place: Place) -> bool:
        """Whether another than an auditor may."""
        waiting = [one.account for one in self.wanted.values() if not one.is_auditor]
        has_share = self._granted[place[:2]] < MAX_GRANTED
        is_new = place not in self.wanted and account not in waiting
        return has_share and is_new and len(waiting) < MAX_WANTED


SEARCHES_AT_ONCE = 4
"""Traces that are searched at the same time; others wait their turn."""
Train = Callable[[TrainingState, TrainingSpec, GetBatch, int, int], tuple[TrainingState, list[float]]]
"""The signature of `compute.step.replay_segment`."""


@dataclass(frozen=True)
class Compute:
    """What a node trusts to compute for it: segments, and the trace of a step."""

    train: Train = replay_segment
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
    """This node's disputes and asks on one task, and what it shows for them.

    cases: what is to be disputed, or was; dropped: what drift may explain; first_seen: when a statement was
    first found false; traces: of this node's own disputed steps, by dispute; steps: states of its own
    disputed segments, by round, slot and segment; shown: what is served, by the reason for it; searched:
    disputes whose trace has no fault; read: votes that were looked for on chain; desk: steps that accounts
    want before a dispute; borrowed: how many looks at others' states need a blob just now; fetched: those of
    them that were fetched for a look; now: the state at a block; dice: secret random bytes for spot asks."""

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
    borrowed: Counter[BlobKey] = field(default_factory=Counter)
    fetched: set[BlobKey] = field(default_factory=set)
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
        """Whether an account may read a blob that is shown for a dispute or for wanted steps. is_staked:
        whether it is served at all (`step_serving.is_served`)."""
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
