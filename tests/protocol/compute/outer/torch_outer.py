"""The pseudo-gradient and the outer step as plain PyTorch on whole vectors, to compare loops with."""

from collections.abc import Sequence

import torch
from torch import Tensor

from touchstone.protocol.spec.float32 import bits_to_float

BLOCK, LEAF, BIAS, LARGEST_BYTE = 64, 256, 149, 220
DOUBLE_BIAS, DOUBLE_FRACTION_BITS = 1023, 52


def encode(before: Tensor, after: Tensor) -> bytes:
    """65 bytes a block; what is beyond the largest encoding, or infinite, is cut off."""
    most = 127 * 2.0 ** (LARGEST_BYTE - BIAS)
    difference = (before - after).clamp(-most, most)
    padded = torch.nn.functional.pad(difference, (0, -difference.numel() % LEAF))
    blocks = padded.view(-1, BLOCK).double()
    largest = blocks.abs().amax(dim=1)
    bits = largest.view(torch.int64)
    # largest = f * 2^x with 1 <= f < 2: at most 127 * 2^(x - 6) where f <= 127/64, else 127 * 2^(x - 5).
    fraction = bits & ((1 << DOUBLE_FRACTION_BITS) - 1)
    x = (bits >> DOUBLE_FRACTION_BITS) - DOUBLE_BIAS
    above = fraction > (63 << (DOUBLE_FRACTION_BITS - 6))
    exponents = (x - 6 + above.to(torch.int64)).clamp(min=-BIAS)
    quanta = (blocks * _power_of_two(-exponents).unsqueeze(1)).round().to(torch.int8)
    biased = (exponents + BIAS).to(torch.uint8).unsqueeze(1)
    return torch.cat((biased, quanta.view(torch.uint8)), dim=1).numpy().tobytes()


def _power_of_two(exponents: Tensor) -> Tensor:
    return ((exponents + DOUBLE_BIAS) << DOUBLE_FRACTION_BITS).view(torch.float64)


def decode(data: bytes, count: int) -> Tensor:
    """q * 2^e, float32 [count]; zeros where the first byte of a block exceeds 220."""
    blocks = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(-1, 1 + BLOCK)
    exponents = blocks[:, 0].to(torch.int64) - BIAS
    quanta = blocks[:, 1:].contiguous().view(torch.int8).double()
    quanta[exponents > LARGEST_BYTE - BIAS] = 0.0
    values = (quanta * _power_of_two(exponents).unsqueeze(1)).float()
    return values.reshape(-1)[:count].contiguous()


def merge(
    weights: Tensor, momentum: Tensor, deltas: Sequence[bytes], rate_bits: int, factor_bits: int
) -> tuple[Tensor, Tensor]:
    """W' and M'; elements that would not be finite stay as they are."""
    rate, factor = bits_to_float(rate_bits), bits_to_float(factor_bits)
    total = decode(deltas[0], weights.numel())
    for delta in deltas[1:]:
        total = total + decode(delta, weights.numel())
    # A tensor of divisors: some kernels turn division by one scalar into a product with its inverse.
    mean = total / torch.full_like(total, float(len(deltas)))
    moment = momentum * factor + mean
    stepped = weights - (mean + moment * factor) * rate
    is_finite = torch.isfinite(stepped) & torch.isfinite(moment)
    return torch.where(is_finite, stepped, weights), torch.where(is_finite, moment, momentum)
