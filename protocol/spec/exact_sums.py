"""Sums of exact programs: terms are rounded to integers of one unit, added exactly, rounded once.

Rules: docs/spec.md, section 9.1. A product is a sum of products of quantized values. Each is a signed integer
and stands for that many times the scale of its row.
"""

from collections.abc import Sequence
from fractions import Fraction

from touchstone.protocol.spec import float32
from touchstone.protocol.spec.exact_elementwise import NAN
from touchstone.protocol.spec.float32 import UNIT, is_finite, round_to_bits, to_units
from touchstone.protocol.spec.program_operations import QUANTIZED_LIMITS

SUM_BITS = 38
"""Places below the leading bit of the largest term that a SUM keeps. 4,096 terms stay below 2^52, so float64
adds them exactly in any order."""


def add_terms(terms: Sequence[int]) -> int:
    """Returns the sum. Each term is rounded to the nearest multiple of 2^(e - SUM_BITS), where e is the
    exponent of the largest term; their exact sum is rounded once. NAN if a term is not finite. The sum of no
    terms is +0, and so is a zero sum."""
    if not all(map(is_finite, terms)):
        return NAN
    largest = max((abs(to_units(bits)) for bits in terms), default=0)
    if largest == 0:
        return 0
    unit = UNIT * Fraction(2) ** (largest.bit_length() - 1 - SUM_BITS)
    return round_to_bits(sum(round(float32.to_fraction(bits) / unit) for bits in terms) * unit)


def choose_scale(terms: Sequence[int], bits: int) -> int:
    """Returns the scale of a row: the least power of two, at least 2^-149, for which no quantized term
    exceeds the limit of `bits`. NAN if a term is not finite."""
    if not all(map(is_finite, terms)):
        return NAN
    largest = max(abs(to_units(term)) for term in terms)
    power = max(0, largest.bit_length() - QUANTIZED_LIMITS[bits].bit_length())
    if round(Fraction(largest, 1 << power)) > QUANTIZED_LIMITS[bits]:
        power += 1
    return round_to_bits((1 << power) * UNIT)


def quantize(a: int, scale: int, bits: int) -> int:
    """Returns a / scale, rounded to the nearest integer, ties to even; 0 if the scale is NaN. The result is
    cut to the limit, in case the scale is not the scale of a's row."""
    if not is_finite(scale) or not is_finite(a) or to_units(scale) <= 0:
        return 0
    limit = QUANTIZED_LIMITS[bits]
    return max(-limit, min(limit, round(Fraction(to_units(a), to_units(scale)))))


def add_quantized_products(terms: Sequence[tuple[int, int]], scale_a: int, scale_b: int) -> int:
    """Returns the exact sum of the products of quantized values, times both scales, rounded once; a zero
    becomes +0. NAN if a scale is not finite."""
    if not is_finite(scale_a) or not is_finite(scale_b):
        return NAN
    total = sum(a * b for a, b in terms)
    if total == 0:
        return 0
    return round_to_bits(total * float32.to_fraction(scale_a) * float32.to_fraction(scale_b))
