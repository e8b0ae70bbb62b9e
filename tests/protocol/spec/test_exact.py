"""The bits of the format `exact`, one element at a time."""

import random
import struct
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from tests.protocol.spec.patterns import EDGES, INFINITY
from touchstone.protocol.spec import exact, exact_elementwise, exact_series, exact_sums
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.float32 import (
    SIGN_BIT,
    UNIT,
    float_to_bits,
    is_finite,
    round_to_bits,
    spacing,
    to_fraction,
    to_units,
)
from touchstone.protocol.spec.program_operations import QUANTIZED_LIMITS, Operation

ONE, MINUS_ZERO, LARGEST = 0x3F800000, SIGN_BIT, INFINITY - 1


def draw_patterns(count: int) -> Iterator[int]:
    chance = random.Random(7)
    for _ in range(count):
        yield chance.choice(
            [
                chance.getrandbits(32),
                chance.choice([*EDGES, INFINITY, INFINITY + 1]) | chance.choice([0, SIGN_BIT]),
            ]
        )


def to_float(bits: int) -> np.float32:
    return np.float32(np.frombuffer(struct.pack("<I", bits), np.float32)[0])


def from_float(value: np.float32) -> int:
    return exact_elementwise.canonicalize(int(np.float32(value).view(np.uint32)))


def bits_of(value: float) -> int:
    return round_to_bits(Fraction(value))


# Elementwise
@pytest.mark.parametrize(
    ("operation", "function"),
    [
        (Operation.ADD, np.add),
        (Operation.SUBTRACT, np.subtract),
        (Operation.MULTIPLY, np.multiply),
        (Operation.DIVIDE, np.divide),
    ],
)
def test_arithmetic_is_that_of_the_processor_for_any_two_patterns(
    operation: Operation, function: np.ufunc
) -> None:
    for a, b in zip(draw_patterns(3000), reversed(list(draw_patterns(3000))), strict=True):
        with np.errstate(all="ignore"):
            expected = from_float(function(to_float(a), to_float(b)))
        assert exact.compute_element(operation, [(a, b)]) == expected, (hex(a), hex(b))


def test_roots_are_those_of_the_processor_for_any_pattern() -> None:
    for a in draw_patterns(3000):
        with np.errstate(all="ignore"):
            root = np.sqrt(to_float(a))
            inverse = np.float32(1) / root
        assert exact.compute_element(Operation.SQUARE_ROOT, [(a,)]) == from_float(root)
        assert exact.compute_element(Operation.RECIPROCAL_ROOT, [(a,)]) == from_float(inverse)


@pytest.mark.parametrize(
    ("values", "largest", "smallest"),
    [
        ((ONE, MINUS_ZERO), ONE, 0),
        ((MINUS_ZERO, 0), 0, 0),
        ((MINUS_ZERO, MINUS_ZERO), 0, 0),
        ((INFINITY, LARGEST), INFINITY, LARGEST),
        ((SIGN_BIT | 1, SIGN_BIT | INFINITY), SIGN_BIT | 1, SIGN_BIT | INFINITY),
        ((ONE, INFINITY + 1), exact_elementwise.NAN, exact_elementwise.NAN),
        ((SIGN_BIT | exact_elementwise.NAN, ONE), exact_elementwise.NAN, exact_elementwise.NAN),
    ],
)
def test_the_largest_and_the_smallest(values: tuple[int, int], largest: int, smallest: int) -> None:
    assert exact.compute_element(Operation.MAXIMUM, [values]) == largest
    assert exact.compute_element(Operation.MAXIMUM_OF, [(one,) for one in values]) == largest
    assert exact.compute_element(Operation.MINIMUM, [values]) == smallest


@pytest.mark.parametrize(
    ("a", "threshold", "flushed"),
    [(ONE, ONE, ONE), (ONE - 1, ONE, 0), (SIGN_BIT | ONE, ONE, SIGN_BIT | ONE), (MINUS_ZERO, 1, 0),
     (INFINITY + 5, ONE, exact_elementwise.NAN), (1, exact_elementwise.NAN, 1)],
)  # fmt: skip
def test_flush_drops_what_is_below_the_threshold(a: int, threshold: int, flushed: int) -> None:
    assert exact.compute_element(Operation.FLUSH, [(a, threshold)]) == flushed


def test_choices_hand_on_the_pattern_of_what_they_choose() -> None:
    assert exact.compute_element(Operation.COPY, [(MINUS_ZERO,)]) == MINUS_ZERO
    assert exact.compute_element(Operation.COPY, [(INFINITY + 9,)]) == exact_elementwise.NAN
    assert exact.compute_element(Operation.FINITE_SELECT, [(INFINITY, ONE, 2)]) == 2
    assert exact.compute_element(Operation.FINITE_SELECT, [(LARGEST, ONE, 2)]) == ONE


# Functions
@pytest.mark.parametrize(
    ("operation", "of_infinity", "of_minus_infinity", "of_zero"),
    [
        (Operation.EXPONENTIAL, INFINITY, 0, ONE),
        (Operation.LOGARITHM, INFINITY, exact_elementwise.NAN, SIGN_BIT | INFINITY),
        (Operation.SIGMOID, ONE, 0, ONE - (1 << 23)),
    ],
)
def test_functions_at_their_ends(
    operation: Operation, of_infinity: int, of_minus_infinity: int, of_zero: int
) -> None:
    assert exact.compute_element(operation, [(INFINITY,)]) == of_infinity
    assert exact.compute_element(operation, [(SIGN_BIT | INFINITY,)]) == of_minus_infinity
    assert exact.compute_element(operation, [(0,)]) == exact.compute_element(operation, [(SIGN_BIT,)])
    assert exact.compute_element(operation, [(0,)]) == of_zero
    assert exact.compute_element(operation, [(INFINITY + 1,)]) == exact_elementwise.NAN


@pytest.mark.parametrize(
    ("operation", "value", "expected"),
    [
        (Operation.EXPONENTIAL, 1.0, 0x402DF854),
        (Operation.EXPONENTIAL, -1.0, 0x3EBC5AB2),
        (Operation.EXPONENTIAL, 88.5, 0x7F4CDCC4),
        (Operation.EXPONENTIAL, -87.5, 0x006CB2BC),
        (Operation.LOGARITHM, 2.0, 0x3F317218),
        (Operation.LOGARITHM, 10.0, 0x40135D8E),
        (Operation.LOGARITHM, 0.7, 0xBEB69E1A),
        (Operation.SIGMOID, 0.5, 0x3F1F597F),
    ],
)
def test_functions_give_these_bits_for_ever(operation: Operation, value: float, expected: int) -> None:
    assert exact.compute_element(operation, [(bits_of(value),)]) == expected


def test_functions_come_close_to_the_true_value() -> None:
    chance = random.Random(3)
    with localcontext() as context:
        context.prec = 50
        for _ in range(2000):
            a = bits_of(chance.choice([chance.uniform(-87, 88), chance.uniform(-1, 1)]))
            assert _count_ulps(exact_series.take_exponential(a), _to_decimal(a).exp()) < Decimal("0.52")
            b = bits_of(
                chance.choice(
                    [chance.uniform(0.5, 2), chance.uniform(1, 1e4), 2.0 ** chance.randrange(-126, 127)]
                )
            )
            right = _to_decimal(b).ln()
            beyond = abs(_to_decimal(exact_series.take_logarithm(b)) - right) - _to_ulp(right) / 2
            assert beyond < Decimal(2) ** -32


def _to_decimal(bits: int) -> Decimal:
    value = to_fraction(bits)
    return Decimal(value.numerator) / Decimal(value.denominator)


def _to_ulp(value: Decimal) -> Decimal:
    unit = spacing(Fraction(value))
    return Decimal(unit.numerator) / Decimal(unit.denominator)


def _count_ulps(bits: int, right: Decimal) -> Decimal:
    return abs(_to_decimal(bits) - right) / _to_ulp(right)


# Sums
def test_a_sum_does_not_depend_on_the_order_of_its_terms() -> None:
    chance = random.Random(5)
    terms = [bits_of(chance.uniform(-1, 1) * 2.0 ** chance.randrange(-60, 60)) for _ in range(200)]
    expected = exact_sums.add_terms(terms)
    for _ in range(5):
        chance.shuffle(terms)
        assert exact_sums.add_terms(terms) == expected


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([], 0),
        ([MINUS_ZERO], 0),
        ([1], 1),
        ([LARGEST, LARGEST], INFINITY),
        ([ONE, SIGN_BIT | ONE], 0),
        ([ONE, INFINITY], exact_elementwise.NAN),
        ([ONE, ONE, float_to_bits(2.0**-24)], 0x40000000),
        # 2^-39 is half of the unit beside 1, and goes to 0, the even neighbour. Three quarters become one.
        ([ONE, SIGN_BIT | ONE, float_to_bits(2.0**-39)], 0),
        ([ONE, SIGN_BIT | ONE, float_to_bits(1.5 * 2.0**-39)], float_to_bits(2.0**-38)),
    ],
)
def test_sums(terms: list[int], expected: int) -> None:
    assert exact_sums.add_terms(terms) == expected
    assert exact.compute_element(Operation.SUM, [(term,) for term in terms]) == expected


@pytest.mark.parametrize("bits", [8, 15, 20])
def test_a_scale_is_the_least_that_keeps_all_terms_within_the_limit(bits: int) -> None:
    limit, chance = QUANTIZED_LIMITS[bits], random.Random(bits)
    for _ in range(500):
        row = [bits_of(chance.uniform(-1, 1) * 2.0 ** chance.randrange(-140, 120)) for _ in range(3)]
        scale = exact_sums.choose_scale(row, bits)
        assert max(abs(exact_sums.quantize(a, scale, bits)) for a in row) <= limit
        units = to_units(scale)
        assert units & (units - 1) == 0
        if units > 1:
            assert max(abs(round(Fraction(2 * to_units(a), units))) for a in row) > limit


def test_scales_at_the_ends_of_the_range() -> None:
    assert exact_sums.choose_scale([0, MINUS_ZERO], 15) == 1
    assert exact_sums.choose_scale([1], 8) == 1
    assert exact_sums.choose_scale([INFINITY, 0], 8) == exact_elementwise.NAN
    assert to_fraction(exact_sums.choose_scale([LARGEST], 15)) == Fraction(2) ** 115
    # 16,319.5 steps round to 16,320, one too many: the scale doubles.
    for steps, factor in ((Fraction(32638, 2), 1), (Fraction(32639, 2), 2)):
        assert exact_sums.choose_scale([round_to_bits(steps)], 15) == round_to_bits(Fraction(factor))


@pytest.mark.parametrize(
    ("value", "scale", "expected"),
    [(2.5, 1.0, 2), (3.5, 1.0, 4), (-2.5, 1.0, -2), (1.0, 2.0**-149, 127), (-1.0, 2.0**-149, -127)],
)
def test_quantized_values_go_to_the_even_neighbour_and_never_beyond_the_limit(
    value: float, scale: float, expected: int
) -> None:
    assert exact_sums.quantize(bits_of(value), bits_of(scale), 8) == expected


def test_a_row_with_a_term_that_is_not_finite_gives_nan() -> None:
    row = [ONE, INFINITY]
    scale = exact_sums.choose_scale(row, 15)
    assert [exact_sums.quantize(a, scale, 15) for a in row] == [0, 0]
    assert exact_sums.add_quantized_products([(0, 5), (0, 7)], scale, ONE) == exact_elementwise.NAN


@pytest.mark.parametrize("scale", [INFINITY, SIGN_BIT | INFINITY, exact_elementwise.NAN, INFINITY + 1])
def test_a_scale_that_is_not_finite_gives_nan_even_to_nothing(scale: int) -> None:
    """Only a cheat's buffers hold an infinite scale; the referee has to answer all the same."""
    for terms in ([(0, 1)], [(2, 3)]):
        assert exact_sums.add_quantized_products(terms, scale, ONE) == exact_elementwise.NAN
        assert exact_sums.add_quantized_products(terms, ONE, scale) == exact_elementwise.NAN


def test_a_product_sum_is_exact_and_rounded_once() -> None:
    terms = [(16319, 16319), (-16319, 16318), (1, -16318)]
    assert exact_sums.add_quantized_products(terms, ONE, ONE) == bits_of(1)
    scale = round_to_bits(UNIT)
    assert exact_sums.add_quantized_products([(3, 1)], scale, bits_of(0.5)) == 2  # 1.5 units, to the even one
    assert exact_sums.add_quantized_products([(0, 1)], scale, bits_of(0.5)) == 0


def test_an_element_of_a_product_sum_reads_its_scales_from_its_first_term() -> None:
    terms = [(3, 4, bits_of(0.5), bits_of(2.0)), (1, -2, bits_of(0.5), bits_of(2.0))]
    assert exact.compute_element(Operation.QUANTIZED_PRODUCT_SUM, terms) == bits_of(10.0)
    assert exact.compute_element(Operation.QUANTIZE, [(bits_of(3.0), bits_of(0.5))], 8) == 6
    assert exact.compute_element(Operation.SCALE_OF, [(bits_of(127.0),), (ONE,)], 8) == ONE
    assert is_finite(exact.compute_element(Operation.SELECTED_SUM, []))


def test_a_sum_of_products_that_are_not_quantized_is_refused() -> None:
    with pytest.raises(InvalidInput, match="exact programs do not have"):
        exact.compute_element(Operation.PRODUCT_SUM, [(ONE, ONE)])
