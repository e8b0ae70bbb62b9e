"""Makes single nodes of every kind over awkward operands.

Operands are contiguous, transposed, with gaps or repeated; sums have 1 to 4,096 terms. A layout names loops
by letters, as einsum does: the output's loops, the reduced ones, and the order of each operand and of the
output in memory. A letter that is no loop makes a gap, or the rows of a table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import torch
from torch import Generator, Tensor

from lab.benchmarks.honesty.operands import (
    SWEEPS,
    draw_conditions,
    draw_mixed,
    draw_ordinary,
    draw_partners,
    draw_rows,
    draw_sweep,
    draw_thresholds,
)
from touchstone.protocol.compute.bounds.node_check import NodeReport, check_node
from touchstone.protocol.compute.program.kernels.plain_kernels import make_kernel
from touchstone.protocol.compute.program.planning.node_views import NodeViews, look
from touchstone.protocol.spec.program import Access, Node
from touchstone.protocol.spec.program_addressing import locate, unravel
from touchstone.protocol.spec.program_operations import INDEXED, REDUCTIONS, Operation
from touchstone.protocol.spec.referee import Judgement, judge_element


# A node with its memory
@dataclass(frozen=True)
class Sample:
    """A node and the flat buffers that it reads and writes: float32, or int64 for indices."""

    node: Node
    buffers: Mapping[int, Tensor]

    def view(self, access: Access, sizes: Sequence[int], strides: Sequence[int]) -> Tensor:
        """Returns a view of a buffer. A first size of -1 means as many as there are."""
        return look(self.buffers[access.buffer], access.offset, sizes, strides)

    def put(self, buffer: int, values: Tensor) -> "Sample":
        """Returns the sample with other values in one buffer."""
        return Sample(self.node, {**self.buffers, buffer: values})

    def operand(self, place: int) -> Tensor:
        """Returns an operand over all loops."""
        return NodeViews(self.node, self.view).operand(place)

    @property
    def output(self) -> Tensor:
        """The values in the output, over its loops."""
        return NodeViews(self.node, self.view).output

    def compute(self) -> "Sample":
        """Returns the sample with its output computed by the training kernels, in a copy of its buffer."""
        buffer = self.node.output.buffer
        computed = self.put(buffer, self.buffers[buffer].clone())
        make_kernel(self.node, computed.view)()
        return computed

    def move(self, device: str) -> "Sample":
        """Returns the sample on a device."""
        return Sample(self.node, {number: values.to(device) for number, values in self.buffers.items()})

    def check(self) -> NodeReport:
        """Returns the checker's report on all elements."""
        return check_node(self.node, self.view)

    def judge(self, number: int) -> Judgement:
        """Returns the referee's verdict on one element, from that element's operands only."""
        return judge_element(self.node, number, self.fetch, self.fetch(*self.find(number)))

    def find(self, number: int) -> tuple[int, int]:
        """Returns buffer and place of an output element."""
        output = self.node.output
        return output.buffer, locate(output, unravel(number, self.node.output_sizes))

    def fetch(self, buffer: int, element: int) -> int:
        """Returns the bits of a float32, or an index."""
        values = self.buffers[buffer].numpy()
        return int(values[element] if values.dtype == np.int64 else values.view(np.uint32)[element])


# Layouts
@dataclass(frozen=True)
class Layout:
    """A layout of a node. `loops` and `reduced` are letters in the node's order, `output` and `reads` letters
    in the order of memory. `selected` is the loop that an index is compared with, or the rows of a table.
    `values` are `awkward`; `wild`, in sums too, so that they overflow; or `plain`, where every lie shows."""

    loops: str
    reduced: str
    output: str
    reads: tuple[str, ...]
    sizes: Mapping[str, int]
    selected: str = ""
    values: str = "awkward"

    def shrink(self, factor: int) -> "Layout":
        """Returns the layout with about `factor` times fewer elements."""
        sizes = dict(self.sizes)
        for letter in self.loops:
            taken = min(factor, max(1, sizes[letter] // 4)) if letter != self.selected else 1
            sizes[letter], factor = sizes[letter] // taken, max(1, factor // taken)
        return replace(self, sizes=sizes)

    def build(self, operation: Operation) -> Node:
        """Builds the node; buffer 0 is the output, the operands follow."""
        every = self.loops + self.reduced
        reads = tuple(self._access(n + 1, memory, every) for n, memory in enumerate(self.reads))
        selected = 0
        if operation is Operation.GATHER:
            selected = self._stride(self.reads[1], self.selected)
        elif self.selected:
            selected = every.index(self.selected)
        sizes = tuple(self.sizes[letter] for letter in every)
        output = self._access(0, self.output, self.loops)
        return Node(operation, sizes, len(self.reduced), output, reads, selected)

    def _access(self, buffer: int, memory: str, loops: str) -> Access:
        return Access(buffer, 0, tuple(self._stride(memory, letter) for letter in loops))

    def _stride(self, memory: str, letter: str) -> int:
        place = memory.find(letter)
        return prod(self.sizes[x] for x in memory[place + 1 :]) if place >= 0 else 0

    def count(self, memory: str) -> int:
        """Returns the number of elements of a buffer."""
        return prod(self.sizes[letter] for letter in memory)

    def order(self, memory: str, values: Tensor) -> Tensor:
        """Returns values that were drawn over letters in canonical order (gaps, loops, reduced), flat in the
        order of memory."""
        canonical = self.canonical(memory)
        shaped = values.view([self.sizes[letter] for letter in canonical])
        return shaped.permute([canonical.index(letter) for letter in memory]).reshape(-1)

    def canonical(self, memory: str) -> str:
        """Returns the letters of a buffer in canonical order, reduced ones last."""
        return "".join(sorted(memory, key=(self.loops + self.reduced).find))


def _lay(loops: str, reduced: str, output: str, reads: str, selected: str = "", **sizes: int) -> Layout:
    return Layout(loops, reduced, output, tuple(reads.split(",")), sizes, selected)


def _lay_wild(loops: str, reduced: str, output: str, reads: str, **sizes: int) -> Layout:
    return Layout(loops, reduced, output, tuple(reads.split(",")), sizes, values="wild")


_BINARY = (
    _lay("i", "", "i", "i,i", i=1 << 19),
    _lay("rc", "", "cr", "cr,c", r=512, c=512),
    _lay("rc", "", "rc", "rcx,r", r=512, c=512, x=2),
    *(_lay("i", "", "i", "i,", i=1 << 14) for _ in range(6)),
)
_UNARY = (
    _lay("i", "", "i", "i", i=1 << 23),
    _lay("rc", "", "rc", "cr", r=512, c=256),
    _lay("rc", "", "cr", "rcx", r=256, c=256, x=3),
)
_ROWS = (
    _lay("r", "t", "r", "rt", r=1 << 18, t=2),
    _lay("r", "t", "r", "tr", r=1 << 18, t=7),
    _lay("rs", "tu", "sr", "rtsu", r=512, s=512, t=4, u=4),
    _lay("r", "t", "r", "rt", r=1 << 17, t=1),
    _lay("r", "t", "r", "rt", r=1 << 16, t=128),
    _lay("r", "t", "r", "tr", r=1 << 16, t=128),
    _lay("r", "t", "r", "rt", r=1 << 13, t=512),
    _lay("r", "t", "r", "rt", r=1 << 11, t=4096),
    _lay_wild("r", "t", "r", "rt", r=1 << 12, t=16),
)
LAYOUTS: dict[Operation, tuple[Layout, ...]] = {
    Operation.PRODUCT_SUM: (
        _lay("rc", "t", "rc", "rt,ct", r=512, c=512, t=16),
        _lay("rc", "t", "cr", "tr,tc", r=512, c=512, t=128),
        _lay("brc", "t", "brc", "brt,bct", b=16, r=128, c=128, t=32),
        _lay("rcs", "tu", "csr", "rtsu,ctu", r=32, c=32, s=64, t=3, u=5),
        _lay("rc", "t", "rc", "rt,tc", r=512, c=256, t=512),
        _lay("rc", "t", "rc", "rt,tc", r=256, c=128, t=4096),
        _lay("r", "t", "r", "rt,rt", r=1 << 17, t=3),
        _lay("r", "t", "r", "tr,rt", r=1 << 13, t=128),
        _lay("r", "t", "r", "rt,t", r=1 << 9, t=4096),
        _lay("rc", "", "rc", "r,c", r=256, c=256),
        _lay_wild("rc", "t", "rc", "rt,tc", r=64, c=64, t=8),
        _lay_wild("r", "t", "r", "rt,rt", r=1 << 12, t=16),
    ),
    Operation.SUM: _ROWS,
    Operation.MAXIMUM_OF: _ROWS,
    Operation.SELECTED_SUM: (
        _lay("vc", "t", "vc", "t,tc", "v", v=1024, c=512, t=512),
        _lay("kvc", "t", "kvc", "kt,ktc", "v", k=4, v=256, c=256, t=128),
        _lay("vc", "t", "cv", "t,tc", "v", v=64, c=4096, t=128),
        _lay("vc", "t", "vc", "t,tc", "v", v=256, c=64, t=4096),
        _lay("vc", "t", "vc", "tc,tc", "v", v=64, c=64, t=64),
    ),
    **dict.fromkeys((Operation.ADD, Operation.SUBTRACT, Operation.MULTIPLY, Operation.DIVIDE), _BINARY),
    **dict.fromkeys((Operation.MAXIMUM, Operation.MINIMUM, Operation.FLUSH), _BINARY),
    **dict.fromkeys(SWEEPS, _UNARY),
    Operation.GATHER: (
        _lay("pc", "", "pc", "p,vc", "v", p=4096, c=128, v=1000),
        _lay("pc", "", "cp", "p,vc", "v", p=1024, c=256, v=256),
        _lay("p", "", "p", "p,pv", "v", p=1 << 18, v=16),
        _lay("pc", "", "pc", "pc,vc", "v", p=512, c=128, v=64),
    ),
    Operation.EQUAL_SELECT: (
        _lay("pv", "", "pv", "p,,pv", "v", p=2048, v=256),
        _lay("pv", "", "pv", "p,p,pv", "v", p=1024, v=256),
        _lay("pv", "", "vp", "p,pv,v", "v", p=1024, v=256),
    ),
    Operation.COPY: (
        _lay("rct", "", "rct", "rtc", r=32, c=128, t=128),
        _lay("rt", "", "rt", "tr", r=512, t=512),
        _lay("rt", "", "tr", "rtx", r=256, t=256, x=3),
        _lay("rst", "", "rst", "ts", r=8, s=128, t=64),
        _lay("i", "", "i", "i", i=1 << 18),
    ),
    Operation.FINITE_SELECT: (
        _lay("i", "", "i", "i,i,i", i=1 << 19),
        _lay("rc", "", "cr", "r,cr,c", r=512, c=512),
        *(_lay("i", "", "i", ",i,i", i=1 << 15) for _ in range(8)),
    ),
}
"""Layouts with about a million elements of each kind."""
POSITIVE = frozenset({Operation.SQUARE_ROOT, Operation.RECIPROCAL_ROOT, Operation.LOGARITHM})


# Samples
def make_sample(operation: Operation, layout: Layout, generator: Generator) -> Sample:
    """Makes a node with operands; its output is still empty."""
    buffers = {0: torch.zeros(layout.count(layout.output))}
    for place, memory in enumerate(layout.reads):
        if operation in INDEXED and place == 0:
            values = _draw_indices(layout.sizes[layout.selected], layout.count(memory), generator)
        elif place == 1 and memory == layout.reads[0] and operation not in REDUCTIONS | INDEXED:
            values = _draw_second(operation, layout, buffers[1], generator)
        else:
            values = layout.order(memory, _draw(operation, place, layout, memory, generator))
        buffers[place + 1] = values
    return Sample(layout.build(operation), buffers)


def _draw_indices(size: int, count: int, generator: Generator) -> Tensor:
    """Draws indices, low ones far more often than high ones."""
    square = torch.rand(count, generator=generator).square()
    return (size * square.square()).long().clamp_(max=size - 1)


def _draw_second(operation: Operation, layout: Layout, first: Tensor, generator: Generator) -> Tensor:
    is_plain = layout.values == "plain"
    partners = draw_ordinary(first.numel(), generator) if is_plain else draw_partners(first, generator)
    return partners.abs() if operation is Operation.FLUSH else partners


def _draw(operation: Operation, place: int, layout: Layout, memory: str, generator: Generator) -> Tensor:
    count = layout.count(memory)
    if layout.values == "plain":
        values = draw_ordinary(count, generator)
        return values.abs() if operation in POSITIVE or (operation, place) == (Operation.FLUSH, 1) else values
    summed = [letter for letter in layout.canonical(memory) if letter in layout.reduced]
    if operation in REDUCTIONS and summed and layout.values == "awkward":
        shape = [layout.sizes[letter] for letter in layout.canonical(memory)]
        return draw_rows(shape, prod(layout.sizes[letter] for letter in summed), generator)
    if operation in SWEEPS:
        return draw_sweep(operation, count, generator)
    if operation is Operation.FINITE_SELECT and place == 0:
        return draw_conditions(count, generator)
    if operation is Operation.FLUSH and place == 1:
        return draw_thresholds(count, generator)
    return draw_mixed(count, generator)
