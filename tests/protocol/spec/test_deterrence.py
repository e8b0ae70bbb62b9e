"""Stakes and fees from the inequalities: at the least amount a cheat loses, and one wei below it gains."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from protocol.spec import deterrence, odds
from protocol.spec.deterrence import Figures, Sampling
from protocol.spec.errors import InvalidInput
from protocol.spec.params import DEVNET, LATE_RATE_ONE, TOKEN_WEI

FIGURES = Figures(3 * TOKEN_WEI, 10 * TOKEN_WEI, 10**11)
SAMPLING = Sampling(4, 10, 2, LATE_RATE_ONE // 2, 5, 5, 2)


@given(st.fractions(0, Fraction(1, 2)), st.integers(1, 10), st.integers(0, 10**24), st.integers(3, 40))
def test_the_no_show_fee_deters_and_is_the_least(
    share: Fraction, draws: int, reward: int, verifiers: int
) -> None:
    fee = deterrence.compute_least_no_show_fee_wei(share, draws, reward, verifiers)
    owned = odds.compute_owned_majority(share, verifiers) ** draws
    assert owned * reward - (1 - owned) * fee < 0
    assert fee == 1 or owned * reward - (1 - owned) * (fee - 1) >= 0


def test_the_deterring_stake_makes_cheating_lose() -> None:
    figures = {"cheated_share": Fraction(1), "cost_wei": 8, "gain_wei": 5, "reward_wei": 10}
    chances = {"conviction": Fraction(1, 4), "burned_share": Fraction(1, 2)}
    stake = deterrence.compute_deterring_stake_wei
    assert stake(**figures, **chances) == 74  # type: ignore[arg-type]  # ((8 + 5) * 4 - 15) / (1/2)
    # Found after the merge, it keeps its gain: ((8 + 5) * 4 - 10) / (1/2).
    assert stake(**figures, **chances, voided=Fraction(0)) == 84  # type: ignore[arg-type]
    assert stake(**{**figures, "gain_wei": 0}, conviction=Fraction(1), burned_share=Fraction(1)) == 0  # type: ignore[arg-type]


def test_what_nothing_deters_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no fee"):
        deterrence.compute_least_no_show_fee_wei(Fraction(1), 2, 10)
    with pytest.raises(InvalidInput, match="no fee"):
        deterrence.compute_least_no_show_fee_wei(Fraction(99, 100), 2, 10, verifiers=3)
    for conviction, burned_share in ((0, 1), (2, 1), (1, 0), (1, 2)):
        with pytest.raises(InvalidInput, match="no stake"):
            deterrence.compute_deterring_stake_wei(
                cheated_share=Fraction(1), cost_wei=1, gain_wei=1, reward_wei=1,
                conviction=Fraction(conviction), burned_share=Fraction(burned_share),
            )  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"cost_wei": -1}, {"gain_wei": -1}, {"gas_price_wei": -1}, {"choices": 0}, {"owned": Fraction(1)},
        {"owned": Fraction(-1)}, {"detection": Fraction(0)}, {"detection": Fraction(2)},
    ],
)  # fmt: skip
def test_impossible_figures_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="impossible figures"):
        replace(FIGURES, **change)


def test_without_whistleblowers_the_first_audit_is_the_only_one() -> None:
    first, ever = deterrence.compute_capture(replace(SAMPLING, whistleblowers=0), FIGURES, 1)
    assert replace(SAMPLING, whistleblowers=0).late_share == 0
    assert first == ever < deterrence.compute_capture(SAMPLING, FIGURES, 1)[1]


@given(st.integers(0, 10**22), st.integers(0, 10**21), st.integers(0, 10**21))
def test_a_stake_burns_what_it_must_and_is_the_least(burned: int, finder: int, submitter: int) -> None:
    stake = deterrence.compute_stake_burning_wei(burned, finder, submitter)
    assert deterrence.compute_burned_wei(stake, finder, submitter) >= burned
    # Quarters are rounded down: a few wei of slack.
    assert stake < 4 or deterrence.compute_burned_wei(stake - 4, finder, submitter) < burned


@given(
    st.integers(3, 8),
    st.integers(1, 2),
    st.fractions(0, 1),
    st.fractions(0, Fraction(9, 10)),
    st.integers(1, 3),
)
def test_no_choice_of_segments_pays_under_the_burden(
    segments: int, draws: int, late: Fraction, owned: Fraction, choices: int
) -> None:
    """Every set of segments by itself, and every way of being found."""
    late_rate = int(late * LATE_RATE_ONE)
    # The middle one of three segments is in no draw of two.
    assume(segments >= 2 * draws or late_rate)
    sampling = Sampling(segments, 2, draws, late_rate, 5, 5, 2)
    figures = replace(FIGURES, owned=owned, choices=choices)
    reward = DEVNET.amounts.solver_pay
    burned = deterrence.compute_burden_wei(sampling, figures, reward)
    for count in range(1, segments + 1):
        for spoiled in combinations(range(segments), count):
            first, ever = (
                odds.compute_detection_probability(segments, draws, spoiled, rate, figures.seen) ** choices
                for rate in (0, late_rate)
            )
            earned = (1 - ever) * reward + (1 - first) * figures.gain_wei - ever * burned
            kept = figures.cost_wei * Fraction(segments - count, segments)
            assert earned - kept <= reward - figures.cost_wei


def test_the_bearable_gain_is_where_it_turns() -> None:
    burned = 180 * TOKEN_WEI
    gain = deterrence.compute_bearable_gain_wei(SAMPLING, FIGURES, DEVNET.amounts.solver_pay, burned)
    least = deterrence.compute_burden_wei(
        SAMPLING, replace(FIGURES, gain_wei=gain), DEVNET.amounts.solver_pay
    )
    assert (
        least
        <= burned
        < deterrence.compute_burden_wei(
            SAMPLING, replace(FIGURES, gain_wei=gain + 10), DEVNET.amounts.solver_pay
        )
    )


def test_who_computes_nothing_saves_the_whole_round() -> None:
    """With all auditors honest it is found for certain; C - B must burn, more than for a part of the work."""
    figures = Figures(100 * TOKEN_WEI, 0, 0, owned=Fraction(0))
    assert deterrence.compute_burden_wei(SAMPLING, figures, 10 * TOKEN_WEI) == 90 * TOKEN_WEI


def test_no_gain_is_bearable_where_nothing_is_at_stake() -> None:
    assert deterrence.compute_bearable_gain_wei(SAMPLING, FIGURES, 0, 0) == 0


def test_choices_among_draws_are_a_margin() -> None:
    once, twice = (deterrence.compute_capture(SAMPLING, replace(FIGURES, choices=g), 1) for g in (1, 2))
    assert twice == (once[0] ** 2, once[1] ** 2)
    owned = [deterrence.compute_owned_round(SAMPLING, replace(FIGURES, choices=g)) for g in (1, 2)]
    assert 1 - owned[1] == (1 - owned[0]) ** 2


def test_many_segments_are_bounded_at_once() -> None:
    wide = replace(SAMPLING, segments=1000, draws=20)
    # One of 1,000: found with one in fifty, half of the time by an accomplice.
    assert deterrence.compute_capture(wide, FIGURES, 1)[0] == pytest.approx(Fraction(1, 100), rel=0.03)
    assert deterrence.compute_burden_wei(wide, FIGURES, DEVNET.amounts.solver_pay) > 900 * TOKEN_WEI


def test_a_bribed_verifier_is_looked_at_often_enough() -> None:
    share = deterrence.compute_least_late_share(SAMPLING, FIGURES, DEVNET.amounts)
    burned = deterrence.compute_burned_wei(
        DEVNET.amounts.audit_stake, DEVNET.amounts.finder_cap, DEVNET.amounts.audit_pay
    )
    assert share * Fraction(1, 2) * (DEVNET.amounts.audit_pay + burned) == Fraction(3 * TOKEN_WEI, 4)
