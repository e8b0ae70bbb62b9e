"""Money and spans from a task's figures, and the inequalities that they must satisfy."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.spec import economics
from protocol.spec.containers import Windows
from protocol.spec.errors import InvalidInput
from protocol.spec.params import DEVNET, MAINNET, Preset
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


@given(st.fractions(0, Fraction(99, 100)), st.integers(1, 10), st.integers(0, 10**24))
def test_the_no_show_fee_deters_and_is_the_least(share: Fraction, draws: int, reward: int) -> None:
    fee, owned = economics.compute_least_no_show_fee_wei(share, draws, reward), share**draws
    assert owned * reward - (1 - owned) * fee < 0
    assert fee == 1 or owned * reward - (1 - owned) * (fee - 1) >= 0


def test_the_deterring_stake_makes_cheating_lose() -> None:
    stake = economics.compute_deterring_stake_wei(
        cheated_share=Fraction(1),
        cost_wei=8,
        gain_wei=5,
        reward_wei=10,
        conviction=Fraction(1, 4),
        burned_share=Fraction(1, 2),
    )
    assert stake == 74  # ((8 + 5) * 4 - 15) / (1/2)
    assert (
        economics.compute_deterring_stake_wei(
            cheated_share=Fraction(0),
            cost_wei=8,
            gain_wei=0,
            reward_wei=10,
            conviction=Fraction(1),
            burned_share=Fraction(1),
        )
        == 0
    )


def test_what_nothing_deters_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no fee"):
        economics.compute_least_no_show_fee_wei(Fraction(1), 2, 10)
    with pytest.raises(InvalidInput, match="no stake"):
        economics.compute_deterring_stake_wei(
            cheated_share=Fraction(1),
            cost_wei=1,
            gain_wei=1,
            reward_wei=1,
            conviction=Fraction(0),
            burned_share=Fraction(1),
        )
