"""Requires one form for quantized values, their scales and tables in a program (docs/spec.md, 9.1).

Kernels read quantized values row by row as they lie in memory, trust that a scale is the scale of its row,
and walk a table by its indices. So every program must write them in one form. Another form is refused before
anything is computed, because its bits could differ between machines.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import frexp, prod

import torch
from torch import Tensor

from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.planning.copy_folding import fold
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.program import Access, Node, Program, Role
from touchstone.protocol.spec.program_addressing import lay_row_major
from touchstone.protocol.spec.program_operations import Operation


def require_form(program: Program) -> None:
    """Raises InvalidInput unless a valid program, without its copies, has this form.

    - QUANTIZE writes all of a buffer, row-major. Its scale is the SCALE_OF of the same row and bits. The
      scale moves over the first loops; or over all loops but some that are side by side, and then it runs
      row-major through its whole buffer.
    - QUANTIZED_PRODUCT_SUM reads all of each factor, row-major over its loops in this order: loops that move
      both factors or none, loops that move this one, the terms. It has as many terms as QUANTIZE wrote to a
      row. A scale moves over no loop of the other factor; SCALE_OF wrote it, or it is one number of a
      constant. If no loop moves one factor alone, factors are INTEGER32, and scales are laid out as rows are.
    - SELECTED_SUM reads the same values for each index. No loop from `selected` on moves the index, and at
      most one loop follows."""
    folded = fold(program, keeps_copies=False)
    writers = Counter(node.output.buffer for node in folded.nodes)
    scales: dict[int, Node] = {}
    terms: dict[int, int] = {}
    for number, node in enumerate(folded.nodes):
        where = f"node {number} without copies"
        if node.operation is Operation.SCALE_OF:
            # If others also write to the buffer, some elements are not scales.
            if writers[node.output.buffer] == 1:
                scales[node.output.buffer] = node
        elif node.operation is Operation.QUANTIZE:
            terms[node.output.buffer] = _require_quantize(folded, node, scales, where)
        elif node.operation is Operation.QUANTIZED_PRODUCT_SUM:
            _require_product(folded, node, terms, scales, where)
        elif node.operation is Operation.SELECTED_SUM:
            _require_table(node, where)


def require_constants(built: BuiltProgram) -> None:
    """Raises InvalidInput unless all constants are finite, and scales of products are powers of two."""
    program = fold(built.program, keeps_copies=False)
    products = (n for n in program.nodes if n.operation is Operation.QUANTIZED_PRODUCT_SUM)
    scales = {(operand.buffer, operand.offset) for node in products for operand in node.operands[2:]}
    for number, values in built.constants.items():
        _require(_is_finite(values), "finite numbers in a constant", f"buffer {number}")
    for number, element in scales:
        if number in built.constants:
            mantissa, _ = frexp(float(built.constants[number][element]))
            _require(mantissa == 0.5, "a power of two in a constant that is a scale", f"buffer {number}")


def _is_finite(values: Tensor) -> bool:
    least, greatest = map(float, values.aminmax())
    return -torch.inf < least <= greatest < torch.inf


def _require_quantize(program: Program, node: Node, scales: Mapping[int, Node], where: str) -> int:
    """Returns the number of terms in a row of a QUANTIZE. Raises InvalidInput if the node has another
    form."""
    _require_whole(program, node.output, node.sizes, range(len(node.sizes)), where)
    source, scale = node.operands
    moving = [n for n, size in enumerate(node.sizes) if size > 1 and scale.strides[n]]
    still = [n for n, size in enumerate(node.sizes) if size > 1 and not scale.strides[n]]
    _require_whole(program, scale, node.sizes, moving, where)
    _require(_is_scale_of(node, scales.get(scale.buffer)), "the scale of the row that is quantized", where)
    if not still:
        return 1
    between = [n for n in moving if still[0] < n < still[-1]]
    _require(not between, "the loops without a scale side by side", where)
    if moving and moving[-1] > still[-1]:
        return prod(node.sizes[still[-1] + 1 :])
    return prod(node.sizes[still[0] :])


def _is_scale_of(node: Node, scale_of: Node | None) -> bool:
    """Returns whether a QUANTIZE divides each element by the scale of its row, whose loops may be in any
    order."""
    source, scale = node.operands
    if scale_of is None or scale_of.selected != node.selected:
        return False
    row, found = scale_of.operands[0], scale_of.output
    strides = (*found.strides, *(0,) * scale_of.reduced)
    is_same = (row.buffer, row.offset, found.offset) == (source.buffer, source.offset, scale.offset)
    own = sorted(one for one in zip(node.sizes, source.strides, scale.strides, strict=True) if one[0] > 1)
    other = sorted(one for one in zip(scale_of.sizes, row.strides, strides, strict=True) if one[0] > 1)
    return is_same and own == other


def _require_product(
    program: Program, node: Node, terms: Mapping[int, int], scales: Mapping[int, Node], where: str
) -> None:
    first, second = node.operands[:2]
    outer = range(len(node.output_sizes))
    own = [
        [n for n in outer if one.strides[n] and not other.strides[n]]
        for one, other in ((first, second), (second, first))
    ]
    shared = [n for n in outer if n not in own[0] and n not in own[1]]
    reduced = range(len(outer), len(node.sizes))
    for factor, scale, mine, foreign in zip(
        node.operands[:2], node.operands[2:], own, reversed(own), strict=True
    ):
        _require_whole(program, factor, node.sizes, [*shared, *mine, *reduced], where)
        _require(node.terms == terms.get(factor.buffer), f"{terms.get(factor.buffer)} terms", where)
        is_foreign = any(scale.strides[n] for n in foreign if node.sizes[n] > 1)
        is_number = program.buffers[scale.buffer].role is Role.CONSTANT and not any(scale.strides)
        is_known = scale.buffer in scales or is_number
        _require(is_known and not is_foreign, "a scale for each row of its factor", where)
        if not any(own):
            is_wide = program.buffers[factor.buffer].role is Role.INTEGER32
            _require(is_wide, "factors of 20 bits outside matrix products", where)
            _require_whole(program, scale, node.sizes, shared, where)


def _require_table(node: Node, where: str) -> None:
    index, values = node.operands
    loop, count = node.selected, len(node.output_sizes)
    is_plain = not values.strides[loop] and not any(index.strides[n] for n in range(loop, count))
    _require(is_plain and count - loop <= 2, "rows that are the same for all indices", where)


def _require_whole(
    program: Program, access: Access, sizes: Sequence[int], loops: Sequence[int], where: str
) -> None:
    """Raises InvalidInput unless the access walks its buffer from the first element to the last, over these
    loops in order."""
    kept = [n for n in loops if sizes[n] > 1]
    own = tuple(sizes[n] for n in kept)
    is_in_order = tuple(access.strides[n] for n in kept) == lay_row_major(own) and access.offset == 0
    is_all = prod(own) == program.buffers[access.buffer].size
    _require(is_in_order and is_all, "all of a buffer, in the order of the loops", where)


def _require(holds: bool, expected: str, where: str) -> None:
    if not holds:
        raise InvalidInput(
            what="a program whose quantized values, scales or tables have another form",
            expected=expected,
            actual="another form",
            where=where,
            remedy="Do not stake on a task with this program; tell its submitter.",
        )
