"""Derived amounts satisfy every rule, and none can be a unit less."""

from dataclasses import fields, replace
from fractions import Fraction

import pytest

from tests.protocol.spec.game.simulation import AMOUNTS, make_terms
from touchstone.protocol.economics.amounts import derive_amounts, list_binding, refuse_bad_money
from touchstone.protocol.economics.assumptions import Figures
from touchstone.protocol.economics.gas_costs import price_gas
from touchstone.protocol.economics.money_rules import check_money
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.presets import WINDOWS_12S
from touchstone.protocol.spec.game.terms import GameAmounts, GameTerms
from touchstone.protocol.spec.params import TOKEN_WEI

THIRD = Fraction(1, 3)
FIGURES = Figures(
    cost=30 * TOKEN_WEI,
    gain=100 * TOKEN_WEI,
    round_blocks=180,
    owned=THIRD,
    withholding_gain=10 * TOKEN_WEI,
    gas=price_gas(10**11, contest_levels=3, look=5 * TOKEN_WEI),
)
UNIT = TOKEN_WEI // 10


def make(segment_count: int = 10, draws: int = 2, seats: int = 8) -> GameTerms:
    return make_terms(
        segment_count=segment_count,
        draws=draws,
        solver_seats=seats,
        least_verifiers=max(seats, 3 * draws),
        least_whistleblowers=seats,
        windows=WINDOWS_12S,
        amounts=replace(AMOUNTS, solver_pay=100 * TOKEN_WEI),
    )


@pytest.mark.parametrize(("segments", "draws", "seats"), [(10, 2, 8), (16, 3, 16), (50, 4, 64), (1, 1, 3)])
@pytest.mark.parametrize("owned", [Fraction(0), THIRD])
def test_derived_amounts_hold_and_are_least(segments: int, draws: int, seats: int, owned: Fraction) -> None:
    figures = replace(FIGURES, owned=owned)
    terms = derive_amounts(make(segments, draws, seats), figures, UNIT)
    assert all(rule.holds for rule in list_binding(check_money(terms, figures)))
    for name in (
        "audit_pay",
        "late_pay",
        "query_bond",
        "dispute_bond",
        "contest_bond",
        "dropped_fee",
        "finder_cap",
    ):
        assert is_broken_by(terms, figures, name), name
    assert is_broken_by(terms, figures, "solver_stake") and is_broken_by(terms, figures, "auditor_stake")


@pytest.mark.parametrize("cost", [1, UNIT // 3, UNIT - 1, UNIT + 1])
def test_compute_that_costs_less_than_a_unit_has_amounts(cost: int) -> None:
    terms = derive_amounts(make(), replace(FIGURES, cost=cost), UNIT)
    assert cost <= terms.amounts.dropped_fee <= 2 * cost


def test_no_amounts_deter_whose_auditors_decide_every_draw() -> None:
    """Two of three own: they are the primary, or both reserves."""
    with pytest.raises(InvalidInput, match="no fee deters"):
        derive_amounts(make(1, 1, 3), replace(FIGURES, owned=Fraction(2, 3)), UNIT)


def is_broken_by(terms: GameTerms, figures: Figures, name: str) -> bool:
    """Whether a unit less of an amount breaks a rule."""
    less = replace(terms, amounts=replace(terms.amounts, **{name: getattr(terms.amounts, name) - UNIT}))
    return any(not rule.holds for rule in list_binding(check_money(less, figures)))


def test_the_bond_of_a_contest_pays_for_the_leaf_that_it_can_cause() -> None:
    """A right leaf takes 12.07 million gas of 64 claims, 2.81 million of four. Who brings it gets half of the
    bond."""
    assert price_gas(1, contest_levels=1, look=0).contest >= 12_071_640 + 120_000
    few = price_gas(1, contest_levels=1, look=0, solver_seats=4).contest
    assert 2_812_608 + 120_000 <= few < 4_000_000


def test_who_leads_a_wrong_root_of_64_claims_to_its_leaf_is_paid_for_it() -> None:
    """It pays for 12.81 million gas of the leaf and the fall alone; a finder is paid once for all signers."""
    figures = replace(FIGURES, gas=price_gas(10**11, contest_levels=7, look=0))
    terms = derive_amounts(make(seats=64), figures, UNIT)
    assert terms.amounts.finder_cap >= 12_808_798 * 10**11
    assert 33 * terms.amounts.solver_stake // 4 >= terms.amounts.finder_cap


def test_a_vote_alone_deals_the_places_of_its_round() -> None:
    """Three for each draw, at most the pool: 16 solvers with two draws deal 96."""
    few, many = (price_gas(1, 1, 0, seats, 2).vote for seats in (4, 16))
    assert few == 190_000 + 24 * 1_100 and many == 190_000 + 96 * 1_100
    assert price_gas(1, 1, 0).vote == 190_000 + 1_024 * 1_100


def test_amounts_are_whole_units() -> None:
    terms = derive_amounts(make(), FIGURES, UNIT)
    assert all(getattr(terms.amounts, field.name) % UNIT == 0 for field in fields(GameAmounts))


def test_bonds_and_stakes_are_not_below_what_a_deployment_asks_for() -> None:
    least_wei = 7 * TOKEN_WEI
    plain = derive_amounts(make(), FIGURES, UNIT).amounts
    found = derive_amounts(make(), FIGURES, UNIT, least_bond_wei=least_wei).amounts
    bonds = ("query_bond", "dispute_bond", "contest_bond")
    assert [getattr(found, name) for name in bonds] == [
        max(least_wei, getattr(plain, name)) for name in bonds
    ]
    assert plain.query_bond < least_wei
    assert found.auditor_stake >= least_wei <= found.solver_stake and found.audit_pay == plain.audit_pay


def test_the_pay_is_raised_where_it_does_not_cover_the_compute() -> None:
    poor = make()
    poor = replace(poor, amounts=replace(poor.amounts, solver_pay=1))
    assert derive_amounts(poor, FIGURES, UNIT).amounts.solver_pay == 301 * UNIT, "30 and 0.02 of gas"


def test_the_stake_is_smallest_from_twice_the_least_fee_on() -> None:
    """Close to the least F the stake that it is taken out of grows without end."""
    stated = replace(FIGURES, gain=0, withholding_gain=100 * TOKEN_WEI)
    margins = (Fraction(11, 10), Fraction(2), Fraction(6))
    stakes = [derive_amounts(make(), stated, UNIT, margin).amounts.solver_stake for margin in margins]
    assert stakes[2] == stakes[1] < stakes[0]


def test_bad_money_is_named() -> None:
    terms = derive_amounts(make(), FIGURES, UNIT)
    bad = replace(terms, amounts=replace(terms.amounts, query_bond=1, solver_stake=1))
    with pytest.raises(InvalidInput, match="cheating pays") as caught:
        refuse_bad_money(bad, FIGURES)
    assert caught.value.where == "query_bond, solver_stake"
