"""Computes the outer step, element by element, on float32 bits (docs/spec.md, section 5).

It is the reference that `compute/outer/` and `OuterMath.sol` (the chain) equal bit for bit. DiLoCo (arXiv
2311.08105): mean of the pseudo-gradients, then Nesterov. Every function has a result for any finite input, so
that any state can be claimed and any disputed element has one right answer.
"""

from collections.abc import Sequence

from touchstone.protocol.spec import float32
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.params import LEAF_BYTES, LEAF_ELEMENTS, MAX_SHARDS
from touchstone.protocol.spec.pseudo_gradient import decode_delta_leaf, unpack_leaf


class _NotFinite(ArithmeticError):
    """A result of the outer step is not finite; then the element keeps its values."""


def compute_mean(values: Sequence[int]) -> int:
    """Returns D = fl(s / n), where s is summed in the given order (ascending shard), of 1 to 64 finite
    numbers as bits.

    Raises ArithmeticError if the sum overflows, which values of claims (at most 2^78) cannot cause."""
    if not 1 <= len(values) <= MAX_SHARDS:
        raise InvalidInput(
            what="a mean of claims has another size",
            expected=f"1 to {MAX_SHARDS}",
            actual=len(values),
            remedy="Cut tensors with split_leaves.",
        )
    total = values[0]
    for value in values[1:]:
        total = _finite(float32.add(total, value))
    return float32.divide(total, float32.float_to_bits(float(len(values))))


def compute_outer_element(
    weight: int, momentum: int, deltas: Sequence[int], learning_rate: int, momentum_factor: int
) -> tuple[int, int]:
    """Returns (W', M') as bits: M' = fl(fl(mu M) + D), W' = fl(W - fl(eta fl(D + fl(mu M')))).

    `deltas` are the included claims' values in ascending shard order. The element stays as it is without
    deltas, and if an intermediate result is not finite. So the step has a result whatever a claim
    contains."""
    if not deltas:
        return weight, momentum
    try:
        mean = compute_mean(deltas)
        new_momentum = _finite(float32.add(_finite(float32.multiply(momentum_factor, momentum)), mean))
        step = _finite(float32.add(mean, _finite(float32.multiply(momentum_factor, new_momentum))))
        return _finite(float32.subtract(weight, _finite(float32.multiply(learning_rate, step)))), new_momentum
    except _NotFinite:
        return weight, momentum


def compute_outer_leaf(
    weights: bytes,
    momentum: bytes,
    delta_leaves: Sequence[bytes],
    learning_rate: int,
    momentum_factor: int,
    elements: int = LEAF_ELEMENTS,
) -> tuple[bytes, bytes]:
    """Returns the new weights leaf and momentum leaf (1024 bytes each) from the old ones and the included
    claims' leaves. The tensor has `elements` elements; the rest of a leaf is zero, whatever claims have
    there."""
    deltas = [decode_delta_leaf(leaf) for leaf in delta_leaves]
    stepped = [
        compute_outer_element(
            weight, moment, [values[i] for values in deltas], learning_rate, momentum_factor
        )
        for i, (weight, moment) in enumerate(zip(unpack_leaf(weights), unpack_leaf(momentum), strict=True))
    ]
    new_weights, new_momentum = (float32.pack_bits(list(column)) for column in zip(*stepped, strict=True))
    size = elements * LEAF_BYTES // LEAF_ELEMENTS
    return new_weights[:size].ljust(LEAF_BYTES, b"\0"), new_momentum[:size].ljust(LEAF_BYTES, b"\0")


def _finite(bits: int) -> int:
    if not float32.is_finite(bits):
        raise _NotFinite
    return bits
