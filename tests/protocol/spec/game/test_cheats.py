"""Every size of a false claim: spans without a gap, and odds by hand."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.protocol.spec.game.simulation import make_terms
from touchstone.protocol.economics.assumptions import Figures, read_sampling
from touchstone.protocol.economics.false_claims import Cheat, Sampling, list_cheats, list_spans

THIRD = Fraction(1, 3)
CLOSE = Fraction(1, 1 << 31)


def find(sampling: Sampling, segments: int, spoiled: int) -> Cheat:
    return next(c for c in list_cheats(sampling) if (c.segments, c.spoiled) == (segments, spoiled))


@given(st.integers(1, 50), st.integers(0, 2_000))
def test_spans_cover_every_size_once(least: int, more: int) -> None:
    spans = list(list_spans(least, least + more))
    covered = [size for first, last in spans for size in range(first, last + 1)]
    assert covered == list(range(least, least + more + 1))
    assert spans[-1] == (least + more, least + more), "the whole claim is judged by itself"
    assert all(last - first <= first // 16 for first, last in spans)


def test_the_odds_of_one_spoiled_segment_by_hand() -> None:
    """6 segments, 1 draw, a third of 6 verifiers own, late audits of half the claims."""
    one = find(Sampling(6, 1, 1 << 15, 6, THIRD), 6, 1)
    late = Fraction(1, 2) * Fraction(2, 3) * Fraction(1, 5)
    blind = Fraction(5, 6) * (1 - late) + Fraction(1, 6) * THIRD
    assert one.hits == Fraction(1, 6) and one.computed == Fraction(5, 6) and one.paid == 1
    assert abs(one.caught - (1 - blind)) < CLOSE
    decide = max(Fraction(2, 5), 1 - one.voided * 6)
    assert one.voided <= Fraction(1, 6) * (1 - decide) + CLOSE and one.accepted == 1 - one.voided


def test_every_claim_has_all_its_draws() -> None:
    """Of 10 segments with 2 draws a claim has 4 or more; of 3 with 2 all, and one draw."""
    for count, draws, sizes, audits in ((10, 2, range(4, 11), 2), (3, 2, [3], 1), (5, 1, range(1, 6), 1)):
        terms = make_terms(segment_count=count, draws=draws, least_verifiers=9)
        cheats = list_cheats(read_sampling(terms, Figures(30, 100, 180)))
        assert {cheat.segments for cheat in cheats} == set(sizes)
        assert {cheat.audits for cheat in cheats} == {audits}


def test_short_claims_are_accepted_as_often_and_paid_less() -> None:
    sampling = Sampling(10, 2, 0, 600, THIRD, least_segments=4)
    short, whole = find(sampling, 4, 4), find(sampling, 10, 10)
    assert abs(short.accepted - Fraction(11, 27) ** 2) < Fraction(1, 100)
    assert short.accepted == whole.accepted and short.paid == Fraction(4, 10) and whole.paid == 1


def test_no_claim_is_shorter_than_the_least() -> None:
    sizes = {cheat.segments for cheat in list_cheats(Sampling(10, 2, 0, 6, THIRD, least_segments=4))}
    assert sizes == set(range(4, 11))


@pytest.mark.parametrize("segments", [10, 40])
def test_more_eyes_detect_more(segments: int) -> None:
    """More draws, late audits, fewer own auditors: each lets less through, whatever is spoiled."""
    base = Sampling(segments, 2, 0, 12, Fraction(1, 2))
    better = (
        Sampling(segments, 3, 0, 12, Fraction(1, 2)),
        Sampling(segments, 2, 1 << 16, 12, Fraction(1, 2)),
        Sampling(segments, 2, 0, 12, THIRD),
    )
    for other in better:
        pairs = list(zip(list_cheats(base), list_cheats(other), strict=True))
        assert all(b.caught >= a.caught - CLOSE for a, b in pairs)
        assert any(b.caught > a.caught + CLOSE for a, b in pairs)


def test_an_auditor_that_sees_half_detects_half() -> None:
    seeing = find(Sampling(10, 2, 0, 12, THIRD), 10, 5)
    blurred = find(Sampling(10, 2, 0, 12, THIRD, detection=Fraction(1, 2)), 10, 5)
    assert abs(blurred.caught - seeing.caught / 2) < CLOSE and blurred.accepted == seeing.accepted


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 70), st.integers(1, 4), st.integers(0, 1 << 16), st.sampled_from([0, 1, 3]))
def test_chances_are_chances(segments: int, draws: int, late: int, share: int) -> None:
    for cheat in list_cheats(Sampling(segments, draws, late, 3 * draws, Fraction(share, 6))):
        assert 0 <= cheat.voided <= cheat.caught <= 1 and cheat.caught > 0
        assert 0 <= cheat.computed < cheat.paid <= 1 and 0 < cheat.hits <= cheat.audits
