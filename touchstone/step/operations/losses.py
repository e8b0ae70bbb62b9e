"""Lowers softmax, losses by label, and selections by label."""

from collections.abc import Sequence

from touchstone.protocol.spec.program_operations import Operation
from touchstone.step.pending import LogSoftmax, LossGradient
from touchstone.step.recordings import Call
from touchstone.step.views import View, expand, insert, narrow, remove
from touchstone.step.writer import SOFTMAXES, Value, Writer, get_only_stride, handles, require_form

LEAST_EXPONENT = -50.0
"""Softmax takes exp(max(x, -50)). Smaller values vanish beside the 1 of the largest (2^-24 > e^-50), and
exponentials that underflow cost up to a hundred times as much."""
ZERO_EXPONENT = -128.0
"""The limit in exact programs. There exp(-128) is 0 (docs/spec.md, 9.1), so a hidden position changes no
bit."""
NO_REDUCTION, MEAN, SUM = 0, 1, 2
"""PyTorch's numbers for how the losses of rows are combined."""


def _lower_powers(writer: Writer, x: View) -> LogSoftmax:
    """Returns the parts of a softmax over the last dimension. In exact programs tiny terms are zero, so a
    masked position changes no bit."""
    builder = writer.builder
    largest = insert(builder.reduce_maximum(x), len(x.dimensions) - 1)
    shifted = builder.subtract(x, largest)
    clamped = builder.maximum(shifted, ZERO_EXPONENT if builder.product_bits else LEAST_EXPONENT)
    powers = builder.map(Operation.EXPONENTIAL, clamped)
    total = insert(builder.contract(Operation.SUM, (powers,), 1), len(x.dimensions) - 1)
    return LogSoftmax(shifted, powers, total)


@handles(*SOFTMAXES)
def _lower_softmax(writer: Writer, call: Call, x: View, dimension: int, *_: object) -> View:
    require_form(call, "the last dimension", dimension in (-1, len(x.dimensions) - 1))
    parts = _lower_powers(writer, x)
    return writer.map(call, Operation.DIVIDE, parts.powers, parts.total)


@handles("aten._softmax_backward_data.default")
def _lower_softmax_backward(
    writer: Writer, call: Call, gradient: View, softmax: View, dimension: int, _dtype: object
) -> View:
    """Computes (gradient - sum(gradient * softmax)) * softmax."""
    require_form(call, "the last dimension", dimension in (-1, len(softmax.dimensions) - 1))
    mean = writer.builder.contract(Operation.PRODUCT_SUM, (gradient, softmax), 1)
    centred = writer.builder.subtract(gradient, insert(mean, len(mean.dimensions)))
    return writer.map(call, Operation.MULTIPLY, centred, softmax)


@handles("aten._log_softmax.default")
def _lower_log_softmax(writer: Writer, call: Call, x: View, dimension: int, _half: bool) -> LogSoftmax:
    require_form(call, "the last dimension", dimension in (-1, len(x.dimensions) - 1))
    return _lower_powers(writer, x)


@handles("aten.nll_loss_forward.default", pending=True)
def _lower_nll_loss(
    writer: Writer,
    call: Call,
    x: Value,
    labels: View,
    weights: object,
    reduction: int,
    ignored: int,
) -> tuple[View, None]:
    """Computes log(total) - shifted[label] of each row; then their mean or sum."""
    require_form(call, "no weights of classes", weights is None)
    require_form(call, "no label that is ignored", ignored < 0)
    require_form(call, "log_softmax before nll_loss, as cross_entropy does it", isinstance(x, LogSoftmax))
    builder = writer.builder
    positions = x.shifted.shape[0]
    chosen = _gather_last(writer, call, x.shifted, labels)
    logarithm = builder.map(Operation.LOGARITHM, remove(x.total, 1))
    losses = builder.subtract(logarithm, chosen)
    if reduction == NO_REDUCTION:
        return losses, None
    total = builder.contract(Operation.SUM, (losses,), 1)
    if reduction == SUM:
        return total, None
    return builder.divide(total, builder.add_number(positions)), None


@handles("aten.nll_loss_backward.default", pending=True)
def _lower_nll_loss_backward(
    writer: Writer,
    _call: Call,
    gradient: Value,
    x: LogSoftmax,
    labels: View,
    _weights: object,
    reduction: int,
    *_: object,
) -> LossGradient:
    positions, classes = x.shifted.shape
    if reduction == MEAN and isinstance(gradient, (int, float)):
        scale = writer.view(gradient / positions)
    elif reduction == MEAN:
        scale = writer.builder.divide(writer.view(gradient), writer.view(positions))
    else:
        scale = writer.view(gradient)
    return LossGradient(labels, scale, classes)


@handles("aten._log_softmax_backward_data.default", pending=True)
def _lower_log_softmax_backward(
    writer: Writer, call: Call, gradient: Value, x: Value, dimension: int, *_: object
) -> View:
    """Computes gradient - softmax * sum(gradient). For a gradient at the label alone: softmax * scale, minus
    scale at the label."""
    require_form(call, "log_softmax of the last dimension", isinstance(x, LogSoftmax))
    builder = writer.builder
    if isinstance(gradient, LossGradient):
        scale = gradient.scale
        by_row = insert(scale, len(scale.dimensions)) if scale.dimensions else scale
        weights = builder.divide(by_row, x.total)
        spread = builder.multiply(x.powers, weights)
        return writer.map(call, Operation.SUBTRACT, spread, gradient.place(builder))
    given = expand(writer.view(gradient), call.shape)
    total = builder.contract(Operation.SUM, (given,), 1)
    weights = builder.divide(insert(total, len(total.dimensions)), x.total)
    return writer.map(call, Operation.SUBTRACT, given, builder.multiply(x.powers, weights))


def _gather_last(writer: Writer, call: Call, x: View, index: View) -> View:
    """Returns the element of each row at its index."""
    require_form(call, "an index of tokens or labels", writer.is_index(index))
    last = len(x.dimensions) - 1
    row = remove(narrow(x, last, 0, 1), last)
    return writer.builder.map(Operation.GATHER, index, row, selected=get_only_stride(x, last))


@handles("aten.gather.default")
def _lower_gather(writer: Writer, call: Call, x: View, dimension: int, index: View, *_: object) -> View:
    """Returns one element of each row. The index is [..., 1], of the batch's tokens or labels."""
    last = len(x.dimensions) - 1
    is_one = dimension in (-1, last) and index.shape[-1] == 1
    require_form(call, "one index for each row of the last dimension", is_one)
    return insert(_gather_last(writer, call, x, remove(index, last)), last)


@handles("aten.scatter_add.default")
def _lower_scatter_add(
    writer: Writer, call: Call, zeros: Value, dimension: int, index: View, source: View
) -> LossGradient:
    """Returns the gradient of `gather`."""
    last = len(call.shape) - 1
    is_one = dimension in (-1, last) and index.shape[-1] == 1 and writer.is_constant(zeros, 0.0)
    require_form(call, "one index for each row of zeros", is_one)
    negative = writer.builder.multiply(remove(source, last), -1.0)
    return LossGradient(remove(index, last), negative, call.shape[-1])


@handles("aten.logsumexp.default")
def _lower_logsumexp(
    writer: Writer, call: Call, x: View, dimensions: Sequence[int], keep: bool = False
) -> View:
    last = len(x.dimensions) - 1
    require_form(call, "the last dimension", tuple(dimensions) in ((-1,), (last,)))
    builder = writer.builder
    parts = _lower_powers(writer, x)
    logarithm = builder.map(Operation.LOGARITHM, parts.total)
    largest = insert(builder.reduce_maximum(x), last)
    total = builder.add(logarithm, largest)
    return total if keep else remove(total, last)
