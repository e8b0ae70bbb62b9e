"""Defines the audit room of a node: what it needs of other rooms, and what it holds.

For a solver it needs the claims that this node made. For an auditor it needs the models that rounds start
from, and what claims carry over. It offers handlers for peers, decides which account may read what, and lists
the votes to hand in.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from touchstone.node.kit.states import StateStore
from touchstone.node.records.audit_records import AuditBook
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.compute.batches import Corpus
from touchstone.protocol.compute.program.step import replay_segment
from touchstone.protocol.compute.program.training_state import GetBatch, TrainingState
from touchstone.protocol.compute.tolerance.task_tolerance import Tolerance
from touchstone.protocol.compute.tolerance.tolerance_choice import choose_tolerance
from touchstone.protocol.spec.game.drawn_audits import AuditPlace
from touchstone.protocol.spec.game.state import GameState
from touchstone.protocol.spec.schedule import compute_schedule_sums
from touchstone.protocol.spec.signed_reports import DistanceReport
from touchstone.protocol.spec.state_headers import OuterHeader, StateHeader
from touchstone.protocol.spec.statements import Statement
from touchstone.protocol.spec.task_spec import Limits, TaskSpec, TrainingSpec

Train = Callable[[TrainingState, TrainingSpec, GetBatch, int, int], tuple[TrainingState, list[float]]]
"""Maps (state, spec, batches, first inner step, steps) to the state after the steps and their losses."""


class WorkOpening(Protocol):
    """The work leaf of a claim and its path. Twin: `StatementTypes.sol`."""

    @property
    def delta_root(self) -> bytes:
        """The root of the pseudo-gradient."""

    @property
    def carried_root(self) -> bytes:
        """The carried root of the claim."""

    @property
    def path(self) -> tuple[bytes, ...]:
        """The siblings up to the claim's root."""


class OpensClaims(Protocol):
    """Opens claims of this node. The methods that open raise KeyError if it has no claim on the round's
    present base."""

    def list_boundaries(self, index: int) -> Mapping[int, StateHeader]:
        """Returns the boundaries of this node's claim on round `index`, by number; none if it has no such
        claim."""

    def open_boundary(self, index: int, boundary: int) -> BoundaryProof:
        """Returns the opening of a boundary of this node's claim on round `index`."""

    def open_work(self, index: int) -> WorkOpening:
        """Returns the opening of the work leaf."""


class Models(Protocol):
    """Finds what claims must start from. Both methods raise EnvironmentFault if no peer shows it now."""

    async def load_base(self, root: bytes) -> OuterHeader:
        """Returns the outer header of an outer root, and puts its weights into the store."""

    async def find_carried(self, index: int, slot: int) -> bytes:
        """Returns the carried root in the work leaf of a merged claim."""


@dataclass(frozen=True)
class AuditTask:
    """What an audit must know of its task. `limits` are those that the contract compares with."""

    task: bytes
    training: TrainingSpec
    corpus: Corpus
    parameter_count: int
    inner_steps: int
    segment_steps: int
    zero_root: bytes
    carry_moments: bool
    limits: Limits
    rate_sums: tuple[int, ...]

    @property
    def tolerance(self) -> Tolerance:
        """The largest accepted difference of a claimed state from the auditor's own state."""
        return choose_tolerance(self.training.numeric_format, self.limits)

    def get_rate_sum(self, index: int, segment: int) -> int:
        """Returns the sum of a segment's learning rates, in units of 2^-64."""
        return self.rate_sums[index * (self.inner_steps // self.segment_steps) + segment]


def read_audit_task(task: bytes, spec: TaskSpec, corpus: Corpus) -> AuditTask:
    """Returns an `AuditTask` from the task's text."""
    terms = spec.terms
    return AuditTask(
        task, spec.training, corpus, terms.parameter_count, terms.inner_steps, terms.segment_steps,
        terms.zero_root, bool(terms.carry_moments), terms.limits, tuple(compute_schedule_sums(spec)),
    )  # fmt: skip


class BoundaryPlace(NamedTuple):
    """A boundary of a slot's claim whose state may be on this disk. `audit` is this node's audit of the
    claim; None for its own claim."""

    slot: int
    boundary: int
    audit: AuditPlace | None = None


@dataclass(frozen=True)
class RootIndex:
    """The boundaries of a round by the roots of their tensors. `made_of` is what they were made from, to see
    changes."""

    made_of: tuple[object, ...]
    places: Mapping[bytes, Sequence[BoundaryPlace]]


@dataclass
class AuditRoom:
    """The audit room. `get_game` and `get_head` return the folded chain. `find_peer` returns an account's
    endpoint (EnvironmentFault if it has none). `sign` signs a statement or a report for this node. `grants`
    notes what was shown to whom, by round."""

    account: str
    about: AuditTask
    book: AuditBook
    store: BlobStore
    client: BlobClient
    claims: OpensClaims
    models: Models
    get_game: Callable[[], GameState]
    get_head: Callable[[], int]
    find_peer: Callable[[str], Peer]
    list_others: Callable[[], Sequence[Peer]]
    """Returns all peers but this node, in the order in which to ask."""
    wait_for_block: Callable[[int], Awaitable[int]]
    """`wait_for_block(number)` returns the chain's head once it is that block or a later one."""
    sign: Callable[[Statement | DistanceReport], Awaitable[bytes]]
    recover: Callable[[Statement, bytes, str], str]
    """`recover(statement, signature, source)` returns the signer. Raises ProtocolFault."""
    notify: Callable[[str], None] = print
    train: Train = replay_segment
    pause: Callable[[], Awaitable[None]] = lambda: asyncio.sleep(0)
    """Waits before a replay while the machine must not compute one."""
    run_apart: Callable[..., Awaitable[Any]] = asyncio.to_thread
    """`run_apart(work, *arguments)` runs training work in a thread and returns its result."""
    close: Callable[[], None] = lambda: None
    """Ends the processes that `train` computes with."""
    locks: Mapping[AuditPlace, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    showing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a segment is opened for an account that does not audit the claim."""
    grants: dict[int, set[tuple[str, bytes]]] = field(default_factory=dict)
    root_indexes: dict[int, RootIndex] = field(default_factory=dict)
    """Root indexes of rounds that strangers have asked about, by round."""
    strikes: Counter[str] = field(default_factory=Counter)
    """How many statements with a wrong signature each account has handed in."""
    tried_since: dict[AuditPlace, int] = field(default_factory=dict)
    """The block in which a running audit was first tried, or the part of it after the seal. From there on,
    failures of this node are retried for a third of the remaining time."""

    @property
    def states(self) -> StateStore:
        """The store of states of the task's model."""
        return StateStore(self.store, self.about.parameter_count)

    @property
    def block(self) -> int:
        """The next block."""
        return self.get_head() + 1
