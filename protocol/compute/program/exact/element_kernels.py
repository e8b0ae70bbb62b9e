"""Makes kernels of exact programs that choose operands, or compute functions of them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from touchstone.protocol.compute.program.exact.operand_rows import DenseOutput
from touchstone.protocol.compute.program.kernels.kernel import Kernel
from touchstone.protocol.compute.program.kernels.plain_kernels import make_kernel as make_plain_kernel
from touchstone.protocol.compute.program.planning.node_views import NodeViews


def make_maximum_of(views: NodeViews) -> Kernel:
    """Returns the kernel of a largest element. The largest of two zeros is +0, whichever a library takes: -0
    + 0 is +0."""
    kernel, out = make_plain_kernel(views.node, views.view), views.output

    def run() -> None:
        """Computes the node once."""
        kernel()
        out.add_(0.0)

    return run


def make_choice(choose: Callable[..., None]) -> Callable[[NodeViews], Kernel]:
    """Returns a maker of kernels that choose one of two operands, by a compiled loop."""

    def make(views: NodeViews) -> Kernel:
        """Returns the kernel of one node."""
        a, b, out = views.operand(0), views.operand(1), DenseOutput(views)
        is_one = not any(b.stride())

        def run() -> None:
            """Computes the node once."""
            second = b.as_strided((1,), (1,)) if is_one else b.contiguous().view(-1)
            choose(a.contiguous().view(-1).numpy(), second.numpy(), out.values)
            out.write()

        return run

    return make


def make_function(function: Callable[..., Any]) -> Callable[[NodeViews], Kernel]:
    """Returns a maker of kernels that compute a function of each element, by a compiled loop."""

    def make(views: NodeViews) -> Kernel:
        """Returns the kernel of one node."""
        a, out = views.operand(0), DenseOutput(views)

        def run() -> None:
            """Computes the node once."""
            x, values = a.contiguous().view(-1).numpy(), out.values
            function(x, x.view(np.int32), values, values.view(np.int32))
            out.write()

        return run

    return make


def make_reciprocal_root(views: NodeViews) -> Kernel:
    """Returns the kernel that takes the processor's square root, then divides 1 by it."""
    a, out = views.operand(0), views.output

    def run() -> None:
        """Computes the node once."""
        with np.errstate(invalid="ignore", divide="ignore"):
            np.sqrt(a.numpy(), out=out.numpy())
            np.divide(np.float32(1), out.numpy(), out=out.numpy())

    return run
