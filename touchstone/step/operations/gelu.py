"""Lowers gelu, by the normal distribution and by tanh, and erf."""

from touchstone.protocol.spec.program_operations import Operation
from touchstone.step.operations.activations import write_tanh
from touchstone.step.operations.losses import LEAST_EXPONENT
from touchstone.step.recordings import Call
from touchstone.step.signs import find_sign, write_absolute
from touchstone.step.views import View
from touchstone.step.writer import Writer, handles

TANH_RATE, CUBE = 0.7978845608028654, 0.044715
"""sqrt(2 / pi), and the factor of the cube of x (Hendrycks and Gimpel, arXiv 1606.08415)."""
ERF_RATE = 0.3275911
ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
"""erf(x) = 1 - (sum of ERF, from the fifth power down, of t = 1 / (1 + ERF_RATE x)) exp(-x^2) for x >= 0,
within 1.5e-7 (Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26)."""
ROOT_HALF, DENSITY = 0.7071067811865476, 0.3989422804014327
"""1 / sqrt(2), and 1 / sqrt(2 pi)."""


@handles("aten.gelu.default")
def _lower_gelu(writer: Writer, call: Call, x: View, approximate: str = "none") -> View:
    """Computes x Phi(x), where Phi is the normal distribution, or its approximation by tanh."""
    if approximate == "none":
        return writer.map(call, Operation.MULTIPLY, x, _distribution(writer, x))
    factor, _ = _tanh_gate(writer, x)
    return writer.map(call, Operation.MULTIPLY, x, factor)


@handles("aten.gelu_backward.default")
def _lower_gelu_backward(
    writer: Writer, call: Call, gradient: View, x: View, approximate: str = "none"
) -> View:
    """Computes gradient (Phi(x) + x phi(x)); with tanh, gradient (gate + x (1 - tanh^2) / 2 * the slope
    inside)."""
    builder = writer.builder
    if approximate == "none":
        square = builder.multiply(x, x)
        half = builder.multiply(square, -0.5)
        power = builder.map(Operation.EXPONENTIAL, builder.maximum(half, LEAST_EXPONENT))
        density = builder.multiply(power, DENSITY)
        slope = builder.add(_distribution(writer, x), builder.multiply(x, density))
        return writer.map(call, Operation.MULTIPLY, gradient, slope)
    factor, bent = _tanh_gate(writer, x)
    square = builder.multiply(x, x)
    inner = builder.add(builder.multiply(square, 3 * CUBE * TANH_RATE), TANH_RATE)
    rise = builder.multiply(builder.subtract(1.0, builder.multiply(bent, bent)), inner)
    moved = builder.multiply(builder.multiply(x, 0.5), rise)
    return writer.map(call, Operation.MULTIPLY, gradient, builder.add(factor, moved))


def _tanh_gate(writer: Writer, x: View) -> tuple[View, View]:
    """Computes (1 + t) / 2 and t = tanh(TANH_RATE (x + CUBE x^3))."""
    builder = writer.builder
    cube = builder.multiply(builder.multiply(x, x), x)
    inner = builder.add(x, builder.multiply(cube, CUBE))
    bent = write_tanh(writer, builder.multiply(inner, TANH_RATE))
    gate = builder.multiply(builder.add(bent, 1.0), 0.5)
    return gate, bent


def _distribution(writer: Writer, x: View) -> View:
    """Computes Phi(x) = (1 + erf(x / sqrt 2)) / 2."""
    one = writer.view(1.0)
    erf = _erf(writer, writer.builder.multiply(x, ROOT_HALF))
    return writer.builder.multiply(writer.builder.add(erf, one), 0.5)


@handles("aten.erf.default")
def _lower_erf(writer: Writer, _call: Call, x: View) -> View:
    return _erf(writer, x)


def _erf(writer: Writer, x: View) -> View:
    builder, one = writer.builder, writer.view(1.0)
    size = write_absolute(builder, x)
    spread = builder.add(builder.multiply(size, ERF_RATE), one)
    t = builder.divide(one, spread)
    series = writer.view(ERF[0])
    for coefficient in ERF[1:]:
        series = builder.add(builder.multiply(series, t), coefficient)
    series = builder.multiply(series, t)
    square = builder.multiply(builder.multiply(x, x), -1.0)
    power = builder.map(Operation.EXPONENTIAL, builder.maximum(square, LEAST_EXPONENT))
    above = builder.subtract(one, builder.multiply(series, power))
    return builder.multiply(above, find_sign(builder, x))
