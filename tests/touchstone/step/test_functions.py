"""Functions and gradients: what a program computes agrees with PyTorch and autograd within float noise."""

from collections.abc import Callable, Sequence

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.protocol.compute.programs import Bench, evaluate, require_single_writers
from tests.touchstone.step.test_operations import CASES
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.program_operations import Operation
from touchstone.step.operations import HANDLERS
from touchstone.step.recorder import record

Function = Callable[..., Sequence[Tensor]]
Inputs = tuple[Tensor, ...]
X = torch.tensor([[-3.0, -0.25, 0.5], [1.0, 2.0, 60.0]])
Y = torch.tensor([[2.0, -1.5, 0.5], [-0.125, 4.0, 3.0]])
LABELS = torch.tensor([2, 0])
CUBE = (torch.arange(24.0).reshape(2, 3, 4) * 5 % 23 - 11.5) / 8
SIGNAL = (torch.arange(60.0).reshape(2, 6, 5) * 7 % 31 - 15.5) / 8
IMAGE = (torch.arange(96.0).reshape(2, 3, 4, 4) * 7 % 41 - 20.5) / 8
ROW = torch.tensor([1.0, -2.0, 3.0, 0.5])


def gradient_of(function: Callable[..., Tensor]) -> Function:
    """The gradients of a function of tensors, given the gradient of its result, after the result."""

    def compute(*inputs: Tensor) -> Sequence[Tensor]:
        given, *rest = inputs
        leaves = [one.detach().requires_grad_() if one.is_floating_point() else one for one in rest]
        with torch.enable_grad():
            y = function(*leaves)
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        return (y.detach(), *torch.autograd.grad(y, wanted, given))

    return compute


def with_gradient(function: Callable[..., Tensor], *inputs: Tensor) -> tuple[Function, Inputs]:
    """A case of the function and its gradients; the gradient of the result is no constant."""
    y = function(*inputs)
    given = (torch.arange(float(y.numel())).reshape(y.shape) * 3 % 7 - 2.5) / 4
    return gradient_of(function), (given, *inputs)


def rotate(x: Tensor) -> Tensor:
    a, b = x[..., :2], x[..., 2:]
    return torch.cat((a * 3 - b, b * 5 + a * 0.5), -1)


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def attend_by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """With the mask that most decoders by hand have."""
    scores = (q @ k.transpose(1, 2) * 0.5).masked_fill(torch.ones(3, 3).tril() == 0, float("-inf"))
    return scores.softmax(-1) @ v


def choose_by_label(x: Tensor, labels: Tensor) -> Tensor:
    return x.log_softmax(-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)


def read_positions(x: Tensor) -> Tensor:
    return F.embedding(torch.arange(1, 3).expand(2, 2), x[0]) * x[:, :2]


SMOOTH: dict[str, tuple[Function, Inputs]] = {
    "rsqrt": with_gradient(lambda x: x.rsqrt(), X.abs()),
    "square root": with_gradient(lambda x: x.sqrt(), X.abs()),
    "exponential and logarithm": with_gradient(lambda x: x.exp() * (x.abs() + 1).log(), CUBE),
    "powers": with_gradient(lambda x: x**2 + x**3 + (x * x + 1) ** 1.5 + (x * x + 2) ** -1, CUBE),
    "means": with_gradient(lambda x: x - (x * x).mean(-1, keepdim=True) + x.mean(), CUBE),
    "softmax": with_gradient(lambda x: x.softmax(-1), CUBE),
    "logarithm of a sum": with_gradient(
        lambda x: x.logsumexp(-1) + x.logsumexp(-1, keepdim=True)[..., 0], CUBE
    ),
    "cross entropy": with_gradient(lambda x, i: F.cross_entropy(x, i), X, LABELS),
    "sum of losses": with_gradient(lambda x, i: F.cross_entropy(x, i, reduction="sum"), X, LABELS),
    "weighted losses": with_gradient(lambda x, i: F.cross_entropy(x, i, reduction="none"), X, LABELS),
    "scaled losses": with_gradient(lambda x, i: F.cross_entropy(x, i) * x[0, 0], X, LABELS),
    "smoothed labels": with_gradient(lambda x, i: F.cross_entropy(x, i, label_smoothing=0.25), X, LABELS),
    "logarithms of chances": with_gradient(lambda x: x.log_softmax(-1) * x, CUBE),
    "chance of a label": with_gradient(choose_by_label, X, LABELS),
    "silu": with_gradient(F.silu, CUBE),
    "sigmoid": with_gradient(lambda x: x * torch.sigmoid(x * 1.5), CUBE),
    "relu": with_gradient(lambda x: F.relu(x) + F.relu(x) ** 2, CUBE),
    "threshold": with_gradient(lambda x: torch.where(x > 0.5, x, x * 0.125), CUBE),
    "leaky relu": with_gradient(lambda x: F.leaky_relu(x, 0.125), CUBE),
    "tanh": with_gradient(torch.tanh, CUBE * 3),
    "softplus": with_gradient(F.softplus, CUBE * 9),
    "gelu": with_gradient(F.gelu, CUBE * 3),
    "gelu by tanh": with_gradient(lambda x: F.gelu(x, approximate="tanh"), CUBE * 3),
    "erf": (lambda x: (x.erf(),), (CUBE * 3,)),
    "clamp": with_gradient(lambda x: x.clamp(-0.5, 0.75) * 2 + x.clamp(min=0.5), CUBE),
    "absolute": with_gradient(lambda x: x.abs() * x, CUBE),
    "maximum": with_gradient(lambda x, y: torch.maximum(x, y * y), CUBE, CUBE / 2),
    "layer norm": with_gradient(lambda x, w, b: F.layer_norm(x, (4,), w, b), CUBE, ROW, ROW / 2),
    "plain layer norm": with_gradient(lambda x: F.layer_norm(x, (3, 4)), CUBE),
    "root mean square norm": with_gradient(lambda x, w: F.rms_norm(x, (4,), w, 1e-6), CUBE, ROW),
    "plain root mean square norm": with_gradient(lambda x: F.rms_norm(x, (4,)), CUBE),
    "attention": with_gradient(attend, CUBE, CUBE * 0.5, CUBE - 1),
    "attention by hand": with_gradient(attend_by_hand, CUBE, CUBE * 0.5, CUBE - 1),
    "products": with_gradient(lambda x: x @ x.transpose(1, 2) @ x, CUBE),
    "linear": with_gradient(lambda x, w, b: F.linear(x[0], w[0], b[0, :3, 0]), CUBE, CUBE / 2, CUBE),
    "convolution": with_gradient(
        lambda x, w, b: F.conv1d(x, w.reshape(2, 6, 2), b, padding=1), SIGNAL, CUBE, ROW[:2]
    ),
    "depthwise convolution": with_gradient(
        lambda x, w: F.conv1d(x, w.reshape(6, 1, 4), padding=3, groups=6)[..., :5], SIGNAL, CUBE
    ),
    "dilated convolution in groups": with_gradient(
        lambda x, w: F.conv1d(x, w.reshape(4, 3, 2), dilation=2, groups=2), SIGNAL, CUBE
    ),
    "convolution of images": with_gradient(
        lambda x, w: F.conv2d(x, w.reshape(2, 3, 2, 2), padding=(1, 0)), IMAGE, CUBE
    ),
    "patches": (lambda x, w, b: (F.conv2d(x, w.reshape(2, 3, 2, 2), b, stride=2),), (IMAGE, CUBE, ROW[:2])),
    "slices": with_gradient(rotate, CUBE),
    "cuts": with_gradient(lambda x: torch.cat([x[:1, 1:], x[1:, :2] * x[1:, 1:]], 0), CUBE),
    "one index": with_gradient(lambda x: x[:, 1] * x[:, -1] + x[0, 0], CUBE),
    "one of three": with_gradient(lambda x: x[:, 0] * 2 + x[:, 1] * x[:, 2], CUBE),
    "split": with_gradient(lambda x: torch.cat([x.split([1, 2], 1)[1] * 3, x.chunk(3, 1)[0]], 1), CUBE),
    "unbind": with_gradient(lambda x: torch.stack([x.unbind(1)[n] * x[:, 2 - n] for n in range(3)]), CUBE),
    "padding": with_gradient(lambda x: F.pad(x, (1, 2, 0, 1)) * 2, CUBE),
    "repeats": with_gradient(lambda x: x.repeat(1, 2, 1) * 2, CUBE),
    "running sums": with_gradient(lambda x: x.cumsum(1) * x, CUBE),
    "triangles": with_gradient(lambda x: x.tril() + x.triu(1) * 2, CUBE),
    "rows by token": with_gradient(lambda x, i: F.embedding(i.view(2, 1), x[0]) ** 2, CUBE, LABELS),
    "rows by token, one of them padding": with_gradient(
        lambda x, i: F.embedding(i, x[0], padding_idx=0) ** 2, CUBE, LABELS
    ),
    "rows by position": with_gradient(read_positions, CUBE),
}  # fmt: skip


@pytest.mark.parametrize("name", SMOOTH)
def test_functions_and_gradients_agree_within_float_noise(name: str) -> None:
    function, inputs = SMOOTH[name]
    for ours, expected in zip(evaluate(function, *inputs), function(*inputs), strict=True):
        torch.testing.assert_close(ours, expected, rtol=2e-6, atol=2e-6)


def test_every_operation_that_programs_have_is_tried() -> None:
    cases = [*CASES.values(), *SMOOTH.values()]
    recorded = {
        call.name
        for function, inputs in cases
        for call in record(function, [(one.shape, one.dtype) for one in inputs]).calls
    }
    assert set(HANDLERS) == recorded


# Patterns
def list_operations(function: Function, *inputs: Tensor) -> list[Operation]:
    bench = Bench()
    bench.lower(function, *inputs)
    operations = [node.operation for node in bench.nodes]
    require_single_writers(bench.finish()[0])
    return operations


@pytest.mark.parametrize("name", SMOOTH)
def test_every_element_is_written_once(name: str) -> None:
    function, inputs = SMOOTH[name]
    assert list_operations(function, *inputs)


def test_complementary_slices_of_a_gradient_are_written_in_place() -> None:
    """Forward 3 products, an addition, a subtraction; back (3 g1 + g2 / 2, 5 g2 - g1) 4 and 2; no copy."""
    function, inputs = with_gradient(rotate, CUBE)
    operations = list_operations(function, *inputs)
    assert (operations.count(Operation.MULTIPLY), operations.count(Operation.ADD)) == (3 + 4, 1 + 2)
    assert Operation.COPY not in operations


def test_a_gradient_at_the_label_is_one_selection() -> None:
    function, inputs = with_gradient(lambda x, i: F.cross_entropy(x, i), X, LABELS)
    assert list_operations(function, *inputs).count(Operation.EQUAL_SELECT) == 1


# What is refused
REFUSED: dict[str, tuple[Function, Inputs, str]] = {
    "an unknown operation": (lambda x: (x.cos(),), (X,), "aten.cos.default. Only constants"),
    "routing by data": (lambda x: (x.topk(2).values,), (X,), "aten.topk.default. Routing by data"),
    "a softmax of columns": (lambda x: (x.softmax(0),), (X,), "expected the last dimension"),
    "losses by class": (lambda x, i: (F.cross_entropy(x, i, Y[0]),), (X, LABELS), "no weights of classes"),
    "a comparison of tokens": (
        lambda i, x: (torch.where(i > 1, x[:, 0], 0.0),), (LABELS, X), "not of tokens",
    ),
    "a label that is ignored": (
        lambda x, i: (F.cross_entropy(x, i, ignore_index=2),), (X, LABELS), "no label that is ignored",
    ),
    "arithmetic of tokens": (lambda i: (i * 2 + 1,), (LABELS,), "only choose rows"),
    "an index of positions": (
        lambda x: (x.gather(1, torch.tensor([[0], [1]])),), (X,), "an index of tokens or labels",
    ),
    "an index into a scattered dimension": (
        lambda i, c: (F.embedding(i, c.transpose(0, 1).reshape(6, 4)),), (LABELS, CUBE), "not one loop",
    ),
    "any positions": (
        lambda x: (F.embedding(torch.tensor([0, 2, 1]), x.t()),), (X,), "positions that follow each other",
    ),
    "a transposed convolution": (
        lambda x, w: (F.conv_transpose1d(x, w.reshape(6, 2, 2)),), (SIGNAL, CUBE), "not transposed",
    ),
    "a reshape that mixes dimensions": (
        lambda c: (c[:, :2].reshape(-1)[3:7] * 1,), (CUBE,), "whole dimensions",
    ),
    "no number": (lambda x: (x * torch.tensor([1.0, float("nan"), 2.0]),), (X,), "contains NaN"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_programs_do_not_have_is_refused_with_what_to_write(name: str) -> None:
    function, inputs, message = REFUSED[name]
    with pytest.raises(InvalidInput, match=message):
        evaluate(function, *inputs)
