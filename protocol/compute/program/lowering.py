"""From PyTorch's operations to the program's: one function for each aten operation of the record.

The record is that of `reference_step.plain_step` (`writer.py`). Views cost nothing (`layout.py`). Plain
operations are in `operations.py`. Composite operations are here, forward and backward: softmax, loss,
embedding and gate. Each is spelled out in operations of the program: a softmax is maximum, subtract, maximum
with -50, exponential, sum, divide.

Some patterns across operations are recognised, so that nothing is computed that no node reads. A product that
is only summed becomes a product sum (`operations.py`). The nodes that compute the pieces of a concatenation
write them in place (`writer.py`).
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from protocol.compute.program.builder import Builder
from protocol.compute.program.layout import View, expand, insert, narrow, permute, remove, reshape
from protocol.compute.program.operations import OPERATIONS
from protocol.compute.program.writer import (
    Call,
    Handler,
    LogSoftmax,
    LossGradient,
    Record,
    Value,
    Writer,
    get_only_stride,
    require_form,
)
from protocol.spec.errors import InvalidInput
from protocol.spec.program import Operation

LEAST_EXPONENT = -50.0
"""Softmax takes exp(max(x, -50)): what is smaller vanishes beside the 1 of the largest (2^-24 > e^-50), and
exponentials that underflow cost up to a hundred times as much."""
MEAN = 1
"""PyTorch's number of a loss that is averaged."""
COMPOSITES: dict[str, Handler] = {}


def _handles(*names: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        """Enter the handler under its names."""
        COMPOSITES.update(dict.fromkeys(names, handler))
        return handler

    return register


def _lower_powers(writer: Writer, x: View) -> LogSoftmax:
    """The parts of a softmax over the last dimension."""
    builder = writer.builder
    largest = insert(builder.reduce_maximum(x), len(x.dimensions) - 1)
    shifted = builder.map(Operation.SUBTRACT, x, largest)
    clamped = builder.map(Operation.MAXIMUM, shifted, builder.add_number(LEAST_EXPONENT))
    powers = builder.map(Operation.EXPONENTIAL, clamped)
    total = insert(builder.contract(Operation.SUM, (powers,), 1), len(x.dimensions) - 1)
    return LogSoftmax(shifted, powers, total)


@_handles("aten._softmax.default")
def _lower_softmax(writer: Writer, call: Call, x: View, dimension: int, _half: bool) -> View:
    require_form(call, "the last dimension", dimension in (-1, len(x.dimensions) - 1))
    parts = _lower_powers(writer, x)
    return writer.map(call, Operation.DIVIDE, parts.powers, parts.total)


@_handles("aten._softmax_backward_data.default")
def _lower_softmax_backward(
    writer: Writer, call: Call, gradient: View, softmax: View, dimension: int, _dtype: object
) -> View:
    """(gradient - sum(gradient * softmax)) * softmax."""
    require_form(call, "the last dimension", dimension in (-1, len(softmax.dimensions) - 1))
    mean = writer.builder.contract(Operation.PRODUCT_SUM, (gradient, softmax), 1)
    centred = writer.builder.map(Operation.SUBTRACT, gradient, insert(mean, len(mean.dimensions)))
    return writer.map(call, Operation.MULTIPLY, centred, softmax)


@_handles("aten._log_softmax.default")
def _lower_log_softmax(writer: Writer, call: Call, x: View, dimension: int, _half: bool) -> LogSoftmax:
    require_form(call, "the last dimension", dimension in (-1, len(x.dimensions) - 1))
    return _lower_powers(writer, x)


@_handles("aten.nll_loss_forward.default")
def _lower_nll_loss(
    writer: Writer,
    call: Call,
    x: LogSoftmax,
    labels: View,
    weights: object,
    reduction: int,
    _ignored: int,
) -> tuple[View, None]:
    """The mean of log(total) - shifted[label]."""
    require_form(call, "a plain mean", weights is None and reduction == MEAN)
    builder = writer.builder
    positions = x.shifted.shape[0]
    row = remove(narrow(x.shifted, 1, 0, 1), 1)
    chosen = builder.map(Operation.GATHER, labels, row, selected=get_only_stride(x.shifted, 1))
    logarithm = builder.map(Operation.LOGARITHM, remove(x.total, 1))
    losses = builder.map(Operation.SUBTRACT, logarithm, chosen)
    total = builder.contract(Operation.SUM, (losses,), 1)
    return builder.map(Operation.DIVIDE, total, builder.add_number(positions)), None


@_handles("aten.nll_loss_backward.default")
def _lower_nll_loss_backward(
    _writer: Writer, _call: Call, gradient: float, x: LogSoftmax, labels: View, *_: object
) -> LossGradient:
    return LossGradient(labels, gradient / x.shifted.shape[0])


@_handles("aten._log_softmax_backward_data.default")
def _lower_log_softmax_backward(
    writer: Writer, call: Call, gradient: LossGradient, x: LogSoftmax, *_: object
) -> View:
    """softmax * scale, less scale at the label."""
    builder = writer.builder
    scale = builder.add_number(gradient.scale)
    weights = builder.map(Operation.DIVIDE, scale, x.total)
    spread = builder.map(Operation.MULTIPLY, x.powers, weights)
    shape = x.shifted.shape
    at_label = builder.map(
        Operation.EQUAL_SELECT,
        expand(insert(gradient.labels, 1), shape),
        scale,
        builder.add_number(0.0),
        selected=1,
    )
    return writer.map(call, Operation.SUBTRACT, spread, at_label)


@_handles("aten.embedding.default")
def _lower_embedding(writer: Writer, _call: Call, table: View, tokens: View, *_: object) -> View:
    stride = get_only_stride(table, 0)
    row = remove(narrow(table, 0, 0, 1), 0)
    index = insert(tokens, len(tokens.dimensions))
    return writer.builder.map(Operation.GATHER, index, row, selected=stride)


@_handles("aten.embedding_dense_backward.default")
def _lower_embedding_backward(
    writer: Writer, call: Call, gradient: View, tokens: View, rows: int, padding: int, is_scaled: bool
) -> View:
    """Each row is the sum of the gradients at the positions that read it: [rows, D] over positions."""
    require_form(call, "neither padding nor frequencies", padding == -1 and not is_scaled)
    flat = reshape(gradient, (prod(gradient.shape[:-1]), gradient.shape[-1]))
    positions, width = flat.shape
    shape = (rows, width, positions)
    index = expand(reshape(tokens, (positions,)), shape)
    values = expand(permute(flat, (1, 0)), shape)
    place = writer.place_of(call)
    return writer.builder.contract(Operation.SELECTED_SUM, (index, values), 1, place, selected=0)


@_handles("aten.silu.default")
def _lower_silu(writer: Writer, call: Call, x: View) -> View:
    gate = writer.builder.map(Operation.SIGMOID, x)
    return writer.map(call, Operation.MULTIPLY, x, gate)


@_handles("aten.silu_backward.default")
def _lower_silu_backward(writer: Writer, call: Call, gradient: View, x: View) -> View:
    """d(x s)/dx = s + x s (1 - s) with s = sigmoid(x)."""
    builder = writer.builder
    gate = builder.map(Operation.SIGMOID, x)
    value = builder.map(Operation.MULTIPLY, x, gate)
    rest = builder.map(Operation.SUBTRACT, builder.add_number(1.0), gate)
    slope = builder.map(Operation.ADD, gate, builder.map(Operation.MULTIPLY, value, rest))
    return writer.map(call, Operation.MULTIPLY, gradient, slope)


@_handles("aten.sigmoid.default")
def _lower_sigmoid(writer: Writer, call: Call, x: Value) -> View:
    return writer.map(call, Operation.SIGMOID, x)


@_handles("aten.sigmoid_backward.default")
def _lower_sigmoid_backward(writer: Writer, call: Call, gradient: Value, gate: View) -> View:
    """gradient s (1 - s), s the sigmoid."""
    builder = writer.builder
    rest = builder.map(Operation.SUBTRACT, builder.add_number(1.0), gate)
    slope = builder.map(Operation.MULTIPLY, gate, rest)
    return writer.map(call, Operation.MULTIPLY, gradient, slope)


HANDLERS: dict[str, Handler] = {**OPERATIONS, **COMPOSITES}
"""By the operation's name."""


class Lowering(Writer):
    """Walks a record once and writes a program into `builder`."""

    def __init__(self, builder: Builder) -> None:
        super().__init__(builder)
        self._values: dict[Call, Value] = {}

    def run(self, record: Record, inputs: Sequence[View]) -> tuple[View, ...]:
        """Lower `record`; `inputs` are the views of its inputs. Returns the views of its outputs. Raises
        InvalidInput on an operation that the vocabulary does not have."""
        self._values.update(zip(record.inputs, inputs, strict=True))
        self.plan(record.calls)
        for call in record.calls:
            self._values[call] = self._lower(call)
        return tuple(self.view(self._values[call]) for call in record.outputs)

    def _lower(self, call: Call) -> Value:
        handler = HANDLERS.get(call.name)
        if handler is None:
            raise InvalidInput(
                what="the step uses an operation that programs do not have",
                expected="one of " + ", ".join(sorted(HANDLERS)),
                actual=call.name,
                remedy="Write the model with the operations listed, or add a lowering.",
            )
        return handler(self, call, *map(self._resolve, call.args))

    def _resolve(self, argument: Any) -> Value:
        if isinstance(argument, Call):
            return self._values[argument]
        if isinstance(argument, tuple):
            return tuple(map(self._resolve, argument))
        return argument
