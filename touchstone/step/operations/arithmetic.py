"""Lowers arithmetic, element by element."""

from touchstone.protocol.spec.program_operations import Operation
from touchstone.step.pending import Pieces, Product
from touchstone.step.recordings import Call
from touchstone.step.views import View, expand
from touchstone.step.writer import SUMS, Value, Writer, handles, require_form

MOST_EXPONENT = 16


@handles("aten.add.Tensor", "aten.add.Scalar", pending=True)
def _lower_add(writer: Writer, call: Call, a: Value, b: Value, alpha: float = 1) -> Value:
    if isinstance(a, Pieces) and isinstance(b, Pieces) and alpha == 1:
        joined = a.join(b)
        if joined is not None and joined.is_whole and writer.place_of(call) is not None:
            return writer.gather_pieces(
                call, joined.dimension, [(view, start) for start, view in joined.parts]
            )
        if joined is not None:
            return joined
    return writer.map(call, Operation.ADD, a, scale(writer, b, alpha))


def scale(writer: Writer, x: Value, alpha: float) -> Value:
    """Computes x * alpha."""
    return x if alpha == 1 else writer.builder.multiply(writer.view(x), writer.view(alpha))


@handles("aten.sub.Tensor", "aten.sub.Scalar")
def _lower_sub(writer: Writer, call: Call, a: Value, b: Value, alpha: float = 1) -> View:
    return writer.map(call, Operation.SUBTRACT, a, scale(writer, b, alpha))


@handles("aten.rsub.Scalar", "aten.rsub.Tensor")
def _lower_rsub(writer: Writer, call: Call, a: Value, b: Value, alpha: float = 1) -> View:
    return writer.map(call, Operation.SUBTRACT, b, scale(writer, a, alpha))


@handles("aten.mul.Tensor", "aten.mul.Scalar")
def _lower_mul(writer: Writer, call: Call, a: Value, b: Value) -> Value:
    if b == 1.0 and writer.place_of(call) is None:
        return a
    if isinstance(a, View) and isinstance(b, View) and all(u.name in SUMS for u in call.users):
        return Product(*(expand(view, call.shape) for view in (a, b)))
    return writer.map(call, Operation.MULTIPLY, a, b)


@handles("aten.div.Tensor", "aten.div.Scalar")
def _lower_div(writer: Writer, call: Call, a: Value, b: Value) -> View:
    return writer.map(call, Operation.DIVIDE, a, b)


@handles("aten.neg.default")
def _lower_neg(writer: Writer, call: Call, a: Value) -> View:
    return writer.map(call, Operation.MULTIPLY, a, -1.0)


@handles("aten.reciprocal.default")
def _lower_reciprocal(writer: Writer, call: Call, a: Value) -> View:
    return writer.map(call, Operation.DIVIDE, 1.0, a)


@handles("aten.pow.Tensor_Scalar")
def _lower_pow(writer: Writer, call: Call, a: View, exponent: float) -> View:
    whole, is_rooted = divmod(abs(exponent), 1)
    require_form(
        call, f"an exponent of a half or a whole number up to {MOST_EXPONENT}", is_rooted in (0, 0.5)
    )
    require_form(call, f"an exponent of at most {MOST_EXPONENT}", abs(exponent) <= MOST_EXPONENT)
    if exponent == 1:
        return a
    if exponent == -0.5:
        return writer.map(call, Operation.RECIPROCAL_ROOT, a)
    # Square from the highest bit on: 2 is a * a, 3 is (a * a) * a.
    power: View | None = None
    for bit in bin(int(whole))[2:]:
        if power is not None:
            power = writer.builder.multiply(power, power)
        if bit == "1":
            power = a if power is None else writer.builder.multiply(power, a)
    if is_rooted:
        root = writer.builder.map(Operation.SQUARE_ROOT, a)
        power = root if power is None else writer.builder.multiply(power, root)
    if power is None:
        return expand(writer.view(1.0), a.shape)
    return power if exponent > 0 else writer.map(call, Operation.DIVIDE, 1.0, power)


@handles("aten.rsqrt.default")
def _lower_rsqrt(writer: Writer, call: Call, a: Value) -> View:
    return writer.map(call, Operation.RECIPROCAL_ROOT, a)


@handles("aten.sqrt.default")
def _lower_sqrt(writer: Writer, call: Call, a: Value) -> View:
    return writer.map(call, Operation.SQUARE_ROOT, a)


@handles("aten.exp.default")
def _lower_exp(writer: Writer, call: Call, a: Value) -> View:
    return writer.map(call, Operation.EXPONENTIAL, a)


@handles("aten.log.default")
def _lower_log(writer: Writer, call: Call, a: Value) -> View:
    return writer.map(call, Operation.LOGARITHM, a)
