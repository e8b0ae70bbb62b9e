"""Makes the cases of tests/vectors/referee.json."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import count

from tools.vectors.fixed_values import number
from tools.vectors.referee_inputs import (
    EXTREMES,
    KINDS,
    LARGEST,
    SUMS,
    Draw,
    is_fault,
    make_claims,
    make_runs,
    make_terms,
)
from tools.vectors.table import Table
from touchstone.protocol.spec.enclosures import ENCLOSURES, LIMIT
from touchstone.protocol.spec.float32 import INFINITY, SIGN_BIT, to_fraction
from touchstone.protocol.spec.operation_bounds import Terms
from touchstone.protocol.spec.program_operations import BOUNDED_OPERATIONS, Operation

COUNTS = (1, 2, 3, 7, 8, 9, 17)
"""The numbers of terms in sums, around whole words of eight."""
LONGEST = 4096
LONG = (
    (Operation.PRODUCT_SUM, 128),
    (Operation.PRODUCT_SUM, 512),
    (Operation.SUM, 512),
    (Operation.SELECTED_SUM, 128),
    (Operation.PRODUCT_SUM, LONGEST),
)
ONE, TINY, HUGE = 0x3F800000, 0x00000003, 0x7F000000
MIDDLE = 127
"""The exponent field of 1."""
_EXPONENTS = (
    0x00000000, 0x00000001, 0x80000001, 0x3F800000, 0xBF800000, 0x42B17218, 0xC2AE0000, 0xC2AD4000,
    0xC2AEAC4F, 0xC2AEAC50, 0xC2D00000, 0xC2FE0000, 0xC3000000, 0xC3000001, 0xFF7FFFFF, 0x43000000,
    0x43000001, 0x7F7FFFFF,
)  # fmt: skip
"""Exponents around ln 2^128 and ln 2^-126, where results become subnormal, and 128, the limit of the
series."""
_POSITIVES = (
    ONE, ONE - 1, ONE + 1, 0x3F400000, 0x3F400001, 0x3FC00000, 0x3FC00001, 0x40000000, 0x00800000, 0x7F7FFFFF,
    0x80000001, 0x3E99999A,
)  # fmt: skip
"""Operands around 1, 3/4 and 3/2, and the ends of the range."""
FUNCTION_OPERANDS = {
    Operation.EXPONENTIAL: _EXPONENTS, Operation.SIGMOID: _EXPONENTS,
    Operation.LOGARITHM: _POSITIVES, Operation.RECIPROCAL_ROOT: _POSITIVES,
}  # fmt: skip
Inputs = tuple[str, Operation, Terms]


def _inputs() -> Iterator[Inputs]:
    for operation in BOUNDED_OPERATIONS:
        for place, kind in enumerate(KINDS):
            terms_count = COUNTS[(place + operation) % len(COUNTS)] if _is_reduction(operation) else 1
            label = f"{operation.name} {kind} {terms_count}"
            yield label, operation, make_terms(operation, kind, terms_count, _draw_from(label))
    yield from _long_inputs()
    yield from _edge_inputs()


def _is_reduction(operation: Operation) -> bool:
    return operation in SUMS or operation is Operation.MAXIMUM_OF


def _long_inputs() -> Iterator[Inputs]:
    for operation, terms_count in LONG:
        label = f"{operation.name} long {terms_count}"
        yield label, operation, make_terms(operation, "plain", terms_count, _draw_from(label))
    for operation in (Operation.PRODUCT_SUM, Operation.SUM):
        label = f"{operation.name} banded 128"
        yield label, operation, make_terms(operation, "banded", 128, _draw_from(label))
    large = [(0x7E000001, 0xBF7FFFFF)] * LONGEST
    yield f"a product sum of {LONGEST} large terms", Operation.PRODUCT_SUM, large
    yield f"a sum of {LONGEST} terms", Operation.SUM, [(0x3F800001,)] * LONGEST


def _edge_inputs() -> Iterator[Inputs]:
    product_sum = Operation.PRODUCT_SUM
    yield "nothing selected", Operation.SELECTED_SUM, []
    for bits in (HUGE, LARGEST):
        yield f"{bits:#010x} first, a small product", product_sum, [(TINY, TINY), (bits, ONE >> 1)]
        yield f"{bits:#010x} second, a small product", product_sum, [(TINY, TINY), (ONE >> 1, bits)]
    yield "subnormal operands count for nothing", product_sum, [(TINY, HUGE), (0x30800000, ONE)]
    yield "subnormal operands beside zeros", product_sum, [(TINY, 0), (0, TINY), (TINY, HUGE)] * 3
    yield from _window_inputs()
    for operation in EXTREMES[1:]:
        yield f"{operation.name} of subnormal numbers", operation, [(TINY, 0x80000001)]
    tiny = [(bits,) for bits in (1, TINY, 0x80000005) * 4]
    yield "the largest of subnormal numbers", EXTREMES[0], tiny
    yield "a threshold below zero", Operation.FLUSH, [(TINY, 0xBF800000)]
    yield "both subnormal", Operation.FLUSH, [(TINY, 0x00000009)]
    yield "2^127 less next to nothing", Operation.SUBTRACT, [(HUGE, 1)]
    yield "2^127 and next to nothing less than 0", Operation.ADD, [(0x80000001, HUGE)]
    # Of the quotient's 64 binary places, all after a half are zero, but not all further ones.
    yield "a quotient just above a tie", Operation.DIVIDE, [(0x0000000A, 0x00D72084)]
    yield "another, negative", Operation.DIVIDE, [(0x80000041, 0x00BCDF06)]
    for operation, operands in FUNCTION_OPERANDS.items():
        for bits in operands:
            yield f"{operation.name} of {bits:#010x}", operation, [(bits,)]


def _window_inputs() -> Iterator[Inputs]:
    """Returns inputs in which one pair of a word is far from the others, about as far as the contract still
    sums without limbs."""
    near = MIDDLE << 23 | 0x7FFFFF
    for distance in (15, 16, 17, 31, 32, 48, 63, -14, -15, -16, -31, -32, -64):
        far = near + (distance << 23)
        for label, terms in (
            ("both", [(far, far)]), ("one", [(far, near)]), ("the other", [(near, far | SIGN_BIT)]),
        ):  # fmt: skip
            name = f"{label} {distance} places from seven others"
            yield name, Operation.PRODUCT_SUM, [*terms, *[(near, near)] * 7]
    largest = [(HUGE, ONE >> 1)] * 7
    yield "an infinity among the largest", Operation.PRODUCT_SUM, [(INFINITY, ONE >> 1), *largest]
    least = [(1 << 23, ONE)] * 7
    yield "a subnormal among the least", Operation.PRODUCT_SUM, [(TINY, ONE), *least]


def _draw_from(label: str) -> Draw:
    numbers = count()
    return lambda bound: number(f"referee/{label}/{next(numbers)}", bound)


def referee_tables() -> dict[str, Table]:
    """Returns operands of every operation and kind, each with claims of both verdicts around its edges."""
    table = Table()
    for name, operation, terms in _inputs():
        draw = _draw_from(f"claims/{name}")
        runs = make_runs(operation, terms, draw)
        claims = make_claims(operation, terms, draw)
        table.add(
            name,
            operation=int(operation),
            terms=len(terms),
            data=[run.data for run in runs],
            first=[run.first for run in runs],
            repeats=[run.repeats for run in runs],
            claimed=claims,
            fault=[is_fault(operation, terms, claimed) for claimed in claims],
        )
    return {"operations": table, "enclosures": _enclosures()}


def _enclosures() -> Table:
    """Returns both ends as whole numbers of 2^exponent, with the largest possible exponent."""
    table = Table()
    for operation, operands in FUNCTION_OPERANDS.items():
        for bits in operands:
            if _is_enclosed(operation, bits):
                _add_enclosure(table, operation, bits)
    return table


def _is_enclosed(operation: Operation, bits: int) -> bool:
    if operation is Operation.EXPONENTIAL:
        return to_fraction(bits) <= LIMIT
    return operation is Operation.SIGMOID or bits < SIGN_BIT


def _add_enclosure(table: Table, operation: Operation, bits: int) -> None:
    ends = ENCLOSURES[operation](bits)
    exponent = min(map(_count_zeros, ends))
    low, high = (int(end / Fraction(2) ** exponent) for end in ends)
    name = f"{operation.name} of {bits:#010x}"
    table.add(name, operation=int(operation), bits=bits, low=low, high=high, exponent=exponent)


def _count_zeros(value: Fraction) -> int:
    """Returns the largest power of 2 that divides a dyadic number; 0 for 0."""
    numerator = abs(value.numerator)
    return (numerator & -numerator).bit_length() - value.denominator.bit_length() if numerator else 0
