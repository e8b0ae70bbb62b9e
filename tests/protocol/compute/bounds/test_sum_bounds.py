"""Bounds of sums, against exact rationals: terms in any order are clear, what lies beyond the rule is not."""

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from math import inf
from random import Random

import pytest
import torch
from torch import Tensor

from tests.protocol.compute.bounds.claims import (
    LEAST,
    TINY,
    find_last_clear,
    find_outside,
    make_claim,
    step,
)
from touchstone.protocol.compute.bounds import product_bounds, sum_bounds
from touchstone.protocol.compute.bounds.sum_bounds import SUM_CHECKS
from touchstone.protocol.spec.float32 import nearest
from touchstone.protocol.spec.program import Access, Node
from touchstone.protocol.spec.program_operations import Operation

UNIT = Fraction(1, 2**24)
"""u of docs/spec.md, section 9."""
PER_TERM = Fraction(1, 2**124)
FLOAT64_SLACK, FLOAT32_SLACK = 1 + UNIT, 1 + 1024 * UNIT
"""What a bound may be larger by for the roundings of its own computation."""
ROWS = 12


def build_sum(rows: int, terms: int) -> Node:
    return Node(Operation.SUM, (rows, terms), 1, Access(0, 0, (1,)), (Access(1, 0, (terms, 1)),))


def build_dots(rows: int, terms: int) -> Node:
    """Each element has operands of its own."""
    reads = (Access(1, 0, (terms, 1)), Access(2, 0, (terms, 1)))
    return Node(Operation.PRODUCT_SUM, (rows, terms), 1, Access(0, 0, (1,)), reads)


def build_matrix(rows: int, columns: int, terms: int) -> Node:
    """Rows of the first operand times rows of the second."""
    reads = (Access(1, 0, (terms, 0, 1)), Access(2, 0, (0, terms, 1)))
    return Node(Operation.PRODUCT_SUM, (rows, columns, terms), 1, Access(0, 0, (columns, 1)), reads)


def draw_rows(rows: int, terms: int, seed: int) -> Tensor:
    """Of unequal sizes; halves of every other row cancel but for their last bits; the last rows are tiny."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, terms, generator=generator)
    x *= 2.0 ** torch.randint(-12, 12, (rows, terms), generator=generator)
    half = terms // 2
    x[::2, half : 2 * half] = -x[::2, :half] * (1 + 2.0**-22)
    x[10:ROWS] *= 2.0**-100
    return x


# Any order
def add_in_any_order(columns: list[Tensor], random: Random) -> Tensor:
    """float32 additions along a random tree."""
    while len(columns) > 1:
        first, second = (columns.pop(random.randrange(len(columns))) for _ in range(2))
        columns.append(first + second)
    return columns[0]


@pytest.mark.parametrize("terms", [2, 3, 17, 128])
def test_sums_and_product_sums_in_any_order_are_clear(terms: int) -> None:
    a, b = draw_rows(ROWS, terms, 1), draw_rows(ROWS, terms, 2)
    for seed in range(40):
        random = Random(seed)
        total = add_in_any_order(list(a.unbind(1)), random)
        assert find_outside(SUM_CHECKS, build_sum(ROWS, terms), total, a) == []
        dots = add_in_any_order(list((a * b).unbind(1)), random)
        assert find_outside(SUM_CHECKS, build_dots(ROWS, terms), dots, a, b) == []
        products = add_in_any_order(list((a.unsqueeze(1) * b).unbind(2)), random)
        assert find_outside(SUM_CHECKS, build_matrix(ROWS, ROWS, terms), products, a, b) == []


def test_fused_multiply_adds_are_clear() -> None:
    """Each product is added before it is rounded."""
    a, b = draw_rows(ROWS, 17, 3), draw_rows(ROWS, 17, 4)
    totals = []
    for row in zip(a.tolist(), b.tolist(), strict=True):
        total = 0.0
        for x, y in zip(*row, strict=True):
            total = nearest(Fraction(total) + Fraction(x) * Fraction(y))
        totals.append(total)
    assert find_outside(SUM_CHECKS, build_dots(ROWS, 17), torch.tensor(totals), a, b) == []


# The rule to the last float32
def compute_sum_bound(terms: list[Fraction]) -> Fraction:
    """gamma_(n-1) S + n 2^-124; a single term is no sum."""
    count = len(terms)
    if count < 2:
        return Fraction(0)
    return (count - 1) * UNIT / (1 - (count - 1) * UNIT) * sum(map(abs, terms)) + count * PER_TERM


def compute_gamma(terms: int) -> Fraction:
    """n u / (1 - n u)."""
    return terms * UNIT / (1 - terms * UNIT)


def compute_product_bound(terms: list[Fraction]) -> Fraction:
    """gamma_n S + n 2^-124, without subnormal operands."""
    return compute_gamma(len(terms)) * sum(map(abs, terms)) + len(terms) * PER_TERM


def require_ends(
    find: Callable[[Tensor], list[int]], exact: list[Fraction], bounds: list[Fraction], wide: list[Fraction]
) -> None:
    """The last float32 within each bound is clear; the first one beyond its wider bound is outside."""
    for side, direction in ((0, -inf), (1, inf)):
        within = [find_last_clear(*pair)[side] for pair in zip(exact, bounds, strict=True)]
        beyond = [step(find_last_clear(*pair)[side], direction) for pair in zip(exact, wide, strict=True)]
        assert find(torch.tensor(within)) == []
        assert find(torch.tensor(beyond)) == list(range(len(exact)))


@pytest.mark.parametrize("terms", [1, 2, 3, 40])
def test_a_sum_may_lie_as_far_off_as_the_rule_says_and_no_float32_further(terms: int) -> None:
    a = draw_rows(ROWS, terms, terms)
    exact = [[Fraction(x) for x in row] for row in a.tolist()]
    node, bounds = build_sum(ROWS, terms), [compute_sum_bound(row) for row in exact]
    require_ends(
        lambda claimed: find_outside(SUM_CHECKS, node, claimed, a),
        [sum(row, Fraction(0)) for row in exact],
        bounds,
        [bound * FLOAT64_SLACK for bound in bounds],
    )


@pytest.mark.parametrize("terms", [1, 3, 40])
def test_a_product_sum_may_lie_as_far_off_as_the_rule_says(terms: int) -> None:
    """The sizes of a matrix product are added in float32, which may lose 2^-124 a term."""
    a, b = draw_rows(ROWS, terms, 5), draw_rows(ROWS, terms, 6)
    left, right = ([[Fraction(x) for x in row] for row in tensor.tolist()] for tensor in (a, b))
    pairs = list(zip(left, right, strict=True))
    every = [(one, other) for one in left for other in right]
    lost = compute_gamma(terms) * terms * PER_TERM
    cases = (
        (build_dots(ROWS, terms), pairs, FLOAT64_SLACK, Fraction(0)),
        (build_matrix(ROWS, ROWS, terms), every, FLOAT32_SLACK, lost),
    )
    for node, rows, slack, least in cases:
        products = [[x * y for x, y in zip(*row, strict=True)] for row in rows]
        bounds = [compute_product_bound(row) for row in products]
        find = partial(find_outside, SUM_CHECKS, node)
        require_ends(
            lambda claimed, find=find: find(claimed, a, b),  # type: ignore[misc]
            [sum(row, Fraction(0)) for row in products],
            bounds,
            [(bound + least) * slack for bound in bounds],
        )


# Subnormals, and terms that are not selected
def test_a_product_may_vanish_with_a_subnormal_operand_alone() -> None:
    """Of two products of 2^-107 the first has a subnormal factor in one row and none in the other."""
    product = 2.0**-107
    a, b = (
        torch.tensor([[LEAST / 2, 1.0], [LEAST, 1.0]]),
        torch.tensor([[2.0**20, product], [2.0**19, product]]),
    )
    for claimed, outside in ((2.0, []), (1.0, [1]), (3.0, [1]), (0.0, [0, 1]), (4.0, [0, 1])):
        claims = torch.full((2,), claimed * product)
        assert find_outside(SUM_CHECKS, build_dots(2, 2), claims, a, b) == outside
        matrix = build_matrix(2, 1, 2)
        for row in range(2):
            found = find_outside(SUM_CHECKS, matrix, claims, a[[row, row]], b[row])
            assert found == ([0, 1] if row in outside else [])


def test_one_term_is_handed_on_or_flushed() -> None:
    a = torch.tensor([[1.0], [LEAST / 2], [LEAST]])
    node = build_sum(3, 1)
    assert (
        find_outside(SUM_CHECKS, node, a, a)
        == find_outside(SUM_CHECKS, node, a * torch.tensor([[1], [0], [1]]), a)
        == []
    )
    assert find_outside(SUM_CHECKS, node, a + TINY, a) == [1, 2], "1 + 2^-149 is 1"
    assert find_outside(SUM_CHECKS, node, torch.zeros(3), a) == [0, 2]


def test_a_selected_sum_is_bounded_by_its_matches_alone() -> None:
    """Row 0 has one match, row 1 none, row 2 two and row 3 five, beside much larger terms of row 4."""
    index = torch.tensor([4, 3, 0, 3, 2, 3, 4, 2, 3, 3])
    values = draw_rows(2, 10, 7)
    values[:, index == 4] = 2.0**60
    reads = (Access(1, 0, (0, 0, 1)), Access(2, 0, (0, 10, 1)))
    node = Node(Operation.SELECTED_SUM, (5, 2, 10), 1, Access(0, 0, (2, 1)), reads, selected=0)
    matches = [
        [Fraction(x) for x in values[column, index == row].tolist()] for row in range(5) for column in (0, 1)
    ]
    assert [len(terms) for terms in matches] == [1, 1, 0, 0, 2, 2, 5, 5, 2, 2]
    exact, bounds = [sum(terms, Fraction(0)) for terms in matches], [*map(compute_sum_bound, matches)]
    require_ends(
        lambda claimed: find_outside(SUM_CHECKS, node, claimed, index, values),
        exact,
        bounds,
        [bound * FLOAT64_SLACK for bound in bounds],
    )
    values[0, 2] = LEAST / 2
    right = torch.tensor([*map(nearest, exact)])
    for value, outside in ((LEAST / 2, []), (0.0, []), (LEAST, [0])):
        right[0] = value
        assert find_outside(SUM_CHECKS, node, right, index, values) == outside


@pytest.mark.parametrize("selected", [0, 1, 2])
def test_a_lie_in_any_part_of_a_selected_sum_is_named(monkeypatch: pytest.MonkeyPatch, selected: int) -> None:
    """Cut along the longest loop but the selected one, in equal parts and with a shorter last one."""
    kept = [size for at, size in enumerate((4, 3, 5)) if at != selected]
    index, values = torch.tensor([0, 2, 2, 1, 0, 2]), draw_rows(kept[0] * kept[1], 6, 11).reshape(*kept, 6)
    strides = [kept[1] * 6, 6]
    strides.insert(selected, 0)
    reads = (Access(1, 0, (0, 0, 0, 1)), Access(2, 0, (*strides, 1)))
    node = Node(Operation.SELECTED_SUM, (4, 3, 5, 6), 1, Access(0, 0, (15, 5, 1)), reads, selected=selected)
    rows = [values[..., index == row].double().sum(-1) for row in range((4, 3, 5)[selected])]
    honest = torch.stack(rows, selected).float().contiguous()
    for size in (1, 12, 30, 1000):
        monkeypatch.setattr(sum_bounds, "PART_SUMS", size)
        assert find_outside(SUM_CHECKS, node, honest, index, values) == []
        for number in range(60):
            claimed = honest.reshape(-1).clone()
            claimed[number] += 1
            claim = make_claim(node, claimed, index, values)
            SUM_CHECKS[node.operation][0](claim)
            assert [numbers.tolist() for numbers in claim.suspects if len(numbers)] == [[number]]


def test_a_lie_in_any_tile_of_any_order_of_loops_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns, batch and rows, in this order; the matrix product is compared a few elements at a time."""
    a, b = draw_rows(4 * 5, 6, 8).reshape(4, 5, 6), draw_rows(3 * 4, 6, 9).reshape(3, 4, 6)
    reads = (Access(1, 0, (0, 30, 6, 1)), Access(2, 0, (24, 6, 0, 1)))
    node = Node(Operation.PRODUCT_SUM, (3, 4, 5, 6), 1, Access(0, 0, (20, 5, 1)), reads)
    honest = torch.einsum("brt,cbt->cbr", a.double(), b.double()).float().contiguous()
    for size in (1, 6, 30, 1000):
        monkeypatch.setattr(product_bounds, "TILE_PRODUCTS", size)
        for number in range(60):
            claimed = honest.reshape(-1).clone()
            claimed[number] += 2.0**12
            assert find_outside(SUM_CHECKS, node, claimed, a, b) == [number]
