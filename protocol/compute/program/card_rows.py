"""Computes sums, maxima and scales of rows, and products of two rows, as Triton kernels.

A tile has some rows (y) and some terms (x); a program walks all terms of its rows. Intermediate values are
integers, or float64 sums of integers below 2^53, so the order does not matter.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import frexp, prod
from typing import Any

import torch
import triton.language as tl

from touchstone.protocol.compute.program.card_compile import compile_card, launch
from touchstone.protocol.compute.program.card_elements import Kernel, find_corner, find_unit, step_along
from touchstone.protocol.compute.program.card_layout import OUTER, Loops, Tiling, cut_tiles, join_loops
from touchstone.protocol.compute.program.card_numbers import (
    INFINITE,
    MAGNITUDE,
    choose_scale,
    find_unit_exponent,
    make_power,
    round_double,
)
from touchstone.protocol.compute.program.planning.node_views import NodeViews
from touchstone.protocol.spec.program_operations import QUANTIZED_LIMITS, Operation

SCALE_OF = tl.constexpr(int(Operation.SCALE_OF))
SUM = tl.constexpr(int(Operation.SUM))
MAXIMUM_OF = tl.constexpr(int(Operation.MAXIMUM_OF))
TILE_ELEMENTS = 2048
MOST_TERMS, LEAST_TERMS = 2048, 64
"""The most and the fewest terms of a tile."""
MOST_COLUMNS, LEAST_COLUMNS = 64, 8
"""The most and the fewest rows of a tile if rows lie side by side."""
PROGRAMS = 264
"""Twice the multiprocessors of a large card, which would idle with fewer programs."""
WARPS = 4
LEAST = tl.constexpr(-0x80000000)


# Rows of float32
@compile_card
def take_keys(values: tl.tensor, operation: tl.constexpr) -> Any:
    """Returns integers that compare as the magnitudes do, or as the numbers do; NaN is the largest."""
    pattern = values.to(tl.int32, bitcast=True)
    magnitude = pattern & MAGNITUDE
    keys = magnitude
    if operation == MAXIMUM_OF:
        keys = tl.where(magnitude > INFINITE, MAGNITUDE, pattern ^ ((pattern >> 31) & MAGNITUDE))
    return keys


@compile_card
def reduce_rows(
    out: tl.pointer_type, a: tl.pointer_type, x_size: tl.tensor, y_size: tl.tensor, o1: tl.tensor,
    o2: tl.tensor, y_tiles: tl.tensor, blocks: tl.tensor, block_stride: tl.tensor, out_x: tl.tensor,
    out_y: tl.tensor, out_0: tl.tensor, out_1: tl.tensor, out_2: tl.tensor, a_x: tl.tensor, a_y: tl.tensor,
    a_0: tl.tensor, a_1: tl.tensor, a_2: tl.tensor, operation: tl.constexpr, is_single: tl.constexpr,
    fraction: tl.constexpr, exponent: tl.constexpr, x_unit: tl.constexpr, y_unit: tl.constexpr,
    block_unit: tl.constexpr, out_kx: tl.constexpr, out_ky: tl.constexpr, out_unit: tl.constexpr,
    a_kx: tl.constexpr, a_ky: tl.constexpr, a_unit: tl.constexpr, block_x: tl.constexpr,
    block_y: tl.constexpr, is_wide: tl.constexpr,
) -> None:  # fmt: skip
    """Reduces some rows. Terms are read in `blocks` of x_size. `is_single` says that one tile holds all
    terms."""
    number = tl.program_id(0)
    y, outer = number % y_tiles * block_y, number // y_tiles
    i0, i1, i2 = outer // o2 // o1, outer // o2 % o1, outer % o2
    xs, ys = tl.arange(0, block_x), tl.arange(0, block_y)
    if is_wide:
        xs, ys = xs.to(tl.int64), ys.to(tl.int64)
    y_mask, terms = y + ys < y_size * y_unit, x_size * x_unit
    at = find_corner(0 * y, y, i0, i1, i2, a_x, a_y, a_0, a_1, a_2, 0, a_ky, a_unit)
    rows = step_along(ys, a_y, a_ky, a_unit)[:, None]
    between = block_stride.to(tl.int64) * block_unit
    least = LEAST if operation == MAXIMUM_OF else 0
    keys = tl.full((block_y, block_x), least, tl.int32)
    held = tl.zeros((block_y, block_x), tl.float32)
    for block in range(blocks):
        start = at + block * between
        for x in range(0, terms, block_x):
            mask = y_mask[:, None] & (x + xs < terms)[None, :]
            places = rows + step_along(x + xs, a_x, a_kx, a_unit)[None, :]
            held = tl.load(a + start + places, mask=mask, other=0.0)
            keys = tl.maximum(keys, tl.where(mask, take_keys(held, operation), least))
    largest = tl.max(keys, 1)
    if operation == MAXIMUM_OF:
        pattern = tl.where(largest < 0, largest ^ MAGNITUDE, largest)
        result = pattern.to(tl.float32, bitcast=True) + 0.0
    elif operation == SCALE_OF:
        result = choose_scale(largest, fraction, exponent)
    else:
        unit = find_unit_exponent(largest)
        inverse = make_power(-unit)[:, None]
        total = tl.zeros((block_y, block_x), tl.float64)
        if is_single:
            total = round_double(held.to(tl.float64) * inverse)
        else:
            for block in range(blocks):
                start = at + block * between
                for x in range(0, terms, block_x):
                    mask = y_mask[:, None] & (x + xs < terms)[None, :]
                    places = rows + step_along(x + xs, a_x, a_kx, a_unit)[None, :]
                    again = tl.load(a + start + places, mask=mask, other=0.0)
                    total += round_double(again.to(tl.float64) * inverse)
        exact = tl.sum(total, 1) * make_power(unit) + 0.0
        result = tl.where(largest < INFINITE, exact, float("nan")).to(tl.float32)
    at = find_corner(0 * y, y, i0, i1, i2, out_x, out_y, out_0, out_1, out_2, 0, out_ky, out_unit)
    tl.store(out + at + step_along(ys, out_y, out_ky, out_unit), result, mask=y_mask)


# Products of rows
@compile_card
def find_place(
    number: tl.tensor, n1: tl.tensor, n2: tl.tensor, s0: tl.tensor, s1: tl.tensor, s2: tl.tensor
) -> Any:
    """Returns the place of a row in a tensor with up to three loops of rows; `n1` and `n2` are the sizes of
    the last two."""
    whole = number.to(tl.int64)
    return whole // n2 // n1 * s0 + whole // n2 % n1 * s1 + whole % n2 * s2


@compile_card
def read_words(
    pointer: tl.pointer_type, plane: tl.tensor, places: tl.tensor, mask: tl.tensor, planes: tl.constexpr
) -> Any:
    """Reads quantized values; two planes are joined as 128 h + l."""
    words = tl.load(pointer + places, mask=mask, other=0).to(tl.int32)
    if planes == 2:
        words = (words << 7) + tl.load(pointer + plane + places, mask=mask, other=0).to(tl.int32)
    return words


@compile_card
def multiply_rows(
    out: tl.pointer_type, a: tl.pointer_type, b: tl.pointer_type, scale_a: tl.pointer_type,
    scale_b: tl.pointer_type, rows: tl.tensor, terms: tl.tensor, n1: tl.tensor, n2: tl.tensor,
    out_0: tl.tensor, out_1: tl.tensor, out_2: tl.tensor, a_0: tl.tensor, a_1: tl.tensor, a_2: tl.tensor,
    b_0: tl.tensor, b_1: tl.tensor, b_2: tl.tensor, planes: tl.constexpr, unit: tl.constexpr,
    block_x: tl.constexpr, block_y: tl.constexpr,
) -> None:  # fmt: skip
    """Computes, for some rows, the sum of products of quantized values, times both scales."""
    number = tl.program_id(0) * block_y + tl.arange(0, block_y)
    y_mask, width = number < rows, terms * unit
    xs = tl.arange(0, block_x)
    places = number.to(tl.int64)[:, None] * width
    plane = rows.to(tl.int64) * width
    total = tl.zeros((block_y, block_x), tl.int64)
    for x in range(0, width, block_x):
        mask = y_mask[:, None] & (x + xs < width)[None, :]
        own = read_words(a, plane, places + (x + xs)[None, :], mask, planes)
        other = read_words(b, plane, places + (x + xs)[None, :], mask, planes)
        total += own.to(tl.int64) * other.to(tl.int64)
    exact = tl.sum(total, 1).to(tl.float64)
    first = tl.load(scale_a + find_place(number, n1, n2, a_0, a_1, a_2), mask=y_mask, other=0.0)
    second = tl.load(scale_b + find_place(number, n1, n2, b_0, b_1, b_2), mask=y_mask, other=0.0)
    result = exact * (first.to(tl.float64) * second.to(tl.float64)) + 0.0
    at = find_place(number, n1, n2, out_0, out_1, out_2)
    tl.store(out + at, result.to(tl.float32), mask=y_mask)


# Launching
@dataclass(frozen=True)
class _Rows:
    """How a reduction walks its rows. `blocks` are blocks of terms, `block_stride` apart."""

    tiling: Tiling
    blocks: int
    block_stride: int


def _round_up(size: int, least: int, most: int) -> int:
    """Returns the next power of two within these bounds."""
    return min(max(1 << (size - 1).bit_length(), least), most)


def _plan_rows(views: NodeViews) -> _Rows | None:
    node = views.node
    own, count = node.operands[0].strides, len(node.output_sizes)
    terms = join_loops(node.sizes[count:], own[count:])
    loops = join_loops(node.output_sizes, node.output.strides, own[:count])
    if len(terms.sizes) > 2 or len(loops.sizes) > OUTER + 1:
        return None
    *blocks, width = terms.sizes or (1,)
    *block_strides, step = terms.strides[0] or (0,)
    beside = [n for n, stride in enumerate(loops.strides[1]) if stride == 1]
    if beside and step != 1:
        y = beside[-1]
        block_y = MOST_COLUMNS
        while block_y > LEAST_COLUMNS and _count_tiles(loops, y, block_y) < PROGRAMS:
            block_y //= 2
        block_x = TILE_ELEMENTS // block_y
    else:
        y = max(range(len(loops.sizes)), key=lambda n: loops.sizes[n], default=-1)
        block_x = _round_up(width, LEAST_TERMS, MOST_TERMS)
        block_y = TILE_ELEMENTS // block_x
    whole = Loops((*loops.sizes, width), ((*loops.strides[0], 0), (*loops.strides[1], step)))
    tiling = cut_tiles(whole, len(loops.sizes), y, block_x, block_y)
    return None if tiling is None else _Rows(tiling, *(blocks or [1]), *(block_strides or [0]))


def _count_tiles(loops: Loops, y: int, block_y: int) -> int:
    return prod(size if n != y else -(-size // block_y) for n, size in enumerate(loops.sizes))


def make_reduction(views: NodeViews) -> Kernel | None:
    """Returns the kernel of a SUM, MAXIMUM_OF or SCALE_OF; None if it has too many loops."""
    node, rows = views.node, _plan_rows(views)
    if rows is None:
        return None
    out, a, tiling = views.output, views.operand(0), rows.tiling
    x, y, o0, o1, o2 = tiling.sizes
    x_unit, y_unit, block_unit = find_unit(x), find_unit(y), find_unit(rows.block_stride)
    y_tiles = -(-y // tiling.block_y)
    counts = (x // x_unit, y // y_unit, o1, o2, y_tiles, rows.blocks, rows.block_stride // block_unit)
    told = [tiling.describe(0), tiling.describe(1)]
    strides = [stride for own, _ in told for stride in own]
    is_single = rows.blocks == 1 and x <= tiling.block_x
    fraction, exponent = frexp(QUANTIZED_LIMITS.get(node.selected, 0) + 0.5)
    constants = (is_single, fraction, exponent, x_unit, y_unit, block_unit)
    kinds = [kind for _, own in told for kind in own]
    # The places of all terms of a row are counted from its first.
    is_wide = tiling.is_wide or tiling.strides[1][0] * x >= 1 << 31
    last = (tiling.block_x, tiling.block_y, is_wide)
    grid = (y_tiles * o0 * o1 * o2,)

    def run() -> None:
        """Computes the node once."""
        launch(
            reduce_rows, grid, out, out, a, *counts, *strides, int(node.operation), *constants, *kinds,
            *last, num_warps=WARPS,
        )  # fmt: skip

    return run


def make_row_products(
    views: NodeViews, loops: Sequence[int], terms: int, planes: int, operands: Sequence[torch.Tensor]
) -> Kernel | None:
    """Returns the kernel of a QUANTIZED_PRODUCT_SUM that is no matrix product; None if it has too many loops.
    `loops` are the loops of rows; both `operands` are flat."""
    node = views.node
    accesses = (node.output, *node.operands[2:])
    joined = join_loops(
        [node.sizes[n] for n in loops], *([one.strides[n] for n in loops] for one in accesses)
    )
    if len(joined.sizes) > OUTER:
        return None
    spare = [0] * (OUTER - len(joined.sizes))
    _, n1, n2 = [*[1] * len(spare), *joined.sizes]
    strides = [stride for own in joined.strides for stride in (*spare, *own)]
    rows = prod(joined.sizes)
    block_x = _round_up(terms, LEAST_TERMS, MOST_TERMS // 2)
    block_y, unit = MOST_TERMS // block_x, find_unit(terms)
    out, scale_a, scale_b = views.output, views.operand(2), views.operand(3)
    grid = (-(-rows // block_y),)

    def run() -> None:
        """Computes the node once."""
        launch(
            multiply_rows, grid, out, out, *operands, scale_a, scale_b, rows, terms // unit, n1, n2,
            *strides, planes, unit, block_x, block_y, num_warps=WARPS,
        )  # fmt: skip

    return run
