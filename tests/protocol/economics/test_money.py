"""The money rules with figures by hand, and that each of them can be broken."""

from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocol.spec.game.bearing import UNBOUNDED, compute_borne_gains
from tests.protocol.spec.game.simulation import AMOUNTS, make_terms
from tests.protocol.spec.game.test_posting import make_judged
from touchstone.protocol.economics.assumptions import Figures, GasCosts, count_closing_rounds, read_sampling
from touchstone.protocol.economics.cheating_gains import (
    compute_burden,
    compute_drift_pay,
    compute_least_auditor_burn,
    compute_least_idler_burn,
    compute_lies,
    compute_paid_beyond,
)
from touchstone.protocol.economics.false_claims import Cheat, list_cheats
from touchstone.protocol.economics.money_rules import MoneyRule, check_money
from touchstone.protocol.economics.slashes import compute_burned, compute_stake_burning
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.enums import GameOutcome
from touchstone.protocol.spec.game.presets import BOUNDS_12S, WINDOWS_12S
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.game.terms import GameAmounts, GameTerms
from touchstone.protocol.spec.game.vault import HELD

THIRD = Fraction(1, 3)
GAS = GasCosts(solver_round=2, vote=1, answer=3, defence=5, contest=7, conviction=11, fall=13)
FIGURES = Figures(cost=30, gain=100, round_blocks=180, owned=THIRD, withholding_gain=0, gas=GAS)


def make(segment_count: int = 10, draws: int = 2, **changes: Any) -> GameTerms:
    amounts = {f.name: changes.pop(f.name) for f in fields(GameAmounts) if f.name in changes}
    base: dict[str, Any] = {
        "segment_count": segment_count, "draws": draws, "least_verifiers": 8, "solver_seats": 8,
        "least_whistleblowers": 8, "windows": WINDOWS_12S, "amounts": replace(AMOUNTS, **amounts),
    }  # fmt: skip
    return make_terms(**{**base, **changes})


def find(terms: GameTerms, segments: int, spoiled: int, figures: Figures = FIGURES) -> Cheat:
    cheats = list_cheats(read_sampling(terms, figures))
    return next(one for one in cheats if (one.segments, one.spoiled) == (segments, spoiled))


def get_rules(terms: GameTerms, name: str, figures: Figures = FIGURES, word: str = "") -> list[MoneyRule]:
    return [r for r in check_money(terms, figures) if r.name == name and word in r.inequality]


# Slashes
@given(st.integers(0, 10_000), st.integers(0, 5_000))
def test_at_least_half_of_every_slash_is_burned(stake: int, cap: int) -> None:
    assert 2 * compute_burned(stake, cap) >= stake


@given(st.integers(0, 10_000), st.integers(0, 5_000), st.integers(0, 50))
def test_every_larger_stake_burns_as_much_and_the_least_is_least(burned: int, cap: int, more: int) -> None:
    stake = compute_stake_burning(burned, cap)
    assert compute_burned(stake + more, cap) >= burned
    assert all(compute_burned(wei, cap) <= burned for wei in range(max(0, stake - 8), max(0, stake - 4)))


def test_the_machine_burns_what_the_rule_says() -> None:
    """Stake 2,000, cap 150, the submitter a quarter: 1,350."""
    from_rule = compute_burned(2_000, AMOUNTS.finder_cap)
    world = make_judged(rounds=1)
    convict_by_dispute(world)
    assert from_rule == 1_350 == world.state.vault.get_wei(HELD), "burned once the task closes"


def convict_by_dispute(world: Any) -> None:
    world.send(calls.DisputeStatement(StatementRef(0, 0), 80), "whistle0")
    world.send(calls.EndDispute(0, outcome=GameOutcome.CONVICTED), "x")


# Rounds
def test_rounds_to_closure_by_hand() -> None:
    """A round later for a late audit, 200 blocks to decide, three answers and three moves of 600:
    3,980 / 180."""
    assert count_closing_rounds(make(), FIGURES) == 23
    assert count_closing_rounds(make(late_chance=0), FIGURES) == 22


def test_a_dispute_takes_no_more_blocks_than_is_assumed() -> None:
    """One round of a block each: the blocks themselves. Opened when the claim is decided at the latest."""
    world = make_judged(rounds=1)
    world.send(calls.DisputeStatement(StatementRef(0, 0), 80), "whistle0")
    lasts = world.state.disputes[0].clock - world.block
    terms = replace(world.state.terms, late_chance=0)
    assert count_closing_rounds(terms, replace(FIGURES, round_blocks=1)) == 60 + lasts


# Stakes
def test_the_burden_of_one_spoiled_segment_by_hand() -> None:
    terms = make()
    one = find(terms, 10, 1)
    rounds = 1 / one.caught + 23
    absolute = rounds * ((1 - one.voided) * 100 - Fraction(9, 10) * 30)
    single = ((1 - one.voided) * 200 - 27 - 70) / one.caught
    assert compute_paid_beyond(terms, FIGURES, one) == (1 - one.voided) * 100 - 70
    assert compute_burden(terms, FIGURES, one) == absolute > single


def test_a_single_false_claim_in_a_first_round_gains_no_more_than_is_burned() -> None:
    """64 segments, pay that barely covers the compute: one false segment in 38 rounds is detected. No pay is
    pending then, and the claim itself was paid if it was not."""
    terms, thin = make(64), replace(FIGURES, cost=95, gain=110)
    one = find(terms, 64, 1, thin)
    gain, honest = (1 - one.voided) * 110 - Fraction(63, 64) * 95, 5
    burden = compute_burden(terms, thin, one)
    escaped = gain + (1 - one.voided) * 100 - honest
    assert burden == escaped / one.caught + 23 * (gain - honest)
    assert burden > (1 / one.caught + 23) * gain > 0
    assert escaped - one.caught * burden <= 0, "what one round gains, less what it risks"


def test_what_a_closed_seat_forgoes_is_no_deterrent() -> None:
    """A false claim is worth less than honest work here. But a task's last round leaves none to forgo."""
    terms, thin = make(64), replace(FIGURES, cost=95)
    one = find(terms, 64, 1, thin)
    gain = (1 - one.voided) * 100 - Fraction(63, 64) * 95
    escaped = gain + (1 - one.voided) * 100 - 5
    assert gain < 5 and compute_burden(terms, thin, one) == escaped / one.caught


def test_the_stake_deters_every_cheat_and_no_less_does() -> None:
    terms = make()
    rule = get_rules(terms, "solver_stake", word="1/p")[0]
    cheats = list_cheats(read_sampling(terms, FIGURES))
    burden = max(compute_burden(terms, FIGURES, one) for one in cheats)
    assert compute_burned(rule.least, AMOUNTS.finder_cap) >= burden
    assert compute_burned(rule.least - 5, AMOUNTS.finder_cap) < burden


def test_lies_of_an_auditor_by_hand() -> None:
    """8 seats, 16 draws: 2 a primary; with a third own, 5/9 of the own primaries' draws have an own reserve,
    and two must lie."""
    terms = make()
    assert compute_lies(terms, THIRD) == 2 * 2 * Fraction(5, 9)
    burned = (50 + 3) * (1 + Fraction(20, 9) * 23)
    assert compute_least_auditor_burn(terms, FIGURES) == -(-burned.numerator // burned.denominator)


def test_drift_costs_a_claim_only_so_the_pay_must_deter_it() -> None:
    """One of 10 segments drifts: it is voided with chance p1, and then costs the pay."""
    terms, drifting = make(), replace(FIGURES, drift_gain=10)
    one = find(terms, 10, 1)
    assert compute_drift_pay(terms, drifting) >= (1 - one.voided) * 10 / one.voided
    assert (
        compute_drift_pay(replace(terms, is_exact=True), drifting) == 0 == compute_drift_pay(terms, FIGURES)
    )
    assert get_rules(terms, "solver_pay", replace(FIGURES, drift_gain=20), "drift")[0].holds is False


def test_drift_in_a_short_claim_saves_the_rest_of_the_compute() -> None:
    """One of two segments claimed, accepted by own auditors alone: B (1 - m/2) >= m V + C / 2."""
    terms, drifting = make(2, 1), replace(FIGURES, drift_gain=1)
    m = find(terms, 1, 1).accepted
    assert compute_drift_pay(terms, drifting) == (m * 1 + 15) / (1 - m / 2) > 18


def test_honest_claims_that_are_voided_raise_the_pay() -> None:
    rule = get_rules(make(), "solver_pay", replace(FIGURES, voided_share=Fraction(1, 5)), "voided")[0]
    assert rule.least == 40, "32 / (4/5)"


# All rules
LEASTS = {
    ("solver_pay", "voided"): 32,
    ("audit_pay", ""): 4,
    ("late_pay", ""): 4,
    ("finder_cap", "proving"): 11,
    ("finder_cap", "wrong root"): 13,
    ("solver_stake", "proving"): 44,
    ("solver_stake", "wrong root"): 11,
    ("auditor_stake", "quarter"): 44,
    ("query_bond", ""): 12,
    ("dispute_bond", ""): 20,
    ("contest_bond", ""): 28,
    ("dropped_fee", ""): 30,
    ("solver_stake", "every bond"): 300,
    ("auditor_stake", "every bond"): 300,
    ("auditor_stake", "half of A >= F x draws of a verifier"): 2 * 70 * 3 * 2,
    ("auditor_stake", "half of A >= F x draws of a whistleblower"): 2 * 70 * 3,
    ("auditor_stake", "A > F x draws of a verifier"): 70 * 6 * 79 + 1,
    ("auditor_stake", "A > F x draws of a whistleblower"): 70 * 3 * 79 + 1,
}


@pytest.mark.parametrize("key", LEASTS, ids=str)
def test_the_least_of_each_amount_by_hand(key: tuple[str, str]) -> None:
    rules = get_rules(make(), key[0], word=key[1])
    assert len(rules) == 1 and rules[0].least == LEASTS[key]
    enough, short = make(**{key[0]: LEASTS[key]}), make(**{key[0]: LEASTS[key] - 1})
    assert get_rules(enough, key[0], word=key[1])[0].holds
    assert not get_rules(short, key[0], word=key[1])[0].holds


@pytest.mark.parametrize("bond", ["query_bond", "dispute_bond", "contest_bond"])
def test_a_bond_beyond_everybodys_means_breaks_a_rule(bond: str) -> None:
    """A task of cheats would be one in which no honest member can challenge, with terms that a deployment
    allows."""
    terms = make(**{bond: BOUNDS_12S.amount_max})
    broken = {
        rule.name for rule in check_money(terms, FIGURES) if not rule.holds and "bond" in rule.inequality
    }
    assert {"solver_stake", "auditor_stake"} <= broken


def test_a_fee_for_dropping_out_is_about_the_compute() -> None:
    assert [get_rules(make(dropped_fee=fee), "dropped_fee")[0].holds for fee in (29, 30, 60, 61)] == [
        False, True, True, False,
    ]  # fmt: skip


def test_only_what_never_abstains_for_money_is_advice() -> None:
    advice = [rule.inequality for rule in check_money(make(), FIGURES) if rule.is_advice]
    assert len(advice) == 2 and all("never has to ABSTAIN" in one for one in advice)


@pytest.mark.parametrize(
    "wrong",
    [{"cost": -1}, {"gain": -1}, {"owned": Fraction(1)}, {"detection": Fraction(0)}, {"round_blocks": 0},
     {"withholding_gain": -1}, {"drift_gain": -1}, {"voided_share": Fraction(1)}],
    ids=str,
)  # fmt: skip
def test_impossible_figures_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="impossible figures"):
        replace(FIGURES, **wrong)


# What V a task bears
RICH = {"solver_stake": 20_000, "auditor_stake": 9_000, "unserved_fee": 300}


def test_a_task_bears_what_its_rules_hold_for_and_no_more() -> None:
    """Each V that it bears passes its rule; a little more does not."""
    terms = make(**RICH)
    borne = compute_borne_gains(terms, FIGURES)
    assert 0 < borne.least == min(borne.false_claim, borne.lying_auditors, borne.refusal)
    for name, word, gain in (
        ("solver_stake", "1/p", borne.false_claim),
        ("auditor_stake", "V/2", borne.lying_auditors),
    ):
        held = [get_rules(terms, name, replace(FIGURES, gain=v), word)[0].holds for v in (gain - 2, gain + 6)]
        assert held == [True, False]


@pytest.mark.parametrize("stake", [4_000, 20_000])
def test_a_task_bears_what_a_single_false_claim_gains(stake: int) -> None:
    """64 segments and pay that barely covers the compute: V less and more than honest work earns."""
    terms, thin = make(64, **{**RICH, "solver_stake": stake}), replace(FIGURES, cost=95)
    gain = compute_borne_gains(terms, thin).false_claim
    held = [get_rules(terms, "solver_stake", replace(thin, gain=v), "1/p")[0].holds for v in (gain, gain + 2)]
    assert gain > 0 and held == [True, False]


def test_a_task_bears_refusal_as_far_as_fee_and_stake_go() -> None:
    terms = make(**RICH)
    gain = compute_borne_gains(terms, FIGURES).refusal
    for v, expected in ((gain, True), (gain + 2, False)):
        stated = replace(FIGURES, withholding_gain=v)
        fee = get_rules(terms, "unserved_fee", stated)[0]
        stake = get_rules(terms, "solver_stake", stated, "S covers all fees")[0]
        assert (fee.holds and stake.holds) == expected


def test_a_task_bears_drift_as_far_as_its_pay_goes() -> None:
    terms = make()
    gain = compute_borne_gains(terms, FIGURES).drift
    held = [
        get_rules(terms, "solver_pay", replace(FIGURES, drift_gain=v), "drift")[0].holds
        for v in (gain, gain + 2)
    ]
    assert gain > 0 and held == [True, False]
    assert compute_borne_gains(replace(terms, is_exact=True), FIGURES).drift == UNBOUNDED


def test_the_stated_gain_does_not_change_what_is_borne() -> None:
    terms = make(**RICH)
    assert compute_borne_gains(terms, FIGURES) == compute_borne_gains(terms, replace(FIGURES, gain=5))


def test_an_auditor_that_replays_nothing_loses_more_than_the_replays_it_saves() -> None:
    """By hand: C/n = 3; a third is the cheat's, so two thirds of 64 are unasked for 96 votes; two audits in
    each of D rounds. In exact tasks its own opening convicts it at once."""
    terms = make(late_chance=0)
    rounds = count_closing_rounds(terms, FIGURES)
    assert compute_least_idler_burn(terms, FIGURES) == 3 * (96 + 2 * rounds)
    exact = replace(terms, is_exact=True)
    assert compute_least_idler_burn(exact, FIGURES) == 3 * 2 * rounds
    rule = next(iter(get_rules(terms, "auditor_stake", word="C/n (")))
    assert compute_burned(rule.least, terms.amounts.finder_cap) >= 3 * (96 + 2 * rounds)
    assert compute_burned(rule.least - 2, terms.amounts.finder_cap) < 3 * (96 + 2 * rounds)
