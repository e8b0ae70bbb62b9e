"""Lowers activations, forward and backward, into operations of the program."""

from touchstone.protocol.spec.program_operations import Operation
from touchstone.step.operations.losses import LEAST_EXPONENT
from touchstone.step.recordings import Call
from touchstone.step.signs import find_positive, write_absolute
from touchstone.step.views import View
from touchstone.step.writer import Value, Writer, handles, require_form


@handles("aten.silu.default")
def _lower_silu(writer: Writer, call: Call, x: View) -> View:
    gate = writer.builder.map(Operation.SIGMOID, x)
    return writer.map(call, Operation.MULTIPLY, x, gate)


@handles("aten.silu_backward.default")
def _lower_silu_backward(writer: Writer, call: Call, gradient: View, x: View) -> View:
    """Computes d(x s)/dx = s + x s (1 - s) with s = sigmoid(x)."""
    builder = writer.builder
    gate = builder.map(Operation.SIGMOID, x)
    value = builder.multiply(x, gate)
    rest = builder.subtract(1.0, gate)
    slope = builder.add(gate, builder.multiply(value, rest))
    return writer.map(call, Operation.MULTIPLY, gradient, slope)


@handles("aten.sigmoid.default")
def _lower_sigmoid(writer: Writer, call: Call, x: Value) -> View:
    return writer.map(call, Operation.SIGMOID, x)


@handles("aten.sigmoid_backward.default")
def _lower_sigmoid_backward(writer: Writer, call: Call, gradient: Value, gate: View) -> View:
    """Computes gradient s (1 - s), where s is the sigmoid."""
    builder = writer.builder
    rest = builder.subtract(1.0, gate)
    slope = builder.multiply(gate, rest)
    return writer.map(call, Operation.MULTIPLY, gradient, slope)


@handles("aten.relu.default")
def _lower_relu(writer: Writer, call: Call, x: View) -> View:
    return writer.map(call, Operation.MAXIMUM, x, 0.0)


@handles("aten.threshold_backward.default")
def _lower_threshold_backward(writer: Writer, call: Call, gradient: View, x: View, threshold: float) -> View:
    """Returns the gradient for elements above the threshold, else 0."""
    builder = writer.builder
    above = x if threshold == 0 else builder.subtract(x, threshold)
    return writer.map(call, Operation.MULTIPLY, gradient, find_positive(builder, above))


@handles("aten.leaky_relu.default")
def _lower_leaky_relu(writer: Writer, call: Call, x: View, slope: float = 0.01) -> View:
    """Computes max(x, slope x)."""
    require_form(call, "a slope below 1", slope < 1)
    return writer.map(call, Operation.MAXIMUM, x, writer.builder.multiply(x, slope))


@handles("aten.leaky_relu_backward.default")
def _lower_leaky_relu_backward(
    writer: Writer, call: Call, gradient: View, x: View, slope: float, _is_result: bool
) -> View:
    """Computes gradient (slope + (1 - slope) [x > 0])."""
    builder = writer.builder
    rise = builder.multiply(find_positive(builder, x), 1.0 - slope)
    return writer.map(call, Operation.MULTIPLY, gradient, builder.add(rise, slope))


@handles("aten.tanh.default")
def _lower_tanh(writer: Writer, call: Call, x: View) -> View:
    return write_tanh(writer, x, call)


def write_tanh(writer: Writer, x: View, call: Call | None = None) -> View:
    """Computes 2 sigmoid(2 x) - 1."""
    builder, two = writer.builder, writer.view(2.0)
    gate = builder.map(Operation.SIGMOID, builder.multiply(x, two))
    doubled = builder.multiply(gate, two)
    place = None if call is None else writer.place_of(call)
    return builder.map(Operation.SUBTRACT, doubled, 1.0, out=place)


@handles("aten.tanh_backward.default")
def _lower_tanh_backward(writer: Writer, call: Call, gradient: View, result: View) -> View:
    """Computes gradient (1 - result^2)."""
    return writer.map(call, Operation.MULTIPLY, gradient, _complement_of_square(writer, result))


def _complement_of_square(writer: Writer, x: View) -> View:
    square = writer.builder.multiply(x, x)
    return writer.builder.subtract(1.0, square)


@handles("aten.softplus.default")
def _lower_softplus(writer: Writer, call: Call, x: View, beta: float = 1, threshold: float = 20) -> View:
    """Computes max(x, 0) + log(1 + exp(-|x|)), which does not overflow."""
    require_form(call, "a beta of 1, and no threshold below 20", beta == 1 and threshold >= 20)
    builder = writer.builder
    size = builder.multiply(write_absolute(builder, x), -1.0)
    power = builder.map(Operation.EXPONENTIAL, builder.maximum(size, LEAST_EXPONENT))
    rest = builder.map(Operation.LOGARITHM, builder.add(power, 1.0))
    return writer.map(call, Operation.ADD, builder.maximum(x, 0.0), rest)


@handles("aten.softplus_backward.default")
def _lower_softplus_backward(writer: Writer, call: Call, gradient: View, x: View, *_: float) -> View:
    return writer.map(call, Operation.MULTIPLY, gradient, writer.builder.map(Operation.SIGMOID, x))
