"""Plain operations on broadcast, transposed and cut tensors: the program writes the very bits of PyTorch."""

from collections.abc import Callable, Sequence
from itertools import combinations

import pytest
import torch
from torch import Tensor

from protocol.compute.program.operations import OPERATIONS
from protocol.compute.program.writer import record
from protocol.spec.errors import InvalidInput
from protocol.spec.program import Operation
from tests.protocol.compute.programs import Bench, evaluate, require_single_writers

Function = Callable[..., Sequence[Tensor]]
ATEN = torch.ops.aten
CUBE = torch.arange(24.0).reshape(2, 3, 4) * 5 % 23 - 11.5
"""Sums and products of its elements are exact in float32."""
GRID = torch.arange(12.0).reshape(4, 3) * 7 % 11 - 4.25
SQUARES = 4.0 ** torch.arange(-3, 3).reshape(2, 3)
INFINITY = float("inf")


def exchange(c: Tensor) -> Tensor:
    return c.transpose(0, 2)


def pad(piece: Tensor, start: int) -> Tensor:
    """The gradient of some columns of a tensor that has five in its middle dimension."""
    padded: Tensor = ATEN.slice_backward(piece, [2, 5, 4], 1, start, start + piece.shape[1], 1)
    return padded


def calculate(c: Tensor, g: Tensor) -> Sequence[Tensor]:
    turned, column = exchange(c), g.unsqueeze(-1)
    return (c + g.t(), g.t() - c, c * g.t(), turned / column, turned[:, 1:2] - column, g[1:2] * g.t()[:, :1])


def calculate_with_numbers(g: Tensor) -> Sequence[Tensor]:
    turned = g.t()
    both = (turned + 0.1, 0.1 - turned, turned * 0.1, turned / 3.0, 3.0 / turned, turned - 0.7)
    scalars = (ATEN.add.Scalar(g, 0.1), ATEN.mul.Scalar(turned, 0.1), ATEN.div.Scalar(g, 3.0))
    return (*both, *scalars, -turned, turned.reciprocal(), torch.ones_like(g) - g)


def raise_to_powers(s: Tensor) -> Sequence[Tensor]:
    return (s.t() ** 2, s**3, s.t().rsqrt(), (s + 1).t().double().sqrt().float())


def limit(g: Tensor) -> Sequence[Tensor]:
    turned = g.t()
    return (turned.clamp(-1.0, 2.0), g.clamp(max=0.75), turned.clamp(min=0.75), g.clamp(2.0, -1.0))


def choose(g: Tensor, n: Tensor) -> Sequence[Tensor]:
    turned = g.t()
    dropped = torch.where(turned.abs() < 0.75, 0.0, turned)
    return (
        dropped,
        torch.where(n < INFINITY, g, 2 * g),
        torch.where(n.unsqueeze(-1) < INFINITY, 1.5, turned),
    )


def rename(c: Tensor, g: Tensor) -> Sequence[Tensor]:
    turned = exchange(c)
    flat = (c.transpose(1, 2).reshape(2, 12).t(), (g.t() @ g).view(9), ATEN._unsafe_view(c, [6, 4]))
    cut = (turned[1:3, :, -1:], *turned.unbind())
    return (
        *flat,
        *cut,
        turned.unsqueeze(-2).squeeze(-2),
        g.t().expand(2, 3, 4),
        ATEN.alias(g.t()).detach().clone(),
    )


def put_together(c: Tensor, g: Tensor) -> Sequence[Tensor]:
    turned = c.transpose(1, 2)
    gradients = (pad(c * 2, 0) + pad(c[:, :2], 3), pad(c[:, 1:] - 1, 3) + pad(c + g.t(), 0))
    return (torch.cat([turned, g.expand(2, 4, 3) * 2, turned + g], -2), *gradients)


def cut_and_fill(c: Tensor) -> Sequence[Tensor]:
    turned = exchange(c)
    filled = torch.cat([turned * 2, torch.zeros(4, 1, 2), torch.zeros(4, 2, 2)], 1)
    cuts = (*torch.split(turned, 3), *torch.split(turned, [1, 2], -2), *torch.split(c, 4, -1))
    return (*cuts, filled, torch.zeros(2) + 1)


def multiply_matrices(c: Tensor, g: Tensor) -> Sequence[Tensor]:
    many = torch.bmm(exchange(c), g.t()[:2].expand(4, 2, 4)[:, :, 1:].transpose(1, 2)[:, :2])
    return (
        g.t() @ g,
        g @ c[:1].squeeze(0),
        torch.bmm(c, g.expand(2, 4, 3)),
        torch.bmm(c.transpose(1, 2), c),
        many,
    )


def add_up(c: Tensor) -> Sequence[Tensor]:
    turned = exchange(c)
    return (
        c.sum(),
        turned.sum(-1),
        turned.sum((0, 2), keepdim=True),
        c.mean(1),
        turned.mean(-1, keepdim=True),
    )


CASES: dict[str, tuple[Function, Sequence[Tensor]]] = {
    "arithmetic": (calculate, (CUBE, GRID)),
    "arithmetic with numbers": (calculate_with_numbers, (GRID,)),
    "powers and roots": (raise_to_powers, (SQUARES,)),
    "limits": (limit, (GRID,)),
    "choices": (choose, (GRID, torch.tensor([1.0, torch.nan, INFINITY]))),
    "views": (rename, (CUBE, GRID)),
    "pieces": (put_together, (CUBE, GRID)),
    "cuts and zeros": (cut_and_fill, (CUBE,)),
    "matrix products": (multiply_matrices, (CUBE, GRID)),
    "sums": (add_up, (CUBE,)),
}
NEVER_RECORDED = {"aten.reshape.default"}
"""PyTorch turns it into a view or a copy before it is recorded."""


@pytest.mark.parametrize("name", CASES)
def test_the_program_of_an_operation_writes_the_bits_of_pytorch(name: str) -> None:
    function, inputs = CASES[name]
    for ours, expected in zip(evaluate(function, *inputs), function(*inputs), strict=True):
        assert ours.shape == expected.shape and torch.equal(ours, expected)


def test_every_plain_operation_has_a_case_here() -> None:
    recorded = {call.name for case in CASES.values() for call in record(*case).calls}
    assert recorded == set(OPERATIONS) - NEVER_RECORDED


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize("is_product", [False, True])
def test_sums_run_over_any_dimensions_of_any_order(is_product: bool, is_kept: bool) -> None:
    """Products are broadcast along the dimension that is summed, or along another."""
    subsets = [chosen for count in (1, 2, 3) for chosen in combinations(range(3), count)]

    def function(c: Tensor, g: Tensor) -> list[Tensor]:
        turned = exchange(c)
        return [
            (turned * other if is_product else turned).sum(chosen, keepdim=is_kept)
            for chosen in subsets
            for other in (g.unsqueeze(-1), g[:, :1].unsqueeze(-1), exchange(c))
        ]

    ours, expected = evaluate(function, CUBE, GRID), function(CUBE, GRID)
    assert [one.shape for one in ours] == [one.shape for one in expected]
    assert all(map(torch.equal, ours, expected))


# --- Which nodes are written --------------------------------------------------------------------------------
def list_nodes(function: Function, *inputs: Tensor) -> list[tuple[str, int, int]]:
    """(operation, elements, terms) of each."""
    bench = Bench()
    bench.lower(function, *inputs)
    nodes = [(node.operation.name, node.elements, node.terms) for node in bench.nodes]
    require_single_writers(bench.finish()[0])
    return nodes


def test_a_product_is_one_node_with_the_sum_that_alone_reads_it() -> None:
    """A claimant shows no product that could be false by itself."""
    column = GRID[:, :1]
    assert list_nodes(lambda g, c: ((g * c).sum(0),), GRID, column) == [("PRODUCT_SUM", 3, 4)]
    assert list_nodes(lambda g, c: ((g.t() * c.t()).mean((0, 1)),), GRID, column) == [
        ("PRODUCT_SUM", 1, 12),
        ("DIVIDE", 1, 1),
    ]
    read_twice = list_nodes(lambda g, c: ((product := g * c).sum(0), product + 1), GRID, column)
    assert read_twice == [("MULTIPLY", 12, 1), ("SUM", 3, 4), ("ADD", 12, 1)]


def test_zeros_are_copies_of_one_constant() -> None:
    """Wherever they stand: none is a copy of another copy."""
    bench = Bench()
    bench.lower(lambda g: (torch.cat([g * 2, torch.zeros(4, 3), g + 1, torch.zeros(4, 3)]),), GRID)
    copies = [node for node in bench.nodes if node.operation is Operation.COPY]
    assert [node.operands[0].buffer for node in copies] == [bench.builder.numbers_buffer] * 2
    assert [node.sizes for node in copies] == [(12,)] * 2
    require_single_writers(bench.finish()[0])


def test_what_only_renames_elements_writes_no_node() -> None:
    function, inputs = CASES["views"]
    assert list_nodes(function, *inputs) == [("PRODUCT_SUM", 9, 4)]
    assert list_nodes(lambda g: (g * 1.0, g.t().clone(), g.double().float()), GRID) == []


def cross(c: Tensor) -> Tensor:
    """Half of the columns and half of the rows of a tensor [8, 3, 8]."""
    columns, rows = c.expand(4, 2, 3, 4).reshape(8, 3, 4), c.view(1, 3, 8).expand(4, 3, 8)
    first: Tensor = ATEN.slice_backward(columns, [8, 3, 8], 2, 0, 4, 1)
    second: Tensor = ATEN.slice_backward(rows, [8, 3, 8], 0, 4, 8, 1)
    return first + second


@pytest.mark.parametrize("function, message", [
    (lambda c: (exchange(c)[::2],), "slices without steps"),
    (lambda c: (pad(c, 0) + pad(c[:, :2], 2),), "complementary slices"),
    (lambda c: (pad(c[:, :2], 0) + pad(c[:, :2], 3),), "complementary slices"),
    (lambda c: (pad(c[:, :2], 0) + pad(c[:, :2], 2),), "complementary slices"),
    (lambda c: (cross(c),), "complementary slices"),
    (lambda c: (pad(c, 2),), "a tensor or a number"),
    (lambda c: (exchange(c) ** 4,), "2 or 3"),
    (lambda c: ((c * c).sqrt(),), "one through float64"),
    (lambda c: (torch.where(c.abs() < 1.0, 0.0, exchange(exchange(c)) * 2),), "where"),
    (lambda c: (c.abs(),), "a tensor or a number"),
])  # fmt: skip
def test_forms_that_would_write_other_values_are_refused(function: Function, message: str) -> None:
    with pytest.raises(InvalidInput, match=f"expected .*{message}"):
        Bench().lower(function, CUBE)


def test_a_value_at_its_limit_is_kept() -> None:
    """|x| < limit is flushed, |x| = limit is not."""
    limit = 2.0**-20
    below, above = (float(torch.nextafter(torch.tensor(limit), torch.tensor(to))) for to in (0.0, 1.0))
    values = torch.tensor([[limit, below, above], [-limit, -below, -above]])
    (flushed,) = evaluate(lambda x: (torch.where(x.t().abs() < limit, 0.0, x.t()),), values)
    assert flushed.t().tolist() == [[limit, 0.0, above], [-limit, 0.0, -above]]
