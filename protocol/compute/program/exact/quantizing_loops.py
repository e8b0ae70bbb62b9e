"""Compiles loops over rows: places, scales and quantized values (`spec/exact.py`).

All arrays are flat and contiguous; offsets and strides are in elements. A row is a set of terms that are
summed. Names: x is float32, b its bits as int32.
"""

from math import ldexp

import numpy as np

from touchstone.protocol.compute.program.compiled_loops import (
    INFINITE,
    NORMAL,
    TURN,
    Floats,
    Int8s,
    Int32s,
    Int64s,
    UInt32s,
    compile_loop,
)


@compile_loop
def find_base(row: int, sizes: Int64s, strides: Int64s, offset: int) -> np.int64:
    """Returns where row number `row` begins; the last loop runs fastest."""
    base, rest = np.int64(offset), np.int64(row)
    for n in range(len(sizes) - 1, -1, -1):
        base += (rest % sizes[n]) * strides[n]
        rest //= sizes[n]
    return base


@compile_loop
def choose_scale(largest: np.int32, limit: int, limit_bits: int) -> np.float32:
    """Returns the scale of a row whose largest magnitude has these bits."""
    if largest >= INFINITE:
        return np.float32(np.nan)
    field, power = int(largest >> 23), 0
    if field == 0:
        while (int(largest) + (1 << power >> 1)) >> power > limit:
            power += 1
    else:
        shift = 24 - limit_bits
        magnitude = (int(largest) & 0x7FFFFF) | 0x800000
        power = field - 1 + shift
        if magnitude >= (2 * limit + 1) << (shift - 1):
            power += 1
    return np.float32(ldexp(1.0, power - 149))


@compile_loop
def scale_rows(
    b: UInt32s, offset: int, sizes: Int64s, strides: Int64s, terms: int, limit: int, limit_bits: int,
    out: Floats,
) -> None:  # fmt: skip
    """Computes the scales of rows whose terms are contiguous."""
    for row in range(len(out)):
        base = find_base(row, sizes, strides, offset)
        own = b[base : base + terms]
        doubled = np.uint32(0)
        for k in range(terms):
            doubled = max(doubled, np.uint32(own[k] << np.uint32(1)))
        out[row] = choose_scale(np.int32(doubled >> np.uint32(1)), limit, limit_bits)


@compile_loop
def scale_columns(
    b: UInt32s, offset: int, sizes: Int64s, strides: Int64s, terms: int, step: int, limit: int,
    limit_bits: int, out: Floats,
) -> None:  # fmt: skip
    """Computes the scales of rows that lie side by side. The last of `sizes` counts them; their terms are
    `step` apart."""
    width = sizes[-1]
    doubled = np.empty(width, np.uint32)
    for block in range(len(out) // width):
        base = find_base(block * width, sizes, strides, offset)
        doubled[:] = 0
        for k in range(terms):
            own = b[base + k * step : base + k * step + width]
            for n in range(width):
                doubled[n] = max(doubled[n], np.uint32(own[n] << np.uint32(1)))
        for n in range(width):
            largest = np.int32(doubled[n] >> np.uint32(1))
            out[block * width + n] = choose_scale(largest, limit, limit_bits)


@compile_loop
def invert(
    x: Floats, offset: int, sizes: Int64s, strides: Int64s, terms: int, step: int, scales: Floats, out: Floats
) -> bool:
    """Computes the inverse of each row's scale: 0 for NaN and for a row of zeros. Returns False if an inverse
    does not fit into float32."""
    is_held = True
    for row in range(len(scales)):
        if scales[row] >= NORMAL:
            out[row] = np.float32(1.0) / scales[row]
        else:
            out[row] = np.float32(0.0)
            base = find_base(row, sizes, strides, offset)
            if scales[row] > 0 and is_held:
                for k in range(terms):
                    is_held = is_held and x[base + k * step] == 0
    return is_held


@compile_loop
def quantize_one(x: np.float32, inverse: np.float32) -> np.int32:
    """Returns the nearest integer, ties to even, if the result is below 2^22. NaN and infinities have inverse
    0, so they become 0."""
    return np.int32(np.float32(np.float32(x * inverse) + TURN) - TURN)


@compile_loop
def quantize_rows(
    x: Floats, offset: int, sizes: Int64s, strides: Int64s, terms: int, inverses: Floats, planes: int,
    out: Int8s,
) -> None:  # fmt: skip
    """Quantizes rows whose terms are contiguous. Writes for each row the bytes of its terms, or first all
    high bytes and then all low ones (q = 128 h + l)."""
    for row in range(len(inverses)):
        base, at = find_base(row, sizes, strides, offset), row * terms * planes
        inverse, own, high = inverses[row], x[base : base + terms], out[at : at + terms]
        if inverse == 0:
            out[at : at + terms * planes] = 0
        elif planes == 1:
            for k in range(terms):
                high[k] = np.int8(quantize_one(own[k], inverse))
        else:
            low = out[at + terms : at + 2 * terms]
            for k in range(terms):
                q = quantize_one(own[k], inverse)
                h = np.int32(q + np.int32(64)) >> 7
                high[k] = np.int8(h)
                low[k] = np.int8(q - (h << 7))


@compile_loop
def quantize_columns(
    x: Floats, offset: int, sizes: Int64s, strides: Int64s, terms: int, step: int, inverses: Floats,
    planes: int, out: Int8s,
) -> None:  # fmt: skip
    """Quantizes rows that lie side by side. Writes for each term the bytes of all rows, or first all high
    bytes and then all low ones."""
    width = sizes[-1]
    for block in range(len(inverses) // width):
        base = find_base(block * width, sizes, strides, offset)
        inverse = inverses[block * width : block * width + width]
        for k in range(terms):
            own = x[base + k * step : base + k * step + width]
            at = (block * terms + k) * width * planes
            high = out[at : at + width]
            if planes == 1:
                for n in range(width):
                    q = quantize_one(own[n], inverse[n])
                    high[n] = np.int8(q if inverse[n] != 0 else np.int32(0))
            else:
                low = out[at + width : at + 2 * width]
                for n in range(width):
                    q = quantize_one(own[n], inverse[n])
                    q = q if inverse[n] != 0 else np.int32(0)
                    h = np.int32(q + np.int32(64)) >> 7
                    high[n] = np.int8(h)
                    low[n] = np.int8(q - (h << 7))


@compile_loop
def quantize_slowly(
    x: Floats, offset: int, sizes: Int64s, strides: Int64s, terms: int, step: int, scales: Floats, out: Int32s
) -> None:  # fmt: skip
    """Quantizes any rows to int32, even if the inverse of a scale does not fit into float32."""
    for row in range(len(scales)):
        base, at = find_base(row, sizes, strides, offset), row * terms
        scale = np.float64(scales[row])
        for k in range(terms):
            value = np.float64(x[base + k * step]) / scale
            out[at + k] = np.int32(np.rint(value)) if scale > 0 else np.int32(0)


@compile_loop
def quantize_words(
    x: Floats, offset: int, sizes: Int64s, strides: Int64s, terms: int, inverses: Floats, out: Int32s
) -> None:  # fmt: skip
    """Quantizes rows whose terms are contiguous, to int32."""
    for row in range(len(inverses)):
        base, at = find_base(row, sizes, strides, offset), row * terms
        inverse, own, to = inverses[row], x[base : base + terms], out[at : at + terms]
        if inverse == 0:
            to[:] = 0
        else:
            for k in range(terms):
                to[k] = quantize_one(own[k], inverse)
