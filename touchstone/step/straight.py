"""Adds copies, so that every operand of a sum is one run of memory.

If terms lay far apart, a dispute would open a leaf for each. So a program has a COPY before each reader of
such an operand, and the reader sums over the copy. Training leaves the copies out
(`protocol/compute/program/planning/copy_folding.py`).

    reader <- operand here and there          becomes   operand -> COPY -> run <- reader
"""

from dataclasses import dataclass, field, replace
from math import prod

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.program import INDEX_ROLES, Access, Buffer, Node, Program, Role
from touchstone.protocol.spec.program_addressing import is_run, lay_row_major
from touchstone.protocol.spec.program_operations import Operation

_Key = tuple[int, int, tuple[tuple[int, int], ...]]
"""Buffer and offset of what is copied; size and stride of each loop."""


def straighten(program: Program) -> Program:
    """Returns the program with a COPY before the first reader of each summed operand whose terms are not one
    run. New buffers come last. Operands over the same elements share one. Raises InvalidInput if an index
    would have to be copied."""
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
        """Returns the operand, or the run in a copy of it, over all loops of `node`."""
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
