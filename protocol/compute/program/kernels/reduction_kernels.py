"""PyTorch kernels of sums and maxima, in any order that a library chooses."""

from collections.abc import Callable

import torch
from torch import Tensor

from touchstone.protocol.compute.program.kernels.kernel import Kernel
from touchstone.protocol.compute.program.planning.node_views import NodeViews


def make_reduction(
    function: Callable[..., Tensor], views: NodeViews, read: Callable[[], Tensor], out: Tensor
) -> Kernel:
    """Returns a kernel of `function` over the reduced loops. Without such loops it copies, because PyTorch
    would reduce over all."""
    dimensions = list(range(len(views.node.output_sizes), len(views.node.sizes)))
    if not dimensions:
        return lambda: out.copy_(read())
    return lambda: function(read(), dimensions, out=out)


def make_sum(views: NodeViews) -> Kernel:
    """Returns the kernel of a sum."""
    a, out = views.operand(0), views.output
    return make_reduction(torch.sum, views, lambda: a, out)


def make_maximum_of(views: NodeViews) -> Kernel:
    """Returns the kernel of a maximum over an axis."""
    a, out = views.operand(0), views.output
    find = make_reduction(torch.amax, views, lambda: a, out)

    def run() -> None:
        """Computes the node once; a zero becomes +0, as in MAXIMUM."""
        find()
        out.add_(0.0)

    return run
