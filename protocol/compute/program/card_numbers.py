"""Computes with numbers in Triton kernels: powers, scales, exact functions (`spec/exact.py`).

The steps are those of `device_functions.py`. Nothing may be contracted or flushed: `card_compile.py` launches
so, and divisions and square roots are correctly rounded.
"""

from typing import Any

import triton.language as tl

from touchstone.protocol.compute.program.card_compile import compile_card
from touchstone.protocol.spec.exact_series import (
    EXPONENTIAL_COEFFICIENTS,
    LN_2,
    LOG2_E,
    LOGARITHM_COEFFICIENTS,
    ROOT_2,
)
from touchstone.protocol.spec.exact_sums import SUM_BITS

MAGNITUDE = tl.constexpr(0x7FFFFFFF)
INFINITE = tl.constexpr(0x7F800000)
HUGE = tl.constexpr(0x43000000)
"""The bits of 128.0. If a number has this magnitude or a larger one, its exp is 0 or infinite."""
_LOG2_E = tl.constexpr(LOG2_E)
_LN_2 = tl.constexpr(LN_2)
_ROOT_2 = tl.constexpr(ROOT_2)
_SUM_BITS = tl.constexpr(SUM_BITS)
_E0, _E1, _E2, _E3, _E4, _E5, _E6, _E7, _E8 = map(tl.constexpr, EXPONENTIAL_COEFFICIENTS)
_L0, _L1, _L2, _L3, _L4, _L5, _L6 = map(tl.constexpr, LOGARITHM_COEFFICIENTS)
TURN = tl.constexpr(1.5 * 2.0**52)
"""Adding this rounds a float64 number below 2^51 to an integer."""
TURN_FLOAT = tl.constexpr(1.5 * 2.0**23)
"""Adding this rounds a float32 number below 2^22 to an integer, which is then in the lower bits."""
TURN_BITS = tl.constexpr(0x4B400000)


@compile_card
def make_power(exponent: tl.tensor) -> Any:
    """Returns 2^exponent as float64, for -1022 to 1023."""
    return ((exponent.to(tl.int64) + 1023) << 52).to(tl.float64, bitcast=True)


@compile_card
def find_exponent(number: tl.tensor) -> Any:
    """Returns the exponent of the leading bit of positive float64 numbers in float32's range; -1023 for 0."""
    return (number.to(tl.int64, bitcast=True) >> 52) - 1023


@compile_card
def round_double(number: tl.tensor) -> Any:
    """Returns the nearest integer, ties to even, of a float64 number below 2^51."""
    return (number + TURN) - TURN


@compile_card
def find_unit_exponent(largest: tl.tensor) -> Any:
    """Returns the exponent of the unit to which terms of a sum are rounded, from the bits of the largest
    magnitude."""
    number = largest.to(tl.float32, bitcast=True).to(tl.float64)
    is_plain = (largest > 0) & (largest < INFINITE)
    return tl.where(is_plain, find_exponent(number) - _SUM_BITS, 0)


@compile_card
def choose_scale(largest: tl.tensor, fraction: tl.tensor, exponent: tl.tensor) -> Any:
    """Returns the scale of a row, from the bits of its largest magnitude. The scale doubles at fraction *
    2^exponent."""
    number = largest.to(tl.float32, bitcast=True).to(tl.float64)
    own = tl.maximum(find_exponent(number) + 1, -149)
    is_up = number * make_power(-tl.minimum(own, 128)) >= fraction
    power = own - exponent + is_up.to(tl.int64)
    power = tl.minimum(tl.maximum(tl.where(largest > 0, power, -149), -149), 128)
    return tl.where(largest < INFINITE, make_power(power), float("nan")).to(tl.float32)


# Functions
@compile_card
def take_exponential(a: tl.tensor) -> Any:
    """Computes exp with 64-bit integers; all factors of the series have 32 bits."""
    pattern = a.to(tl.int32, bitcast=True)
    magnitude = pattern & MAGNITUDE
    field = magnitude >> 23
    significand = tl.where(field > 0, (magnitude & 0x7FFFFF) | 0x800000, magnitude)
    shift = tl.minimum(tl.maximum(156 - tl.maximum(field, 1), 0), 63)
    y = (significand.to(tl.int64) * _LOG2_E) >> shift.to(tl.int64)
    is_far = magnitude >= HUGE
    y = tl.where(is_far, 0, tl.where(pattern < 0, -y, y))
    n = (y + 0x80000000) >> 32
    f = (y - (n << 32)).to(tl.int32).to(tl.int64)
    series = (((f * _E8) >> 32) + _E7).to(tl.int32)
    series = (((series.to(tl.int64) * f) >> 32) + _E6).to(tl.int32)
    series = (((series.to(tl.int64) * f) >> 32) + _E5).to(tl.int32)
    series = (((series.to(tl.int64) * f) >> 32) + _E4).to(tl.int32)
    series = (((series.to(tl.int64) * f) >> 32) + _E3).to(tl.int32)
    series = (((series.to(tl.int64) * f) >> 32) + _E2).to(tl.int32)
    series = (((series.to(tl.int64) * f) >> 32) + _E1).to(tl.int32)
    series = (((series.to(tl.int64) * f) >> 32) + _E0).to(tl.int32)
    near = (series.to(tl.float64) * make_power(n - 30)).to(tl.float32)
    far = tl.where(pattern < 0, 0.0, float("inf"))
    far = tl.where(magnitude > INFINITE, float("nan"), far)
    return tl.where(is_far, far, near)


@compile_card
def take_logarithm(a: tl.tensor) -> Any:
    """Computes ln with 64-bit integers."""
    pattern = a.to(tl.int32, bitcast=True)
    is_number = (pattern > 0) & (pattern < INFINITE)
    number = tl.where(is_number, a, 1.0).to(tl.float64)
    n = find_exponent(number)
    magnitude = (number * make_power(23 - n)).to(tl.int64)
    is_high = magnitude > _ROOT_2
    one = tl.where(is_high, 0x1000000, 0x800000).to(tl.int64)
    n += is_high.to(tl.int64)
    away = tl.where(magnitude < one, one - magnitude, magnitude - one)
    quotient = (away << 34) // (magnitude + one)
    square = ((quotient >> 4) * (quotient >> 4)) >> 28
    series = ((square * _L6) >> 32) + _L5
    series = ((series * square) >> 32) + _L4
    series = ((series * square) >> 32) + _L3
    series = ((series * square) >> 32) + _L2
    series = ((series * square) >> 32) + _L1
    series = ((series * square) >> 32) + _L0
    total = (quotient * series) >> 26
    total = tl.where(magnitude < one, -total, total)
    near = ((n * _LN_2 + total).to(tl.float64) * (2.0**-38)).to(tl.float32)
    far = tl.where(pattern == INFINITE, float("inf"), float("nan"))
    far = tl.where((pattern & MAGNITUDE) == 0, float("-inf"), far)
    return tl.where(is_number, near, far)


@compile_card
def take_sigmoid(a: tl.tensor) -> Any:
    """Computes 1 / (1 + exp(-a))."""
    return tl.div_rn(1.0, take_exponential(-a) + 1.0)


@compile_card
def take_reciprocal_root(a: tl.tensor) -> Any:
    """Returns the correctly rounded square root, and 1 divided by it."""
    return tl.div_rn(1.0, tl.sqrt_rn(a))
