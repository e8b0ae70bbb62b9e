"""The chances of the worst placement, against every draw that the real function can make."""

from collections import defaultdict
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.protocol.spec.game.draws import list_real_draws
from touchstone.protocol.economics.escape_bounds import bound_by_pairs, bound_by_steps, compute_worst_escape
from touchstone.protocol.economics.placement_odds import compute_set_chances, compute_worst_exact
from touchstone.protocol.spec.audit_draws import count_draws, draw_circle_segments
from touchstone.protocol.spec.errors import InvalidInput

SIZES = [(1, 1), (2, 1), (3, 2), (4, 2), (5, 2), (6, 2), (7, 3), (8, 3), (9, 2), (10, 3)]
SURE = (Fraction(1), *[Fraction(0)] * 20)
"""Whoever is hit is caught."""


def weigh(chance: Fraction, draws: int, segment_count: int) -> tuple[Fraction, ...]:
    return tuple(chance**k for k in range(count_draws(draws, segment_count) + 1))


@pytest.mark.parametrize(("segment_count", "draws"), SIZES)
def test_sets_of_segments_have_the_chances_of_the_real_draw(segment_count: int, draws: int) -> None:
    real: dict[int, Fraction] = defaultdict(Fraction)
    for segments, chance in list_real_draws(segment_count, draws):
        real[sum(1 << segment for segment in segments)] += chance
    assert sum(real.values()) == 1
    assert compute_set_chances(segment_count, draws) == real


@pytest.mark.parametrize(("segment_count", "draws"), SIZES)
@pytest.mark.parametrize("chance", [Fraction(0), Fraction(1, 3)])
def test_the_worst_placement_is_the_best_of_all_for_the_cheat(
    segment_count: int, draws: int, chance: Fraction
) -> None:
    real = list(list_real_draws(segment_count, draws))
    for spoiled in range(1, segment_count + 1):
        escapes = (
            sum(p * chance ** len(set(placement) & set(segments)) for segments, p in real)
            for placement in combinations(range(segment_count), spoiled)
        )
        weights = weigh(chance, draws, segment_count)
        assert compute_worst_exact(segment_count, draws, spoiled, weights) == max(escapes)


@pytest.mark.parametrize(
    ("segment_count", "draws", "spoiled", "escape", "naive"),
    [
        (4, 2, 2, Fraction(1, 2), Fraction(1, 4)),
        (10, 3, 5, Fraction(27, 140), Fraction(1, 8)),
        (12, 4, 6, Fraction(121, 945), Fraction(1, 16)),
    ],
)
def test_every_second_segment_escapes_more_often_than_draws_with_replacement(
    segment_count: int, draws: int, spoiled: int, escape: Fraction, naive: Fraction
) -> None:
    found = compute_worst_exact(segment_count, draws, spoiled, SURE[: draws + 1])
    assert found == escape > naive == (1 - Fraction(spoiled, segment_count)) ** draws


def test_one_spoiled_segment_escapes_as_often_as_it_is_not_drawn() -> None:
    for segment_count, draws in ((9, 3), (12, 4), (64, 4), (1000, 20)):
        weights = SURE[: draws + 1]
        escape = compute_worst_escape(segment_count, segment_count, draws, 1, weights)
        assert escape == 1 - Fraction(draws, segment_count)


def test_the_step_bound_by_hand() -> None:
    """16 segments, 8 spoiled: 8/16, then at least 6 of 13, 4 of 10, 2 of 7."""
    by_hand = Fraction(1, 2) * Fraction(7, 13) * Fraction(6, 10) * Fraction(5, 7)
    assert bound_by_steps(16, 4, 8, SURE[:5]) == by_hand


def test_the_pair_bound_by_hand() -> None:
    """4 of 64 spoiled, 2 draws: 1 - 8/64 + 6 pairs, each of which is drawn with chance 2/(64 * 61)."""
    assert bound_by_pairs(64, 64, 2, 4, SURE[:3]) == 1 - Fraction(8, 64) + 6 * Fraction(2, 64 * 61)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_both_bounds_lie_above_every_placement(data: st.DataObject) -> None:
    """For weights that fall by any steps, as those of own auditors and late audits do."""
    segment_count = data.draw(st.integers(1, 11))
    drawn = count_draws(data.draw(st.integers(1, 4)), segment_count)
    spoiled = data.draw(st.integers(1, segment_count))
    steps = data.draw(st.lists(st.integers(0, 20), min_size=drawn + 1, max_size=drawn + 1))
    weights = tuple(Fraction(100 - sum(steps[: k + 1]), 100) for k in range(drawn + 1))
    exact = compute_worst_exact(segment_count, drawn, spoiled, weights)
    assert bound_by_steps(segment_count, drawn, spoiled, weights) >= exact
    assert bound_by_pairs(segment_count, segment_count, drawn, spoiled, weights) >= exact


def test_the_step_bound_holds_where_a_hit_helps() -> None:
    """All but two segments spoiled, a late audit for certain: without a hit it meets one surely."""
    weights = (Fraction(0), Fraction(1, 2), Fraction(1, 9))
    assert bound_by_steps(7, 2, 1, weights) >= compute_worst_exact(7, 2, 1, weights) == Fraction(1, 7)
    assert bound_by_steps(7, 2, 5, weights) >= compute_worst_exact(7, 2, 5, weights)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(0, 3), st.integers(1, 3), st.data())
def test_a_bound_of_a_span_holds_for_each_size_and_for_more_spoiled(
    least: int, more: int, draws: int, data: st.DataObject
) -> None:
    few = data.draw(st.integers(1, least))
    size, spoiled = data.draw(st.integers(least, least + more)), data.draw(st.integers(few, least))
    chance = Fraction(1, 3)
    bound = compute_worst_escape(least, least + more, draws, few, weigh(chance, draws, least))
    assert compute_worst_exact(size, draws, spoiled, weigh(chance, draws, size)) <= bound


@pytest.mark.parametrize(("segment_count", "draws"), [(16, 4), (40, 4), (64, 3)])
def test_what_the_real_draw_samples_stays_below_the_bound(segment_count: int, draws: int) -> None:
    """1,500 seeds, every second segment spoiled; and no more than a tenth below it."""
    spoiled = set(range(0, segment_count, 2))
    seeds = (i.to_bytes(32, "big") for i in range(1_500))
    clean = sum(not spoiled & set(draw_circle_segments(seed, 3, draws, segment_count)) for seed in seeds)
    bound = compute_worst_escape(segment_count, segment_count, draws, len(spoiled), SURE[: draws + 1])
    assert bound - Fraction(1, 10) < Fraction(clean, 1_500) < bound + Fraction(1, 50)


@pytest.mark.parametrize("case", [(4, 4, 2, 0, 3), (4, 4, 2, 5, 3), (5, 4, 2, 1, 3), (4, 4, 2, 1, 4)])
def test_claims_that_do_not_exist_are_refused(case: tuple[int, int, int, int, int]) -> None:
    with pytest.raises(InvalidInput, match="no such claim"):
        compute_worst_escape(*case[:4], SURE[: case[4]])
