"""One party of the round: a key, a home folder, the chain's state, its credit, peers and duties.

Every role is a party. What differs is which duties it registers. Stakes and bonds are taken from the credit
that this account has in the purse.

A room lists the duties of a node, and the loop performs them. A duty is a frozen dataclass that says what it
is about, so that equal ones are one. A room lists what is due now from what the chain told and what the
journal knows, without asking any peer: `list_duties(party, block)`. It announces as a `Wait` what will become
due at a block that the machine does not know of.

`list_peers` says in which order a node asks its peers for public data. Training states go between tensors,
roots and the party's store: hashed, kept, loaded, fetched, opened leaf by leaf.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from touchstone.node.kit.chain_state import ChainState
from touchstone.node.kit.config import LossBoard, Meter, PartyConfig, Status
from touchstone.node.kit.recompute_queue import Retraining
from touchstone.node.kit.retention_windows import PruningMemory
from touchstone.node.kit.stored_tensors import StoredState, keep_state_trees, load_tensor, open_tensor
from touchstone.node.kit.view import View
from touchstone.node.records.claim_records import ClaimBook
from touchstone.node.records.dispute_records import CaseBook
from touchstone.node.serving.audit_serving import Audits
from touchstone.node.training.worker_team import Team
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.chain.follower import LogBatch
from touchstone.protocol.adapters.journal import Journal
from touchstone.protocol.adapters.keys.signatures import Signed, sign_statement
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import refer_state
from touchstone.protocol.adapters.store.bucket import Bucket
from touchstone.protocol.adapters.store.part_store import PartStore
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.compute.batches import Corpus
from touchstone.protocol.compute.digest import build_state_trees
from touchstone.protocol.compute.program.step import TrainingState
from touchstone.protocol.spec.containers import StateHeader, StateLeaves, TaskSpec
from touchstone.protocol.spec.game.fates import find_seat, get_required_stake, get_stake, is_sitting
from touchstone.protocol.spec.game.logs import LoggedGame
from touchstone.protocol.spec.game.state import SeatStatus
from touchstone.protocol.spec.game.timing import get_live_round
from touchstone.protocol.spec.statements import SigningDomain
from touchstone.protocol.spec.tokens import format_tokens


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
    team: Team | None = None
    """Workers that train this node's own claims; None where this process does."""
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
            task.claims, task.audits.known, task.cases, task.pruning,
        )  # fmt: skip

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
        await self.chain.gate.pass_through()
        return sign_statement(self.config.key, statement, self.signing)

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

    def say(self, line: str) -> None:
        """Tell the operator."""
        self.config.say(line)


def list_news(game: LoggedGame, account: str) -> Iterator[str]:
    """What an operator has to know of its task, and could not tell from the silence that follows: that no
    further round opens, which is days before the seats are paid out; that its own seat sits in none."""
    seat = find_seat(game, account)
    is_through = game.next_round >= game.terms.rounds and get_live_round(game) is None
    if game.is_halted or is_through:
        cause = "the task is halted" if game.is_halted else f"round {game.next_round - 1} was the last"
        yield (
            f"{cause}: no further round opens. Keep this node up until it ends by itself: what was done can "
            "still be asked about (`touchstone status` tells until when)"
        )
    elif seat is not None and seat.status == SeatStatus.OPEN and not is_sitting(game, seat):
        has_wei, least_wei = get_stake(game, seat.number), get_required_stake(game, seat.role)
        yield (
            f"WARNING: the stake of this seat is {format_tokens(has_wei)}, and the task asks for "
            f"{format_tokens(least_wei)}: it sits in no further round. Fill it up (`touchstone stake`), or "
            "leave (`touchstone leave`)"
        )


SPARE_BONDS = 4
"""So many may others open between a look at the chain and the own call: each makes it a bond dearer."""


async def fund_bonds(party: Party, open_count: int, bond_wei: int) -> int:
    """Have credit for a bond behind `open_count` open ones, and for what it costs where others open some
    more before it. Returns the most to pay, in wei: not more than a seat costs, nor than this account has.
    Raises ContractRefused where that does not pay what is due now."""
    due_wei, amounts = (open_count + 1) * bond_wei, party.game.terms.amounts
    limit_wei = min(due_wei + SPARE_BONDS * bond_wei, max(amounts.solver_stake, amounts.auditor_stake))
    credit, tokens = party.chain.purse.credit_of, party.chain.token.balance_of
    held_wei: int = await credit(party.account) + await tokens(party.account)
    limit_wei = max(due_wei, min(limit_wei, held_wei))
    await party.chain.deposit_missing(limit_wei)
    return limit_wei


class Duty(Hashable, Protocol):
    """One thing to do now."""

    async def perform(self, party: Party) -> None:
        """Do it. Raises ContractRefused where another account was faster, ProtocolFault or EnvironmentFault
        where it has to be tried again later."""


def name_duty(duty: Duty) -> str:
    """Returns the name of a duty in metrics and logs: its own `title`, where its type has several kinds, or
    that of its type."""
    return str(getattr(duty, "title", type(duty).__name__))


def find_round(about: object) -> int | None:
    """Returns the round that a duty, or what it is about, belongs to; None where it belongs to none."""
    places = (about, getattr(about, "place", None), getattr(about, "statement", None))
    return next((number for one in places if isinstance(number := getattr(one, "round", None), int)), None)


@dataclass(frozen=True)
class Wait:
    """Nothing is due yet; from `block` on something may be."""

    block: int


ListDuties = Callable[[Party, int], Iterator[Duty | Wait]]
"""(party, block): what is due for the party in the next block, whose number is `block`."""


def list_peers(party: Party, task: bytes, first: str = "") -> list[Peer]:
    """All other reachable peers, in the order in which to ask: members of the task and `first`, then
    strangers.

    Members go first because an endpoint costs nothing: otherwise the account that announced the first hundred
    would be asked first. In each group, peers that were silent come last, in the order of their last silence.
    Of equally silent ones `first` leads."""

    def rank(peer: Peer) -> tuple[bool, float, bool]:
        """Sort key: members first, then who was silent longest ago."""
        is_stranger = peer.account != first and not party.state.is_member(peer.account, task)
        return is_stranger, party.client.get_silence(peer), peer.account != first

    return sorted(party.state.network.others(party.account), key=rank)


# --- States between tensors, roots and the store ------------------------------------------------------------
def keep_state(party: Party, state: TrainingState, *, is_cached: bool = True) -> StateHeader:
    """Hash a state, once, and put its three tensors into the store; first it is brought home. is_cached:
    as for `fill_file`."""
    trees = build_state_trees(state.bring_home())
    keep_state_trees(party.store, trees, is_cached=is_cached)
    return trees.header


def has_state(party: Party, header: StateHeader) -> bool:
    """Whether all three tensors of a state are in the store."""
    count = party.task.spec.terms.parameter_count
    return all(party.store.has(ref) for ref in refer_state(header, count))


def load_state(party: Party, header: StateHeader) -> TrainingState:
    """A state from the store. Raises InvalidInput where a tensor is not there."""
    count = party.task.spec.terms.parameter_count
    weights, first, second = (load_tensor(party.store, ref) for ref in refer_state(header, count))
    return TrainingState(weights, first, second, header.local_step, header.global_step)


def open_state(party: Party, header: StateHeader) -> StoredState:
    """A state of the store that is looked at piece by piece. Raises as `load_state` does."""
    refs = refer_state(header, party.task.spec.terms.parameter_count)
    return StoredState(header, tuple(open_tensor(party.store, ref) for ref in refs))


async def fetch_state(party: Party, peers: list[Peer], header: StateHeader) -> TrainingState:
    """A state from the store or from the first of `peers` that shows it. Raises as `fetch_tensors` does."""
    await fetch_tensors(party, peers, header)
    return await asyncio.to_thread(load_state, party, header)


async def fetch_tensors(party: Party, peers: list[Peer], header: StateHeader) -> None:
    """Have the tensors of a state in the store, from the first of `peers` that shows each where it is not.
    Raises ProtocolFault or EnvironmentFault."""
    for ref in refer_state(header, party.task.spec.terms.parameter_count):
        await party.client.fetch_from_any(peers, ref)


def open_state_leaves(party: Party, header: StateHeader, indices: Sequence[int]) -> list[StateLeaves]:
    """The same leaves of W, m and v of a state in the store, with their paths. Raises as
    `BlobStore.open_leaves` does."""
    refs = refer_state(header, party.task.spec.terms.parameter_count)
    proofs = [party.store.open_leaves(ref, indices) for ref in refs]
    return [StateLeaves(*of_one_index) for of_one_index in zip(*proofs, strict=True)]
