"""Encloses a program's unary functions: two rationals that are closer than any bound needs.

It sums integer series in fixed point and counts what they cut off (SLACK). So the exact value always lies
between the two ends (the referee's ground truth, docs/spec.md, section 9).
"""

from collections.abc import Callable
from fractions import Fraction
from math import isqrt

from touchstone.protocol.spec.float32 import split_even, to_units
from touchstone.protocol.spec.program_operations import Operation

Interval = tuple[Fraction, Fraction]
"""The lowest and the highest possible value."""
ENCLOSURE_BITS = 120
"""The bits of the fixed point: a product of two numbers below 2 has 242 bits."""
ONE = 1 << ENCLOSURE_BITS
SLACK = 1 << 20
"""More than all errors of the series, in units of 2^-120. A power or term that is cut off errs by less than
2, a series of 40 terms, doubled, by less than 200, and ln 2 taken 185 times by less than 2^16."""
LIMIT = 128
"""exp(128) is far above every float32, exp(-128) below 2^-184."""
FAR_EXPONENT = -184
UPPER_BITS = 192
"""The bits of a sigmoid above 1/2, enough to show that 1 - 2^-185 is less than 1."""


def enclose_reciprocal_root(a: int) -> Interval:
    """Encloses 1 / sqrt(a) for the bits of a positive number."""
    significand, half = split_even(a)
    root = isqrt((1 << 254) // significand)
    return _scale(root, root + 1, -127 - half)


def enclose_exponential(a: int) -> Interval:
    """Encloses exp(a) for the bits of a finite number, at most LIMIT."""
    return _scale(*_exponential(to_units(a)))


def _exponential(x: int) -> tuple[int, int, int]:
    """Encloses exp(x 2^-149): low and high, and the exponent of their unit. It is 2^scale times the series of
    exp at 0 <= rest < ln 2."""
    if x < -LIMIT << 149:
        return 0, 1, FAR_EXPONENT
    scale, rest = divmod(x << ENCLOSURE_BITS >> 149, LN_2)
    total, term, order = 0, ONE, 1
    while term:
        total += term
        term = (term * rest >> ENCLOSURE_BITS) // order
        order += 1
    return total - SLACK, total + SLACK, scale - ENCLOSURE_BITS


def _scale(low: int, high: int, exponent: int) -> Interval:
    unit = Fraction(2) ** exponent
    return low * unit, high * unit


def enclose_logarithm(a: int) -> Interval:
    """Encloses log(a) for the bits of a positive number: a = m 2^exponent with m from 3/4 to 3/2, log m = 2
    artanh((m - 1)/(m + 1))."""
    x = to_units(a)
    length = x.bit_length() - 1
    m, exponent = x << ENCLOSURE_BITS >> length, length - 149
    if 2 * m > 3 * ONE:
        m, exponent = m >> 1, exponent + 1
    if m == ONE and exponent == 0:
        return Fraction(0), Fraction(0)
    total = exponent * LN_2 + 2 * _artanh(((m - ONE) << ENCLOSURE_BITS) // (m + ONE))
    return Fraction(total - SLACK, ONE), Fraction(total + SLACK, ONE)


def enclose_sigmoid(a: int) -> Interval:
    """Encloses 1 / (1 + exp(-a)) for the bits of a finite number. With e = exp(-|a|) it is e / (1 + e) if a <
    0, else 1 minus that."""
    x = to_units(a)
    low, high, exponent = _exponential(-abs(x))
    # 1 + e in 2^-120, rounded up and down: e may be far smaller than its last place.
    above, below = (
        ONE + _shift(high, exponent + ENCLOSURE_BITS) + 1,
        ONE + _shift(low, exponent + ENCLOSURE_BITS),
    )
    low, high = (low << ENCLOSURE_BITS) // above, (high << ENCLOSURE_BITS) // below + 1
    if x < 0:
        return _scale(low, high, exponent)
    places = exponent + UPPER_BITS
    return _scale(
        (1 << UPPER_BITS) - _shift(high, places) - 1, (1 << UPPER_BITS) - _shift(low, places), -UPPER_BITS
    )


def _shift(value: int, places: int) -> int:
    """Returns the integer part of value * 2^places."""
    return value << places if places >= 0 else value >> -places


def _artanh(z: int) -> int:
    """Computes z + z^3 / 3 + z^5 / 5 ..."""
    total, power, order = 0, abs(z), 1
    square = power * power >> ENCLOSURE_BITS
    while power:
        total += power // order
        power = power * square >> ENCLOSURE_BITS
        order += 2
    return total if z > 0 else -total


LN_2 = 2 * _artanh(ONE // 3)
"""artanh(1/3) is half the logarithm of (1 + 1/3) / (1 - 1/3)."""

ENCLOSURES: dict[Operation, Callable[[int], Interval]] = {
    Operation.RECIPROCAL_ROOT: enclose_reciprocal_root,
    Operation.EXPONENTIAL: enclose_exponential,
    Operation.LOGARITHM: enclose_logarithm,
    Operation.SIGMOID: enclose_sigmoid,
}
"""By operation, a function from the bits of a valid operand to its interval."""
