"""A node with its tools at hand, for tests that put one together themselves: `rooms_of` makes its rooms."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from touchstone.node.kit.chain_state import ChainState
from touchstone.node.kit.config import Meter, NodeConfig, Status
from touchstone.node.kit.locks import Locks
from touchstone.node.kit.loss_board import LossBoard
from touchstone.node.kit.peers import Peers
from touchstone.node.kit.recompute_queue import RecomputeQueue
from touchstone.node.kit.retention_windows import PruningMemory
from touchstone.node.kit.signer import Signer
from touchstone.node.kit.states import StateStore
from touchstone.node.kit.view import View
from touchstone.node.records.claim_records import ClaimBook
from touchstone.node.records.dispute_records import DisputeRecords
from touchstone.node.serving.audit_serving import Audits
from touchstone.node.training.worker_team import Team
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.chain.follower import LogBatch
from touchstone.protocol.adapters.journal import Journal
from touchstone.protocol.adapters.keys.signatures import Signed
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.bucket import Bucket
from touchstone.protocol.adapters.store.part_store import PartStore
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.compute.batches import Corpus
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.task_spec import TaskSpec
from touchstone.protocol.spec.typed_data import SigningDomain


@dataclass(frozen=True)
class Joined:
    """The task that a party works on. domain: of the task's hashes and statements."""

    task: bytes
    domain: bytes
    spec: TaskSpec
    corpus: Corpus
    claims: ClaimBook
    """This node's own claims and merges."""
    audits: Audits
    """Audits of this node and of its claims."""
    cases: DisputeRecords
    """This node's part in disputes and asks."""
    pruning: PruningMemory = field(default_factory=PruningMemory)
    """What of its disk this node has looked at."""
    recompute_queue: RecomputeQueue = field(default_factory=RecomputeQueue)
    """What is trained again for an answer, one at a time."""
    team: Team | None = None
    """Workers that train this node's own claims; None where this process does."""
    locks: Locks = field(default_factory=lambda: defaultdict(asyncio.Lock))
    """One piece of work at a time: (kind of work, what it is about)."""


@dataclass
class Party:
    """An open party. state: the fold of all events up to its head; batches: what the chain does, each to be
    folded into `state` once."""

    config: NodeConfig
    chain: GameChain
    store: BlobStore
    journal: Journal
    client: BlobClient
    state: ChainState
    status: Status
    batches: AsyncIterator[LogBatch]
    parts: PartStore | None = None
    """Leaves of datasets; None where this party keeps none."""
    bucket: Bucket | None = None
    """Copies of blobs; None where this party has no bucket."""
    board: LossBoard | None = None
    """Where losses are written for TensorBoard; None where the operator wants none."""
    joined: Joined | None = None
    meter: Meter = field(default_factory=Meter)
    reading: "asyncio.Future[LogBatch] | None" = None
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    """Set where the loop has to look again before the next block."""

    @property
    def account(self) -> str:
        """The address in lower case."""
        return self.chain.address

    @property
    def task(self) -> Joined:
        """The task that this party works on. Only after joining one."""
        assert self.joined is not None
        return self.joined

    @property
    def is_task_known(self) -> bool:
        """Whether the chain has the joined task: a reorg may take back the block in which it was posted."""
        return self.task.task in self.state.games

    @property
    def game(self) -> LoggedGame:
        """The joined task as the chain tells it. Raises KeyError while the chain does not have it."""
        return self.state.games[self.task.task]

    @property
    def view(self) -> View:
        """What a decision may look at now."""
        task, game = self.task, self.state.games.get(self.task.task)
        return View(
            self.account, task.task, task.domain, task.spec, game, self.state.head_block, self.state,
            task.claims, task.audits.known, task.cases, task.pruning, self.states,
        )  # fmt: skip

    def get_view(self) -> View:
        """Returns what a decision may look at now."""
        return self.view

    @property
    def states(self) -> StateStore:
        """States of the joined task's model."""
        return StateStore(self.store, self.task.spec.terms.parameter_count)

    @property
    def peers(self) -> Peers:
        """The other nodes, those of the joined task first."""
        return Peers(self.client, self.state, self.account, self.task.task)

    @property
    def signer(self) -> Signer:
        """What signs in this account's name."""
        return Signer(self.config.key, self.chain.gate, self.signing)

    @property
    def signing(self) -> SigningDomain:
        """Where this party's signatures count."""
        return self.chain.signing

    def is_member(self, account: str) -> bool:
        """Whether the account is the submitter, or has a seat, of the task that this node works on. A seat of
        another task says nothing: any account can post a task in which seats cost next to nothing."""
        if self.joined is None:
            return False
        is_seated = self.state.is_member(account, self.joined.task)
        return is_seated or account == self.game.terms.submitter

    def read(self) -> "asyncio.Future[LogBatch]":
        """Returns what the chain does next, for whoever folds it; the same until `take`."""
        if self.reading is None:
            self.reading = asyncio.ensure_future(anext(self.batches))
        return self.reading

    def stop_reading(self) -> None:
        """Read no more of `batches`."""
        if self.reading is not None:
            self.reading.cancel()
            self.reading = None

    async def keep_up(self) -> None:
        """Fold what the chain does, for ever: while this node does something long before its loop begins."""
        while True:
            batch = await asyncio.shield(self.read())
            self.reading = None
            self.take(batch)

    def take(self, batch: LogBatch) -> None:
        """Fold what the chain tells. From now on the node signs for that chain."""
        self.state.take(batch)
        self.chain.note(batch.head)

    async def sign(self, statement: Signed) -> bytes:
        """Returns this account's signature of a statement. Raises GateShut while nothing may be signed."""
        return await self.signer.sign(statement)

    async def wait_for_block(self, number: int) -> int:
        """Waits until this node has folded block `number`; returns the newest folded one. Deadlines count by
        folded blocks alone: what an endpoint tells of may be another chain."""
        while self.state.head_block < number:
            await asyncio.sleep(self.chain.connection.poll_s)
        return self.state.head_block

    def wake(self) -> None:
        """Have the loop look again: something came that may make a duty due. Until it has, this party waits
        for no block."""
        self.status.waiting_for_block = self.state.head_block
        self.woken.set()

    def notify(self, line: str) -> None:
        """Tell the operator."""
        self.config.notify(line)
