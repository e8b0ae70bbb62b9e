"""The reference arithmetic against the processor's: IEEE-754 leaves no freedom, so all bits must be equal."""

import math
import struct
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from touchstone.protocol.spec import float32
from touchstone.protocol.spec.errors import InvalidInput

FINITE = st.integers(0, (1 << 32) - 1).filter(float32.is_finite)
OPERATIONS = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def as_numpy(bits: int) -> np.float32:
    return np.uint32(bits).view(np.float32)


@pytest.mark.parametrize("name", OPERATIONS)
@given(FINITE, FINITE)
@example(0x80000000, 0x80000000)
@example(0x00000001, 0x80000001)
@example(0x3F800000, 0x33800000)
@example(0x3F800001, 0x33800000)
@example(0x7F7FFFFF, 0x73000000)
@example(0x7F7FFFFF, 0x72FFFFFF)
@example(0x00800000, 0x3F7FFFFF)
@example(0x00000003, 0x3F000000)
def test_operations_equal_the_processor(name: str, a: int, b: int) -> None:
    if name == "divide" and b & 0x7FFFFFFF == 0:
        return
    expected = int(OPERATIONS[name](as_numpy(a), as_numpy(b)).view(np.uint32))
    assert getattr(float32, name)(a, b) == expected


@given(FINITE)
def test_units_hold_the_exact_value(bits: int) -> None:
    assert float32.to_fraction(bits) == Fraction(float(as_numpy(bits)))
    assert float32.round_to_bits(float32.to_fraction(bits), bits & float32.SIGN_BIT) == bits
    assert float32.float_to_bits(float32.bits_to_float(bits)) == bits


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_rounding_equals_the_processor(value: float) -> None:
    assert (
        float32.round_to_bits(Fraction(value), 0) == int(np.float32(value + 0.0).view(np.uint32))
        or value == 0
    )


@pytest.mark.parametrize("bits", [0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, -1, 1 << 32])
def test_what_is_not_finite_is_refused(bits: int) -> None:
    with pytest.raises(InvalidInput, match="finite"):
        float32.to_units(bits)


def test_division_by_zero_is_refused() -> None:
    with pytest.raises(InvalidInput, match="zero"):
        float32.divide(0x3F800000, 0x80000000)


@given(FINITE.map(lambda bits: bits & 0x7FFFFFFF))
@example(0)
@example(1)
@example(0x7F7FFFFF)
@example(0x3F7FFFFF)
def test_square_root_equals_the_processor(bits: int) -> None:
    assert float32.square_root(bits) == int(np.sqrt(as_numpy(bits)).view(np.uint32))


def test_square_root_of_minus_zero_is_itself_and_of_less_is_refused() -> None:
    assert float32.square_root(0x80000000) == 0x80000000
    with pytest.raises(InvalidInput, match="negative"):
        float32.square_root(0x80000001)


@given(FINITE)
@example(1)
def test_an_even_split_is_the_number(bits: int) -> None:
    significand, half = float32.split_even(bits)
    assert significand * Fraction(4) ** half == abs(float32.to_fraction(bits))
    assert 0 <= significand < 1 << 27


@given(FINITE.filter(lambda bits: bits & 0x7FFFFFFF < 0x7F7FFFFF))
@example(0)
@example(0x007FFFFF)
@example(0x3F7FFFFF)
@example(0x3F800000)
def test_spacing_is_the_way_to_the_next_number(bits: int) -> None:
    way = abs(float32.to_fraction(bits + 1) - float32.to_fraction(bits))
    assert float32.spacing(float32.to_fraction(bits)) == way
    between = float32.to_fraction(bits) + (way if bits < 1 << 31 else -way) * Fraction(9, 10)
    assert float32.spacing(between) == way


@given(FINITE)
@example(0x80000000)
@example(0x007FFFFF)
@example(0x80800000)
def test_subnormal_numbers_are_below_the_least_normal_one(bits: int) -> None:
    assert float32.is_subnormal(bits) == (0 < abs(float32.to_fraction(bits)) < float32.LEAST_NORMAL)
    assert Fraction(float(np.finfo(np.float32).smallest_normal)) == float32.LEAST_NORMAL


@pytest.mark.parametrize("value", [0.1, math.inf, math.nan, 1e39, 2.0**-150])
def test_numbers_that_binary32_does_not_hold_are_refused(value: float) -> None:
    with pytest.raises(InvalidInput, match="nearest"):
        float32.require_float32("value", value)


def test_nearest_is_what_a_configuration_file_means() -> None:
    assert float32.nearest(0.1) == struct.unpack("<f", struct.pack("<f", 0.1))[0]
    assert float32.nearest(Fraction(1, 3)) == float(np.float32(1) / np.float32(3))
    float32.require_float32("value", float32.nearest(0.1))


def test_packing_is_little_endian() -> None:
    assert float32.pack_bits([0x3F800000, 1]) == bytes.fromhex("0000803f01000000")
    assert float32.unpack_bits(float32.pack_bits([5, 6])) == [5, 6]
    with pytest.raises(InvalidInput, match="5 bytes"):
        float32.unpack_bits(bytes(5))
