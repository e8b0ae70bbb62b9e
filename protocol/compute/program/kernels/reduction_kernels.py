"""PyTorch kernels of sums and maxima, in whatever order a library takes."""

from collections.abc import Callable

import torch
from torch import Tensor

from touchstone.protocol.compute.program.kernels.kernel import Kernel
from touchstone.protocol.compute.program.planning.node_views import NodeViews


def make_reduction(
    function: Callable[..., Tensor], views: NodeViews, read: Callable[[], Tensor], out: Tensor
) -> Kernel:
    """`function` over the reduced loops. PyTorch takes no dimensions for all of them: then it is a copy."""
    dimensions = list(range(len(views.node.output_sizes), len(views.node.sizes)))
    if not dimensions:
        return lambda: out.copy_(read())
    return lambda: function(read(), dimensions, out=out)


def make_sum(views: NodeViews) -> Kernel:
    """Makes the kernel of a sum."""
    a, out = views.operand(0), views.output
    return make_reduction(torch.sum, views, lambda: a, out)


def make_maximum_of(views: NodeViews) -> Kernel:
    """Makes the kernel of a maximum over an axis."""
    a, out = views.operand(0), views.output
    find = make_reduction(torch.amax, views, lambda: a, out)

    def run() -> None:
        """Computes the node once; a zero is +0, as in MAXIMUM."""
        find()
        out.add_(0.0)

    return run
