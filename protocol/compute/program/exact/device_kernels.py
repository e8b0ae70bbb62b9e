"""The kernels of exact programs in PyTorch operations alone, with the same bits on graphics cards.

The CPU's kernels (`exact_kernels.py`) are compiled loops. Here every step is an operation on whole tensors:
integers, or float64 if a sum of integers stays below 2^53, so that it is exact in any order. Products have
the same two families, bytes and float64.

Quantized values of 15 bits, q = 128 h + l, lie in memory as all high bytes and then all low ones; those of 8
bits as int8, those of 20 bits as int32.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import Tensor

from touchstone.protocol.compute.program.exact.device_functions import (
    MAGNITUDE,
    find_exponent,
    make_power,
    take_exponentials,
    take_logarithms,
    take_reciprocal_roots,
    take_sigmoids,
)
from touchstone.protocol.compute.program.exact.element_kernels import make_maximum_of
from touchstone.protocol.compute.program.exact.product_families import is_allowed, require_quantized
from touchstone.protocol.compute.program.exact.selected_table import look_at_table
from touchstone.protocol.compute.program.kernels.kernel import Kernel
from touchstone.protocol.compute.program.kernels.plain_kernels import make_kernel as make_plain_kernel
from touchstone.protocol.compute.program.planning.node_views import MakeView, NodeViews, sort_loops
from touchstone.protocol.spec.exact_sums import SUM_BITS
from touchstone.protocol.spec.program import Access, Node, Program, Role
from touchstone.protocol.spec.program_operations import QUANTIZED_LIMITS, Operation

LEAST_POWER = -149
PLANES, BITS_OF_PLANES = 2, 15
BYTE_ROWS, BYTE_STEP = 17, 8
"""`torch._int_mm` on CUDA needs at least BYTE_ROWS rows, and terms and columns in multiples of BYTE_STEP."""


class DeviceKernels:
    """Makes the kernels of one exact program, as `ExactKernels` does on the CPU."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def make(self, node: Node, view: MakeView) -> Kernel:
        """Returns the kernel of a node on views of the present buffers."""
        require_quantized(node)
        make = _MAKERS.get(node.operation)
        return make(NodeViews(node, view)) if make else make_plain_kernel(node, view)

    def show(self, buffer: int, memory: Tensor) -> Tensor:
        """Returns quantized values in the form of trees: flat, row by row, int8, int16 or int32."""
        if self._program.buffers[buffer].role is not Role.INTEGER16:
            return memory
        return _join(memory).to(torch.int16)


def _find_largest(a: Tensor, dimensions: list[int]) -> Tensor:
    """Returns the largest magnitude as float64; NaN and infinities count as the largest."""
    patterns = a.view(torch.int32) & MAGNITUDE
    largest = patterns.amax(dimensions) if dimensions else patterns
    return largest.view(torch.float32).double()


def _list_reduced(node: Node) -> list[int]:
    return list(range(len(node.output_sizes), len(node.sizes)))


def _make_scale_of(views: NodeViews) -> Kernel:
    a, out, dimensions = views.operand(0), views.output, _list_reduced(views.node)
    bound = torch.tensor(QUANTIZED_LIMITS[views.node.selected] + 0.5, dtype=torch.float64)
    fraction, exponent = (float(x) for x in torch.frexp(bound))

    def run() -> None:
        """Computes the node once. RNE(x / s) <= L means x / s < L + 1/2: L is odd, so a tie goes up."""
        largest = _find_largest(a, dimensions)
        own = find_exponent(largest) + 1
        power = own - int(exponent) + (largest * make_power(-own.clamp(min=LEAST_POWER)) >= fraction)
        power = torch.where(largest > 0, power, LEAST_POWER).clamp(LEAST_POWER, 128)
        out.copy_(torch.where(largest.isfinite(), make_power(power), torch.nan))

    return run


def _make_quantize(views: NodeViews) -> Kernel:
    a, scale = views.operand(0), views.operand(1)
    flat = views.view(Access(views.node.output.buffer, 0, (1,)), (-1,), (1,))
    limit, has_planes = QUANTIZED_LIMITS[views.node.selected], views.node.selected == BITS_OF_PLANES

    def run() -> None:
        """Computes the node once."""
        is_number = a.isfinite() & scale.isfinite() & (scale > 0)
        quotients = torch.round(a.double() / scale.double()).clamp(-limit, limit)
        words = torch.where(is_number, quotients, 0.0).to(torch.int32).reshape(-1)
        if has_planes:
            high = (words + 64) >> 7
            flat.copy_(torch.cat([high, words - (high << 7)]))
        else:
            flat.copy_(words)

    return run


def _join(planes: Tensor) -> Tensor:
    words = planes.view(PLANES, -1).int()
    return (words[0] << 7) + words[1]


def _make_product_sum(views: NodeViews) -> Kernel:
    """Returns the kernel of a product sum. Its operands lie as [batch, rows, terms], because QUANTIZE wrote
    them so."""
    node, group, out = views.node, sort_loops(views.node), views.output
    batch, rows, columns, terms = (prod(node.sizes[n] for n in loop) for loop in group)
    first, second = (_look_at_rows(views, place) for place in range(2))
    scale_a, scale_b = (
        views.view(access, [node.sizes[n] for n in own], [access.strides[n] for n in own])
        for access, own in zip(
            node.operands[2:], ((*group.batch, *group.rows), (*group.batch, *group.columns)), strict=True
        )
    )
    order = [*group.batch, *group.rows, *group.columns]
    back = [order.index(n) for n in range(len(order))]
    shape = (batch, rows, columns, terms) if group.is_matrix else (batch, 1, 1, terms)

    def run() -> None:
        """Computes the node once."""
        sums = _multiply(first, second, shape)
        scale = scale_a.double().reshape(batch, -1, 1) * scale_b.double().reshape(batch, 1, -1)
        # Adding +0 turns -0 into +0.
        exact = (sums * scale + 0.0).float().view([node.sizes[n] for n in order])
        out.copy_(exact.permute(back))

    return run


def _look_at_rows(views: NodeViews, place: int) -> Tensor:
    return views.view(Access(views.node.operands[place].buffer, 0, (1,)), (-1,), (1,))


def _multiply(a: Tensor, b: Tensor, shape: tuple[int, int, int, int]) -> Tensor:
    """Returns the exact sums, float64 [batch, rows, columns]."""
    batch, rows, columns, terms = shape
    if a.dtype is torch.int32 or not _takes_bytes(rows, columns, terms):
        left, right = (_widen(x, batch * count * terms) for x, count in ((a, rows), (b, columns)))
        return _sum_doubles(left.view(batch, rows, terms), right.view(batch, columns, terms))
    left, right = a.view(-1, batch, rows, terms), b.view(-1, batch, columns, terms)
    sums = torch.zeros((batch, rows, columns), dtype=torch.float64, device=a.device)
    for own in left:
        sums *= 128.0
        for n, other in enumerate(right):
            weight = 128.0 ** (len(right) - 1 - n)
            for part in range(batch):
                sums[part] += torch._int_mm(own[part], other[part].t()).double() * weight
    return sums


def _takes_bytes(rows: int, columns: int, terms: int) -> bool:
    is_multiple = columns % BYTE_STEP == 0 and terms % BYTE_STEP == 0
    return rows >= BYTE_ROWS and is_multiple and is_allowed("bytes")


def _widen(values: Tensor, size: int) -> Tensor:
    return (values if values.numel() == size else _join(values)).double()


def _sum_doubles(a: Tensor, b: Tensor) -> Tensor:
    """Returns sums of integers below 2^53."""
    if a.shape[1] == b.shape[1] == 1:
        return (a * b).sum(2, keepdim=True)
    return torch.bmm(a, b.transpose(1, 2))


def _make_sum(views: NodeViews) -> Kernel:
    a, out, dimensions = views.operand(0), views.output, _list_reduced(views.node)

    def run() -> None:
        """Computes the node once."""
        largest = _find_largest(a, dimensions)
        unit = _find_unit(largest)
        spread = unit.view((*unit.shape, *(1,) * len(dimensions)))
        terms = torch.round(a.double() / spread)
        total = terms.sum(dimensions) if dimensions else terms
        out.copy_(_finish_sum(total, unit, largest))

    return run


def _find_unit(largest: Tensor) -> Tensor:
    """Returns the unit to which terms of a sum are rounded; 1 if they are all 0 or not all finite."""
    is_plain = (largest > 0) & largest.isfinite()
    return make_power(torch.where(is_plain, find_exponent(largest) - SUM_BITS, 0))


def _finish_sum(total: Tensor, unit: Tensor, largest: Tensor) -> Tensor:
    return torch.where(largest.isfinite(), total * unit + 0.0, torch.nan)


def _make_selected_sum(views: NodeViews) -> Kernel:
    """Returns the kernel of a SELECTED_SUM. For each chunk of positions it sums the places with the same key;
    other rows of the table are 0."""
    read, out = look_at_table(views), views.output

    def run() -> None:
        """Computes the node once. Rows of chunk number c begin at c * rows."""
        terms = read.grid.reshape(-1, read.columns).double()
        first = read.rows * torch.arange(read.chunks, device=terms.device).view(-1, 1)
        keys = (read.numbers.reshape(read.chunks, -1) + first).view(-1)
        empty = terms.new_zeros(read.chunks * read.rows, read.columns)
        magnitudes = torch.where(terms.isnan(), torch.inf, terms.abs())
        largest = empty.scatter_reduce(0, keys.view(-1, 1).expand_as(terms), magnitudes, "amax")
        unit = _find_unit(largest)
        total = empty.index_add(0, keys, torch.round(terms / unit[keys]))
        out.copy_(_finish_sum(total, unit, largest).view(out.shape))

    return run


def _make_elementwise(function: Callable[..., Tensor]) -> Callable[[NodeViews], Kernel]:
    def make(views: NodeViews) -> Kernel:
        """Returns the kernel of one node."""
        operands, out = [views.operand(n) for n in range(len(views.node.operands))], views.output
        return lambda: out.copy_(function(*operands))

    return make


_MAKERS: dict[Operation, Callable[[NodeViews], Any]] = {
    Operation.SCALE_OF: _make_scale_of,
    Operation.QUANTIZE: _make_quantize,
    Operation.QUANTIZED_PRODUCT_SUM: _make_product_sum,
    Operation.SUM: _make_sum,
    Operation.SELECTED_SUM: _make_selected_sum,
    Operation.MAXIMUM_OF: make_maximum_of,
    Operation.MAXIMUM: _make_elementwise(lambda a, b: torch.maximum(a, b) + 0.0),
    Operation.MINIMUM: _make_elementwise(lambda a, b: torch.minimum(a, b) + 0.0),
    Operation.RECIPROCAL_ROOT: _make_elementwise(take_reciprocal_roots),
    Operation.EXPONENTIAL: _make_elementwise(take_exponentials),
    Operation.LOGARITHM: _make_elementwise(take_logarithms),
    Operation.SIGMOID: _make_elementwise(take_sigmoids),
}
