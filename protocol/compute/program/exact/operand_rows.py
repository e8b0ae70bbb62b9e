"""Describes operands and outputs to compiled loops as rows of flat memory."""

from dataclasses import dataclass
from math import prod

import numpy as np
from torch import Tensor

from touchstone.protocol.compute.program import compiled_loops
from touchstone.protocol.compute.program.planning.node_views import NodeViews
from touchstone.protocol.compute.program.tensor_allocator import allocate
from touchstone.protocol.spec.program import Access
from touchstone.protocol.spec.program_addressing import is_run


def flatten_buffer(views: NodeViews, access: Access) -> Tensor:
    """Returns the whole buffer of an access."""
    return views.view(Access(access.buffer, 0, (1,)), (-1,), (1,))


@dataclass(frozen=True)
class OperandRows:
    """The rows of an operand. `step` is the distance from term to term: 1, or more if rows lie side by side.
    `scattered` is the operand over all loops if its terms lie in neither way."""

    flat: Tensor
    offset: int
    sizes: compiled_loops.Int64s
    strides: compiled_loops.Int64s
    terms: int
    step: int
    scattered: Tensor | None

    def read(self) -> tuple[compiled_loops.Floats, int, compiled_loops.Int64s, compiled_loops.Int64s, int]:
        """Returns memory, offset, sizes and strides of the rows, and the number of terms in each."""
        if self.scattered is None:
            return self.flat.numpy(), self.offset, self.sizes, self.strides, self.terms
        dense = self.scattered.contiguous().view(-1)
        return dense.numpy(), 0, self.sizes, self.strides, self.terms


def find_rows(views: NodeViews, place: int, reduced: int, allows_columns: bool = False) -> OperandRows:
    """Returns the rows of operand number `place` over the last `reduced` loops."""
    node, access = views.node, views.node.operands[place]
    outer = len(node.sizes) - reduced
    sizes, terms = node.sizes[:outer], node.sizes[outer:]
    strides, inner = access.strides[:outer], access.strides[outer:]
    is_dense = (is_run(inner, terms) and any(inner)) or prod(terms) == 1
    # One loop of terms, or loops that join into one with a single step.
    step = inner[-1] if inner else 1
    is_even = all(stride == step * prod(terms[n + 1 :]) for n, stride in enumerate(inner))
    are_columns = allows_columns and not is_dense and is_even and strides[-1:] == (1,)
    if not is_dense and not are_columns:
        strides = tuple(prod(node.sizes[n + 1 :]) for n in range(outer))
    return OperandRows(
        flatten_buffer(views, access),
        access.offset,
        np.array(sizes, np.int64),
        np.array(strides, np.int64),
        prod(terms),
        step if are_columns else 1,
        None if is_dense or are_columns else views.operand(place),
    )


class DenseOutput:
    """An output that loops write element after element, in place or into a copy. W, m and v have other memory
    in each step, so the memory is looked up when the node is computed."""

    def __init__(self, views: NodeViews) -> None:
        self._out = views.output
        self._beside = None if self._out.is_contiguous() else allocate(self._out.numel())

    @property
    def flat(self) -> Tensor:
        """The memory that the loops write."""
        return self._out.view(-1) if self._beside is None else self._beside

    @property
    def values(self) -> compiled_loops.Floats:
        """The same memory for compiled loops."""
        values: compiled_loops.Floats = self.flat.numpy()
        return values

    def write(self) -> None:
        """Copies the result to the output's place, unless it was written there."""
        if self._beside is not None:
            self._out.copy_(self._beside.view(self._out.shape))
