"""What is recorded: operations below autograd, without values. What is refused is told with its line."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.step.recorder import record
from touchstone.step.recordings import Recording

Function = Callable[..., Sequence[Tensor]]
GRID = ((4, 3), torch.float32)
TOKENS = ((2, 5), torch.int64)


def names(recorded: Recording) -> list[str]:
    return [call.name for call in recorded.calls]


def test_calls_are_joined_by_the_tensors_that_they_hand_on() -> None:
    def function(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        first, _ = (a @ b).unbind()
        return (torch.cat([first, first]), a)

    recorded = record(function, (((2, 3), torch.float32), ((3, 4), torch.float32)))
    a, b = recorded.inputs
    product, unbind, first, joined = recorded.calls
    assert names(recorded) == ["aten.mm.default", "aten.unbind.int", "getitem", "aten.cat.default"]
    assert product.args == (a, b) and (product.shape, product.dtype) == ((2, 4), torch.float32)
    assert first.args == (unbind, 0) and joined.args[0] == (first, first)
    assert recorded.outputs == (joined, a) and (a.name, a.shape) == ("input", (2, 3))
    assert a.users == b.users == [product] and product.users == [unbind]
    assert unbind.users == [first] and first.users == [joined, joined]
    assert product.where.startswith(f"{__file__}:")


def test_what_no_output_needs_is_left_out() -> None:
    recorded = record(lambda x: (x.topk(2), torch.ones(3) * x[0], x * 2)[-1:], [GRID])
    assert names(recorded) == ["aten.mul.Tensor"] and not recorded.constants


def test_the_backward_pass_is_recorded_with_the_lines_of_the_forward_pass() -> None:
    def function(x: Tensor) -> Sequence[Tensor]:
        leaf = x.detach().requires_grad_()
        with torch.enable_grad():
            y = (leaf * leaf).sum()
        return torch.autograd.grad(y, [leaf])

    recorded = record(function, [GRID])
    product = recorded.calls[-1]
    assert names(recorded).count("aten.mul.Tensor") == 2
    assert product.where.endswith("(backward)") and product.where.startswith(f"{__file__}:")


def test_constants_are_computed_at_once() -> None:
    outside = torch.arange(3.0)

    def function(x: Tensor) -> Sequence[Tensor]:
        angles = outside.cos().expand(4, 3)
        return (x * angles + x * angles, x + torch.tensor(2.0), torch.zeros_like(x) + x)

    recorded = record(function, [GRID])
    angles, zeros = recorded.constants
    assert torch.equal(angles.tensor, outside.cos().expand(4, 3)) and not zeros.tensor.any()
    assert {call.args[1] for call in recorded.calls if call.name == "aten.mul.Tensor"} == {angles}
    assert any(call.args[1:] == (2.0,) for call in recorded.calls), "a tensor without dimensions is a number"


def test_arguments_by_name_are_noted_by_place() -> None:
    (call,) = record(lambda x: (torch.add(x, x, alpha=3),), [GRID]).calls
    assert call.args[2] == 3
    (call,) = record(lambda x: (nn.functional.gelu(x, approximate="tanh"),), [GRID]).calls
    assert call.args[1:] == ("tanh",)


def test_nothing_is_computed() -> None:
    """Not even where it would take sixteen terabytes."""
    size = 1 << 21
    (call,) = record(lambda x: (x @ x.t(),), [((size, 1), torch.float32)]).calls[-1:]
    assert call.shape == (size, size)


def change_a_constant(x: Tensor) -> Sequence[Tensor]:
    table = torch.ones(3)
    y = x * table
    table[0] = 2
    return (y,)


def write_through_a_view(x: Tensor) -> Sequence[Tensor]:
    y = x * 2
    rows = y.view(2, 6)
    y.add_(1)
    return (rows,)


def decide_by_value(x: Tensor) -> Sequence[Tensor]:
    return (x if x.sum() > 0 else -x,)


def route(x: Tensor) -> Sequence[Tensor]:
    chosen = x.topk(1).indices
    return (x[(chosen == 0).nonzero()],)


@pytest.mark.parametrize("function, message", [
    (decide_by_value, "values of a tensor decide"),
    (route, "topk.default. Routing by data"),
    (lambda x: (nn.functional.dropout(x, 0.5),), "draws random numbers"),
    (lambda x: (x + torch.rand(3),), "draws random numbers"),
    (change_a_constant, "a constant is overwritten"),
    (write_through_a_view, "a tensor is overwritten"),
    (lambda x: (x[0].mul_(2), x)[-1:], "a tensor is overwritten"),
    (lambda x: (torch.ones(4, 3).add_(x),), "a tensor is overwritten"),
])  # fmt: skip
def test_what_cannot_be_recorded_is_refused_with_its_line(function: Function, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        record(function, [GRID])
    assert caught.value.where.startswith(f"{__file__}:")


def test_the_line_is_that_of_the_module_and_not_of_a_library() -> None:
    class Sorted(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.softmax(x.sort(-1).values.nonzero().float(), -1)

    line = Sorted.forward.__code__.co_firstlineno + 1
    with pytest.raises(InvalidInput) as caught:
        record(lambda x: (Sorted()(x),), [GRID])
    assert caught.value.where == f"{__file__}:{line}"
