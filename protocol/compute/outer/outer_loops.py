"""The pseudo-gradient and the outer step as compiled loops: one pass over memory each.

As passes of their own the operations read and write every element some twenty times. Numba rounds each
operation by itself, as `exact_loops.py` says: nothing is contracted, reordered or flushed. All arrays are
contiguous. A block is 64 elements, or 65 bytes (int8): the scale's exponent + 149, then 64 integers. Rules in
docs/spec.md, section 5.
"""

from math import ldexp

import numpy as np

from protocol.compute.program.exact_loops import Floats, Int8s, UInt32s, compile_loop
from protocol.spec.params import BLOCK_ELEMENTS, QUANTUM_MAX, SCALE_BYTE_MAX, SCALE_EXPONENT_BIAS

NOT_FINITE = -1
FRACTION_BITS = 23
FIELD_MAX = 255
"""The exponent field of NaN and of infinities."""


@compile_loop
def encode_blocks(difference: Floats, patterns: UInt32s, out: Int8s) -> int:
    """Float32 [64 blocks] and the same as its patterns, to int8 [blocks, 65].

    Returns the largest exponent + 149; where that exceeds 220, `out` is of no use. Returns NOT_FINITE where
    an element is not finite."""
    found = 0
    for block in range(len(out)):
        first, doubled = block * BLOCK_ELEMENTS, np.uint32(0)
        for pattern in patterns[first : first + BLOCK_ELEMENTS]:
            doubled = max(doubled, np.uint32(pattern << np.uint32(1)))
        largest = int(doubled >> np.uint32(1))
        field = largest >> FRACTION_BITS
        if field == FIELD_MAX:
            return NOT_FINITE
        # The magnitude is `units` * 2^(power - 149).
        power = max(0, field - 1)
        units, shift = largest - (power << FRACTION_BITS), 0
        while units > QUANTUM_MAX << shift:
            shift += 1
        exponent = power + shift
        found = max(found, exponent)
        # In float64 the product is exact.
        inverse = ldexp(1.0, SCALE_EXPONENT_BIAS - exponent)
        values, quanta = difference[first : first + BLOCK_ELEMENTS], out[block, 1:]
        for k in range(BLOCK_ELEMENTS):
            quanta[k] = np.int8(np.int32(np.rint(np.float64(values[k]) * inverse)))
        out[block, 0] = np.int8(exponent)
    return found


@compile_loop
def add_blocks(blocks: Int8s, total: Floats) -> None:
    """total[i] = fl(total[i] + q * 2^e), float32 [64 blocks] and int8 [blocks, 65]. q * 2^e is exact. A block
    whose first byte exceeds 220 is zeros, which change no sum that began at +0."""
    for block in range(len(blocks)):
        exponent = int(blocks[block, 0]) & 0xFF
        if exponent <= SCALE_BYTE_MAX:
            scale = np.float32(ldexp(1.0, exponent - SCALE_EXPONENT_BIAS))
            own = blocks[block, 1:]
            to = total[block * BLOCK_ELEMENTS : (block + 1) * BLOCK_ELEMENTS]
            for k in range(BLOCK_ELEMENTS):
                to[k] += np.float32(own[k]) * scale


@compile_loop
def step_elements(
    weights: Floats, momentum: Floats, total: Floats, count: np.float32, rate: np.float32, factor: np.float32,
    new_weights: Floats, new_momentum: Floats,
) -> None:  # fmt: skip
    """D = fl(total / count), M' = fl(fl(factor M) + D), W' = fl(W - fl(rate fl(D + fl(factor M')))), float32
    [n] each. Where M' or W' is not finite both stay as they are: whatever was not finite on the way leaves
    such a W', since it only enters sums and products."""
    for k in range(len(weights)):
        mean = total[k] / count
        moment = factor * momentum[k] + mean
        weight = weights[k] - rate * (mean + factor * moment)
        is_finite = np.isfinite(moment) and np.isfinite(weight)
        new_weights[k] = weight if is_finite else weights[k]
        new_momentum[k] = moment if is_finite else momentum[k]
