"""PyTorch kernels of elementwise operations.

Each must be one correctly rounded operation or a library's function of a few ulp. Operands that a library
cannot read in place are copied first.
"""

from collections.abc import Callable
from functools import lru_cache
from math import inf, isfinite

import numpy as np
import torch
from torch import Tensor

from touchstone.protocol.compute.program.kernels.kernel import Kernel
from touchstone.protocol.compute.program.planning.node_views import NodeViews

COPY_COLUMNS = 64
"""How many elements of each row a transposing copy moves at a time."""
FUNCTION_ELEMENTS = 1 << 15
"""How many elements a function computes at once: few enough that they are not shared among threads."""
VECTOR_ELEMENTS, VECTOR_BYTES = 64, 64
"""Multiples of the elements, and of the bytes, that any processor computes at once."""


def make_binary(function: Callable[..., Tensor]) -> Callable[[NodeViews], Kernel]:
    """Returns a maker of kernels for an operation on two operands."""

    def make(views: NodeViews) -> Kernel:
        """Returns the kernel of one node."""
        a, b, out = views.operand(0), views.operand(1), views.output
        return lambda: function(a, b, out=out)

    return make


def make_binary_of_zeros(function: Callable[..., Tensor]) -> Callable[[NodeViews], Kernel]:
    """Returns a maker of kernels for a binary operation whose zeros become +0. Of -0 and +0 a library takes
    either, depending on where an element lies."""

    def make(views: NodeViews) -> Kernel:
        """Returns the kernel of one node."""
        a, b, out = views.operand(0), views.operand(1), views.output
        return lambda: function(a, b, out=out).add_(0.0)

    return make


def make_function(function: Callable[..., Tensor]) -> Callable[[NodeViews], Kernel]:
    """Returns a maker of kernels for a function of each element. A library computes whole vectors of a
    processor in one way and the rest in another, and threads cut a tensor anywhere. So here all elements are
    computed in whole vectors of one thread. Then a result depends on its operand alone, and tiles in training
    give the same bits as a trace."""

    def make(views: NodeViews) -> Kernel:
        """Returns the kernel of one node."""
        a, out = views.operand(0), views.output
        if out.device.type != "cpu":
            return lambda: function(a, out=out)
        return lambda: _apply(function, a, out)

    return make


def _apply(function: Callable[..., Tensor], a: Tensor, out: Tensor) -> None:
    count = out.numel()
    if count > FUNCTION_ELEMENTS and out.dim() > 1 and a.is_contiguous() and out.is_contiguous():
        a, out = a.view(-1), out.view(-1)
    if count > FUNCTION_ELEMENTS:
        height = max(1, FUNCTION_ELEMENTS * len(out) // count)
        pairs = zip(torch.split(a, height), torch.split(out, height), strict=True)
        for part, result in pairs if len(out) > 1 else ((a[0], out[0]),):
            _apply(function, part, result)
        return
    if count % VECTOR_ELEMENTS == 0 and _lies_as_scratch(a) and _lies_as_scratch(out):
        function(a, out=out)
        return
    scratch = torch.empty(-(-count // VECTOR_ELEMENTS) * VECTOR_ELEMENTS)
    scratch[count:] = 0
    part = scratch[:count].view(out.shape)
    part.copy_(a)
    function(scratch, out=scratch)
    out.copy_(part)


def _lies_as_scratch(tensor: Tensor) -> bool:
    """Returns whether a tensor lies as the scratch memory does: element by element, from a vector's start."""
    return tensor.is_contiguous() and tensor.data_ptr() % VECTOR_BYTES == 0


def make_square_root(views: NodeViews) -> Kernel:
    """Returns the kernel of a correctly rounded square root. torch's float32 root on CPUs is not correctly
    rounded (docs/decisions/0010-program.md). NumPy's is the processor's own instruction, which IEEE 754
    binds."""
    a, out = views.operand(0), views.output
    if out.device.type == "cpu":
        return lambda: _take_roots(a, out)
    return lambda: out.copy_(a.double().sqrt())


def _take_roots(a: Tensor, out: Tensor) -> None:
    with np.errstate(invalid="ignore"):
        np.sqrt(a.numpy(), out=out.numpy())


@lru_cache(maxsize=16)
def _get_predecessor(value: float) -> float:
    """Returns the next float32 from `value` towards zero."""
    return float(np.nextafter(np.float32(value), np.float32(0)))


def make_flush(views: NodeViews) -> Kernel:
    """Returns the kernel of a flush: hardshrink keeps |x| > limit; with the number just below the threshold,
    that is |x| >= threshold."""
    a, threshold, out = views.operand(0), views.operand(1), views.output
    if any(threshold.stride()) or out.device.type != "cpu":
        return lambda: out.copy_(torch.where(a.abs() < threshold, 0.0, a))

    def run() -> None:
        """Computes the node once."""
        least = threshold.as_strided((), ()).item()
        if least > 0:
            torch.ops.aten.hardshrink.out(a, _get_predecessor(least), out=out)
        else:
            out.copy_(a)  # No magnitude is below it, and -0 stays.

    return run


def make_finite_select(views: NodeViews) -> Kernel:
    """Returns the kernel that takes `yes` if a condition is finite, else `no`."""
    condition, yes, no, out = *map(views.operand, range(3)), views.output
    if any(condition.stride()) or out.device.type != "cpu":
        return lambda: torch.where(condition.abs() < inf, yes, no, out=out)
    return lambda: out.copy_(yes if isfinite(condition.as_strided((), ()).item()) else no)


def make_copy(views: NodeViews) -> Kernel:
    """Returns the kernel that copies an operand into the output."""
    a, out = views.operand(0), views.output
    if out.device.type == "cpu" and out.dim() and a.stride(-1) > 1:
        return lambda: _copy_across(a, out)
    return lambda: out.copy_(a)


def _copy_across(a: Tensor, out: Tensor) -> None:
    """Copies columns into rows, a few at a time, so that the reads stay in the cache: a fifth faster than
    copy_."""
    source, target = a.numpy(), out.numpy()
    for start in range(0, out.shape[-1], COPY_COLUMNS):
        part = np.s_[..., start : start + COPY_COLUMNS]
        np.copyto(target[part], source[part])
