"""Quantizes the operands of product sums in exact programs.

Each product sum reads its operands as integers, quantized row by row (docs/spec.md, 9.1). A row is the terms
of one operand that one output element sums. Its scale is found, each element is divided by it and rounded,
and integers are multiplied. If several sums read an operand in the same rows, it is quantized once.

    a --> SCALE_OF --> QUANTIZE --> QUANTIZED_PRODUCT_SUM <-- QUANTIZE <-- SCALE_OF <-- b

Attention sums over positions: probabilities times values. With one scale for a value at all positions, later
tokens could change bits of earlier results. So values are quantized position by position. The scale of a
position, a power of two, is multiplied into its probabilities before these are quantized.

    values v[s, n]: SCALE_OF over n --> scale[s]
    probabilities p[t, s] * scale[s] --> quantized over s, as above
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from touchstone.protocol.compute.program.planning.node_views import sort_loops
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.program import QUANTIZED_ROLES, Access, Buffer, Node, Program, Role
from touchstone.protocol.spec.program_addressing import lay_row_major
from touchstone.protocol.spec.program_operations import Operation
from touchstone.step.builder import DOT_BITS

_Operand = tuple[int, int, int, tuple[tuple[int, int], ...], int]
"""Bits, buffer and offset of a quantized operand; size and stride of each loop; how many are reduced."""


def quantize_products(
    program: Program, bits: int, weighted: Mapping[Node, int] | None = None, one: Access | None = None
) -> Program:
    """Returns the program with all product sums replaced by integer ones. `bits` are those of matrix
    products: 8, 15 or 20. `weighted` are products of attention probabilities and values, each with the place
    of the values' operand. `one` is an access to the number 1. New buffers come last."""
    rows = _Rows(program.chunk_terms, list(program.buffers))
    for node in program.nodes:
        if node.operation is Operation.PRODUCT_SUM:
            chosen = bits if sort_loops(node).is_matrix else DOT_BITS
            # Of a single position there is nothing to look ahead to.
            place = (weighted or {}).get(node) if node.terms > 1 else None
            if place is None or one is None:
                pairs = [rows.read(node, operand, chosen) for operand in node.operands]
            else:
                values, scale = rows.read_positions(node, place, chosen)
                moved = rows.multiply(node, 1 - place, scale)
                pairs = [rows.read(node, moved, chosen)] * 2
                pairs[place] = (values, replace(one, strides=(0,) * len(node.sizes)))
            operands = (*(values for values, _ in pairs), *(scale for _, scale in pairs))
            node = replace(node, operation=Operation.QUANTIZED_PRODUCT_SUM, operands=operands)
        rows.nodes.append(node)
    return replace(program, buffers=tuple(rows.buffers), nodes=tuple(rows.nodes))


@dataclass
class _Rows:
    """The buffers and nodes so far. `made` are the buffers of quantized values and of their scales.
    `chunk_terms` is the program's."""

    chunk_terms: int
    buffers: list[Buffer]
    nodes: list[Node] = field(default_factory=list)
    made: dict[_Operand, tuple[int, int]] = field(default_factory=dict)

    def read(self, node: Node, operand: Access, bits: int) -> tuple[Access, Access]:
        """Returns the operand's quantized values and its scales, each over all loops of `node`."""
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

    def read_positions(self, node: Node, place: int, bits: int) -> tuple[Access, Access]:
        """Returns an operand's values, quantized over its own loops, and the scales of its positions. Each is
        over all loops of `node`."""
        operand, group = node.operands[place], sort_loops(node)
        own = group.columns if place else group.rows
        elements = prod(node.sizes[n] for n in own)
        if elements > self.chunk_terms:
            raise InvalidInput(
                what="a head of attention has more elements than a sum may have terms",
                expected=f"at most {self.chunk_terms} elements",
                actual=elements,
                remedy="Record the step with longer sums: chunk_terms of 512 or 4096.",
            )
        batch = [n for n in group.batch if operand.strides[n]]
        by_position = [*batch, *group.terms, *own]
        scales = self._add(Role.TENSOR, prod(node.sizes[n] for n in (*batch, *group.terms)))
        values = self._add(QUANTIZED_ROLES[bits], prod(node.sizes[n] for n in by_position))
        scale = _lay(node, scales, [*batch, *group.terms])
        self.nodes.append(Node(
            Operation.SCALE_OF, tuple(node.sizes[n] for n in by_position), len(own),
            _pick(scale, [*batch, *group.terms]), (_pick(operand, by_position),), bits,
        ))  # fmt: skip
        by_row = [*batch, *own, *group.terms]
        value = _lay(node, values, by_row)
        self.nodes.append(Node(
            Operation.QUANTIZE, tuple(node.sizes[n] for n in by_row), 0, _pick(value, by_row),
            (_pick(operand, by_row), _pick(scale, by_row)), bits,
        ))  # fmt: skip
        return value, scale

    def multiply(self, node: Node, place: int, scale: Access) -> Access:
        """Returns an operand times the scales of positions, over all loops of `node`."""
        operand = node.operands[place]
        loops = [n for n in range(len(node.sizes)) if operand.strides[n] or scale.strides[n]]
        product = _lay(node, self._add(Role.TENSOR, prod(node.sizes[n] for n in loops)), loops)
        factors = (_pick(operand, loops), _pick(scale, loops))
        sizes = tuple(node.sizes[n] for n in loops)
        self.nodes.append(Node(Operation.MULTIPLY, sizes, 0, _pick(product, loops), factors))
        return product

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


def _lay(node: Node, buffer: int, loops: Sequence[int]) -> Access:
    """Returns a row-major buffer over some loops of a node, as an access over all of them."""
    strides = dict(zip(loops, lay_row_major(tuple(node.sizes[n] for n in loops)), strict=True))
    return Access(buffer, 0, tuple(strides.get(n, 0) for n in range(len(node.sizes))))


def _pick(access: Access, loops: Sequence[int]) -> Access:
    """Returns the access over some of its loops, in another order."""
    return replace(access, strides=tuple(access.strides[n] for n in loops))
