"""Folds the chain's events: tasks with their games, peers, stakes, and moves inside disputes.

Each request of a stranger asks which accounts have a stake and where they serve, so the answer comes from
memory. A snapshot is taken every 64 blocks; after a reorg the fold goes on from one. Of tasks that a node
does not work on, only the seats are folded.
"""

import logging
from collections import Counter
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field, fields, replace
from typing import Any

from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.chain.contract_events import Event
from touchstone.protocol.adapters.chain.follower import NEAR_BLOCKS, LogBatch
from touchstone.protocol.adapters.chain.pots import BONDS, name_pot
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.spec.data_trees import count_tensor_leaves
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault, TouchstoneError
from touchstone.protocol.spec.game.dispute_reducer import fold_inner
from touchstone.protocol.spec.game.inner_contest import ContestFolds, fold_contest
from touchstone.protocol.spec.game.inner_dispute import InnerBook
from touchstone.protocol.spec.game.logged_game import LoggedGame, start_game
from touchstone.protocol.spec.game.logs import apply_log
from touchstone.protocol.spec.game.money_book import UNNAMED
from touchstone.protocol.spec.game.terms import DeploymentBounds
from touchstone.protocol.spec.merkle import compute_depth
from touchstone.protocol.spec.typed_data import SigningDomain


@dataclass
class Seated:
    """The seats of all tasks that were neither convicted nor paid out. Call `take` with each event of each
    task, in order."""

    _accounts: dict[tuple[bytes, int], str] = field(default_factory=dict)
    _counts: Counter[str] = field(default_factory=Counter)
    _members: Counter[tuple[str, bytes]] = field(default_factory=Counter)
    _tasks: set[tuple[str, bytes]] = field(default_factory=set)
    _convicted: set[tuple[str, bytes]] = field(default_factory=set)

    def copy(self) -> "Seated":
        """Returns a copy."""
        return replace(self, **{one.name: copy(getattr(self, one.name)) for one in fields(self)})

    def take(self, event: Event) -> None:
        """Folds one event. Events of other kinds change nothing."""
        values = event.arguments
        if event.name == "SeatJoined":
            self._accounts[values["task"], values["seat"]] = values["account"]
            self._counts[values["account"]] += 1
            self._members[values["account"], values["task"]] += 1
            self._tasks.add((values["account"], values["task"]))
            # An account that takes a seat after a conviction knows of it.
            self._convicted.discard((values["account"], values["task"]))
        elif event.name in ("SeatFreed", "SeatConvicted"):
            account = self._accounts.pop((values["task"], values["seat"]), None)
            if account is not None:
                self._counts[account] -= 1
                self._members[account, values["task"]] -= 1
                if event.name == "SeatConvicted":
                    self._convicted.add((account, values["task"]))

    def holds(self, account: str) -> bool:
        """Returns whether the account has an unconvicted seat in any task."""
        return self._counts.get(account, 0) > 0

    def holds_in(self, account: str, task: bytes) -> bool:
        """Returns whether the account has such a seat in this task."""
        return self._members.get((account, task), 0) > 0

    def is_in(self, account: str, task: bytes) -> bool:
        """Returns whether the account has, or had, a seat of the task."""
        return (account, task) in self._tasks

    def is_convicted(self, account: str, task: bytes) -> bool:
        """Returns whether the last seat that the account took in the task was convicted."""
        return (account, task) in self._convicted


@dataclass
class Network:
    """The endpoints of all accounts. Call `announce` with each announcement, in order."""

    peers: dict[str, Peer] = field(default_factory=dict)

    def __copy__(self) -> "Network":
        return Network(dict(self.peers))

    def announce(self, account: str, url: str, certificate_sha256: bytes) -> None:
        """Notes where an account serves from now on. Any account may announce anything; a malformed endpoint
        counts as none."""
        try:
            self.peers[account] = Peer(account, url, certificate_sha256)
        except ProtocolFault:
            self.peers.pop(account, None)

    def find(self, account: str) -> Peer:
        """Returns an account's endpoint. Raises EnvironmentFault if it never announced one."""
        if account not in self.peers:
            raise EnvironmentFault(
                what="a peer has announced no endpoint",
                expected=f"an endpoint of {account} on chain",
                actual="none",
                remedy="Wait until it announces one.",
            )
        return self.peers[account]

    def others(self, account: str) -> list[Peer]:
        """Returns all peers but `account`."""
        return [peer for peer in self.peers.values() if peer.account != account]


SNAPSHOT_BLOCKS = 64
KEPT_BLOCKS = 2 * NEAR_BLOCKS
"""The state can go back this many blocks, more than the follower ever undoes."""
FOLDS = (
    "games", "texts", "task_terms", "inner", "contests", "refused", "credits", "seals", "network", "_others",
    "_unnamed",
)  # fmt: skip
"""The folded parts beside the seats. All values in them are frozen."""
_CREDITS = {"Deposited": 1, "Given": 1, "Withdrawn": -1, "Taken": -1}
"""Events of the vault that raise (1) or lower (-1) a credit."""
_BROKEN = (TouchstoneError, LookupError, ValueError, ArithmeticError)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Snapshot:
    """The state as it was after block `block`."""

    block: int
    folds: dict[str, Any]
    seated: Seated


@dataclass
class ChainState:
    """The fold of all events up to `head_block`.

    By task id: `games`, `texts` (the training text), `task_terms` (as the contracts have them), `inner`
    (queries and disputes) and `contests`. `refused` are the tasks that this node cannot fold and does not
    join, with the reason. `credits` is what each account may withdraw or stake, in wei. `seals` has the block
    of each of this account's commitments to a proof."""

    account: str
    bounds: DeploymentBounds
    signing: SigningDomain
    games: dict[bytes, LoggedGame] = field(default_factory=dict)
    texts: dict[bytes, bytes] = field(default_factory=dict)
    task_terms: dict[bytes, Any] = field(default_factory=dict)
    inner: dict[bytes, InnerBook] = field(default_factory=dict)
    contests: dict[bytes, ContestFolds] = field(default_factory=dict)
    refused: dict[bytes, str] = field(default_factory=dict)
    credits: Counter[str] = field(default_factory=Counter)
    seals: dict[bytes, int] = field(default_factory=dict)
    network: Network = field(default_factory=Network)
    head_block: int = 0
    _unnamed: bytes | None = field(default=None, repr=False)
    """The task whose bond the vault's next events share out. They say who gets a part of it, but not in which
    task."""
    _seated: Seated = field(default_factory=Seated, repr=False)
    _focus: bytes | None = field(default=None, repr=False)
    _others: set[bytes] = field(default_factory=set, repr=False)
    """Tasks of which only the seats are folded."""
    _events: list[Event] = field(default_factory=list, repr=False)
    """The events since the oldest snapshot."""
    _snapshots: list[Snapshot] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        self._snapshots.append(self._copy(-1))

    @classmethod
    def of(cls, chain: GameChain) -> "ChainState":
        """Returns the state before any block is read."""
        return cls(chain.address, chain.bounds, chain.signing)

    def is_staked(self, account: str) -> bool:
        """Returns whether the account has a seat in some task that was neither convicted nor paid out."""
        return self._seated.holds(account)

    def is_member(self, account: str, task: bytes) -> bool:
        """Returns whether the account has such a seat in this task."""
        return self._seated.holds_in(account, task)

    def is_convicted(self, account: str, task: bytes) -> bool:
        """Returns whether the last seat that the account took in this task was convicted. The contracts
        forget this when another account gets the seat's number; here it is kept as long as the task."""
        return self._seated.is_convicted(account, task)

    def forget_all(self) -> None:
        """Forgets all state, before all events are folded again."""
        fresh = ChainState(self.account, self.bounds, self.signing)
        for name in (*FOLDS, "_seated", "_events", "_snapshots"):
            setattr(self, name, getattr(fresh, name))

    def focus(self, task: bytes) -> None:
        """Folds only the seats of all other tasks from now on. Any account can post a task, and its events
        must not cost every node time and memory."""
        self._focus = task
        self._drop_others()

    def take(self, batch: LogBatch) -> None:
        """Folds a batch of events. If an event cannot be folded, only its own task stops, because any account
        can post a task. If this account has, or had, a seat in that task, the error is raised. Raises
        EnvironmentFault if a reorg reaches deeper than what is kept; then everything must be folded anew."""
        if batch.forget_from is not None:
            self._go_back(batch.forget_from)
        self.head_block = batch.head.number
        deep = self.head_block - KEPT_BLOCKS
        self._fold_all(event for event in batch.events if event.block_number <= deep)
        if deep > self._snapshots[-1].block:
            self._snapshots.append(self._copy(deep))
        self._fold_all(event for event in batch.events if event.block_number > deep)
        if self.head_block - self._snapshots[-1].block >= SNAPSHOT_BLOCKS:
            self._snapshots.append(self._copy(self.head_block))
        self._forget_old()

    def _fold_all(self, events: Iterable[Event]) -> None:
        for event in events:
            self._events.append(event)
            self.fold(event)

    def _copy(self, block: int) -> Snapshot:
        return Snapshot(block, {name: copy(getattr(self, name)) for name in FOLDS}, self._seated.copy())

    def _forget_old(self) -> None:
        """Keeps what a reorg may need: a snapshot at least `KEPT_BLOCKS` deep, and the events since."""
        count = len(self._snapshots)
        while len(self._snapshots) > 1 and self._snapshots[1].block <= self.head_block - KEPT_BLOCKS:
            del self._snapshots[0]
        if len(self._snapshots) < count:
            oldest = self._snapshots[0].block
            self._events = [event for event in self._events if event.block_number > oldest]

    def _go_back(self, forget_from: int) -> None:
        """Goes back to the state before block `forget_from`."""
        while self._snapshots and self._snapshots[-1].block >= forget_from:
            self._snapshots.pop()
        if not self._snapshots:
            raise EnvironmentFault(
                what="a reorg has removed more blocks than this node can undo",
                expected=f"at most {KEPT_BLOCKS} blocks",
                actual=f"all from block {forget_from} on",
                remedy="You need to do nothing: the node reads the chain again.",
            )
        last = self._snapshots[-1]
        for name, fold in last.folds.items():
            setattr(self, name, copy(fold))
        self._seated = last.seated.copy()
        self._drop_others()
        self._events = [event for event in self._events if event.block_number < forget_from]
        for event in self._events:
            if event.block_number > last.block:
                self.fold(event)

    def _drop_others(self) -> None:
        if self._focus is not None:
            self._others |= self.games.keys() - {self._focus}
            for task in self._others:
                self._drop(task)

    def _drop(self, task: bytes) -> None:
        for fold in (self.games, self.texts, self.task_terms, self.inner, self.contests):
            fold.pop(task, None)

    def fold(self, event: Event) -> None:
        """Folds one event without keeping it. It is for a reader that keeps the events itself, and folds them
        into a new state after a reorg."""
        task = event.arguments.get("task")
        if task is None:
            self._take_common(event)
        elif event.name == "TaskPosted":
            self._start(task, event)
        elif task in self._others:
            self._seated.take(event)
        elif task in self.games:
            self._fold(task, event)

    def _take_common(self, event: Event) -> None:
        """Folds events that belong to no task: of the vault, of peers, and commitments to proofs."""
        values = event.arguments
        if event.name in _CREDITS:
            self.credits[values["account"]] += _CREDITS[event.name] * values["wei_"]
        elif event.name == "Announced":
            self.network.announce(**values)
        elif event.name == "ProofCommitted" and values["sender"] == self.account:
            self.seals[values["digest"]] = event.block_number
        task = self._unnamed
        if event.name == "Given" and task in self.games and values["pot"] == name_pot(BONDS, task):
            self._fold(task, event)

    def _start(self, task: bytes, event: Event) -> None:
        terms = event.arguments["terms"]
        try:
            game = start_game(event.arguments, event.block_number, self.bounds, self.signing)
            depth = compute_depth(count_tensor_leaves(terms.parameter_count))
        except _BROKEN as error:
            self.refused[task] = str(error)
            return
        if self._focus not in (None, task):
            self._others.add(task)
            return
        self.games[task], self.texts[task] = game, event.arguments["training"]
        self.task_terms[task], self.contests[task] = terms, ContestFolds(depth)
        self.inner[task] = InnerBook(game.terms.windows.respond)

    def _fold(self, task: bytes, event: Event) -> None:
        name, values, block = event.name, event.arguments, event.block_number
        try:
            self.games[task] = apply_log(self.games[task], name, values, block)
            self.inner[task] = fold_inner(self.inner[task], name, values, block)
            self.contests[task] = fold_contest(self.contests[task], name, values)
            self._unnamed = task if UNNAMED in self.games[task].money.accounts else None
        except _BROKEN as error:
            self._give_up(task, event, error)
            return
        self._seated.take(event)

    def _give_up(self, task: bytes, event: Event, error: Exception) -> None:
        """Stops folding a task that this program does not understand. Nodes outside the task go on."""
        if self._seated.is_in(self.account, task):
            raise error
        log.error(
            "Task %s is left out: %s of block %d: %s", task.hex(), event.name, event.block_number, error
        )
        self.refused[task] = str(error)
        self._drop(task)
