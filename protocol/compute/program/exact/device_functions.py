"""Computes functions of exact programs in PyTorch operations: steps of integers (`spec/exact.py`)."""

import torch
from torch import Tensor

from touchstone.protocol.spec.exact_series import (
    EXPONENTIAL_COEFFICIENTS,
    LN_2,
    LOG2_E,
    LOGARITHM_COEFFICIENTS,
    ROOT_2,
)

MAGNITUDE = 0x7FFFFFFF


def make_power(exponent: Tensor) -> Tensor:
    """Returns 2^exponent as float64, for -1022 to 1023."""
    return ((exponent.to(torch.int64) + 1023) << 52).view(torch.float64)


def find_exponent(magnitude: Tensor) -> Tensor:
    """Returns the exponent of the leading bit of finite float64 numbers in float32's range; -1023 for 0."""
    return (magnitude.view(torch.int64) >> 52) - 1023


def divide_one(a: Tensor) -> Tensor:
    """Computes 1 / a, float32. Rounding the quotient to float64 first gives the same result."""
    return (1.0 / a.double()).float()


def take_reciprocal_roots(a: Tensor) -> Tensor:
    """Returns the correctly rounded square root, and 1 divided by it."""
    return divide_one(a.double().sqrt().float())


def take_exponentials(a: Tensor) -> Tensor:
    """Computes exp of each element with 64-bit integers."""
    significand, exponent = _split(a)
    y = (significand * LOG2_E) >> (6 - exponent).clamp(0, 63)
    is_far = ~(a.abs() < 128)
    y = torch.where(is_far, 0, torch.where(torch.signbit(a), -y, y))
    n = (y + (1 << 31)) >> 32
    f = y - (n << 32)
    series = _evaluate(EXPONENTIAL_COEFFICIENTS, f)
    near = (series.double() * make_power(n - 30)).float()
    far = torch.where(a > 0, torch.inf, torch.where(a < 0, 0.0, torch.nan))
    return torch.where(is_far, far.float(), near)


def take_logarithms(a: Tensor) -> Tensor:
    """Computes ln of each element with 64-bit integers."""
    is_number = a.isfinite() & (a > 0)
    value = torch.where(is_number, a, 1.0).double()
    n = find_exponent(value)
    magnitude = (value * make_power(23 - n)).to(torch.int64)
    is_high = magnitude > ROOT_2
    one, n = torch.where(is_high, 1 << 24, 1 << 23), n + is_high
    quotient = torch.div((magnitude - one).abs() << 34, magnitude + one, rounding_mode="floor")
    square = ((quotient >> 4) * (quotient >> 4)) >> 28
    total = (quotient * _evaluate(LOGARITHM_COEFFICIENTS, square)) >> 26
    total = torch.where(magnitude < one, -total, total)
    near = ((n * LN_2 + total).double() * 2.0**-38).float()
    far = torch.where(a == 0, -torch.inf, torch.where(a > 0, torch.inf, torch.nan))
    return torch.where(is_number, near, far.float())


def take_sigmoids(a: Tensor) -> Tensor:
    """Computes 1 / (1 + exp(-a)) of each element."""
    return divide_one(take_exponentials(-a) + 1.0)


def _split(a: Tensor) -> tuple[Tensor, Tensor]:
    """Returns (magnitude, exponent) as `spec.exact.split` does."""
    pattern = a.view(torch.int32).to(torch.int64) & MAGNITUDE
    field = pattern >> 23
    significand = torch.where(field > 0, (pattern & 0x7FFFFF) | 0x800000, pattern)
    return significand, field.clamp(min=1) - 150


def _evaluate(coefficients: tuple[int, ...], at: Tensor) -> Tensor:
    """Evaluates the series in steps of integers; `at` is in units of 2^-32."""
    series = torch.zeros_like(at)
    for coefficient in reversed(coefficients):
        series = coefficient + ((series * at) >> 32)
    return series
