"""Each aten operation: what it becomes computes the same, and forms that programs do not have are refused."""

from collections.abc import Callable, Sequence

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from protocol.compute.program.lowering import HANDLERS
from protocol.spec.errors import InvalidInput
from protocol.spec.program import Operation
from tests.protocol.compute.programs import Bench, evaluate, require_single_writers

Function = Callable[..., Sequence[Tensor]]
X = torch.tensor([[-3.0, -0.25, 0.5], [1.0, 2.0, 60.0]])
Y = torch.tensor([[2.0, -1.5, 0.5], [-0.125, 4.0, 3.0]])
ROW = torch.tensor([1.0, -2.0, 3.0])
CUBE = torch.arange(24.0).reshape(2, 3, 4) - 11
LABELS = torch.tensor([2, 0])

FORMS: dict[str, tuple[Function, tuple[Tensor, ...]]] = {
    "add": (lambda x, y: (x + y, x + 1.5), (X, Y)),
    "sub": (lambda x, y: (x - y, x - 2.0, 1.0 - x), (X, Y)),
    "mul": (lambda x, y: (x * y, x * 0.1, x * 1.0), (X, Y)),
    "div": (lambda x, y: (x / y, x / 3.0, 2.0 / y), (X, Y)),
    "neg and reciprocal": (lambda x: (-x, x.reciprocal()), (X,)),
    "broadcast": (lambda x, row: (x * row, row - x, x[:, :1] + row), (X, ROW)),
    "powers": (lambda x: (x**2, x**3), (X,)),
    "clamp": (lambda x: (x.clamp(max=1.0), x.clamp(min=-1.0), x.clamp(-1.0, 1.0)), (X,)),
    "clamp a piece of a concatenation": (lambda x, y: (torch.cat([x.clamp(-1.0, 1.0), y], 0),), (X, Y)),
    "exact square root": (lambda x: (x.double().sqrt().float(),), (X.abs(),)),
    "flush": (lambda x: (torch.where(x.abs() < 0.5, 0.0, x),), (X,)),
    "select": (lambda n, x, y: (torch.where(n < float("inf"), x, y),), (torch.tensor(3.0), X, Y)),
    "select else": (lambda n, x, y: (torch.where(n < float("inf"), x, y),), (torch.tensor(torch.nan), X, Y)),
    "views": (lambda c: (c.view(6, 4).t(), c.transpose(-1, 0), c.transpose(1, 2).reshape(2, 12)), (CUBE,)),
    "squeeze": (lambda c: (c.unsqueeze(-1), c.unsqueeze(1).squeeze(1), c[:, 1:2].squeeze(-2)), (CUBE,)),
    "expand": (lambda x: (x.unsqueeze(1).expand(2, 4, 3), x.expand(5, 2, 3)), (X,)),
    "slices": (lambda c: (c[1:], c[..., :2], c[:, 1:3, 2:]), (CUBE,)),
    "last slices": (lambda c: (c[-1:], c[:, -2:], c[..., :-1]), (CUBE,)),
    "unbind": (lambda c: c.unbind(), (CUBE,)),
    "detach and clone": (lambda x: (x.detach() + 1, x.clone() + 2), (X,)),
    "cat": (lambda x, y: (torch.cat([x + y, x * y], 0), torch.cat([x - y, y], -1)), (X, Y)),
    "cat twice the same": (lambda x, y: (torch.cat([x + y, x + y], 1),), (X, Y)),
    "cat of a cat": (lambda x, y: (torch.cat([torch.cat([x + y, y * x]), x / y]),), (X, Y)),
    "cat through views": (lambda x, c: (torch.cat([(x * 2).t().reshape(-1), c.reshape(-1) + 1]),), (X, CUBE)),
    "cat, and the piece": (lambda x, y: (torch.cat([z := x + y, y]), z * 2), (X, Y)),
    "sums": (lambda c: (c.sum(), c.sum(1), c.sum((0, -1)), c.sum(1, keepdim=True)), (CUBE,)),
    "sum of one element": (lambda c: (c[:, :1].sum(1), c[:, :1].sum(1, keepdim=True)), (CUBE,)),
    "means": (lambda c: (c.mean(-1), c.mean((0, 1), keepdim=True)), (CUBE,)),
    "sum of products": (lambda x, row: ((x * row).sum(1), (x * x).sum()), (X, ROW)),
    "product that is summed and read": (lambda x, y: ((z := x * y).sum(0), z + 1), (X, Y)),
    "sum as a piece": (lambda c: (torch.cat([c.sum(0), c[:1].reshape(3, 4)]),), (CUBE,)),
    "kept sum as a piece": (lambda c: (torch.cat([c.sum(1, keepdim=True), c], 1),), (CUBE,)),
    "matrix product": (lambda x, y: (x @ y.t(), x.t() @ y), (X, Y)),
    "batched product": (lambda c: (torch.bmm(c, c.transpose(1, 2)),), (CUBE,)),
    "product of one term": (lambda x: (x[:, :1] @ x[:1],), (X,)),
    "embedding": (lambda i, x: (F.embedding(i, x), F.embedding(i.view(2, 1), x)), (LABELS, CUBE[0])),
}  # fmt: skip
SMOOTH: dict[str, tuple[Function, tuple[Tensor, ...]]] = {
    "rsqrt": (lambda x: (x.rsqrt(),), (X.abs(),)),
    "softmax": (lambda x: (x.softmax(-1), x.softmax(1)), (X,)),
    "silu": (lambda x: (F.silu(x),), (X,)),
    "sigmoid": (lambda x: (x.sigmoid(),), (X,)),
    "cross entropy": (lambda x, i: (F.cross_entropy(x, i),), (X, LABELS)),
}


@pytest.mark.parametrize("name", FORMS)
def test_what_is_exact_stays_exact(name: str) -> None:
    function, inputs = FORMS[name]
    for ours, expected in zip(evaluate(function, *inputs), function(*inputs), strict=True):
        assert ours.shape == expected.shape and torch.equal(ours, expected)


@pytest.mark.parametrize("name", SMOOTH)
def test_functions_agree_within_float_noise(name: str) -> None:
    function, inputs = SMOOTH[name]
    for ours, expected in zip(evaluate(function, *inputs), function(*inputs), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-6, atol=1e-20)


def gradient_of(function: Callable[[Tensor], Tensor]) -> Function:
    """Of a function of x, given the gradient of its result."""

    def compute(x: Tensor, given: Tensor) -> Sequence[Tensor]:
        leaf = x.detach().requires_grad_()
        with torch.enable_grad():
            y = function(leaf)
        return torch.autograd.grad(y, [leaf], given)

    return compute


def rotate(x: Tensor) -> Tensor:
    a, b = x[..., :2], x[..., 2:]
    return torch.cat((a * 3 - b, b * 5 + a * 0.5), -1)


GRADIENTS: dict[str, Callable[[Tensor], Tensor]] = {
    "square": lambda x: x * x * 0.5,
    "cube": lambda x: x**3,
    "mean": lambda x: x - (x * x).mean(-1, keepdim=True),
    "rsqrt": lambda x: x * ((x * x).mean(-1, keepdim=True) + 1.0).rsqrt(),
    "softmax": lambda x: x.softmax(-1),
    "silu": lambda x: F.silu(x),
    "sigmoid": lambda x: x * torch.sigmoid(x * 1.5),
    "cuts": lambda x: torch.cat([(parts := torch.split(x, [1, 2]))[0].detach() * 2, parts[1] * parts[1]]),
    "product": lambda x: x @ x.t() @ x,
    "slices": rotate,
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_agree_with_autograd(name: str) -> None:
    function = gradient_of(GRADIENTS[name])
    x, given = CUBE / 8
    (ours,), (expected,) = evaluate(function, x, given), function(x, given)
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)


def test_gradients_through_indices_agree_with_autograd() -> None:
    def compute(table: Tensor, tokens: Tensor) -> Sequence[Tensor]:
        leaf = table.detach().requires_grad_()
        with torch.enable_grad():
            rows = F.embedding(tokens, leaf)
            loss = F.cross_entropy(rows * rows, tokens)
        return (loss.detach(), *torch.autograd.grad(loss, [leaf]))

    table, tokens = torch.linspace(-1, 1, 16).reshape(4, 4), torch.tensor([3, 1, 1, 0, 3, 3])
    for ours, expected in zip(evaluate(compute, table, tokens), compute(table, tokens), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-7)


# --- Patterns -----------------------------------------------------------------------------------------------
def list_operations(function: Function, *inputs: Tensor) -> list[Operation]:
    bench = Bench()
    bench.lower(function, *inputs)
    operations = [node.operation for node in bench.nodes]
    require_single_writers(bench.finish()[0])
    return operations


def test_views_cost_nothing() -> None:
    function, inputs = FORMS["views"]
    assert list_operations(function, *inputs) == []


def test_a_product_that_is_only_summed_is_a_product_sum() -> None:
    assert list_operations(lambda x, y: ((x * y).sum(1),), X, Y) == [Operation.PRODUCT_SUM]


def test_pieces_of_a_concatenation_are_written_in_place() -> None:
    assert list_operations(lambda x, y: (torch.cat([x + y, (x - y).t().reshape(2, 3)]),), X, Y) == [
        Operation.ADD, Operation.SUBTRACT,
    ]  # fmt: skip
    copied = list_operations(lambda x, y: (torch.cat([x, x + y]),), X, Y)
    assert copied == [Operation.ADD, Operation.COPY]


@pytest.mark.parametrize("name", ["cat", "cat of a cat", "cat through views", "cat, and the piece",
                                  "cat twice the same", "clamp a piece of a concatenation"])  # fmt: skip
def test_every_element_of_a_concatenation_is_written_once(name: str) -> None:
    function, inputs = FORMS[name]
    list_operations(function, *inputs)


def test_complementary_slices_of_a_gradient_are_written_in_place() -> None:
    """Forward 3 products, an addition, a subtraction; back (3 g1 + g2 / 2, 5 g2 - g1) 4 and 2; no copy."""
    operations = list_operations(gradient_of(rotate), *CUBE)
    assert (operations.count(Operation.MULTIPLY), operations.count(Operation.ADD)) == (3 + 4, 1 + 2)


# --- What is refused ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("function, name", [
    (lambda x: (x.tanh(),), "aten.tanh.default"),
    (lambda x: (x.clone().mul_(2),), "aten.mul_.Tensor"),
    (lambda x: (x.cos(),), "aten.cos.default"),
    (lambda x: (torch.ops.aten.addmm(x, x, x.t()[:, :1].expand(3, 3)),), "aten.addmm.default"),
])  # fmt: skip
def test_an_unknown_operation_is_refused_by_name(function: Function, name: str) -> None:
    with pytest.raises(InvalidInput, match=rf"operation that programs do not have.*{name}") as caught:
        evaluate(function, X)
    assert all(known in str(caught.value) for known in HANDLERS)


@pytest.mark.parametrize("a, b", [
    (slice(0, 2), slice(1, 3)), (slice(0, 1), slice(2, 3)), (slice(0, 2), slice(0, 1)),
    (slice(0, 2), slice(1, 2)), (slice(1, 3), slice(1, 2)),
])  # fmt: skip
def test_slices_that_do_not_fill_a_gradient_are_refused(a: slice, b: slice) -> None:
    def function(x: Tensor) -> Tensor:
        return torch.cat([x[..., a] * 3, x[..., b] * 5], -1)

    given = torch.ones_like(function(X))
    with pytest.raises(InvalidInput, match="do not fill it"):
        evaluate(gradient_of(function), X, given)


REFUSED: dict[str, tuple[Function, tuple[Tensor, ...]]] = {
    "a power": (lambda x: (x**1.5,), (X,)),
    "a float32 square root": (lambda x: (x.sqrt(),), (X.abs(),)),
    "another selection": (lambda x, y: (torch.where(x.abs() < 1.0, y, x),), (X, Y)),
    "a selection of something else": (lambda x, y: (torch.where(x.abs() < 1.0, 0.0, y),), (X, Y)),
    "a selection by sign": (lambda x: (torch.where(x < 0.5, 0.0, x),), (X,)),
    "a slice in steps": (lambda x: (x[:, ::2],), (X,)),
    "a softmax of columns": (lambda x: (x.softmax(0),), (X,)),
    "a sum of losses": (lambda x, i: (F.cross_entropy(x, i, reduction="sum"),), (X, LABELS)),
    "weighted losses": (lambda x, i, w: (F.cross_entropy(x, i, w),), (X, LABELS, ROW)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_forms_that_programs_do_not_have_are_refused(name: str) -> None:
    function, inputs = REFUSED[name]
    with pytest.raises(InvalidInput, match="that programs do not have|expected one through float64"):
        evaluate(function, *inputs)


def test_a_slice_of_a_gradient_among_other_terms_is_refused() -> None:
    def function(x: Tensor) -> Tensor:
        return x + torch.cat([x[..., :1], x[..., :2]], -1)

    with pytest.raises(InvalidInput, match="that programs do not have|programs do not have as a tensor"):
        evaluate(gradient_of(function), X, Y)


def test_an_index_into_a_scattered_dimension_is_refused() -> None:
    with pytest.raises(InvalidInput, match="not one loop"):
        evaluate(lambda i, c: (F.embedding(i, c.transpose(0, 1).reshape(6, 4)),), LABELS, CUBE)
