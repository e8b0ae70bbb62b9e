"""Bounds of sums: product sums, sums, selected sums (docs/spec.md, section 9)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

import torch
from torch import Tensor

from touchstone.protocol.compute.bounds.element_bounds import (
    LEAST_NORMAL,
    LOST_PER_TERM,
    MARGIN,
    MARGIN_WIDE,
    SAFELY_FINITE,
    UNIT,
    UNIT_WIDE,
    Check,
    Claim,
    Name,
    Places,
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
from touchstone.protocol.compute.program.fused_update import cut_node
from touchstone.protocol.compute.program.kernels import make_kernel
from touchstone.protocol.compute.program.layout import sort_loops
from touchstone.protocol.compute.program.tensor_allocator import relax
from touchstone.protocol.spec.program import Access, Node, Operation
from touchstone.protocol.spec.referee import NumericFormat

TILE_PRODUCTS = 1 << 16
"""Elements of a matrix product that are compared at once; smaller ones slow the product down."""
PART_SUMS = 1 << 22
"""Selected sums that are compared at once: in float64 they take ten times the memory of what is claimed."""


# --- Product sums -------------------------------------------------------------------------------------------
def _relative_bound(terms: int, numeric_format: NumericFormat) -> float:
    """(1 + e)^2 (1 + gamma_n) - 1 of S = sum |a b|: rounded operands (e), then Higham's (3.5)."""
    growth = (1 + numeric_format.input_error) ** 2 / (1 - terms * numeric_format.unit)
    return float(growth - 1)


def _check_products(claim: Claim) -> None:
    """Product - claimed, from one float64 product, is off by at most gamma_{n+1} (S + |claimed|) of float64:
    2 gamma S and a tiny share of the difference. S, a float32 product, may come out smaller by gamma_n S and
    LOST_PER_TERM a term. So the bound is an affine function of the S that is computed."""
    terms = claim.node.terms
    wide = 2 * gamma(terms + 1, UNIT_WIDE)
    scale = (_relative_bound(terms, claim.format) + wide) * MARGIN / (1 - gamma(terms, UNIT))
    least = torch.tensor(terms * LOST_PER_TERM * (1 + scale) * MARGIN)
    factors = _arrange(claim)
    if not factors.is_moderate:
        claim.suspects.append(factors.find_finite())
        return
    for difference, absolute, name in factors.multiply():
        bound = torch.add(least, absolute, alpha=scale, out=absolute)
        claim.note(difference.float().div_(bound), name)


@dataclass(frozen=True)
class _Factors:
    """A product sum as matrix products: left [batch, rows, terms], right [batch, terms, columns], claimed
    [batch, rows, columns], float32. loops: of the output, in this order."""

    left: Tensor
    right: Tensor
    claimed: Tensor
    node: Node
    loops: tuple[int, ...]

    @property
    def is_moderate(self) -> bool:
        """No overflow on the way and nothing that is not finite; other nodes are judged by the element."""
        return largest(self.left) * largest(self.right) * self.node.terms < SAFELY_FINITE

    def find_finite(self) -> Tensor:
        """Numbers of the elements that have no operand which is not finite."""
        rows, columns = self.left.isfinite().all(2).unsqueeze(2), self.right.isfinite().all(1).unsqueeze(1)
        return self._make_name(0)((rows & columns).flatten().nonzero().flatten())

    def multiply(self) -> Iterator[tuple[Tensor, Tensor, Name]]:
        """Tile by tile: product - claimed (float64), sum of absolute products (float32), element names."""
        batch, rows, columns = self.claimed.shape
        left, right = self.left.double(), self.right.double()
        left_size, right_size = self.left.abs(), self.right.abs()
        height = max(1, min(rows, TILE_PRODUCTS // columns))
        depth = max(1, TILE_PRODUCTS // (rows * columns)) if height == rows else 1
        for start in range(0, batch, depth):
            for row in range(0, rows, height):
                some = slice(start, start + depth), slice(row, row + height)
                across = right[some[0]], right_size[some[0]]
                tile = self.claimed[some].double()
                tile.baddbmm_(left[some], across[0], beta=-1)
                sizes = torch.bmm(left_size[some], across[1])
                yield tile, sizes, self._make_name((start * rows + row) * columns)

    def _make_name(self, first: int) -> Name:
        sizes = self.node.output_sizes

        def name(positions: Tensor) -> Tensor:
            """Element numbers of the node's output at these positions (int64)."""
            places = unravel(positions + first, [sizes[n] for n in self.loops])
            numbers = torch.zeros_like(positions)
            for n, size in enumerate(sizes):
                numbers = numbers * size + places[self.loops.index(n)]
            return numbers

        return name


def _arrange(claim: Claim) -> _Factors:
    node, (batch, rows, columns, terms) = claim.node, sort_loops(claim.node)

    def matrix(access: Access, *groups: Sequence[int]) -> Tensor:
        """The operand with its loops gathered into one dimension for each group."""
        order = [n for group in groups for n in group]
        sizes = [node.sizes[n] for n in order]
        view = claim.view(access, sizes, [access.strides[n] for n in order])
        return view.reshape([prod(node.sizes[n] for n in group) for group in groups])

    a, b = node.operands
    left, right = matrix(a, batch, rows, terms), matrix(b, batch, terms, columns)
    return _Factors(left, right, matrix(node.output, batch, rows, columns), node, (*batch, *rows, *columns))


def _judge_products(claim: Claim, places: Places) -> Tensor:
    """[(1+e)^2 (1+gamma_n) - 1] S + n 2^-124, and (1+e)^2 (1+gamma_n) |a b| more for each term with a
    subnormal operand: it may be read as zero, or doubled by rounding it to fewer bits."""
    a, b = (take_terms(claim.operand(place), places) for place in (0, 1))
    terms, products = claim.node.terms, a * b
    is_at_risk = (a.abs() < LEAST_NORMAL) | (b.abs() < LEAST_NORMAL)
    sizes = products.abs()
    total, at_risk = sizes.sum(1), torch.where(is_at_risk, sizes, 0.0).sum(1)
    relative = _relative_bound(terms, claim.format)
    bound = (relative + gamma(terms, UNIT_WIDE)) * total + (1 + relative) * at_risk + terms * LOST_PER_TERM
    reach = (1 + relative) * total
    if error := float(claim.format.input_error):  # an operand that is rounded up may become infinite
        reach = torch.stack([reach, *((1 + error) * x.abs().amax(1) for x in (a, b))]).amax(0)
    ratios = judge(take(claim.output, places), products.sum(1), bound * MARGIN_WIDE, reach)
    return excuse(ratios, a, b)


def _check_dots(claim: Claim) -> None:
    """Product sums without rows or columns, in float64: exact products, sums with a gamma of their own."""
    terms = claim.node.terms
    relative = (_relative_bound(terms, claim.format) + gamma(terms, UNIT_WIDE)) * MARGIN_WIDE
    for start, (a, b), claimed in claim.tiles():
        products = a.double() * b.double()
        difference = _add_up(products, claim.node).sub_(claimed)
        bound = _add_up(products.abs_(), claim.node).mul_(relative).add_(terms * LOST_PER_TERM)
        claim.note(difference.div_(bound), counting_from(start))


def _add_up(values: Tensor, node: Node) -> Tensor:
    return values.sum(tuple(range(-node.reduced, 0))) if node.reduced else values.clone()


def _sum_bound(count: Tensor, total: Tensor) -> Tensor:
    """gamma_{n-1} S + n 2^-124 for n >= 2 terms (n - 1 additions: Higham, section 4.2), else zero; and what
    the float64 sum itself may be off. count, total: float64."""
    steps = (count - 1) * UNIT
    bound = (steps / (1 - steps) + count * (2 * UNIT_WIDE)) * total + count * LOST_PER_TERM
    return torch.where(count > 1, bound * MARGIN_WIDE, 0.0)


def _check_sum(claim: Claim) -> None:
    count = torch.tensor(float(claim.node.terms), dtype=torch.float64)
    for start, (a,), claimed in claim.tiles():
        values = a.double()
        difference = _add_up(values, claim.node) - claimed
        bound = _sum_bound(count, _add_up(values.abs_(), claim.node))
        claim.note(torch.where(difference == 0, 0.0, difference / bound), counting_from(start))


def _judge_sum(claim: Claim, places: Places) -> Tensor:
    values = take_terms(claim.operand(0), places)
    count = torch.tensor(float(claim.node.terms), dtype=torch.float64)
    return _judge_terms(take(claim.output, places), values, count)


def _judge_terms(claimed: Tensor, values: Tensor, count: Tensor) -> Tensor:
    """Sums of `count` of the values, the others being zero. One term, or none, is no sum: it is handed on,
    or flushed where it is subnormal."""
    exact, total = values.sum(1), values.abs().sum(1)
    several = judge(claimed, exact, _sum_bound(count, total), total * (1 + count * 2 * UNIT))
    single = judge_choice(claimed, (exact, flush(exact)), total)
    return excuse(torch.where(count > 1, several, single), values)


def _check_selected_sum(claim: Claim) -> None:
    """Exact values, absolute sums and numbers of matches by the same kernel, in float64."""
    index = claim.operand(0)
    require_index(index, claim.node.output_sizes[claim.node.selected])
    for part, claimed, name in _cut_selected_sum(claim):
        exact, total, count = (_run_wide(claim, part, one) for one in (Tensor.double, _wide_size, _one_each))
        difference, bound = exact.sub_(claimed), _sum_bound(count, total)
        claim.note(torch.where(difference == 0, 0.0, difference / bound), name)
        relax()


def _cut_selected_sum(claim: Claim) -> Iterator[tuple[Node, Tensor, Name]]:
    """Parts of the node along its longest loop but the selected one, what is claimed of each, and the names
    of its elements."""
    sizes = claim.node.output_sizes
    others = [loop for loop in range(len(sizes)) if loop != claim.node.selected]
    loop = max(others, key=lambda one: sizes[one], default=None)
    if loop is None:
        yield claim.node, claim.output, counting_from(0)
        return
    width = max(1, PART_SUMS * sizes[loop] // claim.node.elements)
    for first in range(0, sizes[loop], width):
        part = cut_node(claim.node, first, min(width, sizes[loop] - first), loop)
        claimed = claim.output.narrow(loop, first, part.output_sizes[loop])
        yield part, claimed, partial(_name_in_part, sizes, part.output_sizes, loop, first)


def _name_in_part(
    sizes: Sequence[int], part: Sequence[int], loop: int, first: int, positions: Tensor
) -> Tensor:
    """Numbers of elements, by flat positions in a part that begins at `first` of a loop."""
    places, numbers = unravel(positions, part), torch.zeros_like(positions)
    for at, (place, size) in enumerate(zip(places, sizes, strict=True)):
        numbers = numbers * size + place + (first if at == loop else 0)
    return numbers


def _wide_size(values: Tensor) -> Tensor:
    return values.double().abs()


def _one_each(values: Tensor) -> Tensor:
    return torch.ones_like(values, dtype=torch.float64)


def _run_wide(claim: Claim, node: Node, change: Callable[[Tensor], Tensor]) -> Tensor:
    """The kernel of the node, or of a part of it, on changed values."""
    result = torch.empty(node.output_sizes, dtype=torch.float64)

    def view(access: Access, sizes: Sequence[int], strides: Sequence[int]) -> Tensor:
        """The tensor of an access with its values changed; the output is a new one."""
        if access is node.output:
            return result
        values = claim.view(access, sizes, strides)
        return change(values) if values.is_floating_point() else values

    make_kernel(node, view)()
    return result


def _judge_selected_sum(claim: Claim, places: Places) -> Tensor:
    index, values = (take_terms(claim.operand(place), places) for place in (0, 1))
    is_match = index == places[claim.node.selected].unsqueeze(1)
    values = torch.where(is_match, values, 0.0)
    return _judge_terms(take(claim.output, places), values, is_match.sum(1).double())


def _check_product_sum(claim: Claim) -> None:
    (_check_products if sort_loops(claim.node).is_matrix else _check_dots)(claim)


SUM_CHECKS: dict[Operation, Check] = {
    Operation.PRODUCT_SUM: (_check_product_sum, _judge_products),
    Operation.SUM: (_check_sum, _judge_sum),
    Operation.SELECTED_SUM: (_check_selected_sum, _judge_selected_sum),
}
