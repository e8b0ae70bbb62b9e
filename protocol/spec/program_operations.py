"""Lists the operations of programs: their operands, and which ones reduce, index or quantize.

Rules: docs/spec.md, section 8.
"""

from enum import IntEnum, unique


@unique
class Operation(IntEnum):
    """All operations. Operands are written a, b, c; `i` is the value of an index operand."""

    PRODUCT_SUM = 1
    """The sum of a * b over the reduced loops."""
    SUM = 2
    """The sum of a over the reduced loops."""
    SELECTED_SUM = 3
    """The sum of a over those reduced indices at which i equals the index of loop `selected`."""
    MAXIMUM_OF = 4
    """The largest a over the reduced loops."""
    ADD = 5
    SUBTRACT = 6
    MULTIPLY = 7
    DIVIDE = 8
    MAXIMUM = 9
    """The larger of a and b."""
    MINIMUM = 10
    """The smaller of a and b."""
    SQUARE_ROOT = 11
    RECIPROCAL_ROOT = 12
    """1 / sqrt(a)."""
    EXPONENTIAL = 13
    LOGARITHM = 14
    """The natural logarithm."""
    SIGMOID = 15
    """1 / (1 + exp(-a))."""
    GATHER = 16
    """Reads a, `selected` elements further for each unit of i."""
    EQUAL_SELECT = 17
    """a if i equals the index of loop `selected`, else b."""
    FLUSH = 18
    """a if |a| >= b, else 0."""
    FINITE_SELECT = 19
    """b if a is finite, else c."""
    COPY = 20
    """a, in another place, so that a summing node finds it in one run."""
    SCALE_OF = 21
    """The power of two by which the reduced row is quantized (`exact_sums.choose_scale`). In exact programs
    only."""
    QUANTIZE = 22
    """a / b, rounded to an integer of `selected` bits (`exact_sums.quantize`)."""
    QUANTIZED_PRODUCT_SUM = 23
    """The sum of a * b over the reduced loops, both quantized, times their scales c and d."""


REDUCTIONS = frozenset({
    Operation.PRODUCT_SUM, Operation.SUM, Operation.SELECTED_SUM, Operation.MAXIMUM_OF, Operation.SCALE_OF,
    Operation.QUANTIZED_PRODUCT_SUM,
})  # fmt: skip
"""Operations whose nodes have reduced loops; no others do."""
INDEXED = frozenset({Operation.SELECTED_SUM, Operation.GATHER, Operation.EQUAL_SELECT})
"""Operations whose first operand is an index; no others have one."""
EXACT_OPERATIONS = frozenset({Operation.SCALE_OF, Operation.QUANTIZE, Operation.QUANTIZED_PRODUCT_SUM})
"""Operations of exact programs only, which replace PRODUCT_SUM."""
BOUNDED_OPERATIONS = tuple(one for one in Operation if one not in EXACT_OPERATIONS)
"""The operations of programs whose elements have bounds (docs/spec.md, section 9)."""
OPERAND_COUNTS = {
    Operation.PRODUCT_SUM: 2, Operation.SUM: 1, Operation.SELECTED_SUM: 2, Operation.MAXIMUM_OF: 1,
    Operation.ADD: 2, Operation.SUBTRACT: 2, Operation.MULTIPLY: 2, Operation.DIVIDE: 2,
    Operation.MAXIMUM: 2, Operation.MINIMUM: 2, Operation.SQUARE_ROOT: 1, Operation.RECIPROCAL_ROOT: 1,
    Operation.EXPONENTIAL: 1, Operation.LOGARITHM: 1, Operation.SIGMOID: 1, Operation.GATHER: 2,
    Operation.EQUAL_SELECT: 3, Operation.FLUSH: 2, Operation.FINITE_SELECT: 3, Operation.COPY: 1,
    Operation.SCALE_OF: 1, Operation.QUANTIZE: 2, Operation.QUANTIZED_PRODUCT_SUM: 4,
}  # fmt: skip
QUANTIZED_LIMITS = {8: 127, 15: 16319, 20: (1 << 19) - 1}
"""The largest magnitude of a quantized value, by bits. 16,319 = 127 * 128 + 63: each value of 15 bits is 128
h + l with h from -128 to 127 and l from -64 to 63, so that machines can multiply bytes."""
QUANTIZED_FACTORS = 2
"""The quantized operands of a QUANTIZED_PRODUCT_SUM; their scales follow."""
