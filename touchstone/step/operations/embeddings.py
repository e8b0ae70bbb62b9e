"""Lowers tables that are read by index."""

from math import prod

import torch

from touchstone.protocol.spec.program_operations import Operation
from touchstone.step.pending import Indices, Pieces
from touchstone.step.recordings import Call
from touchstone.step.views import View, expand, insert, narrow, permute, remove, reshape
from touchstone.step.writer import Value, Writer, get_only_stride, handles, require_form


@handles("aten.embedding.default", pending=True)
def _lower_embedding(writer: Writer, call: Call, given: Value, index: View | Indices, *_: object) -> View:
    table = writer.view(given)
    if isinstance(index, Indices):
        start, count = _find_run(call, index)
        rows = narrow(table, 0, start, count)
        return expand(rows, call.shape)
    stride = get_only_stride(table, 0)
    row = remove(narrow(table, 0, 0, 1), 0)
    return writer.builder.map(Operation.GATHER, insert(index, len(index.dimensions)), row, selected=stride)


@handles("aten.embedding_dense_backward.default", pending=True)
def _lower_embedding_backward(
    writer: Writer, call: Call, given: Value, index: View | Indices, rows: int, padding: int, is_scaled: bool
) -> View | Pieces:
    """Computes each row as the sum of the gradients at the positions that read it: [rows, D] over positions.
    The row of the padding gets none."""
    require_form(call, "no scaling by frequency", not is_scaled)
    gradient = writer.view(given)
    width = gradient.shape[-1]
    if isinstance(index, Indices):
        require_form(call, "no padding among positions", padding < 0)
        return _sum_by_position(writer, call, gradient, index, rows)
    flat = reshape(gradient, (prod(gradient.shape[:-1]), width))
    positions = flat.shape[0]
    shape = (rows, width, positions)
    at = expand(reshape(index, (positions,)), shape)
    values = expand(permute(flat, (1, 0)), shape)
    if padding < 0:
        return writer.builder.contract(
            Operation.SELECTED_SUM, (at, values), 1, writer.place_of(call), selected=0
        )
    total = writer.builder.contract(Operation.SELECTED_SUM, (at, values), 1, selected=0)
    kept = torch.ones(rows, 1)
    kept[padding] = 0
    return writer.map(call, Operation.MULTIPLY, total, writer.builder.add_constant(kept))


def _sum_by_position(writer: Writer, call: Call, gradient: View, index: Indices, rows: int) -> View | Pieces:
    """Returns the sum over the batch at the rows of the positions; zeros elsewhere."""
    start, count = _find_run(call, index)
    width = gradient.shape[-1]
    by_position = reshape(gradient, (prod(gradient.shape[:-1]) // count, count, width))
    if by_position.shape[0] == 1:
        total = remove(by_position, 0)
    else:
        total = writer.builder.contract(Operation.SUM, (permute(by_position, (1, 2, 0)),), 1)
    return total if count == rows else Pieces(0, rows, ((start, total),))


def _find_run(call: Call, index: Indices) -> tuple[int, int]:
    """Returns the first position and their number, if they are successive in every row alike. Raises
    InvalidInput if they are not."""
    values = index.values
    row = values.reshape(-1, values.shape[-1])[0]
    start, count = int(row[0]), row.numel()
    is_run = bool((values == torch.arange(start, start + count)).all())
    require_form(call, "rows by token, or by positions that follow each other", is_run)
    return start, count
