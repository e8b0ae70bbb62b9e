"""Computes exponential, logarithm and sigmoid of exact programs as fixed sequences of integer steps.

Rules: docs/spec.md, section 9.1.
"""

from fractions import Fraction

from touchstone.protocol.spec import float32
from touchstone.protocol.spec.exact_elementwise import NAN, ONE, add, divide, is_nan, is_zero
from touchstone.protocol.spec.float32 import (
    FRACTION_BITS,
    HIDDEN_BIT,
    INFINITY,
    SIGN_BIT,
    is_finite,
    round_to_bits,
)

LOG2_E = 396564993198
"""2^38 / ln 2, rounded to nearest."""
EXPONENTIAL_COEFFICIENTS = (
    1073741824, 744261118, 257941248, 59597083, 10327387, 1431680, 165394, 16377, 1419,
)  # fmt: skip
"""2^30 (ln 2)^k / k!, rounded to nearest: the series of 2^f."""
LN_2 = 190530846196
"""2^38 ln 2, rounded to nearest."""
LOGARITHM_COEFFICIENTS = tuple(round(Fraction(1 << 31, 2 * k + 1)) for k in range(7))
"""2^31 / (2 k + 1), rounded to nearest: the series of artanh, doubled, in units of 2^-30."""
ROOT_2 = 11863283
"""2^23 sqrt(2), rounded down."""


def take_exponential(a: int) -> int:
    """Computes exp(a) within one unit in the last place, as 2^n times the series of 2^f, |f| at most 1/2."""
    if is_nan(a):
        return NAN
    is_negative = bool(a & SIGN_BIT)
    magnitude, exponent = split(a)
    if exponent > -17:  # 128 or more, or an infinity.
        return 0 if is_negative else INFINITY
    y = magnitude * LOG2_E >> min(6 - exponent, 63)  # |a| / ln 2, in units of 2^-32.
    y = -y if is_negative else y
    n = (y + (1 << 31)) >> 32
    f = y - (n << 32)
    series = 0
    for coefficient in reversed(EXPONENTIAL_COEFFICIENTS):
        series = coefficient + (series * f >> 32)
    return round_to_bits(series * Fraction(2) ** (n - 30))


def take_logarithm(a: int) -> int:
    """Computes ln(a), within 2^-32 and half a unit in the last place. With a = m 2^n and m from sqrt(1/2) to
    sqrt(2), it is n ln 2 + 2 artanh((m - 1) / (m + 1))."""
    if is_nan(a) or (a & SIGN_BIT and not is_zero(a)):
        return NAN
    if is_zero(a):
        return INFINITY | SIGN_BIT
    if not is_finite(a):
        return a
    magnitude, exponent = split(a)
    shift = 24 - magnitude.bit_length()
    magnitude, n = magnitude << shift, exponent - shift + 23
    one = HIDDEN_BIT
    if magnitude > ROOT_2:
        one, n = 2 * HIDDEN_BIT, n + 1
    quotient = (abs(magnitude - one) << 34) // (magnitude + one)
    square = (quotient >> 4) ** 2 >> 28  # In units of 2^-32.
    series = 0
    for coefficient in reversed(LOGARITHM_COEFFICIENTS):
        series = coefficient + (series * square >> 32)
    total = quotient * series >> 26  # In units of 2^-38; no product here or above reaches 2^63.
    total = -total if magnitude < one else total
    return round_to_bits(Fraction(n * LN_2 + total, 1 << 38))


def take_sigmoid(a: int) -> int:
    """Computes 1 / (1 + exp(-a)) in three of the steps above."""
    return divide(ONE, add(ONE, take_exponential(float32.negate(a))))


def split(bits: int) -> tuple[int, int]:
    """Returns (magnitude, exponent): the number without its sign is magnitude * 2^exponent, magnitude below
    2^24. For an infinity the exponent is 105."""
    field = (bits >> FRACTION_BITS) & float32.EXPONENT_MASK
    fraction = bits & (HIDDEN_BIT - 1)
    return (fraction, -149) if field == 0 else (fraction | HIDDEN_BIT, field - 150)
