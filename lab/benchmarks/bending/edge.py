"""A step whose every element lies at the edge of its bound, on the side that somebody wants.

Node by node: the exact value of each element from the operands as they stand, already bent, in float64; then
the float32 number nearest to exact +- `fraction` of the bound that is still inside. The bounds are those of
`compute/bounds/check.py`, never larger. One correctly rounded operation, or one that chooses, has no room
and stays honest; so do the few subnormals that the rules let a machine flush.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lab.benchmarks.bending.adjoint import Tape
from protocol.compute.program.contiguous import look
from protocol.compute.program.kernels import make_kernel
from protocol.spec.program import Access, Node, Operation
from protocol.spec.referee import FORMATS, ULPS, UNDERFLOW, NumericFormat

FRACTION = 0.999
"""Of each bound; the rest is for the roundings of this module."""
TILE_ELEMENTS = 1 << 15
"""Bent at once, to stay in the processor's cache."""
UNIT = 2.0**-24
LEAST_NORMAL = 2.0**-126
POWER_BITS = 0x7FF0000000000000
"""What is left of a float64 under this mask is the largest power of two in it."""
FUNCTIONS: dict[Operation, Callable[[Tensor], Tensor]] = {
    Operation.EXPONENTIAL: torch.exp,
    Operation.LOGARITHM: torch.log,
    Operation.RECIPROCAL_ROOT: torch.rsqrt,
    Operation.SIGMOID: torch.sigmoid,
}
SUMS = frozenset({Operation.PRODUCT_SUM, Operation.SUM, Operation.SELECTED_SUM})
ROOMY = SUMS | FUNCTIONS.keys()
"""Operations whose bound is not zero."""
Gains = dict[int, float]
"""By node: sum of |derivative| * bound, what bending all of its elements can move the functional, to first
order."""


class Edge:
    """Bends the traces of one tape."""

    def __init__(self, tape: Tape, numeric_format: str = "float32", fraction: float = FRACTION) -> None:
        self.tape, self.format, self.fraction = tape, FORMATS[numeric_format], fraction

    def run(self, wishes: Mapping[int, Tensor], nodes: Collection[int] | None = None) -> Gains:
        """Computes the tape's nodes in order, each element pushed in the direction of its wish's sign (flat,
        by buffer: derivatives, or anything else; zero: left exact). nodes: all others stay honest."""
        gains: Gains = {}
        for number, node in enumerate(self.tape.program.nodes):
            if node.operation in ROOMY and (nodes is None or number in nodes):
                gains[number] = self._bend(node, wishes[node.output.buffer])
            else:
                self.tape.run(number, number + 1)
        return gains

    def _bend(self, node: Node, wishes: Tensor) -> float:
        """One node; the sum of |wish| * bound."""
        strides, offset, shape = node.output.strides, node.output.offset, node.output_sizes
        wish = look(wishes, offset, shape, strides).reshape(-1)
        room, claimed, gain = compute_room(self.tape, node, self.format), torch.empty(wish.shape), 0.0
        for start in range(0, wish.numel(), TILE_ELEMENTS):
            tile = slice(start, start + TILE_ELEMENTS)
            exact, bound, wanted = room.exact[tile], room.compute_bound(tile), wish[tile].double()
            gain += float(torch.dot(wanted.abs(), bound))
            claimed[tile] = push(exact, bound, wanted.sign_(), self.fraction)
        look(self.tape.buffers[node.output.buffer], offset, shape, strides).copy_(claimed.view(shape))
        return gain


def push(exact: Tensor, bound: Tensor, sign: Tensor, fraction: float) -> Tensor:
    """float32 nearest to exact + sign * fraction * bound that is not outside; all given in float64."""
    claimed = torch.addcmul(exact, sign, bound, value=fraction).float()
    for _ in range(2):
        is_outside = (claimed.double() - exact).abs_() > bound
        if not is_outside.any():
            return claimed
        claimed = torch.where(is_outside, torch.nextafter(claimed, exact.float()), claimed)
    return torch.where((claimed.double() - exact).abs_() > bound, exact.float(), claimed)


# --- Room ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Room:
    """Exact values (float64) of a node's elements, flat over its output loops, and their bounds: scale * size
    + least, at most those of the rules."""

    exact: Tensor
    size: Tensor
    scale: float = 1.0
    least: float = 0.0

    def compute_bound(self, tile: slice) -> Tensor:
        """Of some elements, float64."""
        return self.size[tile].double().mul(self.scale).add_(self.least)


def compute_room(tape: Tape, node: Node, numeric_format: NumericFormat) -> Room:
    """What the operands on the tape allow."""
    if node.operation in FUNCTIONS:
        return _room_of_function(tape, node)
    exact, terms = _run(tape, node, Tensor.double), node.terms
    if node.operation is Operation.PRODUCT_SUM:
        e, gamma = float(numeric_format.input_error), _gamma(terms, float(numeric_format.unit))
        scale = (2 * e + e * e + (1 + e) ** 2 * gamma) / (1 + _gamma(terms, UNIT))
        return Room(exact, _run(tape, node, Tensor.abs), scale, terms * float(UNDERFLOW))
    size = _run(tape, node, _wide_size)
    count = (
        _run(tape, node, _one_each) if node.operation is Operation.SELECTED_SUM else float(terms) + 0 * size
    )
    steps = (count - 1) * UNIT
    bound = steps / (1 - steps) * size + count * float(UNDERFLOW)
    return Room(exact, torch.where(count > 1, bound, 0.0))


def _room_of_function(tape: Tape, node: Node) -> Room:
    """A few units in the last place of the exact value: k 2^floor(log2 |x|) 2^-23."""
    operand = node.operands[0]
    exact = FUNCTIONS[node.operation](tape.view(operand, node.sizes, operand.strides).double()).reshape(-1)
    power = exact.view(torch.int64).bitwise_and(POWER_BITS).view(torch.float64)
    is_normal = exact.abs() >= LEAST_NORMAL
    return Room(exact, torch.where(is_normal, power, 0.0), ULPS[node.operation] * 2.0**-23)


def _gamma(terms: int, unit: float) -> float:
    return terms * unit / (1 - terms * unit)


def _wide_size(values: Tensor) -> Tensor:
    return values.double().abs()


def _one_each(values: Tensor) -> Tensor:
    return torch.ones_like(values, dtype=torch.float64)


def _run(tape: Tape, node: Node, change: Callable[[Tensor], Tensor]) -> Tensor:
    """The node's own kernel on changed operands."""
    results: list[Tensor] = []

    def view(access: Access, sizes: Sequence[int], strides: Sequence[int]) -> Tensor:
        if access.buffer == node.output.buffer:
            return results[0].as_strided(tuple(sizes), tuple(strides))
        values = tape.view(access, sizes, strides)
        return change(values) if values.is_floating_point() else values

    sample = change(torch.empty(0, dtype=tape.dtype))
    results.append(torch.empty(node.output_sizes, dtype=sample.dtype))
    strides = results[0].stride()
    make_kernel(_with_output(node, strides), view)()
    return results[0].reshape(-1)


def _with_output(node: Node, strides: Sequence[int]) -> Node:
    output = Access(node.output.buffer, 0, tuple(strides))
    return Node(node.operation, node.sizes, node.reduced, output, node.operands, node.selected)
