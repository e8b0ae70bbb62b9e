"""Lowers convolutions of any number of dimensions: products over loops of a zero-padded input."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from touchstone.protocol.spec.program_operations import Operation
from touchstone.step.pending import Pieces
from touchstone.step.recordings import Call
from touchstone.step.views import View, divide, expand, insert, narrow, permute, remove, reshape
from touchstone.step.writer import Writer, get_only_stride, handles, require_form

Sizes = tuple[int, ...]
Options = tuple[Sizes, Sizes, Sizes, bool, Sizes, int]
"""PyTorch's options: stride, padding, dilation, whether it is transposed, padding of the output, groups."""


@dataclass(frozen=True)
class Windows:
    """How a kernel moves over an input. `kernel` and `out` are sizes of the kernel and of the output along
    each dimension of space. `groups` are groups of channels, which do not mix."""

    kernel: Sizes
    out: Sizes
    stride: Sizes
    padding: Sizes
    dilation: Sizes
    groups: int

    def slide(self, x: View) -> View:
        """Returns [batch, groups, *out, channels of a group, *kernel] of a padded input [batch, channels,
        *space]."""
        batch, groups, channels, *space = _group(x, 1, self.groups).dimensions
        steps = [get_only_stride(x, 2 + n) if space[n] else 0 for n in range(len(space))]
        out = [
            ((size, step * by),) if size > 1 else ()
            for size, step, by in zip(self.out, steps, self.stride, strict=True)
        ]
        kernel = [
            ((size, step * by),) if size > 1 else ()
            for size, step, by in zip(self.kernel, steps, self.dilation, strict=True)
        ]
        return View(x.buffer, x.offset, (batch, groups, *out, channels, *kernel))


def _pad(writer: Writer, x: View, padding: Sizes) -> View:
    for number, width in enumerate(padding):
        if width:
            dimension = 2 + number
            size = x.shape[dimension]
            x = Pieces(dimension, size + 2 * width, ((width, x),)).write(writer.builder)
    return x


def _read_windows(call: Call, weight: View, out: Sequence[int], options: Options) -> Windows:
    stride, padding, dilation, is_transposed, _, groups = options
    require_form(call, "a convolution that is not transposed", not is_transposed)
    rank = len(weight.shape) - 2
    steps, widths, gaps = (
        tuple(value) * (rank if len(value) == 1 else 1) for value in (stride, padding, dilation)
    )
    return Windows(weight.shape[2:], tuple(out), steps, widths, gaps, groups)


@handles("aten.convolution.default")
def _lower_convolution(
    writer: Writer, call: Call, x: View, weight: View, bias: View | None, *options: Any
) -> View:
    """Returns the sum over channels of a group and places of the kernel of input times weight, plus the
    bias."""
    windows = _read_windows(call, weight, call.shape[2:], tuple(options))
    rank, groups = len(windows.kernel), windows.groups
    seen = windows.slide(_pad(writer, x, windows.padding))
    # Both over [batch, groups, channels out, *out, channels of a group, *kernel].
    grouped = _group(weight, 0, groups)
    left = insert(seen, 2)
    right = grouped
    for _ in range(rank):
        right = insert(right, 2)
    right = insert(right, 0)
    shape = (seen.shape[0], groups, grouped.shape[1], *windows.out, *seen.shape[2 + rank :])
    total = writer.builder.contract(
        Operation.PRODUCT_SUM, (expand(left, shape), expand(right, shape)), 1 + rank
    )
    result = reshape(total, call.shape)
    if bias is None:
        return result
    return writer.map(call, Operation.ADD, result, reshape(bias, (bias.shape[0], *(1 for _ in range(rank)))))


@handles("aten.convolution_backward.default")
def _lower_convolution_backward(
    writer: Writer,
    call: Call,
    gradient: View,
    x: View,
    weight: View,
    _bias_sizes: object,
    *options: Any,
) -> tuple[View | None, View | None, View | None]:
    """Returns the gradients of input, weight and bias, as far as they are wanted."""
    *told, (wants_input, wants_weight, wants_bias) = options
    windows = _read_windows(call, weight, gradient.shape[2:], tuple(told))
    return (
        _input_gradient(writer, call, gradient, x.shape, weight, windows) if wants_input else None,
        _weight_gradient(writer, gradient, x, weight, windows) if wants_weight else None,
        _bias_gradient(writer, gradient) if wants_bias else None,
    )


def _bias_gradient(writer: Writer, gradient: View) -> View:
    order = (1, 0, *range(2, len(gradient.shape)))
    return writer.builder.contract(Operation.SUM, (permute(gradient, order),), len(order) - 1)


def _weight_gradient(writer: Writer, gradient: View, x: View, weight: View, windows: Windows) -> View:
    """Returns, over [groups, channels out, channels of a group, *kernel], the sum over [batch, *out]."""
    rank, groups = len(windows.kernel), windows.groups
    seen = windows.slide(_pad(writer, x, windows.padding))
    out = range(2, 2 + rank)
    right = insert(permute(seen, (1, *range(2 + rank, 3 + 2 * rank), 0, *out)), 1)
    given = _group(gradient, 1, groups)
    left = permute(given, (1, 2, 0, *range(3, 3 + rank)))
    for _ in range(1 + rank):
        left = insert(left, 2)
    shape = (groups, given.shape[2], *right.shape[2:])
    total = writer.builder.contract(
        Operation.PRODUCT_SUM, (expand(left, shape), expand(right, shape)), 1 + rank
    )
    return reshape(total, weight.shape)


def _group(x: View, dimension: int, groups: int) -> View:
    """Splits the dimension of channels into groups and channels of a group."""
    return divide(x, dimension, (groups, x.shape[dimension] // groups))


def _input_gradient(
    writer: Writer, call: Call, gradient: View, shape: Sequence[int], weight: View, windows: Windows
) -> View:
    """Adds, for each place of the kernel, the sum over channels out to the places where the input was
    read."""
    require_form(
        call,
        "a stride of 1, or patches beside each other whose input needs no gradient",
        all(step == 1 for step in windows.stride),
    )
    builder, rank, groups = writer.builder, len(windows.kernel), windows.groups
    given = _group(gradient, 1, groups)
    grouped = _group(weight, 0, groups)
    padded = [size + 2 * width for size, width in zip(shape[2:], windows.padding, strict=True)]
    total: View | None = None
    for place in product(*map(range, windows.kernel)):
        tap = grouped
        for index in reversed(place):
            last = len(tap.dimensions) - 1
            tap = remove(narrow(tap, last, index, 1), last)
        # Over [batch, groups, channels of a group, *out], the sum over channels out.
        left = permute(given, (0, 1, *range(3, 3 + rank), 2))
        left = insert(left, 2)
        right = permute(tap, (0, 2, 1))
        for _ in range(rank):
            right = insert(right, 2)
        right = insert(right, 0)
        wide = (given.shape[0], groups, tap.shape[2], *windows.out, given.shape[2])
        moved = reshape(
            builder.contract(Operation.PRODUCT_SUM, (expand(left, wide), expand(right, wide)), 1),
            (shape[0], shape[1], *windows.out),
        )
        for number, index in enumerate(place):
            start = index * windows.dilation[number]
            if moved.shape[2 + number] != padded[number]:
                moved = Pieces(2 + number, padded[number], ((start, moved),)).write(builder)
        total = moved if total is None else builder.add(total, moved)
    if total is None:
        raise AssertionError("a kernel has one place or more")
    for number, width in enumerate(windows.padding):
        total = narrow(total, 2 + number, width, shape[2 + number])
    return total
