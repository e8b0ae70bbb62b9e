"""One party of the round: a key, a home folder, what the chain tells, and the task that it works on.

Every role is a party. What differs is which duties it registers.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from protocol.actions.audit.audits import Audits
from protocol.actions.dispute.casebook import CaseBook
from protocol.actions.merge.book import ClaimBook
from protocol.actions.pruning.memory import PruningMemory
from protocol.actions.retraining import Retraining
from protocol.actions.runtime.chain_state import ChainState
from protocol.actions.runtime.config import PartyConfig, Status
from protocol.adapters.chain.game import GameChain
from protocol.adapters.chain.logs import Batch
from protocol.adapters.journal import Journal
from protocol.adapters.store import BlobStore
from protocol.adapters.wire.client import BlobClient
from protocol.compute.data import Corpus
from protocol.spec.containers import TaskSpec
from protocol.spec.game.state import GameState
from protocol.spec.typed_data import SigningDomain


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
    cases: CaseBook
    """This node's part in disputes and asks."""
    pruning: PruningMemory = field(default_factory=PruningMemory)
    """What of its disk this node has looked at."""
    retraining: Retraining = field(default_factory=Retraining)
    """What is trained again for an answer, one at a time."""
    locks: dict[tuple[str, object], asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    """One piece of work at a time: (kind of work, what it is about)."""


@dataclass
class Party:
    """An open party. state: the fold of all events up to its head; batches: what the chain does, each to be
    folded into `state` once."""

    config: PartyConfig
    chain: GameChain
    store: BlobStore
    journal: Journal
    client: BlobClient
    state: ChainState
    status: Status
    batches: AsyncIterator[Batch]
    joined: Joined | None = None
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
    def game(self) -> GameState:
        """The joined task as the chain tells it."""
        return self.state.games[self.task.task]

    @property
    def signing(self) -> SigningDomain:
        """Where this party's signatures count."""
        return self.chain.signing

    def wake(self) -> None:
        """Have the loop look again: something came that may make a duty due. Until it has, this party waits
        for no block."""
        self.status.waiting_for_block = self.state.head_block
        self.woken.set()

    def say(self, line: str) -> None:
        """Tell the operator."""
        self.config.say(line)
