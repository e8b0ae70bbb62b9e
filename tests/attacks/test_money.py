"""No attack pays at the demo's sampling and stakes, and the figures are those of the published odds."""

from dataclasses import replace
from fractions import Fraction

import pytest

from benchmarks.hunting.money import (
    OWNED,
    compute_bearable_gain,
    compute_capture,
    compute_fall,
    compute_net,
    compute_serving_net,
    list_plays,
    read_deal,
)
from protocol.spec.deterrence import compute_least_no_show_fee_wei
from protocol.spec.odds import compute_detection_probability
from protocol.spec.params import LATE_RATE_ONE, TOKEN_WEI

DEAL = read_deal()
EVERY = frozenset(range(DEAL.segments))


@pytest.mark.parametrize("spoiled", [{0}, {1}, {0, 1}, {1, 2, 3}, EVERY])
def test_the_chance_of_capture_is_the_published_one(spoiled: set[int]) -> None:
    published = compute_detection_probability(DEAL.segments, DEAL.draws, spoiled, DEAL.late_rate)
    assert compute_capture(DEAL, frozenset(spoiled), Fraction(1)) == published


def test_who_owns_all_auditors_or_is_never_seen_is_never_caught() -> None:
    assert compute_capture(DEAL, EVERY, Fraction(1), Fraction(1)) == 0
    assert compute_capture(DEAL, EVERY, Fraction(0)) == 0
    assert compute_net(DEAL, 1.0, 0.0) == DEAL.price


def test_what_is_seen_half_of_the_time_is_what_half_of_the_auditors_see() -> None:
    half = Fraction(1, 2)
    assert compute_capture(DEAL, EVERY, half) == compute_capture(DEAL, EVERY, Fraction(1), half)


@pytest.mark.parametrize("saved", [0.0, 0.2, 0.5, 1.0])
def test_no_attack_pays_whoever_owns_half_of_the_verifiers(saved: float) -> None:
    # Also where only a third of what auditors meet is seen.
    for detected in (1.0, 0.33):
        assert compute_net(DEAL, saved, detected) < compute_net(DEAL, saved, detected, OWNED) < 0


def test_without_stake_skipping_would_pay_as_much_as_working() -> None:
    assert compute_net(replace(DEAL, stake=Fraction(0)), 1.0, 1.0) >= 0
    assert compute_net(DEAL, 1.0, 1.0, convicted=0.0) >= 0


def test_one_segment_must_be_worth_more_than_its_risk() -> None:
    gain = compute_bearable_gain(DEAL, 1.0)
    least = min(compute_capture(DEAL, frozenset({segment}), Fraction(1)) for segment in EVERY)
    assert gain == least * DEAL.loss >= 10 * DEAL.pay


def test_serving_only_one_s_own_verifiers_does_not_pay() -> None:
    assert compute_serving_net(DEAL, OWNED) < 0
    pay = int(DEAL.pay * TOKEN_WEI)
    least = Fraction(compute_least_no_show_fee_wei(OWNED, DEAL.draws, pay, DEAL.verifiers), TOKEN_WEI)
    # Below the least fee it would.
    assert compute_serving_net(replace(DEAL, no_show_fee=least), OWNED) < 0
    assert compute_serving_net(replace(DEAL, no_show_fee=least - Fraction(1, 1000)), OWNED) > 0


def test_a_verifier_that_invents_its_result_does_not_gain() -> None:
    [play] = [play for play in list_plays(DEAL) if play.name == "verifier invents its result"]
    assert play.net < -DEAL.audit_stake / 2


def test_a_false_root_costs_whoever_hands_it_in_unless_the_claim_stands() -> None:
    # The other one of two draws is its own with one in five, and half of all accepted claims are looked at.
    assert compute_fall(DEAL) == 1 - Fraction(1, 5) * Fraction(1, 2)
    assert compute_fall(replace(DEAL, late_rate=LATE_RATE_ONE)) == 1
    [play] = [play for play in list_plays(DEAL) if play.name == "verifier is handed a false root"]
    assert play.net < -DEAL.audit_stake / 2


def test_challenging_oneself_costs() -> None:
    [play] = [play for play in list_plays(DEAL) if play.number == "31"]
    assert play.net <= -DEAL.stake / 2


def test_only_what_harms_nobody_pays() -> None:
    paying = {play.name for play in list_plays(DEAL) if play.net >= 0}
    # A lazy verifier and an honest solver: no false work passes, and no audit either (decision 0016).
    assert paying == {"verifier is handed an honest root"}
