"""Decides which loop of each node is cut if a step is shared among workers."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from touchstone.protocol.spec.program import INDEX_ROLES, INTEGER_ROLES, Access, Node, Program
from touchstone.protocol.spec.program_operations import Operation

_SELECTING = (Operation.SELECTED_SUM, Operation.EQUAL_SELECT)
"""Operations that compare an index with the number of a loop. That loop is not cut."""


@dataclass(frozen=True)
class LoopCut:
    """A cut node. `node` has its loops split where parts begin, `loop` is the loop that is cut, `period` is
    the output's."""

    node: Node
    loop: int
    period: int


@dataclass
class CutPlan:
    """The plan of a cut. `periods` are the periods of buffers in parts; `kept` are buffers that stay whole
    because some node needs or writes them whole."""

    program: Program
    workers: int
    kept: set[int] = field(default_factory=set)
    periods: dict[int, int] = field(default_factory=dict)
    cuts: dict[int, LoopCut] = field(default_factory=dict)

    def try_all(self) -> bool:
        """Cuts what can be cut. Returns False if a buffer turned out to be needed whole; then planning starts
        again."""
        self.periods, self.cuts = {}, {}
        whole: set[int] = set()
        for number, node in enumerate(self.program.nodes):
            out, cut = node.output.buffer, self._find_cut(node)
            if cut is None:
                whole.add(out)
            else:
                self.cuts[number] = cut
                self.periods.setdefault(out, cut.period)
            is_torn = out in self.periods and (out in whole or cut is None or self.periods[out] != cut.period)
            if is_torn:
                self.kept.add(out)
                return False
            if cut is None:
                # Quantized values have their own order in memory, so they are never put together.
                integers = {one for one in self.list_parted(node) if self._is_integer(one)}
                if integers:
                    self.kept |= integers
                    return False
        return True

    def list_parted(self, node: Node) -> list[int]:
        """Returns the buffers in parts that a node reads."""
        return [operand.buffer for operand in node.operands if operand.buffer in self.periods]

    def _is_integer(self, buffer: int) -> bool:
        return self.program.buffers[buffer].role in INTEGER_ROLES

    def _get_period(self, access: Access) -> int | None:
        """Returns the period of a buffer that is in parts, or holds indices, whose rows are the batch's; None
        for others."""
        buffer = self.program.buffers[access.buffer]
        return buffer.size if buffer.role in INDEX_ROLES else self.periods.get(access.buffer)

    def _find_cut(self, node: Node) -> LoopCut | None:
        """Returns the cut of a node. None if no operand lies in parts, or no loop walks all operands in parts
        part by part."""
        if node.output.buffer in self.kept:
            return None
        for place, operand in enumerate(node.operands):
            period = self._get_period(operand)
            if period is not None:
                node = _split(node, place, period)
        led = [(one, period) for one in node.operands if (period := self._get_period(one)) is not None]
        for loop in range(len(node.output_sizes)) if led else ():
            if self._is_cut(node, loop, led):
                return LoopCut(node, loop, node.output.strides[loop] * node.sizes[loop])
        return None

    def _is_cut(self, node: Node, loop: int, led: Sequence[tuple[Access, int]]) -> bool:
        period = node.output.strides[loop] * node.sizes[loop]
        if node.sizes[loop] % self.workers or (node.operation in _SELECTING and loop == node.selected):
            return False
        if not period or self.program.buffers[node.output.buffer].size % period:
            return False
        if not self._stays(node.output, node.output_sizes, loop, period):
            return False
        # The index of a GATHER moves within one step of the loop, as a label does in its row.
        is_gather = node.operation is Operation.GATHER and node.operands[1].buffer in self.periods
        if is_gather and node.operands[1].strides[loop] % node.selected:
            return False
        # Kernels read quantized values and scales from the start of their buffers.
        if any(one.strides[loop] and one.buffer not in self.periods for one in _list_quantized(node)):
            return False
        return all(self._stays(access, node.sizes, loop, own) for access, own in led)

    def _stays(self, access: Access, sizes: Sequence[int], loop: int, period: int) -> bool:
        """Returns whether each part of the loop covers exactly the same part of every period."""
        if access.strides[loop] * sizes[loop] != period:
            return False
        reach = access.offset % period
        for n, (size, stride) in enumerate(zip(sizes, access.strides, strict=False)):
            count = size // self.workers if n == loop else size
            if stride % period:
                reach += (count - 1) * stride
        return reach < period // self.workers


def _list_quantized(node: Node) -> Sequence[Access]:
    """Returns the quantized values and scales among the operands."""
    if node.operation is Operation.QUANTIZED_PRODUCT_SUM:
        return node.operands
    return node.operands[1:] if node.operation is Operation.QUANTIZE else ()


def _split(node: Node, place: int, period: int) -> Node:
    """Splits each loop of a node in two that covers several periods of an operand at equal steps."""
    number = 0
    while number < len(node.output_sizes):
        stride, size = node.operands[place].strides[number], node.sizes[number]
        inner = period // stride if stride and not period % stride else 0
        is_compared = node.operation in _SELECTING and number == node.selected
        if inner and inner < size and not size % inner and not is_compared:
            node = _split_loop(node, number, inner)
            number += 1
        number += 1
    return node


def _split_loop(node: Node, loop: int, inner: int) -> Node:
    def split(access: Access) -> Access:
        """Returns the access with one more stride."""
        before, stride, after = access.strides[:loop], access.strides[loop], access.strides[loop + 1 :]
        return replace(access, strides=(*before, stride * inner, stride, *after))

    selected = node.selected + (node.operation in _SELECTING and node.selected > loop)
    sizes = (*node.sizes[:loop], node.sizes[loop] // inner, inner, *node.sizes[loop + 1 :])
    operands = tuple(map(split, node.operands))
    return replace(node, sizes=sizes, output=split(node.output), operands=operands, selected=selected)
