"""Compiles sums of exact programs (`spec/exact.py`): terms are rounded to integers of one unit, and added."""

from math import frexp, ldexp

import numpy as np

from touchstone.protocol.compute.program.compiled_loops import Floats, Int64s, UInt32s, compile_loop
from touchstone.protocol.compute.program.exact.quantizing_loops import find_base
from touchstone.protocol.spec.exact_sums import SUM_BITS


@compile_loop
def find_unit(largest: np.float32) -> float:
    """Returns the unit to which terms of a sum are rounded, from the largest magnitude; 1 if that is 0."""
    if largest == 0:
        return 1.0
    _, exponent = frexp(np.float64(largest))
    return ldexp(1.0, exponent - 1 - SUM_BITS)


@compile_loop
def sum_rows(
    x: Floats, b: UInt32s, offset: int, sizes: Int64s, strides: Int64s, terms: int, out: Floats
) -> None:
    """Sums rows whose terms are contiguous."""
    for row in range(len(out)):
        base = find_base(row, sizes, strides, offset)
        patterns, own = b[base : base + terms], x[base : base + terms]
        doubled, largest = np.uint32(0), np.float32(0.0)
        for k in range(terms):
            doubled = max(doubled, np.uint32(patterns[k] << np.uint32(1)))
        if doubled >= np.uint32(0xFF000000):
            out[row] = np.nan
            continue
        for k in range(terms):
            largest = max(largest, abs(own[k]))
        unit = find_unit(largest)
        inverse, total = 1.0 / unit, np.int64(0)
        for k in range(terms):
            total += np.int64(np.rint(np.float64(own[k]) * inverse))
        out[row] = np.float32(np.float64(total) * unit)


@compile_loop
def sum_selected(
    x: Floats, offset: int, across: int, order: Int64s, keys: Int64s, columns: int, stride: int, out: Floats,
    at: int, down: int,
) -> None:  # fmt: skip
    """Computes rows of a table: each is the sum of the rows of x at the places with its key. `order` are
    places, sorted by key. x lies at offset + place * across + column * stride, the table at `at` + key * down
    + column."""
    largest = np.zeros(columns, np.float32)
    unit, total = np.zeros(columns), np.zeros(columns)
    start = 0
    while start < len(order):
        key, stop = keys[order[start]], start
        while stop < len(order) and keys[order[stop]] == key:
            stop += 1
        largest[:] = 0
        for n in range(start, stop):
            base = offset + order[n] * across
            for c in range(columns):
                value = abs(x[base + c * stride])
                largest[c] = value if not value <= largest[c] else largest[c]
        for c in range(columns):
            unit[c], total[c] = find_unit(largest[c]) if largest[c] < np.inf else np.nan, 0.0
        for n in range(start, stop):
            base = offset + order[n] * across
            for c in range(columns):
                total[c] += np.rint(np.float64(x[base + c * stride]) / unit[c])
        for c in range(columns):
            out[at + key * down + c] = np.float32(total[c] * unit[c])
        start = stop
