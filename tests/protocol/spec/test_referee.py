"""The referee: what honest machines compute is never a fault, and what none can compute always is.

Honest results come from numpy's float32, in several orders and with subnormal numbers kept or flushed; faults
are planted just outside of what is allowed.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
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
    Terms,
    as_terms,
    flush,
    is_fault,
    to_bits,
    to_numpy,
)
from touchstone.protocol.spec import float32, referee
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.float32 import to_fraction
from touchstone.protocol.spec.program import Access, Node
from touchstone.protocol.spec.program_operations import BOUNDED_OPERATIONS, Operation
from touchstone.protocol.spec.referee import Judgement, judge_element, judge_operation

FINITE = st.one_of(
    st.sampled_from(EDGES + [bits | NEGATIVE for bits in EDGES]),
    st.integers(0, (1 << 32) - 1).filter(float32.is_finite),
)
ROUNDED = [Operation.ADD, Operation.SUBTRACT, Operation.MULTIPLY, Operation.DIVIDE]
NUMPY: dict[Operation, Callable[..., Any]] = {
    Operation.ADD: np.add, Operation.SUBTRACT: np.subtract, Operation.MULTIPLY: np.multiply,
    Operation.DIVIDE: np.divide, Operation.MAXIMUM: np.maximum, Operation.MINIMUM: np.minimum,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def above(value: Fraction) -> int:
    """The float32 at or next above a positive number."""
    bits = float32.round_to_bits(value)
    return bits if to_fraction(bits) >= value else bits + 1


def plant(operation: Operation, terms: Terms) -> list[int]:
    """Claims beyond the bound: by twice the bound and by just more than it, on both sides."""
    judged = judge_operation(operation, terms, 0)
    assert judged.exact is not None
    claims = []
    for sign in (1, -1):
        for share in (Fraction(2), Fraction(1) + Fraction(1, 1 << 20)):
            far = judged.exact + sign * share * (judged.bound + float32.spacing(judged.exact))
            claims.append(above(abs(far)) | (NEGATIVE if far < 0 else 0))
    return [bits for bits in claims if float32.is_finite(bits)]


# Product sums
def sum_in_order(values: Any, keep: bool = True) -> int:
    """Sequential float32 additions; keep=False flushes every partial sum."""
    total = np.float32(0)
    for value in values:
        total = np.float32(total + value)
        total = total if keep else to_numpy(flush(to_bits(total)))
    return to_bits(total)


def multiply_in_ways(a: Any, b: Any) -> list[int]:
    """What conforming machines may give for one product sum."""
    products = a * b
    fused = np.float32(0)
    for x, y in zip(a.astype(np.float64), b.astype(np.float64), strict=True):
        fused = np.float32(np.float64(fused) + x * y)  # the product is exact, the sum rounded twice at most
    flushed = to_numpy([flush(int(p)) for p in (read_flushed(a) * read_flushed(b)).view(np.uint32)])
    return [
        sum_in_order(products), sum_in_order(products[::-1]), sum_in_order(np.sort(products)),
        to_bits(products.sum()), to_bits(np.dot(a, b)), to_bits(fused), sum_in_order(flushed, keep=False),
    ]  # fmt: skip


def read_flushed(values: Any) -> Any:
    return to_numpy([flush(int(bits)) for bits in values.view(np.uint32)])


def make_pairs(kind: str, count: int, seed: int) -> tuple[Any, Any]:
    """Random operands of a nasty kind."""
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal(count).astype(np.float32) for _ in range(2))
    if kind == "cancelling":
        half = count // 2
        a[half : 2 * half], b[half : 2 * half] = a[:half], -b[:half]
    elif kind == "wide":
        a, b = (x * np.exp2(rng.integers(-60, 60, count)).astype(np.float32) for x in (a, b))
    elif kind == "subnormal":
        a, b = a * np.float32(2.0**-64), b * np.float32(2.0**-64)
    elif kind == "tiny":
        a, b = (a * np.float32(2.0**-130)).astype(np.float32), b * np.float32(2.0**20)
    elif kind == "ties":
        a, b = (np.round(x * 2).astype(np.float32) * np.float32(2.0**12 + 0.5) for x in (a, b))
    return a, b


KINDS = ["plain", "cancelling", "wide", "subnormal", "tiny", "ties"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 2, 16, 128, 512])
def test_product_sum_in_any_order_is_honest_and_beyond_the_bound_a_fault(kind: str, count: int) -> None:
    a, b = make_pairs(kind, count, count)
    terms = as_terms(a, b)
    for claimed in multiply_in_ways(a, b):
        assert not is_fault(Operation.PRODUCT_SUM, terms, claimed)
    for claimed in plant(Operation.PRODUCT_SUM, terms):
        assert is_fault(Operation.PRODUCT_SUM, terms, claimed)


@pytest.mark.parametrize("digits", [11, 8])
def test_operands_of_fewer_digits_are_a_fault(digits: int) -> None:
    worst = to_bits(1 + 2.0 ** (1 - digits) - 2.0**-23)
    assert is_fault(Operation.PRODUCT_SUM, [(worst, worst)], to_bits(1.0))


def test_a_subnormal_operand_may_count_for_nothing() -> None:
    terms = [(TINY, to_bits(2.0**127)), (to_bits(2.0**-30), to_bits(1.0))]
    assert not is_fault(Operation.PRODUCT_SUM, terms, to_bits(2.0**-30))
    normal = [(NORMAL, to_bits(2.0**127)), terms[1]]
    assert is_fault(Operation.PRODUCT_SUM, normal, to_bits(2.0**-30))


@given(st.lists(st.tuples(FINITE, FINITE), min_size=1, max_size=6))
def test_product_sum_of_any_bits_is_honest(terms: list[tuple[int, int]]) -> None:
    a, b = (to_numpy(column) for column in zip(*terms, strict=True))
    for claimed in multiply_in_ways(a, b):
        assert not is_fault(Operation.PRODUCT_SUM, terms, claimed)


def test_the_bound_of_a_product_sum_is_the_formula() -> None:
    a, b = make_pairs("plain", 128, 1)
    a[0], b[0] = to_numpy(TINY), 2.0**127
    at_risk = to_fraction(TINY) * 2**127
    size = sum(abs(Fraction(float(x)) * Fraction(float(y))) for x, y in zip(a, b, strict=True))
    share = Fraction(128, 1 << 24)
    gamma = share / (1 - share)
    judged = judge_operation(Operation.PRODUCT_SUM, as_terms(a, b), 0)
    assert judged.bound == gamma * size + (1 + gamma) * at_risk + Fraction(128, 1 << 124)


# Sums
@pytest.mark.parametrize("operation", [Operation.SUM, Operation.SELECTED_SUM])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [2, 3, 64, 512])
def test_sum_in_any_order_is_honest_and_beyond_the_bound_a_fault(
    operation: Operation, kind: str, count: int
) -> None:
    values, _ = make_pairs(kind, count, count)
    terms = as_terms(values)
    ways = [sum_in_order(values), sum_in_order(values[::-1]), to_bits(values.sum())]
    for claimed in (*ways, sum_in_order(read_flushed(values), keep=False)):
        assert not is_fault(operation, terms, claimed)
    for claimed in plant(operation, terms):
        assert is_fault(operation, terms, claimed)


def test_sums_of_no_or_one_term_are_exact() -> None:
    assert not is_fault(Operation.SELECTED_SUM, [], NEGATIVE)
    assert is_fault(Operation.SELECTED_SUM, [], 1)
    for operation in (Operation.SUM, Operation.SELECTED_SUM):
        assert not is_fault(operation, [(0x40490FDB,)], 0x40490FDB)
        assert is_fault(operation, [(0x40490FDB,)], 0x40490FDC)
        assert not is_fault(operation, [(TINY,)], 0)
        assert is_fault(operation, [(NORMAL,)], 0)


def test_the_bound_of_a_sum_counts_additions() -> None:
    judged = judge_operation(Operation.SUM, [(to_bits(1.0),), (to_bits(-3.0),)], to_bits(-2.0))
    assert judged.bound == Fraction(4, (1 << 24) - 1) + Fraction(2, 1 << 124)
    assert judged.exact == -2 and judged.distance == 0


# Correctly rounded
def is_undefined(operation: Operation, b: int) -> bool:
    return operation is Operation.DIVIDE and flush(b) & ~NEGATIVE == 0


@pytest.mark.parametrize("operation", ROUNDED)
@given(FINITE, FINITE)
@example(NORMAL, NORMAL | 1)
@example(0x3F800001, 0x33800000)
@example(LARGEST, 0x73000000)
@example(NORMAL, 0x3F7FFFFF)
@example(TINY, 0x3F000000)
@example(TINY, LARGEST)
def test_rounded_results_and_their_flushed_twins_are_honest(operation: Operation, a: int, b: int) -> None:
    function = NUMPY[operation]
    for x, y in ((a, b), (flush(a), flush(b))):
        honest = to_bits(function(to_numpy(x), to_numpy(y)))
        assert not is_fault(operation, [(a, b)], honest)
        assert not is_fault(operation, [(a, b)], flush(honest))


@pytest.mark.parametrize("operation", ROUNDED)
@given(FINITE, FINITE)
def test_one_ulp_off_a_rounded_result_is_a_fault(operation: Operation, a: int, b: int) -> None:
    if is_undefined(operation, b):
        return
    function = NUMPY[operation]
    pairs = ((a, b), (flush(a), flush(b)))
    honest = {to_bits(function(to_numpy(x), to_numpy(y))) for x, y in pairs}
    honest |= {flush(bits) for bits in honest}
    for bits in list(honest):
        for claimed in (bits + 1, bits - 1):
            is_number = 0 <= claimed < 1 << 32 and float32.is_finite(claimed) and claimed & ~NEGATIVE
            if is_number and claimed not in honest:
                assert is_fault(operation, [(a, b)], claimed)


def test_a_result_that_rounds_up_to_normal_may_be_flushed() -> None:
    terms = [(NORMAL, 0x3F7FFFFF)]
    assert to_bits(to_numpy(NORMAL) * to_numpy(0x3F7FFFFF)) == NORMAL
    assert not is_fault(Operation.MULTIPLY, terms, 0)
    assert is_fault(Operation.MULTIPLY, [(NORMAL, 0x3F800000)], 0)


def test_a_finite_claim_where_only_infinity_is_right_is_a_fault() -> None:
    judged = judge_operation(Operation.ADD, [(LARGEST, LARGEST)], LARGEST)
    assert judged.is_fault and judged.distance == to_fraction(LARGEST)
    assert not is_fault(Operation.ADD, [(LARGEST, LARGEST)], INFINITY)


@given(FINITE.map(lambda bits: bits & ~NEGATIVE))
@example(TINY)
@example(1)
@example(LARGEST)
@example(0x3F7FFFFF)
def test_square_root(a: int) -> None:
    honest = to_bits(np.sqrt(to_numpy(a)))
    assert not is_fault(Operation.SQUARE_ROOT, [(a,)], honest)
    assert is_fault(Operation.SQUARE_ROOT, [(a,)], honest + 1)
    if float32.is_subnormal(a):
        assert not is_fault(Operation.SQUARE_ROOT, [(a,)], 0)
    elif a:
        assert is_fault(Operation.SQUARE_ROOT, [(a,)], 0)
        assert is_fault(Operation.SQUARE_ROOT, [(a,)], honest - 1)


def test_square_root_of_minus_zero_is_zero_and_of_less_undefined() -> None:
    assert not is_fault(Operation.SQUARE_ROOT, [(NEGATIVE,)], 0)
    assert is_fault(Operation.SQUARE_ROOT, [(NEGATIVE,)], INFINITY)
    assert not is_fault(Operation.SQUARE_ROOT, [(to_bits(-1.0),)], to_bits(17.0))


# Choosing
@pytest.mark.parametrize("operation", [Operation.MAXIMUM, Operation.MINIMUM])
@given(FINITE, FINITE)
@example(TINY, TINY | NEGATIVE)
@example(NORMAL, NORMAL | NEGATIVE)
def test_the_larger_and_the_smaller(operation: Operation, a: int, b: int) -> None:
    honest = to_bits(NUMPY[operation](to_numpy(a), to_numpy(b)))
    assert not is_fault(operation, [(a, b)], honest)
    assert not is_fault(operation, [(a, b)], flush(honest))
    other = b if to_fraction(honest) == to_fraction(a) else a
    if flush(honest) & ~NEGATIVE and other != honest:
        assert is_fault(operation, [(a, b)], other)
        assert is_fault(operation, [(a, b)], 0)


def test_the_largest_of_many() -> None:
    terms = [(to_bits(x),) for x in (-5.0, -2.0, -3.0)]
    assert not is_fault(Operation.MAXIMUM_OF, terms, to_bits(-2.0))
    assert is_fault(Operation.MAXIMUM_OF, terms, to_bits(-3.0))
    assert is_fault(Operation.MAXIMUM_OF, terms, to_bits(-2.0) + 1)
    assert is_fault(Operation.MAXIMUM_OF, terms, 0)
    long = [*terms] * 5000
    assert not is_fault(Operation.MAXIMUM_OF, long, to_bits(-2.0))


def test_subnormal_numbers_may_be_confused_with_each_other_but_not_with_others() -> None:
    terms = [(TINY,), (1,), (TINY | NEGATIVE,), (to_bits(-1.0),)]
    for claimed in (TINY, 1, TINY | NEGATIVE, 0, NEGATIVE):
        assert not is_fault(Operation.MAXIMUM_OF, terms, claimed)
    for claimed in (2, 4, NORMAL, to_bits(-1.0)):
        assert is_fault(Operation.MAXIMUM_OF, terms, claimed)
    assert is_fault(Operation.MAXIMUM, [(1, NORMAL | NEGATIVE)], NORMAL | NEGATIVE)


@given(FINITE, FINITE)
@example(NORMAL, NORMAL)
@example(1, TINY)
@example(TINY, NORMAL)
def test_flush(a: int, threshold: int) -> None:
    honest = a if abs(to_numpy(a)) >= to_numpy(threshold) else 0
    on_other = a if abs(to_numpy(flush(a))) >= to_numpy(flush(threshold)) else 0
    for claimed in (honest, flush(honest), on_other, flush(on_other)):
        assert not is_fault(Operation.FLUSH, [(a, threshold)], claimed)
    if honest != on_other:
        return
    if honest:
        assert is_fault(Operation.FLUSH, [(a, threshold)], 0) == (flush(a) & ~NEGATIVE != 0)
    elif a & ~NEGATIVE:
        assert is_fault(Operation.FLUSH, [(a, threshold)], a)
    assert is_fault(Operation.FLUSH, [(a, threshold)], a ^ 8) == ((a ^ 8) & ~NEGATIVE != 0)


@pytest.mark.parametrize(
    "operation", [Operation.GATHER, Operation.EQUAL_SELECT, Operation.FINITE_SELECT, Operation.COPY]
)
@given(FINITE)
def test_copies_are_exact_or_flushed(operation: Operation, a: int) -> None:
    terms = [(0, a, to_bits(77.0))] if operation is Operation.FINITE_SELECT else [(a,)]
    assert not is_fault(operation, terms, a)
    assert not is_fault(operation, terms, flush(a))
    assert is_fault(operation, terms, a ^ 8) == ((a ^ 8) & ~NEGATIVE != 0)
    assert is_fault(operation, terms, 0) == (flush(a) & ~NEGATIVE != 0)


def test_finite_select_judges_by_its_condition_which_may_be_anything() -> None:
    yes, no = to_bits(1.0), to_bits(2.0)
    for condition, right, wrong in ((0, yes, no), (LARGEST, yes, no), (INFINITY, no, yes)):
        assert not is_fault(Operation.FINITE_SELECT, [(condition, yes, no)], right)
        assert is_fault(Operation.FINITE_SELECT, [(condition, yes, no)], wrong)
    assert is_fault(Operation.FINITE_SELECT, [(NOT_A_NUMBER, NOT_A_NUMBER, no)], NOT_A_NUMBER)
    assert not is_fault(Operation.FINITE_SELECT, [(NOT_A_NUMBER, yes, INFINITY)], INFINITY)


# What is not finite
UNIFORM: list[tuple[Operation, Terms]] = [
    (Operation.PRODUCT_SUM, [(0x3F800000, 0x3F800000)] * 3), (Operation.SUM, [(0x3F800000,)] * 3),
    (Operation.SELECTED_SUM, [(0x3F800000,)] * 2), (Operation.MAXIMUM_OF, [(0x3F800000,)] * 2),
    *((operation, [(0x3F800000, 0x40000000)]) for operation in (*NUMPY, Operation.FLUSH)),
    *((operation, [(0x3F800000,)]) for operation in (*FUNCTIONS, Operation.SQUARE_ROOT)),
    (Operation.GATHER, [(0x3F800000,)]), (Operation.EQUAL_SELECT, [(0x3F800000,)]),
    (Operation.COPY, [(0x3F800000,)]),
    (Operation.FINITE_SELECT, [(INFINITY, INFINITY, 0x3F800000)]), (Operation.SELECTED_SUM, []),
]  # fmt: skip


def test_the_list_names_every_operation() -> None:
    assert {operation for operation, _ in UNIFORM} == set(BOUNDED_OPERATIONS)


@pytest.mark.parametrize(("operation", "terms"), UNIFORM)
@pytest.mark.parametrize("claimed", [INFINITY, INFINITY | NEGATIVE, NOT_A_NUMBER])
def test_a_claim_that_is_not_finite_without_cause_is_a_fault(
    operation: Operation, terms: Terms, claimed: int
) -> None:
    judged = judge_operation(operation, terms, claimed)
    assert judged.is_fault and judged.distance is None


@pytest.mark.parametrize(("operation", "terms"), [case for case in UNIFORM if case[1]])
@pytest.mark.parametrize("poison", [INFINITY, INFINITY | NEGATIVE, NOT_A_NUMBER])
def test_an_operand_that_is_not_finite_excuses_everything(
    operation: Operation, terms: Terms, poison: int
) -> None:
    poisoned = [*terms[:-1], (*terms[-1][:-1], poison)]
    for claimed in (0, NOT_A_NUMBER, to_bits(123.0)):
        assert judge_operation(operation, poisoned, claimed) == Judgement(
            False, None, Fraction(0), None, "an operand is not finite"
        )


@pytest.mark.parametrize(
    ("operation", "terms", "safe_terms"),
    [
        (Operation.ADD, [(to_bits(2.0**126),) * 2], [(to_bits(2.0**126), to_bits(2.0**126) - 1)]),
        (Operation.PRODUCT_SUM, [(to_bits(2.0**126), 0x3F800000), (to_bits(-(2.0**126)), 0x3F800000)],
         [(to_bits(2.0**126), 0x3F800000), (to_bits(-(2.0**125)), 0x3F800000)]),
        (Operation.SUM, [(to_bits(2.0**126),), (to_bits(-(2.0**126)),)],
         [(to_bits(2.0**126),), (to_bits(-(2.0**125)),)]),
        (Operation.EXPONENTIAL, [(to_bits(88.1),)], [(to_bits(88.0),)]),
        (Operation.EXPONENTIAL, [(to_bits(1000.0),)], [(to_bits(-1000.0),)]),
        (Operation.GATHER, [(to_bits(2.0**127),)], [(to_bits(2.0**127) - 1,)]),
        (Operation.DIVIDE, [(0x3F800000, TINY)], [(0x3F800000, NORMAL)]),
        (Operation.DIVIDE, [(0x3F800000, 0)], [(0, 0x3F800000)]),
    ],
)  # fmt: skip
def test_only_a_safely_finite_value_convicts_what_is_not(
    operation: Operation, terms: Terms, safe_terms: Terms
) -> None:
    for claimed in (INFINITY, NOT_A_NUMBER):
        assert not is_fault(operation, terms, claimed)
        assert is_fault(operation, safe_terms, claimed)


def test_a_large_operand_of_a_small_product_does_not_excuse_an_infinity() -> None:
    assert is_fault(Operation.PRODUCT_SUM, [(LARGEST, to_bits(2.0**-10))], INFINITY)


def test_a_finite_claim_for_a_huge_exponential_is_a_fault() -> None:
    for x in (90.0, 127.0, 129.0, 1e30):
        judged = judge_operation(Operation.EXPONENTIAL, [(to_bits(x),)], LARGEST)
        assert judged.is_fault and (judged.exact is None) == (x > 128)


# Nodes
def fetch_from(buffers: list[list[int]], log: list[tuple[int, int]] | None = None) -> referee.Fetch:
    def fetch(buffer: int, element: int) -> int:
        if not 0 <= element < len(buffers[buffer]):
            raise InvalidInput(what="no such element", expected="less", actual=element, remedy="Stop.")
        if log is not None:
            log.append((buffer, element))
        return buffers[buffer][element]

    return fetch


OUT = Access(9, 0, (1,))


def floats(*values: float) -> list[int]:
    return [to_bits(value) for value in values]


def test_a_matrix_product_is_judged_by_its_own_rows_and_columns() -> None:
    """[2, 3] by [3, 4], the second operand stored transposed; every wrong wiring is convicted."""
    rng = np.random.default_rng(7)
    a, b = rng.standard_normal((2, 3)).astype(np.float32), rng.standard_normal((4, 3)).astype(np.float32)
    node = Node(
        Operation.PRODUCT_SUM, (2, 4, 3), 1, Access(9, 0, (4, 1)),
        (Access(0, 0, (3, 0, 1)), Access(1, 0, (0, 3, 1))),
    )  # fmt: skip
    buffers = [[int(x) for x in matrix.reshape(-1).view(np.uint32)] for matrix in (a, b)]
    honest = (a @ b.T).reshape(-1)
    for number in range(8):
        for other in range(8):
            judged = judge_element(node, number, fetch_from(buffers), to_bits(honest[other]))
            assert judged.is_fault == (number != other)


def test_an_elementwise_operand_from_another_place_is_convicted() -> None:
    node = Node(Operation.SUBTRACT, (3,), 0, OUT, (Access(0, 2, (-1,)), Access(1, 0, (1,))))
    fetch = fetch_from([floats(1, 2, 3), floats(10, 20, 30)])
    assert not judge_element(node, 0, fetch, to_bits(3 - 10)).is_fault
    assert judge_element(node, 0, fetch, to_bits(1 - 10)).is_fault
    assert judge_element(node, 0, fetch, to_bits(10 - 3)).is_fault
    assert judge_element(node, 0, fetch, to_bits(3 - 20)).is_fault


def test_gather_reads_where_the_index_points() -> None:
    """Rows of a [4, 2] table for 3 indices."""
    node = Node(
        Operation.GATHER, (3, 2), 0, Access(9, 0, (2, 1)), (Access(0, 0, (1, 0)), Access(1, 0, (0, 1))), 2
    )
    table = floats(0, 1, 10, 11, 20, 21, 30, 31)
    log: list[tuple[int, int]] = []
    fetch = fetch_from([[3, 0, 1], table], log)
    for number, right in enumerate(floats(30, 31, 0, 1, 10, 11)):
        assert not judge_element(node, number, fetch, right).is_fault
        assert all(judge_element(node, number, fetch, wrong).is_fault for wrong in table if wrong != right)
    assert (1, 6) in log and (1, 4) not in log
    for index in (-1, 4, 1 << 60):
        with pytest.raises(InvalidInput):
            judge_element(node, 0, fetch_from([[index], table]), 0)
    later = Node(Operation.GATHER, (1,), 0, OUT, (Access(0, 0, (1,)), Access(1, 2, (1,))), 2)
    with pytest.raises(InvalidInput, match="index"):  # though the buffer has an element there
        judge_element(later, 0, fetch_from([[-1], table]), 0)


def test_equal_select_reads_the_chosen_operand_only() -> None:
    """A row of 4 for each of 2 labels: a constant where the label stands, else another."""
    node = Node(
        Operation.EQUAL_SELECT, (2, 4), 0, Access(9, 0, (4, 1)),
        (Access(0, 0, (1, 0)), Access(1, 0, (4, 1)), Access(2, 0, (0, 0))), 1,
    )  # fmt: skip
    log: list[tuple[int, int]] = []
    fetch = fetch_from([[2, 0], floats(*range(1, 9)), floats(-1)], log)
    expected = floats(-1, -1, 3, -1, 5, -1, -1, -1)
    for number, right in enumerate(expected):
        assert not judge_element(node, number, fetch, right).is_fault
        assert judge_element(
            node, number, fetch, to_bits(number + 1 if right == to_bits(-1) else -1)
        ).is_fault
    assert {place for place in log if place[0] == 1} == {(1, 2), (1, 4)}
    for index in (-100, 4):
        with pytest.raises(InvalidInput, match="index"):
            judge_element(node, 0, fetch_from([[index], [0] * 8, [0]]), 0)


def test_selected_sum_adds_and_reads_the_matches_only() -> None:
    """Gradient of a [3, 2] table from 4 positions."""
    node = Node(
        Operation.SELECTED_SUM, (3, 2, 4), 1, Access(9, 0, (2, 1)),
        (Access(0, 0, (0, 0, 1)), Access(1, 0, (0, 1, 2))), 0,
    )  # fmt: skip
    log: list[tuple[int, int]] = []
    fetch = fetch_from([[2, 0, 2, 2], floats(1, 2, 10, 20, 100, 200, 1000, 2000)], log)
    for number, right in enumerate(floats(10, 20, 0, 0, 1101, 2202)):
        assert not judge_element(node, number, fetch, right).is_fault
        assert judge_element(node, number, fetch, right + 8).is_fault
    log.clear()
    judge_element(node, 0, fetch, 0)
    assert [place for place in log if place[0] == 1] == [(1, 2)]
    with pytest.raises(InvalidInput, match="index"):
        judge_element(node, 0, fetch_from([[3, 0, 0, 0], floats(*range(8))]), 0)


def test_reductions_run_over_several_loops() -> None:
    node = Node(Operation.SUM, (2, 2, 2), 2, OUT, (Access(0, 0, (1, 2, 4)),))
    fetch = fetch_from([floats(1, 2, 4, 8, 16, 32, 64, 128)])
    assert not judge_element(node, 0, fetch, to_bits(1 + 4 + 16 + 64)).is_fault
    assert not judge_element(node, 1, fetch, to_bits(2 + 8 + 32 + 128)).is_fault
    assert judge_element(node, 1, fetch, to_bits(2 + 8 + 32 + 64)).is_fault


# Bad input
@pytest.mark.parametrize("number", [-1, 2])
def test_an_element_that_the_node_lacks_is_refused(number: int) -> None:
    node = Node(Operation.SQUARE_ROOT, (2,), 0, OUT, (Access(0, 0, (1,)),))
    with pytest.raises(InvalidInput, match="no such element"):
        judge_element(node, number, fetch_from([floats(1, 1)]), 0)


@pytest.mark.parametrize(
    ("operation", "terms", "claimed", "numeric_format"),
    [
        (Operation.ADD, [(0, 0)], 0, "float16"), (Operation.ADD, [(0, 0)], 0, "bf16"),
        (Operation.ADD, [(0, 0)], 1 << 32, "float32"),
        (Operation.ADD, [(0, 0)], -1, "float32"), (Operation.ADD, [(0, 1 << 32)], 0, "float32"),
        (Operation.ADD, [(0,)], 0, "float32"), (Operation.ADD, [(0, 0)] * 2, 0, "float32"),
        (Operation.ADD, [], 0, "float32"), (Operation.SUM, [], 0, "float32"),
        (Operation.MAXIMUM_OF, [], 0, "float32"), (Operation.SUM, [(0,)] * 4097, 0, "float32"),
        (Operation.FINITE_SELECT, [(0, 0)], 0, "float32"), (Operation.COPY, [(0, 0)], 0, "float32"),
        (Operation.COPY, [(0,)] * 2, 0, "float32"), (Operation.COPY, [], 0, "float32"),
        (Operation.EQUAL_SELECT, [(0, 0, 0)], 0, "float32"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(operation: Operation, terms: Terms, claimed: int, numeric_format: str) -> None:
    with pytest.raises(InvalidInput, match="Nothing was judged"):
        judge_operation(operation, terms, claimed, numeric_format)
