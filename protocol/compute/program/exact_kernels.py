"""The kernels of exact programs: each node becomes a call without arguments (`program/kernels.py`).

Elementwise operations are PyTorch's, for these are the processor's own. What the format defines (quantized
products, sums, functions) runs in compiled loops and in products of integers. Those have two families with
equal bits: products of bytes, where the processor has instructions for them, and of float64.

    QUANTIZE --> planes of bytes --> four byte products, or one float64 product --> scales, one rounding

Quantized values of 8 and 15 bits lie in memory as one or two planes of int8 (`exact_functions.Side`), those
of 20 bits as int32.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from touchstone.protocol.compute.program import exact_functions as functions
from touchstone.protocol.compute.program import exact_loops as loops
from touchstone.protocol.compute.program.exact_functions import (
    Shape,
    Side,
    choose_family,
    join,
    require_quantized,
)
from touchstone.protocol.compute.program.kernels import Kernel, Matrix
from touchstone.protocol.compute.program.kernels import make_kernel as make_plain_kernel
from touchstone.protocol.compute.program.layout import MakeView, NodeViews, sort_loops
from touchstone.protocol.compute.program.tensor_allocator import allocate
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.program import QUANTIZED_LIMITS, Access, Node, Operation, Program, Role, is_run

PLANES = {8: 1, 15: 2}
"""By bits."""


class ExactKernels:
    """Makes the kernels of one program, node by node, in order."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._block_rows = _find_block_rows(program)
        self._is_turned: dict[int, bool] = {}
        """By buffer of quantized values: whether its memory goes term for term (`exact_functions.Side`)."""
        self._terms: dict[int, int] = {}

    def make(self, node: Node, view: MakeView) -> Kernel:
        """The kernel of a node on views of the buffers as they are now."""
        views = NodeViews(node, view)
        require_quantized(node)
        if node.operation is Operation.QUANTIZE:
            return self._make_quantize(views)
        if node.operation is Operation.QUANTIZED_PRODUCT_SUM:
            return self._make_product_sum(views)
        make = _MAKERS.get(node.operation)
        return make(views) if make else make_plain_kernel(node, view)

    def show(self, buffer: int, memory: Tensor) -> Tensor:
        """Quantized values as trees have them: flat, row for row, int8, int16 or int32."""
        role = self._program.buffers[buffer].role
        if role is Role.INTEGER32:
            return memory
        size, terms = self._program.buffers[buffer].size, self._terms[buffer]
        planes = memory.numel() // size
        rows, is_turned = self._block_rows.get(buffer, 0), self._is_turned[buffer]
        values = join(memory, rows if is_turned else terms, planes)
        if is_turned:
            values = values.view(-1, terms, rows).transpose(1, 2).reshape(-1)
        return values.to(torch.int8 if role is Role.INTEGER8 else torch.int16)

    def _make_quantize_terms(self, views: NodeViews, terms: int) -> Kernel:
        """A scale for each term, the same for all rows: as positions of attention have it. terms: the last
        loops, so many, over them."""
        node, bits, buffer = views.node, views.node.selected, views.node.output.buffer
        x, scale, source = views.operand(0), views.operand(1), node.operands[0]
        flat, out = _flatten(views, source), _flatten(views, node.output).numpy()
        own, planes = len(node.sizes) - terms - 1, PLANES.get(bits, 0)
        # Where rows lie side by side, memory goes term for term: each term is a row there, with a scale.
        is_turned = terms == 1 and planes > 0 and self._block_rows.get(buffer) == node.sizes[own]
        is_turned = is_turned and source.strides[own] == 1
        count = prod(node.sizes[own + 1 :])
        self._is_turned[buffer], self._terms[buffer] = is_turned, count
        width = node.sizes[own] if is_turned else count
        sizes, strides = (np.array((*one[:own], one[-1]), np.int64) for one in (node.sizes, source.strides))

        def run() -> None:
            """Compute the node once."""
            if is_turned:
                scales = scale.select(own, 0).reshape(-1).numpy()
                inverses, rows = (
                    np.empty(len(scales), np.float32),
                    (flat.numpy(), source.offset, sizes, strides),
                )
                if loops.invert(*rows, width, 1, scales, inverses):
                    loops.quantize_rows(*rows, width, inverses, planes, out)
                    return
            words = _divide(x, scale)
            words = np.ascontiguousarray(words.swapaxes(own, -1) if is_turned else words).reshape(-1)
            if planes:
                loops.split_planes(words, width, planes, out)
            else:
                out[:] = words

        return run

    def _make_quantize(self, views: NodeViews) -> Kernel:
        node = views.node
        over_all, loops_in_all = node.operands[1].strides, len(node.sizes)
        moving = [n for n, stride in enumerate(over_all) if stride and node.sizes[n] > 1]
        still = [n for n, stride in enumerate(over_all) if not stride and node.sizes[n] > 1]
        if still and moving and moving[-1] > still[-1]:
            return self._make_quantize_terms(views, loops_in_all - still[-1] - 1)
        reduced = loops_in_all - still[0] if still else 0
        bits, buffer = node.selected, node.output.buffer
        # Rows may lie term for term where the rows of a block are those of the last loop.
        last = node.sizes[len(node.sizes) - reduced - 1] if reduced < len(node.sizes) else 0
        is_block = bits in PLANES and self._block_rows.get(buffer, 0) == last > 0
        rows = _find_rows(views, 0, reduced, allows_columns=is_block)
        all_scales = _flatten(views, node.operands[1])
        out = _flatten(views, node.output).numpy()
        self._is_turned[buffer], self._terms[buffer] = rows.step != 1, rows.terms
        inverses = np.empty(all_scales.numel(), np.float32)
        width = int(rows.sizes[-1]) if rows.step != 1 else rows.terms

        def run() -> None:
            """Compute the node once."""
            (x, *where), scales = rows.read(), all_scales.numpy()
            if not loops.invert(x, *where, rows.step, scales, inverses):
                _quantize_slowly(x, rows, where, scales, width, PLANES.get(bits, 0), out)
            elif bits not in PLANES:
                loops.quantize_words(x, *where, inverses, out)
            elif rows.step == 1:
                loops.quantize_rows(x, *where, inverses, PLANES[bits], out)
            else:
                loops.quantize_columns(x, *where, rows.step, inverses, PLANES[bits], out)

        return run

    def _make_product_sum(self, views: NodeViews) -> Kernel:
        node = views.node
        group = sort_loops(node)
        if not group.is_matrix:
            return _make_dot(views)
        batch, rows, columns, terms = (prod(node.sizes[n] for n in loop) for loop in group)
        first, second = (_flatten(views, operand) for operand in node.operands[:2])
        scale_a, scale_b = (
            views.view(access, [node.sizes[n] for n in own], [access.strides[n] for n in own])
            for access, own in zip(
                node.operands[2:], ((*group.batch, *group.rows), (*group.batch, *group.columns)), strict=True
            )
        )
        left, right = (
            Side(count, self._is_turned[operand.buffer])
            for count, operand in zip((rows, columns), node.operands, strict=False)
        )
        planes = first.numel() // (batch * rows * terms) if first.dtype is torch.int8 else 0
        shape = Shape(batch, left, right, terms, planes)
        result = Matrix(views, node.output, (group.batch, group.rows, group.columns))
        strides = result.matrix.stride()[-2:]
        step = result.matrix.stride()[0] if batch > 1 else 0
        start = 0 if result.is_copied else node.output.offset
        flat = result.matrix.view(-1) if result.is_copied else _flatten(views, node.output)

        def run() -> None:
            """Compute the node once."""
            out = flat.numpy()
            a, wide = scale_a.reshape(-1).numpy(), scale_b.reshape(-1).double().numpy()
            multiply = choose_family(shape)
            for n, finish in enumerate(multiply(first, second, shape)):
                place = (rows, columns, out, start + n * step, *strides)
                finish(a[n * rows : (n + 1) * rows], wide[n * columns : (n + 1) * columns], *place)
            if result.is_copied:
                result.write()

        return run


def _find_block_rows(program: Program) -> dict[int, int]:
    """By buffer of quantized values: the rows of each matrix, where these are one loop for every reader; else
    0. Only such matrices may lie term for term."""
    blocks: dict[int, int] = {}
    for node in program.nodes:
        if node.operation is Operation.QUANTIZED_PRODUCT_SUM:
            group = sort_loops(node)
            for own, operand in zip((group.rows, group.columns), node.operands, strict=False):
                rows = node.sizes[own[0]] if len(own) == 1 else 0
                blocks[operand.buffer] = rows if blocks.get(operand.buffer, rows) == rows else 0
    return blocks


def _flatten(views: NodeViews, access: Access) -> Tensor:
    """The whole buffer of an access."""
    return views.view(Access(access.buffer, 0, (1,)), (-1,), (1,))


# --- Rows ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Rows:
    """Rows of an operand. step: from term to term; 1, or rows lie side by side. scattered: the operand over
    all loops, where it is neither."""

    flat: Tensor
    offset: int
    sizes: loops.Int64s
    strides: loops.Int64s
    terms: int
    step: int
    scattered: Tensor | None

    def read(self) -> tuple[loops.Floats, int, loops.Int64s, loops.Int64s, int]:
        """Memory, offset, sizes and strides of the rows, and the terms of each."""
        if self.scattered is None:
            return self.flat.numpy(), self.offset, self.sizes, self.strides, self.terms
        dense = self.scattered.contiguous().view(-1)
        return dense.numpy(), 0, self.sizes, self.strides, self.terms


def _find_rows(views: NodeViews, place: int, reduced: int, allows_columns: bool = False) -> _Rows:
    """Rows of operand number `place` over the last `reduced` loops."""
    node, access = views.node, views.node.operands[place]
    outer = len(node.sizes) - reduced
    sizes, terms = node.sizes[:outer], node.sizes[outer:]
    strides, inner = access.strides[:outer], access.strides[outer:]
    is_dense = (is_run(inner, terms) and any(inner)) or prod(terms) == 1
    # One loop of terms, or loops that follow each other at one step.
    step = inner[-1] if inner else 1
    is_even = all(stride == step * prod(terms[n + 1 :]) for n, stride in enumerate(inner))
    are_columns = allows_columns and not is_dense and is_even and strides[-1:] == (1,)
    if not is_dense and not are_columns:
        strides = tuple(prod(node.sizes[n + 1 :]) for n in range(outer))
    return _Rows(
        _flatten(views, access),
        access.offset,
        np.array(sizes, np.int64),
        np.array(strides, np.int64),
        prod(terms),
        step if are_columns else 1,
        None if is_dense or are_columns else views.operand(place),
    )


class _Dense:
    """An output that loops write one element after another: in place, or beside it and copied there. W, m and
    v lie elsewhere in each step: their memory is asked for when the node is computed."""

    def __init__(self, views: NodeViews) -> None:
        self._out = views.output
        self._beside = None if self._out.is_contiguous() else allocate(self._out.numel())

    @property
    def flat(self) -> Tensor:
        """What the loops write."""
        return self._out.view(-1) if self._beside is None else self._beside

    @property
    def values(self) -> loops.Floats:
        """The same for compiled loops."""
        values: loops.Floats = self.flat.numpy()
        return values

    def write(self) -> None:
        """Bring what was computed to where the output lies."""
        if self._beside is not None:
            self._out.copy_(self._beside.view(self._out.shape))


def _make_scale_of(views: NodeViews) -> Kernel:
    node = views.node
    rows, out = _find_rows(views, 0, node.reduced, allows_columns=True), _Dense(views)
    limit = QUANTIZED_LIMITS[node.selected]
    limits = (limit, limit.bit_length())

    def run() -> None:
        """Compute the node once."""
        x, *where = rows.read()
        if rows.step == 1:
            loops.scale_rows(x.view(np.uint32), *where, *limits, out.values)
        else:
            loops.scale_columns(x.view(np.uint32), *where, rows.step, *limits, out.values)
        out.write()

    return run


def _divide(x: Tensor, scale: Tensor) -> loops.Int32s:
    """The nearest integers of x / scale, 0 where a scale is NaN."""
    words = torch.round(x.double() / scale.double())
    return torch.where(scale > 0, words, 0.0).to(torch.int32).numpy()


def _quantize_slowly(
    x: loops.Floats,
    rows: _Rows,
    where: Sequence[Any],
    scales: loops.Floats,
    width: int,
    planes: int,
    out: Any,
) -> None:
    """Where scales are as small as subnormal numbers."""
    words = np.empty(len(scales) * rows.terms, np.int32)
    loops.quantize_slowly(x, *where, rows.step, scales, words)
    if rows.step != 1:
        words = words.reshape(-1, width, rows.terms).transpose(0, 2, 1).reshape(-1).copy()
    if planes:
        loops.split_planes(words, width, planes, out)
    else:
        out[:] = words


# --- Products -----------------------------------------------------------------------------------------------
def _make_dot(views: NodeViews) -> Kernel:
    node, out = views.node, _Dense(views)
    operands = [_flatten(views, operand) for operand in node.operands]

    def run() -> None:
        """Compute the node once."""
        a, b, scale_a, scale_b = (operand.numpy() for operand in operands)
        loops.multiply_rows(a, b, node.terms, scale_a, scale_b, out.values)
        out.write()

    return run


# --- Sums ---------------------------------------------------------------------------------------------------
def _make_sum(views: NodeViews) -> Kernel:
    rows, out = _find_rows(views, 0, views.node.reduced), _Dense(views)

    def run() -> None:
        """Compute the node once."""
        x, *where = rows.read()
        functions.sum_rows(x, x.view(np.uint32), *where, out.values)
        out.write()

    return run


@dataclass(frozen=True)
class Table:
    """What a SELECTED_SUM reads. grid: the values, over chunks, positions and columns; numbers: the index of
    each position; rows, columns: of the table."""

    grid: Tensor
    numbers: Tensor
    chunks: int
    rows: int
    columns: int


def look_at_table(views: NodeViews) -> Table:
    """The operands of a SELECTED_SUM. Raises InvalidInput where rows are not the same for all indices."""
    node = views.node
    index, values = node.operands
    loop, count = node.selected, len(node.output_sizes)
    parts, width = list(range(loop)), list(range(loop + 1, count))
    if values.strides[loop] or any(index.strides[n] for n in (loop, *width)) or len(width) > 1:
        raise InvalidInput(
            what="a table of another form",
            expected="rows that are the same for all indices",
            actual=node,
            remedy="Write the embedding as a plain one.",
        )
    kept = [*parts, *range(count, len(node.sizes))]
    order = [*kept, *width]
    return Table(
        views.view(values, [node.sizes[n] for n in order], [values.strides[n] for n in order]),
        views.view(index, [node.sizes[n] for n in kept], [index.strides[n] for n in kept]),
        prod(node.sizes[n] for n in parts),
        node.sizes[loop],
        prod(node.sizes[n] for n in width),
    )


def _make_selected_sum(views: NodeViews) -> Kernel:
    """For each chunk of positions, the places that share a key are summed; other rows of the table are 0."""
    read, out = look_at_table(views), _Dense(views)
    columns = read.columns

    def run() -> None:
        """Compute the node once."""
        table = out.flat.view(read.chunks, read.rows * read.columns)
        flat = read.grid.contiguous().view(read.chunks, -1)
        keys = read.numbers.reshape(read.chunks, -1)
        table.zero_()
        for part in range(read.chunks):
            places = torch.sort(keys[part], stable=True).indices.numpy()
            x, own = flat[part].numpy(), keys[part].contiguous().numpy()
            functions.sum_selected(x, 0, columns, places, own, columns, 1, table[part].numpy(), 0, columns)
        out.write()

    return run


# --- Choosing, and functions --------------------------------------------------------------------------------
def make_maximum_of(views: NodeViews) -> Kernel:
    """The largest of two zeros is +0, whichever a library takes: -0 + 0 is +0."""
    kernel, out = make_plain_kernel(views.node, views.view), views.output

    def run() -> None:
        """Compute the node once."""
        kernel()
        out.add_(0.0)

    return run


def _make_choice(choose: Callable[..., None]) -> Callable[[NodeViews], Kernel]:
    def make(views: NodeViews) -> Kernel:
        """The kernel of one node."""
        a, b, out = views.operand(0), views.operand(1), _Dense(views)
        is_one = not any(b.stride())

        def run() -> None:
            """Compute the node once."""
            second = b.as_strided((1,), (1,)) if is_one else b.contiguous().view(-1)
            choose(a.contiguous().view(-1).numpy(), second.numpy(), out.values)
            out.write()

        return run

    return make


def _make_function(function: Callable[..., Any]) -> Callable[[NodeViews], Kernel]:
    def make(views: NodeViews) -> Kernel:
        """The kernel of one node."""
        a, out = views.operand(0), _Dense(views)

        def run() -> None:
            """Compute the node once."""
            x, values = a.contiguous().view(-1).numpy(), out.values
            function(x, x.view(np.int32), values, values.view(np.int32))
            out.write()

        return run

    return make


def _make_reciprocal_root(views: NodeViews) -> Kernel:
    """The processor's square root, then its division."""
    a, out = views.operand(0), views.output

    def run() -> None:
        """Compute the node once."""
        with np.errstate(invalid="ignore", divide="ignore"):
            np.sqrt(a.numpy(), out=out.numpy())
            np.divide(np.float32(1), out.numpy(), out=out.numpy())

    return run


_MAKERS: dict[Operation, Callable[[NodeViews], Kernel]] = {
    Operation.SCALE_OF: _make_scale_of,
    Operation.SUM: _make_sum,
    Operation.SELECTED_SUM: _make_selected_sum,
    Operation.MAXIMUM_OF: make_maximum_of,
    Operation.MAXIMUM: _make_choice(functions.choose_largest),
    Operation.MINIMUM: _make_choice(functions.choose_smallest),
    Operation.RECIPROCAL_ROOT: _make_reciprocal_root,
    Operation.EXPONENTIAL: _make_function(functions.take_exponentials),
    Operation.LOGARITHM: _make_function(functions.take_logarithms),
    Operation.SIGMOID: _make_function(functions.take_sigmoids),
}
