"""Exact odds of given placements, against every draw and against samples of the real draw."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.protocol.spec.game.draws import list_real_draws
from tests.protocol.spec.game.placements import (
    bound_escape,
    compute_escape,
    compute_hits,
    find_worst_placement,
    list_plausible_placements,
)
from touchstone.protocol.economics.false_claims import Sampling, list_cheats
from touchstone.protocol.spec.audit_draws import count_draws, draw_circle_segments, draw_late

THIRD = Fraction(1, 3)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_hits_are_those_of_every_draw(data: st.DataObject) -> None:
    count, draws = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 3))
    spoiled = data.draw(st.sets(st.integers(0, count - 1), min_size=1))
    hits = [Fraction(0)] * (count_draws(draws, count) + 1)
    for segments, chance in list_real_draws(count, draws):
        hits[len(spoiled & set(segments))] += chance
    assert compute_hits(count, draws, spoiled) == tuple(hits)


def test_each_segment_is_drawn_equally_often() -> None:
    """So the hits are m j / n on average, wherever the spoiled segments lie."""
    for spoiled in ({0}, {0, 2, 4, 6}, {1, 2, 3, 4}, {0, 5, 9}):
        hits = compute_hits(16, 4, spoiled)
        assert sum(k * chance for k, chance in enumerate(hits)) == Fraction(4 * len(spoiled), 16)


def test_the_figures_of_every_second_segment() -> None:
    """0.50, 0.19, 0.10 instead of 0.25, 0.125, 0.0625."""
    found = [find_worst_placement(n, q, n // 2)[1] for n, q in ((4, 2), (10, 3), (16, 4))]
    assert [round(float(chance), 2) for chance in found] == [0.5, 0.19, 0.1]
    assert find_worst_placement(16, 4, 8)[0] == frozenset(range(0, 16, 2))


@pytest.mark.parametrize(
    ("count", "draws", "spoiled"), [(16, 4, 2), (16, 4, 8), (30, 3, 10), (50, 2, 5), (50, 2, 25)]
)
def test_nothing_that_was_found_escapes_more_often_than_the_bound(
    count: int, draws: int, spoiled: int
) -> None:
    found = find_worst_placement(count, draws, spoiled)[1]
    assert found <= bound_escape(count, draws, spoiled) <= found + Fraction(1, 10)


def test_one_run_and_every_second_segment_are_tried() -> None:
    tried = set(list_plausible_placements(20, 6))
    assert {frozenset(range(6)), frozenset(range(0, 12, 2))} <= tried
    assert all(len(one) == 6 and max(one) < 20 for one in tried)
    assert all(len(one) == 19 for one in list_plausible_placements(20, 19))


@pytest.mark.parametrize(
    ("count", "spoiled", "late_chance"), [(8, {0, 2, 4}, 1 << 15), (20, set(range(0, 20, 2)), 1 << 16)]
)
def test_escapes_are_those_of_sampled_draws_late_audits_included(
    count: int, spoiled: set[int], late_chance: int
) -> None:
    escaped = 0
    for i in range(4_000):
        segments = draw_circle_segments(i.to_bytes(32, "big"), 1, 2, count)
        late = draw_late((i + 1).to_bytes(32, "big"), 1, late_chance, segments, count, 6, 2)
        escaped += not spoiled & {*segments, *([late.segment] if late else [])}
    assert abs(escaped / 4_000 - compute_escape(count, 2, spoiled, late_chance)) < 0.025


def test_own_auditors_by_hand() -> None:
    """One of three segments, one draw: not drawn, or its primary is own. Half are looked at again."""
    first = Fraction(2, 3) + THIRD * THIRD
    assert compute_escape(3, 1, {1}, owned=THIRD) == first
    late = Fraction(1, 2) * Fraction(2, 3) * Fraction(1, 2)
    assert compute_escape(3, 1, {1}, 1 << 15, THIRD) == Fraction(2, 3) * (1 - late) + THIRD * THIRD


def test_one_segment_of_a_whole_claim_is_detected_least() -> None:
    least = min(list_cheats(Sampling(16, 3, 1 << 15, 9, THIRD)), key=lambda cheat: cheat.caught)
    assert (least.segments, least.spoiled) == (16, 1)
