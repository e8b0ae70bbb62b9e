"""The numeric format `exact`: what each operation of a program gives, to the bit (docs/spec.md, section 9.1).

Every machine has to find these bits, with whatever kernels. So a sum has no order here: its terms are rounded
to integers of one unit, added exactly, and the total is rounded once. Elementwise operations are those of
IEEE 754 binary32, each rounded once, ties to even, subnormals kept. Functions are sequences of integer steps.

    bits of float32 --> integers and rationals --> one rounding --> bits of float32

Slow and obvious on purpose: this is the ground truth for the kernels and for the contract. Values are float32
bits. A quantized value is a signed integer; it stands for that many times the scale of its row.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction

from touchstone.protocol.spec import float32
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.float32 import (
    FRACTION_BITS,
    HIDDEN_BIT,
    INFINITY,
    SIGN_BIT,
    UNIT,
    is_finite,
    round_to_bits,
    to_units,
)
from touchstone.protocol.spec.program import QUANTIZED_LIMITS, Operation

NAN = 0x7FC00000
"""The one pattern that stands for all NaN."""
SUM_BITS = 38
"""Places below the leading bit of the largest term that a SUM keeps: 4,096 terms stay below 2^52, so float64
adds them exactly in any order."""
_ONE = 0x3F800000

# --- Patterns -----------------------------------------------------------------------------------------------


def canonicalize(bits: int) -> int:
    """The pattern, or NAN for any NaN: what is hashed."""
    return NAN if is_nan(bits) else bits


def is_nan(bits: int) -> bool:
    """Whether the pattern is a NaN."""
    return bits & ~SIGN_BIT > INFINITY


def _is_infinite(bits: int) -> bool:
    return bits & ~SIGN_BIT == INFINITY


def _is_zero(bits: int) -> bool:
    return bits & ~SIGN_BIT == 0


def _order(bits: int) -> int:
    """Orders patterns that are no NaN as their numbers; both zeros are equal."""
    magnitude = bits & ~SIGN_BIT
    return -magnitude if bits & SIGN_BIT else magnitude


# --- Elementwise: IEEE 754, one rounding --------------------------------------------------------------------
def add(a: int, b: int) -> int:
    """a + b."""
    if is_nan(a) or is_nan(b) or (_is_infinite(a) and _is_infinite(b) and a != b):
        return NAN
    if _is_infinite(a) or _is_infinite(b):
        return a if _is_infinite(a) else b
    return float32.add(a, b)


def subtract(a: int, b: int) -> int:
    """a - b."""
    return add(a, float32.negate(b))


def multiply(a: int, b: int) -> int:
    """a * b."""
    if is_nan(a) or is_nan(b):
        return NAN
    if is_finite(a) and is_finite(b):
        return float32.multiply(a, b)
    return NAN if _is_zero(a) or _is_zero(b) else INFINITY | ((a ^ b) & SIGN_BIT)


def divide(a: int, b: int) -> int:
    """a / b."""
    sign = (a ^ b) & SIGN_BIT
    if is_nan(a) or is_nan(b) or (_is_zero(a) and _is_zero(b)) or (_is_infinite(a) and _is_infinite(b)):
        return NAN
    if _is_infinite(b):
        return sign
    if _is_infinite(a) or _is_zero(b):
        return INFINITY | sign
    return float32.divide(a, b)


def take_square_root(a: int) -> int:
    """sqrt(a); of -0 it is -0."""
    if is_nan(a) or (a & SIGN_BIT and not _is_zero(a)):
        return NAN
    return float32.square_root(a) if is_finite(a) else a


def take_reciprocal_root(a: int) -> int:
    """1 / sqrt(a): two roundings."""
    return divide(_ONE, take_square_root(a))


def choose_largest(values: Sequence[int]) -> int:
    """The largest; NAN where one is NaN. A zero is +0."""
    return _choose(values, max)


def choose_smallest(values: Sequence[int]) -> int:
    """The smallest; NAN where one is NaN. A zero is +0."""
    return _choose(values, min)


def _choose(values: Sequence[int], pick: Callable[[list[int]], int]) -> int:
    if any(map(is_nan, values)):
        return NAN
    order = pick(list(map(_order, values)))
    return SIGN_BIT | -order if order < 0 else order


def flush(a: int, threshold: int) -> int:
    """+0 where |a| < threshold, else a. A NaN is not below anything."""
    if is_nan(a) or is_nan(threshold) or _order(a & ~SIGN_BIT) >= _order(threshold):
        return canonicalize(a)
    return 0


# --- Functions: fixed sequences of integers -----------------------------------------------------------------
LOG2_E = 396564993198
"""2^38 / ln 2, to the nearest."""
EXPONENTIAL_COEFFICIENTS = (
    1073741824, 744261118, 257941248, 59597083, 10327387, 1431680, 165394, 16377, 1419,
)  # fmt: skip
"""2^30 (ln 2)^k / k!, to the nearest: the series of 2^f."""
LN_2 = 190530846196
"""2^38 ln 2, to the nearest."""
LOGARITHM_COEFFICIENTS = tuple(round(Fraction(1 << 31, 2 * k + 1)) for k in range(7))
"""2^31 / (2 k + 1), to the nearest: the series of artanh, doubled, in 2^-30."""
ROOT_2 = 11863283
"""2^23 sqrt(2), rounded down."""


def take_exponential(a: int) -> int:
    """exp(a) within one unit in the last place. It is 2^n times the series of 2^f, |f| at most 1/2."""
    if is_nan(a):
        return NAN
    is_negative = bool(a & SIGN_BIT)
    magnitude, exponent = split(a)
    if exponent > -17:  # 128 or more, or an infinity
        return 0 if is_negative else INFINITY
    y = magnitude * LOG2_E >> min(6 - exponent, 63)  # |a| / ln 2, in 2^-32
    y = -y if is_negative else y
    n = (y + (1 << 31)) >> 32
    f = y - (n << 32)
    series = 0
    for coefficient in reversed(EXPONENTIAL_COEFFICIENTS):
        series = coefficient + (series * f >> 32)
    return round_to_bits(series * Fraction(2) ** (n - 30))


def take_logarithm(a: int) -> int:
    """ln(a), a = m 2^n with m from sqrt(1/2) to sqrt(2): n ln 2 + 2 artanh((m - 1) / (m + 1)), within 2^-32
    and half a unit in the last place."""
    if is_nan(a) or (a & SIGN_BIT and not _is_zero(a)):
        return NAN
    if _is_zero(a):
        return INFINITY | SIGN_BIT
    if not is_finite(a):
        return a
    magnitude, exponent = split(a)
    shift = 24 - magnitude.bit_length()
    magnitude, n = magnitude << shift, exponent - shift + 23
    one = HIDDEN_BIT
    if magnitude > ROOT_2:
        one, n = 2 * HIDDEN_BIT, n + 1
    quotient = (abs(magnitude - one) << 34) // (magnitude + one)
    square = (quotient >> 4) ** 2 >> 28  # in 2^-32
    series = 0
    for coefficient in reversed(LOGARITHM_COEFFICIENTS):
        series = coefficient + (series * square >> 32)
    total = quotient * series >> 26  # in 2^-38; no product here or above reaches 2^63
    total = -total if magnitude < one else total
    return round_to_bits(Fraction(n * LN_2 + total, 1 << 38))


def take_sigmoid(a: int) -> int:
    """1 / (1 + exp(-a)): three of the steps above."""
    return divide(_ONE, add(_ONE, take_exponential(float32.negate(a))))


def split(bits: int) -> tuple[int, int]:
    """(magnitude, exponent): the finite number without its sign is magnitude * 2^exponent, magnitude below
    2^24. Of an infinity the exponent is 105."""
    field = (bits >> FRACTION_BITS) & float32.EXPONENT_MASK
    fraction = bits & (HIDDEN_BIT - 1)
    return (fraction, -149) if field == 0 else (fraction | HIDDEN_BIT, field - 150)


# --- Sums: integers of one unit -----------------------------------------------------------------------------
def add_terms(terms: Sequence[int]) -> int:
    """The sum: each term to the nearest multiple of 2^(e - SUM_BITS), e the exponent of the largest term,
    their exact sum, rounded once. NAN where a term is not finite. No term gives +0, as a zero sum does."""
    if not all(map(is_finite, terms)):
        return NAN
    largest = max((abs(to_units(bits)) for bits in terms), default=0)
    if largest == 0:
        return 0
    unit = UNIT * Fraction(2) ** (largest.bit_length() - 1 - SUM_BITS)
    return round_to_bits(sum(round(float32.to_fraction(bits) / unit) for bits in terms) * unit)


def choose_scale(terms: Sequence[int], bits: int) -> int:
    """The scale of a row: the least power of two, at least 2^-149, for which no quantized term is beyond the
    limit of `bits`. NAN where a term is not finite."""
    if not all(map(is_finite, terms)):
        return NAN
    largest = max(abs(to_units(term)) for term in terms)
    power = max(0, largest.bit_length() - QUANTIZED_LIMITS[bits].bit_length())
    if round(Fraction(largest, 1 << power)) > QUANTIZED_LIMITS[bits]:
        power += 1
    return round_to_bits((1 << power) * UNIT)


def quantize(a: int, scale: int, bits: int) -> int:
    """a / scale, to the nearest integer, ties to even; 0 where the scale is NaN. Beyond the limit, where a
    scale is not that of its row: the limit."""
    if not is_finite(scale) or not is_finite(a) or to_units(scale) <= 0:
        return 0
    limit = QUANTIZED_LIMITS[bits]
    return max(-limit, min(limit, round(Fraction(to_units(a), to_units(scale)))))


def add_quantized_products(terms: Sequence[tuple[int, int]], scale_a: int, scale_b: int) -> int:
    """The exact sum of the products of quantized values, times both scales, rounded once; a zero is +0. NAN
    where a scale is not finite."""
    if not is_finite(scale_a) or not is_finite(scale_b):
        return NAN
    total = sum(a * b for a, b in terms)
    if total == 0:
        return 0
    return round_to_bits(total * float32.to_fraction(scale_a) * float32.to_fraction(scale_b))


# --- One element --------------------------------------------------------------------------------------------
_BINARY: dict[Operation, Callable[[int, int], int]] = {
    Operation.ADD: add,
    Operation.SUBTRACT: subtract,
    Operation.MULTIPLY: multiply,
    Operation.DIVIDE: divide,
    Operation.MAXIMUM: lambda a, b: choose_largest((a, b)),
    Operation.MINIMUM: lambda a, b: choose_smallest((a, b)),
    Operation.FLUSH: flush,
}
_UNARY: dict[Operation, Callable[[int], int]] = {
    Operation.SQUARE_ROOT: take_square_root,
    Operation.RECIPROCAL_ROOT: take_reciprocal_root,
    Operation.EXPONENTIAL: take_exponential,
    Operation.LOGARITHM: take_logarithm,
    Operation.SIGMOID: take_sigmoid,
    Operation.GATHER: canonicalize,
    Operation.EQUAL_SELECT: canonicalize,
    Operation.COPY: canonicalize,
}


def compute_element(operation: Operation, terms: Sequence[tuple[int, ...]], bits: int = 0) -> int:
    """The one right value of an element: float32 bits, of QUANTIZE a signed integer.

    terms: the values that it depends on, one tuple for each term, indices resolved (`referee.read_terms`);
    of QUANTIZED_PRODUCT_SUM each term has both quantized values and both scales. bits: of SCALE_OF and
    QUANTIZE. Raises InvalidInput for an operation that exact programs do not have."""
    if operation in (Operation.SUM, Operation.SELECTED_SUM):
        return add_terms([a for (a,) in terms])
    if operation is Operation.MAXIMUM_OF:
        return choose_largest([a for (a,) in terms])
    if operation is Operation.SCALE_OF:
        return choose_scale([a for (a,) in terms], bits)
    if operation is Operation.QUANTIZED_PRODUCT_SUM:
        return add_quantized_products([(term[0], term[1]) for term in terms], *terms[0][2:])
    values = terms[0]
    if operation is Operation.QUANTIZE:
        a, scale = values
        return quantize(a, scale, bits)
    if operation is Operation.FINITE_SELECT:
        condition, yes, no = values
        return canonicalize(yes if is_finite(condition) else no)
    if operation in _BINARY:
        return _BINARY[operation](*values)
    if operation in _UNARY:
        return _UNARY[operation](*values)
    raise InvalidInput(
        what="an operation that exact programs do not have",
        expected="products of quantized values",
        actual=operation.name,
        remedy="Build the program for the format exact.",
    )
