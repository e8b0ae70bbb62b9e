"""Functions: enclosures hold the exact value; the referee allows some ulp around it and no more."""

from collections.abc import Callable, Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.protocol.spec.patterns import (
    EDGES,
    FUNCTIONS,
    INFINITY,
    LARGEST,
    NEGATIVE,
    NORMAL,
    NOT_A_NUMBER,
    TINY,
    as_terms,
    flush,
    is_fault,
    to_bits,
    to_numpy,
)
from touchstone.protocol.spec import enclosures, float32
from touchstone.protocol.spec.float32 import LEAST_NORMAL, to_fraction
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.referee import judge_operation


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def apply(operation: Operation, x: float) -> Decimal:
    """The function to 60 digits."""
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = 60, -(10**9), 10**9
        value = Decimal(x)
        if operation is Operation.EXPONENTIAL:
            return value.exp()
        if operation is Operation.LOGARITHM:
            return value.ln()
        if operation is Operation.SIGMOID:
            return 1 / (1 + (-value).exp())
        return 1 / value.sqrt()


def read(bits: int) -> float:
    return float(to_numpy(bits))


POSITIVE_NORMAL = st.integers(NORMAL, LARGEST)
DOMAIN = {
    Operation.EXPONENTIAL: st.floats(-127, 127, width=32).map(to_bits),
    Operation.SIGMOID: st.floats(-127, 127, width=32).map(to_bits),
    Operation.LOGARITHM: st.one_of(POSITIVE_NORMAL, st.integers(0x3F7FFF00, 0x3F8000FF)),
    Operation.RECIPROCAL_ROOT: POSITIVE_NORMAL,
}
HARD = {
    Operation.EXPONENTIAL: [0.0, 1.0, -1.0, 2.0**-149, 88.72, 88.73, -87, -87.34, -103.5, -104.5, 127.5],
    Operation.SIGMOID: [0.0, 20.0, -20.0, 88.0, -88.7, -100.0, -103.9, 127.0, 2.0**-140],
    Operation.LOGARITHM: [1.0, 1 - 2.0**-24, 1 + 2.0**-23, 0.75, 1.5, 2.0**-126, 2.0**127, 3.4e38],
    Operation.RECIPROCAL_ROOT: [1.0, 2.0, 4.0, 1 - 2.0**-24, 2.0**-126, float(2**128 - 2**104)],
}  # fmt: skip
SIGNED = (Operation.EXPONENTIAL, Operation.SIGMOID)
TORCH: dict[Operation, Callable[[Any], Any]] = {
    Operation.EXPONENTIAL: torch.exp, Operation.SIGMOID: torch.sigmoid,
    Operation.LOGARITHM: torch.log, Operation.RECIPROCAL_ROOT: torch.rsqrt,
}  # fmt: skip
ENCLOSE = {
    Operation.EXPONENTIAL: enclosures.enclose_exponential, Operation.SIGMOID: enclosures.enclose_sigmoid,
    Operation.LOGARITHM: enclosures.enclose_logarithm,
    Operation.RECIPROCAL_ROOT: enclosures.enclose_reciprocal_root,
}  # fmt: skip


def check_enclosure(operation: Operation, bits: int) -> None:
    low, high = ENCLOSE[operation](bits)
    exact = Fraction(apply(operation, read(bits)))
    digits = Fraction(1, 10**55) * abs(exact)  # Decimal's own error
    assert low <= exact + digits and exact - digits <= high
    assert high - low <= abs(exact) / (1 << 60)


@pytest.mark.parametrize("operation", FUNCTIONS)
@given(st.data())
def test_enclosures_hold_the_exact_value_tightly(operation: Operation, data: st.DataObject) -> None:
    check_enclosure(operation, data.draw(DOMAIN[operation]))


@pytest.mark.parametrize(("operation", "x"), [(f, x) for f in FUNCTIONS for x in HARD[f]])
def test_enclosures_hold_at_hard_places(operation: Operation, x: float) -> None:
    check_enclosure(operation, to_bits(x))


def test_enclosures_far_out() -> None:
    lowest, zero = LARGEST | NEGATIVE, Fraction(0)
    assert enclosures.enclose_exponential(lowest) == (zero, Fraction(1, 1 << 184))
    assert enclosures.enclose_sigmoid(lowest)[0] == 0
    low, high = enclosures.enclose_sigmoid(LARGEST)
    assert 1 - Fraction(1, 1 << 180) < low < high == 1
    assert Fraction(Decimal(-128).exp()) < Fraction(1, 1 << 184)


ALLOWED = {
    Operation.EXPONENTIAL: 2, Operation.LOGARITHM: 1, Operation.RECIPROCAL_ROOT: 2, Operation.SIGMOID: 6,
}  # fmt: skip


def allow(operation: Operation, exact: Fraction) -> Fraction:
    """The bound of a function, from the definition."""
    exponent = max(exact.numerator.bit_length() - exact.denominator.bit_length() - 25, -149)
    while Fraction(2) ** (exponent + 24) <= abs(exact):
        exponent += 1
    bound = ALLOWED[operation] * Fraction(2) ** exponent if exact else Fraction(0)
    is_small = operation is Operation.SIGMOID or abs(exact) < 2 * LEAST_NORMAL
    return bound + (LEAST_NORMAL if is_small else 0)


def check_function(operation: Operation, bits: int) -> None:
    """Within the bound is honest, beyond it a fault, on both sides; between the two stands only what 20
    digits of the exact value do not decide."""
    exact = Fraction(apply(operation, read(bits)))
    doubt = abs(exact) / (1 << 70)
    least = allow(operation, exact)
    most = allow(operation, exact + doubt * (1 if exact > 0 else -1)) + doubt
    for edge in (exact + least, exact - least, exact + most, exact - most):
        nearest = float32.round_to_bits(edge)
        for claimed in (nearest - 1, nearest, nearest + 1):
            if 0 <= claimed < 1 << 32 and float32.is_finite(claimed):
                distance = abs(to_fraction(claimed) - exact)
                if not least < distance <= most:
                    assert is_fault(operation, [(bits,)], claimed) == (distance > most)


@pytest.mark.parametrize("operation", FUNCTIONS)
@given(st.data())
def test_functions_may_err_by_their_ulps_and_no_more(operation: Operation, data: st.DataObject) -> None:
    check_function(operation, data.draw(DOMAIN[operation]))


@pytest.mark.parametrize(("operation", "x"), [(f, x) for f in FUNCTIONS for x in HARD[f]])
def test_functions_at_hard_places(operation: Operation, x: float) -> None:
    check_function(operation, to_bits(x))


@pytest.mark.parametrize("operation", FUNCTIONS)
def test_rounded_and_flushed_functions_are_honest(operation: Operation) -> None:
    for x in HARD[operation]:
        honest = to_bits(float(apply(operation, read(to_bits(x)))))
        assert not is_fault(operation, [(to_bits(x),)], honest)
        assert not is_fault(operation, [(to_bits(x),)], flush(honest))


@pytest.mark.parametrize("operation", [*FUNCTIONS, Operation.SQUARE_ROOT])
def test_what_torch_computes_is_honest(operation: Operation) -> None:
    """Also beyond the ends of the range, and not through a table of this file."""
    rng = np.random.default_rng(3)
    wide = to_numpy(rng.integers(0, INFINITY, 150, dtype=np.uint32))
    near = (rng.standard_normal(150) * 30).astype(np.float32)
    values = np.concatenate([wide, near if operation in SIGNED else np.abs(near), to_numpy(EDGES)])
    x = torch.from_numpy(values)
    honest = x.double().sqrt().float() if operation is Operation.SQUARE_ROOT else TORCH[operation](x)
    for a, claimed in zip(as_terms(values), as_terms(honest.numpy()), strict=True):
        assert not is_fault(operation, [a], claimed[0])


def test_a_sigmoid_from_an_exponential_that_is_two_ulp_off_is_honest() -> None:
    """Near powers of two of exp(-x) the error in the result is largest: 5.25 to 5.5 ulp."""
    worst = Fraction(0)
    for bits in range(to_bits(-16.6356), to_bits(-16.6367)):
        power = to_bits(np.float32(apply(Operation.EXPONENTIAL, -read(bits))))
        for near in (np.float32(read(power + off)) for off in range(-2, 3)):
            if is_fault(Operation.EXPONENTIAL, [(bits ^ NEGATIVE,)], to_bits(near)):
                continue
            judged = judge_operation(Operation.SIGMOID, [(bits,)], to_bits(np.float32(1) / (1 + near)))
            assert not judged.is_fault and judged.distance is not None
            worst = max(worst, judged.distance / judged.bound)
    assert Fraction(7, 8) < worst < Fraction(11, 12)


def test_a_sigmoid_through_an_overflowing_exponential_is_honest() -> None:
    assert not is_fault(Operation.SIGMOID, [(to_bits(-100.0),)], 0)
    assert not is_fault(Operation.SIGMOID, [(LARGEST,)], to_bits(1.0))
    assert is_fault(Operation.SIGMOID, [(to_bits(-80.0),)], 0)


@pytest.mark.parametrize(
    ("operation", "a"),
    [
        (Operation.LOGARITHM, 0), (Operation.LOGARITHM, TINY), (Operation.LOGARITHM, to_bits(-1.0)),
        (Operation.RECIPROCAL_ROOT, 0), (Operation.RECIPROCAL_ROOT, TINY),
        (Operation.RECIPROCAL_ROOT, to_bits(-1.0)),
    ],
)  # fmt: skip
def test_undefined_functions_are_never_a_fault(operation: Operation, a: int) -> None:
    for claimed in (0, NOT_A_NUMBER, INFINITY, to_bits(3.0)):
        judged = judge_operation(operation, [(a,)], claimed)
        assert not judged.is_fault and judged.exact is None and judged.distance is None
