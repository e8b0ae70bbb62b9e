"""Bounds of elementwise operations: what conforming machines give is clear, the next float32 is not."""

from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from math import inf, isnan, nan

import pytest
import torch
from torch import Tensor

from tests.protocol.compute.bounds.claims import LEAST, TINY, find_last_clear, find_outside, make_claim
from touchstone.protocol.compute.bounds import claimed_node
from touchstone.protocol.compute.bounds.claimed_node import (
    Claim,
    counting_from,
    excuse,
    flush,
    gamma,
    judge,
    judge_choice,
    largest,
    require_index,
    take,
    take_terms,
    unravel,
)
from touchstone.protocol.compute.bounds.element_bounds import ELEMENT_CHECKS
from touchstone.protocol.spec import program_addressing
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.float32 import nearest
from touchstone.protocol.spec.program import Access, Node
from touchstone.protocol.spec.program_addressing import locate
from touchstone.protocol.spec.program_operations import Operation

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


# One rounding
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


# What may be taken for zero
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


# A few ulp
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


# Indices
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
        with pytest.raises(InvalidInput, match="outside of its table"):
            find_outside(ELEMENT_CHECKS, gather, right, torch.tensor([3, wrong, 2]), table)


SIZES, TERMS = (4, 3, 5), 2
TURNED = Node(Operation.SUM, (*SIZES, TERMS), 1, Access(0, 0, (15, 5, 1)), (Access(1, 0, (1, 20, 4, 60)),))
"""The operand's loops lie in another order than the output's."""


def make_turned_claim() -> Claim:
    return make_claim(TURNED, torch.arange(60.0), torch.arange(120.0))


def list_suspects(claim: Claim) -> list[int]:
    return [number for numbers in claim.suspects for number in numbers.tolist()]


# Tiles and names
@pytest.mark.parametrize("size", [1, 59, 60, 90, 120])
def test_tiles_show_each_element_once_beside_its_own_terms(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(claimed_node, "TILE_ELEMENTS", size)
    claim, count = make_turned_claim(), 0
    seen: list[float] = []
    for start, (operand,), claimed in claim.tiles():
        assert start == len(seen)
        seen += claimed.flatten().tolist()
        for number, terms in enumerate(operand.reshape(-1, TERMS).tolist(), start):
            place = locate(TURNED.operands[0], (*program_addressing.unravel(number, SIZES), 0))
            assert terms == [place, place + 60]
        count += 1
    assert seen == list(range(60)) and count == {1: 4, 59: 4, 60: 2, 90: 2, 120: 1}[size]


def test_compare_names_what_differs_and_what_is_no_number() -> None:
    exact = torch.tensor([[1.0, inf, -0.0, nan], [-inf, TINY, 2.0, 1.0]])
    claimed = torch.tensor([[1.0, inf, 0.0, 3.0], [inf, 0.0, 2.0, 1 + 2.0**-23]])
    claim = make_turned_claim()
    claim.compare(exact, claimed, 20)
    assert list_suspects(claim) == [23, 24, 25, 27]
    claim.compare(claimed, claimed, 40)
    assert list_suspects(claim) == [23, 24, 25, 27]


def test_note_suspects_all_above_one_and_keeps_the_worst_of_the_others() -> None:
    claim = make_turned_claim()
    claim.note(torch.tensor([[0.5, -0.75], [0.0, 0.25]]), counting_from(8))
    assert (list_suspects(claim), claim.worst, claim.element) == ([], 0.75, 9)
    claim.note(torch.tensor([[1.0, -1.5, nan], [-0.875, inf, 1 + 2.0**-23]]), lambda places: 50 - places)
    assert (list_suspects(claim), claim.worst, claim.element) == ([49, 48, 46, 45], 1.0, 50)
    claim.note(torch.tensor([2.0, 1.0]), counting_from(0))
    assert (list_suspects(claim), claim.worst, claim.element) == ([49, 48, 46, 45, 0], 1.0, 50)


def test_unravelled_numbers_take_the_elements_and_terms_that_the_program_means() -> None:
    claim, numbers = make_turned_claim(), torch.randperm(60, generator=torch.Generator().manual_seed(1))
    places = unravel(numbers, SIZES)
    assert [tuple(place) for place in torch.stack(places, 1).tolist()] == [
        program_addressing.unravel(number, SIZES) for number in numbers.tolist()
    ]
    assert take(claim.output, places).tolist() == numbers.tolist()
    terms = take_terms(claim.operand(0), places)
    assert terms.dtype == torch.float64
    assert terms.tolist() == [
        [read[0] for _, read in program_addressing.iterate_terms(TURNED, number)]
        for number in numbers.tolist()
    ]
    single = Node(Operation.COPY, (), 0, Access(0, 1, ()), (Access(1, 2, ()),))
    claim = make_claim(single, torch.tensor([0.0, 7.0]), torch.tensor([1.0, 2.0, 3.0]))
    ((start, (operand,), claimed),) = claim.tiles()
    assert (start, operand.tolist(), claimed.tolist()) == (0, [3.0], [7.0])
    assert (take(claim.output, ()).tolist(), take_terms(claim.operand(0), ()).tolist()) == ([7.0], [[3.0]])


# Verdicts
def wide(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_judge_measures_in_bounds_and_excuses_an_infinity_from_half_the_largest_power_on() -> None:
    ratios = judge(wide(3, 3, 3, 3), wide(1, 3, 5, 1), wide(2, 0, 1, 0), wide(9, 9, 9, 9))
    assert ratios.tolist() == [1.0, 0.0, 2.0, inf]
    below, reached = 2.0**127 - 2.0**74, 2.0**127
    for claimed in (inf, -inf, nan):
        ratios = judge(wide(claimed, claimed), wide(1, 1), wide(5, 5), wide(below, reached))
        assert ratios.tolist() == [inf, 0.0]
        assert judge_choice(wide(claimed, claimed), (wide(1, 1),), wide(below, reached)).tolist() == [
            inf,
            0.0,
        ]


def test_a_value_is_one_of_those_accepted_unless_an_operand_of_its_own_is_not_finite() -> None:
    claimed, first, second = wide(1, 2, -0.0, 3, TINY), wide(1, 1, 0.0, 1, 0.0), wide(2, 2, 5, 2, LEAST)
    ratios = judge_choice(claimed, (first, second), first)
    assert ratios.tolist() == [0.0, 0.0, 0.0, inf, inf]
    terms = torch.stack([wide(1, 2), wide(3, 4), wide(5, 6), wide(nan, 1), wide(3, 4)])
    assert excuse(ratios, terms).tolist() == [0.0, 0.0, 0.0, 0.0, inf]
    assert excuse(ratios, terms, wide(1, 1, 1, 1, -inf)).tolist() == [0.0] * 5


def test_the_least_normal_number_is_not_flushed_and_no_number_hides_among_others() -> None:
    below = LEAST - TINY
    values = torch.tensor([LEAST, below, -LEAST, -below, TINY, 0.0])
    assert flush(values).tolist() == [LEAST, 0.0, -LEAST, 0.0, 0.0, 0.0]
    assert largest(torch.tensor([1.0, -3.0, 2.0])) == 3.0 and largest(torch.tensor([1.0, 3.0, -2.0])) == 3.0
    assert isnan(largest(torch.tensor([1.0, nan, 5.0]))) and largest(torch.tensor([-inf, 1.0])) == inf
    unit = Fraction(1, 2**24)
    assert gamma(128, 2.0**-24) == pytest.approx(float(128 * unit / (1 - 128 * unit)), rel=1e-15)


def test_an_index_is_required_to_lie_in_its_table() -> None:
    index = torch.tensor([[0, 8], [3, 1]])
    require_index(index, 9)
    require_index(index.unsqueeze(1).expand(2, 10**9, 2), 9)
    for size, changed in ((8, index), (9, index - 1)):
        with pytest.raises(InvalidInput, match=f"outside of its table: expected 0 to {size - 1}"):
            require_index(changed.unsqueeze(1).expand(2, 3, 2), size)
