"""PyTorch kernels of product sums: matrix products, and products of rows.

A kernel may sum in any order and fuse products into sums, because the bound of `node_check.py` allows all of
that.
"""

from collections.abc import Callable, Sequence
from math import prod

import torch
from torch import Tensor

from touchstone.protocol.compute.program.kernels.kernel import Kernel
from touchstone.protocol.compute.program.planning.node_views import NodeViews, sort_loops
from touchstone.protocol.compute.program.tensor_allocator import allocate
from touchstone.protocol.spec.program import CHUNK_TERMS, Access

PRODUCTS = 1 << 20
"""How many products are written before their rows are summed: few enough to stay in the cache."""


def make_product_sum(views: NodeViews, narrow: Callable[[Tensor], Tensor]) -> Kernel:
    """Returns the kernel of a matrix product if each operand has its own loops, else of a sum of products."""
    loops = sort_loops(views.node)
    if not loops.is_matrix:
        return _make_dot(views, loops.terms, narrow)
    a, b = views.node.operands
    left = Matrix(views, a, (loops.batch, loops.rows, loops.terms))
    right = Matrix(views, b, (loops.batch, loops.terms, loops.columns))
    result = Matrix(views, views.node.output, (loops.batch, loops.rows, loops.columns))
    return _make_matrix_product(left, right, result, narrow)


def _make_dot(views: NodeViews, terms: Sequence[int], narrow: Callable[[Tensor], Tensor]) -> Kernel:
    """Returns a kernel that computes products in the memory order of the first operand, then their sums. Sums
    some rows at a time, each by one thread, unless rows are longer than sums of programs. A single long row
    would be shared among threads, which changes its bits."""
    node = views.node
    order = sorted(range(len(node.sizes)), key=lambda n: -node.operands[0].strides[n])
    sizes = [node.sizes[n] for n in order]
    a, b = (views.view(x, sizes, [x.strides[n] for n in order]) for x in node.operands)
    kept = [n for n in order if n not in terms]
    out = views.view(node.output, [node.sizes[n] for n in kept], [node.output.strides[n] for n in kept])
    summed = [place for place, n in enumerate(order) if n in terms]
    if not summed:
        return lambda: torch.mul(narrow(a), narrow(b), out=out)
    is_short = a.dim() == 2 and a.shape[1] <= max(CHUNK_TERMS)
    rows, are_rows = a.shape[0], summed == [1] and is_short and out.device.type == "cpu"
    height = max(1, PRODUCTS * rows // a.numel()) if are_rows else rows
    products = allocate(min(height, rows) * a[0].numel(), a.dtype, a.device).view(-1, *a.shape[1:])

    def run() -> None:
        """Computes the node once."""
        for start in range(0, rows, height):
            part = slice(start, start + height)
            some = products[: rows - start]
            torch.mul(narrow(a[part]), narrow(b[part]), out=some)
            torch.sum(some, summed, out=out[part] if are_rows else out)

    return run


class Matrix:
    """An operand as [batch, rows, columns], or without the batch if its size is 1: a view if its strides
    allow it, else memory to copy to."""

    def __init__(self, views: NodeViews, access: Access, groups: tuple[Sequence[int], ...]) -> None:
        order = [n for group in groups for n in group]
        sizes = [views.node.sizes[n] for n in order]
        shape = [prod(views.node.sizes[n] for n in group) for group in groups]
        self.scattered = views.view(access, sizes, [access.strides[n] for n in order])
        self.matrix, self.is_copied = _flatten(views, access, groups, shape)
        if self.is_copied:
            flat = allocate(prod(shape), self.scattered.dtype, self.scattered.device)
            self.matrix = flat.view(shape[shape[0] == 1 :])
            self._spread = self.matrix.view(sizes)

    def read(self) -> None:
        """Copies the operand into the matrix."""
        self._spread.copy_(self.scattered)

    def write(self) -> None:
        """Copies the matrix into the operand's memory."""
        self.scattered.copy_(self._spread)


def _flatten(
    views: NodeViews, access: Access, groups: tuple[Sequence[int], ...], shape: Sequence[int]
) -> tuple[Tensor, bool]:
    """Returns one stride for each group of loops, if the loops of the group can be joined."""
    strides = []
    for group in groups:
        stride, size = 0, 1
        for n in reversed(group):
            if size == 1:
                stride, size = access.strides[n], views.node.sizes[n]
            elif access.strides[n] == stride * size:
                size *= views.node.sizes[n]
            else:
                return torch.empty(0), True
        if size > 1 and stride == 0:
            return torch.empty(0), True
        strides.append(stride or 1)
    if 1 not in strides[1:]:
        return torch.empty(0), True
    first = int(shape[0] == 1)
    return views.view(access, shape[first:], strides[first:]), False


def _make_matrix_product(
    left: Matrix, right: Matrix, result: Matrix, narrow: Callable[[Tensor], Tensor]
) -> Kernel:
    function = torch.mm if left.matrix.dim() == 2 else torch.bmm
    a, b, out = left.matrix, right.matrix, result.matrix
    before = [matrix.read for matrix in (left, right) if matrix.is_copied]
    if not before and not result.is_copied:
        return lambda: function(narrow(a), narrow(b), out=out)

    def run() -> None:
        """Computes the node once."""
        for read in before:
            read()
        function(narrow(a), narrow(b), out=out)
        if result.is_copied:
            result.write()

    return run
