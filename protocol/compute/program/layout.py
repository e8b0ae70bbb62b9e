"""Where a tensor's elements lie: views that cost nothing, and copies that make operands runs of memory.

A logical dimension is a tuple of atoms (size, stride), outermost first; a view is an offset and one such
tuple per dimension. Merging dimensions concatenates their atoms, splitting one peels atoms off, transposing
permutes the tuples, expanding adds an atom of stride 0: nothing is ever copied. When an operation combines
views, their atoms are cut into the common refinement, which gives its loops.

A node over flat buffers becomes strided views. Copies make every operand of a sum one run of memory, and a
program runs as if they were not there.

Terms that lie far from each other would cost a dispute a leaf each. So a program has a COPY before each
reader of such an operand, and the reader sums over the copy. Who trains does without: a reader's kernel goes
to what was copied (`fold`), so that neither its speed nor one bit changes. Only a trace has the copies.

    reader <- operand here and there          becomes   operand -> COPY -> run <- reader
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from math import prod
from typing import NamedTuple

from torch import Tensor

from protocol.spec.errors import InvalidInput
from protocol.spec.program import (
    INDEX_ROLES,
    Access,
    Buffer,
    Node,
    Operation,
    Program,
    Role,
    is_run,
    lay_row_major,
    unravel,
)

# --- Views --------------------------------------------------------------------------------------------------
Atom = tuple[int, int]
"""(size, stride) in elements."""
Dimension = tuple[Atom, ...]


class LayoutError(ValueError):
    """A dimension cannot be cut as asked for; a bug of the caller, never of input."""


@dataclass(frozen=True, slots=True)
class View:
    """A tensor of any rank inside a buffer. dimensions: atoms of each logical dimension; size-1 dimensions
    have none."""

    buffer: int
    offset: int
    dimensions: tuple[Dimension, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Size of each logical dimension."""
        return tuple(map(count, self.dimensions))


def count(dimension: Dimension) -> int:
    """Elements along a dimension."""
    return prod(size for size, _ in dimension)


def simplify(atoms: Iterable[Atom]) -> Dimension:
    """The same elements in the fewest atoms."""
    merged: list[Atom] = []
    for size, stride in atoms:
        if size == 1:
            continue
        if merged and merged[-1][1] == size * stride:
            merged[-1] = (merged[-1][0] * size, stride)
        else:
            merged.append((size, stride))
    return tuple(merged)


def make_contiguous(buffer: int, offset: int, shape: Sequence[int]) -> View:
    """A view whose elements follow each other, the last dimension fastest."""
    strides = [prod(shape[i + 1 :]) for i in range(len(shape))]
    return View(buffer, offset, tuple(simplify([atom]) for atom in zip(shape, strides, strict=True)))


def split(dimension: Dimension, sizes: Sequence[int]) -> tuple[Dimension, ...]:
    """Cut a dimension into consecutive ones of these sizes, outermost first. Raises LayoutError where an atom
    would have to be cut unevenly."""
    pieces: list[Dimension] = []
    rest = dimension
    for size in reversed(sizes):
        rest, piece = _peel(rest, size)
        pieces.append(piece)
    if rest:
        raise LayoutError(f"{dimension} has more elements than {sizes}")
    return tuple(reversed(pieces))


def _peel(dimension: Dimension, size: int) -> tuple[Dimension, Dimension]:
    """(what is left, the innermost `size` elements)."""
    left, taken = list(dimension), []
    while size > 1:
        if not left:
            raise LayoutError(f"{dimension} has fewer than {size} elements")
        length, stride = left.pop()
        if size % length == 0:
            taken.append((length, stride))
            size //= length
        elif length % size == 0:
            left.append((length // size, stride * size))
            taken.append((size, stride))
            size = 1
        else:
            raise LayoutError(f"an atom of {length} cannot be cut into {size}")
    return tuple(left), tuple(reversed(taken))


def reshape(view: View, shape: Sequence[int]) -> View:
    """The same elements in row-major order under another shape."""
    everything = simplify(atom for dimension in view.dimensions for atom in dimension)
    return replace(view, dimensions=split(everything, shape))


def permute(view: View, order: Sequence[int]) -> View:
    """Dimensions in another order."""
    return replace(view, dimensions=tuple(view.dimensions[i] for i in order))


def narrow(view: View, dimension: int, start: int, length: int) -> View:
    """Elements start .. start + length of one dimension; where that has several atoms only whole outermost
    steps can be cut off."""
    atoms = view.dimensions[dimension]
    if not 0 <= start <= start + length <= count(atoms):
        raise LayoutError(f"{start}..{start + length} lies outside of {atoms}")
    inner = count(atoms[1:])
    if start % inner or length % inner:
        raise LayoutError(f"{start}..{start + length} cuts through {atoms}")
    stride = atoms[0][1] if atoms else 0
    cut = simplify([(length // inner, stride), *atoms[1:]]) if atoms else ()
    return replace(
        view,
        offset=view.offset + start // inner * stride,
        dimensions=_put(view.dimensions, dimension, cut),
    )


def expand(view: View, shape: Sequence[int]) -> View:
    """Broadcast as NumPy does: new dimensions in front, size-1 dimensions repeated (stride 0)."""
    added = len(shape) - len(view.dimensions)
    padded = ((),) * added + view.dimensions
    if any(count(dimension) not in (1, size) for dimension, size in zip(padded, shape, strict=True)):
        raise LayoutError(f"{view.shape} cannot be spread over {tuple(shape)}")
    wanted = (
        dimension if count(dimension) == size else simplify([(size, 0)])
        for dimension, size in zip(padded, shape, strict=True)
    )
    return replace(view, dimensions=tuple(wanted))


def insert(view: View, dimension: int) -> View:
    """A new dimension of size 1 before the one numbered `dimension`."""
    dimensions = view.dimensions
    return replace(view, dimensions=(*dimensions[:dimension], (), *dimensions[dimension:]))


def remove(view: View, dimension: int) -> View:
    """Without a dimension, which must have one element."""
    if view.dimensions[dimension]:
        raise LayoutError(f"dimension {dimension} has {count(view.dimensions[dimension])} elements")
    return replace(view, dimensions=_put(view.dimensions, dimension))


def divide(view: View, dimension: int, sizes: Sequence[int]) -> View:
    """One dimension split into several."""
    return replace(
        view, dimensions=_put(view.dimensions, dimension, *split(view.dimensions[dimension], sizes))
    )


def join(view: View, first: int, last: int) -> View:
    """Dimensions first .. last (inclusive) merged into one."""
    merged = simplify(atom for dimension in view.dimensions[first : last + 1] for atom in dimension)
    return replace(view, dimensions=(*view.dimensions[:first], merged, *view.dimensions[last + 1 :]))


def _put(dimensions: tuple[Dimension, ...], place: int, *values: Dimension) -> tuple[Dimension, ...]:
    return (*dimensions[:place], *values, *dimensions[place + 1 :])


def refine(dimensions: Sequence[Dimension]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """The common refinement of one dimension of several views: sizes of the loops, and each view's
    strides."""
    total = {count(dimension) for dimension in dimensions}
    if len(total) != 1:
        raise LayoutError(f"dimensions of {sorted(total)} elements do not match")
    left = [list(dimension) for dimension in dimensions]
    sizes: list[int] = []
    strides: list[list[int]] = [[] for _ in dimensions]
    while left[0]:
        size = reduce(min, (atoms[-1][0] for atoms in left))
        for atoms, own in zip(left, strides, strict=True):
            length, stride = atoms.pop()
            if length % size:
                raise LayoutError(f"loops of {length} and {size} have no common refinement")
            own.append(stride)
            if length > size:
                atoms.append((length // size, stride * size))
        sizes.append(size)
    return tuple(reversed(sizes)), [tuple(reversed(own)) for own in strides]


# --- Nodes as strided views, and copies ---------------------------------------------------------------------
MakeView = Callable[[Access, Sequence[int], Sequence[int]], Tensor]
"""(access, sizes, strides) to a view of the access's buffer; sizes and strides are in another order than the
access's own where a library wants it. A first size of -1: as many as the buffer holds."""


def look(flat: Tensor, offset: int, sizes: Sequence[int], strides: Sequence[int]) -> Tensor:
    """A strided view of a flat tensor, from its element `offset` on; a first size of -1: as many as there
    are."""
    if sizes and sizes[0] == -1:
        reach = offset + sum((size - 1) * stride for size, stride in zip(sizes[1:], strides[1:], strict=True))
        sizes = ((flat.numel() - 1 - reach) // strides[0] + 1, *sizes[1:])
    return flat.as_strided(tuple(sizes), tuple(strides), flat.storage_offset() + offset)


@dataclass
class NodeViews:
    """A node, and how its accesses are looked at."""

    node: Node
    view: MakeView

    def operand(self, place: int) -> Tensor:
        """An operand over all loops."""
        access = self.node.operands[place]
        return self.view(access, self.node.sizes, access.strides)

    @property
    def output(self) -> Tensor:
        """The output over its loops."""
        return self.view(self.node.output, self.node.output_sizes, self.node.output.strides)


class ProductLoops(NamedTuple):
    """The loops of a product sum by whom they move: both operands, or neither (batch), the first (rows), the
    second (columns), none of the output (terms)."""

    batch: list[int]
    rows: list[int]
    columns: list[int]
    terms: list[int]

    @property
    def is_matrix(self) -> bool:
        """Whether it is a matrix product; else each element has operands of its own."""
        return bool(self.rows or self.columns)


def sort_loops(node: Node) -> ProductLoops:
    """The loops of a PRODUCT_SUM or QUANTIZED_PRODUCT_SUM, by number."""
    a, b = node.operands[:2]
    loops = range(len(node.output_sizes))
    rows = [n for n in loops if a.strides[n] and not b.strides[n]]
    columns = [n for n in loops if b.strides[n] and not a.strides[n]]
    batch = [n for n in loops if n not in rows and n not in columns]
    return ProductLoops(batch, rows, columns, list(range(len(loops), len(node.sizes))))


_Key = tuple[int, int, tuple[tuple[int, int], ...]]
"""Buffer and offset of what is copied; size and stride of each loop."""


# --- Adding copies ------------------------------------------------------------------------------------------
def straighten(program: Program) -> Program:
    """The program with a COPY before the first reader of each operand of a sum whose terms are no run; new
    buffers come last. Operands over the same elements share one. Raises InvalidInput where an index would
    have to be copied."""
    copies = _Copies(list(program.buffers))
    for node in program.nodes:
        if any(not _is_straight(node, operand) for operand in node.operands):
            node = replace(node, operands=tuple(copies.read(node, operand) for operand in node.operands))
        copies.nodes.append(node)
    return replace(program, buffers=tuple(copies.buffers), nodes=tuple(copies.nodes))


def _is_straight(node: Node, operand: Access) -> bool:
    return is_run(operand.strides[len(node.output_sizes) :], node.reduced_sizes)


@dataclass
class _Copies:
    """Buffers and nodes so far; made: the buffer of each copy."""

    buffers: list[Buffer]
    nodes: list[Node] = field(default_factory=list)
    made: dict[_Key, int] = field(default_factory=dict)

    def read(self, node: Node, operand: Access) -> Access:
        """The operand, or the run in a copy of it, over all loops of `node`."""
        if _is_straight(node, operand):
            return operand
        outer = len(node.output_sizes)
        loops = [n for n in range(len(node.sizes)) if n >= outer or operand.strides[n]]
        sizes = tuple(node.sizes[n] for n in loops)
        source = replace(operand, strides=tuple(operand.strides[n] for n in loops))
        key = (operand.buffer, operand.offset, tuple(zip(sizes, source.strides, strict=True)))
        if key not in self.made:
            self.made[key] = self._copy(source, sizes)
        strides = dict(zip(loops, lay_row_major(sizes), strict=True))
        return Access(self.made[key], 0, tuple(strides.get(n, 0) for n in range(len(node.sizes))))

    def _copy(self, source: Access, sizes: tuple[int, ...]) -> int:
        if self.buffers[source.buffer].role in INDEX_ROLES:
            raise InvalidInput(
                what="indices of a sum that do not lie in one run",
                expected="positions that follow each other",
                actual=source,
                where=f"buffer {source.buffer}",
                remedy="Only numbers can be copied: sum over positions in the order of the batch.",
            )
        self.buffers.append(Buffer(Role.TENSOR, prod(sizes)))
        output = Access(len(self.buffers) - 1, 0, lay_row_major(sizes))
        self.nodes.append(Node(Operation.COPY, sizes, 0, output, (source,)))
        return output.buffer


# --- Doing without them -------------------------------------------------------------------------------------
def fold(program: Program, keeps_copies: bool) -> Program:
    """The program with every reader of a foldable copy (`find_foldable`) reading what was copied. The nodes
    that copy are dropped unless `keeps_copies`. Their buffers keep their numbers, and no node reads them."""
    foldable = find_foldable(program)
    nodes = (
        replace(
            node, operands=tuple(_look_through(operand, node.sizes, foldable) for operand in node.operands)
        )
        for node in program.nodes
        if keeps_copies or node.output.buffer not in foldable
    )
    return replace(program, nodes=tuple(nodes))


def find_foldable(program: Program) -> dict[int, Node]:
    """By buffer: the COPY that alone writes it, all of it, row-major, where every reader's elements can be
    named as elements of what was copied."""
    found = dict(_list_whole_copies(program))
    for node in program.nodes:
        for place, operand in enumerate(node.operands):
            if operand.buffer in found:
                is_moved = node.operation is Operation.GATHER and place == 1
                if is_moved or compose(operand, node.sizes, found[operand.buffer]) is None:
                    del found[operand.buffer]
    return found


def _list_whole_copies(program: Program) -> Iterator[tuple[int, Node]]:
    outputs = program.outputs
    results = {outputs.loss, outputs.weights, outputs.first_moment, outputs.second_moment}
    for node in program.nodes:
        output = node.output
        is_first_to_last = (output.offset, output.strides) == (0, lay_row_major(node.sizes))
        # Each element has one writer: who writes as many as there are is the only one.
        is_whole = is_first_to_last and node.elements == program.buffers[output.buffer].size
        if node.operation is Operation.COPY and is_whole and output.buffer not in results:
            yield output.buffer, node


def _look_through(operand: Access, sizes: Sequence[int], foldable: Mapping[int, Node]) -> Access:
    while operand.buffer in foldable:
        composed = compose(operand, sizes, foldable[operand.buffer])
        if composed is None:
            raise AssertionError(f"{operand} cannot be folded, though it was found foldable")
        operand = composed
    return operand


def compose(access: Access, sizes: Sequence[int], copy: Node) -> Access | None:
    """Where the elements that `access` reads in the output of `copy`, over loops of these sizes, were copied
    from; None where its loops are not loops of the copy."""
    source = copy.operands[0]
    strides = copy.output.strides
    indices = list(unravel(access.offset, copy.sizes))
    offset = source.offset + sum(i * stride for i, stride in zip(indices, source.strides, strict=True))
    composed = []
    for size, stride in zip(sizes, access.strides, strict=True):
        if stride == 0 or size == 1:
            composed.append(0)
            continue
        loop = next((k for k, own in enumerate(strides) if own == stride and copy.sizes[k] > 1), None)
        if loop is None:
            return None
        indices[loop] += size - 1
        composed.append(source.strides[loop])
    is_inside = all(index < size for index, size in zip(indices, copy.sizes, strict=True))
    return Access(source.buffer, offset, tuple(composed)) if is_inside else None
