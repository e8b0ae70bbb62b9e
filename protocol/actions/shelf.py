"""What a node shows, and when: the order of its showing is what makes an audit blind.

A start state is shown once the start leaf is on chain, an end state once the end leaf is: an auditor has
committed to its own result by then. The trace of a disputed step is shown once its root is on chain, which
nothing can change any more. The shelf is folded from the node's own events, so a restart finds it as it was.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from protocol.actions.model_shelf import ModelShelf
from protocol.adapters.blobs import TRACE_KINDS, BlobKey, BlobKind, refer_state
from protocol.spec import events, game_events
from protocol.spec.containers import StateHeader
from protocol.spec.errors import TouchstoneError

PUBLIC_KINDS = (BlobKind.DATASET, BlobKind.BYTES)
"""Open to anybody who signs: they are public by the task."""

log = logging.getLogger(__name__)


@dataclass
class Shelf:
    """The blobs that this node shows. Feed it every event, in order."""

    account: str
    is_staked: Callable[[str], bool]
    get_roots: Callable[[bytes], Sequence[bytes]] = lambda trace_root: ()
    """get_roots(trace root): the roots of the trace's buffers as the store has them; empty: it has none."""
    shown: set[BlobKey] = field(default_factory=set)
    """What events oblige this node to show."""
    models: ModelShelf = field(init=False)
    """The global models."""
    released: set[BlobKey] = field(default_factory=set)
    """What this node shows of its finished claims of its own accord, for good."""
    _traces: dict[bytes, frozenset[bytes]] = field(default_factory=dict)
    """Roots of the buffers of each trace that is shown, by its root; empty until they are asked for."""
    _claims: dict[tuple[bytes, int, int], events.Committed] = field(default_factory=dict)
    _disputes: set[bytes] = field(default_factory=set)
    """On this node's own claims."""

    def __post_init__(self) -> None:
        self.models = ModelShelf(self.account)

    def may_read(self, account: str, kind: BlobKind, root: bytes) -> bool:
        """Whether `account` may have this blob now: pseudo-gradients are for anybody once shown, a global
        model once it is settled (`ModelShelf`), states and traces for staked accounts."""
        if kind in PUBLIC_KINDS:
            return True
        if kind is BlobKind.TENSOR and self.models.may_read(account, root, is_staked=self.is_staked(account)):
            return True
        if BlobKey(kind, root) in self.released:
            return self.is_staked(account)
        if kind is BlobKind.ROOTS or kind in TRACE_KINDS:
            return bool(self._traces) and self.is_staked(account) and self._is_traced(kind, root)
        is_shown = BlobKey(kind, root) in self.shown
        return is_shown and (kind is BlobKind.DELTA or self.is_staked(account))

    def join(self, task: bytes) -> None:
        """Show the global models of this task from now on, to whom they are for."""
        self.models.joined.add(task)

    def show_tensor(self, task: bytes, root: bytes) -> None:
        """Show one tensor of a task's global model from now on: this node computed it."""
        self.models.computed[task].add(root)

    def list_shown(self) -> set[BlobKey]:
        """What events oblige this node to show, and the global models."""
        return self.shown | {BlobKey(BlobKind.TENSOR, root) for root in self.models.list_roots()}

    def show_claim(self, claim_root: bytes, headers: Sequence[StateHeader]) -> None:
        """Show all states of a claim, and the leaves of its tree, from now on. To be called once no auditor
        can copy them; a reorg that reaches further back than a replay window does not take it back."""
        self.released.add(BlobKey(BlobKind.ROOTS, claim_root))
        self.released |= {ref.key for header in headers for ref in refer_state(header, 1)}

    def show_state(self, header: StateHeader) -> None:
        """Show W, m and v of a state from now on."""
        self.shown |= {ref.key for ref in refer_state(header, 1)}

    def show_trace(self, trace_root: bytes, start: StateHeader, end: StateHeader) -> None:
        """Show the trace of one step and the states before and after it from now on."""
        self._traces[trace_root] = frozenset()
        self.show_state(start)
        self.show_state(end)

    def forget(self) -> None:
        """Take back what events showed, after a reorg: what no longer stands on chain is not to be copied."""
        self.shown.clear()
        self.models.forget()
        self._traces.clear()
        self._claims.clear()
        self._disputes.clear()

    def take(self, event: events.Event) -> None:
        """Fold one event: what the node's own calls on chain oblige it to show, and what becomes public."""
        self.models.take(event)
        match event:
            case events.Committed() if event.solver == self.account:
                self._claims[(event.task, event.round, event.slot)] = event
            case events.Revealed() if event.auditor == self.account:
                self.show_state(event.end)
            case events.StartOpened() if self._is_own(event):
                self.show_state(event.start)
            case events.EndOpened() if self._is_own(event):
                self.show_state(event.end)
                self.show_state(event.last)
                claim = self._claims[(event.task, event.round, event.slot)]
                self.shown.add(BlobKey(BlobKind.DELTA, claim.delta_root))
            case game_events.DisputeOpened() if event.claimant == self.account:
                self._disputes.add(event.dispute)
            case game_events.TracePosted() if event.dispute in self._disputes:
                self.show_trace(event.trace_root, event.start, event.end)

    def _is_own(self, event: events.SlotEvent) -> bool:
        return (event.task, event.round, event.slot) in self._claims

    def _is_traced(self, kind: BlobKind, root: bytes) -> bool:
        if kind is BlobKind.ROOTS:
            return root in self._traces
        return any(root in self._read_roots(trace_root) for trace_root in self._traces)

    def _read_roots(self, trace_root: bytes) -> frozenset[bytes]:
        """From the store once, then from memory: each request of a challenger comes here."""
        if not self._traces[trace_root]:
            try:
                self._traces[trace_root] = frozenset(self.get_roots(trace_root))
            except TouchstoneError as fault:
                log.warning("the roots of trace %s cannot be read: %s", trace_root.hex(), fault)
        return self._traces[trace_root]
