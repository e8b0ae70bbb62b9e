"""PyTorch kernels of operations that choose by an index."""

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from touchstone.protocol.compute.program.kernels.kernel import Kernel
from touchstone.protocol.compute.program.kernels.reduction_kernels import make_reduction
from touchstone.protocol.compute.program.planning.node_views import NodeViews
from touchstone.protocol.spec.program import Access, Node


def make_gather(views: NodeViews) -> Kernel:
    """Returns the kernel of a GATHER, which reads the rows of a table that an index operand names."""
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
        """Computes the node once."""
        out.copy_(buffer[indices * node.selected + places])

    return run


def is_row_gather(node: Node) -> bool:
    """Returns whether a GATHER reads whole rows of a matrix, one for each index."""
    index, table = node.operands
    rows = [n for n, stride in enumerate(index.strides) if stride]
    return not any(table.strides[n] for n in rows) and rows == list(range(len(rows)))


def _make_row_gather(
    views: NodeViews, table: Access, columns: Sequence[int], numbers: Tensor, out: Tensor
) -> Kernel:
    """Returns the kernel that reads whole rows of a matrix, as an embedding does."""
    node = views.node
    sizes = [node.sizes[n] for n in columns]
    strides = [table.strides[n] for n in columns]
    matrix = views.view(table, (-1, *sizes), (node.selected, *strides))
    return lambda: out.copy_(matrix.index_select(0, numbers.reshape(-1)).view(out.shape))


def _places(access: Access, sizes: Sequence[int], device: torch.device) -> Tensor:
    """Returns the element numbers that an access reaches, over the loops (int64)."""
    places = torch.tensor(access.offset, device=device)
    for size, stride in zip(sizes, access.strides, strict=True):
        places = places.unsqueeze(-1) + torch.arange(size, device=device) * stride
    return places


def make_equal_select(views: NodeViews) -> Kernel:
    """Returns the kernel that takes one operand if a loop's number equals an index, else the other."""
    indices, a, b, out = *map(views.operand, range(3)), views.output
    loop = views.node.selected
    at_index = indices.narrow(loop, 0, 1)
    if a.stride(loop) == 0 and not views.node.operands[0].strides[loop]:

        def scatter() -> None:
            """Writes one operand everywhere, then the other at the indices."""
            out.copy_(b)
            out.scatter_(loop, at_index, a.narrow(loop, 0, 1))

        return scatter
    numbers = torch.arange(out.shape[loop], device=out.device).view(
        [-1 if n == loop else 1 for n in range(out.dim())]
    )
    return lambda: torch.where(indices == numbers, a, b, out=out)


def make_selected_sum(views: NodeViews) -> Kernel:
    """Returns the kernel of a SELECTED_SUM: for each chunk of positions, their rows are added to rows of a
    zero matrix."""
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
        """Computes the node once."""
        flat = grid.reshape(parts, -1, columns)
        keys = numbers.reshape(parts, -1)
        sums = [
            torch.ops.aten.embedding_dense_backward(flat[part], keys[part], rows, -1, False)
            for part in range(parts)
        ]
        out.copy_(torch.stack(sums).view(out.shape))

    return run


def is_masked_sum(node: Node) -> bool:
    """Returns whether rows of a SELECTED_SUM differ between indices."""
    index, values = node.operands
    width = range(node.selected + 1, len(node.output_sizes))
    return bool(values.strides[node.selected]) or any(index.strides[n] for n in (node.selected, *width))


def _make_masked_sum(views: NodeViews) -> Kernel:
    """Returns the kernel of a SELECTED_SUM whose rows differ between indices: it sums every term, or 0 in its
    place."""
    node = views.node
    indices, a, out = views.operand(0), views.operand(1), views.output
    shape = [size if n == node.selected else 1 for n, size in enumerate(node.sizes)]
    numbers = torch.arange(node.sizes[node.selected], device=out.device).view(shape)
    return make_reduction(torch.sum, views, lambda: torch.where(indices == numbers, a, 0.0), out)
