"""All deadlines of a round in block numbers (docs/spec.md, section 7). Twin: `Clock.sol`.

Time runs in blocks only. A window that opens at a and closes at b holds the blocks a <= block < b; the hash
of a block can be used from the next block on, so sealing opens one block after the block that it names.
"""

from dataclasses import dataclass

from protocol.spec.containers import Windows

NEVER = (1 << 64) - 1
"""A block number that no chain reaches: nothing more is due."""


@dataclass(frozen=True)
class AuditDeadlines:
    """The clock of one phase of audits (primary, reserves or late), in block numbers.

    The solver opens starts before start_end; the auditor commits in [replay_opens, replay_end); both show in
    [replay_end, show_end); the leaf draw is sealed in (leaves_block, leaves_end); the solver opens leaves
    before open_end, the auditor compares before compare_end."""

    replay_opens: int
    start_end: int
    replay_end: int
    show_end: int
    leaves_block: int
    leaves_end: int
    open_end: int
    compare_end: int


@dataclass(frozen=True)
class Deadlines:
    """Deadlines that follow from the start block alone, in block numbers, in rising order."""

    start_block: int
    enrol_end: int
    beacon_block: int
    beacon_end: int
    train_end: int
    draw_block: int
    draw_end: int
    start_end: int
    replay_end: int
    show_end: int
    leaves_block: int
    leaves_end: int
    open_end: int
    compare_end: int
    reserve_replay_end: int
    reserve_show_end: int
    reserve_leaves_block: int
    reserve_leaves_end: int
    reserve_open_end: int
    reserve_compare_end: int

    @property
    def primary(self) -> AuditDeadlines:
        """Clock of the primaries (phase 0)."""
        return AuditDeadlines(
            self.draw_block, self.start_end, self.replay_end, self.show_end, self.leaves_block,
            self.leaves_end, self.open_end, self.compare_end,
        )  # fmt: skip

    @property
    def reserves(self) -> AuditDeadlines:
        """Clock of the reserves of escalated draws (phase 1); the starts were opened for the primaries."""
        return AuditDeadlines(
            self.compare_end, self.start_end, self.reserve_replay_end, self.reserve_show_end,
            self.reserve_leaves_block, self.reserve_leaves_end, self.reserve_open_end,
            self.reserve_compare_end,
        )  # fmt: skip


@dataclass(frozen=True)
class LateDeadlines:
    """Deadlines of the late audits and of the opening of disputes, in block numbers, in rising order."""

    merged_block: int
    late_block: int
    late_end: int
    late_start_end: int
    late_replay_end: int
    late_show_end: int
    late_leaves_block: int
    late_leaves_end: int
    late_open_end: int
    late_compare_end: int
    dispute_end: int

    @property
    def audits(self) -> AuditDeadlines:
        """Clock of the late audits (phase 2)."""
        return AuditDeadlines(
            self.late_block, self.late_start_end, self.late_replay_end, self.late_show_end,
            self.late_leaves_block, self.late_leaves_end, self.late_open_end, self.late_compare_end,
        )  # fmt: skip


def compute_audit_deadlines(replay_opens: int, start_end: int, from_block: int, w: Windows) -> AuditDeadlines:
    """The clock of a phase whose replay window counts from `from_block`."""
    replay_end = from_block + w.replay
    show_end = replay_end + w.show
    leaves_end = show_end + w.seal
    open_end = leaves_end + w.open
    return AuditDeadlines(
        replay_opens=replay_opens,
        start_end=start_end,
        replay_end=replay_end,
        show_end=show_end,
        leaves_block=show_end + w.delay,
        leaves_end=leaves_end,
        open_end=open_end,
        compare_end=open_end + w.open,
    )


def compute_deadlines(start_block: int, windows: Windows) -> Deadlines:
    """All deadlines of a round that starts at `start_block`, up to the verdict over the reserves."""
    enrol_end = start_block + windows.enrol
    beacon_end = enrol_end + windows.seal
    train_end = beacon_end + windows.train
    draw_block, draw_end = train_end + windows.delay, train_end + windows.seal
    start_end = draw_end + windows.start
    first = compute_audit_deadlines(draw_block, start_end, start_end, windows)
    second = compute_audit_deadlines(first.compare_end, start_end, first.compare_end, windows)
    return Deadlines(
        start_block=start_block,
        enrol_end=enrol_end,
        beacon_block=enrol_end + windows.delay,
        beacon_end=beacon_end,
        train_end=train_end,
        draw_block=draw_block,
        draw_end=draw_end,
        start_end=start_end,
        replay_end=first.replay_end,
        show_end=first.show_end,
        leaves_block=first.leaves_block,
        leaves_end=first.leaves_end,
        open_end=first.open_end,
        compare_end=first.compare_end,
        reserve_replay_end=second.replay_end,
        reserve_show_end=second.show_end,
        reserve_leaves_block=second.leaves_block,
        reserve_leaves_end=second.leaves_end,
        reserve_open_end=second.open_end,
        reserve_compare_end=second.compare_end,
    )


def compute_late_deadlines(merged_block: int, windows: Windows) -> LateDeadlines:
    """Deadlines after the merge; merged_block: when the outer root was posted, or the empty set judged."""
    late_block, late_end = merged_block + windows.delay, merged_block + windows.seal
    start_end = late_end + windows.start
    late = compute_audit_deadlines(late_block, start_end, start_end, windows)
    return LateDeadlines(
        merged_block=merged_block,
        late_block=late_block,
        late_end=late_end,
        late_start_end=start_end,
        late_replay_end=late.replay_end,
        late_show_end=late.show_end,
        late_leaves_block=late.leaves_block,
        late_leaves_end=late.leaves_end,
        late_open_end=late.open_end,
        late_compare_end=late.compare_end,
        dispute_end=late.compare_end + windows.dispute,
    )
