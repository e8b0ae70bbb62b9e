"""Writes a program node by node.

It keeps the rules of `spec/program.py` by construction. Sums are cut into chunks whose partial results are
added in pairs. Equal operations on equal operands are computed once. Loops that continue each other in all
operands become one. A value that does not vary along a broadcast dimension is computed only once along it.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import torch
from torch import Tensor

from touchstone.protocol.spec.data_trees import compute_data_root
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.float32 import nearest
from touchstone.protocol.spec.program import Access, Buffer, Node, Role
from touchstone.protocol.spec.program_operations import Operation
from touchstone.step.views import (
    LayoutError,
    View,
    divide,
    expand,
    insert,
    join,
    make_contiguous,
    narrow,
    permute,
    refine,
    split,
)

LARGEST = torch.finfo(torch.float32).max
DOT_BITS = 20
"""The bits of products outside matrix products, in every task. Norms of gradients add squares of very
different sizes, and these products cost little."""
WIDE_TERMS = 2048
"""The longest sum of products of 20-bit integers. 4,096 terms of four bytes would cost 1.4 million gas."""
Loop = tuple[int, tuple[int, ...]]
"""The size of a loop, and the stride of each operand."""
_Key = tuple[Operation, tuple[View, ...], int, int]


class Builder:
    """Collects buffers and nodes. `chunk_terms` is the longest sum. `product_bits` is for quantized matrix
    products, 0 if products are of floats. `shares_pieces` says that a piece of a concatenation lies there
    even if it has other readers."""

    def __init__(self, chunk_terms: int, product_bits: int = 0, shares_pieces: bool = True) -> None:
        self.chunk_terms, self.product_bits, self.shares_pieces = chunk_terms, product_bits, shares_pieces
        self.buffers: list[Buffer] = []
        self.nodes: list[Node] = []
        self.numbers: list[float] = []
        self.numbers_buffer = self.add_buffer(Role.CONSTANT, 1)
        self.weighted: dict[Node, int] = {}
        """For products of attention probabilities and values, the operand with the values
        (`quantized.py`)."""
        self._weighted: int | None = None
        self.constants: dict[int, Tensor] = {}
        """The flat values of the buffers that `add_constant` made."""
        self._tables: dict[tuple[bytes, int], int] = {}
        self._known: dict[_Key, View] = {}

    def add_buffer(self, role: Role, size: int) -> int:
        """Adds a buffer, and returns its number."""
        self.buffers.append(Buffer(role, size))
        return len(self.buffers) - 1

    def add_tensor(self, shape: Sequence[int]) -> View:
        """Adds a tensor, and returns a row-major view of it."""
        return make_contiguous(self.add_buffer(Role.TENSOR, prod(shape)), 0, shape)

    def add_number(self, value: float) -> View:
        """Returns a constant of rank 0, rounded to float32; equal numbers share one place. Infinities become
        the largest numbers, because masks have them."""
        rounded = nearest(min(max(value, -LARGEST), LARGEST))
        if rounded not in self.numbers:
            self.numbers.append(rounded)
        return View(self.numbers_buffer, self.numbers.index(rounded), ())

    def add_constant(self, values: Tensor, where: str = "") -> View:
        """Returns a table of any shape, rounded to float32; tables of equal elements share one buffer. Raises
        InvalidInput, with the line `where`, if a value is NaN. Infinities become the largest numbers."""
        flat = values.detach().to(torch.float32).reshape(-1).contiguous()
        if flat.isnan().any():
            raise InvalidInput(
                what="a constant of the step contains NaN",
                expected="finite numbers",
                actual=f"nan in a table of {list(values.shape)}",
                where=where,
                remedy="Correct the module: one of its buffers, or what it computes from them, is NaN.",
            )
        flat = flat.nan_to_num()
        # Zeros at the end of the last leaf do not change the root.
        name = (compute_data_root(flat.numpy().tobytes()), flat.numel())
        if name not in self._tables:
            self._tables[name] = self.add_buffer(Role.CONSTANT, flat.numel())
            self.constants[self._tables[name]] = flat
        return make_contiguous(self._tables[name], 0, values.shape)

    def map(
        self, operation: Operation, *operands: View | float, out: View | None = None, selected: int = 0
    ) -> View:
        """Returns an elementwise operation on broadcast operands; a number becomes a constant. `selected` is
        GATHER's stride for its index, or the logical dimension that EQUAL_SELECT compares with."""
        views = [one if isinstance(one, View) else self.add_number(one) for one in operands]
        shape = _broadcast(views)
        return self._emit(operation, [expand(view, shape) for view in views], 0, out, selected)

    def add(self, a: View | float, b: View | float) -> View:
        """Returns a + b."""
        return self.map(Operation.ADD, a, b)

    def subtract(self, a: View | float, b: View | float) -> View:
        """Returns a - b."""
        return self.map(Operation.SUBTRACT, a, b)

    def multiply(self, a: View | float, b: View | float) -> View:
        """Returns a * b."""
        return self.map(Operation.MULTIPLY, a, b)

    def divide(self, a: View | float, b: View | float) -> View:
        """Returns a / b."""
        return self.map(Operation.DIVIDE, a, b)

    def maximum(self, a: View | float, b: View | float) -> View:
        """Returns the larger of a and b."""
        return self.map(Operation.MAXIMUM, a, b)

    def copy(self, view: View, out: View) -> View:
        """Returns a copy of every element in another place."""
        return self.map(Operation.COPY, view, out=out)

    def contract(
        self,
        operation: Operation,
        operands: Sequence[View],
        reduced: int,
        out: View | None = None,
        selected: int = 0,
    ) -> View:
        """Returns a sum over the last `reduced` dimensions of the operands, which have one shape. A sum that
        is longer than allowed is cut into chunks. `selected` is the dimension that SELECTED_SUM compares
        with."""
        rank = len(operands[0].dimensions)
        merged = [join(view, rank - reduced, rank - 1) for view in operands] if reduced > 1 else operands
        terms, limit = merged[0].shape[-1], self._find_limit(operation, merged)
        if terms <= limit:
            return self._emit(operation, merged, 1, out, selected)
        length = _choose_length(merged, terms, limit)
        whole, rest = divmod(terms, length)
        partial = self.add_tensor((whole + bool(rest), *merged[0].shape[:-1]))
        bulk = [_chunk(narrow(view, rank - reduced, 0, whole * length), whole, length) for view in merged]
        behind = selected + (operation is Operation.SELECTED_SUM)
        self._emit(operation, bulk, 1, narrow(partial, 0, 0, whole), behind)
        if rest:
            tail = [_chunk(narrow(view, rank - reduced, whole * length, rest), 1, rest) for view in merged]
            self._emit(operation, tail, 1, narrow(partial, 0, whole, 1), behind)
        return self.add_up(partial, out)

    def multiply_matrices(
        self, a: View, b: View, out: View | None = None, weighted: int | None = None
    ) -> View:
        """Returns the matrix product of [..., M, K] and [..., K, N]: both are spread over [..., M, N, K], and
        the last dimension is summed. `weighted` is the operand with the values, if the other one has
        attention probabilities."""
        rank = len(a.dimensions)
        *batch, rows, terms = a.shape
        full = (*batch, rows, b.shape[-1], terms)
        left = expand(insert(a, rank - 1), full)
        right = expand(insert(permute(b, (*range(rank - 2), rank - 1, rank - 2)), rank - 2), full)
        self._weighted = weighted
        try:
            return self.contract(Operation.PRODUCT_SUM, (left, right), 1, out)
        finally:
            self._weighted = None

    def reduce_maximum(self, view: View) -> View:
        """Returns the largest element along the last dimension, in chunks as for a sum, because a row of a
        vocabulary is longer than a proof can open. Results of chunks are contiguous, so they are one run
        again."""
        terms, last = view.shape[-1], len(view.shape) - 1
        if terms <= self.chunk_terms:
            return self._emit(Operation.MAXIMUM_OF, [view], 1, None, 0)
        length = _choose_length([view], terms, self.chunk_terms)
        whole, rest = divmod(terms, length)
        partial = self.add_tensor((*view.shape[:-1], whole + bool(rest)))
        of_chunks = permute(partial, (last, *range(last)))
        bulk = _chunk(narrow(view, last, 0, whole * length), whole, length)
        self._emit(Operation.MAXIMUM_OF, [bulk], 1, narrow(of_chunks, 0, 0, whole), 0)
        if rest:
            tail = _chunk(narrow(view, last, whole * length, rest), 1, rest)
            self._emit(Operation.MAXIMUM_OF, [tail], 1, narrow(of_chunks, 0, whole, 1), 0)
        return self.reduce_maximum(partial)

    def _find_limit(self, operation: Operation, operands: Sequence[View]) -> int:
        """Returns the most terms of a sum; wide integers take twice the bytes of a proof."""
        if operation is not Operation.PRODUCT_SUM or not self.product_bits:
            return self.chunk_terms
        outer = zip(*(view.dimensions[:-1] for view in operands), strict=True)
        is_matrix = any(_moves(first) != _moves(second) for first, second in outer)
        is_wide = not is_matrix or self.product_bits == DOT_BITS
        return min(self.chunk_terms, WIDE_TERMS) if is_wide else self.chunk_terms

    def add_up(self, partial: View, out: View | None = None) -> View:
        """Returns the sum over the first dimension by elementwise additions. Halves are added to each other
        until one is left; an odd one is added at the end."""
        waiting: list[View] = []
        while partial.shape[0] > 1:
            half, odd = divmod(partial.shape[0], 2)
            if odd:
                waiting.append(_drop_first(narrow(partial, 0, 2 * half, 1)))
            first, second = narrow(partial, 0, 0, half), narrow(partial, 0, half, half)
            if half == 1 and not waiting:
                return self.map(Operation.ADD, _drop_first(first), _drop_first(second), out=out)
            partial = self.map(Operation.ADD, first, second)
        total = _drop_first(partial)
        for number, view in enumerate(waiting):
            total = self.map(Operation.ADD, total, view, out=out if number == len(waiting) - 1 else None)
        return total

    def _emit(
        self, operation: Operation, operands: Sequence[View], reduced: int, out: View | None, selected: int
    ) -> View:
        """Returns a node over operands of one shape, whose last `reduced` dimensions are summed."""
        key = (operation, tuple(operands), reduced, selected)
        # Make a second copy from the source, because a copy of a copy would depend on it.
        is_known = key in self._known and (out is None or operation is not Operation.COPY)
        # A copy into the same whole would be read before it is complete, so compute the elements again.
        if is_known and (out is None or out.buffer != self._known[key].buffer):
            return self._known[key] if out is None else self.copy(self._known[key], out)
        shape = operands[0].shape
        kept = shape[: len(shape) - reduced]
        moves = operation in (Operation.EQUAL_SELECT, Operation.SELECTED_SUM)
        is_still = [
            all(not _moves(view.dimensions[i]) for view in operands) and not (moves and i == selected)
            for i in range(len(kept))
        ]
        result = out or self._add_result(kept, is_still)
        self._add_node(operation, operands, reduced, result, is_still if out is None else None, selected)
        if out is None or self.shares_pieces:
            self._known.setdefault(key, result)
        return result

    def _add_result(self, shape: Sequence[int], is_still: Sequence[bool]) -> View:
        """Returns a row-major tensor over the dimensions along which something varies, repeated along the
        others."""
        compact = [1 if still else size for size, still in zip(shape, is_still, strict=True)]
        return expand(self.add_tensor(compact), shape)

    def _add_node(
        self,
        operation: Operation,
        operands: Sequence[View],
        reduced: int,
        result: View,
        is_still: Sequence[bool] | None,
        selected: int,
    ) -> None:
        rank = len(operands[0].dimensions)
        outer, inner = range(rank - reduced), range(rank - reduced, rank)
        compared = -1
        loops: list[Loop] = []
        for i in outer:
            if is_still and is_still[i]:
                continue
            fresh = _refine_dimension([result, *operands], i)
            if operation in (Operation.EQUAL_SELECT, Operation.SELECTED_SUM) and i == selected:
                compared = len(loops)
                if len(fresh) > 1:
                    raise LayoutError("the compared dimension must be one loop")
                loops += fresh or [(1, (0,) * (len(operands) + 1))]
            else:
                loops = _merge(loops, fresh, barrier=compared)
        summed: list[Loop] = []
        for i in inner:
            summed = _merge(summed, [(n, (0, *s)) for n, s in _refine_dimension(operands, i)], barrier=-1)
        if operation is Operation.GATHER:
            compared = selected
        self.nodes.append(_make_node(operation, operands, result, loops, summed, max(compared, 0)))
        if self._weighted is not None and operation is Operation.PRODUCT_SUM:
            self.weighted[self.nodes[-1]] = self._weighted


def _broadcast(operands: Sequence[View]) -> tuple[int, ...]:
    rank = max(len(view.dimensions) for view in operands)
    padded = [(1,) * (rank - len(view.shape)) + view.shape for view in operands]
    return tuple(map(max, zip(*padded, strict=True))) if rank else ()


def _moves(dimension: tuple[tuple[int, int], ...]) -> bool:
    return any(stride for _, stride in dimension)


def _choose_length(operands: Sequence[View], terms: int, limit: int) -> int:
    """Returns the longest equal chunk length that divides all operands, if it is at least half the allowed
    one; else full chunks and a rest."""
    for chunks in range(-(-terms // limit), -(-2 * terms // limit) + 1):
        if terms % chunks == 0 and all(_can_split(v, (chunks, terms // chunks)) for v in operands):
            return terms // chunks
    return limit


def _can_split(view: View, sizes: tuple[int, ...]) -> bool:
    try:
        split(view.dimensions[-1], sizes)
    except LayoutError:
        return False
    return True


def _chunk(view: View, chunks: int, length: int) -> View:
    """Cuts the last dimension into chunks; the chunk number becomes the first dimension."""
    cut = divide(view, len(view.dimensions) - 1, (chunks, length)).dimensions
    return replace(view, dimensions=(cut[-2], *cut[:-2], cut[-1]))


def _drop_first(view: View) -> View:
    return replace(view, dimensions=view.dimensions[1:])


def _refine_dimension(views: Sequence[View], dimension: int) -> list[Loop]:
    sizes, strides = refine([view.dimensions[dimension] for view in views])
    return [(size, tuple(own[n] for own in strides)) for n, size in enumerate(sizes)]


def _merge(loops: list[Loop], fresh: list[Loop], barrier: int) -> list[Loop]:
    """Appends loops, and joins one with the last if all strides allow it; never with loop `barrier`."""
    merged = list(loops)
    for size, strides in fresh:
        if merged and len(merged) - 1 != barrier:
            before, outer = merged[-1]
            if all(o == size * s for o, s in zip(outer, strides, strict=True)):
                merged[-1] = (before * size, strides)
                continue
        merged.append((size, strides))
    return merged


def _make_node(
    operation: Operation,
    operands: Sequence[View],
    result: View,
    loops: list[Loop],
    summed: list[Loop],
    selected: int,
) -> Node:
    everything = loops + summed
    accesses = [
        Access(view.buffer, view.offset, tuple(strides[place] for _, strides in everything))
        for place, view in enumerate((result, *operands))
    ]
    output = replace(accesses[0], strides=accesses[0].strides[: len(loops)])
    sizes = tuple(size for size, _ in everything)
    return Node(operation, sizes, len(summed), output, tuple(accesses[1:]), selected)
