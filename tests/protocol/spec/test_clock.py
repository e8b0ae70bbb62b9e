from dataclasses import astuple

from hypothesis import given
from hypothesis import strategies as st

from protocol.spec.clock import compute_deadlines, compute_late_deadlines
from protocol.spec.containers import Windows
from tests.protocol.spec.simulator import WINDOWS

TABLE = Windows(
    enrol=12, delay=2, seal=12, train=60, start=12, replay=30, show=12, open=12,
    merge=12, dispute=12, respond=12, name=12, prove=12,
)  # fmt: skip


@st.composite
def all_windows(draw: st.DrawFn) -> Windows:
    lengths = st.integers(1, 1 << 22)
    delay = draw(st.integers(1, 128))
    seal = draw(st.integers(delay + 1, 256))
    values = {name: draw(lengths) for name in Windows.__dataclass_fields__}
    return Windows(**(values | {"delay": delay, "seal": seal}))


@given(all_windows(), st.integers(0, 1 << 40))
def test_deadlines_rise_strictly(windows: Windows, start: int) -> None:
    values = astuple(compute_deadlines(start, windows))
    assert all(before < after for before, after in zip(values, values[1:], strict=False))


@given(all_windows(), st.integers(0, 1 << 40))
def test_late_deadlines_rise_strictly(windows: Windows, merged: int) -> None:
    values = astuple(compute_late_deadlines(merged, windows))
    assert all(before < after for before, after in zip(values, values[1:], strict=False))


def test_deadlines_match_the_table_of_the_specification() -> None:
    clock = compute_deadlines(1000, TABLE)
    assert astuple(clock) == (
        1000, 1012, 1014, 1024, 1084, 1086, 1096, 1108, 1138, 1150, 1152, 1162, 1174, 1186,
        1216, 1228, 1230, 1240, 1252, 1264,
    )  # fmt: skip


def test_late_deadlines_match_the_table_of_the_specification() -> None:
    late = compute_late_deadlines(500, TABLE)
    assert astuple(late) == (500, 502, 512, 524, 554, 566, 568, 578, 590, 602, 614)


def test_phases_share_one_shape() -> None:
    clock, late = compute_deadlines(0, WINDOWS), compute_late_deadlines(77, WINDOWS)
    for phase, start in ((clock.primary, clock.start_end), (clock.reserves, clock.compare_end)):
        assert phase.replay_end == start + WINDOWS.replay
        assert phase.compare_end - phase.leaves_end == 2 * WINDOWS.open
    assert late.audits.replay_end == late.late_start_end + WINDOWS.replay
    assert late.audits.compare_end == late.dispute_end - WINDOWS.dispute
