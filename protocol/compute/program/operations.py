"""Lowering of PyTorch's plain operations: views, arithmetic, selections, sums and products."""

from collections.abc import Callable, Sequence
from itertools import accumulate
from math import inf, prod

import torch

from protocol.compute.program.layout import View, expand, insert, narrow, permute, remove, reshape
from protocol.compute.program.writer import (
    Absolute,
    Below,
    Call,
    Handler,
    Piece,
    Product,
    Value,
    Writer,
    get_cat_dimension,
    require_form,
    swap,
)
from protocol.spec.errors import InvalidInput
from protocol.spec.program import Operation

SUMS = frozenset({"aten.sum.dim_IntList", "aten.sum.default", "aten.mean.dim"})
OPERATIONS: dict[str, Handler] = {}


def _handles(*names: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        """Enter the handler under its names."""
        OPERATIONS.update(dict.fromkeys(names, handler))
        return handler

    return register


@_handles("aten.detach.default", "aten.clone.default", "aten.alias.default")
def _lower_same(_writer: Writer, _call: Call, x: Value) -> Value:
    return x


@_handles("aten.view.default", "aten._unsafe_view.default", "aten.reshape.default")
def _lower_view(_writer: Writer, call: Call, x: View, _shape_: object) -> View:
    return reshape(x, call.shape)


@_handles("aten.t.default")
def _lower_t(_writer: Writer, _call: Call, x: View) -> View:
    return permute(x, (1, 0))


@_handles("aten.transpose.int")
def _lower_transpose(_writer: Writer, _call: Call, x: View, a: int, b: int) -> View:
    return permute(x, swap(len(x.dimensions), a, b))


@_handles("aten.expand.default")
def _lower_expand(_writer: Writer, call: Call, x: View, _sizes: object) -> View:
    return expand(x, call.shape)


@_handles("aten.unsqueeze.default")
def _lower_unsqueeze(_writer: Writer, call: Call, x: View, dimension: int) -> View:
    return insert(x, dimension % len(call.shape))


@_handles("aten.squeeze.dim")
def _lower_squeeze(_writer: Writer, _call: Call, x: View, dimension: int) -> View:
    return remove(x, dimension % len(x.dimensions))


@_handles("aten.slice.Tensor")
def _lower_slice(
    _writer: Writer,
    call: Call,
    x: View,
    dimension: int = 0,
    start: int = 0,
    _stop: int = 0,
    step: int = 1,
) -> View:
    require_form(call, "slices without steps", step == 1)
    return narrow(x, dimension, start % x.shape[dimension], call.shape[dimension])


@_handles("aten.unbind.int")
def _lower_unbind(_writer: Writer, _call: Call, x: View) -> tuple[View, ...]:
    return tuple(remove(narrow(x, 0, i, 1), 0) for i in range(x.shape[0]))


@_handles("aten.split.Tensor")
def _lower_split(_writer: Writer, _call: Call, x: View, size: int, dimension: int = 0) -> tuple[View, ...]:
    count = x.shape[dimension]
    return _cut(x, dimension, [min(size, count - start) for start in range(0, count, size)])


@_handles("aten.split_with_sizes.default")
def _lower_split_with_sizes(
    _writer: Writer, _call: Call, x: View, sizes: Sequence[int], dimension: int = 0
) -> tuple[View, ...]:
    return _cut(x, dimension, sizes)


def _cut(x: View, dimension: int, sizes: Sequence[int]) -> tuple[View, ...]:
    place, stops = dimension % len(x.dimensions), accumulate(sizes)
    return tuple(narrow(x, place, stop - size, size) for size, stop in zip(sizes, stops, strict=True))


@_handles("aten.zeros.default")
def _lower_zeros(writer: Writer, call: Call, _sizes: object) -> View:
    """Where the gradient of what was cut off belongs: one constant, copied everywhere."""
    zeros, place = expand(writer.builder.add_number(0.0), call.shape), writer.place_of(call)
    return zeros if place is None else writer.builder.copy(zeros, place)


@_handles("getitem")
def _lower_getitem(_writer: Writer, _call: Call, values: tuple[Value, ...], index: int) -> Value:
    return values[index]


@_handles("aten.cat.default")
def _lower_cat(writer: Writer, call: Call, pieces: tuple[View, ...], *_: int) -> View:
    dimension = get_cat_dimension(call)
    starts = [sum(view.shape[dimension] for view in pieces[:i]) for i in range(len(pieces))]
    return writer.gather_pieces(call, dimension, list(zip(pieces, starts, strict=True)))


@_handles("aten.slice_backward.default")
def _lower_slice_backward(
    _writer: Writer,
    call: Call,
    x: View,
    sizes: Sequence[int],
    dimension: int,
    start: int,
    _stop: int,
    step: int,
) -> Piece:
    require_form(call, "slices without steps", step == 1)
    return Piece(x, dimension, start % sizes[dimension], sizes[dimension])


@_handles("aten.add.Tensor", "aten.add.Scalar")
def _lower_add(writer: Writer, call: Call, a: Value, b: Value) -> View:
    if isinstance(a, Piece) and isinstance(b, Piece):
        first, second = sorted((a, b), key=lambda piece: piece.start)
        meet = first.start + first.view.shape[first.dimension]
        end = second.start + second.view.shape[second.dimension]
        if a.dimension != b.dimension or (first.start, meet, end) != (0, second.start, a.size):
            raise InvalidInput(
                what="two slices of a gradient do not fill it",
                expected="complementary slices",
                actual=(a, b),
                remedy="Cut tensors into two parts that meet.",
            )
        return writer.gather_pieces(call, a.dimension, [(a.view, a.start), (b.view, b.start)])
    return writer.map(call, Operation.ADD, a, b)


@_handles("aten.sub.Tensor")
def _lower_sub(writer: Writer, call: Call, a: Value, b: Value) -> View:
    return writer.map(call, Operation.SUBTRACT, a, b)


@_handles("aten.rsub.Scalar")
def _lower_rsub(writer: Writer, call: Call, a: Value, b: Value) -> View:
    return writer.map(call, Operation.SUBTRACT, b, a)


@_handles("aten.mul.Tensor", "aten.mul.Scalar")
def _lower_mul(writer: Writer, call: Call, a: Value, b: Value) -> Value:
    if b == 1.0 and writer.place_of(call) is None:
        return a
    if isinstance(a, View) and isinstance(b, View) and all(u.name in SUMS for u in call.users):
        return Product(*(expand(view, call.shape) for view in (a, b)))
    return writer.map(call, Operation.MULTIPLY, a, b)


@_handles("aten.div.Tensor", "aten.div.Scalar")
def _lower_div(writer: Writer, call: Call, a: Value, b: Value) -> View:
    return writer.map(call, Operation.DIVIDE, a, b)


@_handles("aten.neg.default")
def _lower_neg(writer: Writer, call: Call, a: Value) -> View:
    return writer.map(call, Operation.MULTIPLY, a, -1.0)


@_handles("aten.reciprocal.default")
def _lower_reciprocal(writer: Writer, call: Call, a: Value) -> View:
    return writer.map(call, Operation.DIVIDE, 1.0, a)


@_handles("aten.pow.Tensor_Scalar")
def _lower_pow(writer: Writer, call: Call, a: View, exponent: float) -> View:
    if exponent not in (2, 3):
        raise InvalidInput(
            what="a power that programs do not have",
            expected="2 or 3",
            actual=exponent,
            remedy="Write it as products.",
        )
    square = writer.builder.map(Operation.MULTIPLY, a, a)
    return square if exponent == 2 else writer.map(call, Operation.MULTIPLY, square, a)


@_handles("aten.rsqrt.default")
def _lower_rsqrt(writer: Writer, call: Call, a: Value) -> View:
    return writer.map(call, Operation.RECIPROCAL_ROOT, a)


@_handles("aten._to_copy.default")
def _lower_to_copy(_writer: Writer, call: Call, x: Value) -> Value:
    return x  # only around a square root, see there


@_handles("aten.sqrt.default")
def _lower_sqrt(writer: Writer, call: Call, a: Value) -> View:
    if call.dtype is not torch.float64:
        raise InvalidInput(
            what="a float32 square root",
            expected="one through float64, which is rounded correctly everywhere",
            actual=str(call.dtype),
            remedy="Write x.double().sqrt().float().",
        )
    return writer.map(call, Operation.SQUARE_ROOT, a)


@_handles("aten.clamp.default")
def _lower_clamp(
    writer: Writer, call: Call, a: Value, low: float | None = None, high: float | None = None
) -> Value:
    if low is None:
        return writer.map(call, Operation.MINIMUM, a, high)
    if high is None:
        return writer.map(call, Operation.MAXIMUM, a, low)
    raised = writer.builder.map(Operation.MAXIMUM, a, writer.builder.add_number(low))
    return writer.map(call, Operation.MINIMUM, raised, high)


@_handles("aten.abs.default")
def _lower_abs(_writer: Writer, _call: Call, a: View) -> Absolute:
    return Absolute(a)


@_handles("aten.lt.Scalar")
def _lower_lt(_writer: Writer, call: Call, a: Value, limit: float) -> Below:
    require_form(call, "|x| < limit or x < inf", isinstance(a, Absolute) or limit == inf)
    return Below(a.of if isinstance(a, Absolute) else a, limit)


@_handles("aten.scalar_tensor.default")
def _lower_scalar_tensor(_writer: Writer, _call: Call, value: float) -> float:
    return value


@_handles("aten.where.self")
def _lower_where(writer: Writer, call: Call, condition: Below, yes: Value, no: Value) -> View:
    if condition.limit == inf:
        return writer.map(call, Operation.FINITE_SELECT, condition.of, yes, no)
    if yes != 0.0 or no != condition.of:
        raise InvalidInput(
            what="a selection that programs do not have",
            expected="where(|x| < limit, 0, x) or where(x < inf, a, b)",
            actual=(condition, yes, no),
            remedy="Write it as one of these.",
        )
    return writer.map(call, Operation.FLUSH, no, condition.limit)


@_handles("aten.ones_like.default")
def _lower_ones_like(_writer: Writer, _call: Call, _x: Value) -> float:
    return 1.0


# --- Sums and products --------------------------------------------------------------------------------------
@_handles("aten.mm.default", "aten.bmm.default")
def _lower_matmul(writer: Writer, call: Call, a: View, b: View) -> View:
    """[..., M, K] and [..., K, N]: both are spread over [..., M, N, K], the last of which is summed."""
    rank = len(a.dimensions)
    batch = tuple(range(rank - 2))
    *head, rows, terms = a.shape
    full = (*head, rows, b.shape[-1], terms)
    left = expand(insert(a, rank - 1), full)
    right = expand(insert(permute(b, (*batch, rank - 1, rank - 2)), rank - 2), full)
    return writer.contract(call, Operation.PRODUCT_SUM, (left, right), 1)


@_handles("aten.sum.dim_IntList", "aten.sum.default", "aten.mean.dim")
def _lower_sum(
    writer: Writer,
    call: Call,
    x: Value,
    dimensions: Sequence[int] | None = None,
    keep: bool = False,
) -> View:
    operands = (x.a, x.b) if isinstance(x, Product) else (x,)
    shape = operands[0].shape
    reduced = sorted({d % len(shape) for d in (dimensions or range(len(shape)))})
    order = [d for d in range(len(shape)) if d not in reduced] + reduced
    operation = Operation.PRODUCT_SUM if len(operands) == 2 else Operation.SUM
    is_mean = call.name == "aten.mean.dim"
    turned = [permute(view, order) for view in operands]
    place = None if is_mean or keep else writer.place_of(call)
    if keep and not is_mean and (wanted := writer.place_of(call)) is not None:
        for d in reversed(reduced):
            wanted = remove(wanted, d)
        place = wanted
    total = writer.builder.contract(operation, turned, len(reduced), place)
    if is_mean:
        total = writer.builder.map(
            Operation.DIVIDE, total, writer.builder.add_number(prod(shape[d] for d in reduced))
        )
    if keep:
        for d in reduced:
            total = insert(total, d)
    return total
