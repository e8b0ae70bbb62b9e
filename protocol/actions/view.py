"""Everything that the chain's events tell this node, folded: tasks, disputes, peers, and what it has to
show.

After a reorg the events that stand are folded again from the first: the folds are pure, so the result is
what a fresh node sees.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from protocol.actions.network import Network
from protocol.actions.shelf import Shelf
from protocol.adapters.chain import Batch
from protocol.spec.codec import compute_domain
from protocol.spec.contest import ContestState, process_contest_event, start_contest
from protocol.spec.dispute import DisputeBook, process_book_event
from protocol.spec.event_log import event_from_log
from protocol.spec.events import DisputeEvent, Event, TaskCreated
from protocol.spec.game_events import ChildNamed, Contested, ContestEnded, DisputeOpened, NodesPosted
from protocol.spec.merkle import compute_depth, count_tensor_leaves
from protocol.spec.task import TaskState, process_task_event, start_task


@dataclass
class View:
    """The fold of all events up to `head_block`: tasks and their disputes by task id, contests by their
    key."""

    account: str
    chain_id: int
    registry: str
    get_roots: Callable[[bytes], Sequence[bytes]] = lambda trace_root: ()
    """get_roots(trace root): what the node's store knows of a trace, for the shelf."""
    events: list[Event] = field(default_factory=list)
    network: Network = field(default_factory=Network)
    tasks: dict[bytes, TaskState] = field(default_factory=dict)
    disputes: dict[bytes, DisputeBook] = field(default_factory=dict)
    contests: dict[tuple[bytes, int, str], ContestState] = field(default_factory=dict)
    head_block: int = 0
    shelf: Shelf = field(init=False)
    _disputed: dict[bytes, bytes] = field(default_factory=dict, repr=False)
    """The task of each dispute."""

    def __post_init__(self) -> None:
        self.shelf = Shelf(self.account, lambda account: self.network.is_staked(account), self.get_roots)

    def take(self, batch: Batch) -> Sequence[Event]:
        """Fold a batch; return its events."""
        new = [event_from_log(event.name, event.arguments, event.block_number) for event in batch.events]
        if batch.forget_from is not None:
            self._refold([event for event in self.events if event.block_number < batch.forget_from])
        for event in new:
            self._take(event)
        self.head_block = batch.head.number
        return new

    def _refold(self, events: list[Event]) -> None:
        self.events, self.tasks, self.disputes, self.contests, self._disputed = [], {}, {}, {}, {}
        self.network.peers.clear()
        self.network.stakes_wei.clear()
        self.shelf.forget()
        for event in events:
            self._take(event)

    def _take(self, event: Event) -> None:
        self.events.append(event)
        self.network.take(event)
        self.shelf.take(event)
        if isinstance(event, TaskCreated):
            domain = compute_domain(self.chain_id, self.registry, event.task)
            self.tasks[event.task] = start_task(domain, event)
            self.disputes[event.task] = DisputeBook(event.task, event.terms)
        task = self._find_task(event)
        if task in self.tasks:
            self.tasks[task] = process_task_event(self.tasks[task], event)
            self.disputes[task] = process_book_event(self.disputes[task], event)
        self._take_contest(event)

    def _find_task(self, event: Event) -> bytes:
        """The only task that the event can change, empty where it changes none: anybody posts tasks, and an
        event must not cost time for each of them. (A seal changes a book, but says not of which task; no
        node reads it.)"""
        if isinstance(event, DisputeOpened):
            self._disputed[event.dispute] = event.claim.audit.task
        if isinstance(event, DisputeEvent):
            return self._disputed.get(event.dispute, b"")
        return getattr(event, "task", b"")

    def _take_contest(self, event: Event) -> None:
        if isinstance(event, Contested):
            contest = start_contest(event, self._get_depth(event.task))
            self.contests[contest.key] = contest
        elif isinstance(event, NodesPosted | ChildNamed | ContestEnded):
            key = (event.task, event.round, event.rival)
            if key in self.contests:
                depth = self._get_depth(event.task)
                self.contests[key] = process_contest_event(self.contests[key], event, depth)

    def _get_depth(self, task: bytes) -> int:
        return compute_depth(count_tensor_leaves(self.tasks[task].terms.parameter_count))
