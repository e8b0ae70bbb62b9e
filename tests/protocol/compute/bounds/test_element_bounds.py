"""Bounds of elementwise operations: what conforming machines give is clear, the next float32 is not."""

from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from math import inf, nan

import pytest
import torch
from torch import Tensor

from protocol.compute.bounds.element_bounds import ELEMENT_CHECKS
from protocol.spec.errors import InvalidInput
from protocol.spec.float32 import nearest
from protocol.spec.program import Access, Node, Operation
from tests.protocol.compute.bounds.claims import LEAST, TINY, find_last_clear, find_outside

DIGITS = 60
"""Of the decimals in which exact values are found."""


def is_outside(operation: Operation, claimed: float, *operands: float) -> bool:
    node = build(operation, 1, len(operands))
    return find_outside(
        ELEMENT_CHECKS, node, torch.tensor([claimed]), *(torch.tensor([x]) for x in operands)
    ) == [0]


def build(operation: Operation, size: int, operands: int) -> Node:
    """One loop; the output is buffer 0."""
    reads = tuple(Access(1 + place, 0, (1,)) for place in range(operands))
    return Node(operation, (size,), 0, Access(0, 0, (1,)), reads)


def step_all(values: Tensor, towards: float) -> Tensor:
    return torch.nextafter(values, torch.tensor(towards))


# --- One rounding -------------------------------------------------------------------------------------------
def take_root(a: Fraction) -> Fraction:
    with localcontext(prec=DIGITS):
        return Fraction((Decimal(a.numerator) / Decimal(a.denominator)).sqrt())


EXACT: dict[Operation, Callable[..., Fraction]] = {
    Operation.ADD: lambda a, b: a + b,
    Operation.SUBTRACT: lambda a, b: a - b,
    Operation.MULTIPLY: lambda a, b: a * b,
    Operation.DIVIDE: lambda a, b: a / b,
    Operation.SQUARE_ROOT: take_root,
}


@pytest.mark.parametrize("operation", EXACT)
def test_only_the_correctly_rounded_result_is_clear(operation: Operation) -> None:
    generator = torch.Generator().manual_seed(operation)
    count = 1 if operation is Operation.SQUARE_ROOT else 2
    operands = [torch.randn(300, generator=generator).abs() + 2.0**-10 for _ in range(count)]
    operands[-1][:100] = 1 + 2.0**-24 * torch.randint(
        1, 9, (100,), generator=generator
    )  # ties are among them
    exact = [
        EXACT[operation](*map(Fraction, values))
        for values in zip(*(x.tolist() for x in operands), strict=True)
    ]
    right, node = torch.tensor([nearest(value) for value in exact]), build(operation, 300, count)
    assert find_outside(ELEMENT_CHECKS, node, right, *operands) == []
    for towards in (inf, -inf):
        assert find_outside(ELEMENT_CHECKS, node, step_all(right, towards), *operands) == list(range(300))


# --- What may be taken for zero -----------------------------------------------------------------------------
HALF, ROUNDED_UP = LEAST / 2, (1 - 2.0**-24, LEAST)
"""A subnormal number; and two factors whose product lies below T and is rounded up to it."""
FLUSHED: list[tuple[Operation, Sequence[float], Sequence[float], Sequence[float]]] = [
    (Operation.ADD, (HALF, LEAST), (1.5 * LEAST, LEAST), (0.0, HALF, 1.5 * LEAST + TINY)),
    (Operation.SUBTRACT, (1.5 * LEAST, LEAST), (HALF, 0.0), (HALF + TINY, LEAST, -HALF)),
    (Operation.MULTIPLY, (2.0**-100, 2.0**-40), (2.0**-140, 0.0), (2.0**-140 + TINY, -(2.0**-140))),
    (Operation.MULTIPLY, (HALF, 4.0), (2 * LEAST, 0.0), (LEAST, 2 * LEAST + 2 * TINY)),
    (Operation.MULTIPLY, ROUNDED_UP, (LEAST, 0.0), (LEAST - TINY, LEAST + TINY)),
    (Operation.DIVIDE, (1.0, HALF), (2.0**127, 0.0, inf), ()),
    (Operation.SQUARE_ROOT, (2.0**-140,), (2.0**-70, 0.0), (2.0**-70 + 2.0**-93,)),
    (Operation.SQUARE_ROOT, (-1.0,), (nan, 0.0, -1.0), ()),
    (Operation.COPY, (HALF,), (HALF, 0.0), (HALF + TINY, -HALF)),
    (Operation.COPY, (LEAST,), (LEAST,), (0.0, LEAST - TINY)),
    (Operation.MAXIMUM, (HALF, TINY), (HALF, TINY, 0.0), (HALF - TINY, LEAST)),
    (Operation.MAXIMUM, (LEAST, TINY), (LEAST,), (TINY, 0.0)),
    (Operation.MINIMUM, (-1.0, TINY), (-1.0,), (TINY, 0.0)),
    (Operation.FLUSH, (1.0, 1.0), (1.0,), (0.0,)),
    (Operation.FLUSH, (0.5, 1.0), (0.0,), (0.5,)),
    (Operation.FLUSH, (TINY, HALF), (0.0, TINY), (HALF,)),
    (Operation.FLUSH, (TINY, LEAST), (0.0,), (TINY,)),
    (Operation.FINITE_SELECT, (3.0, 1.0, 2.0), (1.0,), (2.0, 0.0)),
    (Operation.FINITE_SELECT, (nan, 1.0, 2.0), (2.0,), (1.0, 0.0)),
]  # fmt: skip


@pytest.mark.parametrize("operation, operands, accepted, refused", FLUSHED)
def test_subnormals_may_be_taken_for_zero_and_nothing_else_may_differ(
    operation: Operation, operands: Sequence[float], accepted: Sequence[float], refused: Sequence[float]
) -> None:
    assert [value for value in accepted if is_outside(operation, value, *operands)] == []
    assert [value for value in refused if not is_outside(operation, value, *operands)] == []


def test_a_claim_that_is_not_finite_is_a_fault_where_the_result_is_below_two_to_the_127() -> None:
    for claimed in (inf, nan):
        assert is_outside(Operation.MULTIPLY, claimed, 2.0**63, 1.5 * 2.0**63)
        assert not is_outside(Operation.MULTIPLY, claimed, 2.0**63, 2.0**64)
        assert is_outside(Operation.EXPONENTIAL, claimed, 88.0)
        assert not is_outside(Operation.EXPONENTIAL, claimed, 88.1)
    assert not is_outside(Operation.ADD, 5.0, inf, 1.0), (
        "nothing is held against an operand that is not finite"
    )


# --- A few ulp ----------------------------------------------------------------------------------------------
FUNCTIONS: dict[Operation, tuple[int, Callable[[Decimal], Decimal]]] = {
    Operation.EXPONENTIAL: (2, lambda a: a.exp()),
    Operation.LOGARITHM: (1, lambda a: a.ln()),
    Operation.RECIPROCAL_ROOT: (2, lambda a: 1 / a.sqrt()),
    Operation.SIGMOID: (6, lambda a: 1 / (1 + (-a).exp())),
}
"""With the ulp that docs/spec.md, section 9, allows."""
SMALL_POWERS = [-86.5, -86.9, -87.3, -87.5, -95.0, -103.0]
"""Operands whose exponentials lie on both sides of 2 T and T."""


def find_ends(operation: Operation, a: float) -> tuple[float, float]:
    """The least and the largest float32 that may be claimed."""
    ulps, function = FUNCTIONS[operation]
    with localcontext(prec=DIGITS):
        exact = Fraction(function(Decimal(a)))
    unit = Fraction(TINY)
    while abs(exact) >= unit * 2**24:
        unit *= 2
    is_small = abs(exact) < 2 * Fraction(LEAST) or operation is Operation.SIGMOID
    return find_last_clear(exact, ulps * unit + (Fraction(LEAST) if is_small else 0))


@pytest.mark.parametrize("operation", FUNCTIONS)
def test_functions_may_err_by_their_ulp_and_no_float32_more(operation: Operation) -> None:
    generator = torch.Generator().manual_seed(operation)
    operands = torch.randn(200, generator=generator) * 8
    if operation in (Operation.LOGARITHM, Operation.RECIPROCAL_ROOT):
        operands = operands.exp()
    if operation in (Operation.EXPONENTIAL, Operation.SIGMOID):
        operands = torch.cat([operands, torch.tensor(SMALL_POWERS)])
    node = build(operation, len(operands), 1)
    lows, highs = torch.tensor([find_ends(operation, a) for a in operands.tolist()]).t().contiguous()
    assert (
        find_outside(ELEMENT_CHECKS, node, lows, operands)
        == find_outside(ELEMENT_CHECKS, node, highs, operands)
        == []
    )
    for beyond in (step_all(lows, -inf), step_all(highs, inf)):
        assert find_outside(ELEMENT_CHECKS, node, beyond, operands) == list(range(len(operands)))


def test_the_exponential_of_a_graphics_card_is_honest() -> None:
    """Here CUDA errs most of all float32: by 1.931 ulp (docs/decisions/0039-graphics-cards.md). That is the
    nearest result and two more steps."""
    a = -13.899314880371094
    exact = torch.tensor([a], dtype=torch.float64).exp()
    claims = []
    for towards in (-inf, inf):
        claimed = step_all(step_all(exact.float(), towards), towards)
        ulp = 2.0 ** (torch.frexp(exact).exponent.item() - 24)
        claims.append((float((claimed.double() - exact).abs() / ulp), claimed.item()))
    error, claimed_by_cuda = min(claims)
    assert error == pytest.approx(1.931, abs=1e-3)
    assert not is_outside(Operation.EXPONENTIAL, claimed_by_cuda, a)


def test_functions_are_not_judged_where_they_have_no_value() -> None:
    for operation in (Operation.LOGARITHM, Operation.RECIPROCAL_ROOT):
        for a in (0.0, HALF, -1.0):
            assert not is_outside(operation, 7.0, a)
        assert is_outside(operation, 7.0, LEAST)


# --- Indices ------------------------------------------------------------------------------------------------
def test_gathered_rows_and_chosen_elements_are_those_of_the_index() -> None:
    """A table of four rows in columns, read from its second column on."""
    table, index = torch.arange(12.0) ** 2, torch.tensor([3, 0, 2])
    read = (Access(1, 0, (1,)), Access(2, 4, (0,)))
    gather = Node(Operation.GATHER, (3,), 0, Access(0, 0, (1,)), read, selected=1)
    right = table[4 + index]
    assert find_outside(ELEMENT_CHECKS, gather, right, index, table) == []
    assert find_outside(ELEMENT_CHECKS, gather, right.roll(1), index, table) == [0, 1, 2]
    assert find_outside(ELEMENT_CHECKS, gather, torch.tensor([49.0, 25.0, 36.0]), index, table) == [1]
    select = Node(
        Operation.EQUAL_SELECT, (3,), 0, Access(0, 0, (1,)), tuple(Access(n, 0, (1,)) for n in (1, 2, 3))
    )
    numbers = [torch.tensor([0, 0, 2]), torch.tensor([1.0, 2.0, 3.0]), torch.tensor([5.0, 6.0, 7.0])]
    assert find_outside(ELEMENT_CHECKS, select, torch.tensor([1.0, 6.0, 3.0]), *numbers) == []
    assert find_outside(ELEMENT_CHECKS, select, torch.tensor([5.0, 2.0, 3.0]), *numbers) == [0, 1]
    for wrong in (8, -1):
        with pytest.raises(InvalidInput, match="outside its table"):
            find_outside(ELEMENT_CHECKS, gather, right, torch.tensor([3, wrong, 2]), table)
