"""Reads and describes the state that a node writes into its home, for `touchstone status`."""

from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from touchstone.protocol.adapters.messages import Count, Form, Message
from touchstone.protocol.spec.errors import InvalidInput

STATE_FILE = "node-state.json"
STALE_S = 10.0
"""A node that has not written its file for this many seconds was killed, hangs, or cannot write to the
disk."""
FULL_DISK_BYTES = 50_000_000
SPARE_DISK_BYTES = 1_000_000_000
"""A disk with less free space is nearly full: journal, logs and disputes need it."""


class HealthIssue(StrEnum):
    """Something that may be wrong with a node, or with its chain, disk, clock or endpoint."""

    RPC_SILENT = "rpc_silent"
    RPC_LAGGING = "rpc_lagging"
    ENDPOINT_SILENT = "endpoint_silent"
    CHAIN_CHANGED = "chain_changed"
    CLOCK_WRONG = "clock_wrong"
    NOTHING_SIGNED = "nothing_signed"
    HEAD_UNPROVABLE = "head_unprovable"
    FEE_CAPPED = "fee_capped"
    DISK_LOW = "disk_low"
    DISK_FULL = "disk_full"


class End(StrEnum):
    """How a run of a node ended. KILLED means that it wrote no end, or still runs. DECLINED means that its
    operator did not agree, so it never began."""

    KILLED = ""
    STOPPED = "stopped"
    FAILED = "failed"
    DECLINED = "declined"


END_WORDS = {
    End.KILLED: "was killed",
    End.STOPPED: "was stopped",
    End.FAILED: "ended with an error",
    End.DECLINED: "was declined by its operator",
}


class SeenHealthIssue(Message, frozen=True):
    """A present health issue of a node: since when (Unix time in seconds), and its message."""

    kind: HealthIssue
    since_s: Count
    said: str


class NodeState(Message, frozen=True):
    """The state that a node writes into its home. Times are Unix time in seconds. `seen_s` is when it wrote
    this. `end` says how this run ended, `earlier_end` how the run before ended (None if this is the first).
    `kills` counts earlier runs that ended without a word. `model` describes how good the task's model is
    (empty: not known), `model_warning` warns a submitter whose model gets worse (else empty). `next_duty` is
    what the node owes the chain first, by block `next_block` (empty: nothing now); `peers` counts the other
    members of the task that have announced an endpoint."""

    account: str
    started_s: Count
    seen_s: Count
    end: End
    restarts: Count
    kills: Count
    earlier_end: End | None
    head_block: Count
    health_issues: tuple[SeenHealthIssue, ...]
    model: str = ""
    model_warning: str = ""
    next_duty: str = ""
    next_block: Count = 0
    peers: Count = 0

    def is_running(self, now_s: float) -> bool:
        """Returns whether the node that wrote this runs, as far as the file tells."""
        return self.end is End.KILLED and now_s - self.seen_s < STALE_S


FORM = Form(NodeState, 64 * 1024, "not the state of a node")


def read_node_state(home: Path) -> NodeState | None:
    """Returns the latest state that the node of a home wrote; None if it cannot be read. Losing the file does
    no harm."""
    with suppress(InvalidInput):
        return FORM.read_file(home / STATE_FILE, "Remove it: a node writes it anew.")
    return None


def describe_node_state(state: NodeState, now_s: float) -> Iterator[str]:
    """Yields lines for an operator about the state."""
    age_s = max(0, int(now_s) - state.seen_s)
    if state.end is not End.KILLED:
        yield f"the node of this home does not run: it {END_WORDS[state.end]} {age_s} s ago"
        return
    if not state.is_running(now_s):
        yield (
            f"WARNING: the node of this home was seen last {age_s} s ago and wrote no end: it was killed, it "
            "hangs, or the disk refuses its files"
        )
    else:
        lasts_s = max(0, int(now_s) - state.started_s)
        yield f"the node of this home has run for {lasts_s} s, at block {state.head_block}"
    if state.earlier_end is not None:
        kills = f", {state.kills} of them after it was killed" if state.kills and state.restarts > 1 else ""
        before = f"the run before {END_WORDS[state.earlier_end]}"
        times = "once" if state.restarts == 1 else f"{state.restarts} times"
        yield f"it was started again {times}{kills}; {before}"
    if state.model:
        yield state.model
    if state.model_warning:
        yield f"WARNING: {state.model_warning}"
    for one in state.health_issues:
        yield f"WARNING: for {max(0, int(now_s) - one.since_s)} s: {one.said}"
