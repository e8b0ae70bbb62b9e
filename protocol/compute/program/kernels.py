"""PyTorch kernels for the program's operations, prepared once: each node becomes a call without arguments.

A kernel may sum in any order and fuse products into sums, for the bound of `node_check.py` holds for all of
them; everything else must be one correctly rounded operation or a library's function of a few ulp. Operands
that a library cannot read as they lie are copied aside first. Nothing here is part of the protocol: another
machine may use other kernels.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import inf, isfinite, prod

import numpy as np
import torch
from torch import Tensor

from touchstone.protocol.compute.program.planning.node_views import MakeView, NodeViews, sort_loops
from touchstone.protocol.compute.program.tensor_allocator import allocate
from touchstone.protocol.spec.program import CHUNK_TERMS, Access, Node
from touchstone.protocol.spec.program_operations import Operation

COPY_COLUMNS = 64
"""Elements of each row that are copied at a time where a copy transposes."""
PRODUCTS = 1 << 20
"""Written down before rows of them are summed: so many stay in the cache."""
FUNCTION_ELEMENTS = 1 << 15
"""Go through a function at once: threads do not share so few."""
VECTOR_ELEMENTS, VECTOR_BYTES = 64, 64
"""Multiples of what any processor takes at once."""
Kernel = Callable[[], object]
"""Computes a node into its output. It keeps the views that it was given, which may be pointed at other memory
between calls. So it must not make views of them before it is called."""


def make_kernel(node: Node, view: MakeView, numeric_format: str = "float32") -> Kernel:
    """The kernel of `node` on views of the buffers as they are now. numeric_format: a name in ROUNDINGS, to
    which operands of product sums are rounded; all sums are taken in float32."""
    views = NodeViews(node, view)
    if node.operation is Operation.PRODUCT_SUM:
        return _make_product_sum(views, ROUNDINGS[numeric_format])
    return _MAKERS[node.operation](views)


# --- Formats ------------------------------------------------------------------------------------------------
def _keep(a: Tensor) -> Tensor:
    return a


PROBE_FORMAT = "probe"
"""No task's: its products show what of a result is rounding noise."""
PROBE_DROPPED = 5


def round_to_probe(a: Tensor) -> Tensor:
    """With five bits fewer than a float32, cut off."""
    return (a.contiguous().view(torch.int32) & -(1 << PROBE_DROPPED)).view(torch.float32)


ROUNDINGS: dict[str, Callable[[Tensor], Tensor]] = {"float32": _keep, PROBE_FORMAT: round_to_probe}
"""What an operand of a product sum becomes, by numeric format."""


# --- Elementwise --------------------------------------------------------------------------------------------
def _binary(function: Callable[..., Tensor]) -> Callable[[NodeViews], Kernel]:
    def make(views: NodeViews) -> Kernel:
        """The kernel of one node."""
        a, b, out = views.operand(0), views.operand(1), views.output
        return lambda: function(a, b, out=out)

    return make


def _binary_of_zeros(function: Callable[..., Tensor]) -> Callable[[NodeViews], Kernel]:
    """Of -0 and +0 a library takes either, by where an element lies: a zero is +0 here."""

    def make(views: NodeViews) -> Kernel:
        """The kernel of one node."""
        a, b, out = views.operand(0), views.operand(1), views.output
        return lambda: function(a, b, out=out).add_(0.0)

    return make


def _function(function: Callable[..., Tensor]) -> Callable[[NodeViews], Kernel]:
    """A library computes whole vectors of a processor in one way and what is left over in another, and
    threads cut a tensor anywhere. So all elements go through whole vectors of one thread: a result depends on
    its operand alone, and a step that is trained in tiles has the bits of one that is traced."""

    def make(views: NodeViews) -> Kernel:
        """The kernel of one node."""
        a, out = views.operand(0), views.output
        if out.device.type != "cpu":
            return lambda: function(a, out=out)
        return lambda: _apply(function, a, out)

    return make


def _apply(function: Callable[..., Tensor], a: Tensor, out: Tensor) -> None:
    count = out.numel()
    if count > FUNCTION_ELEMENTS and out.dim() > 1 and a.is_contiguous() and out.is_contiguous():
        a, out = a.view(-1), out.view(-1)
    if count > FUNCTION_ELEMENTS:
        height = max(1, FUNCTION_ELEMENTS * len(out) // count)
        pairs = zip(torch.split(a, height), torch.split(out, height), strict=True)
        for part, result in pairs if len(out) > 1 else ((a[0], out[0]),):
            _apply(function, part, result)
        return
    if count % VECTOR_ELEMENTS == 0 and _lies_as_scratch(a) and _lies_as_scratch(out):
        function(a, out=out)
        return
    scratch = torch.empty(-(-count // VECTOR_ELEMENTS) * VECTOR_ELEMENTS)
    scratch[count:] = 0
    part = scratch[:count].view(out.shape)
    part.copy_(a)
    function(scratch, out=scratch)
    out.copy_(part)


def _lies_as_scratch(tensor: Tensor) -> bool:
    """Whether a library reads it as it reads memory of its own: element by element, from a vector's start."""
    return tensor.is_contiguous() and tensor.data_ptr() % VECTOR_BYTES == 0


def _make_square_root(views: NodeViews) -> Kernel:
    """Correctly rounded. torch's float32 square root on CPUs is not (docs/decisions/0010-program.md); NumPy's
    is the processor's own instruction, which IEEE 754 binds."""
    a, out = views.operand(0), views.output
    if out.device.type == "cpu":
        return lambda: _take_roots(a, out)
    return lambda: out.copy_(a.double().sqrt())


def _take_roots(a: Tensor, out: Tensor) -> None:
    with np.errstate(invalid="ignore"):
        np.sqrt(a.numpy(), out=out.numpy())


@lru_cache(maxsize=16)
def _get_predecessor(value: float) -> float:
    """The float32 next to `value` towards zero."""
    return float(np.nextafter(np.float32(value), np.float32(0)))


def _make_flush(views: NodeViews) -> Kernel:
    """hardshrink keeps |x| > limit: with the number before the threshold that is |x| >= threshold."""
    a, threshold, out = views.operand(0), views.operand(1), views.output
    if any(threshold.stride()) or out.device.type != "cpu":
        return lambda: out.copy_(torch.where(a.abs() < threshold, 0.0, a))

    def run() -> None:
        """Compute the node once."""
        least = threshold.as_strided((), ()).item()
        if least > 0:
            torch.ops.aten.hardshrink.out(a, _get_predecessor(least), out=out)
        else:
            out.copy_(a)  # No magnitude is below it, and -0 stays.

    return run


def _make_finite_select(views: NodeViews) -> Kernel:
    condition, yes, no, out = *map(views.operand, range(3)), views.output
    if any(condition.stride()) or out.device.type != "cpu":
        return lambda: torch.where(condition.abs() < inf, yes, no, out=out)
    return lambda: out.copy_(yes if isfinite(condition.as_strided((), ()).item()) else no)


def _make_copy(views: NodeViews) -> Kernel:
    a, out = views.operand(0), views.output
    if out.device.type == "cpu" and out.dim() and a.stride(-1) > 1:
        return lambda: _copy_across(a, out)
    return lambda: out.copy_(a)


def _copy_across(a: Tensor, out: Tensor) -> None:
    """Columns into rows, a few at a time, so that what is read stays in the cache: a fifth faster than
    copy_."""
    source, target = a.numpy(), out.numpy()
    for start in range(0, out.shape[-1], COPY_COLUMNS):
        part = np.s_[..., start : start + COPY_COLUMNS]
        np.copyto(target[part], source[part])


# --- Indexed ------------------------------------------------------------------------------------------------
def _make_gather(views: NodeViews) -> Kernel:
    node = views.node
    index, table = node.operands
    indices, out = views.operand(0), views.output
    rows = [n for n, stride in enumerate(index.strides) if stride]
    columns = [n for n in range(len(node.sizes)) if n not in rows]
    if is_row_gather(node):
        leading = indices.as_strided(indices.shape[: len(rows)], indices.stride()[: len(rows)])
        return _make_row_gather(views, table, columns, leading, out)
    places = _places(table, node.sizes, out.device)
    buffer = views.view(Access(table.buffer, 0, (1,)), (-1,), (1,))

    def run() -> None:
        """Compute the node once."""
        out.copy_(buffer[indices * node.selected + places])

    return run


def is_row_gather(node: Node) -> bool:
    """Whether a GATHER reads whole rows of a matrix, one for each index."""
    index, table = node.operands
    rows = [n for n, stride in enumerate(index.strides) if stride]
    return not any(table.strides[n] for n in rows) and rows == list(range(len(rows)))


def _make_row_gather(
    views: NodeViews, table: Access, columns: Sequence[int], numbers: Tensor, out: Tensor
) -> Kernel:
    """Whole rows of a matrix, as an embedding reads them."""
    node = views.node
    sizes = [node.sizes[n] for n in columns]
    strides = [table.strides[n] for n in columns]
    matrix = views.view(table, (-1, *sizes), (node.selected, *strides))
    return lambda: out.copy_(matrix.index_select(0, numbers.reshape(-1)).view(out.shape))


def _places(access: Access, sizes: Sequence[int], device: torch.device) -> Tensor:
    """Element numbers that an access reaches, over the loops (int64)."""
    places = torch.tensor(access.offset, device=device)
    for size, stride in zip(sizes, access.strides, strict=True):
        places = places.unsqueeze(-1) + torch.arange(size, device=device) * stride
    return places


def _make_equal_select(views: NodeViews) -> Kernel:
    indices, a, b, out = *map(views.operand, range(3)), views.output
    loop = views.node.selected
    at_index = indices.narrow(loop, 0, 1)
    if a.stride(loop) == 0 and not views.node.operands[0].strides[loop]:

        def scatter() -> None:
            """Write one operand everywhere, the other at the indices."""
            out.copy_(b)
            out.scatter_(loop, at_index, a.narrow(loop, 0, 1))

        return scatter
    numbers = torch.arange(out.shape[loop], device=out.device).view(
        [-1 if n == loop else 1 for n in range(out.dim())]
    )
    return lambda: torch.where(indices == numbers, a, b, out=out)


def _make_selected_sum(views: NodeViews) -> Kernel:
    """For each chunk of positions: rows of a zero matrix to which the positions' rows are added."""
    node = views.node
    index, values = node.operands
    loop, loops = node.selected, len(node.output_sizes)
    rows = node.sizes[loop]
    rest = [n for n in range(loops) if n != loop]
    chunks = [n for n in rest if n < loop]
    width = [n for n in rest if n > loop]
    if is_masked_sum(node):
        return _make_masked_sum(views)
    order = [*chunks, *range(loops, len(node.sizes)), *width]
    sizes = [node.sizes[n] for n in order]
    grid = views.view(values, sizes, [values.strides[n] for n in order])
    kept = [*chunks, *range(loops, len(node.sizes))]
    numbers = views.view(index, [node.sizes[n] for n in kept], [index.strides[n] for n in kept])
    out = views.output
    parts = prod(node.sizes[n] for n in chunks)
    columns = prod(node.sizes[n] for n in width)

    def run() -> None:
        """Compute the node once."""
        flat = grid.reshape(parts, -1, columns)
        keys = numbers.reshape(parts, -1)
        sums = [
            torch.ops.aten.embedding_dense_backward(flat[part], keys[part], rows, -1, False)
            for part in range(parts)
        ]
        out.copy_(torch.stack(sums).view(out.shape))

    return run


def is_masked_sum(node: Node) -> bool:
    """Whether rows of a SELECTED_SUM are not the same for all indices."""
    index, values = node.operands
    width = range(node.selected + 1, len(node.output_sizes))
    return bool(values.strides[node.selected]) or any(index.strides[n] for n in (node.selected, *width))


def _make_masked_sum(views: NodeViews) -> Kernel:
    """Where rows are not the same for all indices: every term, or 0 in its place."""
    node = views.node
    indices, a, out = views.operand(0), views.operand(1), views.output
    shape = [size if n == node.selected else 1 for n, size in enumerate(node.sizes)]
    numbers = torch.arange(node.sizes[node.selected], device=out.device).view(shape)
    return _make_reduction(torch.sum, views, lambda: torch.where(indices == numbers, a, 0.0), out)


# --- Reductions ---------------------------------------------------------------------------------------------
def _make_reduction(
    function: Callable[..., Tensor], views: NodeViews, read: Callable[[], Tensor], out: Tensor
) -> Kernel:
    """`function` over the reduced loops. PyTorch takes no dimensions for all of them: then it is a copy."""
    dimensions = list(range(len(views.node.output_sizes), len(views.node.sizes)))
    if not dimensions:
        return lambda: out.copy_(read())
    return lambda: function(read(), dimensions, out=out)


def _make_sum(views: NodeViews) -> Kernel:
    a, out = views.operand(0), views.output
    return _make_reduction(torch.sum, views, lambda: a, out)


def _make_maximum_of(views: NodeViews) -> Kernel:
    a, out = views.operand(0), views.output
    find = _make_reduction(torch.amax, views, lambda: a, out)

    def run() -> None:
        """Compute the node once; a zero is +0, as in MAXIMUM."""
        find()
        out.add_(0.0)

    return run


def _make_product_sum(views: NodeViews, narrow: Callable[[Tensor], Tensor]) -> Kernel:
    """A matrix product where the operands have loops of their own, else a sum of products."""
    loops = sort_loops(views.node)
    if not loops.is_matrix:
        return _make_dot(views, loops.terms, narrow)
    a, b = views.node.operands
    left = Matrix(views, a, (loops.batch, loops.rows, loops.terms))
    right = Matrix(views, b, (loops.batch, loops.terms, loops.columns))
    result = Matrix(views, views.node.output, (loops.batch, loops.rows, loops.columns))
    return _make_matrix_product(left, right, result, narrow)


def _make_dot(views: NodeViews, terms: Sequence[int], narrow: Callable[[Tensor], Tensor]) -> Kernel:
    """Products in the order in which the first operand lies in memory, then their sums. Rows are
    summed each by itself: they go some at a time, unless they are longer than those of programs. A long
    row that stands alone would be shared out among threads, which changes its bits."""
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
        """Compute the node once."""
        for start in range(0, rows, height):
            part = slice(start, start + height)
            some = products[: rows - start]
            torch.mul(narrow(a[part]), narrow(b[part]), out=some)
            torch.sum(some, summed, out=out[part] if are_rows else out)

    return run


class Matrix:
    """An operand as [batch, rows, columns], or without the batch where that is one: a view where its strides
    allow it, else a place to copy to."""

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
        """Copy the operand into the matrix."""
        self._spread.copy_(self.scattered)

    def write(self) -> None:
        """Copy the matrix to where the operand lies."""
        self.scattered.copy_(self._spread)


def _flatten(
    views: NodeViews, access: Access, groups: tuple[Sequence[int], ...], shape: Sequence[int]
) -> tuple[Tensor, bool]:
    """One stride for each group of loops, where the loops follow each other."""
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
        """Compute the node once."""
        for read in before:
            read()
        function(narrow(a), narrow(b), out=out)
        if result.is_copied:
            result.write()

    return run


_MAKERS: dict[Operation, Callable[[NodeViews], Kernel]] = {
    Operation.SUM: _make_sum,
    Operation.SELECTED_SUM: _make_selected_sum,
    Operation.MAXIMUM_OF: _make_maximum_of,
    Operation.ADD: _binary(torch.add),
    Operation.SUBTRACT: _binary(torch.sub),
    Operation.MULTIPLY: _binary(torch.mul),
    Operation.DIVIDE: _binary(torch.div),
    Operation.MAXIMUM: _binary_of_zeros(torch.maximum),
    Operation.MINIMUM: _binary_of_zeros(torch.minimum),
    Operation.SQUARE_ROOT: _make_square_root,
    Operation.RECIPROCAL_ROOT: _function(torch.rsqrt),
    Operation.EXPONENTIAL: _function(torch.exp),
    Operation.LOGARITHM: _function(torch.log),
    Operation.SIGMOID: _function(torch.sigmoid),
    Operation.GATHER: _make_gather,
    Operation.EQUAL_SELECT: _make_equal_select,
    Operation.FLUSH: _make_flush,
    Operation.FINITE_SELECT: _make_finite_select,
    Operation.COPY: _make_copy,
}
