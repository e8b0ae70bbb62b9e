"""What attacks earn at the sampling and amounts of the demo's task file."""

from dataclasses import replace
from fractions import Fraction

import pytest

from lab.benchmarks.hunting.earnings import (
    OWNED,
    Deal,
    compute_bearable_gain,
    compute_fall,
    compute_net,
    compute_serving_net,
    list_plays,
    read_deal,
    to_tokens,
)
from touchstone.protocol.spec.params import LATE_RATE_ONE

DEAL = read_deal()
PAY = to_tokens(DEAL.terms.amounts.solver_pay)


def change_amounts(deal: Deal, **changes: int) -> Deal:
    return replace(deal, terms=replace(deal.terms, amounts=replace(deal.terms.amounts, **changes)))


def test_one_false_segment_by_hand() -> None:
    """One draw of four segments and half of the accepted claims once more, all auditors honest."""
    [one, *_] = DEAL.list_cheats(Fraction(1), Fraction(0))
    assert (one.spoiled, one.voided) == (1, Fraction(1, 4))
    caught = 1 - Fraction(3, 4) * (1 - Fraction(1, 2) * Fraction(1, 3))
    assert abs(one.caught - caught) < Fraction(1, 1 << 30)
    burned = to_tokens(DEAL.loss)
    net = compute_net(DEAL, 0.0, 1.0)
    assert net == pytest.approx(float(-PAY / 4 - one.caught * burned))
    gain = compute_bearable_gain(DEAL, 1.0)
    assert gain == pytest.approx(float((PAY / 4 + one.caught * burned) / Fraction(3, 4)))


def test_who_is_never_seen_gains_what_it_saves() -> None:
    assert compute_net(DEAL, 1.0, 0.0) == to_tokens(DEAL.figures.cost)
    assert compute_bearable_gain(DEAL, 0.0) == 0


@pytest.mark.parametrize("saved", [0.0, 0.2, 0.5, 1.0])
def test_no_attack_pays_whoever_owns_half_of_the_verifiers(saved: float) -> None:
    # Also where only a third of what auditors meet is seen.
    for detected in (1.0, 0.33):
        assert compute_net(DEAL, saved, detected) < compute_net(DEAL, saved, detected, OWNED) < 0


def test_where_the_seat_is_kept_skipping_hardly_costs() -> None:
    """What the claim is worth is the pay that is lost with it."""
    kept, lost = (compute_net(DEAL, 1.0, 1.0, OWNED, share) for share in (0.0, 1.0))
    assert -1 < kept < 0 and lost < kept - 40


def test_drift_that_pays_nobody_outside_does_not_pay_and_bears_less_than_a_seat() -> None:
    [play] = [play for play in list_plays(DEAL) if play.name.startswith("drift")]
    assert play.net < 0
    drift, false = (compute_bearable_gain(DEAL, 1.0, OWNED, share) for share in (0.0, 1.0))
    assert 0 < drift < PAY < false


def test_serving_only_one_s_own_verifiers_does_not_pay() -> None:
    assert compute_serving_net(DEAL) < 0
    fee = DEAL.terms.amounts.unserved_fee
    assert compute_serving_net(change_amounts(DEAL, unserved_fee=fee // 4)) > 0


def test_a_false_root_costs_whoever_hands_it_in_unless_the_claim_stands() -> None:
    assert compute_fall(DEAL) == Fraction(DEAL.terms.late_chance, LATE_RATE_ONE) == Fraction(1, 2)
    two = replace(DEAL, terms=replace(DEAL.terms, draws=2))
    assert compute_fall(two) == 1 - Fraction(1, 3) * Fraction(1, 2)
    [play] = [play for play in list_plays(DEAL) if play.name == "verifier is handed a false root"]
    assert play.net < -to_tokens(DEAL.audit_loss) / 3


def test_challenging_oneself_costs() -> None:
    [play] = [play for play in list_plays(DEAL) if play.number == "31"]
    assert play.net <= -to_tokens(DEAL.terms.amounts.solver_stake) / 2


def test_what_pays_is_known() -> None:
    """An auditor without a replay beside honest solvers, and what stays inside the limits: no false work
    passes by the first, nothing tells of the second (decision 0016)."""
    paying = {play.name for play in list_plays(DEAL) if play.net >= 0}
    assert paying == {
        "riding inside the limits of a segment, worth nothing",
        "verifier accepts an honest claim without a replay",
        "verifier is handed an honest root",
    }
