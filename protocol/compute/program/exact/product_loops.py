"""Compiles loops for products of quantized values: joins planes of bytes, and multiplies sums by scales."""

import numpy as np

from touchstone.protocol.compute.program.compiled_loops import Doubles, Floats, Int8s, Int32s, compile_loop


@compile_loop
def join_planes(planes: Int8s, width: int, out: Int32s) -> None:
    """Computes 128 h + l from `width` high bytes, followed by as many low ones."""
    for line in range(len(out) // width):
        high = planes[2 * line * width : 2 * line * width + width]
        low = planes[2 * line * width + width : 2 * line * width + 2 * width]
        to = out[line * width : line * width + width]
        for n in range(width):
            to[n] = (np.int32(high[n]) << 7) + np.int32(low[n])


@compile_loop
def split_planes(words: Int32s, width: int, planes: int, out: Int8s) -> None:
    """Splits values into planes, the opposite of `join_planes`, `width` values at a time."""
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
    """Multiplies exact sums by their scales, rounds once, and writes them to `at` + row * down + column *
    across. It adds +0, because a library may give -0 for a product of one term."""
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
    """Finishes sums as finish_sums does, for products of two planes with two. An operand's planes lie one
    after the other, or alternate row by row."""
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
    """Computes, for each row, the sum of products of int32 values, times both scales."""
    for row in range(len(out)):
        own, other = a[row * terms : row * terms + terms], b[row * terms : row * terms + terms]
        total = np.int64(0)
        for k in range(terms):
            total += np.int64(own[k]) * np.int64(other[k])
        scale = np.float64(scale_a[row]) * np.float64(scale_b[row])
        out[row] = np.float32(np.float64(total) * scale)
