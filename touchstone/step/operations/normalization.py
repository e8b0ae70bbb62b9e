"""Lowers layer norms, forward and backward. PyTorch makes root-mean-square norms of plain operations."""

from collections.abc import Sequence
from math import prod

from touchstone.protocol.spec.program_operations import Operation
from touchstone.step.recordings import Call
from touchstone.step.views import View, insert, reshape
from touchstone.step.writer import Value, Writer, handles

Results = tuple[Value, ...]


def _flatten(x: View, size: int) -> View:
    """Returns x as [rows, size]."""
    return reshape(x, (prod(x.shape) // size, size))


def _mean(writer: Writer, *factors: View) -> View:
    """Returns the mean of the product of the factors along the last dimension, which keeps size 1."""
    operation = Operation.SUM if len(factors) == 1 else Operation.PRODUCT_SUM
    total = writer.builder.contract(operation, factors, 1)
    mean = writer.builder.divide(total, factors[0].shape[-1])
    return insert(mean, len(mean.dimensions))


def _sum_rows(writer: Writer, x: View, *factors: View) -> View:
    """Returns the sum over all rows of [rows, size] of the product of the factors."""
    turned = [_turn(view) for view in (x, *factors)]
    return writer.builder.contract(Operation.PRODUCT_SUM if factors else Operation.SUM, turned, 1)


def _turn(x: View) -> View:
    return View(x.buffer, x.offset, x.dimensions[::-1])


@handles("aten.native_layer_norm.default")
def _lower_layer_norm(
    writer: Writer,
    call: Call,
    x: View,
    shape: Sequence[int],
    weight: View | None,
    bias: View | None,
    epsilon: float,
) -> Results:
    """Computes (x - mean) / sqrt(variance + epsilon) * weight + bias; also the mean, and 1 / sqrt(variance +
    epsilon)."""
    builder, size = writer.builder, prod(shape)
    rows = _flatten(x, size)
    mean = _mean(writer, rows)
    centred = builder.subtract(rows, mean)
    variance = _mean(writer, centred, centred)
    scale = builder.map(Operation.RECIPROCAL_ROOT, builder.add(variance, epsilon))
    result = builder.multiply(centred, scale)
    if weight is not None:
        result = builder.multiply(result, reshape(weight, (size,)))
    if bias is not None:
        result = builder.add(result, reshape(bias, (size,)))
    ones = (*x.shape[: len(x.shape) - len(shape)], *(1 for _ in shape))
    return reshape(result, x.shape), reshape(mean, ones), reshape(scale, ones)


@handles("aten.native_layer_norm_backward.default")
def _lower_layer_norm_backward(
    writer: Writer,
    call: Call,
    gradient: View,
    x: View,
    shape: Sequence[int],
    mean: View,
    scale: View,
    weight: View | None,
    bias: View | None,
    _wanted: Sequence[bool],
) -> Results:
    """Computes, with y = (x - mean) scale and g = gradient weight: scale (g - mean(g) - y mean(g y)); and the
    sums over rows of gradient y and of gradient."""
    builder, size = writer.builder, prod(shape)
    given, rows = _flatten(gradient, size), _flatten(x, size)
    by_row = (rows.shape[0], 1)
    centred = builder.subtract(rows, reshape(mean, by_row))
    normal = builder.multiply(centred, reshape(scale, by_row))
    weighted = given if weight is None else builder.multiply(given, reshape(weight, (size,)))
    along = builder.multiply(normal, _mean(writer, weighted, normal))
    rest = builder.subtract(weighted, _mean(writer, weighted))
    moved = builder.subtract(rest, along)
    result = builder.multiply(moved, reshape(scale, by_row))
    return (
        reshape(result, x.shape),
        None if weight is None else reshape(_sum_rows(writer, given, normal), tuple(shape)),
        None if bias is None else reshape(_sum_rows(writer, given), tuple(shape)),
    )
