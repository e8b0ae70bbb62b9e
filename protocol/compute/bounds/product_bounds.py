"""Checks product sums against their bounds (docs/spec.md, section 9)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from touchstone.protocol.compute.bounds.claimed_node import (
    LEAST_NORMAL,
    LOST_PER_TERM,
    MARGIN,
    MARGIN_WIDE,
    SAFELY_FINITE,
    UNIT,
    UNIT_WIDE,
    Claim,
    Name,
    Places,
    counting_from,
    excuse,
    gamma,
    judge,
    largest,
    take,
    take_terms,
    unravel,
)
from touchstone.protocol.compute.program.planning.node_views import sort_loops
from touchstone.protocol.spec.program import Access, Node

TILE_PRODUCTS = 1 << 16
"""Elements of a matrix product that are compared at once. Smaller pieces slow the product down."""


def _check_products(claim: Claim) -> None:
    """Checks matrix products. Product - claimed, from one float64 product, is off by at most gamma_{n+1} (S +
    |claimed|) of float64: 2 gamma S and a tiny share of the difference. S, a float32 product, may come out
    smaller by gamma_n S and LOST_PER_TERM for each term. So the bound is an affine function of the computed
    S."""
    terms = claim.node.terms
    wide = 2 * gamma(terms + 1, UNIT_WIDE)
    own = gamma(terms, UNIT)
    scale = (own + wide) * MARGIN / (1 - own)
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
    [batch, rows, columns], float32. `loops` are the output's loops, in this order."""

    left: Tensor
    right: Tensor
    claimed: Tensor
    node: Node
    loops: tuple[int, ...]

    @property
    def is_moderate(self) -> bool:
        """Whether all values are finite and nothing overflows on the way. Otherwise each element is judged
        alone."""
        return largest(self.left) * largest(self.right) * self.node.terms < SAFELY_FINITE

    def find_finite(self) -> Tensor:
        """Returns the numbers of the elements whose operands are all finite."""
        rows, columns = self.left.isfinite().all(2).unsqueeze(2), self.right.isfinite().all(1).unsqueeze(1)
        return self._make_name(0)((rows & columns).flatten().nonzero().flatten())

    def multiply(self) -> Iterator[tuple[Tensor, Tensor, Name]]:
        """Yields tile by tile: product - claimed (float64), sum of absolute products (float32), element
        names."""
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
            """Returns the element numbers of the node's output at these positions (int64)."""
            places = unravel(positions + first, [sizes[n] for n in self.loops])
            numbers = torch.zeros_like(positions)
            for n, size in enumerate(sizes):
                numbers = numbers * size + places[self.loops.index(n)]
            return numbers

        return name


def _arrange(claim: Claim) -> _Factors:
    node, (batch, rows, columns, terms) = claim.node, sort_loops(claim.node)

    def matrix(access: Access, *groups: Sequence[int]) -> Tensor:
        """Returns the operand with its loops gathered into one dimension for each group."""
        order = [n for group in groups for n in group]
        sizes = [node.sizes[n] for n in order]
        view = claim.view(access, sizes, [access.strides[n] for n in order])
        return view.reshape([prod(node.sizes[n] for n in group) for group in groups])

    a, b = node.operands
    left, right = matrix(a, batch, rows, terms), matrix(b, batch, terms, columns)
    return _Factors(left, right, matrix(node.output, batch, rows, columns), node, (*batch, *rows, *columns))


def judge_products(claim: Claim, places: Places) -> Tensor:
    """Judges suspects against gamma_n S + n 2^-124 (Higham's (3.5)), and (1 + gamma_n) |a b| more for each
    term with a subnormal operand, which may be read as zero."""
    a, b = (take_terms(claim.operand(place), places) for place in (0, 1))
    terms, products = claim.node.terms, a * b
    is_at_risk = (a.abs() < LEAST_NORMAL) | (b.abs() < LEAST_NORMAL)
    sizes = products.abs()
    total, at_risk = sizes.sum(1), torch.where(is_at_risk, sizes, 0.0).sum(1)
    relative = gamma(terms, UNIT)
    bound = (relative + gamma(terms, UNIT_WIDE)) * total + (1 + relative) * at_risk + terms * LOST_PER_TERM
    ratios = judge(take(claim.output, places), products.sum(1), bound * MARGIN_WIDE, (1 + relative) * total)
    return excuse(ratios, a, b)


def _check_dots(claim: Claim) -> None:
    """Checks product sums without rows or columns in float64: exact products, and sums with their own
    gamma."""
    terms = claim.node.terms
    relative = (gamma(terms, UNIT) + gamma(terms, UNIT_WIDE)) * MARGIN_WIDE
    for start, (a, b), claimed in claim.tiles():
        products = a.double() * b.double()
        difference = add_up(products, claim.node).sub_(claimed)
        bound = add_up(products.abs_(), claim.node).mul_(relative).add_(terms * LOST_PER_TERM)
        claim.note(difference.div_(bound), counting_from(start))


def add_up(values: Tensor, node: Node) -> Tensor:
    """Returns the sums of a node's terms, from a view over all loops."""
    return values.sum(tuple(range(-node.reduced, 0))) if node.reduced else values.clone()


def check_product_sum(claim: Claim) -> None:
    """Notes the ratios of a product sum, as the first pass of its check."""
    (_check_products if sort_loops(claim.node).is_matrix else _check_dots)(claim)
