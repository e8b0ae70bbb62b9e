"""Gives the values that an operation may return on conforming hardware, from finite operands.

Rules: docs/spec.md, section 9. Sums are exact, with the bound of any order. One correctly rounded operation
gives one of few values; a choice gives one of the operands; functions are enclosed, with a few units in the
last place.

Everything is integers and rationals: sums are exact integers, the few unary functions are enclosed by integer
series. u is the unit roundoff and gamma_n = n u / (1 - n u), so that 1 + gamma_n = 1 / (1 - n u). Source of
the bounds of sums: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sections 3.1 and 4.2.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

from touchstone.protocol.spec.enclosures import ENCLOSURES, LIMIT, Interval
from touchstone.protocol.spec.float32 import (
    LEAST_NORMAL,
    UNIT,
    is_finite,
    is_subnormal,
    round_to_bits,
    spacing,
    split_even,
    square_root,
    to_fraction,
    to_units,
)
from touchstone.protocol.spec.program_operations import Operation

Terms = Sequence[tuple[int, ...]]
"""The float32 bits that one output element depends on: a tuple for each term; only reductions have several
terms. Indices are resolved already (`read_terms`). Quantized values are signed integers."""


ROUNDOFF = Fraction(1, 1 << 24)
"""u, the relative error of one float32 product or addition."""
UNDERFLOW = Fraction(1, 1 << 124)
"""For each term of a sum: a flushed product and a flushed partial sum, below 2^-126 each, doubled for later
roundings."""
SAFE = Fraction(1 << 127)
"""Intermediate values below this are finite on every machine."""
ULPS = {
    Operation.RECIPROCAL_ROOT: 2, Operation.EXPONENTIAL: 2, Operation.LOGARITHM: 1, Operation.SIGMOID: 6,
}  # fmt: skip
"""How many units in the last place a library's function may err; CUDA's exponential errs by 1.931. SIGMOID
has 5.5: if 1 / (1 + exp(-a)) is computed in three steps, an exponential errs by 2 (twice that in the result)
and two roundings by 1 and 1/2."""


@dataclass(frozen=True, slots=True)
class AllowedValues:
    """The values that an operation may give: each of `targets`, plus or minus `bound`. `reach` is the largest
    magnitude on the way."""

    exact: Fraction | None
    targets: tuple[Interval, ...]
    bound: Fraction
    reach: Fraction


_SUMS = frozenset({Operation.PRODUCT_SUM, Operation.SUM, Operation.SELECTED_SUM})
CHUNKED_REDUCTIONS = _SUMS | {Operation.SCALE_OF, Operation.QUANTIZED_PRODUCT_SUM}
"""Reductions that have at most as many terms as the longest chunk."""


def _add_products(terms: Terms) -> AllowedValues:
    """Allows gamma_n S + n 2^-124, and (1 + gamma_n) |a b| more for each term with a subnormal operand, which
    may be read as zero."""
    products = [to_units(a) * to_units(b) for a, b in terms]  # In units of 2^-298.
    lost = [abs(p) for p, term in zip(products, terms, strict=True) if any(map(is_subnormal, term))]
    exact, size, at_risk = sum(products), sum(map(abs, products)), sum(lost)
    growth = 1 / (1 - len(terms) * ROUNDOFF)
    bound = ((growth - 1) * size + growth * at_risk) * UNIT**2 + len(terms) * UNDERFLOW
    return AllowedValues(exact * UNIT**2, ((exact * UNIT**2,) * 2,), bound, growth * size * UNIT**2)


def _add(terms: Terms) -> AllowedValues:
    """Allows gamma_(n-1) S + n 2^-124. No terms give 0, one term gives itself."""
    if len(terms) < 2:
        return _copy(terms[0][0] if terms else 0)
    units = [to_units(a) for (a,) in terms]
    exact, size = sum(units) * UNIT, sum(map(abs, units)) * UNIT
    growth = 1 / (1 - (len(terms) - 1) * ROUNDOFF)
    return AllowedValues(
        exact, ((exact, exact),), (growth - 1) * size + len(terms) * UNDERFLOW, growth * size
    )


def _round(operation: Operation, a: int, b: int) -> AllowedValues | None:
    """Allows the rounded result of the operands, the same with 0 for subnormal operands, and 0 if the result
    is tiny."""
    if operation is Operation.DIVIDE and (to_units(b) == 0 or is_subnormal(b)):
        return None
    exact, flushed = (_calculate(operation, x, y) for x, y in ((a, b), (_flush(a), _flush(b))))
    allowed = {to_fraction(bits) for bits in map(round_to_bits, (exact, flushed)) if is_finite(bits)}
    if min(abs(exact), abs(flushed)) < LEAST_NORMAL:
        allowed.add(Fraction(0))
    return _allow(exact, allowed)


def _calculate(operation: Operation, a: int, b: int) -> Fraction:
    x, y = to_fraction(a), to_fraction(b)
    if operation is Operation.DIVIDE:
        return x / y
    if operation is Operation.MULTIPLY:
        return x * y
    return x + y if operation is Operation.ADD else x - y


def _take_root(a: int) -> AllowedValues | None:
    if to_units(a) < 0:
        return None
    significand, half = split_even(a)
    exact = isqrt(significand << 200) * Fraction(2) ** (half - 100)
    return _allow(exact, {to_fraction(square_root(a)), to_fraction(square_root(_flush(a)))})


def _flush(bits: int) -> int:
    return 0 if is_subnormal(bits) else bits


def _allow(exact: Fraction, allowed: set[Fraction]) -> AllowedValues:
    return AllowedValues(exact, tuple((value, value) for value in sorted(allowed)), Fraction(0), abs(exact))


def _copy(bits: int) -> AllowedValues:
    value = to_fraction(bits)
    return _allow(value, {value, to_fraction(_flush(bits))})


def _choose_extreme(terms: Terms, pick: Callable[[list[Fraction]], Fraction]) -> AllowedValues:
    """Allows any extreme operand that a machine may choose; if it flushes subnormal numbers to 0, it cannot
    tell them apart."""
    values = [to_fraction(bits) for term in terms for bits in term]
    exact = pick(values)
    tiny = {value for value in values if abs(value) < LEAST_NORMAL} | {Fraction(0)}
    return _allow(exact, {exact, *(tiny if abs(exact) < LEAST_NORMAL else ())})


def _drop_small(a: int, threshold: int) -> AllowedValues:
    value, least = to_fraction(a), to_fraction(threshold)
    exact = value if abs(value) >= least else Fraction(0)
    allowed = {exact, to_fraction(_flush(a)) if exact else exact}
    if is_subnormal(a) and is_subnormal(threshold):  # 0 >= 0 on a machine that flushes both.
        allowed.add(value)
    return _allow(exact, allowed)


def _enclose(operation: Operation, a: int) -> AllowedValues | None:
    """Allows ULPS units in the last place, and 2^-126 if the value is below 2^-125, or always for SIGMOID."""
    needs_sign = operation in (Operation.LOGARITHM, Operation.RECIPROCAL_ROOT)
    if needs_sign and (to_units(a) <= 0 or is_subnormal(a)):
        return None
    if operation is Operation.EXPONENTIAL and to_fraction(a) > LIMIT:
        return AllowedValues(None, (), Fraction(0), SAFE)
    low, high = ENCLOSURES[operation](a)
    largest, smallest = max(abs(low), abs(high)), min(abs(low), abs(high))
    bound = ULPS[operation] * spacing(largest) if largest else Fraction(0)
    if smallest < 2 * LEAST_NORMAL or operation is Operation.SIGMOID:
        bound += LEAST_NORMAL
    return AllowedValues((low + high) / 2, ((low, high),), bound, largest)


def find_allowed(operation: Operation, terms: Terms) -> AllowedValues | None:
    """Returns the allowed results for finite operands; None if the operation is undefined."""
    if operation is Operation.PRODUCT_SUM:
        return _add_products(terms)
    if operation in _SUMS:
        return _add(terms)
    if operation in (Operation.MAXIMUM_OF, Operation.MAXIMUM):
        return _choose_extreme(terms, max)
    if operation is Operation.MINIMUM:
        return _choose_extreme(terms, min)
    a, *others = terms[0]
    if operation in ENCLOSURES:
        return _enclose(operation, a)
    if operation is Operation.SQUARE_ROOT:
        return _take_root(a)
    if operation is Operation.FLUSH:
        return _drop_small(a, others[0])
    return _round(operation, a, others[0]) if others else _copy(a)
