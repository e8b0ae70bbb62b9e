"""The audit room of a node: what it needs of other rooms, and the states that an auditor fetches.

As a solver's room it needs the claims that this node made. As an auditor's room it needs the model that
rounds start from, and what claims carry over. It offers handlers for peers, what it shows to which account,
and the votes to hand in.
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
"""(state, spec, batches, first inner step, steps) to the state after and the losses."""


class WorkOpening(Protocol):
    """The work leaf of a claim and its path. Twin: `StatementTypes.sol`."""

    @property
    def delta_root(self) -> bytes:
        """Of the pseudo-gradient."""

    @property
    def carried_root(self) -> bytes:
        """What the claim hands on."""

    @property
    def path(self) -> tuple[bytes, ...]:
        """Siblings up to the claim's root."""


class OpensClaims(Protocol):
    """Opens claims of this node. Methods that open raise KeyError if it has no claim for the round as it
    stands."""

    def list_boundaries(self, index: int) -> Mapping[int, StateHeader]:
        """Returns the boundaries of its claim on round `index`, by number; none if it has no such claim."""

    def open_boundary(self, index: int, boundary: int) -> BoundaryProof:
        """Returns the opening of a boundary of its claim on round `index`."""

    def open_work(self, index: int) -> WorkOpening:
        """Returns the opening of the work leaf."""


class Models(Protocol):
    """What claims must start from. Both methods raise EnvironmentFault if no peer shows it now."""

    async def load_base(self, root: bytes) -> OuterHeader:
        """Returns the outer header behind an outer root; the weights are in the store from then on."""

    async def find_carried(self, index: int, slot: int) -> bytes:
        """Returns the carried root that stands in the work leaf of a merged claim."""


@dataclass(frozen=True)
class AuditTask:
    """What an audit must know of the task. limits: the one set by which the contract compares."""

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
        """How far a claimed state may lie from the auditor's own state."""
        return choose_tolerance(self.training.numeric_format, self.limits)

    def get_rate_sum(self, index: int, segment: int) -> int:
        """Returns the learning rates of a segment, summed, in units of 2^-64."""
        return self.rate_sums[index * (self.inner_steps // self.segment_steps) + segment]


def read_audit_task(task: bytes, spec: TaskSpec, corpus: Corpus) -> AuditTask:
    """Returns the same from the task's text."""
    terms = spec.terms
    return AuditTask(
        task, spec.training, corpus, terms.parameter_count, terms.inner_steps, terms.segment_steps,
        terms.zero_root, bool(terms.carry_moments), terms.limits, tuple(compute_schedule_sums(spec)),
    )  # fmt: skip


class BoundaryPlace(NamedTuple):
    """A boundary of a slot's claim whose state may be on this disk. audit: this node's audit of the claim
    that showed it; None for this node's own claim."""

    slot: int
    boundary: int
    audit: AuditPlace | None = None


@dataclass(frozen=True)
class RootIndex:
    """The boundaries of a round by the roots of their tensors. made_of: what else it would be if that were
    another."""

    made_of: tuple[object, ...]
    places: Mapping[bytes, Sequence[BoundaryPlace]]


@dataclass
class AuditRoom:
    """get_game, get_head: the chain as it was read last; find_peer: where an account serves (EnvironmentFault
    if nowhere); sign: this node's signature of a statement or a report; grants: what was shown to whom, by
    round."""

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
    """All peers but this node, in the order in which to ask."""
    wait_for_block: Callable[[int], Awaitable[int]]
    """wait_for_block(number): the chain's head, once it is there or later"""
    sign: Callable[[Statement | DistanceReport], Awaitable[bytes]]
    recover: Callable[[Statement, bytes, str], str]
    """recover(statement, signature, source): who signed it. Raises ProtocolFault."""
    notify: Callable[[str], None] = print
    train: Train = replay_segment
    pause: Callable[[], Awaitable[None]] = lambda: asyncio.sleep(0)
    """Waits before a replay, as long as the machine is not to compute one."""
    run_apart: Callable[..., Awaitable[Any]] = asyncio.to_thread
    """run_apart(work, *arguments): what `work`, which trains, comes to, in a thread that may wait for it"""
    close: Callable[[], None] = lambda: None
    """Lets go of what `train` computes with."""
    locks: Mapping[AuditPlace, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    showing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a segment is opened for who has no part in its audits."""
    grants: dict[int, set[tuple[str, bytes]]] = field(default_factory=dict)
    root_indexes: dict[int, RootIndex] = field(default_factory=dict)
    """By round, of rounds that strangers have asked about."""
    strikes: Counter[str] = field(default_factory=Counter)
    """By account: statements of others that it brought and they did not sign."""
    tried_since: dict[AuditPlace, int] = field(default_factory=dict)
    """The block in which an audit under way, or what follows its seal, was first tried: from there on what
    fails in this node is tried again for a third of the time that is left."""

    @property
    def states(self) -> StateStore:
        """States of the task's model in the store."""
        return StateStore(self.store, self.about.parameter_count)

    @property
    def block(self) -> int:
        """The block that comes next."""
        return self.get_head() + 1
