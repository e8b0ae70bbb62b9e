"""One party: a key, a home folder, a view of the chain and the task, and what it needs to act.

Every role is a party. What differs is which duties it takes and how it performs them.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from protocol.actions.global_model import GlobalModel
from protocol.actions.memory import Memory, require_owner
from protocol.actions.runtime.config import (
    JOURNAL_FILE as JOURNAL_FILE,
)
from protocol.actions.runtime.config import (
    STORE_FOLDER as STORE_FOLDER,
)
from protocol.actions.runtime.config import (
    PartyConfig as PartyConfig,
)
from protocol.actions.runtime.config import (
    Status as Status,
)
from protocol.actions.runtime.config import (
    limit_memory as limit_memory,
)
from protocol.actions.runtime.config import (
    share_interpreter as share_interpreter,
)
from protocol.actions.step_desk import StepDesk
from protocol.actions.view import View
from protocol.adapters.chain import Batch, Chain, open_chain, read_deployment
from protocol.adapters.journal import Journal
from protocol.adapters.records import RECORDS
from protocol.adapters.store import BlobStore
from protocol.adapters.wire.auth import RequestSigner
from protocol.adapters.wire.client import BlobClient
from protocol.adapters.wire.endpoint import choose_endpoint
from protocol.adapters.wire.server import BlobServer, ReadPolicy
from protocol.adapters.wire.tls import load_or_create_identity
from protocol.compute.compare import Verdict
from protocol.compute.conditioning import Conditioning
from protocol.compute.data import Corpus
from protocol.compute.determinism import name_hardware
from protocol.compute.trace import TraceTree
from protocol.spec.containers import StateHeader, TaskSpec
from protocol.spec.round import RoundState
from protocol.spec.typed_data import SigningDomain

log = logging.getLogger(__name__)


SEARCHES_AT_ONCE = 4
"""Traces that are searched at the same time; others wait their turn."""


@dataclass
class Party:
    """An open party. `task` is set once it has joined one (`join`)."""

    config: PartyConfig
    chain: Chain
    store: BlobStore
    journal: Journal
    client: BlobClient
    view: View
    status: Status
    batches: AsyncIterator[Batch]
    """What the chain does, from the deployment on: each batch is to be folded into the view, once."""
    task: bytes = b""
    steps: StepDesk = field(default_factory=StepDesk)
    searchers: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(SEARCHES_AT_ONCE, "search"), repr=False
    )
    """Threads of searches for a fault. A search waits for what asyncio's own threads load: among those, a few
    disputes at once would wait for each other for ever, and this node's own answers with them."""
    _joined: "Joined | None" = field(default=None, repr=False)

    @property
    def account(self) -> str:
        """The address in lower case."""
        return self.chain.address

    @property
    def joined(self) -> "Joined":
        """The task that this party works on. Only after `join`."""
        assert self._joined is not None
        return self._joined

    @property
    def spec(self) -> TaskSpec:
        """The spec of the joined task."""
        return self.joined.spec

    @property
    def domain(self) -> bytes:
        """The domain of the joined task's hashes."""
        return self.joined.domain

    @property
    def memory(self) -> Memory:
        """The journal's records of the joined task."""
        return self.joined.memory

    @property
    def model(self) -> GlobalModel:
        """The global model of the joined task."""
        return self.joined.model

    @property
    def corpus(self) -> Corpus:
        """The tokens of the joined task."""
        return self.joined.corpus

    def round(self, index: int) -> RoundState:
        """A round of the joined task as the chain tells it."""
        return self.view.tasks[self.task].rounds[index]

    def say(self, line: str) -> None:
        """Tell the operator."""
        self.config.say(line)

    def join(self, task: bytes, spec: TaskSpec, corpus: Corpus) -> None:
        """Work on this task from now on."""
        show_tensor = partial(self.view.shelf.show_tensor, task)
        model = GlobalModel(spec, self.store, self.client, self.view.network, self.round, show_tensor)
        self.view.shelf.join(task)
        self.task = task
        self._joined = Joined(spec, self.view.tasks[task].domain, corpus, Memory(self.journal, task), model)


class TracedStep(NamedTuple):
    """A step as this node computes it: its trace, and the states before and after it."""

    tree: TraceTree
    start: StateHeader
    end: StateHeader


@dataclass(frozen=True)
class Joined:
    """What a party has of the task that it works on."""

    spec: TaskSpec
    domain: bytes
    corpus: Corpus
    memory: Memory
    model: GlobalModel
    locks: dict[tuple[str, object], asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    """One piece of work at a time: (kind of work, what it is about)."""
    traces: dict[bytes, TracedStep] = field(default_factory=dict)
    """By dispute: the trace of its named step."""
    conditioning: dict[tuple[int, int, int], asyncio.Task[Conditioning]] = field(default_factory=dict)
    """By (round, slot, segment), of segments where it was asked for: what measures it."""
    judged: dict[tuple[int, int, StateHeader, StateHeader], asyncio.Task[Verdict]] = field(
        default_factory=dict
    )
    """By (round, segment, claimed end, own end), the latest of them: what judges all elements, or has."""


@asynccontextmanager
async def open_party(config: PartyConfig) -> AsyncIterator[Party]:
    """Open chain, store, journal, server and client; announce the endpoint where it changed. Raises what
    they raise, and InvalidInput for an endpoint that no peer could use or the journal of another account."""
    # Before anything is begun: what is announced stands on chain for everybody.
    choose_endpoint(config.listen_host, config.listen_port, config.public_url)
    share_interpreter()
    limit_memory(config)
    deployment = read_deployment(config.deployment)
    domain = SigningDomain(deployment.chain_id, deployment.registry)
    identity = load_or_create_identity(config.home)
    async with AsyncExitStack() as stack:
        # Before the chain, where what waits is replaced: another process of this home may have sent it.
        journal = stack.enter_context(Journal(config.home / JOURNAL_FILE, RECORDS))
        require_owner(journal, config.key.address.lower())
        chain = await stack.enter_async_context(open_chain(config.rpc_url, deployment, config.key))
        store = BlobStore(config.home / STORE_FOLDER, is_durable=False)
        client = await stack.enter_async_context(BlobClient(store, RequestSigner(config.key, domain)))
        view = View(chain.address, deployment.chain_id, deployment.registry, store.get_roots)
        status = Status(chain.address, hardware=name_hardware())
        # Anybody may ask; the shelf decides what whom is shown, and states are for staked accounts only.
        desk = StepDesk(lambda account: view.network.is_staked(account))
        may_read: Callable[..., bool] = lambda *request: view.shelf.may_read(*request)  # noqa: E731
        policy = ReadPolicy(lambda account: True, may_read, status.show, desk.find)
        server = BlobServer(store, chain.address, domain, identity, policy)
        port = await server.start(config.listen_host, config.listen_port)
        stack.push_async_callback(server.stop)
        url = choose_endpoint(config.listen_host, port, config.public_url)
        announced = await chain.registry.peer_of(chain.address)
        if (announced.url, announced.certificate_sha256) != (url, identity.fingerprint):
            await chain.registry.announce(url, identity.fingerprint)
        party = Party(config, chain, store, journal, client, view, status, chain.follow(), steps=desk)
        stack.callback(party.searchers.shutdown, wait=False, cancel_futures=True)
        yield party
