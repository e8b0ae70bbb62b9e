"""int8 pseudo-gradients and the outer Nesterov step of DiLoCo (arXiv 2311.08105) on whole tensors.

Every node recomputes the merge from the committed bytes and compares roots, so each bit counts: the
operations are separate IEEE-754 additions, multiplications and divisions in a fixed order, equal on any
machine. The reference, one element at a time, is `protocol/spec/outer.py`; rules in docs/spec.md, section 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from protocol.compute.program.tensor_allocator import allocate_zeros, relax
from protocol.spec.errors import InvalidInput, ProtocolFault
from protocol.spec.float32 import bits_to_float
from protocol.spec.merkle import count_tensor_leaves
from protocol.spec.params import (
    BLOCK_ELEMENTS,
    DELTA_BLOCK_BYTES,
    DELTA_LEAF_BYTES,
    LEAF_ELEMENTS,
    MAX_SHARDS,
    QUANTUM_MAX,
    SCALE_EXPONENT_BIAS,
    SCALE_EXPONENT_MAX,
    SCALE_EXPONENT_MIN,
)

DOUBLE_BIAS = 1023
DOUBLE_FRACTION_BITS = 52
PART_ELEMENTS = 1 << 20
"""Elements that are encoded at a time: whole leaves."""


@dataclass(frozen=True)
class OuterState:
    """The global model and the outer momentum, flat float32."""

    weights: Tensor
    momentum: Tensor


def begin_outer(weights: Tensor) -> OuterState:
    """The outer state before the first round: no momentum."""
    return OuterState(weights, allocate_zeros(weights.numel()))


def count_delta_bytes(parameter_count: int) -> int:
    """Bytes of an encoded pseudo-gradient: 260 for each state leaf."""
    return count_tensor_leaves(parameter_count) * DELTA_LEAF_BYTES


def encode_delta(global_weights: Tensor, final_weights: Tensor) -> bytes:
    """The pseudo-gradient global - final as blocks of one exponent byte and 64 int8 (flat float32 vectors
    in).

    Raises ProtocolFault where it is not finite or an exponent exceeds 71: the training has diverged."""
    pairs = zip(*(torch.split(flat, PART_ELEMENTS) for flat in (global_weights, final_weights)), strict=True)
    return b"".join(_encode_part(before - after) for before, after in pairs)


def _encode_part(difference: Tensor) -> bytes:
    relax()
    blocks = _cut_blocks(difference).double()
    exponents = _compute_exponents(blocks.abs().amax(dim=1))
    quanta = (blocks * _power_of_two(-exponents).unsqueeze(1)).round().to(torch.int8)
    biased = (exponents + SCALE_EXPONENT_BIAS).to(torch.uint8).unsqueeze(1)
    return torch.cat((biased, quanta.view(torch.uint8)), dim=1).numpy().tobytes()


def _cut_blocks(flat: Tensor) -> Tensor:
    padding = -flat.numel() % LEAF_ELEMENTS
    return torch.nn.functional.pad(flat, (0, padding)).view(-1, BLOCK_ELEMENTS)


def _compute_exponents(largest: Tensor) -> Tensor:
    """The smallest e >= -149 with largest <= 127 * 2^e, int64, of float64 magnitudes that float32 holds."""
    if not bool(torch.isfinite(largest).all()):
        raise _diverged("a non-finite element")
    bits = largest.view(torch.int64)
    # largest = f * 2^x with 1 <= f < 2: at most 127 * 2^(x - 6) where f <= 127/64, else 127 * 2^(x - 5).
    fraction = bits & ((1 << DOUBLE_FRACTION_BITS) - 1)
    x = (bits >> DOUBLE_FRACTION_BITS) - DOUBLE_BIAS
    above = fraction > ((QUANTUM_MAX - 64) << (DOUBLE_FRACTION_BITS - 6))
    exponents = (x - 6 + above.to(torch.int64)).clamp(min=SCALE_EXPONENT_MIN)
    if int(exponents.max()) > SCALE_EXPONENT_MAX:
        raise _diverged(f"exponent {int(exponents.max())}")
    return exponents


def _diverged(actual: str) -> ProtocolFault:
    return ProtocolFault(
        what="a pseudo-gradient is out of range",
        expected=f"finite and at most 127 * 2^{SCALE_EXPONENT_MAX}",
        actual=actual,
        remedy="The training has diverged; do not claim this round.",
    )


def _power_of_two(exponents: Tensor) -> Tensor:
    """2^e in float64, built from its bits: a library's pow need not be exact."""
    return ((exponents + DOUBLE_BIAS) << DOUBLE_FRACTION_BITS).view(torch.float64)


def decode_delta(data: bytes, parameter_count: int) -> Tensor:
    """The values q * 2^e, exact, flat float32; zeros where no encoding has such a scale. Every byte string of
    the right length has a value, so that no solver's bytes can stop a merge. Raises ProtocolFault on another
    length."""
    blocks = _view_blocks(data, parameter_count)
    exponents = blocks[:, 0].to(torch.int64) - SCALE_EXPONENT_BIAS
    quanta = blocks[:, 1:].contiguous().view(torch.int8).double()
    quanta[exponents > SCALE_EXPONENT_MAX] = 0.0
    values = (quanta * _power_of_two(exponents).unsqueeze(1)).float()
    # -0 of a negative zero quantum cannot arise: int8 has one zero.
    return values.reshape(-1)[:parameter_count].contiguous()


def _view_blocks(data: bytes, parameter_count: int) -> Tensor:
    if len(data) != count_delta_bytes(parameter_count):
        raise ProtocolFault(
            what="a pseudo-gradient has another length",
            expected=f"{count_delta_bytes(parameter_count)} bytes",
            actual=f"{len(data)} bytes",
            remedy="Refuse it and ask another peer.",
        )
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).view(-1, DELTA_BLOCK_BYTES)


def merge(
    state: OuterState, deltas: Sequence[bytes], learning_rate_bits: int, momentum_bits: int
) -> OuterState:
    """The outer step over the included claims' bytes in ascending shard order (at most 64; none: unchanged).

    Rates are float32 bit patterns, as in `TaskTerms`. An element that would leave the finite numbers stays as
    it is."""
    if len(deltas) > MAX_SHARDS:
        raise InvalidInput(
            what="too many claims for one merge", expected=f"at most {MAX_SHARDS}", actual=len(deltas),
            remedy="Check the included set.",
        )  # fmt: skip
    if not deltas:
        return state
    mean = compute_mean(deltas, state.weights.numel())
    return apply_outer_step(state, mean, bits_to_float(learning_rate_bits), bits_to_float(momentum_bits))


def compute_mean(deltas: Sequence[bytes], parameter_count: int) -> Tensor:
    """D = fl(s / n), s summed in the order given: flat float32."""
    total = decode_delta(deltas[0], parameter_count)
    for delta in deltas[1:]:
        total = total + decode_delta(delta, parameter_count)
    # A tensor of divisors: some kernels turn division by one scalar into a product with its inverse.
    return total / torch.full_like(total, float(len(deltas)))


def apply_outer_step(
    state: OuterState, mean: Tensor, learning_rate: float, momentum_factor: float
) -> OuterState:
    """M' = fl(fl(mu M) + D), W' = fl(W - fl(eta fl(D + fl(mu M')))), element by element, where all of it is
    finite."""
    momentum = state.momentum * momentum_factor + mean
    step = mean + momentum * momentum_factor
    weights = state.weights - step * learning_rate
    # Any non-finite intermediate leaves a non-finite W' behind: it only ever enters sums and products.
    is_finite = torch.isfinite(weights) & torch.isfinite(momentum)
    return OuterState(
        torch.where(is_finite, weights, state.weights), torch.where(is_finite, momentum, state.momentum)
    )
