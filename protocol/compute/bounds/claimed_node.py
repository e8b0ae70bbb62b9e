"""Holds a claimed node and its suspects: the frame in which all bounds are checked.

A first pass notes the ratios of all elements; those above 1 become suspects. The second gathers each
suspect's terms and follows docs/spec.md, section 9, to the letter. Ratios are |claimed - exact| / bound,
float64.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf

import torch
from torch import Tensor

from touchstone.protocol.compute.program.planning.node_views import NodeViews
from touchstone.protocol.compute.program.tensor_allocator import relax
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.operation_bounds import SAFE, UNDERFLOW

LEAST_NORMAL = 2.0**-126
SAFELY_FINITE = float(SAFE)
LOST_PER_TERM = float(UNDERFLOW)
UNIT = 2.0**-24
UNIT_WIDE = 2.0**-53
"""The unit roundoff of float32, and of the float64 that this module computes in."""
MARGIN = 1 + 2.0**-20
"""Covers the rounding errors of a bound that is itself computed in float32: a few, 2^-24 each."""
MARGIN_WIDE = 1 + 2.0**-40
"""Covers the rounding errors of a bound that is computed in float64."""
TILE_ELEMENTS = 1 << 15
"""Elements that are compared at a time, to stay in the processor's cache."""

Name = Callable[[Tensor], Tensor]
"""Maps flat positions in a tile to element numbers of the node's output."""


@dataclass
class Claim(NodeViews):
    """A node, with views of the values that the claimant says it read and wrote."""

    worst: float = 0.0
    worst_tile: tuple[Tensor, Name] | None = None
    """The ratios of the tile that has the largest ratio."""
    suspects: list[Tensor] = field(default_factory=list)

    def tiles(self) -> Iterator[tuple[int, list[Tensor], Tensor]]:
        """Cuts the node along its first loop. Yields for each tile the number of its first element, the
        operands and the claimed output."""
        views = [self.output, *map(self.operand, range(len(self.node.operands)))]
        if not self.node.output_sizes:
            views = [view.unsqueeze(0) for view in views]
        total = views[0].shape[0]
        inner = self.node.elements // total
        length = max(1, TILE_ELEMENTS // (inner * self.node.terms))
        for start in range(0, total, length):
            claimed, *operands = (view[start : start + length] for view in views)
            relax()
            yield start * inner, operands, claimed

    def note(self, ratios: Tensor, name: Name) -> None:
        """Keeps the largest ratio (of either sign). Elements with a ratio above 1, or NaN, become
        suspects."""
        most = largest(ratios)
        if not most <= 1:
            is_clear = ratios.abs() <= 1
            self.suspects.append(name((~is_clear).flatten().nonzero().flatten()))
            ratios = torch.where(is_clear, ratios, 0.0)
            most = largest(ratios)
        if most > self.worst:
            self.worst, self.worst_tile = most, (ratios, name)

    @property
    def element(self) -> int:
        """The number of the element that has the largest ratio and is no suspect; 0 if all are exact."""
        if self.worst_tile is None:
            return 0
        ratios, name = self.worst_tile
        return int(name(ratios.abs().flatten().argmax()))

    def compare(self, exact: Tensor, claimed: Tensor, start: int) -> None:
        """Makes each element that differs from the exact value a suspect. `start` is the number of the first
        element. (Two numbers are equal if and only if their difference is zero; torch.equal is three times
        slower.)"""
        if largest(exact - claimed) != 0:
            self.suspects.append((exact != claimed).flatten().nonzero().flatten() + start)


def counting_from(start: int) -> Name:
    """Returns the function that numbers the successive elements of a tile whose first element has number
    `start`."""
    return lambda positions: positions + start


Places = tuple[Tensor, ...]
"""The places of some output elements: one tensor of indices for each output loop."""


def unravel(numbers: Tensor, sizes: Sequence[int]) -> Places:
    """Returns the loop indices of element numbers (int64); the last loop runs fastest."""
    places = []
    for size in reversed(sizes):
        places.append(numbers % size)
        numbers = numbers // size
    return tuple(reversed(places))


def take(values: Tensor, places: Places) -> Tensor:
    """Returns these elements of a view over the output's loops, as float64 [elements]."""
    return (values[places] if places else values.unsqueeze(0)).double()


def take_terms(values: Tensor, places: Places) -> Tensor:
    """Returns the terms of these elements, from a view over all loops, as float64 [elements, terms]."""
    taken = values[places] if places else values.unsqueeze(0)
    return taken.reshape(taken.shape[0], -1).double()


def judge(claimed: Tensor, exact: Tensor, bound: Tensor, magnitude: Tensor) -> Tensor:
    """Returns the differences divided by the bounds. A claim that is not finite is a fault only if
    `magnitude` is below 2^127."""
    difference = (claimed - exact).abs()
    ratios = torch.where(difference == 0, 0.0, difference / bound)
    lost = torch.where(magnitude < SAFELY_FINITE, inf, 0.0)
    return torch.where(claimed.isfinite(), ratios, lost)


def judge_choice(claimed: Tensor, accepted: Sequence[Tensor], magnitude: Tensor) -> Tensor:
    """Returns 0 for each claim that is an accepted value, else infinity."""
    is_accepted = torch.stack([claimed == value for value in accepted]).any(0)
    is_excused = ~claimed.isfinite() & ~(magnitude < SAFELY_FINITE)
    return torch.where(is_accepted | is_excused, 0.0, inf)


def excuse(ratios: Tensor, *operands: Tensor) -> Tensor:
    """Sets the ratio to 0 for elements with an operand that is not finite."""
    for operand in operands:
        is_finite = operand.isfinite()
        ratios = torch.where(is_finite if operand.dim() == 1 else is_finite.all(1), ratios, 0.0)
    return ratios


def largest(values: Tensor) -> float:
    """Returns the largest magnitude, in one pass; NaN if any value is NaN."""
    low, high = values.aminmax()
    return float(torch.maximum(high, -low))


def flush(values: Tensor) -> Tensor:
    """Replaces subnormal numbers by zero."""
    return torch.where(values.abs() < LEAST_NORMAL, 0.0, values)


def gamma(terms: int, unit: float) -> float:
    """Returns n u / (1 - n u) (Higham, 2nd ed., lemma 3.1)."""
    return terms * unit / (1 - terms * unit)


def require_index(index: Tensor, size: int) -> None:
    """Raises InvalidInput unless all of `index` lies in 0 .. size - 1."""
    index = index[tuple(slice(None if stride else 1) for stride in index.stride())]
    low, high = (int(x) for x in index.aminmax())
    if low < 0 or high >= size:
        raise InvalidInput(
            what="an index is outside of its table",
            expected=f"0 to {size - 1}",
            actual=(low, high),
            remedy="Check tokens and labels against the task's vocabulary first.",
        )


Check = tuple[Callable[[Claim], None], Callable[[Claim, Places], Tensor]]
"""The first pass over a node, and the second pass over some of its elements (float64 ratios)."""
