"""What the chain tells, folded: tasks with their games, peers, and what is said inside disputes.

After a reorg the events that stand are folded again from the first.
"""

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from protocol.actions.network import Network
from protocol.actions.runtime.seated import Seated
from protocol.adapters.chain.game import GameChain
from protocol.adapters.chain.logs import Batch, Event
from protocol.spec.errors import TouchstoneError
from protocol.spec.game.inner_contest import ContestFolds, fold_contest
from protocol.spec.game.inner_dispute import InnerBook
from protocol.spec.game.inner_folding import fold_inner
from protocol.spec.game.ledger import LoggedGame
from protocol.spec.game.logs import start_game, take_log
from protocol.spec.game.terms import DeploymentLimits
from protocol.spec.merkle import compute_depth, count_tensor_leaves
from protocol.spec.typed_data import SigningDomain

_CREDITS = {"Deposited": 1, "Given": 1, "Withdrawn": -1, "Taken": -1}
"""Events of the purse that change a credit."""
_BROKEN = (TouchstoneError, LookupError, ValueError, ArithmeticError)

log = logging.getLogger(__name__)


@dataclass
class ChainState:
    """The fold of all events up to `head_block`. By task id: games, texts (the training text), task_terms (as
    the contracts have them), inner (asks and disputes), contests, refused (tasks that cannot be folded, and
    why; nobody joins one). credits: what each account may withdraw or stake, in wei; seals: when this account
    sealed which proof."""

    account: str
    limits: DeploymentLimits
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
    _events: list[Event] = field(default_factory=list, repr=False)
    _seated: Seated = field(default_factory=Seated, repr=False)

    @classmethod
    def of(cls, chain: GameChain) -> "ChainState":
        """The state of a chain of which nothing is read yet."""
        return cls(chain.address, chain.limits, chain.signing)

    def is_staked(self, account: str) -> bool:
        """Whether the account has a seat in some task that was neither convicted nor paid out."""
        return self._seated.holds(account)

    def is_member(self, account: str, task: bytes) -> bool:
        """Whether the account has such a seat in this task."""
        return self._seated.holds_in(account, task)

    def take(self, batch: Batch) -> None:
        """Fold a batch. An event costs only its own task anything: anybody posts tasks."""
        if batch.forget_from is not None:
            self._refold([event for event in self._events if event.block_number < batch.forget_from])
        for event in batch.events:
            self._take(event)
        self.head_block = batch.head.number

    def _refold(self, standing: list[Event]) -> None:
        by_task = (self.games, self.texts, self.task_terms, self.inner, self.contests, self.refused)
        for fold in (*by_task, self.credits, self.seals, self.network.peers, self._events):
            fold.clear()
        self._seated = Seated()
        for event in standing:
            self._take(event)

    def _take(self, event: Event) -> None:
        self._events.append(event)
        task = event.arguments.get("task")
        if task is None:
            self._take_common(event)
        elif event.name == "TaskPosted":
            self._start(task, event)
        elif task in self.games:
            self._fold(task, event)

    def _take_common(self, event: Event) -> None:
        """What is of no task: the purse's, the peers' and seals of proofs."""
        values = event.arguments
        if event.name in _CREDITS:
            self.credits[values["account"]] += _CREDITS[event.name] * values["wei_"]
        elif event.name == "Announced":
            self.network.announce(**values)
        elif event.name == "ProofSealed" and values["sender"] == self.account:
            self.seals[values["digest"]] = event.block_number

    def _start(self, task: bytes, event: Event) -> None:
        terms = event.arguments["terms"]
        try:
            game = start_game(event.arguments, event.block_number, self.limits, self.signing)
            depth = compute_depth(count_tensor_leaves(terms.parameter_count))
        except _BROKEN as error:
            self.refused[task] = str(error)
            return
        self.games[task], self.texts[task] = game, event.arguments["training"]
        self.task_terms[task], self.contests[task] = terms, ContestFolds(depth)
        self.inner[task] = InnerBook(game.terms.windows.respond)

    def _fold(self, task: bytes, event: Event) -> None:
        name, values, block = event.name, event.arguments, event.block_number
        try:
            self.games[task] = take_log(self.games[task], name, values, block)
            self.inner[task] = fold_inner(self.inner[task], name, values, block)
            self.contests[task] = fold_contest(self.contests[task], name, values)
        except _BROKEN as error:
            self._give_up(task, event, error)
            return
        self._seated.take(event)

    def _give_up(self, task: bytes, event: Event, error: Exception) -> None:
        """A task that this program does not understand must not stop a node that is not in it."""
        if self._seated.is_in(self.account, task):
            raise error
        log.error(
            "Task %s is left out: %s of block %d: %s", task.hex(), event.name, event.block_number, error
        )
        self.refused[task] = str(error)
        for fold in (self.games, self.texts, self.task_terms, self.inner, self.contests):
            fold.pop(task, None)
