"""Computes the outer Nesterov step of DiLoCo (arXiv 2311.08105) on whole tensors.

Every node computes the merge again from the committed bytes and compares roots, so each bit counts. The
operations are separate IEEE-754 additions, multiplications and divisions in a fixed order, equal on any
machine. They are computed piece by piece, by compiled loops as in `pseudo_gradients.py`. The reference, one
element at a time, is `protocol/spec/outer_update.py`; the rules are in docs/spec.md, section 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from touchstone.protocol.compute.outer.pseudo_gradients import add_blocks, require_vector, view_blocks
from touchstone.protocol.compute.program.compiled_loops import Floats, Int8s, compile_loop
from touchstone.protocol.compute.program.tensor_allocator import allocate_vector, allocate_zeros, relax
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.float32 import bits_to_float
from touchstone.protocol.spec.params import BLOCK_ELEMENTS, MAX_SHARDS


@compile_loop
def step_elements(
    weights: Floats, momentum: Floats, total: Floats, count: np.float32, rate: np.float32, factor: np.float32,
    new_weights: Floats, new_momentum: Floats,
) -> None:  # fmt: skip
    """Computes D = fl(total / count), M' = fl(fl(factor M) + D), W' = fl(W - fl(rate fl(D + fl(factor M')))),
    float32 [n] each. An element keeps its old M and W if the new M' or W' is not finite. Checking these two
    is enough, because any number that was not finite on the way makes W' so too."""
    for k in range(len(weights)):
        mean = total[k] / count
        moment = factor * momentum[k] + mean
        weight = weights[k] - rate * (mean + factor * moment)
        is_finite = np.isfinite(moment) and np.isfinite(weight)
        new_weights[k] = weight if is_finite else weights[k]
        new_momentum[k] = moment if is_finite else momentum[k]


PIECE_ELEMENTS = 1 << 15
"""Elements that are merged at a time, in whole leaves. Their sum stays in the cache, however many claims are
added."""


@dataclass(frozen=True)
class OuterState:
    """The global model and the outer momentum, flat float32."""

    weights: Tensor
    momentum: Tensor


def begin_outer(weights: Tensor) -> OuterState:
    """Returns the outer state before the first round, with zero momentum."""
    return OuterState(weights, allocate_zeros(weights.numel()))


def merge(
    state: OuterState, deltas: Sequence[bytes | memoryview], learning_rate_bits: int, momentum_bits: int
) -> OuterState:
    """Returns the outer state after adding the claims' bytes in ascending shard order (at most 64; none:
    unchanged).

    Rates are float32 bit patterns, as in `TaskTerms`. An element that would become infinite or NaN stays as
    it is. Raises InvalidInput for more claims or unsuitable tensors, ProtocolFault for bytes of another
    length."""
    if len(deltas) > MAX_SHARDS:
        raise InvalidInput(
            what="too many claims for one merge", expected=f"at most {MAX_SHARDS}", actual=len(deltas),
            remedy="Check the included set.",
        )  # fmt: skip
    if not deltas:
        return state
    count = state.weights.numel()
    blocks = [view_blocks(delta, count) for delta in deltas]
    old = [require_vector(flat, count) for flat in (state.weights, state.momentum)]
    after = OuterState(allocate_vector(count), allocate_vector(count))
    weights, momentum, new_weights, new_momentum = (
        flat.numpy() for flat in (*old, after.weights, after.momentum)
    )
    rate, factor = (np.float32(bits_to_float(bits)) for bits in (learning_rate_bits, momentum_bits))
    for start in range(0, count, PIECE_ELEMENTS):
        piece = slice(start, min(start + PIECE_ELEMENTS, count))
        total = _add_up(blocks, piece)
        step_elements(
            weights[piece], momentum[piece], total, np.float32(len(deltas)), rate, factor,
            new_weights[piece], new_momentum[piece],
        )  # fmt: skip
        relax()
    return after


def _add_up(blocks: Sequence[Int8s], piece: slice) -> Floats:
    """Returns the sum of the claims' elements in a piece, added in the given order."""
    own = slice(piece.start // BLOCK_ELEMENTS, -(-piece.stop // BLOCK_ELEMENTS))
    total = np.zeros(BLOCK_ELEMENTS * (own.stop - own.start), np.float32)
    for one in blocks:
        add_blocks(one[own], total)
    return total
