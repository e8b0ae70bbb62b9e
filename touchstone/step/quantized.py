"""Quantized operands of exact programs.

Each product sum reads its operands as integers, quantized row by row (docs/spec.md, 9.1). A row is what one
output element sums over of one operand. Its scale is found, each element is divided by it and rounded, and
integers are multiplied. An operand that several sums read in the same rows is quantized once.

    a --> SCALE_OF --> QUANTIZE --> QUANTIZED_PRODUCT_SUM <-- QUANTIZE <-- SCALE_OF <-- b
"""

from dataclasses import dataclass, field, replace
from math import prod

from protocol.compute.program.layout import sort_loops
from protocol.spec.program import (
    QUANTIZED_ROLES,
    Access,
    Buffer,
    Node,
    Operation,
    Program,
    Role,
    lay_row_major,
)
from touchstone.step.builder import DOT_BITS

_Operand = tuple[int, int, int, tuple[tuple[int, int], ...], int]
"""Bits, buffer and offset of what is quantized; size and stride of each loop; how many are reduced."""


def quantize_products(program: Program, bits: int) -> Program:
    """The program with integer product sums in the place of all others; `bits`: of matrix products, 8, 15 or
    20. New buffers come last."""
    rows = _Rows(list(program.buffers))
    for node in program.nodes:
        if node.operation is Operation.PRODUCT_SUM:
            chosen = bits if sort_loops(node).is_matrix else DOT_BITS
            pairs = [rows.read(node, operand, chosen) for operand in node.operands]
            operands = (*(values for values, _ in pairs), *(scale for _, scale in pairs))
            node = replace(node, operation=Operation.QUANTIZED_PRODUCT_SUM, operands=operands)
        rows.nodes.append(node)
    return replace(program, buffers=tuple(rows.buffers), nodes=tuple(rows.nodes))


@dataclass
class _Rows:
    """Buffers and nodes so far; made: the buffers of quantized values and of their scales."""

    buffers: list[Buffer]
    nodes: list[Node] = field(default_factory=list)
    made: dict[_Operand, tuple[int, int]] = field(default_factory=dict)

    def read(self, node: Node, operand: Access, bits: int) -> tuple[Access, Access]:
        """The operand's quantized values and its scales, each over all loops of `node`."""
        loops, group = len(node.sizes), sort_loops(node)
        outer = (*group.batch, *group.rows, *group.columns)
        kept = [*(n for n in outer if operand.strides[n]), *group.terms]
        sizes = tuple(node.sizes[n] for n in kept)
        source = replace(operand, strides=tuple(operand.strides[n] for n in kept))
        places = tuple(zip(sizes, source.strides, strict=True))
        key = (bits, operand.buffer, operand.offset, places, node.reduced)
        if key not in self.made:
            self.made[key] = self._quantize(source, sizes, node.reduced, bits)
        values, scales = self.made[key]
        rows = kept[: len(kept) - node.reduced]
        at_value = dict(zip(kept, lay_row_major(sizes), strict=True))
        at_scale = dict(zip(rows, lay_row_major(sizes[: len(rows)]), strict=True))
        return (
            Access(values, 0, tuple(at_value.get(n, 0) for n in range(loops))),
            Access(scales, 0, tuple(at_scale.get(n, 0) for n in range(loops))),
        )

    def _quantize(self, source: Access, sizes: tuple[int, ...], reduced: int, bits: int) -> tuple[int, int]:
        rows = sizes[: len(sizes) - reduced]
        scales = self._add(Role.TENSOR, prod(rows))
        values = self._add(QUANTIZED_ROLES[bits], prod(sizes))
        scale = Access(scales, 0, lay_row_major(rows))
        self.nodes.append(Node(Operation.SCALE_OF, sizes, reduced, scale, (source,), bits))
        over_all = replace(scale, strides=(*scale.strides, *(0,) * reduced))
        output = Access(values, 0, lay_row_major(sizes))
        self.nodes.append(Node(Operation.QUANTIZE, sizes, 0, output, (source, over_all), bits))
        return values, scales

    def _add(self, role: Role, size: int) -> int:
        self.buffers.append(Buffer(role, size))
        return len(self.buffers) - 1
