"""Computes IEEE-754 binary32 on bits, with exact rationals and correct rounding.

Slow and obvious on purpose. Every finite number is an integer times 2^-149 ("units"). An operation is
computed on rationals and rounded once, to nearest, ties to even, subnormals kept. Bits are unsigned integers
below 2^32. NaN is refused everywhere, because the protocol never lets one in. Source: IEEE 754-2019, sections
4.3.1, 6.3 and 7.4.
"""

import struct
from fractions import Fraction
from math import isqrt

from touchstone.protocol.spec.errors import InvalidInput

SIGN_BIT = 1 << 31
EXPONENT_MASK = 0xFF
FRACTION_BITS = 23
HIDDEN_BIT = 1 << FRACTION_BITS
INFINITY = EXPONENT_MASK << FRACTION_BITS
UNIT = Fraction(1, 1 << 149)
LEAST_NORMAL = HIDDEN_BIT * UNIT
"""2^-126."""


def is_finite(bits: int) -> bool:
    """Returns whether the bits are neither an infinity nor a NaN."""
    return (bits >> FRACTION_BITS) & EXPONENT_MASK != EXPONENT_MASK


def is_subnormal(bits: int) -> bool:
    """Returns whether the number is not zero but below 2^-126 in magnitude. Some machines treat it as
    zero."""
    return (bits >> FRACTION_BITS) & EXPONENT_MASK == 0 and bits & (HIDDEN_BIT - 1) != 0


def to_units(bits: int) -> int:
    """Returns the exact value of finite bits as an integer number of 2^-149 (both zeros give 0)."""
    if not 0 <= bits < 1 << 32 or not is_finite(bits):
        raise InvalidInput(
            what="not a finite float32",
            expected="a finite 32-bit pattern",
            actual=hex(bits),
            remedy="Refuse the tensor that holds it.",
        )
    exponent = (bits >> FRACTION_BITS) & EXPONENT_MASK
    fraction = bits & (HIDDEN_BIT - 1)
    magnitude = fraction if exponent == 0 else (fraction | HIDDEN_BIT) << (exponent - 1)
    return -magnitude if bits & SIGN_BIT else magnitude


def to_fraction(bits: int) -> Fraction:
    """Returns the exact value of finite bits."""
    return to_units(bits) * UNIT


def round_to_bits(value: Fraction, zero_sign: int = 0) -> int:
    """Returns the nearest float32, ties to even, and infinity from 2^128 - 2^103 on. An exact zero gets
    `zero_sign` (0 or SIGN_BIT)."""
    if value == 0:
        return zero_sign
    return (SIGN_BIT if value < 0 else 0) | _round_magnitude(abs(value))


def _round_magnitude(value: Fraction) -> int:
    # Shift so that the integer part has 24 bits, or fewer for subnormals, whose last place is one unit.
    scaled = value / UNIT
    shift = max(0, (scaled.numerator // scaled.denominator).bit_length() - 24)
    significand = round(scaled / (1 << shift))  # Fraction rounds half to even.
    # A carry out of the significand lands in the exponent field, as the layout intends.
    bits = significand if shift == 0 else ((shift + 1) << FRACTION_BITS) + significand - HIDDEN_BIT
    return min(bits, INFINITY)


def _sign(bits: int) -> int:
    return bits & SIGN_BIT


def add(a: int, b: int) -> int:
    """Returns fl(a + b). An exact zero is +0 unless both operands are -0 (IEEE 754, 6.3)."""
    return round_to_bits(to_fraction(a) + to_fraction(b), SIGN_BIT if a == b == SIGN_BIT else 0)


def negate(a: int) -> int:
    """Returns -a, with the sign bit flipped."""
    return a ^ SIGN_BIT


def subtract(a: int, b: int) -> int:
    """Returns fl(a - b)."""
    return add(a, negate(b))


def multiply(a: int, b: int) -> int:
    """Returns fl(a * b)."""
    return round_to_bits_signed(to_fraction(a) * to_fraction(b), _sign(a) ^ _sign(b))


def divide(a: int, b: int) -> int:
    """Returns fl(a / b). Refuses a zero divisor."""
    if to_units(b) == 0:
        raise InvalidInput(
            what="division by zero",
            expected="a divisor other than 0",
            actual=hex(b),
            remedy="Check the count of claims.",
        )
    return round_to_bits_signed(to_fraction(a) / to_fraction(b), _sign(a) ^ _sign(b))


def square_root(a: int) -> int:
    """Returns fl(sqrt(a)). Refuses a negative radicand."""
    if to_units(a) < 0:
        raise InvalidInput(
            what="square root of a negative number",
            expected="0 or more",
            actual=hex(a),
            remedy="Check the second moment.",
        )
    significand, half = split_even(a)
    # 100 places are enough: no root is within 2^-50 (relative) of halfway between two float32 numbers,
    # because the square of such a number is an integer multiple of 2^-50 of its size and not a float32.
    return round_to_bits(isqrt(significand << 200) * Fraction(2) ** (half - 100), _sign(a))


def split_even(bits: int) -> tuple[int, int]:
    """Returns (significand, half): the finite magnitude is significand * 4^half, significand below 2^27;
    `half` is the exponent of the root."""
    doubled = 2 * abs(to_units(bits))
    half = max(0, doubled.bit_length() - 25) // 2  # There are at least 2 * half trailing zeros to drop.
    return doubled >> 2 * half, half - 75


def spacing(value: Fraction) -> Fraction:
    """Returns the unit in the last place of a float32 at `value`: 2^max(floor(log2 |value|) - 23, -149)."""
    numerator, denominator = abs(value.numerator), value.denominator
    scaled = numerator * UNIT.denominator // denominator
    return UNIT * (1 << max(0, scaled.bit_length() - 24))


def round_to_bits_signed(value: Fraction, sign: int) -> int:
    """Rounds a product or quotient whose sign is known from its operands even if the magnitude becomes
    zero."""
    return sign | _round_magnitude(abs(value)) if value else sign


def float_to_bits(value: float) -> int:
    """Returns the float32 bits of a Python float that binary32 holds exactly. Refuses any other."""
    require_float32("value", value)
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def bits_to_float(bits: int) -> float:
    """Returns the Python float (binary64, exact) of finite bits, with the sign of zero."""
    to_units(bits)
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def nearest(value: float | Fraction) -> float:
    """Returns the float32 nearest to a number, as a Python float. Decimals in configuration files are read
    this way."""
    return bits_to_float(round_to_bits(Fraction(value)))


def require_float32(name: str, value: float) -> None:
    """Raises InvalidInput unless a Python number is finite and exactly representable in binary32."""
    if isinstance(value, (int, float)) and _is_held(value):
        return
    raise InvalidInput(
        what="not exactly a float32",
        expected="a finite number that binary32 holds",
        actual=repr(value),
        where=name,
        remedy="Pass float32.nearest(value).",
    )


def _is_held(value: float) -> bool:
    if value - value != 0:  # An infinity or a NaN.
        return False
    bits = round_to_bits(Fraction(value))
    return is_finite(bits) and bits_to_float(bits) == value


def unpack_bits(data: bytes) -> list[int]:
    """Returns the bits in a little-endian float32 buffer whose length is a multiple of 4 bytes."""
    if len(data) % 4:
        raise InvalidInput(
            what="a float32 buffer has the wrong length",
            expected="a multiple of 4 bytes",
            actual=f"{len(data)} bytes",
            remedy="Check how the bytes were cut into numbers.",
        )
    return list(struct.unpack(f"<{len(data) // 4}I", data))


def pack_bits(patterns: list[int]) -> bytes:
    """Returns the little-endian bytes of float32 numbers given as bits."""
    return struct.pack(f"<{len(patterns)}I", *patterns)
