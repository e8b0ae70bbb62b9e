"""Finds elements of parameters whose gradient is only rounding noise, before a step is recorded.

The bias of keys in an attention shifts all scores of a query alike, and softmax cancels it. Its true gradient
is zero, and float32 gives noise. An optimizer that divides a gradient by its size would turn noise into full
steps. So the gradient of such elements is cut off: it is the constant 0 of the program.

The loss is computed in float32 and in float64, on random tokens, from the module's weights moved a little. If
float64 finds almost none of the gradient that float32 found, that was noise.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from touchstone.step.borrowed_module import borrowed
from touchstone.step.optimizers import Parameter

SHARE = 2.0**-10
"""If float64 finds less than this share of a float32 gradient, it was noise. A real gradient keeps all but a
millionth."""
MOVED = 2.0**-6
LOOKS = 2
"""The number of trials, each with other tokens: an element that is near zero by chance in one is not in the
next. A trial in which float32 gives zero says nothing."""


def find_idle(
    module: nn.Module,
    parameters: Sequence[Parameter],
    loss: Callable[[nn.Module, Tensor, Tensor], Tensor],
    batch: tuple[int, int],
    vocabulary_size: int,
) -> dict[str, Tensor]:
    """Returns, by name of each parameter that has an idle part, a bool tensor of its shape, true for idle
    elements. `batch` is rows and tokens that the loss takes."""
    noise: dict[str, Tensor] = {}
    real: dict[str, Tensor] = {}
    for look in range(LOOKS):
        tokens, labels = _draw(batch, vocabulary_size, look)
        single, double = (
            _compute_gradients(module, parameters, loss, tokens, labels, dtype, look)
            for dtype in (torch.float32, torch.float64)
        )
        for name, one in single.items():
            is_noise = double[name].abs() < SHARE * one.abs().double()
            noise[name] = noise.get(name, False) | is_noise
            real[name] = real.get(name, False) | ((one != 0) & ~is_noise)
    idle = {name: some & ~real[name] for name, some in noise.items()}
    return {name: some for name, some in idle.items() if bool(some.any())}


def _draw(batch: tuple[int, int], vocabulary_size: int, look: int) -> tuple[Tensor, Tensor]:
    numbers = torch.arange(batch[0] * batch[1]).view(batch)
    tokens = (numbers**2 + numbers // 3 + 7 * look) % vocabulary_size
    return tokens, (numbers * 5 + numbers**2 // 7 + look) % vocabulary_size


def _compute_gradients(
    module: nn.Module,
    parameters: Sequence[Parameter],
    loss: Callable[[nn.Module, Tensor, Tensor], Tensor],
    tokens: Tensor,
    labels: Tensor,
    dtype: torch.dtype,
    look: int,
) -> Mapping[str, Tensor]:
    named = dict(module.named_parameters())
    buffers = [(one, name, value) for one in module.modules() for name, value in one._buffers.items()]
    given = {name: value.detach().to(dtype) for name, value in named.items()}
    for number, parameter in enumerate(parameters):
        places = torch.arange(parameter.size, dtype=dtype).view(parameter.shape)
        moved = given[parameter.name] + torch.sin(places + number + look).to(dtype) * MOVED
        given[parameter.name] = moved.requires_grad_()
    before = torch.get_default_dtype()
    try:
        # Tensors that a module makes (masks, positions) must have the type of its parameters too.
        torch.set_default_dtype(dtype)
        for one, name, value in buffers:
            if value is not None and value.is_floating_point():
                one._buffers[name] = value.to(dtype)
        with borrowed(module, given), torch.enable_grad():
            value = loss(module, tokens, labels)
        wanted = [given[parameter.name] for parameter in parameters]
        gradients = torch.autograd.grad(value, wanted, allow_unused=True)
    finally:
        torch.set_default_dtype(before)
        for one, name, kept in buffers:
            one._buffers[name] = kept
    pairs = zip(parameters, gradients, strict=True)
    return {p.name: torch.zeros(p.shape, dtype=dtype) if g is None else g for p, g in pairs}
