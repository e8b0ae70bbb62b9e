"""Whether one output element of one node of a program is a fault, from its operands alone (docs/spec.md,
section 9).

The ground truth of a dispute. `exact` is the real number that the operation gives for the claimant's own
operands; a claimed value is a fault where no order of summation, fused or not, with subnormal numbers kept or
taken for zero, on conforming hardware can give it. What cannot be decided is decided for the accused. In an
exact program (`exact`) one value is right, and every other one a fault.

    node, number --> terms (elements of buffers) --> values --> exact value and bound --> fault or not

Everything is integers and rationals: sums are exact integers, the few unary functions are enclosed by integer
series. u is the unit roundoff and gamma_n = n u / (1 - n u), so that 1 + gamma_n = 1 / (1 - n u). Source of
the bounds of sums: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sections 3.1 and 4.2.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.exact import compute_element
from touchstone.protocol.spec.float32 import (
    ENCLOSURES,
    LEAST_NORMAL,
    LIMIT,
    UNIT,
    Interval,
    is_finite,
    is_subnormal,
    round_to_bits,
    spacing,
    split_even,
    square_root,
    to_fraction,
    to_units,
)
from touchstone.protocol.spec.params import PRODUCT_BITS
from touchstone.protocol.spec.program import (
    BOUNDED_OPERATIONS,
    CHUNK_TERMS,
    INDEXED,
    MAX_ELEMENTS,
    OPERAND_COUNTS,
    QUANTIZED_FACTORS,
    QUANTIZED_LIMITS,
    Node,
    Operation,
    iterate_terms,
)

Fetch = Callable[[int, int], int]
"""(buffer, element) to the float32 bits there, or to the integer of an index buffer or of quantized values.
It raises InvalidInput where the buffer has no such element."""
Terms = Sequence[tuple[int, ...]]
"""The float32 bits that one output element depends on: a tuple for each term, one term for all but
reductions. No index stands in them: see read_terms. Quantized values are signed integers."""


@dataclass(frozen=True, slots=True)
class NumericFormat:
    """How a machine may compute a product sum. unit: relative error of one product or addition; input_error:
    of an operand when it is read. Both exact; all other operations are float32 in every format."""

    unit: Fraction
    input_error: Fraction


FLOAT32_UNIT = Fraction(1, 1 << 24)
FORMATS = {
    "float32": NumericFormat(FLOAT32_UNIT, Fraction(0)),
    # 11 and 8 significant bits, by rounding or by cutting off; a sum may cut off too.
    "tf32": NumericFormat(Fraction(1, 1 << 23), Fraction(1, 1 << 10)),
    "bf16": NumericFormat(Fraction(1, 1 << 23), Fraction(1, 1 << 7)),
}
UNDERFLOW = Fraction(1, 1 << 124)
"""For each term of a sum: a flushed product and a flushed partial sum, below 2^-126 each, doubled for what
later roundings add."""
SAFE = Fraction(1 << 127)
"""What stays below it on the way is finite on every machine."""
ULPS = {
    Operation.RECIPROCAL_ROOT: 2, Operation.EXPONENTIAL: 2, Operation.LOGARITHM: 1, Operation.SIGMOID: 6,
}  # fmt: skip
"""Units in the last place that a library's function may err; CUDA's exponential errs by 1.931. SIGMOID: 5.5
where 1 / (1 + exp(-a)) is taken in three steps, an exponential off by 2 (twice that in the result) and two
roundings (1 and 1/2)."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """is_fault: the claimed value is proved wrong.

    exact: the exact result, None where there is none or it is beyond every float32; roots and functions to
    20 digits. bound: the allowed distance. distance: from the claimed value to the exact one (where the bound
    is zero: to the nearest that conforming hardware gives), None where either is not finite; a finite claim
    is a fault where distance > bound. reason: a few words for people."""

    is_fault: bool
    exact: Fraction | None
    bound: Fraction
    distance: Fraction | None
    reason: str


@dataclass(frozen=True, slots=True)
class _Answer:
    """What an operation may give: each of `targets`, give or take `bound`. reach: the largest magnitude that
    may be met on the way."""

    exact: Fraction | None
    targets: tuple[Interval, ...]
    bound: Fraction
    reach: Fraction


# --- Judging ------------------------------------------------------------------------------------------------
def judge_element(
    node: Node, number: int, fetch: Fetch, claimed: int, numeric_format: str = "float32"
) -> Judgement:
    """Judges the `number`-th output element of a node of a valid program, claimed as float32 bits, of
    QUANTIZE as a signed integer. Raises InvalidInput for no such element, an index outside its table, or what
    judge_operation refuses."""
    if not 0 <= number < node.elements:
        raise _refuse("the node has no such element", f"0 to {node.elements - 1}", number)
    terms = list(read_terms(node, number, fetch))
    return judge_operation(node.operation, terms, claimed, numeric_format, node.selected)


def judge_operation(
    operation: Operation, terms: Terms, claimed: int, numeric_format: str = "float32", bits: int = 0
) -> Judgement:
    """Judges one element from the values that it depends on (see Terms). bits: of quantized values, for
    SCALE_OF and QUANTIZE. Raises InvalidInput for an unknown format, an operation that it does not have, a
    wrong number of values, or values that are not 32 bits."""
    if numeric_format not in (*FORMATS, *PRODUCT_BITS):
        raise _refuse("an unknown numeric format", sorted({*FORMATS, *PRODUCT_BITS}), numeric_format)
    _require_terms(operation, terms, claimed)
    if numeric_format in PRODUCT_BITS:
        return _judge_exact(operation, terms, claimed, bits)
    if operation not in BOUNDED_OPERATIONS:
        raise _refuse("an operation of exact programs", "another format", operation.name)
    terms = _choose_finite(terms) if operation is Operation.FINITE_SELECT else terms
    if not all(is_finite(bits) for term in terms for bits in term):
        return _acquit("an operand is not finite")
    answer = _answer(operation, terms, FORMATS[numeric_format])
    return _compare(claimed, answer) if answer else _acquit("the operation is undefined here")


def _judge_exact(operation: Operation, terms: Terms, claimed: int, bits: int) -> Judgement:
    """A claim is right where its bits are: NaN has one pattern, and zero two that differ."""
    if operation in (Operation.SCALE_OF, Operation.QUANTIZE) and bits not in QUANTIZED_LIMITS:
        raise _refuse("not the bits of quantized values", sorted(QUANTIZED_LIMITS), bits)
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


def _compare(claimed: int, answer: _Answer) -> Judgement:
    exact, bound = answer.exact, answer.bound
    if not is_finite(claimed):
        is_fault = answer.reach < SAFE
        return Judgement(is_fault, exact, bound, None, f"not finite{' without cause' if is_fault else ''}")
    if exact is None:
        return Judgement(True, None, bound, None, "finite where nothing finite is near")
    targets = answer.targets or ((exact, exact),)  # nothing finite is right: a fault, at this distance
    value = to_fraction(claimed)
    distance = min(max(low - value, value - high, Fraction(0)) for low, high in targets)
    is_fault = distance > bound
    return Judgement(is_fault, exact, bound, distance, f"{'outside' if is_fault else 'within'} the bound")


def read_terms(node: Node, number: int, fetch: Fetch) -> Iterator[tuple[int, ...]]:
    """The values that an element depends on, indices resolved: SELECTED_SUM has a term for each match,
    EQUAL_SELECT the chosen operand only, and nothing else is fetched."""
    for indices, elements in iterate_terms(node, number):
        buffers = [operand.buffer for operand in node.operands]
        if node.operation not in INDEXED:
            yield tuple(map(fetch, buffers, elements))
            continue
        index = fetch(buffers[0], elements[0])
        if node.operation is Operation.GATHER:
            _require_index(index, MAX_ELEMENTS)  # how many rows the table has, `fetch` knows
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
    if operation in _CHUNKED:
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
        remedy="Pass what the program and the proved leaves say; nothing was judged.",
    )


# --- Sums: exact, with the bound of any order ---------------------------------------------------------------
_SUMS = frozenset({Operation.PRODUCT_SUM, Operation.SUM, Operation.SELECTED_SUM})
_CHUNKED = _SUMS | {Operation.SCALE_OF, Operation.QUANTIZED_PRODUCT_SUM}
"""Reductions of at most as many terms as the longest chunk."""


def _add_products(terms: Terms, numeric_format: NumericFormat) -> _Answer:
    """[(1 + e)^2 (1 + gamma_n) - 1] S + n 2^-124, and (1 + e)^2 (1 + gamma_n) |a b| more for each term with a
    subnormal operand: it may vanish when read, or double when it is rounded to fewer bits."""
    products = [to_units(a) * to_units(b) for a, b in terms]  # in units of 2^-298
    lost = [abs(p) for p, term in zip(products, terms, strict=True) if any(map(is_subnormal, term))]
    exact, size, at_risk = sum(products), sum(map(abs, products)), sum(lost)
    error = numeric_format.input_error
    growth = (1 + error) ** 2 / (1 - len(terms) * numeric_format.unit)
    bound = ((growth - 1) * size + growth * at_risk) * UNIT**2 + len(terms) * UNDERFLOW
    reach = growth * size * UNIT**2
    if error:  # an operand that is rounded up may become infinite
        reach = max(reach, *((1 + error) * abs(to_fraction(bits)) for term in terms for bits in term))
    return _Answer(exact * UNIT**2, ((exact * UNIT**2,) * 2,), bound, reach)


def _add(terms: Terms) -> _Answer:
    """gamma_(n-1) S + n 2^-124; no term gives 0 and one term itself."""
    if len(terms) < 2:
        return _copy(terms[0][0] if terms else 0)
    units = [to_units(a) for (a,) in terms]
    exact, size = sum(units) * UNIT, sum(map(abs, units)) * UNIT
    growth = 1 / (1 - (len(terms) - 1) * FLOAT32_UNIT)
    return _Answer(exact, ((exact, exact),), (growth - 1) * size + len(terms) * UNDERFLOW, growth * size)


# --- One correctly rounded operation: one of few values -----------------------------------------------------
def _round(operation: Operation, a: int, b: int) -> _Answer | None:
    """The rounded result, of the operands or of these with 0 for subnormal ones; 0 where it is tiny."""
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


def _take_root(a: int) -> _Answer | None:
    if to_units(a) < 0:
        return None
    significand, half = split_even(a)
    exact = isqrt(significand << 200) * Fraction(2) ** (half - 100)
    return _allow(exact, {to_fraction(square_root(a)), to_fraction(square_root(_flush(a)))})


def _flush(bits: int) -> int:
    return 0 if is_subnormal(bits) else bits


def _allow(exact: Fraction, allowed: set[Fraction]) -> _Answer:
    return _Answer(exact, tuple((value, value) for value in sorted(allowed)), Fraction(0), abs(exact))


# --- Choosing: one of the operands --------------------------------------------------------------------------
def _copy(bits: int) -> _Answer:
    value = to_fraction(bits)
    return _allow(value, {value, to_fraction(_flush(bits))})


def _choose_extreme(terms: Terms, pick: Callable[[list[Fraction]], Fraction]) -> _Answer:
    """A machine that takes subnormal numbers for 0 cannot tell them apart: it may give any of those."""
    values = [to_fraction(bits) for term in terms for bits in term]
    exact = pick(values)
    tiny = {value for value in values if abs(value) < LEAST_NORMAL} | {Fraction(0)}
    return _allow(exact, {exact, *(tiny if abs(exact) < LEAST_NORMAL else ())})


def _drop_small(a: int, threshold: int) -> _Answer:
    value, least = to_fraction(a), to_fraction(threshold)
    exact = value if abs(value) >= least else Fraction(0)
    allowed = {exact, to_fraction(_flush(a)) if exact else exact}
    if is_subnormal(a) and is_subnormal(threshold):  # 0 >= 0 on a machine that takes both for 0
        allowed.add(value)
    return _allow(exact, allowed)


# --- Functions: enclosed, with a few units in the last place ------------------------------------------------
def _enclose(operation: Operation, a: int) -> _Answer | None:
    """ULPS units in the last place, and 2^-126 where the value is below 2^-125, or always for SIGMOID."""
    needs_sign = operation in (Operation.LOGARITHM, Operation.RECIPROCAL_ROOT)
    if needs_sign and (to_units(a) <= 0 or is_subnormal(a)):
        return None
    if operation is Operation.EXPONENTIAL and to_fraction(a) > LIMIT:
        return _Answer(None, (), Fraction(0), SAFE)
    low, high = ENCLOSURES[operation](a)
    largest, smallest = max(abs(low), abs(high)), min(abs(low), abs(high))
    bound = ULPS[operation] * spacing(largest) if largest else Fraction(0)
    if smallest < 2 * LEAST_NORMAL or operation is Operation.SIGMOID:
        bound += LEAST_NORMAL
    return _Answer((low + high) / 2, ((low, high),), bound, largest)


def _answer(operation: Operation, terms: Terms, numeric_format: NumericFormat) -> _Answer | None:
    """What finite operands may give; None where the operation is undefined."""
    if operation is Operation.PRODUCT_SUM:
        return _add_products(terms, numeric_format)
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
