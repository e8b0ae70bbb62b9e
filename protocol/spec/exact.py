"""Defines the numeric format `exact`: the bits that each operation of a program gives.

Rules: docs/spec.md, section 9.1. Every machine must compute these bits, with any kernels. So the order of a
sum does not matter: its terms are rounded to integers of one unit, added exactly, and the total is rounded
once (`exact_sums.py`). Elementwise operations are those of IEEE 754 binary32, each rounded once
(`exact_elementwise.py`). Functions are sequences of integer steps (`exact_series.py`).

    bits of float32 --> integers and rationals --> one rounding --> bits of float32

Slow and obvious on purpose: this is the ground truth for the kernels and for the contract. Values are float32
bits. A quantized value is a signed integer; it stands for that many times the scale of its row.
"""

from collections.abc import Callable, Sequence

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.exact_elementwise import (
    add,
    canonicalize,
    choose_largest,
    choose_smallest,
    divide,
    flush,
    multiply,
    subtract,
    take_reciprocal_root,
    take_square_root,
)
from touchstone.protocol.spec.exact_series import take_exponential, take_logarithm, take_sigmoid
from touchstone.protocol.spec.exact_sums import add_quantized_products, add_terms, choose_scale, quantize
from touchstone.protocol.spec.float32 import is_finite
from touchstone.protocol.spec.program_operations import Operation

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
    """Returns the one right value of an element: float32 bits, or a signed integer for QUANTIZE.

    `terms` are the values that it depends on, one tuple for each term, indices resolved
    (`referee.read_terms`). For QUANTIZED_PRODUCT_SUM each term has both quantized values and both scales.
    `bits` is for SCALE_OF and QUANTIZE. Raises InvalidInput for an operation that exact programs do not
    have."""
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
