"""Encodes and adds pseudo-gradients as blocks of int8, on whole tensors.

The reference, one element at a time, is `protocol/spec/outer_update.py`; the rules are in docs/spec.md,
section 5. Separate tensor operations would read and write every element some twenty times; the compiled loops
pass over memory once. Numba rounds each operation alone, as `compiled_loops.py` says: nothing is contracted,
reordered or flushed. All arrays are contiguous. A block is 64 elements, or 65 bytes (int8): the scale's
exponent + 149, then 64 integers.
"""

from math import ldexp

import numpy as np
import torch
from torch import Tensor

from touchstone.protocol.compute.digest import require_finite
from touchstone.protocol.compute.program.compiled_loops import Floats, Int8s, UInt32s, compile_loop
from touchstone.protocol.compute.program.tensor_allocator import relax
from touchstone.protocol.spec.data_trees import count_tensor_leaves
from touchstone.protocol.spec.errors import InvalidInput, ProtocolFault
from touchstone.protocol.spec.float32 import float_to_bits
from touchstone.protocol.spec.params import (
    BLOCK_ELEMENTS,
    BLOCKS_PER_LEAF,
    DELTA_BLOCK_BYTES,
    DELTA_LEAF_BYTES,
    QUANTUM_MAX,
    SCALE_BYTE_MAX,
    SCALE_EXPONENT_BIAS,
    SCALE_EXPONENT_MAX,
)

FRACTION_BITS = 23
FIELD_MAX = 255
"""The exponent field of NaN and of infinities."""
LARGEST = np.float32(ldexp(float(QUANTUM_MAX), SCALE_EXPONENT_MAX))
"""Larger differences are cut to this, infinite ones too."""
LARGEST_PATTERN = float_to_bits(float(LARGEST))


@compile_loop
def encode_blocks(difference: Floats, patterns: UInt32s, out: Int8s) -> bool:
    """Encodes float32 [64 blocks], given also as bit patterns, to int8 [blocks, 65]. Values too large for an
    encoding are cut, in place.

    Returns whether all values were finite."""
    is_finite = True
    for block in range(len(out)):
        first, doubled = block * BLOCK_ELEMENTS, np.uint32(0)
        for pattern in patterns[first : first + BLOCK_ELEMENTS]:
            doubled = max(doubled, np.uint32(pattern << np.uint32(1)))
        largest = int(np.int64(doubled >> np.uint32(1)))
        values = difference[first : first + BLOCK_ELEMENTS]
        if largest > LARGEST_PATTERN:
            is_finite = is_finite and largest >> FRACTION_BITS != FIELD_MAX
            largest = LARGEST_PATTERN
            for k in range(BLOCK_ELEMENTS):
                values[k] = max(-LARGEST, min(LARGEST, values[k]))
        field = largest >> FRACTION_BITS
        # The magnitude is `units` * 2^(power - 149).
        power = max(0, field - 1)
        units, shift = largest - (power << FRACTION_BITS), 0
        while units > QUANTUM_MAX << shift:
            shift += 1
        exponent = power + shift
        # In float64 the product is exact.
        inverse = ldexp(1.0, SCALE_EXPONENT_BIAS - exponent)
        quanta = out[block, 1:]
        for k in range(BLOCK_ELEMENTS):
            quanta[k] = np.int8(np.int32(np.rint(np.float64(values[k]) * inverse)))
        out[block, 0] = np.int8(exponent)
    return is_finite


@compile_loop
def add_blocks(blocks: Int8s, total: Floats) -> None:
    """Computes total[i] = fl(total[i] + q * 2^e), float32 [64 blocks] and int8 [blocks, 65]. q * 2^e is
    exact. A block whose first byte exceeds 220 counts as zeros, which change no sum that began at +0."""
    for block in range(len(blocks)):
        exponent = int(blocks[block, 0]) & 0xFF
        if exponent <= SCALE_BYTE_MAX:
            scale = np.float32(ldexp(1.0, exponent - SCALE_EXPONENT_BIAS))
            own = blocks[block, 1:]
            to = total[block * BLOCK_ELEMENTS : (block + 1) * BLOCK_ELEMENTS]
            for k in range(BLOCK_ELEMENTS):
                to[k] += np.float32(own[k]) * scale


PART_ELEMENTS = 1 << 20
"""Elements that are encoded at a time, in whole leaves."""


def count_delta_bytes(parameter_count: int) -> int:
    """Returns the bytes of an encoded pseudo-gradient: 260 for each state leaf."""
    return count_tensor_leaves(parameter_count) * DELTA_LEAF_BYTES


def encode_delta(global_weights: Tensor, final_weights: Tensor) -> bytes:
    """Returns the pseudo-gradient global - final (float32 [n] each) as blocks of one exponent byte and 64
    int8.

    Every pair of finite vectors has an encoding, because elements beyond 127 * 2^71 are cut. Raises
    ProtocolFault if a weight is not finite, InvalidInput for unsuitable tensors."""
    count = global_weights.numel()
    before, after = (require_vector(flat, count) for flat in (global_weights, final_weights))
    blocks = np.empty((count_tensor_leaves(count) * BLOCKS_PER_LEAF, DELTA_BLOCK_BYTES), np.int8)
    memory = torch.empty(min(PART_ELEMENTS, BLOCK_ELEMENTS * len(blocks)))
    for start in range(0, count, PART_ELEMENTS):
        part = slice(start, start + PART_ELEMENTS)
        own = blocks[start // BLOCK_ELEMENTS : (start + PART_ELEMENTS) // BLOCK_ELEMENTS]
        difference = memory[: BLOCK_ELEMENTS * len(own)]
        have = len(before[part])
        torch.sub(before[part], after[part], out=difference[:have])
        difference[have:] = 0
        if not encode_blocks(difference.numpy(), difference.numpy().view(np.uint32), own):
            # The difference of finite weights may be infinite.
            require_finite(before[part], "the weights before")
            require_finite(after[part], "the weights after")
        relax()
    return blocks.tobytes()


def require_vector(flat: Tensor, count: int) -> Tensor:
    """Returns a flat float32 vector of this size, contiguous. Raises InvalidInput for any other tensor."""
    if flat.dtype != torch.float32 or list(flat.shape) != [count]:
        raise InvalidInput(
            what="the outer step takes flat vectors of one size",
            expected=f"float32 [{count}]",
            actual=f"{flat.dtype} {list(flat.shape)}",
            remedy="Flatten the parameters in canonical order.",
        )
    return flat.detach().contiguous()


def decode_delta(data: bytes | memoryview, parameter_count: int) -> Tensor:
    """Returns the values q * 2^e, exact, float32 [n]; zeros for a scale that no encoding has. Every byte
    string of the right length has values, so that no solver's bytes can stop a merge. Raises ProtocolFault if
    the length is wrong."""
    blocks = view_blocks(data, parameter_count)
    values = np.zeros(BLOCK_ELEMENTS * len(blocks), np.float32)
    add_blocks(blocks, values)
    return torch.from_numpy(values[:parameter_count])


def view_blocks(data: bytes | memoryview, parameter_count: int) -> Int8s:
    """Returns the bytes as int8 [blocks, 65], without a copy."""
    if len(data) != count_delta_bytes(parameter_count):
        raise ProtocolFault(
            what="a pseudo-gradient has the wrong length",
            expected=f"{count_delta_bytes(parameter_count)} bytes",
            actual=f"{len(data)} bytes",
            remedy="Refuse it and ask another peer.",
        )
    blocks = np.frombuffer(data, np.int8).reshape(-1, DELTA_BLOCK_BYTES)
    # Make all arrays read-only: loops are compiled again for writable ones.
    blocks.flags.writeable = False
    return blocks
