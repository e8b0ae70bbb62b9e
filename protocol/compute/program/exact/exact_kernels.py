"""Makes the kernels of exact programs: each node becomes a call without arguments (`program/kernels.py`).

Elementwise operations are PyTorch's, because those are the processor's own. What the format defines
(quantized products, sums, functions) runs in compiled loops and in products of integers. These products have
two families with equal bits: of bytes, if the processor has instructions for them, and of float64.

    QUANTIZE --> planes of bytes --> four byte products, or one float64 product --> scales, one rounding

Quantized values of 8 and 15 bits lie in memory as one or two planes of int8 (`Side`), those of 20 bits as
int32.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from touchstone.protocol.compute.program import compiled_loops
from touchstone.protocol.compute.program.exact import function_loops, product_loops, quantizing_loops
from touchstone.protocol.compute.program.exact.element_kernels import (
    make_choice,
    make_function,
    make_maximum_of,
    make_reciprocal_root,
)
from touchstone.protocol.compute.program.exact.operand_rows import OperandRows, find_rows, flatten_buffer
from touchstone.protocol.compute.program.exact.product_families import (
    Shape,
    Side,
    choose_family,
    join,
    require_quantized,
)
from touchstone.protocol.compute.program.exact.row_kernels import (
    make_row_products,
    make_scale_of,
    make_selected_sum,
    make_sum,
)
from touchstone.protocol.compute.program.kernels.kernel import Kernel
from touchstone.protocol.compute.program.kernels.plain_kernels import make_kernel as make_plain_kernel
from touchstone.protocol.compute.program.kernels.product_kernels import Matrix
from touchstone.protocol.compute.program.planning.node_views import MakeView, NodeViews, sort_loops
from touchstone.protocol.spec.program import Node, Program, Role
from touchstone.protocol.spec.program_operations import Operation

PLANES = {8: 1, 15: 2}
"""The number of planes of a quantized value, by its bits."""


class ExactKernels:
    """Makes the kernels of one program, node by node, in order."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._block_rows = _find_block_rows(program)
        self._is_turned: dict[int, bool] = {}
        """For each buffer of quantized values, whether its memory runs term by term
        (`product_families.Side`)."""
        self._terms: dict[int, int] = {}

    def make(self, node: Node, view: MakeView) -> Kernel:
        """Returns the kernel of a node on views of the present buffers."""
        views = NodeViews(node, view)
        require_quantized(node)
        if node.operation is Operation.QUANTIZE:
            return self._make_quantize(views)
        if node.operation is Operation.QUANTIZED_PRODUCT_SUM:
            return self._make_product_sum(views)
        make = _MAKERS.get(node.operation)
        return make(views) if make else make_plain_kernel(node, view)

    def show(self, buffer: int, memory: Tensor) -> Tensor:
        """Returns quantized values in the form of trees: flat, row by row, int8, int16 or int32."""
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
        """Returns the kernel of a QUANTIZE with a scale for each term, the same for all rows, as attention's
        positions have. `terms` is how many of the last loops are terms."""
        node, bits, buffer = views.node, views.node.selected, views.node.output.buffer
        x, scale, source = views.operand(0), views.operand(1), node.operands[0]
        flat, out = flatten_buffer(views, source), flatten_buffer(views, node.output).numpy()
        own, planes = len(node.sizes) - terms - 1, PLANES.get(bits, 0)
        # If rows lie side by side, memory runs term by term: each term is a row there, with its own scale.
        is_turned = terms == 1 and planes > 0 and self._block_rows.get(buffer) == node.sizes[own]
        is_turned = is_turned and source.strides[own] == 1
        count = prod(node.sizes[own + 1 :])
        self._is_turned[buffer], self._terms[buffer] = is_turned, count
        width = node.sizes[own] if is_turned else count
        sizes, strides = (np.array((*one[:own], one[-1]), np.int64) for one in (node.sizes, source.strides))

        def run() -> None:
            """Computes the node once."""
            if is_turned:
                scales = scale.select(own, 0).reshape(-1).numpy()
                inverses, rows = (
                    np.empty(len(scales), np.float32),
                    (flat.numpy(), source.offset, sizes, strides),
                )
                if quantizing_loops.invert(*rows, width, 1, scales, inverses):
                    quantizing_loops.quantize_rows(*rows, width, inverses, planes, out)
                    return
            words = _divide(x, scale)
            words = np.ascontiguousarray(words.swapaxes(own, -1) if is_turned else words).reshape(-1)
            if planes:
                product_loops.split_planes(words, width, planes, out)
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
        # Rows may lie term by term if the rows of a block are those of the last loop.
        last = node.sizes[len(node.sizes) - reduced - 1] if reduced < len(node.sizes) else 0
        is_block = bits in PLANES and self._block_rows.get(buffer, 0) == last > 0
        rows = find_rows(views, 0, reduced, allows_columns=is_block)
        all_scales = flatten_buffer(views, node.operands[1])
        out = flatten_buffer(views, node.output).numpy()
        self._is_turned[buffer], self._terms[buffer] = rows.step != 1, rows.terms
        inverses = np.empty(all_scales.numel(), np.float32)
        width = int(rows.sizes[-1]) if rows.step != 1 else rows.terms

        def run() -> None:
            """Computes the node once."""
            (x, *where), scales = rows.read(), all_scales.numpy()
            if not quantizing_loops.invert(x, *where, rows.step, scales, inverses):
                _quantize_slowly(x, rows, where, scales, width, PLANES.get(bits, 0), out)
            elif bits not in PLANES:
                quantizing_loops.quantize_words(x, *where, inverses, out)
            elif rows.step == 1:
                quantizing_loops.quantize_rows(x, *where, inverses, PLANES[bits], out)
            else:
                quantizing_loops.quantize_columns(x, *where, rows.step, inverses, PLANES[bits], out)

        return run

    def _make_product_sum(self, views: NodeViews) -> Kernel:
        node = views.node
        group = sort_loops(node)
        if not group.is_matrix:
            return make_row_products(views)
        batch, rows, columns, terms = (prod(node.sizes[n] for n in loop) for loop in group)
        first, second = (flatten_buffer(views, operand) for operand in node.operands[:2])
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
        flat = result.matrix.view(-1) if result.is_copied else flatten_buffer(views, node.output)

        def run() -> None:
            """Computes the node once."""
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
    """Returns, for each buffer of quantized values, the rows of each matrix if these are one loop for every
    reader; else 0. Only such matrices may lie term by term."""
    blocks: dict[int, int] = {}
    for node in program.nodes:
        if node.operation is Operation.QUANTIZED_PRODUCT_SUM:
            group = sort_loops(node)
            for own, operand in zip((group.rows, group.columns), node.operands, strict=False):
                rows = node.sizes[own[0]] if len(own) == 1 else 0
                blocks[operand.buffer] = rows if blocks.get(operand.buffer, rows) == rows else 0
    return blocks


def _divide(x: Tensor, scale: Tensor) -> compiled_loops.Int32s:
    """Returns the nearest integers to x / scale; 0 if a scale is NaN."""
    words = torch.round(x.double() / scale.double())
    return torch.where(scale > 0, words, 0.0).to(torch.int32).numpy()


def _quantize_slowly(
    x: compiled_loops.Floats,
    rows: OperandRows,
    where: Sequence[Any],
    scales: compiled_loops.Floats,
    width: int,
    planes: int,
    out: Any,
) -> None:
    """Quantizes rows whose scales may be as small as subnormal numbers."""
    words = np.empty(len(scales) * rows.terms, np.int32)
    quantizing_loops.quantize_slowly(x, *where, rows.step, scales, words)
    if rows.step != 1:
        words = words.reshape(-1, width, rows.terms).transpose(0, 2, 1).reshape(-1).copy()
    if planes:
        product_loops.split_planes(words, width, planes, out)
    else:
        out[:] = words


_MAKERS: dict[Operation, Callable[[NodeViews], Kernel]] = {
    Operation.SCALE_OF: make_scale_of,
    Operation.SUM: make_sum,
    Operation.SELECTED_SUM: make_selected_sum,
    Operation.MAXIMUM_OF: make_maximum_of,
    Operation.MAXIMUM: make_choice(function_loops.choose_largest),
    Operation.MINIMUM: make_choice(function_loops.choose_smallest),
    Operation.RECIPROCAL_ROOT: make_reciprocal_root,
    Operation.EXPONENTIAL: make_function(function_loops.take_exponentials),
    Operation.LOGARITHM: make_function(function_loops.take_logarithms),
    Operation.SIGMOID: make_function(function_loops.take_sigmoids),
}
