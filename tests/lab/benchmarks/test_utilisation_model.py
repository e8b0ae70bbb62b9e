"""The simulation of a round: a case by hand, limits, and what faster links and shorter blocks may change."""

from dataclasses import replace
from math import inf

import pytest

from lab.benchmarks.utilisation_model.shortest import (
    CASES,
    build_chart,
    compute_ring_mbit_s,
    find_bandwidth,
    find_bottleneck,
    find_least,
    find_round,
    list_changes,
    make_table,
    show_case,
    show_row,
)
from lab.benchmarks.utilisation_model.simulation import (
    BLOCKS,
    EXCHANGE,
    PARTS,
    Blocks,
    Constants,
    Setting,
    compute_durations,
    draw_factor,
    find_block,
    find_grid,
    measure_constants,
    play_rounds,
    simulate,
    stretch,
    to_bytes_s,
)

INSTANT = Constants(inf, inf, inf, inf, notice_s=0.0, send_s=0.0, message_s=0.0)
"""A node that computes and talks in no time."""
EXACT = Setting(1e6, 1e6, 1e6, Blocks(2.0, 1, 2), solvers=2, spread=0.0, delta_bytes=1.0)
"""A megabyte of pseudo-gradient over a link of a megabyte a second."""
TIRELESS = replace(EXACT, up_bytes_s=inf, down_bytes_s=inf)
NOTHING: frozenset[str] = frozenset()


# By hand
def test_two_rounds_by_hand() -> None:
    """Trained at 50.0, in the block of 52. The other's pseudo-gradient takes 1 s: trains from 53 to 103, in
    the block of 104. The grid block of the first close is that of 56 (block 28), sealed in 58: two auditors
    get 16 MB each until 90, replay 6.25 s until 96.25, and get 17 MB each until 130.25: the root is in 132.
    The claim of 103 waits for it and is in the block of 134."""
    told = list(play_rounds(EXACT, INSTANT, 50.0, NOTHING))[:2]
    assert [one.closed_s for one in told] == [52.0, 134.0]
    assert [one.trained_s for one in told] == [100.0, 100.0]
    assert [one.waited_s for one in told] == [0.0, 132.0 - 103.0]


def test_who_does_not_train_ahead_starts_at_the_root() -> None:
    """The root of the case above is in the block of 132: trained at 182, in the block of 184."""
    waiting = replace(EXACT, is_ahead=False)
    assert [one.closed_s for one in list(play_rounds(waiting, INSTANT, 50.0, NOTHING))[:2]] == [52.0, 184.0]


def test_blocks_and_grid_blocks_by_hand() -> None:
    blocks = Blocks(2.0, 1, 4)
    assert [find_block(blocks, ready_s) for ready_s in (0.0, 1.9, 2.0)] == [2.0, 2.0, 4.0]
    assert [find_grid(blocks, closed_s) for closed_s in (4.0, 6.0, 8.0)] == [8.0, 8.0, 16.0]
    assert find_block(Blocks(0.0, 0, 0), 1.25) == find_grid(Blocks(0.0, 0, 0), 1.25) == 1.25


def test_boundaries_are_hashed_beside_the_training_unless_that_takes_longer() -> None:
    assert stretch(80.0, 9.0, 8) == 80.0
    assert stretch(80.0, 12.0, 8) == 10.0 + 7 * 12.0


def test_durations_by_hand() -> None:
    constants = Constants(1e6, 1e6, 1e6, 1e6)
    took = compute_durations(EXACT, constants, NOTHING)
    assert (took.boundary, took.conclude, took.exchange) == (12.0, 13.0, 1.0)
    assert (took.merge, took.start, took.end) == (1.0 + 2.0 + 8.0, 32.0 + 12.0, 34.0)
    assert took.check == 12.0 + 4.0 + 1.0 + 1.0
    assert compute_durations(replace(EXACT, are_ends_equal=True), constants, NOTHING).end == 10.0
    assert compute_durations(EXACT, constants, frozenset(PARTS)).exchange == 0.0


def test_a_store_takes_one_copy_and_gives_all() -> None:
    many = replace(EXACT, solvers=5, down_bytes_s=1e7)
    assert compute_durations(many, INSTANT, NOTHING).exchange == 4.0
    assert compute_durations(replace(many, is_stored=True), INSTANT, NOTHING).exchange == 1.0


def test_training_times_are_spread_evenly() -> None:
    drawn = [draw_factor(index, slot, 0.02) for index in range(40) for slot in range(4)]
    assert min(drawn) >= 0.98 and max(drawn) <= 1.02 and sum(drawn) / len(drawn) == pytest.approx(1, abs=1e-3)


# Limits
def test_without_any_delay_solvers_always_train() -> None:
    still = replace(TIRELESS, blocks=Blocks(0.0, 0, 0))
    assert simulate(still, INSTANT, 100.0).utilisation == pytest.approx(1.0)


def test_infinite_bandwidth_and_compute_leave_the_blocks() -> None:
    """A claim waits for a block: 2 s at most, so a round of 50 s has 50 / 52 or more."""
    result = simulate(TIRELESS, INSTANT, 50.0)
    assert 50 / 52 <= result.utilisation < 1 and result.waited_s == 0.0
    shortest = find_round(TIRELESS, INSTANT)
    assert shortest is not None and 0.0 < shortest <= 0.96 * 2.0 / 0.04
    assert find_bottleneck(TIRELESS, INSTANT, shortest) == "blocks"


def test_solvers_that_differ_too_much_never_reach_it() -> None:
    assert find_round(replace(TIRELESS, spread=0.2), INSTANT) is None


def test_a_short_round_is_as_long_as_its_audits() -> None:
    result = simulate(EXACT, INSTANT, 1.0)
    audits_s = 32.0 + 34.0
    assert result.period_s > audits_s and result.waited_s > audits_s / 2


def test_a_slow_link_is_what_stands_in_the_way() -> None:
    slow = replace(EXACT, solvers=8)
    shortest = find_round(slow, INSTANT)
    assert shortest is not None and find_bottleneck(slow, INSTANT, 0.9 * shortest) == EXCHANGE


# Monotone
STEP = 0.03
"""A round ends with a block: a little less of one thing may cost a part of one."""


@pytest.mark.parametrize("block_s", [2, 12])
@pytest.mark.parametrize("params", [1e7, 1e9])
def test_more_bandwidth_never_asks_for_longer_rounds(params: float, block_s: int) -> None:
    found = [
        find_round(Setting(params, to_bytes_s(speed), to_bytes_s(speed), BLOCKS[block_s]), Constants()) or inf
        for speed in (100, 400, 1_600, 6_400)
    ]
    assert all(after <= before * (1 + STEP) for before, after in zip(found, found[1:], strict=False))


@pytest.mark.parametrize("mbit_s", [100, 10_000])
def test_longer_blocks_never_allow_shorter_rounds(mbit_s: int) -> None:
    speed = to_bytes_s(mbit_s)
    found = [
        find_round(Setting(1e8, speed, speed, Blocks(block_s, 4, 8)), Constants()) or inf
        for block_s in (1.0, 4.0, 16.0)
    ]
    assert all(after >= before * (1 - STEP) for before, after in zip(found, found[1:], strict=False))


def test_the_least_value_is_found() -> None:
    assert find_least(lambda value: value >= 37.0, 0.01, 1e6) == pytest.approx(37.0, rel=1e-5)
    assert find_least(lambda value: False, 0.01, 1e6) is None


# What is shown
def test_a_ring_of_two_sends_the_model_once() -> None:
    assert compute_ring_mbit_s(1e9, 2, 8.0) == pytest.approx(1_000.0)


def test_cases_say_what_they_would_need() -> None:
    case = CASES[-1]
    told = show_case(case, Constants())
    assert told["reported"] == 0.945 and told["train_s"] == pytest.approx(1_202.7, abs=0.1)
    shares = [one["utilisation"] for one in told["variants"]]
    assert shares == sorted(shares) and len(shares) == len(list_changes(case.setting))


def test_the_bandwidth_that_is_needed_is_enough() -> None:
    setting = Setting(1e8, 1e6, 1e6, BLOCKS[2])
    factor = find_bandwidth(setting, INSTANT, 600.0)
    assert factor is not None and factor > 1
    faster = replace(setting, up_bytes_s=1e6 * factor, down_bytes_s=1e6 * factor)
    assert simulate(faster, INSTANT, 600.0).utilisation >= 0.96


def test_the_table_has_a_row_for_everything_and_a_chart_with_units() -> None:
    rows = make_table(Constants(), parameters=(1e7, 1e8), cores=(1,))
    assert len(rows) == 2 * 3 * 2 and all(show_row(row)["round_s"] for row in rows)
    chart = build_chart(rows)
    assert "training of a round, s" in chart and "parameters" in chart and 'fill="white"' in chart
    with pytest.raises(ValueError, match="nothing to draw"):
        build_chart([replace(row, round_s=None) for row in rows])


def test_constants_are_measured() -> None:
    measured = measure_constants(elements=1 << 14, repeats=1)
    speeds = (measured.hash_bytes_s, measured.hash_delta_bytes_s)
    assert all(speed > 0 for speed in (*speeds, measured.encode_elements_s, measured.merge_elements_s))
