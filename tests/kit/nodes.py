"""A node without its loop and its network: the product's own, with a journal and a store in a folder. The
test says what its chain does, and what it has heard of audits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from tests.e2e.world import make_dataset
from tests.kit.members import make_word
from tests.node.specs import get_spec
from tests.protocol.adapters.parties import make_key
from touchstone.node.kit.chain_state import ChainState
from touchstone.node.kit.config import NodeConfig, Notify, Status
from touchstone.node.kit.following import Following
from touchstone.node.kit.peers import Peers
from touchstone.node.kit.retention_windows import PruningMemory
from touchstone.node.kit.view import StoredData, View
from touchstone.node.loop.node import Node
from touchstone.node.loop.rooms import Rooms
from touchstone.node.records.audit_records import AuditBook
from touchstone.node.records.claim_records import ClaimBook, WorkProof
from touchstone.node.records.dispute_records import DisputeRecords
from touchstone.node.records.heard_statements import ClaimOpenings, KnownSeal, KnownVote, OwnReplay
from touchstone.node.records.known_audits import KnownAudits
from touchstone.node.records.record_kinds import RECORDS
from touchstone.node.serving.audit_serving import Audits
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.gate import Gate
from touchstone.protocol.adapters.journal import Journal
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.adapters.wire.request_signing import RequestSigner
from touchstone.protocol.adapters.wire.session import RetryPolicy
from touchstone.protocol.compute.batches import Corpus, open_corpus
from touchstone.protocol.spec.data_trees import count_tensor_leaves
from touchstone.protocol.spec.game.inner_contest import ContestFolds
from touchstone.protocol.spec.game.inner_dispute import InnerBook
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.state import GameState
from touchstone.protocol.spec.merkle import compute_depth
from touchstone.protocol.spec.task_spec import TaskSpec
from touchstone.protocol.spec.typed_data import SigningDomain
from touchstone.scripts.roles.role_nodes import Member

SIGNING = SigningDomain(31337, "0x" + "7a" * 20)
TASK = make_word("task")
HASTE = RetryPolicy(attempts=1, first_pause_s=0.01, longest_pause_s=0.01, connect_s=5, silence_s=5)


def get_account(seed: int) -> str:
    """Returns the account of a key, lower case."""
    return make_key(seed).address.lower()


@cache
def get_corpus() -> Corpus:
    """Returns the data of the tiny task."""
    return open_corpus(make_dataset(), get_spec().training)


# The chain
class FakeChain:
    """Takes every call and writes it down: what the chain makes of it is said by the test. item_gas: of each
    item in a call's lists."""

    def __init__(self, address: str) -> None:
        self.address, self.signing, self.bounds, self.item_gas = address, SIGNING, BOUNDS_LOCAL, 0
        self.sent: list[tuple[str, tuple[Any, ...]]] = []
        self.gate = Gate(cast(Connection, None))

    async def require_provable(self) -> None:
        """Its headers can be proven."""

    async def deposit_missing(self, wei: int) -> None:
        """Out of a `Wallet` where a test has put one; else the credit is there."""
        if "vault" in vars(self):
            await self.vault.deposit_missing(wei)

    def __getattr__(self, contract: str) -> Any:
        return _FakeContract(self.sent, contract, self.item_gas)


@dataclass
class _FakeContract:
    sent: list[tuple[str, tuple[Any, ...]]]
    name: str
    item_gas: int

    def encode(self, name: str, *arguments: Any) -> bytes:
        return b""

    async def estimate_gas(self, name: str, *arguments: Any) -> int:
        return self.item_gas * sum(len(one) for one in arguments if isinstance(one, list))

    def __getattr__(self, function: str) -> Any:
        async def send(*arguments: Any) -> Any:
            self.sent.append((f"{self.name}.{function}", arguments))
            return SimpleNamespace(events=(SimpleNamespace(name="VotesCounted"),))

        return send


# What it has heard
@dataclass
class Told:
    """What a test says of audits, beside the records of the node. starts: wrong boundaries 0, by slot;
    openings: by slot; handed: votes at hand, by round; works: by claim root."""

    votes: list[KnownVote] = field(default_factory=list)
    seals: list[KnownSeal] = field(default_factory=list)
    replays: list[OwnReplay] = field(default_factory=list)
    starts: list[tuple[int, BoundaryProof]] = field(default_factory=list)
    openings: dict[int, ClaimOpenings] = field(default_factory=dict)
    handed: dict[int, list[Any]] = field(default_factory=dict)
    works: dict[bytes, WorkProof] = field(default_factory=dict)


@dataclass(frozen=True)
class ToldAudits(KnownAudits):
    """Records of audits, and what a test says."""

    told: Told

    def list_votes(self, index: int) -> Iterator[KnownVote]:
        yield from super().list_votes(index)
        yield from (one for one in self.told.votes if one.vote.round == index)

    def list_seals(self, index: int) -> Iterator[KnownSeal]:
        yield from super().list_seals(index)
        yield from (one for one in self.told.seals if one.said.round == index)

    def list_replays(self, index: int) -> Iterator[OwnReplay]:
        yield from super().list_replays(index)
        yield from (one for one in self.told.replays if one.ref.round == index)

    def list_wrong_starts(self, index: int) -> Iterator[tuple[int, BoundaryProof]]:
        yield from super().list_wrong_starts(index)
        yield from self.told.starts

    def get_openings(self, index: int, slot: int) -> ClaimOpenings:
        return self.told.openings.get(slot) or super().get_openings(index, slot)

    def list_handed(self, index: int, block: int) -> tuple[Any, ...]:
        return (*super().list_handed(index, block), *self.told.handed.get(index, ()))

    def list_works(self) -> Any:
        return self.told.works or super().list_works()


class HeardAudits(Audits):
    """The audits of a node that has heard what a test says."""

    def __init__(self, audits: Audits) -> None:
        super().__init__(audits.room)
        self.told = Told()

    @property
    def known(self) -> KnownAudits:
        known = super().known
        return ToldAudits(known.book, known.game, self.told)


async def _wait_for_ever() -> AsyncIterator[Any]:
    """What the chain does: the test folds it."""
    await asyncio.Event().wait()
    yield


# The node
@contextmanager
def open_joined(
    home: Path,
    game: GameState,
    *,
    task: bytes = TASK,
    account: str = "",
    seed: int = 1,
    role: type[Node] = Member,
    spec: TaskSpec | None = None,
    corpus: Corpus | None = None,
    patience: RetryPolicy | None = HASTE,
    notify: Notify | None = None,
    head_block: int = 0,
) -> Iterator[Member]:
    """Opens a node that has joined the task, and closes it as a kill does. account: that of the key `seed` if
    none is named; spec, corpus: the tiny ones; notify: what is told since joining into `get_lines`."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    chain: Any = FakeChain(account or get_account(seed))
    state, spec, key = ChainState.of(chain), spec or get_spec(), make_key(seed)
    state.games[task], state.head_block = cast(Any, game), head_block
    state.inner[task] = InnerBook(game.terms.windows.respond)
    state.contests[task] = ContestFolds(compute_depth(count_tensor_leaves(spec.terms.parameter_count)))
    lines = list[str]()
    config = NodeConfig(home, home, "", key, notify=notify or lines.append)
    with Journal(home / "journal.sqlite", RECORDS) as journal:
        store = BlobStore(home / "blobs", is_durable=False)
        client = BlobClient(store, RequestSigner(key, SIGNING), patience, own_host="127.0.0.1")
        following = Following(chain, state, Status(chain.address), _wait_for_ever())
        node = cast(Member, role(config, following, store, journal, client))
        peers = Peers(client, state, node.account, task)
        joined = node.joined = node.open_task(task, spec, corpus or get_corpus(), peers)
        node.joined = replace(joined, audits=HeardAudits(joined.audits))
        lines.clear()
        yield node
        node.joined.close()


def get_sent(node: Member) -> list[tuple[str, Any]]:
    """Returns the calls that a node has sent."""
    return cast(Any, node.chain).sent  # type: ignore[no-any-return]


def get_lines(node: Member) -> list[str]:
    """Returns what the operator of a node was told."""
    return node.config.notify.__self__  # type: ignore[attr-defined,no-any-return]


def get_told(node: Member) -> Told:
    """Returns what a node has heard of audits, for the test to change."""
    return cast(HeardAudits, node.task.audits).told


def change_tools(node: Member, **tools: Any) -> None:
    """Gives a node other tools from now on."""
    node.joined = replace(node.task, rooms=Rooms(replace(node.rooms.tools, **tools)))


def change_spec(node: Member, spec: TaskSpec) -> None:
    """Has the task of a node be another one from now on."""
    node.joined = replace(node.task, spec=spec)


# A view alone
class NoJournal:
    """Takes every record, and has none."""

    def append(self, record: Any) -> None:
        """Nothing is asked again."""

    def replay(self) -> Any:
        return iter(())


def make_view(
    *,
    account: str = "",
    task: bytes = TASK,
    spec: TaskSpec | None = None,
    game: GameState | None = None,
    state: ChainState | None = None,
    head_block: int = 0,
    claims: ClaimBook | None = None,
    told: Told | None = None,
    book: AuditBook | None = None,
    cases: DisputeRecords | None = None,
    stored: StoredData | None = None,
) -> View:
    """Returns what a decision may look at: a node without records, but for what is named."""
    journal, found = cast(Any, NoJournal()), cast(Any, game)
    if state is None:
        state = ChainState(account, BOUNDS_LOCAL, SIGNING, head_block=head_block)
        state.inner[task], state.contests[task] = InnerBook(10), ContestFolds(5)
    domain = b"" if game is None else game.terms.domain
    return View(
        account, task, domain, spec or get_spec(), found, state.head_block, state,
        claims or ClaimBook(journal, task),
        ToldAudits(book or AuditBook(journal, task), found, told or Told()),
        cases or DisputeRecords(journal, task), PruningMemory(), cast(StoredData, stored),
    )  # fmt: skip
