"""Computes elementwise and quantizing nodes as Triton kernels, in tiles of two loops.

A kernel sees each tensor as five strides (x, y and three outer loops) and three constants: how it moves along
x and along y (`card_layout.STILL`, `NEXT`, `APART`), and the alignment of its rows in elements, in which the
other strides are counted.
"""

from collections.abc import Callable
from typing import Any

import triton.language as tl

from touchstone.protocol.compute.program.card_compile import compile_card, launch
from touchstone.protocol.compute.program.card_layout import TURNED_TILE, Tiling, tile_elements
from touchstone.protocol.compute.program.card_numbers import (
    INFINITE,
    MAGNITUDE,
    TURN_BITS,
    TURN_FLOAT,
    round_double,
    take_exponential,
    take_logarithm,
    take_reciprocal_root,
    take_sigmoid,
)
from touchstone.protocol.compute.program.planning.node_views import NodeViews
from touchstone.protocol.spec.program import Access
from touchstone.protocol.spec.program_addressing import lay_row_major
from touchstone.protocol.spec.program_operations import QUANTIZED_LIMITS, Operation

Kernel = Callable[[], object]
WARPS, TURNED_WARPS = 4, 8
SIXTEEN = 16
ADD = tl.constexpr(int(Operation.ADD))
SUBTRACT = tl.constexpr(int(Operation.SUBTRACT))
MULTIPLY = tl.constexpr(int(Operation.MULTIPLY))
DIVIDE = tl.constexpr(int(Operation.DIVIDE))
MAXIMUM = tl.constexpr(int(Operation.MAXIMUM))
MINIMUM = tl.constexpr(int(Operation.MINIMUM))
SQUARE_ROOT = tl.constexpr(int(Operation.SQUARE_ROOT))
RECIPROCAL_ROOT = tl.constexpr(int(Operation.RECIPROCAL_ROOT))
EXPONENTIAL = tl.constexpr(int(Operation.EXPONENTIAL))
LOGARITHM = tl.constexpr(int(Operation.LOGARITHM))
SIGMOID = tl.constexpr(int(Operation.SIGMOID))
FLUSH = tl.constexpr(int(Operation.FLUSH))
FINITE_SELECT = tl.constexpr(int(Operation.FINITE_SELECT))
WIDE_BITS = tl.constexpr(20)
PLANE_BITS = tl.constexpr(15)


# Places
@compile_card
def find_corner(
    x: tl.tensor, y: tl.tensor, first: tl.tensor, second: tl.tensor, third: tl.tensor, sx: tl.tensor,
    sy: tl.tensor, s0: tl.tensor, s1: tl.tensor, s2: tl.tensor, x_kind: tl.constexpr, y_kind: tl.constexpr,
    unit: tl.constexpr,
) -> Any:  # fmt: skip
    """Returns the number of a tensor's element at the corner of a tile."""
    corner = first.to(tl.int64) * s0 + second.to(tl.int64) * s1 + third.to(tl.int64) * s2
    if x_kind == 2:
        corner += x.to(tl.int64) * sx
    if y_kind == 2:
        corner += y.to(tl.int64) * sy
    corner *= unit
    if x_kind == 1:
        corner += x
    if y_kind == 1:
        corner += y
    return corner


@compile_card
def step_along(index: tl.tensor, stride: tl.tensor, kind: tl.constexpr, unit: tl.constexpr) -> Any:
    """Returns places of a tile along one of its loops."""
    if kind == 2:
        places = index * (stride * unit)
    else:
        places = index
    return places


@compile_card
def read_tile(
    pointer: tl.pointer_type, corner: tl.tensor, xs: tl.tensor, ys: tl.tensor, x_mask: tl.tensor,
    y_mask: tl.tensor, sx: tl.tensor, sy: tl.tensor, x_kind: tl.constexpr, y_kind: tl.constexpr,
    unit: tl.constexpr,
) -> Any:  # fmt: skip
    """Reads a tile of a tensor. If the tensor's stride along one of the tile's loops is 0, reads only a row
    or a column; if both strides are 0, one number."""
    if x_kind == 0 and y_kind == 0:
        tile = tl.load(pointer + corner)
    elif x_kind == 0:
        tile = tl.load(pointer + corner + step_along(ys, sy, y_kind, unit), mask=y_mask, other=0)[:, None]
    elif y_kind == 0:
        tile = tl.load(pointer + corner + step_along(xs, sx, x_kind, unit), mask=x_mask, other=0)[None, :]
    else:
        rows, columns = step_along(ys, sy, y_kind, unit), step_along(xs, sx, x_kind, unit)
        places = rows[:, None] + columns[None, :]
        tile = tl.load(pointer + corner + places, mask=y_mask[:, None] & x_mask[None, :], other=0)
    return tile


@compile_card
def count_range(start: tl.tensor, block: tl.constexpr, is_wide: tl.constexpr) -> Any:
    """Returns the numbers of a tile's loop, from 0, in a type wide enough for places within a tile."""
    numbers = tl.arange(0, block)
    if is_wide:
        numbers = numbers.to(tl.int64)
    return numbers


# Elements
@compile_card
def compute_element(a: tl.tensor, b: tl.tensor, c: tl.tensor, operation: tl.constexpr) -> Any:
    """Computes one operation on float32 numbers."""
    if operation == ADD:
        result = a + b
    elif operation == SUBTRACT:
        result = a - b
    elif operation == MULTIPLY:
        result = a * b
    elif operation == DIVIDE:
        result = tl.div_rn(a, b)
    elif operation == MAXIMUM:
        result = tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL) + 0.0
    elif operation == MINIMUM:
        result = tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL) + 0.0
    elif operation == SQUARE_ROOT:
        result = tl.sqrt_rn(a)
    elif operation == RECIPROCAL_ROOT:
        result = take_reciprocal_root(a)
    elif operation == EXPONENTIAL:
        result = take_exponential(a)
    elif operation == LOGARITHM:
        result = take_logarithm(a)
    elif operation == SIGMOID:
        result = take_sigmoid(a)
    elif operation == FLUSH:
        result = tl.where(tl.abs(a) < b, 0.0, a)
    elif operation == FINITE_SELECT:
        result = tl.where((a.to(tl.int32, bitcast=True) & MAGNITUDE) < INFINITE, b, c)
    else:
        result = a
    return result


@compile_card
def compute_tiles(
    out: tl.pointer_type, a: tl.pointer_type, b: tl.pointer_type, c: tl.pointer_type, x_size: tl.tensor,
    y_size: tl.tensor, o1: tl.tensor, o2: tl.tensor, x_tiles: tl.tensor, y_tiles: tl.tensor,
    out_x: tl.tensor, out_y: tl.tensor, out_0: tl.tensor, out_1: tl.tensor, out_2: tl.tensor, a_x: tl.tensor,
    a_y: tl.tensor, a_0: tl.tensor, a_1: tl.tensor, a_2: tl.tensor, b_x: tl.tensor, b_y: tl.tensor,
    b_0: tl.tensor, b_1: tl.tensor, b_2: tl.tensor, c_x: tl.tensor, c_y: tl.tensor, c_0: tl.tensor,
    c_1: tl.tensor, c_2: tl.tensor, operation: tl.constexpr, count: tl.constexpr, x_unit: tl.constexpr,
    y_unit: tl.constexpr, out_kx: tl.constexpr, out_ky: tl.constexpr, out_unit: tl.constexpr,
    a_kx: tl.constexpr, a_ky: tl.constexpr, a_unit: tl.constexpr, b_kx: tl.constexpr, b_ky: tl.constexpr,
    b_unit: tl.constexpr, c_kx: tl.constexpr, c_ky: tl.constexpr, c_unit: tl.constexpr,
    block_x: tl.constexpr, block_y: tl.constexpr, is_wide: tl.constexpr,
) -> None:  # fmt: skip
    """Computes a tile of an elementwise node."""
    number = tl.program_id(0)
    x, y = number % x_tiles * block_x, number // x_tiles % y_tiles * block_y
    outer = number // x_tiles // y_tiles
    i0, i1, i2 = outer // o2 // o1, outer // o2 % o1, outer % o2
    xs, ys = count_range(0, block_x, is_wide), count_range(0, block_y, is_wide)
    x_mask, y_mask = x + xs < x_size * x_unit, y + ys < y_size * y_unit
    at = find_corner(x, y, i0, i1, i2, a_x, a_y, a_0, a_1, a_2, a_kx, a_ky, a_unit)
    first = read_tile(a, at, xs, ys, x_mask, y_mask, a_x, a_y, a_kx, a_ky, a_unit)
    second, third = first, first
    if count > 1:
        at = find_corner(x, y, i0, i1, i2, b_x, b_y, b_0, b_1, b_2, b_kx, b_ky, b_unit)
        second = read_tile(b, at, xs, ys, x_mask, y_mask, b_x, b_y, b_kx, b_ky, b_unit)
    if count > 2:
        at = find_corner(x, y, i0, i1, i2, c_x, c_y, c_0, c_1, c_2, c_kx, c_ky, c_unit)
        third = read_tile(c, at, xs, ys, x_mask, y_mask, c_x, c_y, c_kx, c_ky, c_unit)
    result = compute_element(first, second, third, operation)
    at = find_corner(x, y, i0, i1, i2, out_x, out_y, out_0, out_1, out_2, out_kx, out_ky, out_unit)
    rows, columns = step_along(ys, out_y, out_ky, out_unit), step_along(xs, out_x, out_kx, out_unit)
    places = rows[:, None] + columns[None, :]
    tl.store(out + at + places, result, mask=y_mask[:, None] & x_mask[None, :])


# Quantizing
@compile_card
def find_power_of(scale: tl.tensor) -> Any:
    """Returns (exponent, kind) of a scale. Kind 1 is a power of two, 2 another positive number, 0 neither."""
    pattern = scale.to(tl.int32, bitcast=True)
    fraction, field = pattern & 0x7FFFFF, pattern >> 23
    below = (fraction.to(tl.float32).to(tl.int32, bitcast=True) >> 23) - (127 + 149)
    exponent = tl.where(field > 0, field - 127, below)
    is_power = tl.where(field > 0, fraction == 0, (fraction & (fraction - 1)) == 0)
    is_number = (pattern > 0) & (pattern < INFINITE)
    return exponent, tl.where(is_number, tl.where(is_power, 1, 2), 0)


@compile_card
def make_float_power(exponent: tl.tensor) -> Any:
    """Returns 2^exponent as float32, for -126 to 127."""
    return ((exponent + 127) << 23).to(tl.float32, bitcast=True)


@compile_card
def quantize_tiles(
    out: tl.pointer_type, a: tl.pointer_type, scale: tl.pointer_type, x_size: tl.tensor, y_size: tl.tensor,
    o1: tl.tensor, o2: tl.tensor, x_tiles: tl.tensor, y_tiles: tl.tensor, plane: tl.tensor, out_x: tl.tensor,
    out_y: tl.tensor, out_0: tl.tensor, out_1: tl.tensor, out_2: tl.tensor, a_x: tl.tensor, a_y: tl.tensor,
    a_0: tl.tensor, a_1: tl.tensor, a_2: tl.tensor, b_x: tl.tensor, b_y: tl.tensor, b_0: tl.tensor,
    b_1: tl.tensor, b_2: tl.tensor, bits: tl.constexpr, limit: tl.constexpr, x_unit: tl.constexpr,
    y_unit: tl.constexpr, plane_unit: tl.constexpr, out_kx: tl.constexpr, out_ky: tl.constexpr,
    out_unit: tl.constexpr, a_kx: tl.constexpr, a_ky: tl.constexpr, a_unit: tl.constexpr, b_kx: tl.constexpr,
    b_ky: tl.constexpr, b_unit: tl.constexpr, block_x: tl.constexpr, block_y: tl.constexpr,
    is_wide: tl.constexpr,
) -> None:  # fmt: skip
    """Computes a tile of a QUANTIZE. It divides by a power of two in two multiplications, because float32
    cannot hold the inverse of the least scale."""
    number = tl.program_id(0)
    x, y = number % x_tiles * block_x, number // x_tiles % y_tiles * block_y
    outer = number // x_tiles // y_tiles
    i0, i1, i2 = outer // o2 // o1, outer // o2 % o1, outer % o2
    xs, ys = count_range(0, block_x, is_wide), count_range(0, block_y, is_wide)
    x_mask, y_mask = x + xs < x_size * x_unit, y + ys < y_size * y_unit
    at = find_corner(x, y, i0, i1, i2, b_x, b_y, b_0, b_1, b_2, b_kx, b_ky, b_unit)
    divisor = read_tile(scale, at, xs, ys, x_mask, y_mask, b_x, b_y, b_kx, b_ky, b_unit)
    at = find_corner(x, y, i0, i1, i2, a_x, a_y, a_0, a_1, a_2, a_kx, a_ky, a_unit)
    values = read_tile(a, at, xs, ys, x_mask, y_mask, a_x, a_y, a_kx, a_ky, a_unit)
    exponent, kind = find_power_of(divisor)
    half = (-exponent) >> 1
    quotient = values * make_float_power(half) * make_float_power(-exponent - half)
    quotient = tl.minimum(tl.maximum(quotient, -limit), limit)
    words = (quotient + TURN_FLOAT).to(tl.int32, bitcast=True) - TURN_BITS
    if b_kx == 0 and b_ky == 0:
        worst = kind
    else:
        worst = tl.max(kind)
    if worst == 2:
        wide = values.to(tl.float64) / divisor.to(tl.float64)
        wide = tl.minimum(tl.maximum(wide, -limit), limit)
        words = tl.where(kind == 2, round_double(wide).to(tl.int32), words)
    is_number = (values.to(tl.int32, bitcast=True) & MAGNITUDE) < INFINITE
    words = tl.where(is_number & (kind > 0), words, 0)
    at = find_corner(x, y, i0, i1, i2, out_x, out_y, out_0, out_1, out_2, out_kx, out_ky, out_unit)
    rows, columns = step_along(ys, out_y, out_ky, out_unit), step_along(xs, out_x, out_kx, out_unit)
    places = at + rows[:, None] + columns[None, :]
    mask = y_mask[:, None] & x_mask[None, :]
    if bits == PLANE_BITS:
        high = (words + 64) >> 7
        tl.store(out + places, high.to(tl.int8), mask=mask)
        tl.store(out + plane.to(tl.int64) * plane_unit + places, (words - (high << 7)).to(tl.int8), mask=mask)
    elif bits == WIDE_BITS:
        tl.store(out + places, words, mask=mask)
    else:
        tl.store(out + places, words.to(tl.int8), mask=mask)


# Launching
def find_unit(number: int) -> int:
    """Returns the unit of a count: sixteens or ones."""
    return SIXTEEN if number % SIXTEEN == 0 else 1


def _list_counts(tiling: Tiling) -> tuple[int, ...]:
    """Returns sizes and tiles in a kernel's form, and the units of x and y."""
    x, y, _, o1, o2 = tiling.sizes
    units = find_unit(x), find_unit(y)
    tiles = -(-x // tiling.block_x), -(-y // tiling.block_y)
    return x // units[0], y // units[1], o1, o2, *tiles, *units


def _count_warps(tiling: Tiling) -> int:
    return TURNED_WARPS if (tiling.block_x, tiling.block_y) == TURNED_TILE else WARPS


def make_elementwise(views: NodeViews) -> Kernel | None:
    """Returns the kernel of a node of one of the operations above; None if it has too many loops."""
    node, count = views.node, len(views.node.operands)
    tiling = tile_elements(node.sizes, node.output.strides, *(one.strides for one in node.operands))
    if tiling is None:
        return None
    tensors = [views.output, *map(views.operand, range(count))]
    *counts, x_unit, y_unit = _list_counts(tiling)
    told = [tiling.describe(place) for place in range(count + 1)]
    told += [told[-1]] * (4 - len(told))
    strides = [stride for own, _ in told for stride in own]
    kinds = [kind for _, own in told for kind in own]
    constants = (int(node.operation), count, x_unit, y_unit)
    last = (tiling.block_x, tiling.block_y, tiling.is_wide)
    grid, warps = (tiling.programs,), _count_warps(tiling)

    def run() -> None:
        """Computes the node once."""
        memory = (tensors + [tensors[-1]] * 2)[:4]
        launch(
            compute_tiles,
            grid,
            memory[0],
            *memory,
            *counts,
            *strides,
            *constants,
            *kinds,
            *last,
            num_warps=warps,
        )

    return run


def make_quantize(views: NodeViews) -> Kernel | None:
    """Returns the kernel of a QUANTIZE; None if it has too many loops."""
    node, bits = views.node, views.node.selected
    # Use rows of terms, whatever the output's strides of loops with one iteration are.
    dense = lay_row_major(node.sizes)
    tiling = tile_elements(node.sizes, dense, *(one.strides for one in node.operands))
    if tiling is None:
        return None
    out = views.view(Access(node.output.buffer, 0, (1,)), (-1,), (1,))
    a, scale = views.operand(0), views.operand(1)
    *counts, x_unit, y_unit = _list_counts(tiling)
    told = [tiling.describe(0, SIXTEEN), tiling.describe(1), tiling.describe(2)]
    strides = [stride for own, _ in told for stride in own]
    kinds = [kind for _, own in told for kind in own]
    plane_unit = find_unit(node.elements)
    constants = (bits, float(QUANTIZED_LIMITS[bits]), x_unit, y_unit, plane_unit)
    last = (tiling.block_x, tiling.block_y, tiling.is_wide)
    grid, warps = (tiling.programs,), _count_warps(tiling)

    def run() -> None:
        """Computes the node once."""
        launch(
            quantize_tiles, grid, out, out, a, scale, *counts, node.elements // plane_unit, *strides,
            *constants, *kinds, *last, num_warps=warps,
        )  # fmt: skip

    return run
