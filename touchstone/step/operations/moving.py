"""Lowers operations that only rename, cut, join and pad tensors."""

from collections.abc import Sequence
from itertools import accumulate
from math import prod

import torch

from touchstone.step.pending import Pieces
from touchstone.step.recordings import Call
from touchstone.step.views import View, expand, insert, narrow, permute, remove, reshape
from touchstone.step.writer import Value, Writer, get_cat_dimension, handles, require_form, swap

STEPLESS = "slices without steps; for x[..., ::2] write x.unflatten(-1, (-1, 2))[..., 0]"
DTYPES = frozenset({torch.float32, torch.float64, torch.int64, torch.int32, torch.bool})
"""Types of tensors that a program supports. float64 only makes PyTorch's own rounding finer; a program
computes in its numeric format."""


@handles(
    "aten.detach.default",
    "aten.clone.default",
    "aten.alias.default",
    pending=True,
)
def _lower_same(_writer: Writer, _call: Call, x: Value) -> Value:
    return x


@handles("aten.view.default", "aten._unsafe_view.default")
def _lower_view(_writer: Writer, call: Call, x: View, _shape_: object) -> View:
    return reshape(x, call.shape)


@handles("aten.t.default")
def _lower_t(_writer: Writer, _call: Call, x: View) -> View:
    return permute(x, (1, 0))


@handles("aten.transpose.int")
def _lower_transpose(_writer: Writer, _call: Call, x: View, a: int, b: int) -> View:
    return permute(x, swap(len(x.dimensions), a, b))


@handles("aten.permute.default")
def _lower_permute(_writer: Writer, _call: Call, x: View, order: Sequence[int]) -> View:
    return permute(x, [d % len(order) for d in order])


@handles("aten.select.int")
def _lower_select(_writer: Writer, _call: Call, x: View, dimension: int, index: int) -> View:
    dimension %= len(x.dimensions)
    return remove(narrow(x, dimension, index % x.shape[dimension], 1), dimension)


@handles("aten.expand.default")
def _lower_expand(_writer: Writer, call: Call, x: View, _sizes: object) -> View:
    return expand(x, call.shape)


@handles("aten.unsqueeze.default")
def _lower_unsqueeze(_writer: Writer, call: Call, x: View, dimension: int) -> View:
    return insert(x, dimension % len(call.shape))


@handles("aten.squeeze.dim", "aten.squeeze.dims", "aten.squeeze.default")
def _lower_squeeze(_writer: Writer, call: Call, x: View, *_dimensions: object) -> View:
    return reshape(x, call.shape)


@handles("aten.slice.Tensor")
def _lower_slice(
    _writer: Writer,
    call: Call,
    x: View,
    dimension: int = 0,
    start: int = 0,
    _stop: int = 0,
    step: int = 1,
) -> View:
    require_form(call, STEPLESS, step == 1)
    return narrow(x, dimension, start % x.shape[dimension], call.shape[dimension])


@handles("aten.unbind.int")
def _lower_unbind(_writer: Writer, _call: Call, x: View, dimension: int = 0) -> tuple[View, ...]:
    dimension %= len(x.dimensions)
    return tuple(remove(narrow(x, dimension, i, 1), dimension) for i in range(x.shape[dimension]))


@handles("aten.split.Tensor")
def _lower_split(_writer: Writer, _call: Call, x: View, size: int, dimension: int = 0) -> tuple[View, ...]:
    count = x.shape[dimension]
    return _cut(x, dimension, [min(size, count - start) for start in range(0, count, size)])


@handles("aten.split_with_sizes.default")
def _lower_split_with_sizes(
    _writer: Writer, _call: Call, x: View, sizes: Sequence[int], dimension: int = 0
) -> tuple[View, ...]:
    return _cut(x, dimension, sizes)


def _cut(x: View, dimension: int, sizes: Sequence[int]) -> tuple[View, ...]:
    place, stops = dimension % len(x.dimensions), accumulate(sizes)
    return tuple(narrow(x, place, stop - size, size) for size, stop in zip(sizes, stops, strict=True))


@handles("getitem", pending=True)
def _lower_getitem(_writer: Writer, _call: Call, values: tuple[Value, ...], index: int) -> Value:
    return values[index]


@handles("aten.cat.default", pending=True)
def _lower_cat(writer: Writer, call: Call, given: tuple[Value, ...], *_: int) -> View:
    pieces = [
        writer.view(value) for value, piece in zip(given, call.args[0], strict=True) if prod(piece.shape)
    ]
    dimension = get_cat_dimension(call)
    starts = [sum(view.shape[dimension] for view in pieces[:i]) for i in range(len(pieces))]
    return writer.gather_pieces(call, dimension, list(zip(pieces, starts, strict=True)))


@handles("aten.stack.default")
def _lower_stack(writer: Writer, call: Call, pieces: tuple[View, ...], dimension: int = 0) -> View:
    dimension %= len(call.shape)
    parts = tuple((number, insert(view, dimension)) for number, view in enumerate(pieces))
    return Pieces(dimension, len(pieces), parts).write(writer.builder)


@handles("aten.repeat.default")
def _lower_repeat(writer: Writer, call: Call, x: View, counts: Sequence[int]) -> View:
    for _ in range(len(counts) - len(x.dimensions)):
        x = insert(x, 0)
    for dimension, count in enumerate(counts):
        size = x.shape[dimension]
        if count > 1 and size > 1:
            parts = tuple((number * size, x) for number in range(count))
            x = Pieces(dimension, count * size, parts).write(writer.builder)
    return expand(x, call.shape)


@handles("aten.slice_backward.default")
def _lower_slice_backward(
    writer: Writer,
    call: Call,
    x: View,
    sizes: Sequence[int],
    dimension: int,
    start: int,
    _stop: int,
    step: int,
) -> Value:
    require_form(call, STEPLESS, step == 1)
    dimension %= len(sizes)
    if x.shape[dimension] == sizes[dimension]:
        return x
    if not prod(x.shape):
        return expand(writer.view(0.0), sizes)
    return Pieces(dimension, sizes[dimension], ((start % sizes[dimension], x),))


@handles("aten.select_backward.default")
def _lower_select_backward(
    _writer: Writer, _call: Call, x: View, sizes: Sequence[int], dimension: int, index: int
) -> Pieces:
    dimension %= len(sizes)
    return Pieces(dimension, sizes[dimension], ((index % sizes[dimension], insert(x, dimension)),))


@handles("aten.constant_pad_nd.default")
def _lower_pad(writer: Writer, call: Call, x: View, pad: Sequence[int], value: float = 0.0) -> View:
    """Pads with pairs of (elements before, elements after), from the last dimension on; a negative number
    cuts off."""
    require_form(call, "a padding of zeros", value == 0)
    for number in range(len(pad) // 2):
        dimension = len(x.dimensions) - 1 - number
        before, after = pad[2 * number : 2 * number + 2]
        size = x.shape[dimension]
        x = narrow(x, dimension, max(0, -before), size + min(0, before) + min(0, after))
        if before > 0 or after > 0:
            whole = x.shape[dimension] + max(0, before) + max(0, after)
            x = Pieces(dimension, whole, ((max(0, before), x),)).write(writer.builder)
    return x


@handles("aten._to_copy.default", pending=True)
def _lower_to_copy(_writer: Writer, call: Call, x: Value) -> Value:
    require_form(
        call, "float32: module.float(), no .half(), no .bfloat16(), no autocast", call.dtype in DTYPES
    )
    return x
