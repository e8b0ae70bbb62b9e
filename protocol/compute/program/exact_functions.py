"""Compiled sums, functions and products of exact programs (`spec/exact.py` says what each gives).

Sums round their terms to integers of one unit, and add those. Functions are steps of integers.

Two ways to multiply quantized matrices: as bytes or as float64. The sums are exact, so the bits are equal.
Bytes are four times as fast where the processor has instructions for them, and slower than float64 elsewhere.
For each shape they first have to prove that they are right: older processors saturate sums of byte products.
"""

from collections.abc import Callable, Iterator
from functools import partial
from math import frexp, ldexp
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from touchstone.protocol.compute.determinism import has_byte_products
from touchstone.protocol.compute.program import exact_loops as loops
from touchstone.protocol.compute.program.exact_loops import (
    INFINITE,
    MAGNITUDE,
    Floats,
    Int32s,
    Int64s,
    UInt32s,
    compile_loop,
    find_base,
)
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.exact import (
    EXPONENTIAL_COEFFICIENTS,
    LN_2,
    LOG2_E,
    LOGARITHM_COEFFICIENTS,
    ROOT_2,
    SUM_BITS,
)
from touchstone.protocol.spec.program import Node, Operation

# --- Sums and functions -------------------------------------------------------------------------------------
FAR = np.int32(0x42AE0000)
"""87: below it exp is a normal number."""
SIGN = np.int32(-0x80000000)
C0, C1, C2, C3, C4, C5, C6, C7, C8 = map(np.int64, EXPONENTIAL_COEFFICIENTS)
_LOGARITHM = np.array(LOGARITHM_COEFFICIENTS, dtype=np.int64)


# --- Sums ---------------------------------------------------------------------------------------------------
@compile_loop
def find_unit(largest: np.float32) -> float:
    """What terms of a sum are rounded to, by the largest magnitude; 1 where that is 0."""
    if largest == 0:
        return 1.0
    _, exponent = frexp(np.float64(largest))
    return ldexp(1.0, exponent - 1 - SUM_BITS)


@compile_loop
def sum_rows(
    x: Floats, b: UInt32s, offset: int, sizes: Int64s, strides: Int64s, terms: int, out: Floats
) -> None:
    """Sums of rows whose terms follow each other."""
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
    """Rows of a table: each the sum of the rows of x at those places whose key it has. order: places, sorted
    by key; x lies at offset + place * across + column * stride, the table at `at` + key * down + column."""
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


# --- Functions ----------------------------------------------------------------------------------------------
@compile_loop
def find_power(pattern: np.int32) -> tuple[np.int64, np.int64]:
    """(n, series): exp of a number below 128 in magnitude is series * 2^(n - 30). It serves
    subnormal numbers too: their product is shifted by 63 places, and nothing is left of it."""
    magnitude = np.int64(pattern & MAGNITUDE)
    significand = (magnitude & np.int64(0x7FFFFF)) | np.int64(0x800000)
    y = (significand * np.int64(LOG2_E)) >> min(np.int64(156) - (magnitude >> 23), np.int64(63))
    y = -y if pattern < 0 else y
    n = (y + np.int64(1 << 31)) >> 32
    f = y - (n << 32)
    series = C7 + ((C8 * f) >> 32)
    series = C6 + ((series * f) >> 32)
    series = C5 + ((series * f) >> 32)
    series = C4 + ((series * f) >> 32)
    series = C3 + ((series * f) >> 32)
    series = C2 + ((series * f) >> 32)
    series = C1 + ((series * f) >> 32)
    return n, C0 + ((series * f) >> 32)


@compile_loop
def find_exponential(pattern: np.int32) -> np.int32:
    """exp where it is a normal number: patterns in, patterns out. Steps without branches, so that the
    processor takes several elements at once."""
    n, series = find_power(pattern)
    is_long = np.int64(1) if series >= np.int64(1 << 30) else np.int64(0)
    shift = np.int64(6) + is_long
    rounded = (series + ((np.int64(1) << (shift - 1)) - 1) + ((series >> shift) & 1)) >> shift
    return np.int32(((n + is_long + np.int64(125)) << 23) + rounded)


@compile_loop
def find_far_exponential(pattern: np.int32) -> np.float32:
    """exp of what FAR excludes: infinities, NaN, and results that are subnormal or too large."""
    magnitude = pattern & MAGNITUDE
    if magnitude > INFINITE:
        return np.float32(np.nan)
    if magnitude >= np.int32(0x43000000):
        return np.float32(0.0) if pattern < 0 else np.float32(np.inf)
    n, series = find_power(pattern)
    return np.float32(np.float64(series) * ldexp(1.0, int(n - 30)))


@compile_loop
def take_exponentials(x: Floats, b: Int32s, out: Floats, patterns: Int32s) -> None:
    """exp of each element. patterns: the same memory as out."""
    far = np.int32(0)
    for n in range(len(patterns)):
        patterns[n] = find_exponential(b[n])
        far = max(far, np.int32(b[n] & MAGNITUDE))
    if far >= FAR:
        for n in range(len(out)):
            if b[n] & MAGNITUDE >= FAR:
                out[n] = find_far_exponential(b[n])


@compile_loop
def take_sigmoids(x: Floats, b: Int32s, out: Floats, patterns: Int32s) -> None:
    """1 / (1 + exp(-x)) of each element. patterns: the same memory as out."""
    far = np.int32(0)
    for n in range(len(patterns)):
        patterns[n] = find_exponential(b[n] ^ SIGN)
        far = max(far, np.int32(b[n] & MAGNITUDE))
    if far >= FAR:
        for n in range(len(out)):
            if b[n] & MAGNITUDE >= FAR:
                out[n] = find_far_exponential(b[n] ^ SIGN)
    one = np.float32(1.0)
    for n in range(len(out)):
        out[n] = one / (one + out[n])


@compile_loop
def choose_largest(a: Floats, b: Floats, out: Floats) -> None:
    """The larger of each pair, or of each element and the one number b; NaN where one is; a zero is +0."""
    if len(b) == 1:
        other = b[0]
        for n in range(len(out)):
            chosen = a[n] if a[n] > other or a[n] != a[n] else other
            out[n] = (other if other != other else chosen) + np.float32(0.0)
    else:
        for n in range(len(out)):
            chosen = a[n] if a[n] > b[n] or a[n] != a[n] else b[n]
            out[n] = (b[n] if b[n] != b[n] else chosen) + np.float32(0.0)


@compile_loop
def choose_smallest(a: Floats, b: Floats, out: Floats) -> None:
    """As choose_largest, the smaller one."""
    if len(b) == 1:
        other = b[0]
        for n in range(len(out)):
            chosen = a[n] if a[n] < other or a[n] != a[n] else other
            out[n] = (other if other != other else chosen) + np.float32(0.0)
    else:
        for n in range(len(out)):
            chosen = a[n] if a[n] < b[n] or a[n] != a[n] else b[n]
            out[n] = (b[n] if b[n] != b[n] else chosen) + np.float32(0.0)


@compile_loop
def take_logarithms(x: Floats, b: Int32s, out: Floats, patterns: Int32s) -> None:
    """ln of each element."""
    for n in range(len(out)):
        pattern = b[n]
        if pattern & MAGNITUDE > INFINITE or (pattern < 0 and pattern & MAGNITUDE != 0):
            out[n] = np.nan
        elif pattern & MAGNITUDE == 0:
            out[n] = -np.inf
        elif pattern == INFINITE:
            out[n] = np.inf
        else:
            fraction, exponent = frexp(np.float64(x[n]))
            magnitude, power = np.int64(fraction * 16777216.0), np.int64(exponent - 1)
            one = np.int64(0x800000)
            if magnitude > ROOT_2:
                one, power = np.int64(0x1000000), power + 1
            quotient = (abs(magnitude - one) << 34) // (magnitude + one)
            square = (quotient >> 4) * (quotient >> 4) >> 28
            series = np.int64(0)
            for k in range(len(_LOGARITHM) - 1, -1, -1):
                series = _LOGARITHM[k] + ((series * square) >> 32)
            total = (quotient * series) >> 26
            if magnitude < one:
                total = -total
            whole = np.float64(power * np.int64(LN_2) + total)
            out[n] = np.float32(whole * 2.0**-38)


# --- Products -----------------------------------------------------------------------------------------------
PLANES_OF_PAIRS = 2


class Side(NamedTuple):
    """One operand of a batch of products. is_turned: its memory goes term for term, [batch, terms, planes,
    rows], else row for row, [batch, rows, planes, terms]."""

    rows: int
    is_turned: bool


class Shape(NamedTuple):
    """A batch of products of [rows, terms] and [columns, terms]. planes of int8: 1 or 2; 0: int32."""

    batch: int
    left: Side
    right: Side
    terms: int
    planes: int


Finish = Callable[..., None]
"""(scales of rows, scales of columns as float64, rows, columns, out, at, down, across): write one product."""
Multiply = Callable[[Tensor, Tensor, Shape], Iterator[Finish]]
"""(flat quantized values of both operands, shape) to what finishes each product of the batch."""


def multiply_doubles(a: Tensor, b: Tensor, shape: Shape) -> Iterator[Finish]:
    """Through float64: sums stay below 2^53."""
    left, right = _widen(a, shape.left, shape), _widen(b, shape.right, shape)
    for product in torch.bmm(left, right.transpose(1, 2)):
        yield partial(loops.finish_sums, product.reshape(-1).numpy())


def _widen(values: Tensor, side: Side, shape: Shape) -> Tensor:
    """float64 [batch, rows, terms]."""
    words = join(values, side.rows if side.is_turned else shape.terms, shape.planes)
    if side.is_turned:
        return words.double().view(shape.batch, shape.terms, side.rows).transpose(1, 2)
    return words.double().view(shape.batch, side.rows, shape.terms)


def join(values: Tensor, width: int, planes: int) -> Tensor:
    """Quantized values, one number each: int8, or int32 [n] of two planes."""
    if planes != PLANES_OF_PAIRS:
        return values
    words = torch.empty(values.numel() // 2, dtype=torch.int32)
    loops.join_planes(values.numpy(), width, words.numpy())
    return words


def multiply_bytes(a: Tensor, b: Tensor, shape: Shape) -> Iterator[Finish]:
    """As int8 with int32 sums: all planes of one operand with all of the other in one product."""
    left, right = _stack(a, shape.left, shape), _stack(b, shape.right, shape)
    for n in range(shape.batch):
        sums = torch._int_mm(left[n], right[n].t()).numpy().reshape(-1)
        if shape.planes == 1:
            yield partial(loops.finish_sums, sums)
        else:
            yield partial(loops.finish_planes, sums, shape.left.is_turned, shape.right.is_turned)


def _stack(values: Tensor, side: Side, shape: Shape) -> Tensor:
    """int8 [batch, planes * rows, terms], as it lies."""
    lines = shape.planes * side.rows
    if side.is_turned:
        return values.view(shape.batch, shape.terms, lines).transpose(1, 2)
    return values.view(shape.batch, lines, shape.terms)


FAMILIES: dict[str, Multiply] = {"bytes": multiply_bytes, "doubles": multiply_doubles}
_chosen: dict[Shape, Multiply] = {}
_forced: list[str] = []


def force_family(name: str | None) -> None:
    """Have this process take one family; None: the one that is chosen for each shape."""
    _forced[:] = [] if name is None else [name]


def is_allowed(name: str) -> bool:
    """Whether this process may take a family."""
    return _forced in ([], [name])


def choose_family(shape: Shape) -> Multiply:
    """Bytes, where this processor has instructions for them and they prove right for this shape."""
    if shape.planes == 0:
        return multiply_doubles
    if _forced:
        return FAMILIES[_forced[0]]
    if shape not in _chosen:
        _chosen[shape] = _choose(shape)
    return _chosen[shape]


def _choose(shape: Shape) -> Multiply:
    if not has_byte_products():
        return multiply_doubles
    if shape.terms == 1:
        return multiply_doubles  # `_int_mm` of one term writes nothing, and gives what memory held.
    is_right = all(_is_right(_draw_extremes(shape, signs), shape) for signs in SIGNS)
    return multiply_bytes if is_right else multiply_doubles


def _is_right(samples: tuple[Tensor, Tensor], shape: Shape) -> bool:
    right, own = (_finish(multiply, samples, shape) for multiply in (multiply_doubles, multiply_bytes))
    return np.array_equal(right, own)


SIGNS = ((0, 0), (1, 1), (1, -1), (-1, 1), (-1, -1))
"""Of the samples of both sides; 0: of either sign."""


def _draw_extremes(shape: Shape, signs: tuple[int, int] = SIGNS[0]) -> tuple[Tensor, Tensor]:
    """Values of the whole range, half of them at its ends, where sums of byte products may saturate; or all
    at one end: few random ones would not show it."""
    generator = torch.Generator().manual_seed(0)
    limit = 127 if shape.planes == 1 else 16319
    drawn = []
    for side, sign in zip((shape.left, shape.right), signs, strict=True):
        count = shape.batch * side.rows * shape.terms
        words = torch.randint(-limit, limit + 1, (count,), generator=generator, dtype=torch.int32)
        words[::2] = words[::2].sign() * limit
        if sign:
            words.fill_(sign * limit)
        values = torch.empty(shape.planes * count, dtype=torch.int8)
        width = side.rows if side.is_turned else shape.terms
        loops.split_planes(words.numpy(), width, shape.planes, values.numpy())
        drawn.append(values)
    return drawn[0], drawn[1]


def _finish(multiply: Multiply, samples: tuple[Tensor, Tensor], shape: Shape) -> loops.Floats:
    rows, columns = shape.left.rows, shape.right.rows
    out = np.empty(shape.batch * rows * columns, np.float32)
    scales = np.ones(rows, np.float32), np.ones(columns, np.float64)
    for n, finish in enumerate(multiply(*samples, shape)):
        finish(*scales, rows, columns, out, n * rows * columns, columns, 1)
    return out


def require_quantized(node: Node) -> None:
    """Raises InvalidInput for a product sum of floats: an exact program has none."""
    if node.operation is Operation.PRODUCT_SUM:
        raise InvalidInput(
            what="an exact program has a product sum that is not quantized",
            expected="QUANTIZED_PRODUCT_SUM",
            actual=node.operation.name,
            remedy="Build the program for the format exact.",
        )
