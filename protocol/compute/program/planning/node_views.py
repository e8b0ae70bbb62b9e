"""Views flat buffers as the strided tensors of nodes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from touchstone.protocol.spec.program import Access, Node

MakeView = Callable[[Access, Sequence[int], Sequence[int]], Tensor]
"""Maps (access, sizes, strides) to a view of the access's buffer. Sizes and strides may be in another order
than the access's own if a library needs that. A first size of -1 means as many as the buffer holds."""


def look(flat: Tensor, offset: int, sizes: Sequence[int], strides: Sequence[int]) -> Tensor:
    """Returns a strided view of a flat tensor, from its element `offset` on. A first size of -1 means as many
    as there are."""
    if sizes and sizes[0] == -1:
        reach = offset + sum((size - 1) * stride for size, stride in zip(sizes[1:], strides[1:], strict=True))
        sizes = ((flat.numel() - 1 - reach) // strides[0] + 1, *sizes[1:])
    return flat.as_strided(tuple(sizes), tuple(strides), flat.storage_offset() + offset)


@dataclass
class NodeViews:
    """A node, and the views of its accesses."""

    node: Node
    view: MakeView

    def operand(self, place: int) -> Tensor:
        """Returns an operand over all loops."""
        access = self.node.operands[place]
        return self.view(access, self.node.sizes, access.strides)

    @property
    def output(self) -> Tensor:
        """Returns the output over its loops."""
        return self.view(self.node.output, self.node.output_sizes, self.node.output.strides)


class ProductLoops(NamedTuple):
    """The loops of a product sum by what they move: both operands or neither (batch), the first operand alone
    (rows), the second alone (columns), not the output (terms)."""

    batch: list[int]
    rows: list[int]
    columns: list[int]
    terms: list[int]

    @property
    def is_matrix(self) -> bool:
        """Whether the product sum is a matrix product. Otherwise each element has its own operands."""
        return bool(self.rows or self.columns)


def sort_loops(node: Node) -> ProductLoops:
    """Returns the loops of a PRODUCT_SUM or QUANTIZED_PRODUCT_SUM, by number."""
    a, b = node.operands[:2]
    loops = range(len(node.output_sizes))
    rows = [n for n in loops if a.strides[n] and not b.strides[n]]
    columns = [n for n in loops if b.strides[n] and not a.strides[n]]
    batch = [n for n in loops if n not in rows and n not in columns]
    return ProductLoops(batch, rows, columns, list(range(len(loops), len(node.sizes))))
