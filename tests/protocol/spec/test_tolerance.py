"""Limits: the integer rules against the inequalities in exact rationals; every finite element is judged."""

from dataclasses import astuple
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchstone.protocol.spec import float32, tolerance
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.task_spec import Limits
from touchstone.protocol.spec.tolerance import Element, StateLeaf

WIDEST = Limits(2**64 - 1, 2**160 - 1, 2**64 - 1, 2**160 - 1, 2**64 - 1, 2**64 - 1)
NONE = Limits(0, 0, 0, 0, 0, 0)
ULP = 1 << 41
"""tau_r of one unit in the last place of a power of two: 2^-23 of it."""
EDGE = float32.float_to_bits(2.0**64)
MOST, MINUS = 0x7F7FFFFF, 1 << 31
FINITE = st.one_of(st.integers(0, MOST), st.integers(EDGE - 9, EDGE + 9)).flatmap(
    lambda b: st.sampled_from([b, b | MINUS])
)
ELEMENTS = st.builds(Element, FINITE, FINITE, FINITE)
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


@given(FINITE)
def test_a_root_of_any_size_is_the_exact_one_rounded_up(second: int) -> None:
    units = abs(float32.to_units(second))
    root, quantum = tolerance.compute_root_up(units), 1 if units < 2**213 else 2**32
    assert root % quantum == 0 and root**2 >= units << 43
    assert root == 0 or (root - quantum) ** 2 < units << 43
    assert root < 1 << 160


@st.composite
def nearby(draw: st.DrawFn) -> tuple[Element, Element]:
    """Two elements some ulps apart, of any size and sign."""
    replayed = draw(ELEMENTS)
    claimed = (max(0, min(MOST, (b & ~MINUS) + draw(st.integers(-99, 99)))) | b & MINUS for b in replayed)
    return Element(*claimed), replayed


PAIRS = st.one_of(st.tuples(ELEMENTS, ELEMENTS), nearby())


def is_within_exactly(a: Element, b: Element, rate: int, limits: Limits, cut: Fraction | None) -> bool:
    """The inequalities in rationals; W and v and their distances cut off where `cut` says so."""
    (w, m, v), (w1, m1, v1) = ([float32.to_fraction(x) for x in element] for element in (a, b))
    root = Fraction(tolerance.compute_root_up(abs(float32.to_units(b.second_moment))), 2**96)
    if cut is not None:
        w, m, v, w1, m1, v1 = (max(-cut, min(cut, x)) for x in (w, m, v, w1, m1, v1))
    taus = (limits.tau_m, limits.tau_v, limits.tau_w, limits.tau_r)
    tau_m, tau_v, tau_w, tau_r = (Fraction(tau, 2**64) for tau in taus)
    eps_m, floor_v = (unit * float32.UNIT for unit in (limits.eps_m, limits.floor_v))
    return (
        abs(m - m1) <= tau_m * (root + eps_m)
        and abs(v - v1) <= tau_v * abs(v1) + floor_v
        and abs(w - w1) <= tau_w * Fraction(rate, 2**64) + tau_r * abs(w1)
    )


@given(PAIRS, st.integers(0, 2**128 - 1), LIMITS)
def test_integers_equal_the_exact_inequalities(
    pair: tuple[Element, Element], rate: int, limits: Limits
) -> None:
    within = is_within_exactly(*pair, rate, limits, Fraction(2**64))
    assert tolerance.is_within(*pair, rate, limits) == within


@given(PAIRS, st.integers(0, 2**128 - 1), LIMITS)
def test_what_is_cut_off_is_no_worse_for_who_is_honest(
    pair: tuple[Element, Element], rate: int, limits: Limits
) -> None:
    """Whoever keeps the limits in numbers of any size keeps them here."""
    assert not is_within_exactly(*pair, rate, limits, None) or tolerance.is_within(*pair, rate, limits)


@pytest.mark.parametrize("ulps, exceeds_limits", [(1, False), (64, False), (1 << 14, True)])
def test_a_moment_is_judged_beside_a_v_that_is_cut_off(ulps: int, exceeds_limits: bool) -> None:
    """Gradients of 2^40: m is of that size and v its square. An Adam of such gradients works as any other."""
    first, second = bits(2.0**40), bits(2.0**80)
    limits = Limits(2**48, 0, 2**48, 0, 2**48, 2**48)
    pair = Element(0, first + ulps, second), Element(0, first, second)
    assert tolerance.does_element_exceed(*pair, 2**60, limits) == exceeds_limits


@given(ELEMENTS, st.integers(0, 2**256 - 1), LIMITS)
def test_nothing_exceeds_a_word(element: Element, rate: int, limits: Limits) -> None:
    """What Solidity computes along the way, at the widest values."""
    second = element.second_moment & ~MINUS
    v, whole = tolerance.to_cut_units(second), float32.to_units(second)
    rate = min(rate, 2**128 - 1)
    under = whole >> 64 if whole >= 2**213 else whole
    root = (tolerance.compute_root_up(whole) << 53) + 2**160
    for tau in (limits.tau_m, 2**64 - 1):
        parts = [tau * (units >> 64) + tau * (units & (2**64 - 1)) for units in (v, root)]
        assert max(under << 43, *parts, (tau * rate << 21) + parts[0], 2 * v) < 2**256


@given(ELEMENTS, LIMITS)
def test_equal_elements_are_within_any_limits(element: Element, limits: Limits) -> None:
    assert not tolerance.does_element_exceed(element, element, 0, limits)


@given(ELEMENTS, ELEMENTS, LIMITS)
def test_what_is_within_is_within_wider_limits(a: Element, b: Element, limits: Limits) -> None:
    wider = Limits(*[min(2 * x + 1, most) for x, most in zip(astuple(limits), astuple(WIDEST), strict=True)])
    assert not tolerance.is_within(a, b, 2**60, limits) or tolerance.is_within(a, b, 2**60, wider)


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("pattern", [0x7F800000, 0xFF800000, 0x7FC00000])
def test_what_is_not_finite_is_beyond(position: int, pattern: int) -> None:
    sound = Element(bits(0.5), bits(0.5), bits(0.5))
    spoiled = Element(*[pattern if i == position else x for i, x in enumerate(sound)])
    for pair in ((spoiled, sound), (sound, spoiled), (spoiled, spoiled)):
        assert tolerance.does_element_exceed(*pair, 2**64, WIDEST)


def test_a_v_that_is_negative_alone_is_beyond_but_not_negative_zero() -> None:
    """Its root is no number: a weight would be lost by a v within the floor."""
    zero, minus_zero, minus = Element(0, 0, 0), Element(0, 0, MINUS), Element(0, 0, 1 | MINUS)
    assert not tolerance.does_element_exceed(minus_zero, zero, 0, NONE)
    for other in (zero, minus_zero, Element(0, 0, bits(1.0))):
        assert tolerance.does_element_exceed(minus, other, 0, WIDEST)


@pytest.mark.parametrize("value", [1e-30, 1e-6, 0.5, 3.4e38])
def test_a_v_that_is_negative_on_both_sides_is_judged_as_a_positive_one(value: float) -> None:
    """A researcher's own optimizer may keep a signed vector in its place."""
    limits = Limits(2**48, 0, 2**48, 0, 0, 0)
    for far, exceeds_limits in ((0, False), (9, False), (1 << 14, True)):
        pair = [Element(0, bits(value**0.5 / 1e6), bits(value) + MINUS - n) for n in (far, 0)]
        assert tolerance.does_element_exceed(pair[0], pair[1], 0, limits) == (
            exceeds_limits and value < 2.0**64
        )
    wrong = Element(0, 0, bits(value))
    assert tolerance.does_element_exceed(wrong, Element(0, 0, bits(value) | MINUS), 0, limits)


@pytest.mark.parametrize("pattern", [EDGE, EDGE | MINUS, MOST, MOST | MINUS])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_numbers_of_any_size_are_judged(position: int, pattern: int) -> None:
    small = Element(bits(0.5), bits(0.5), bits(0.5))
    large = small._replace(**{Element._fields[position]: pattern})
    assert not tolerance.does_element_exceed(large, large, 0, NONE)
    limits = Limits(2**54, 0, 2**54, 0, 2**54, 2**54)
    assert tolerance.does_element_exceed(large, small, 2**60, limits)
    assert tolerance.does_element_exceed(small, large, 2**60, limits)
    opposite = small._replace(**{Element._fields[position]: pattern ^ MINUS})
    assert tolerance.does_element_exceed(large, opposite, 2**60, limits)


def test_at_the_limit_is_within_and_a_unit_further_beyond() -> None:
    claimed, replayed = Element(bits(1.0) + 1, 0, 0), Element(bits(1.0), 0, 0)
    exact, short = Limits(0, 0, 0, 0, 0, ULP), Limits(0, 0, 0, 0, 0, ULP - 1)
    assert not tolerance.does_element_exceed(claimed, replayed, 0, exact)
    assert tolerance.does_element_exceed(claimed, replayed, 0, short)


def test_the_learning_rate_sum_is_capped() -> None:
    limits = Limits(0, 0, 0, 0, 2**64 - 1, 0)
    zero = Element(0, 0, 0)
    capped, most = (tolerance.compute_allowances(zero, 2**bits - 1, limits) for bits in (256, 128))
    assert capped == most


def test_a_leaf_is_as_bad_as_its_worst_element() -> None:
    honest = StateLeaf(*[float32.pack_bits([bits(0.5)] * 256)] * 3)
    spoiled = honest._replace(weights=honest.weights[:-4] + float32.pack_bits([bits(0.5) + 1]))
    assert not tolerance.does_leaf_exceed(honest, honest, 0, NONE)
    assert not tolerance.does_leaf_exceed(spoiled, honest, 0, Limits(0, 0, 0, 0, 0, ULP))
    assert tolerance.does_leaf_exceed(spoiled, honest, 0, NONE)
    with pytest.raises(InvalidInput, match="differ in size"):
        tolerance.does_leaf_exceed(honest._replace(weights=b""), honest, 0, NONE)
