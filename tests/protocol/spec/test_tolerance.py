"""Limits: the integer rules against the inequalities in exact rationals, and what can never be accepted."""

from dataclasses import astuple
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.spec import float32, tolerance
from protocol.spec.containers import Limits
from protocol.spec.errors import InvalidInput
from protocol.spec.tolerance import Element, StateLeaf

WIDEST = Limits(2**64 - 1, 2**160 - 1, 2**64 - 1, 2**160 - 1, 2**64 - 1, 2**64 - 1)
NONE = Limits(0, 0, 0, 0, 0, 0)
ULP = 1 << 41
"""tau_r of one unit in the last place of a power of two: 2^-23 of it."""
LARGEST = float32.float_to_bits(2.0**64) - 1
SOUND = st.integers(0, LARGEST).flatmap(lambda b: st.sampled_from([b, b | 1 << 31]))
NOT_NEGATIVE = st.integers(0, LARGEST)
ELEMENTS = st.builds(Element, SOUND, SOUND, NOT_NEGATIVE)
TAU, UNIT = st.integers(0, 2**64 - 1), st.integers(0, 2**160 - 1)
LIMITS = st.builds(Limits, TAU, UNIT, TAU, UNIT, TAU, TAU)


def bits(value: float) -> int:
    return float32.float_to_bits(float32.nearest(value))


@given(st.integers(0, 2**213 - 1))
def test_the_root_is_rounded_up(units: int) -> None:
    root = tolerance.compute_root_up(units)
    assert root**2 >= units << 43
    assert root == 0 or (root - 1) ** 2 < units << 43
    assert root <= 1 << 128


@given(ELEMENTS, ELEMENTS, st.integers(0, 2**128 - 1), LIMITS)
def test_integers_equal_the_exact_inequalities(a: Element, b: Element, rate: int, limits: Limits) -> None:
    (w, m, v), (w1, m1, v1) = ([float32.to_fraction(x) for x in element] for element in (a, b))
    taus = (limits.tau_m, limits.tau_v, limits.tau_w, limits.tau_r)
    tau_m, tau_v, tau_w, tau_r = (Fraction(tau, 2**64) for tau in taus)
    eps_m, floor_v = (unit * float32.UNIT for unit in (limits.eps_m, limits.floor_v))
    root = Fraction(tolerance.compute_root_up(float32.to_units(b.second_moment)), 2**96)
    within = (
        abs(m - m1) <= tau_m * (root + eps_m)
        and abs(v - v1) <= tau_v * v1 + floor_v
        and abs(w - w1) <= tau_w * Fraction(rate, 2**64) + tau_r * abs(w1)
    )
    assert tolerance.is_within(a, b, rate, limits) == within


@given(ELEMENTS, st.integers(0, 2**256 - 1), LIMITS)
def test_nothing_exceeds_a_word(element: Element, rate: int, limits: Limits) -> None:
    """What Solidity computes along the way, at the widest values."""
    v = float32.to_units(element.second_moment)
    rate = min(rate, 2**128 - 1)
    root = tolerance.compute_root_up(v)
    high, low = v >> 64, v & (2**64 - 1)
    for tau in (limits.tau_m, 2**64 - 1):
        steps = [v << 43, tau * ((root << 53) + 2**160), tau * high, tau * low, (tau * rate << 21) + 2**213]
        assert max(steps) < 2**256


@given(ELEMENTS, LIMITS)
def test_equal_elements_are_within_any_limits(element: Element, limits: Limits) -> None:
    assert not tolerance.is_element_beyond(element, element, 0, limits)


@given(ELEMENTS, ELEMENTS, LIMITS)
def test_what_is_within_is_within_wider_limits(a: Element, b: Element, limits: Limits) -> None:
    wider = Limits(*[min(2 * x + 1, most) for x, most in zip(astuple(limits), astuple(WIDEST), strict=True)])
    assert not tolerance.is_within(a, b, 2**60, limits) or tolerance.is_within(a, b, 2**60, wider)


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize(
    "pattern", [0x7F800000, 0xFF800000, 0x7FC00000, LARGEST + 1, (LARGEST + 1) | 1 << 31]
)
def test_what_cannot_be_judged_is_beyond(position: int, pattern: int) -> None:
    sound = Element(bits(0.5), bits(0.5), bits(0.5))
    spoiled = Element(*[pattern if i == position else x for i, x in enumerate(sound)])
    for pair in ((spoiled, sound), (sound, spoiled), (spoiled, spoiled)):
        assert tolerance.is_element_beyond(*pair, 2**64, WIDEST)


def test_a_negative_second_moment_is_beyond_but_not_negative_zero() -> None:
    zero, minus_zero, minus = Element(0, 0, 0), Element(0, 0, 1 << 31), Element(0, 0, 1 | 1 << 31)
    assert not tolerance.is_element_beyond(minus_zero, zero, 0, NONE)
    assert tolerance.is_element_beyond(minus, zero, 0, WIDEST)
    assert tolerance.is_element_beyond(zero, minus, 0, WIDEST)


def test_at_the_limit_is_within_and_a_unit_further_beyond() -> None:
    claimed, replayed = Element(bits(1.0) + 1, 0, 0), Element(bits(1.0), 0, 0)
    exact, short = Limits(0, 0, 0, 0, 0, ULP), Limits(0, 0, 0, 0, 0, ULP - 1)
    assert not tolerance.is_element_beyond(claimed, replayed, 0, exact)
    assert tolerance.is_element_beyond(claimed, replayed, 0, short)


def test_the_learning_rate_sum_is_capped() -> None:
    limits = Limits(0, 0, 0, 0, 2**64 - 1, 0)
    zero = Element(0, 0, 0)
    capped, most = (tolerance.compute_allowances(zero, 2**bits - 1, limits) for bits in (256, 128))
    assert capped == most


def test_a_leaf_is_as_bad_as_its_worst_element() -> None:
    honest = StateLeaf(*[float32.pack_bits([bits(0.5)] * 256)] * 3)
    spoiled = honest._replace(weights=honest.weights[:-4] + float32.pack_bits([bits(0.5) + 1]))
    assert not tolerance.is_leaf_beyond(honest, honest, 0, NONE)
    assert not tolerance.is_leaf_beyond(spoiled, honest, 0, Limits(0, 0, 0, 0, 0, ULP))
    assert tolerance.is_leaf_beyond(spoiled, honest, 0, NONE)
    with pytest.raises(InvalidInput, match="differ in size"):
        tolerance.is_leaf_beyond(honest._replace(weights=b""), honest, 0, NONE)
