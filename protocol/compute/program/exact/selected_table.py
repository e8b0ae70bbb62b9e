"""Reads the table of a SELECTED_SUM of an exact program, whose rows are the same for all indices."""

from dataclasses import dataclass
from math import prod

from torch import Tensor

from touchstone.protocol.compute.program.planning.node_views import NodeViews
from touchstone.protocol.spec.errors import InvalidInput


@dataclass(frozen=True)
class Table:
    """The operands of a SELECTED_SUM. `grid` has the values over chunks, positions and columns; `numbers` is
    the index of each position; `rows` and `columns` are the table's."""

    grid: Tensor
    numbers: Tensor
    chunks: int
    rows: int
    columns: int


def look_at_table(views: NodeViews) -> Table:
    """Returns the operands of a SELECTED_SUM. Raises InvalidInput if rows differ between indices."""
    node = views.node
    index, values = node.operands
    loop, count = node.selected, len(node.output_sizes)
    parts, width = list(range(loop)), list(range(loop + 1, count))
    if values.strides[loop] or any(index.strides[n] for n in (loop, *width)) or len(width) > 1:
        raise InvalidInput(
            what="a table of another form",
            expected="rows that are the same for all indices",
            actual=node,
            remedy="Write the embedding as a plain one.",
        )
    kept = [*parts, *range(count, len(node.sizes))]
    order = [*kept, *width]
    return Table(
        views.view(values, [node.sizes[n] for n in order], [values.strides[n] for n in order]),
        views.view(index, [node.sizes[n] for n in kept], [index.strides[n] for n in kept]),
        prod(node.sizes[n] for n in parts),
        node.sizes[loop],
        prod(node.sizes[n] for n in width),
    )
