"""How much of each window was used: the most blocks that any party took, against what it had.

Measured in blocks, which is what the contracts count. One comes every half second and with each transaction,
so a block is at most half a second: the margin in real time is larger than the one printed.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from protocol.spec import events
from protocol.spec.containers import Windows
from protocol.spec.events import Event
from protocol.spec.params import PHASE_LATE, PHASE_PRIMARY
from protocol.spec.round import RoundState, get_audit_deadlines, get_phase
from protocol.spec.statuses import AuditStatus


@dataclass(frozen=True)
class Use:
    """The most of a window that was used, in blocks of at most half a second."""

    measured_s: int
    window_s: int

    @property
    def ratio(self) -> float:
        """How many times the work fits into its window."""
        return self.window_s / max(self.measured_s, 1)


class Stopwatch:
    """Follows one round; feed it the round's events with the state that they lead to."""

    def __init__(self) -> None:
        self.most: dict[str, int] = defaultdict(int)
        self._marks: dict[Any, int] = {}

    def take(self, event: Event, state: RoundState) -> None:
        """Measure one event."""
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event, state)

    def mark(self, name: Any, block: int) -> None:
        """Something began, or may begin."""
        self._marks[name] = block

    def measure(self, phase: str, since: Any, block: int) -> None:
        """Something was done that could be done since the mark or block `since`."""
        start = since if isinstance(since, int) else self._marks.get(since)
        if start is not None:
            self.most[phase] = max(self.most[phase], block - start)


def _take_start(watch: Stopwatch, event: events.StartOpened, state: RoundState) -> None:
    watch.measure("start", "late" if event.draw == state.late_draw else "draw", event.block_number)
    watch.mark(("start", event.slot, event.draw), event.block_number)


def _take_replay(watch: Stopwatch, event: events.ReplayCommitted, state: RoundState) -> None:
    phase, since = get_phase(state, event.draw, event.rank), ("start", event.slot, event.draw)
    is_first = phase in (PHASE_PRIMARY, PHASE_LATE)
    watch.measure("replay", since if is_first else state.deadlines.compare_end, event.block_number)


def _take_show(watch: Stopwatch, event: Any, state: RoundState) -> None:
    clock = get_audit_deadlines(
        state, get_phase(state, event.draw, getattr(event, "rank", 0)), event.block_number
    )
    if clock is not None:
        watch.measure("show", clock.replay_end, event.block_number)


def _take_leaves(watch: Stopwatch, event: events.LeavesOpened, state: RoundState) -> None:
    late, first_end = event.draw == state.late_draw, state.deadlines.compare_end
    phase = PHASE_LATE if late else PHASE_PRIMARY if event.block_number < first_end else 1
    watch.measure("open", ("leaves", phase), event.block_number)
    watch.mark(("opened", event.slot, event.draw, phase), event.block_number)


def _take_judged(watch: Stopwatch, event: events.AuditJudged, state: RoundState) -> None:
    if event.status in (AuditStatus.ACCEPTS, AuditStatus.REJECTS):
        phase = get_phase(state, event.draw, event.rank)
        watch.measure("compare", ("opened", event.slot, event.draw, phase), event.block_number)


_HANDLERS: dict[type[Event], Callable[[Stopwatch, Any, RoundState], None]] = {
    events.Enrolled: lambda w, e, s: w.measure("enrol", s.start_block, e.block_number),
    events.BeaconSealed: lambda w, e, s: w.mark("beacon", e.block_number),
    events.Committed: lambda w, e, s: w.measure("train", "beacon", e.block_number),
    events.DrawSealed: lambda w, e, s: w.mark("draw", e.block_number),
    events.LateSealed: lambda w, e, s: w.mark("late", e.block_number),
    events.StartOpened: _take_start,
    events.ReplayCommitted: _take_replay,
    events.EndOpened: _take_show,
    events.Revealed: _take_show,
    events.LeavesSealed: lambda w, e, s: w.mark(("leaves", e.phase), e.block_number),
    events.LeavesOpened: _take_leaves,
    events.AuditJudged: _take_judged,
    events.ClaimJudged: lambda w, e, s: w.mark("judged", e.block_number) if s.outer is None else None,
    events.OuterPosted: lambda w, e, s: w.measure("merge", "judged", e.block_number),
}


def measure_phases(history: Iterable[tuple[Event, RoundState]], windows: Windows) -> dict[str, Use]:
    """The most used of each kind of window, over all rounds. history: each event and its round after it."""
    watches: dict[int, Stopwatch] = defaultdict(Stopwatch)
    for event, state in history:
        watches[state.index].take(event, state)
    limits = {
        "enrol": windows.enrol, "train": windows.train, "start": windows.start, "replay": windows.replay,
        "show": windows.show, "open": windows.open, "compare": windows.open, "merge": windows.merge,
    }  # fmt: skip
    most = {name: max((watch.most.get(name, 0) for watch in watches.values()), default=0) for name in limits}
    return {name: Use(most[name], limit) for name, limit in limits.items()}
