"""Judges whether one output element of a node is a fault, from its operands alone (docs/spec.md, section 9).

This is the ground truth of a dispute. `exact` is the real number that the operation gives for the claimant's
own operands. A claimed value is a fault if conforming hardware cannot give it in any order of summation,
fused or not, with subnormal numbers kept or flushed (`operation_bounds.py`). Doubt counts for the accused. In
an exact program (`exact`) one value is right, and every other one is a fault.

    node, number --> terms (elements of buffers) --> values --> exact value and bound --> fault or not
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.exact import compute_element
from touchstone.protocol.spec.float32 import is_finite, to_fraction
from touchstone.protocol.spec.operation_bounds import (
    CHUNKED_REDUCTIONS,
    SAFE,
    AllowedValues,
    Terms,
    find_allowed,
)
from touchstone.protocol.spec.params import NUMERIC_FORMATS, PRODUCT_BITS
from touchstone.protocol.spec.program import CHUNK_TERMS, MAX_ELEMENTS, Node
from touchstone.protocol.spec.program_addressing import iterate_terms
from touchstone.protocol.spec.program_operations import (
    BOUNDED_OPERATIONS,
    INDEXED,
    OPERAND_COUNTS,
    QUANTIZED_FACTORS,
    QUANTIZED_LIMITS,
    Operation,
)

Fetch = Callable[[int, int], int]
"""Maps (buffer, element) to the float32 bits there, or to the integer in an index buffer or of a quantized
value. It raises InvalidInput if the buffer has no such element."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A judgement. `is_fault` says that the claimed value is proven wrong.

    `exact` is the exact result, None if there is none or it is beyond every float32; roots and functions have
    20 digits. `bound` is the allowed distance. `distance` is from the claimed value to the exact one (if the
    bound is zero, to the nearest that conforming hardware gives), None if either is not finite. A finite
    claim is a fault if distance > bound. `reason` is a few words for people."""

    is_fault: bool
    exact: Fraction | None
    bound: Fraction
    distance: Fraction | None
    reason: str


def judge_element(
    node: Node, number: int, fetch: Fetch, claimed: int, numeric_format: str = "float32"
) -> Judgement:
    """Judges the `number`-th output element of a node of a valid program, claimed as float32 bits, or as a
    signed integer for QUANTIZE. Raises InvalidInput if there is no such element, an index is outside its
    table, or judge_operation refuses."""
    if not 0 <= number < node.elements:
        raise _refuse("the node has no such element", f"0 to {node.elements - 1}", number)
    terms = list(read_terms(node, number, fetch))
    return judge_operation(node.operation, terms, claimed, numeric_format, node.selected)


def judge_operation(
    operation: Operation, terms: Terms, claimed: int, numeric_format: str = "float32", bits: int = 0
) -> Judgement:
    """Judges one element from its operands (see Terms). `bits` is the width of quantized values, for SCALE_OF
    and QUANTIZE. Raises InvalidInput for an unknown format or operation, a wrong number of values, or values
    that are not 32 bits."""
    if numeric_format not in NUMERIC_FORMATS:
        raise _refuse("an unknown numeric format", sorted(NUMERIC_FORMATS), numeric_format)
    _require_terms(operation, terms, claimed)
    if numeric_format in PRODUCT_BITS:
        return _judge_exact(operation, terms, claimed, bits)
    if operation not in BOUNDED_OPERATIONS:
        raise _refuse("an operation of exact programs", "another format", operation.name)
    terms = _choose_finite(terms) if operation is Operation.FINITE_SELECT else terms
    if not all(is_finite(bits) for term in terms for bits in term):
        return _acquit("an operand is not finite")
    answer = find_allowed(operation, terms)
    return _compare(claimed, answer) if answer else _acquit("the operation is undefined here")


def _judge_exact(operation: Operation, terms: Terms, claimed: int, bits: int) -> Judgement:
    """Judges by bits: a claim is right only with the right bits. NaN has one pattern; +0 and -0 differ."""
    if operation in (Operation.SCALE_OF, Operation.QUANTIZE) and bits not in QUANTIZED_LIMITS:
        raise _refuse("quantized values do not have this number of bits", sorted(QUANTIZED_LIMITS), bits)
    right = compute_element(operation, terms, bits)
    value, said = (_read_claim(operation, one) for one in (right, claimed))
    distance = None if value is None or said is None else abs(said - value)
    is_fault = claimed != right
    return Judgement(is_fault, value, Fraction(0), distance, f"{'not ' if is_fault else ''}the right bits")


def _read_claim(operation: Operation, claimed: int) -> Fraction | None:
    if operation is Operation.QUANTIZE:
        return Fraction(claimed)
    return to_fraction(claimed) if is_finite(claimed) else None


def _acquit(reason: str) -> Judgement:
    return Judgement(False, None, Fraction(0), None, reason)


def _compare(claimed: int, answer: AllowedValues) -> Judgement:
    exact, bound = answer.exact, answer.bound
    if not is_finite(claimed):
        is_fault = answer.reach < SAFE
        return Judgement(is_fault, exact, bound, None, f"not finite{' without cause' if is_fault else ''}")
    if exact is None:
        return Judgement(True, None, bound, None, "finite where nothing finite is near")
    targets = answer.targets or (
        (exact, exact),
    )  # No finite value is right, so any is a fault, at this distance.
    value = to_fraction(claimed)
    distance = min(max(low - value, value - high, Fraction(0)) for low, high in targets)
    is_fault = distance > bound
    return Judgement(is_fault, exact, bound, distance, f"{'outside' if is_fault else 'within'} the bound")


def read_terms(node: Node, number: int, fetch: Fetch) -> Iterator[tuple[int, ...]]:
    """Yields the operands of an element, with indices resolved. SELECTED_SUM has a term for each match,
    EQUAL_SELECT only the chosen operand; nothing else is fetched."""
    for indices, elements in iterate_terms(node, number):
        buffers = [operand.buffer for operand in node.operands]
        if node.operation not in INDEXED:
            yield tuple(map(fetch, buffers, elements))
            continue
        index = fetch(buffers[0], elements[0])
        if node.operation is Operation.GATHER:
            _require_index(index, MAX_ELEMENTS)  # `fetch` knows how many rows the table has.
            yield (fetch(buffers[1], elements[1] + index * node.selected),)
            continue
        _require_index(index, node.sizes[node.selected])
        is_equal = index == indices[node.selected]
        if is_equal or node.operation is Operation.EQUAL_SELECT:
            place = 1 if is_equal else 2
            yield (fetch(buffers[place], elements[place]),)


def _choose_finite(terms: Terms) -> Terms:
    ((condition, yes, no),) = terms
    return ((yes if is_finite(condition) else no,),)


def _require_index(index: int, size: int) -> None:
    if not 0 <= index < size:
        raise _refuse("an index outside its table", f"0 to {size - 1}", index)


def _require_terms(operation: Operation, terms: Terms, claimed: int) -> None:
    values = 1 if operation in INDEXED else OPERAND_COUNTS[operation]
    if operation in CHUNKED_REDUCTIONS:
        most, least = max(CHUNK_TERMS), 0 if operation is Operation.SELECTED_SUM else 1
        if not least <= len(terms) <= most:
            raise _refuse("not the terms of a sum", f"{least} to {most}", len(terms))
    elif not terms or (operation is not Operation.MAXIMUM_OF and len(terms) > 1):
        raise _refuse("not the terms of this operation", "1", len(terms))
    for term in terms:
        if len(term) != values:
            raise _refuse("not the values of a term", values, len(term))
    factors = QUANTIZED_FACTORS if operation is Operation.QUANTIZED_PRODUCT_SUM else 0
    patterns = [bits for term in terms for bits in term[factors:]]
    integers = [number for term in terms for number in term[:factors]]
    (integers if operation is Operation.QUANTIZE else patterns).append(claimed)
    for bits in patterns:
        if not 0 <= bits < 1 << 32:
            raise _refuse("not a float32", "a 32-bit pattern", bits)
    for number in integers:
        if not -(1 << 31) <= number < 1 << 31:
            raise _refuse("not a quantized value", "a signed integer of 32 bits", number)


def _refuse(what: str, expected: object, actual: object) -> InvalidInput:
    return InvalidInput(
        what=what,
        expected=expected,
        actual=actual,
        remedy="Pass the values that the program and the proven leaves give. Nothing was judged.",
    )
