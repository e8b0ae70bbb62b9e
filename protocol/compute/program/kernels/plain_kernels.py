"""Makes PyTorch kernels for the program's operations, each prepared once for a node.

A kernel may sum in any order and fuse products into sums, because the bound of `node_check.py` allows all of
that. Everything else must be one correctly rounded operation or a library's function of a few ulp. Nothing
here is part of the protocol: another machine may use other kernels.
"""

from collections.abc import Callable

import torch

from touchstone.protocol.compute.program.kernels.elementwise_kernels import (
    make_binary,
    make_binary_of_zeros,
    make_copy,
    make_finite_select,
    make_flush,
    make_function,
    make_square_root,
)
from touchstone.protocol.compute.program.kernels.indexed_kernels import (
    make_equal_select,
    make_gather,
    make_selected_sum,
)
from touchstone.protocol.compute.program.kernels.kernel import Kernel
from touchstone.protocol.compute.program.kernels.operand_rounding import ROUNDINGS
from touchstone.protocol.compute.program.kernels.product_kernels import make_product_sum
from touchstone.protocol.compute.program.kernels.reduction_kernels import make_maximum_of, make_sum
from touchstone.protocol.compute.program.planning.node_views import MakeView, NodeViews
from touchstone.protocol.spec.program import Node
from touchstone.protocol.spec.program_operations import Operation


def make_kernel(node: Node, view: MakeView, numeric_format: str = "float32") -> Kernel:
    """Returns the kernel of `node` on views of the present buffers. `numeric_format` is a name in ROUNDINGS,
    to which operands of product sums are rounded; all sums are computed in float32."""
    views = NodeViews(node, view)
    if node.operation is Operation.PRODUCT_SUM:
        return make_product_sum(views, ROUNDINGS[numeric_format])
    return _MAKERS[node.operation](views)


_MAKERS: dict[Operation, Callable[[NodeViews], Kernel]] = {
    Operation.SUM: make_sum,
    Operation.SELECTED_SUM: make_selected_sum,
    Operation.MAXIMUM_OF: make_maximum_of,
    Operation.ADD: make_binary(torch.add),
    Operation.SUBTRACT: make_binary(torch.sub),
    Operation.MULTIPLY: make_binary(torch.mul),
    Operation.DIVIDE: make_binary(torch.div),
    Operation.MAXIMUM: make_binary_of_zeros(torch.maximum),
    Operation.MINIMUM: make_binary_of_zeros(torch.minimum),
    Operation.SQUARE_ROOT: make_square_root,
    Operation.RECIPROCAL_ROOT: make_function(torch.rsqrt),
    Operation.EXPONENTIAL: make_function(torch.exp),
    Operation.LOGARITHM: make_function(torch.log),
    Operation.SIGMOID: make_function(torch.sigmoid),
    Operation.GATHER: make_gather,
    Operation.EQUAL_SELECT: make_equal_select,
    Operation.FLUSH: make_flush,
    Operation.FINITE_SELECT: make_finite_select,
    Operation.COPY: make_copy,
}
