"""Sums of exact programs: terms as integers of one unit, added exactly, rounded once (docs/spec.md, section
9.1).

Products are sums of quantized values: signed integers, which stand for that many times the scale of their
row.
"""

from collections.abc import Sequence
from fractions import Fraction

from touchstone.protocol.spec import float32
from touchstone.protocol.spec.exact_elementwise import NAN
from touchstone.protocol.spec.float32 import UNIT, is_finite, round_to_bits, to_units
from touchstone.protocol.spec.program_operations import QUANTIZED_LIMITS

SUM_BITS = 38
"""Places below the leading bit of the largest term that a SUM keeps: 4,096 terms stay below 2^52, so float64
adds them exactly in any order."""


def add_terms(terms: Sequence[int]) -> int:
    """Returns the sum. Each term is rounded to the nearest multiple of 2^(e - SUM_BITS), with e the exponent
    of the largest term; their exact sum is rounded once. NAN where a term is not finite. No term gives +0, as
    a zero sum does."""
    if not all(map(is_finite, terms)):
        return NAN
    largest = max((abs(to_units(bits)) for bits in terms), default=0)
    if largest == 0:
        return 0
    unit = UNIT * Fraction(2) ** (largest.bit_length() - 1 - SUM_BITS)
    return round_to_bits(sum(round(float32.to_fraction(bits) / unit) for bits in terms) * unit)


def choose_scale(terms: Sequence[int], bits: int) -> int:
    """Returns the scale of a row: the least power of two for which no quantized term exceeds the limit of
    `bits`. It is 2^-149 or more. NAN where a term is not finite."""
    if not all(map(is_finite, terms)):
        return NAN
    largest = max(abs(to_units(term)) for term in terms)
    power = max(0, largest.bit_length() - QUANTIZED_LIMITS[bits].bit_length())
    if round(Fraction(largest, 1 << power)) > QUANTIZED_LIMITS[bits]:
        power += 1
    return round_to_bits((1 << power) * UNIT)


def quantize(a: int, scale: int, bits: int) -> int:
    """a / scale, to the nearest integer, ties to even; 0 if the scale is NaN. Beyond the limit, where a
    scale is not that of its row: the limit."""
    if not is_finite(scale) or not is_finite(a) or to_units(scale) <= 0:
        return 0
    limit = QUANTIZED_LIMITS[bits]
    return max(-limit, min(limit, round(Fraction(to_units(a), to_units(scale)))))


def add_quantized_products(terms: Sequence[tuple[int, int]], scale_a: int, scale_b: int) -> int:
    """Returns the exact sum of the products of quantized values, times both scales, rounded once; a zero is
    +0. NAN where a scale is not finite."""
    if not is_finite(scale_a) or not is_finite(scale_b):
        return NAN
    total = sum(a * b for a, b in terms)
    if total == 0:
        return 0
    return round_to_bits(total * float32.to_fraction(scale_a) * float32.to_fraction(scale_b))
