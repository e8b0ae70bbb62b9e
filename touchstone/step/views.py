"""Describes where a tensor's elements lie: views that cost nothing.

A logical dimension is a tuple of atoms (size, stride), outermost first; a view is an offset and one such
tuple for each dimension. Merging dimensions concatenates their atoms, splitting one peels atoms off,
transposing permutes the tuples, expanding adds an atom of stride 0: nothing is ever copied. When an operation
combines views, their atoms are cut into the common refinement, which gives its loops.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod

Atom = tuple[int, int]
"""(size, stride) in elements."""
Dimension = tuple[Atom, ...]


class LayoutError(ValueError):
    """A dimension cannot be cut as the caller asked. This is a bug of the caller, never an error of input."""


@dataclass(frozen=True, slots=True)
class View:
    """A tensor of any rank inside a buffer. `dimensions` has the atoms of each logical dimension; dimensions
    of size 1 have none."""

    buffer: int
    offset: int
    dimensions: tuple[Dimension, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each logical dimension."""
        return tuple(map(count, self.dimensions))


def count(dimension: Dimension) -> int:
    """Returns the number of elements along a dimension."""
    return prod(size for size, _ in dimension)


def simplify(atoms: Iterable[Atom]) -> Dimension:
    """Returns the same elements in the fewest atoms."""
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
    """Returns a view of successive elements, the last dimension fastest."""
    strides = [prod(shape[i + 1 :]) for i in range(len(shape))]
    return View(buffer, offset, tuple(simplify([atom]) for atom in zip(shape, strides, strict=True)))


def split(dimension: Dimension, sizes: Sequence[int]) -> tuple[Dimension, ...]:
    """Cuts a dimension into consecutive ones of these sizes, outermost first. Raises LayoutError if an
    atom would have to be cut unevenly."""
    pieces: list[Dimension] = []
    rest = dimension
    for size in reversed(sizes):
        rest, piece = _peel(rest, size)
        pieces.append(piece)
    if rest:
        raise LayoutError(f"{dimension} has more elements than {sizes}")
    return tuple(reversed(pieces))


def _peel(dimension: Dimension, size: int) -> tuple[Dimension, Dimension]:
    """Returns (the rest, the innermost `size` elements)."""
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
    """Returns the same elements in row-major order under another shape."""
    everything = simplify(atom for dimension in view.dimensions for atom in dimension)
    return replace(view, dimensions=split(everything, shape))


def permute(view: View, order: Sequence[int]) -> View:
    """Returns dimensions in another order."""
    return replace(view, dimensions=tuple(view.dimensions[i] for i in order))


def narrow(view: View, dimension: int, start: int, length: int) -> View:
    """Returns elements start .. start + length of one dimension. If that has several atoms, only whole
    outermost steps can be cut off."""
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
    """Returns the view broadcast as in NumPy: new dimensions in front, dimensions of size 1 repeated (stride
    0)."""
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
    """Returns a new dimension of size 1 before the one numbered `dimension`."""
    dimensions = view.dimensions
    return replace(view, dimensions=(*dimensions[:dimension], (), *dimensions[dimension:]))


def remove(view: View, dimension: int) -> View:
    """Returns the view without a dimension, which must have one element."""
    if view.dimensions[dimension]:
        raise LayoutError(f"dimension {dimension} has {count(view.dimensions[dimension])} elements")
    return replace(view, dimensions=_put(view.dimensions, dimension))


def divide(view: View, dimension: int, sizes: Sequence[int]) -> View:
    """Returns one dimension split into several."""
    return replace(
        view, dimensions=_put(view.dimensions, dimension, *split(view.dimensions[dimension], sizes))
    )


def join(view: View, first: int, last: int) -> View:
    """Returns dimensions first .. last (inclusive) merged into one."""
    merged = simplify(atom for dimension in view.dimensions[first : last + 1] for atom in dimension)
    return replace(view, dimensions=(*view.dimensions[:first], merged, *view.dimensions[last + 1 :]))


def _put(dimensions: tuple[Dimension, ...], place: int, *values: Dimension) -> tuple[Dimension, ...]:
    return (*dimensions[:place], *values, *dimensions[place + 1 :])


def refine(dimensions: Sequence[Dimension]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Returns the common refinement of one dimension of several views: sizes of the loops, and each view's
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
