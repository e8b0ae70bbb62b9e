"""Elementwise operations of exact programs: IEEE 754 binary32, each rounded once (docs/spec.md, section 9.1).

Ties go to even, subnormals are kept, infinities and NaN have their places. Values are float32 bits.
"""

from collections.abc import Callable, Sequence

from touchstone.protocol.spec import float32
from touchstone.protocol.spec.float32 import INFINITY, SIGN_BIT, is_finite

NAN = 0x7FC00000
"""The one bit pattern that stands for all NaN."""
ONE = 0x3F800000


def canonicalize(bits: int) -> int:
    """Returns the bits that are hashed: NAN for any NaN, all others unchanged."""
    return NAN if is_nan(bits) else bits


def is_nan(bits: int) -> bool:
    """Returns whether the bits are a NaN."""
    return bits & ~SIGN_BIT > INFINITY


def _is_infinite(bits: int) -> bool:
    return bits & ~SIGN_BIT == INFINITY


def is_zero(bits: int) -> bool:
    """Returns whether the bits are +0 or -0."""
    return bits & ~SIGN_BIT == 0


def _order(bits: int) -> int:
    """Returns a number that orders bits (no NaN) by their values; both zeros are equal."""
    magnitude = bits & ~SIGN_BIT
    return -magnitude if bits & SIGN_BIT else magnitude


def add(a: int, b: int) -> int:
    """Returns a + b."""
    if is_nan(a) or is_nan(b) or (_is_infinite(a) and _is_infinite(b) and a != b):
        return NAN
    if _is_infinite(a) or _is_infinite(b):
        return a if _is_infinite(a) else b
    return float32.add(a, b)


def subtract(a: int, b: int) -> int:
    """Returns a - b."""
    return add(a, float32.negate(b))


def multiply(a: int, b: int) -> int:
    """Returns a * b."""
    if is_nan(a) or is_nan(b):
        return NAN
    if is_finite(a) and is_finite(b):
        return float32.multiply(a, b)
    return NAN if is_zero(a) or is_zero(b) else INFINITY | ((a ^ b) & SIGN_BIT)


def divide(a: int, b: int) -> int:
    """Returns a / b."""
    sign = (a ^ b) & SIGN_BIT
    if is_nan(a) or is_nan(b) or (is_zero(a) and is_zero(b)) or (_is_infinite(a) and _is_infinite(b)):
        return NAN
    if _is_infinite(b):
        return sign
    if _is_infinite(a) or is_zero(b):
        return INFINITY | sign
    return float32.divide(a, b)


def take_square_root(a: int) -> int:
    """Returns sqrt(a); for -0 it is -0."""
    if is_nan(a) or (a & SIGN_BIT and not is_zero(a)):
        return NAN
    return float32.square_root(a) if is_finite(a) else a


def take_reciprocal_root(a: int) -> int:
    """Returns 1 / sqrt(a), rounded twice."""
    return divide(ONE, take_square_root(a))


def choose_largest(values: Sequence[int]) -> int:
    """Returns the largest of the values; NAN if one is NaN. A zero becomes +0."""
    return _choose(values, max)


def choose_smallest(values: Sequence[int]) -> int:
    """Returns the smallest of the values; NAN if one is NaN. A zero becomes +0."""
    return _choose(values, min)


def _choose(values: Sequence[int], pick: Callable[[list[int]], int]) -> int:
    if any(map(is_nan, values)):
        return NAN
    order = pick(list(map(_order, values)))
    return SIGN_BIT | -order if order < 0 else order


def flush(a: int, threshold: int) -> int:
    """Returns +0 if |a| < threshold, else a. If either is NaN, returns a."""
    if is_nan(a) or is_nan(threshold) or _order(a & ~SIGN_BIT) >= _order(threshold):
        return canonicalize(a)
    return 0
