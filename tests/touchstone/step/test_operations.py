"""Plain operations on broadcast, transposed and cut tensors: the program writes the very bits of PyTorch."""

from collections.abc import Callable, Sequence
from itertools import combinations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.protocol.compute.programs import Bench, evaluate, require_single_writers
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.program_operations import Operation

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
    scaled = (torch.add(g, turned.t(), alpha=2), torch.sub(g, 1.5, alpha=4), torch.rsub(g, g * 2, alpha=0.5))
    return (
        *both,
        *scalars,
        *scaled,
        ATEN.sub.Scalar(g, 0.5),
        ATEN.rsub.Scalar(g, 0.5),
        -turned,
        turned.reciprocal(),
        torch.ones_like(g) - g,
    )


def raise_to_powers(s: Tensor) -> Sequence[Tensor]:
    roots = (s.t().rsqrt(), (s + 1).t().double().sqrt().float(), s.sqrt(), s**0.5, s**-0.5)
    return (s.t() ** 2, s**3, s**1, s**0, s**-1, s**-2, s**8, s**1.5, *roots)


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
        c.permute(2, -3, 1),
        c.select(-1, -2),
        c[:, None, :1].squeeze(),
        c[:1, :, :1].squeeze((0, 2)),
        *c.unbind(-1),
    )


def put_together(c: Tensor, g: Tensor) -> Sequence[Tensor]:
    turned = c.transpose(1, 2)
    gradients = (pad(c * 2, 0) + pad(c[:, :2], 3), pad(c[:, 1:] - 1, 3) + pad(c + g.t(), 0))
    return (torch.cat([turned, g.expand(2, 4, 3) * 2, turned + g], -2), *gradients)


def add_pieces(c: Tensor) -> Sequence[Tensor]:
    """In any order, with gaps, over each other, along two dimensions, and more than two."""
    low, high, whole = pad(c[:, :2] * 2, 0), pad(c[:, :2] * 3, 3), torch.ones(2, 5, 4)
    rows: Tensor = ATEN.slice_backward(c[:1].repeat(1, 2, 1)[:, :5], [2, 5, 4], 0, 1, 2, 1)
    one: Tensor = ATEN.select_backward(c[:, 0] * 5, [2, 5, 4], 1, 2)
    return (low + high, low + pad(c, 1), low + rows, low + one + high, high + whole * 2, low - high, one * 2)


def stack_and_pad(c: Tensor) -> Sequence[Tensor]:
    turned = exchange(c)
    return (
        torch.stack([c, c + 1, c * 2], 1), torch.stack([turned, turned], -1), c.repeat(2, 1, 3),
        turned.repeat(1, 1, 2, 1), F.pad(c, (1, 2)), F.pad(turned, (0, 0, 2, 0)), F.pad(c, (-1, 2, 1, -1)),
    )  # fmt: skip


def compare(g: Tensor, c: Tensor) -> Sequence[Tensor]:
    """Limits are met exactly: 0.75 and -4.25 stand in the grid."""
    turned, zero = g.t(), torch.zeros(())
    inside = (g > -4.25) & (g <= 0.75)
    outside = ~inside | (g < -2)
    return (
        torch.where(inside, g, 2 * g), torch.where(outside, 0.0, g), torch.where(g >= 0.75, 1.5, 0.25),
        g.masked_fill(g < 0.75, -3.0),
        g.masked_fill(g < 0.75, torch.tensor(2.0)), torch.where(turned < 0.75, zero, turned),
        torch.sign(g), g.sgn(),
        torch.where(turned.abs() < 0.75, 2.0, turned), g.abs(), (g > 0).float() * 3, torch.maximum(g, -g),
        torch.minimum(turned, turned * 2), torch.where(torch.ones(4, 3).tril() > 0, g, 7.0),
        (c[0] * 2).tril(), exchange(c).triu(1), torch.where(torch.logical_not(g > 0), 0.0, 0.0),
        torch.where(g.gt(turned[:1, :1]), g, 0.5), torch.logical_or(g > 3, g < -3) * g,
        torch.logical_and(g > -3, g < 3) * g, g.clamp_min(0.5), g.clamp_max(0.5),
        torch.where(g == 0.75, 5.0, g), torch.where(g != g.abs(), g, 5.0),
        torch.where(g != 0.75, g, 5.0), torch.where(g == g.abs(), g, 5.0), torch.where(g <= -g, 1.5, g),
        torch.where(g >= -g, g, 1.5), torch.where(g < -g, 1.5, g),
    )  # fmt: skip


def fold_constants(g: Tensor) -> Sequence[Tensor]:
    """What depends on no input is computed when the step is recorded."""
    table = torch.arange(12.0).view(4, 3).cos()
    return (
        g * table, g * table.t().reshape(4, 3), g + table[1:2], table[:, :1] - g, g * torch.tensor(3.0),
        g + torch.full((4, 3), 2.0), torch.cat([g, table]), torch.cat([g, torch.empty(0, 3)]),
        torch.zeros_like(g), g.new_ones(2, 2), g[:, 3:].sum() + g,
    )  # fmt: skip


def overwrite(g: Tensor) -> Sequence[Tensor]:
    total = g * 2
    total += g
    total.mul_(3).clamp_(-9.0, 9.0)
    return (total.relu_(), g)


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
        torch.addmm(g[0], g, g.t()[:, :3]),
        torch.addmm(g[:, :1], g, c[0][:, :2], beta=0.5, alpha=2),
        torch.baddbmm(c[:, :, :3], c, g.expand(2, 4, 3)),
        g @ g[0],
        g[0].dot(g[1]),
        c.cumsum(1),
        c.flip(0, 2),
        exchange(c).cumsum(-1),
    )


def add_up(c: Tensor) -> Sequence[Tensor]:
    turned = exchange(c)
    return (
        c.sum(),
        turned.sum(-1),
        turned.sum((0, 2), keepdim=True),
        c.mean(1),
        c[0].mean(),
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
    "sums of pieces": (add_pieces, (CUBE,)),
    "stacks and paddings": (stack_and_pad, (CUBE,)),
    "comparisons": (compare, (GRID, CUBE)),
    "constants": (fold_constants, (GRID,)),
    "in place": (overwrite, (GRID,)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_program_of_an_operation_writes_the_bits_of_pytorch(name: str) -> None:
    function, inputs = CASES[name]
    for ours, expected in zip(evaluate(function, *inputs), function(*inputs), strict=True):
        assert ours.shape == expected.shape and torch.equal(ours, expected)


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


# Which nodes are written
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


@pytest.mark.parametrize("function, message", [
    (lambda c: (exchange(c)[::2],), "slices without steps"),
    (lambda c: (exchange(c) ** 1.25,), "an exponent of a half"),
    (lambda c: (exchange(c) ** 17,), "at most 16"),
    (lambda c: (c.softmax(1),), "the last dimension"),
    (lambda c: (c.half() * 2,), "module.float"),
])  # fmt: skip
def test_forms_that_would_write_other_values_are_refused(function: Function, message: str) -> None:
    with pytest.raises(InvalidInput, match=f"test_operations.py:.*expected .*{message}"):
        Bench().lower(function, CUBE)


def test_a_value_at_its_limit_is_kept() -> None:
    """|x| < limit is flushed, |x| = limit is not."""
    limit = 2.0**-20
    below, above = (float(torch.nextafter(torch.tensor(limit), torch.tensor(to))) for to in (0.0, 1.0))
    values = torch.tensor([[limit, below, above], [-limit, -below, -above]])
    (flushed,) = evaluate(lambda x: (torch.where(x.t().abs() < limit, 0.0, x.t()),), values)
    assert flushed.t().tolist() == [[limit, 0.0, above], [-limit, 0.0, -above]]
