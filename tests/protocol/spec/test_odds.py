"""The published odds against counting every possible draw, and against the draw itself."""

from fractions import Fraction
from hashlib import sha256
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.spec import odds
from protocol.spec.draw import draw_late_audit, draw_segments
from protocol.spec.errors import InvalidInput


def all_draws(count: int, draws: int) -> list[tuple[int, ...]]:
    return [
        c for c in combinations(range(count), draws) if all(b - a > 1 for a, b in zip(c, c[1:], strict=False))
    ]


@given(st.integers(1, 4), st.integers(0, 6), st.data())
def test_odds_equal_the_count_of_all_draws(draws: int, extra: int, data: st.DataObject) -> None:
    count = 2 * draws - 1 + extra
    spoiled = data.draw(st.sets(st.integers(0, count - 1)))
    sets = all_draws(count, draws)
    clean = [drawn for drawn in sets if not spoiled & set(drawn)]
    assert odds.count_draws(count, draws) == len(sets)
    assert odds.count_clean_draws(count, draws, spoiled) == len(clean)
    assert odds.compute_detection_probability(count, draws, spoiled) == 1 - Fraction(len(clean), len(sets))


def test_late_audits_add_their_share() -> None:
    # 4 of 5 single draws miss segment 2; half of these get a late audit of one of the other four.
    assert odds.compute_escape_probability(5, 1, [2]) == Fraction(4, 5)
    assert odds.compute_escape_probability(5, 1, [2], late_rate=32_768) == Fraction(4, 5) * (
        1 - Fraction(1, 8)
    )
    assert odds.compute_escape_probability(5, 1, range(5), late_rate=0) == 0
    assert odds.compute_escape_probability(1, 1, [], late_rate=65_536) == 1


def test_draws_match_the_published_odds() -> None:
    """Ten thousand fixed draws; the bound is the 99 % interval of a binomial count."""
    spoiled, trials = {1, 5}, 10_000
    met = 0
    for i in range(trials):
        seed = sha256(b"odds %d" % i).digest()
        drawn = draw_segments(seed, 2, 10)
        late = draw_late_audit(sha256(seed).digest(), 0, 16_384, drawn, 10, 2)
        met += bool(spoiled & set(drawn)) or (late is not None and late.segment in spoiled)
    p = odds.compute_detection_probability(10, 2, spoiled, late_rate=16_384)
    assert abs(met - trials * p) < 2.576 * float(trials * p * (1 - p)) ** 0.5


def test_foreign_segments_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"\[7\]"):
        odds.compute_detection_probability(5, 1, [7])


def test_luck_of_a_run() -> None:
    assert odds.compute_undrawn_probability(4, 2) == Fraction(9, 16)
    assert odds.compute_luck([]) == 0
    assert odds.compute_luck([Fraction(1, 2), Fraction(1, 2)]) == Fraction(3, 4)
    with pytest.raises(InvalidInput):
        odds.compute_undrawn_probability(0, 1)


@given(st.integers(1, 3), st.integers(0, 4), st.fractions(0, 1), st.fractions(0, 1), st.data())
def test_who_sees_only_sometimes(
    draws: int, extra: int, late: Fraction, seen: Fraction, data: st.DataObject
) -> None:
    """Draw by draw: each auditor who meets a spoiled segment sees it with a chance, late ones too."""
    count, late_rate = 2 * draws - 1 + extra, int(late * 65_536)
    spoiled = data.draw(st.sets(st.integers(0, count - 1)))
    escaped = Fraction(0)
    for drawn in map(set, all_draws(count, draws)):
        undrawn = set(range(count)) - drawn
        share = Fraction(len(undrawn & spoiled), len(undrawn)) if undrawn else Fraction(0)
        escaped += (1 - seen) ** len(drawn & spoiled) * (1 - Fraction(late_rate, 65_536) * share * seen)
    escaped /= odds.count_draws(count, draws)
    assert odds.compute_escape_probability(count, draws, spoiled, late_rate, seen) == escaped


@pytest.mark.parametrize(("count", "draws"), [(4, 2), (7, 2), (9, 3), (10, 5)])
def test_the_bound_for_many_segments_lies_below_the_exact_least(
    count: int, draws: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [(count, draws, size, 20_000, Fraction(2, 3)) for size in range(1, count + 1)]
    exact = [odds.compute_least_detection(*one) for one in arguments]
    monkeypatch.setattr(odds, "EXACT_SEGMENTS", 0)
    bound = [odds.compute_least_detection(*one) for one in arguments]
    assert all(low <= true for low, true in zip(bound, exact, strict=True))
    assert bound[0] == exact[0]


def test_who_owns_half_of_four_verifiers_decides_two_draws_of_three() -> None:
    # The primary is its own (1/2), or both reserves are (of three left, two: 1/3).
    assert odds.compute_owned_majority(Fraction(1, 2), 4) == Fraction(2, 3)
    assert odds.compute_owned_majority(Fraction(1, 2), 3) == Fraction(1, 3)
    assert odds.compute_owned_majority(Fraction(0), 99) == 0
    assert odds.compute_owned_majority(Fraction(1), 3) == 1
