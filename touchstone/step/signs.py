"""Computes signs and conditions as numbers, because programs have no comparison.

FLUSH keeps what is not close to zero, and x / |x| of that is the sign.
"""

from touchstone.protocol.spec.program_operations import Operation
from touchstone.step.builder import Builder
from touchstone.step.views import View

LEAST_DIFFERENCE = 2.0**-100
"""A number closer to zero counts as neither positive nor negative."""


def write_absolute(builder: Builder, x: View) -> View:
    """Computes |x| as the larger of x and -x."""
    return builder.maximum(x, builder.multiply(x, -1.0))


def find_positive(builder: Builder, x: View) -> View:
    """Computes 1 if x > 0, else 0."""
    least = builder.add_number(LEAST_DIFFERENCE)
    above = builder.map(Operation.FLUSH, builder.maximum(x, 0.0), least)
    return builder.divide(above, builder.maximum(above, least))


def find_sign(builder: Builder, x: View) -> View:
    """Computes 1, 0 or -1."""
    least = builder.add_number(LEAST_DIFFERENCE)
    kept = builder.map(Operation.FLUSH, x, least)
    return builder.divide(kept, builder.maximum(write_absolute(builder, kept), least))


def negate(builder: Builder, condition: View) -> View:
    """Computes 1 if the condition is 0, and 0 if it is 1."""
    return builder.subtract(1.0, condition)
