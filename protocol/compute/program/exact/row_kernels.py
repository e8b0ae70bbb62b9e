"""Makes kernels of exact programs that work on rows: scales, sums, products of rows."""

import numpy as np
import torch

from touchstone.protocol.compute.program.exact import product_loops, quantizing_loops, sum_loops
from touchstone.protocol.compute.program.exact.operand_rows import DenseOutput, find_rows, flatten_buffer
from touchstone.protocol.compute.program.exact.selected_table import look_at_table
from touchstone.protocol.compute.program.kernels.kernel import Kernel
from touchstone.protocol.compute.program.planning.node_views import NodeViews
from touchstone.protocol.spec.program_operations import QUANTIZED_LIMITS


def make_scale_of(views: NodeViews) -> Kernel:
    """Returns the kernel of a SCALE_OF: a scale for each row."""
    node = views.node
    rows, out = find_rows(views, 0, node.reduced, allows_columns=True), DenseOutput(views)
    limit = QUANTIZED_LIMITS[node.selected]
    limits = (limit, limit.bit_length())

    def run() -> None:
        """Computes the node once."""
        x, *where = rows.read()
        if rows.step == 1:
            quantizing_loops.scale_rows(x.view(np.uint32), *where, *limits, out.values)
        else:
            quantizing_loops.scale_columns(x.view(np.uint32), *where, rows.step, *limits, out.values)
        out.write()

    return run


def make_row_products(views: NodeViews) -> Kernel:
    """Returns the kernel of a QUANTIZED_PRODUCT_SUM that is no matrix product, row by row."""
    node, out = views.node, DenseOutput(views)
    operands = [flatten_buffer(views, operand) for operand in node.operands]

    def run() -> None:
        """Computes the node once."""
        a, b, scale_a, scale_b = (operand.numpy() for operand in operands)
        product_loops.multiply_rows(a, b, node.terms, scale_a, scale_b, out.values)
        out.write()

    return run


def make_sum(views: NodeViews) -> Kernel:
    """Returns the kernel of a SUM of each row."""
    rows, out = find_rows(views, 0, views.node.reduced), DenseOutput(views)

    def run() -> None:
        """Computes the node once."""
        x, *where = rows.read()
        sum_loops.sum_rows(x, x.view(np.uint32), *where, out.values)
        out.write()

    return run


def make_selected_sum(views: NodeViews) -> Kernel:
    """Returns the kernel of a SELECTED_SUM. For each chunk of positions it sums the places with the same key;
    other rows of the table are 0."""
    read, out = look_at_table(views), DenseOutput(views)
    columns = read.columns

    def run() -> None:
        """Computes the node once."""
        table = out.flat.view(read.chunks, read.rows * read.columns)
        flat = read.grid.contiguous().view(read.chunks, -1)
        keys = read.numbers.reshape(read.chunks, -1)
        table.zero_()
        for part in range(read.chunks):
            places = torch.sort(keys[part], stable=True).indices.numpy()
            x, own = flat[part].numpy(), keys[part].contiguous().numpy()
            sum_loops.sum_selected(x, 0, columns, places, own, columns, 1, table[part].numpy(), 0, columns)
        out.write()

    return run
