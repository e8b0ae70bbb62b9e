"""Lowers comparisons and what they select.

Programs have two selections: FLUSH (|x| is below a limit) and FINITE_SELECT. Any other condition is written
as 1 or 0 and multiplied, which is the same for finite numbers.
"""

from math import inf

import torch

from touchstone.protocol.spec.program_operations import Operation
from touchstone.step.pending import Absolute, Below, Condition
from touchstone.step.recordings import Call
from touchstone.step.signs import find_positive, find_sign, negate
from touchstone.step.views import View, expand
from touchstone.step.writer import Value, Writer, handles, require_form


@handles("aten.clamp.default", "aten.clamp_min.default", "aten.clamp_max.default")
def _lower_clamp(
    writer: Writer, call: Call, a: Value, low: float | None = None, high: float | None = None
) -> Value:
    if call.name == "aten.clamp_max.default":
        low, high = None, low
    if low is None:
        return writer.map(call, Operation.MINIMUM, a, high)
    if high is None:
        return writer.map(call, Operation.MAXIMUM, a, low)
    raised = writer.builder.maximum(a, low)
    return writer.map(call, Operation.MINIMUM, raised, high)


@handles("aten.maximum.default")
def _lower_maximum(writer: Writer, call: Call, a: Value, b: Value) -> View:
    return writer.map(call, Operation.MAXIMUM, a, b)


@handles("aten.minimum.default")
def _lower_minimum(writer: Writer, call: Call, a: Value, b: Value) -> View:
    return writer.map(call, Operation.MINIMUM, a, b)


@handles("aten.abs.default")
def _lower_abs(_writer: Writer, _call: Call, a: View) -> Absolute:
    return Absolute(a)


@handles("aten.sign.default", "aten.sgn.default")
def _lower_sign(writer: Writer, _call: Call, a: View) -> View:
    return find_sign(writer.builder, a)


@handles("aten.lt.Scalar", "aten.lt.Tensor", pending=True)
def _lower_lt(writer: Writer, call: Call, a: Value, b: Value) -> Below | Condition:
    if isinstance(b, (int, float)) and (isinstance(a, Absolute) or b == inf):
        return Below(a.of if isinstance(a, Absolute) else writer.view(a), b)
    return Condition(_compare(writer, call, b, a))


@handles("aten.gt.Scalar", "aten.gt.Tensor")
def _lower_gt(writer: Writer, call: Call, a: Value, b: Value) -> Condition:
    return Condition(_compare(writer, call, a, b))


@handles("aten.ge.Scalar", "aten.ge.Tensor")
def _lower_ge(writer: Writer, call: Call, a: Value, b: Value) -> Condition:
    return Condition(negate(writer.builder, _compare(writer, call, b, a)))


@handles("aten.eq.Scalar", "aten.eq.Tensor")
def _lower_eq(writer: Writer, call: Call, a: Value, b: Value) -> Condition:
    if isinstance(a, View) and writer.is_index(a) and isinstance(b, int) and b < 0:
        # Tokens and labels are never negative; cross_entropy checks for negative ones, which it ignores.
        return Condition(expand(writer.view(0.0), call.shape))
    differs = writer.builder.add(_compare(writer, call, a, b), _compare(writer, call, b, a))
    return Condition(negate(writer.builder, differs))


@handles("aten.ne.Scalar", "aten.ne.Tensor")
def _lower_ne(writer: Writer, call: Call, a: Value, b: Value) -> Condition:
    return Condition(writer.builder.add(_compare(writer, call, a, b), _compare(writer, call, b, a)))


@handles("aten.le.Scalar", "aten.le.Tensor")
def _lower_le(writer: Writer, call: Call, a: Value, b: Value) -> Condition:
    return Condition(negate(writer.builder, _compare(writer, call, a, b)))


def _compare(writer: Writer, call: Call, larger: Value, smaller: Value) -> View:
    """Computes 1 if the first is larger, else 0."""
    arguments = [argument for argument in call.args if isinstance(argument, Call)]
    is_real = all(argument.dtype in (torch.float32, torch.float64) for argument in arguments)
    require_form(call, "comparisons of float32, not of tokens or labels", is_real)
    difference = writer.builder.subtract(writer.view(larger), writer.view(smaller))
    return find_positive(writer.builder, difference)


@handles("aten.logical_not.default", "aten.bitwise_not.default")
def _lower_not(writer: Writer, call: Call, a: View) -> Condition:
    _require_conditions(call)
    return Condition(negate(writer.builder, a))


@handles("aten.logical_and.default", "aten.bitwise_and.Tensor")
def _lower_and(writer: Writer, call: Call, a: View, b: View) -> Condition:
    _require_conditions(call)
    return Condition(writer.builder.multiply(a, b))


@handles("aten.logical_or.default", "aten.bitwise_or.Tensor")
def _lower_or(writer: Writer, call: Call, a: View, b: View) -> Condition:
    _require_conditions(call)
    return Condition(writer.builder.maximum(a, b))


def _require_conditions(call: Call) -> None:
    arguments = [argument for argument in call.args if isinstance(argument, Call)]
    require_form(call, "conditions", all(argument.dtype is torch.bool for argument in arguments))


@handles("aten.where.self", pending=True)
def _lower_where(writer: Writer, call: Call, condition: Value, yes: Value, no: Value) -> View:
    if isinstance(condition, Below) and condition.limit == inf:
        return writer.map(call, Operation.FINITE_SELECT, condition.of, yes, no)
    if isinstance(condition, Below) and yes == 0.0 and no == condition.of:
        return writer.map(call, Operation.FLUSH, no, condition.limit)
    return _select(writer, call, writer.view(condition), yes, no)


@handles("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def _lower_masked_fill(writer: Writer, call: Call, x: Value, condition: View, value: Value) -> View:
    return _select(writer, call, condition, value, x)


def _select(writer: Writer, call: Call, condition: View, yes: Value, no: Value) -> View:
    """Computes yes * condition + no * (1 - condition), without terms that are zero."""
    builder, terms = writer.builder, []
    for factor, value in ((condition, yes), (None, no)):
        if not writer.is_constant(value, 0.0):
            weight = factor or negate(builder, condition)
            terms.append((expand(writer.view(value), call.shape), weight))
    if not terms:
        return expand(writer.view(0.0), call.shape)
    if len(terms) == 1:
        return writer.map(call, Operation.MULTIPLY, *terms[0])
    return writer.map(call, Operation.ADD, *(builder.map(Operation.MULTIPLY, *term) for term in terms))


@handles("aten.tril.default", "aten.triu.default")
def _lower_triangle(writer: Writer, call: Call, x: View, diagonal: int = 0) -> View:
    rows, columns = call.shape[-2:]
    cut = torch.tril if call.name == "aten.tril.default" else torch.triu
    kept = writer.builder.add_constant(cut(torch.ones(rows, columns), diagonal))
    return writer.map(call, Operation.MULTIPLY, x, kept)
