"""The constant tensors of a step: rotary tables (Su et al., arXiv 2104.09864) and the mask of the future.

They are inputs of the training step, so every node must be able to recompute them exactly. Cosines of a
mathematical library differ in the last place from one machine to the next. So the tables are computed in
integer arithmetic, which gives the same bits on every machine. The roundings follow Hugging Face's
`LlamaRotaryEmbedding`: frequency, scaled frequency, angle, cosine and sine are each rounded to float32 once.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import torch
from torch import Tensor

from protocol.spec.containers import RopeScaling
from protocol.spec.float32 import nearest

FRACTION_BITS = 160
"""Fixed point: far beyond the 24 bits that are kept, so that a wrong rounding needs a coincidence of
2^-100."""
ONE = 1 << FRACTION_BITS
HIDDEN = -(2.0**100)
"""Added to the score of a later token: its exponential is nothing beside those of the past."""


@dataclass(frozen=True)
class Tables:
    """cos_TN and sin_TN: float32 [tokens, rotary pairs of a head], position by frequency; a family without
    rotary positions turns no pair, so both are empty. mask_TS: float32 [tokens, tokens], 0 where S <= T, else
    HIDDEN. The fields stand in the order in which a program has them as constants."""

    cos_TN: Tensor
    sin_TN: Tensor
    mask_TS: Tensor


def build_mask(tokens: int) -> Tensor:
    """mask_TS of so many tokens."""
    return torch.full((tokens, tokens), HIDDEN).triu(1)


def build_rotary(theta: float, scaling: RopeScaling, head_size: int, tokens: int) -> tuple[Tensor, Tensor]:
    """cos_TN and sin_TN of positions 0 .. tokens - 1; 0.1 s for 4,096 entries."""
    frequencies = [
        scale_frequency(compute_frequency(theta, i, head_size), scaling) for i in range(head_size // 2)
    ]
    cos_TN, sin_TN = (torch.empty(tokens, head_size // 2) for _ in range(2))
    for t in range(tokens):
        pairs = [compute_cos_sin(Fraction(nearest(t * Fraction(f)))) for f in frequencies]
        cos_TN[t] = torch.tensor([nearest(cosine) for cosine, _ in pairs])
        sin_TN[t] = torch.tensor([nearest(sine) for _, sine in pairs])
    return cos_TN, sin_TN


def compute_frequency(theta: float, i: int, head_size: int) -> float:
    """float32 nearest to theta^(-2i / head_size): the integer root of an integer power."""
    half = head_size // 2
    # theta^(i/half) * ONE = (theta^i * ONE^half)^(1/half)
    power = Fraction(theta) ** i
    root = _integer_root(power.numerator * ONE**half // power.denominator, half)
    return nearest(Fraction(ONE, root))


def scale_frequency(frequency: float, scaling: RopeScaling) -> float:
    """A frequency as a scaling changes it, float32, radians a token. As transformers'
    `_compute_linear_scaling_rope_parameters` and `_compute_llama3_parameters` do, but for roundings between:
    exact rationals, with pi to 160 bits, and one rounding."""
    exact, factor = Fraction(frequency), Fraction(scaling.factor)
    if scaling.kind == "linear":
        return nearest(exact / factor)
    if scaling.kind != "llama3":
        return frequency
    low, high = Fraction(scaling.low_frequency), Fraction(scaling.high_frequency)
    # Turns over the original context: context / wavelength.
    turns = scaling.original_tokens * exact / (2 * Fraction(_compute_pi(), ONE))
    if turns < low:
        return nearest(exact / factor)
    if turns > high:
        return frequency
    kept = (turns - low) / (high - low)
    return nearest((1 - kept) * exact / factor + kept * exact)


def _integer_root(value: int, degree: int) -> int:
    """floor(value^(1/degree)) by Newton's method from above."""
    guess = 1 << -(-value.bit_length() // degree)
    while True:
        better = ((degree - 1) * guess + value // guess ** (degree - 1)) // degree
        if better >= guess:
            return guess
        guess = better


def compute_cos_sin(angle: Fraction) -> tuple[Fraction, Fraction]:
    """Cosine and sine of an angle in radians, within 2^-140: Taylor series after reduction to |x| <= pi/4."""
    scaled = angle.numerator * ONE // angle.denominator
    half_pi = _compute_pi() // 2
    quarter = (2 * scaled + half_pi) // (2 * half_pi)
    x = scaled - quarter * half_pi
    cosine, sine = _series(x, ONE, 0), _series(x, x, 1)
    rotated = ((cosine, sine), (-sine, cosine), (-cosine, -sine), (sine, -cosine))[quarter % 4]
    return Fraction(rotated[0], ONE), Fraction(rotated[1], ONE)


def _series(x: int, term: int, order: int) -> int:
    """The alternating series of cosine (term ONE, order 0) or sine (term x, order 1)."""
    square, total = x * x // ONE, 0
    while term:
        total += term
        order += 2
        term = -(abs(term) * square // (order * (order - 1)) // ONE) * (1 if term > 0 else -1)
    return total


@lru_cache(maxsize=1)
def _compute_pi() -> int:
    """pi * ONE by Machin's formula, 16 arctan(1/5) - 4 arctan(1/239), with guard bits."""
    guard = 64
    total = sum(weight * _arctan_of_inverse(n, ONE << guard) for weight, n in ((16, 5), (-4, 239)))
    return total >> guard


def _arctan_of_inverse(n: int, one: int) -> int:
    power, total, order, sign = one // n, 0, 1, 1
    while power:
        total += sign * (power // order)
        power, order, sign = power // (n * n), order + 2, -sign
    return total
