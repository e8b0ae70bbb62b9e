"""Money and spans from a task's figures, and the inequalities that they must satisfy."""

from dataclasses import fields, replace
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from protocol.spec import economics
from protocol.spec.containers import Amounts, Windows
from protocol.spec.deterrence import Figures, Sampling
from protocol.spec.errors import InvalidInput
from protocol.spec.params import DEVNET, LATE_RATE_ONE, MAINNET, TOKEN_WEI, Preset
from protocol.spec.task_rules import find_malformations
from scripts.vectors.sample import sample_task

TERMS = sample_task().terms


def test_the_escrow_pays_everybody_in_the_dearest_run() -> None:
    a = TERMS.amounts
    dearest = 8 * (a.solver_pay + 2 * 3 * a.audit_pay + a.late_pay) + a.merge_pay
    assert economics.compute_round_escrow_wei(TERMS) == dearest
    assert economics.compute_escrow_wei(TERMS) == 3 * dearest
    assert economics.compute_escrow_wei(replace(TERMS, rounds=0)) == 0


def test_spans_add_up_every_window() -> None:
    powers = Windows(*[10**i for i in range(13)])
    # In order: enrol 1, delay 10, seal 100, train 1e3, start 1e4, replay 1e5, show 1e6, open 1e7, ...
    assert economics.compute_round_span_blocks(powers) == 142_211_401
    assert economics.compute_worst_span_blocks(powers) == 1_131_263_321_601


@pytest.mark.parametrize("preset", [MAINNET, DEVNET])
def test_a_round_ends_before_its_stake_is_free(preset: Preset) -> None:
    span = economics.compute_worst_span_blocks(preset.windows)
    assert economics.compute_round_span_blocks(preset.windows) < span < preset.unbonding_blocks


FIGURES = economics.assume_figures(DEVNET.amounts.solver_pay)
SAMPLING = Sampling(4, 10, 2, LATE_RATE_ONE // 2, 5, 5, 2)


@pytest.mark.parametrize("preset", [MAINNET, DEVNET])
def test_the_presets_hold_at_the_usual_figures(preset: Preset) -> None:
    figures = economics.assume_figures(preset.amounts.solver_pay)
    economics.refuse_paying_cheats(preset.amounts, SAMPLING, figures)
    # Every amount is spoken for, and so are draws and late audits.
    names = {one.name for one in economics.list_requirements(preset.amounts, SAMPLING, figures)}
    assert names == {field.name for field in fields(Amounts)} | {"segment_draws", "late_rate"}


MILLI = TOKEN_WEI // 1000
UNEVEN = replace(SAMPLING, verifiers=4)
"""Ten draws for four verifiers."""


def list_leasts(amounts: Amounts, sampling: Sampling, figures: Figures) -> dict[str, int]:
    """What each amount must be at least, by its name."""
    return {one.name: one.least for one in economics.list_requirements(amounts, sampling, figures)}


def test_every_least_is_what_its_inequality_gives() -> None:
    """By hand, in thousandths of a token: C 8,000, V 10,000, a million gas 100; a segment of ten steps costs
    2,000, a trace of one step as much again."""
    figures = Figures(8000 * MILLI, 10_000 * MILLI, TOKEN_WEI // 10**7)
    amounts = replace(
        DEVNET.amounts,
        solver_pay=10_000 * MILLI,
        finder_cap=6000 * MILLI,
        merge_pay=1000 * MILLI,
        audit_pay=500 * MILLI,
    )
    least = list_leasts(amounts, UNEVEN, figures)
    # 1.3 M gas of a solver and 0.15 M for each of two draws.
    assert least["solver_pay"] == (8000 + 160) * MILLI
    # 0.25 M gas for an audit; 0.9 M for enrolling, shared by the 2.5 audits of each of four verifiers, or by
    # the 1.25 of each of two whistleblowers.
    assert least["audit_pay"] == (2000 + 25 + 36) * MILLI
    assert least["late_pay"] == (2000 + 25 + 72) * MILLI
    assert least["merge_pay"] == 40 * MILLI
    # A quarter of the stake for the finder, at most its cap, the pay for the submitter: V burns.
    assert least["merge_bond"] == ceil(Fraction(4 * 11_000 * MILLI, 3))
    # Four challenges: 1.3 M gas, a replay, a trace. Two who void honest work want less, and so do the bribed.
    assert least["audit_stake"] == 4 * (130 + 2000 + 2000) * MILLI
    assert least["enrol_stake"] == 3 * amounts.no_show_fee
    # Two of four decide a draw two times in three, both draws m = 4/9; 7/6 of each draw's auditors reveal and
    # are paid: (m (B + V) + e) / (1 - m), e = 7/3 of 500.
    assert least["no_show_fee"] == (80_000 + 10_500) * MILLI // 5 + 1
    assert least["dispute_bond"] == 2 * (50 + 2000 + 2000) * MILLI
    assert least["demand_fee"] == 20 * MILLI
    assert least["finder_cap"] == 3 * (2000 + 25) * MILLI


def test_an_auditor_s_stake_burns_what_spite_and_bribes_are_worth() -> None:
    """Each of two who void honest work risks half of what that is worth to them, and its replay; who is
    bribed to hand in a root saves a replay, seen with half a late audit by half of the auditors."""
    amounts = replace(DEVNET.amounts, audit_pay=500 * MILLI, finder_cap=10**6 * MILLI)
    spiteful = Figures(8000 * MILLI, 40_000 * MILLI, TOKEN_WEI // 10**7)
    bribed = Figures(80_000 * MILLI, 0, 0, detection=Fraction(1, 4))
    for figures, burned in ((spiteful, 20_000 + 2000), (bribed, 16 * 20_000 - 500)):
        least = list_leasts(amounts, UNEVEN, figures)["audit_stake"]
        assert least == ceil(Fraction(4 * (burned + 500) * MILLI, 3))


def test_where_no_number_of_draws_is_enough_one_more_than_there_can_be_is_asked_for() -> None:
    figures = replace(FIGURES, gain_wei=10**6 * TOKEN_WEI)
    assert economics.compute_least_draws(DEVNET.amounts, SAMPLING, figures) == 3


def test_one_draw_is_enough_where_stakes_are_large() -> None:
    rich = replace(DEVNET.amounts, solver_stake=10**6 * TOKEN_WEI, no_show_fee=10**6 * TOKEN_WEI)
    assert economics.compute_least_draws(rich, SAMPLING, FIGURES) == 1


@pytest.mark.parametrize("name", [field.name for field in fields(Amounts)])
def test_an_amount_is_enough_at_its_least_and_refused_by_name_below(name: str) -> None:
    least = list_leasts(DEVNET.amounts, SAMPLING, FIGURES)[name]
    low = replace(DEVNET.amounts, **{name: least - 1})
    with pytest.raises(InvalidInput, match=name):
        economics.refuse_paying_cheats(low, SAMPLING, FIGURES)
    enough = replace(DEVNET.amounts, **{name: least})
    asked = {one.name: one for one in economics.list_requirements(enough, SAMPLING, FIGURES)}
    assert asked[name].holds and asked["segment_draws"].holds


@pytest.mark.parametrize(
    ("figures", "name"),
    [
        (replace(FIGURES, cost_wei=11 * TOKEN_WEI), "solver_pay"),
        (replace(FIGURES, gain_wei=60 * TOKEN_WEI), "solver_stake"),
        (replace(FIGURES, gain_wei=100 * TOKEN_WEI), "merge_bond"),
        (replace(FIGURES, owned=Fraction(3, 5)), "no_show_fee"),
        (replace(FIGURES, choices=2), "no_show_fee"),
        (replace(FIGURES, gas_price_wei=TOKEN_WEI // 10**5), "demand_fee"),
    ],
)
def test_other_figures_ask_for_other_amounts(figures: Figures, name: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        economics.refuse_paying_cheats(DEVNET.amounts, SAMPLING, figures)


def test_sparse_sampling_is_refused_by_name() -> None:
    for name, sampling in (
        ("segment_draws", replace(SAMPLING, draws=1)),
        ("late_rate", replace(SAMPLING, late_rate=1000)),
        ("late_rate", replace(SAMPLING, whistleblowers=0)),
    ):
        with pytest.raises(InvalidInput, match=name):
            economics.refuse_paying_cheats(DEVNET.amounts, sampling, FIGURES)


@given(
    st.integers(1, 1000),
    st.fractions(0, 1),
    st.fractions(0, 3),
    st.sampled_from([0, 10**9, 10**11]),
    st.integers(2, 9),
)
@settings(max_examples=30, phases=[Phase.generate])
def test_derived_amounts_hold_and_make_a_task(
    reward: int, cost: Fraction, gain: Fraction, gas_price_wei: int, verifiers: int
) -> None:
    reward_wei = reward * TOKEN_WEI
    figures = Figures(int(cost * reward_wei) // 2, int(gain * reward_wei), gas_price_wei)
    sampling = replace(SAMPLING, verifiers=verifiers + 1)
    amounts = economics.derive_amounts(reward_wei, sampling, figures)
    assert amounts.solver_pay == reward_wei
    spec = sample_task()
    terms = replace(spec.terms, amounts=amounts, max_verifiers=sampling.verifiers)
    broken = {one.name for one in find_malformations(replace(spec, terms=terms))}
    assert not broken & {"unpaid_work", "free_moves", "no_show_fee_too_low", "no_show_fee_above_stake"}
    assert not broken & {"finder_cap", "demand_fee", "unpaid_late_audits"}


def test_a_reward_below_the_cost_is_refused() -> None:
    with pytest.raises(InvalidInput, match="solver_pay"):
        economics.derive_amounts(TOKEN_WEI, SAMPLING, replace(FIGURES, cost_wei=TOKEN_WEI))


def test_a_second_look_is_worth_a_replay_and_a_challenge() -> None:
    # A replay to find it, one to name the step, a trace of ten steps; 1.3 million gas.
    least = 2 * FIGURES.cost_wei // 4 + FIGURES.cost_wei * 10 // 40 + 13 * TOKEN_WEI // 100
    for more, is_worth in ((-1, False), (0, True)):
        amounts = replace(DEVNET.amounts, finder_cap=least + more)
        assert economics.is_second_look_worth(amounts, SAMPLING, FIGURES) is is_worth
        # The cap is not all: nobody gets more than a quarter of the stake.
        amounts = replace(DEVNET.amounts, audit_stake=4 * (least + more))
        assert economics.is_second_look_worth(amounts, SAMPLING, FIGURES) is is_worth


def test_a_bond_is_worth_twice_the_finder_s_share() -> None:
    amounts = replace(DEVNET.amounts, dispute_bond=10, finder_cap=10, audit_stake=1000)
    assert [economics.is_bond_worth(amounts, queued) for queued in range(3)] == [True, True, False]
    amounts = replace(amounts, finder_cap=19)
    assert [economics.is_bond_worth(amounts, queued) for queued in range(3)] == [True, True, False]


def test_no_bond_is_larger_than_the_stake_that_a_conviction_takes() -> None:
    amounts = replace(DEVNET.amounts, dispute_bond=10, solver_stake=160)
    assert [economics.is_conviction_worth(amounts, queued) for queued in (0, 4, 5)] == [True, True, False]
    amounts = replace(amounts, solver_stake=159)
    assert [economics.is_conviction_worth(amounts, queued) for queued in (0, 3, 4)] == [True, True, False]
    # Whoever keeps others out by disputes on itself puts up nearly the stake, and half of it is burned.
    for stake in range(10, 400):
        amounts = replace(amounts, solver_stake=stake)
        queued = next(one for one in range(32) if not economics.is_conviction_worth(amounts, one))
        assert sum(10 << one for one in range(queued)) > stake - 10
