"""The audit room of a node: what it needs of the others, and what it offers them.

It needs the claims that this node made (as a solver), the model that rounds start from and what claims carry
over (as an auditor). It offers desks for peers, what it shows to whom, and the votes to hand in.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from protocol.actions.audit.book import AuditBook
from protocol.actions.audit.states import StateShelf
from protocol.adapters.chain.types import BoundaryProof
from protocol.adapters.store import BlobStore
from protocol.adapters.wire.client import BlobClient
from protocol.adapters.wire.session import Peer
from protocol.compute.data import Corpus
from protocol.compute.step import GetBatch, TrainingState, train_segment
from protocol.spec.containers import Limits, OuterHeader, TaskSpec, TrainingSpec
from protocol.spec.game.auditing import AuditPlace
from protocol.spec.game.state import GameState
from protocol.spec.schedule import compute_schedule_sums
from protocol.spec.statements import Statement

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


class OwnClaims(Protocol):
    """Claims of this node. Both raise KeyError where it has none for the round as it stands."""

    def open_boundary(self, index: int, boundary: int) -> BoundaryProof:
        """The opening of a boundary of its claim on round `index`."""

    def open_work(self, index: int) -> WorkOpening:
        """The opening of the work leaf."""


class Models(Protocol):
    """What claims have to start from. Both raise EnvironmentFault where nobody shows it now."""

    async def load_base(self, root: bytes) -> OuterHeader:
        """What stands behind an outer root; the weights are in the store from then on."""

    async def find_carried(self, index: int, slot: int) -> bytes:
        """The carried root that stands in the work leaf of a merged claim."""


@dataclass(frozen=True)
class AuditTask:
    """What an audit must know of the task. limits: one set, those that the contract compares by."""

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

    def get_rate_sum(self, index: int, segment: int) -> int:
        """The learning rates of a segment, summed, in units of 2^-64."""
        return self.rate_sums[index * (self.inner_steps // self.segment_steps) + segment]


def read_audit_task(task: bytes, spec: TaskSpec, corpus: Corpus) -> AuditTask:
    """The same from the task's text."""
    terms = spec.terms
    return AuditTask(
        task, spec.training, corpus, terms.parameter_count, terms.inner_steps, terms.segment_steps,
        terms.zero_root, bool(terms.carry_moments), terms.limits, tuple(compute_schedule_sums(spec)),
    )  # fmt: skip


@dataclass
class AuditRoom:
    """get_game, get_head: the chain as it was read last; find_peer: where an account serves (EnvironmentFault
    where nowhere); sign: this node's signature of a statement; grants: what was shown to whom, by round;
    offered: which votes, with or without opening, which account took."""

    account: str
    about: AuditTask
    book: AuditBook
    store: BlobStore
    client: BlobClient
    claims: OwnClaims
    models: Models
    get_game: Callable[[], GameState]
    get_head: Callable[[], int]
    find_peer: Callable[[str], Peer]
    wait_for_block: Callable[[int], Awaitable[int]]
    """wait_for_block(number): the chain's head, once it is there or later"""
    sign: Callable[[Statement], bytes]
    recover: Callable[[Statement, bytes, str], str]
    """recover(statement, signature, source): who signed it. Raises ProtocolFault."""
    say: Callable[[str], None] = print
    train: Train = train_segment
    locks: Mapping[AuditPlace, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    grants: dict[int, set[tuple[str, bytes]]] = field(default_factory=dict)
    offered: set[tuple[AuditPlace, bool, str]] = field(default_factory=set)
    strikes: Counter[str] = field(default_factory=Counter)
    """By account: statements of others that it brought and they did not sign."""
    passed: set[AuditPlace] = field(default_factory=set)
    """Audits that nobody wants any more and that were served."""

    @property
    def states(self) -> StateShelf:
        """States of the task's model in the store."""
        return StateShelf(self.store, self.about.parameter_count)

    @property
    def block(self) -> int:
        """The block that comes next."""
        return self.get_head() + 1
