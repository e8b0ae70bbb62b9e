"""Multiplies matrices of quantized values as Triton kernels: bytes on the card's matrix units.

    q = 128 h + l:  high * high, high * low + low * high, low * low --> one exact sum, both scales, rounded

Operands lie as [batch, rows, terms], one plane after the other, as QUANTIZE wrote them. Partial sums stay in
registers. If rows are whole units of 16 bytes, the card's copy engine loads the tiles, and reads zeros after
a row's end. Products of 20 bits go through float64.
"""

from dataclasses import dataclass
from math import prod
from typing import Any

import torch
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from touchstone.protocol.compute.program.card_compile import compile_card, launch
from touchstone.protocol.compute.program.card_elements import Kernel
from touchstone.protocol.compute.program.card_layout import Loops, join_loops
from touchstone.protocol.compute.program.card_rows import make_row_products
from touchstone.protocol.compute.program.planning.node_views import NodeViews, ProductLoops, sort_loops
from touchstone.protocol.spec.program import Access, Node

MOST_TERMS = 1 << 15
"""The most products of two bytes, or sums of two such products, that add up within 32 bits."""
MOST_LOOPS = 2
"""The most loops that the batch, the rows and the columns may have, each."""
COPY_BYTES = 16
GROUP = 8
"""How many successive tiles of rows have the same columns, which the cache then still holds."""
Block = tuple[int, int, int, int, int]
"""(rows of a tile, its columns, its terms, stages of copies, warps)"""
SQUARE: Block = (128, 128, 128, 3, 8)
NARROW: Block = (128, 64, 128, 3, 8)
SHORT: Block = (128, 128, 64, 3, 8)
"""The block for products with few terms."""
SHORT_NARROW: Block = (128, 64, 64, 3, 8)
FINISH_TILE = (16, 128)


@compile_card
def find_tile(
    rows: tl.tensor, columns: tl.tensor, block_m: tl.constexpr, block_n: tl.constexpr, group: tl.constexpr,
) -> Any:  # fmt: skip
    """Returns the first row and column of this kernel's tile. Tiles run in groups of rows."""
    number = tl.program_id(0)
    down, across = tl.cdiv(rows, block_m), tl.cdiv(columns, block_n)
    first = number // (group * across) * group
    height = tl.minimum(down - first, group)
    rest = number % (group * across)
    return (first + rest % height) * block_m, rest // height * block_n


@compile_card
def place_pairs(
    number: tl.tensor, inner: tl.tensor, s0: tl.tensor, s1: tl.tensor, is_pair: tl.constexpr
) -> Any:
    """Returns the places of rows or columns with one or two loops. `inner` is the size of the second loop."""
    if is_pair:
        place = (number // inner).to(tl.int64) * s0 + (number % inner).to(tl.int64) * s1
    else:
        place = number.to(tl.int64) * s1
    return place


@compile_card
def finish_tile(
    total: tl.tensor, out: tl.pointer_type, scale_a: tl.pointer_type, scale_b: tl.pointer_type,
    batch: tl.tensor, m: tl.tensor, n: tl.tensor, rows: tl.tensor, columns: tl.tensor,
    batch_inner: tl.tensor, row_inner: tl.tensor, column_inner: tl.tensor, out_b0: tl.tensor,
    out_b1: tl.tensor, out_r0: tl.tensor, out_r1: tl.tensor, out_c0: tl.tensor, out_c1: tl.tensor,
    a_b0: tl.tensor, a_b1: tl.tensor, a_r0: tl.tensor, a_r1: tl.tensor, b_b0: tl.tensor, b_b1: tl.tensor,
    b_c0: tl.tensor, b_c1: tl.tensor, is_batch_pair: tl.constexpr, is_row_pair: tl.constexpr,
    is_column_pair: tl.constexpr, out_kind: tl.constexpr, out_unit: tl.constexpr, block_m: tl.constexpr,
    block_n: tl.constexpr,
) -> None:  # fmt: skip
    """Multiplies exact sums (float64) by both scales, rounds once, and writes them to the output's places."""
    row, column = m + tl.arange(0, block_m), n + tl.arange(0, block_n)
    row_mask, column_mask = row < rows, column < columns // out_unit * out_unit
    at = place_pairs(batch, batch_inner, a_b0, a_b1, is_batch_pair)
    first = tl.load(
        scale_a + at + place_pairs(row, row_inner, a_r0, a_r1, is_row_pair), mask=row_mask, other=0.0
    )
    at = place_pairs(batch, batch_inner, b_b0, b_b1, is_batch_pair)
    second = tl.load(
        scale_b + at + place_pairs(column, column_inner, b_c0, b_c1, is_column_pair),
        mask=column_mask,
        other=0.0,
    )
    scale = first.to(tl.float64)[:, None] * second.to(tl.float64)[None, :]
    result = (total * scale + 0.0).to(tl.float32)
    at = place_pairs(batch, batch_inner, out_b0, out_b1, is_batch_pair) * out_unit
    down = place_pairs(row, row_inner, out_r0, out_r1, is_row_pair) * out_unit
    if out_kind == 1:
        across = column.to(tl.int64)
    else:
        across = place_pairs(column, column_inner, out_c0, out_c1, is_column_pair)
    places = down[:, None] + across[None, :]
    tl.store(out + at + places, result, mask=row_mask[:, None] & column_mask[None, :])


@compile_card
def join_sums(high: tl.tensor, middle: tl.tensor, low: tl.tensor) -> Any:
    """Joins three integer sums into one, exact in float64."""
    whole = (high.to(tl.int64) << 14) + (middle.to(tl.int64) << 7) + low.to(tl.int64)
    return whole.to(tl.float64)


@compile_card
def multiply_copied(
    a: tl.pointer_type, b: tl.pointer_type, out: tl.pointer_type, scale_a: tl.pointer_type,
    scale_b: tl.pointer_type, rows: tl.tensor, columns: tl.tensor, terms: tl.tensor, row_plane: tl.tensor,
    column_plane: tl.tensor, batch_inner: tl.tensor, row_inner: tl.tensor, column_inner: tl.tensor,
    out_b0: tl.tensor, out_b1: tl.tensor, out_r0: tl.tensor, out_r1: tl.tensor, out_c0: tl.tensor,
    out_c1: tl.tensor, a_b0: tl.tensor, a_b1: tl.tensor, a_r0: tl.tensor, a_r1: tl.tensor, b_b0: tl.tensor,
    b_b1: tl.tensor, b_c0: tl.tensor, b_c1: tl.tensor, is_batch_pair: tl.constexpr,
    is_row_pair: tl.constexpr, is_column_pair: tl.constexpr, out_kind: tl.constexpr, out_unit: tl.constexpr,
    planes: tl.constexpr, group: tl.constexpr, block_m: tl.constexpr, block_n: tl.constexpr,
    block_k: tl.constexpr, stages: tl.constexpr,
) -> None:  # fmt: skip
    """Computes a tile of a product whose operands the copy engine loads. Both are matrices of all planes,
    batches and rows; a plane has `row_plane` and `column_plane` rows."""
    batch = tl.program_id(1)
    m, n = find_tile(rows, columns, block_m, block_n, group)
    down, across = batch * rows + m, batch * columns + n
    high = tl.zeros((block_m, block_n), tl.int32)
    if planes == 2:
        middle = tl.zeros((block_m, block_n), tl.int32)
        low = tl.zeros((block_m, block_n), tl.int32)
        for k in tl.range(0, terms, block_k, num_stages=stages):
            a_high, a_low = a.load([down, k]), a.load([down + row_plane, k])
            b_high, b_low = b.load([across, k]).T, b.load([across + column_plane, k]).T
            high = tl.dot(a_high, b_high, high, out_dtype=tl.int32)
            middle = tl.dot(a_high, b_low, middle, out_dtype=tl.int32)
            middle = tl.dot(a_low, b_high, middle, out_dtype=tl.int32)
            low = tl.dot(a_low, b_low, low, out_dtype=tl.int32)
        total = join_sums(high, middle, low)
    else:
        for k in tl.range(0, terms, block_k, num_stages=stages):
            high = tl.dot(a.load([down, k]), b.load([across, k]).T, high, out_dtype=tl.int32)
        total = high.to(tl.float64)
    finish_tile(
        total, out, scale_a, scale_b, batch, m, n, rows, columns, batch_inner, row_inner, column_inner,
        out_b0, out_b1, out_r0, out_r1, out_c0, out_c1, a_b0, a_b1, a_r0, a_r1, b_b0, b_b1, b_c0, b_c1,
        is_batch_pair, is_row_pair, is_column_pair, out_kind, out_unit, block_m, block_n,
    )  # fmt: skip


@compile_card
def multiply_loaded(
    a: tl.pointer_type, b: tl.pointer_type, out: tl.pointer_type, scale_a: tl.pointer_type,
    scale_b: tl.pointer_type, rows: tl.tensor, columns: tl.tensor, terms: tl.tensor, row_plane: tl.tensor,
    column_plane: tl.tensor, batch_inner: tl.tensor, row_inner: tl.tensor, column_inner: tl.tensor,
    out_b0: tl.tensor, out_b1: tl.tensor, out_r0: tl.tensor, out_r1: tl.tensor, out_c0: tl.tensor,
    out_c1: tl.tensor, a_b0: tl.tensor, a_b1: tl.tensor, a_r0: tl.tensor, a_r1: tl.tensor, b_b0: tl.tensor,
    b_b1: tl.tensor, b_c0: tl.tensor, b_c1: tl.tensor, is_batch_pair: tl.constexpr,
    is_row_pair: tl.constexpr, is_column_pair: tl.constexpr, out_kind: tl.constexpr, out_unit: tl.constexpr,
    planes: tl.constexpr, group: tl.constexpr, block_m: tl.constexpr, block_n: tl.constexpr,
    block_k: tl.constexpr, stages: tl.constexpr,
) -> None:  # fmt: skip
    """Computes a tile with ordinary reads, for rows of any length."""
    batch = tl.program_id(1)
    m, n = find_tile(rows, columns, block_m, block_n, group)
    row, column, ks = m + tl.arange(0, block_m), n + tl.arange(0, block_n), tl.arange(0, block_k)
    row_mask, column_mask = (row < rows)[:, None], (column < columns)[None, :]
    a_places = (batch * rows + row).to(tl.int64)[:, None] * terms + ks[None, :]
    b_places = (batch * columns + column).to(tl.int64)[None, :] * terms + ks[:, None]
    a_plane, b_plane = row_plane.to(tl.int64) * terms, column_plane.to(tl.int64) * terms
    high = tl.zeros((block_m, block_n), tl.int32)
    middle = tl.zeros((block_m, block_n), tl.int32)
    low = tl.zeros((block_m, block_n), tl.int32)
    for k in tl.range(0, terms, block_k, num_stages=stages):
        is_term = k + ks < terms
        a_mask, b_mask = row_mask & is_term[None, :], column_mask & is_term[:, None]
        a_high = tl.load(a + k + a_places, mask=a_mask, other=0)
        b_high = tl.load(b + k + b_places, mask=b_mask, other=0)
        high = tl.dot(a_high, b_high, high, out_dtype=tl.int32)
        if planes == 2:
            a_low = tl.load(a + a_plane + k + a_places, mask=a_mask, other=0)
            b_low = tl.load(b + b_plane + k + b_places, mask=b_mask, other=0)
            middle = tl.dot(a_high, b_low, middle, out_dtype=tl.int32)
            middle = tl.dot(a_low, b_high, middle, out_dtype=tl.int32)
            low = tl.dot(a_low, b_low, low, out_dtype=tl.int32)
    if planes == 2:
        total = join_sums(high, middle, low)
    else:
        total = high.to(tl.float64)
    finish_tile(
        total, out, scale_a, scale_b, batch, m, n, rows, columns, batch_inner, row_inner, column_inner,
        out_b0, out_b1, out_r0, out_r1, out_c0, out_c1, a_b0, a_b1, a_r0, a_r1, b_b0, b_b1, b_c0, b_c1,
        is_batch_pair, is_row_pair, is_column_pair, out_kind, out_unit, block_m, block_n,
    )  # fmt: skip


@compile_card
def finish_sums(
    sums: tl.pointer_type, out: tl.pointer_type, scale_a: tl.pointer_type, scale_b: tl.pointer_type,
    rows: tl.tensor, columns: tl.tensor, batch_inner: tl.tensor, row_inner: tl.tensor,
    column_inner: tl.tensor, out_b0: tl.tensor, out_b1: tl.tensor, out_r0: tl.tensor, out_r1: tl.tensor,
    out_c0: tl.tensor, out_c1: tl.tensor, a_b0: tl.tensor, a_b1: tl.tensor, a_r0: tl.tensor, a_r1: tl.tensor,
    b_b0: tl.tensor, b_b1: tl.tensor, b_c0: tl.tensor, b_c1: tl.tensor, is_batch_pair: tl.constexpr,
    is_row_pair: tl.constexpr, is_column_pair: tl.constexpr, out_kind: tl.constexpr, out_unit: tl.constexpr,
    group: tl.constexpr, block_m: tl.constexpr, block_n: tl.constexpr,
) -> None:  # fmt: skip
    """Writes a tile of a product whose exact sums, float64 [batch, rows, columns], are already known."""
    batch = tl.program_id(1)
    m, n = find_tile(rows, columns, block_m, block_n, group)
    row, column = m + tl.arange(0, block_m), n + tl.arange(0, block_n)
    places = (batch * rows + row).to(tl.int64)[:, None] * columns + column[None, :]
    mask = (row < rows)[:, None] & (column < columns)[None, :]
    total = tl.load(sums + places, mask=mask, other=0.0)
    finish_tile(
        total, out, scale_a, scale_b, batch, m, n, rows, columns, batch_inner, row_inner, column_inner,
        out_b0, out_b1, out_r0, out_r1, out_c0, out_c1, a_b0, a_b1, a_r0, a_r1, b_b0, b_b1, b_c0, b_c1,
        is_batch_pair, is_row_pair, is_column_pair, out_kind, out_unit, block_m, block_n,
    )  # fmt: skip


# Launching
@dataclass(frozen=True)
class Product:
    """A product in the form of the kernels. `inner` are sizes of the second loops of batch, rows and columns.
    `strides` are the output's and both scales'. `constants` say which groups have two loops, how the output
    moves along columns, and the alignment of the output's rows and of their length."""

    batch: int
    rows: int
    columns: int
    terms: int
    inner: tuple[int, int, int]
    strides: tuple[int, ...]
    constants: tuple[bool, bool, bool, int, int]

    def count_programs(self, block_m: int, block_n: int) -> tuple[int, int]:
        """Returns the grid."""
        return -(-self.rows // block_m) * -(-self.columns // block_n), self.batch


def _pair(loops: Loops) -> tuple[int, list[tuple[int, int]]]:
    """Returns the second size, and the strides by tensor, of at most two loops."""
    spare = (0,) * (MOST_LOOPS - len(loops.sizes))
    pairs = [(*spare, *own) for own in loops.strides]
    return (loops.sizes or (1,))[-1], [(first, second) for first, second in pairs]


def plan_product(node: Node, group: ProductLoops) -> Product | None:
    """Returns the plan of a product; None if a group has too many loops."""
    out, scale_a, scale_b = node.output.strides, node.operands[2].strides, node.operands[3].strides

    def join(loops: list[int], *strides: tuple[int, ...]) -> Loops:
        return join_loops([node.sizes[n] for n in loops], *([own[n] for n in loops] for own in strides))

    batch = join(group.batch, out, scale_a, scale_b)
    rows, columns = join(group.rows, out, scale_a), join(group.columns, out, scale_b)
    if max(len(one.sizes) for one in (batch, rows, columns)) > MOST_LOOPS:
        return None
    (b, (out_b, a_b, b_b)), (r, (out_r, a_r)), (c, (out_c, b_c)) = map(_pair, (batch, rows, columns))
    counts = [prod(node.sizes[n] for n in loops) for loops in group]
    is_next = len(columns.sizes) <= 1 and out_c[1] <= 1
    unit = 4 if all(number % 4 == 0 for number in (*out_b, *out_r, counts[2])) else 1
    strides = (*(s // unit for s in (*out_b, *out_r)), *out_c, *a_b, *a_r, *b_b, *b_c)
    pairs = [len(one.sizes) > 1 for one in (batch, rows, columns)]
    constants = (pairs[0], pairs[1], pairs[2], int(is_next), unit)
    return Product(counts[0], counts[1], counts[2], counts[3], (b, r, c), strides, constants)


def choose_block(product: Product) -> Block:
    """Chooses the block by the product's sizes."""
    if product.columns <= NARROW[1]:
        return NARROW if product.terms > SHORT_NARROW[2] else SHORT_NARROW
    return SQUARE if product.terms > SHORT[2] else SHORT


def make_product(views: NodeViews) -> Kernel | None:
    """Returns the kernel of a QUANTIZED_PRODUCT_SUM; None if other kernels must compute it."""
    node, group = views.node, sort_loops(views.node)
    flats = [views.view(Access(one.buffer, 0, (1,)), (-1,), (1,)) for one in node.operands[:2]]
    terms, rows = prod(node.sizes[n] for n in group.terms), prod(node.sizes[n] for n in group.batch)
    if not group.is_matrix:
        planes = flats[0].numel() // (rows * terms)
        return make_row_products(views, group.batch, terms, planes, flats)
    product = plan_product(node, group)
    if product is None or product.terms > MOST_TERMS:
        return None
    scales = (views.operand(2), views.operand(3))
    if flats[0].dtype is torch.int32:
        return _make_through_doubles(product, flats, views.output, scales)
    return make_byte_product(product, flats, views.output, scales, choose_block(product))


def make_byte_product(
    product: Product, flats: list[Tensor], out: Tensor, scales: tuple[Tensor, Tensor], block: Block,
    is_copied: bool = True,
) -> Kernel:  # fmt: skip
    """Returns the kernel of a product of bytes. `is_copied` says whether the copy engine loads the operands,
    if it can."""
    block_m, block_n, block_k, stages, warps = block
    row_plane, column_plane = product.batch * product.rows, product.batch * product.columns
    planes = flats[0].numel() // (row_plane * product.terms)
    if is_copied and product.terms % COPY_BYTES == 0:
        kernel = multiply_copied
        operands: list[Any] = [
            TensorDescriptor(flat, [planes * plane, product.terms], [product.terms, 1], [height, block_k])
            for flat, plane, height in zip(flats, (row_plane, column_plane), (block_m, block_n), strict=True)
        ]
    else:
        kernel, operands = multiply_loaded, list(flats)
    sizes = (product.rows, product.columns, product.terms, row_plane, column_plane)
    last = (planes, GROUP, block_m, block_n, block_k, stages)
    grid = product.count_programs(block_m, block_n)

    def run() -> None:
        """Computes the node once."""
        launch(
            kernel, grid, out, *operands, out, *scales, *sizes, *product.inner, *product.strides,
            *product.constants, *last, num_warps=warps, num_stages=stages,
        )  # fmt: skip

    return run


def _make_through_doubles(
    product: Product, flats: list[Tensor], out: Tensor, scales: tuple[Tensor, Tensor]
) -> Kernel:
    """Returns the kernel of a product through float64: sums of 20 bits are below 2^53."""
    sizes = (product.rows, product.columns)
    block_m, block_n = FINISH_TILE
    grid = product.count_programs(block_m, block_n)

    def run() -> None:
        """Computes the node once."""
        left, right = (
            flat.double().view(product.batch, height, product.terms)
            for flat, height in zip(flats, sizes, strict=True)
        )
        sums = torch.bmm(left, right.transpose(1, 2))
        launch(
            finish_sums, grid, out, sums, out, *scales, *sizes, *product.inner, *product.strides,
            *product.constants, GROUP, block_m, block_n, num_warps=4,
        )  # fmt: skip

    return run
