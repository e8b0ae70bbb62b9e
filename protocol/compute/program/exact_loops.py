"""Compiled loops of exact programs, over flat memory (`spec/exact.py` says what each of them has to give).

Numba compiles each loop once a process. It keeps IEEE operations separate: nothing is contracted, reordered
or flushed. All arrays are flat and contiguous; what lies where is said by offsets and strides in elements. A
row is what is summed over. Names: x float32, b its patterns as int32.
"""

from collections.abc import Callable
from math import ldexp
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Int8s = NDArray[np.int8]
UInt8s = NDArray[np.uint8]
Int32s = NDArray[np.int32]
UInt32s = NDArray[np.uint32]
Int64s = NDArray[np.int64]

MAGNITUDE = np.int32(0x7FFFFFFF)
INFINITE = np.int32(0x7F800000)
NORMAL = np.float32(2.0**-126)
TURN = np.float32(1.5 * 2.0**23)
"""A number added to it is rounded to an integer, and stays one when it is subtracted again."""


def compile_loop(loop: Callable[..., Any]) -> Any:
    """Without the interpreter's lock, and with divisions as the processor does them."""
    return numba.njit(error_model="numpy", nogil=True)(loop)


# --- Rows: their places, scales and quantized values --------------------------------------------------------
@compile_loop
def find_base(row: int, sizes: Int64s, strides: Int64s, offset: int) -> np.int64:
    """Where row number `row` begins; the last loop runs fastest."""
    base, rest = np.int64(offset), np.int64(row)
    for n in range(len(sizes) - 1, -1, -1):
        base += (rest % sizes[n]) * strides[n]
        rest //= sizes[n]
    return base


@compile_loop
def choose_scale(largest: np.int32, limit: int, limit_bits: int) -> np.float32:
    """The scale of a row whose largest magnitude has this pattern."""
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
    """Scales of rows whose terms follow each other."""
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
    """Scales of rows that lie side by side: the last of `sizes` counts them, their terms are `step` apart."""
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
    """The inverse of each row's scale, 0 for NaN and for a row of zeros; false where float32 does not hold
    another one."""
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
    """The nearest integer, ties to even, where the result is below 2^22. NaN and infinities have inverse 0,
    and are 0."""
    return np.int32(np.float32(np.float32(x * inverse) + TURN) - TURN)


@compile_loop
def quantize_rows(
    x: Floats, offset: int, sizes: Int64s, strides: Int64s, terms: int, inverses: Floats, planes: int,
    out: Int8s,
) -> None:  # fmt: skip
    """Rows whose terms follow each other: row for row the terms' bytes, or their high bytes and then their
    low ones, q = 128 h + l."""
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
    """Rows that lie side by side: term for term the rows' bytes, or their high bytes and then their low
    ones."""
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
    """Any rows, to int32: also where the inverse of a scale is too large for float32."""
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
    """Rows whose terms follow each other, to int32."""
    for row in range(len(inverses)):
        base, at = find_base(row, sizes, strides, offset), row * terms
        inverse, own, to = inverses[row], x[base : base + terms], out[at : at + terms]
        if inverse == 0:
            to[:] = 0
        else:
            for k in range(terms):
                to[k] = quantize_one(own[k], inverse)


# --- Products -----------------------------------------------------------------------------------------------
@compile_loop
def join_planes(planes: Int8s, width: int, out: Int32s) -> None:
    """128 h + l, where `width` high bytes stand before as many low ones."""
    for line in range(len(out) // width):
        high = planes[2 * line * width : 2 * line * width + width]
        low = planes[2 * line * width + width : 2 * line * width + 2 * width]
        to = out[line * width : line * width + width]
        for n in range(width):
            to[n] = (np.int32(high[n]) << 7) + np.int32(low[n])


@compile_loop
def split_planes(words: Int32s, width: int, planes: int, out: Int8s) -> None:
    """The way back, `width` at a time."""
    for line in range(len(words) // width):
        own = words[line * width : line * width + width]
        at = line * width * planes
        for n in range(width):
            h = (own[n] + np.int32(64)) >> 7
            out[at + n] = own[n] if planes == 1 else h
            if planes == 2:
                out[at + width + n] = own[n] - (h << 7)


@compile_loop
def finish_sums(
    sums: Doubles | Int32s, a: Floats, b: Doubles, rows: int, columns: int, out: Floats, at: int, down: int,
    across: int,
) -> None:  # fmt: skip
    """Exact sums times their scales, rounded once, to `at` + row * down + column * across. A library may give
    -0 for a product of one term: +0 is added."""
    line = np.empty(columns, np.float32)
    for i in range(rows):
        scale, own = np.float64(a[i]), sums[i * columns : i * columns + columns]
        to = out[at + i * down : at + i * down + columns] if across == 1 else line
        for j in range(columns):
            to[j] = np.float32((np.float64(own[j]) + 0.0) * (scale * b[j]))
        if across != 1:
            for j in range(columns):
                out[at + i * down + j * across] = line[j]


@compile_loop
def finish_planes(
    sums: Int32s, rows_apart: bool, columns_apart: bool, a: Floats, b: Doubles, rows: int, columns: int,
    out: Floats, at: int, down: int, across: int,
) -> None:  # fmt: skip
    """As finish_sums, of the products of two planes with two. Planes of an operand lie apart, all of one
    behind all of the other, or take turns row for row."""
    width = 2 * columns
    line = np.empty(columns, np.float32)
    for i in range(rows):
        scale = np.float64(a[i])
        first, second = (i, i + rows) if rows_apart else (2 * i, 2 * i + 1)
        high, low = sums[first * width : (first + 1) * width], sums[second * width : (second + 1) * width]
        to = out[at + i * down : at + i * down + columns] if across == 1 else line
        if columns_apart:
            hh, hl, lh, ll = high[:columns], high[columns:], low[:columns], low[columns:]
            for j in range(columns):
                middle = np.float64(np.int32(hl[j] + lh[j]))
                total = np.float64(hh[j]) * 16384.0 + middle * 128.0 + np.float64(ll[j])
                to[j] = np.float32(total * (scale * b[j]))
        else:
            for j in range(columns):
                middle = np.float64(np.int32(high[2 * j + 1] + low[2 * j]))
                total = np.float64(high[2 * j]) * 16384.0 + middle * 128.0 + np.float64(low[2 * j + 1])
                to[j] = np.float32(total * (scale * b[j]))
        if across != 1:
            for j in range(columns):
                out[at + i * down + j * across] = line[j]


@compile_loop
def multiply_rows(a: Int32s, b: Int32s, terms: int, scale_a: Floats, scale_b: Floats, out: Floats) -> None:
    """For each row: the sum of products of whole int32, times both scales."""
    for row in range(len(out)):
        own, other = a[row * terms : row * terms + terms], b[row * terms : row * terms + terms]
        total = np.int64(0)
        for k in range(terms):
            total += np.int64(own[k]) * np.int64(other[k])
        scale = np.float64(scale_a[row]) * np.float64(scale_b[row])
        out[row] = np.float32(np.float64(total) * scale)
