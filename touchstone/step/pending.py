"""Defines results that are not written as nodes yet, because their readers decide how.

PyTorch's backward pass makes tensors of which most elements are zero, conditions that one selection reads,
products that one sum reads. Written as nodes they would cost memory, hashing and a proof each.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor

from touchstone.protocol.spec.program_operations import Operation
from touchstone.step.builder import Builder
from touchstone.step.signs import find_positive, write_absolute
from touchstone.step.views import View, expand, insert, narrow, remove


class Pending(ABC):
    """A tensor that can be written as nodes."""

    @abstractmethod
    def write(self, builder: Builder) -> View:
        """Writes it as nodes, and returns where it lies."""


@dataclass(frozen=True)
class Product(Pending):
    """The product a * b, element by element."""

    a: View
    b: View

    def write(self, builder: Builder) -> View:
        """Writes and returns one node."""
        return builder.multiply(self.a, self.b)


@dataclass(frozen=True)
class Absolute(Pending):
    """The absolute value |of|."""

    of: View

    def write(self, builder: Builder) -> View:
        """Writes and returns the larger of x and -x."""
        return write_absolute(builder, self.of)


@dataclass(frozen=True)
class Condition(Pending):
    """1 if something holds, else 0."""

    indicator: View

    def write(self, builder: Builder) -> View:
        """Writes the condition, and returns it."""
        return self.indicator


@dataclass(frozen=True)
class Below(Pending):
    """1 if |of| < limit, else 0."""

    of: View
    limit: float

    def write(self, builder: Builder) -> View:
        """Writes 1 if limit - |of| is above zero, else 0."""
        size = write_absolute(builder, self.of)
        return find_positive(builder, builder.subtract(self.limit, size))


@dataclass(frozen=True)
class Pieces(Pending):
    """A tensor of `size` along `dimension` that is zero except for `parts`: (start, view), in order, without
    overlap."""

    dimension: int
    size: int
    parts: tuple[tuple[int, View], ...]

    def join(self, other: "Pieces") -> "Pieces | None":
        """Returns the sum of both; None if they overlap or are cut along different dimensions."""
        parts = sorted((*self.parts, *other.parts), key=lambda part: part[0])
        stops = [start + view.shape[self.dimension] for start, view in parts]
        is_apart = all(stop <= start for stop, (start, _) in zip(stops, parts[1:], strict=False))
        if (self.dimension, self.size) != (other.dimension, other.size) or not is_apart:
            return None
        return Pieces(self.dimension, self.size, tuple(parts))

    @property
    def is_whole(self) -> bool:
        """Whether the parts fill the tensor."""
        return sum(view.shape[self.dimension] for _, view in self.parts) == self.size

    def write(self, builder: Builder) -> View:
        """Writes copies of the parts, and of zeros between them."""
        shape = list(self.parts[0][1].shape)
        shape[self.dimension] = self.size
        whole, filled = builder.add_tensor(shape), 0
        zero = builder.add_number(0.0)
        for start, view in (*self.parts, (self.size, None)):
            if start > filled:
                gap = narrow(whole, self.dimension, filled, start - filled)
                builder.copy(expand(zero, gap.shape), gap)
            if view is not None:
                filled = start + view.shape[self.dimension]
                builder.copy(view, narrow(whole, self.dimension, start, filled - start))
        return whole


@dataclass(frozen=True)
class LogSoftmax(Pending):
    """The log of a softmax over the last dimension: shifted = x - max, powers = exp(max(shifted, -50)), total
    = their sum."""

    shifted: View
    powers: View
    total: View

    def write(self, builder: Builder) -> View:
        """Writes shifted - log(total)."""
        logarithm = builder.map(Operation.LOGARITHM, remove(self.total, len(self.total.dimensions) - 1))
        return builder.subtract(self.shifted, insert(logarithm, len(self.total.dimensions) - 1))


@dataclass(frozen=True)
class LossGradient(Pending):
    """A tensor [..., classes] with -scale at the label of each row, zero elsewhere. `scale` is one number, or
    one for each row."""

    labels: View
    scale: View
    classes: int

    def write(self, builder: Builder) -> View:
        """Writes the scales at their places, negated."""
        return builder.multiply(self.place(builder), -1.0)

    def place(self, builder: Builder) -> View:
        """Writes the scale at the label of each row, zero elsewhere."""
        rank = len(self.labels.dimensions)
        shape = (*self.labels.shape, self.classes)
        scale = insert(self.scale, rank) if self.scale.dimensions else self.scale
        index = expand(insert(self.labels, rank), shape)
        return builder.map(Operation.EQUAL_SELECT, index, scale, 0.0, selected=rank)


@dataclass(frozen=True, eq=False)
class Indices(Pending):
    """Integers that every batch shares, for example positions in a sequence."""

    values: Tensor

    def write(self, builder: Builder) -> View:
        """Writes a table of numbers, and returns it."""
        return builder.add_constant(self.values)
