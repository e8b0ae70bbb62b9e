"""Runs a training step in plain PyTorch: it is recorded, and anybody can run it beside a program.

Vectors are flat float32. Everything but the gradient is made of separate IEEE-754 operations, so all machines
get equal bits from equal gradients.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.step.borrowed_module import borrowed
from touchstone.step.optimizers import Optimizer, Parameter, Vectors, keep_finite_elements

Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""Maps (module, tokens, labels), int64 [sequences, tokens] each, to a scalar."""


@dataclass(frozen=True)
class PlainStep:
    """Forward, backward and the update of a module. `parameters` are trained ones, in the order of W. `idle`
    maps names to bool tensors that are true where a gradient is cut off."""

    module: nn.Module
    parameters: Sequence[Parameter]
    loss: Loss
    optimizer: Optimizer
    idle: Mapping[str, Tensor] = field(default_factory=dict)

    def take(
        self, vectors: Vectors, tokens: Tensor, labels: Tensor, scalars: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns the new W and both vectors, and the loss. `scalars` are those of `Optimizer.update`."""
        loss, gradient = self.compute_gradient(vectors[0], tokens, labels)
        moved = self.optimizer.update(self.parameters, vectors, gradient, scalars)
        weights, first, second = (keep_finite_elements(one) for one in moved)
        return weights, first, second, loss

    def compute_gradient(self, weights: Tensor, tokens: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the loss, a scalar, and its gradient, flat. Raises InvalidInput if the loss is not a single
        number, or does not depend on a parameter."""
        trained = {p.name: p.cut(weights).detach().requires_grad_() for p in self.parameters}
        with torch.enable_grad():
            value = self._compute_loss(trained, tokens, labels)
        parts = torch.autograd.grad(value, list(trained.values()), allow_unused=True)
        _require_reached(self.parameters, parts)
        pieces = (self._cut_off(p, part) for p, part in zip(self.parameters, parts, strict=True))
        return value.detach(), torch.cat([piece.reshape(-1) for piece in pieces])

    def _compute_loss(self, trained: Mapping[str, Tensor], tokens: Tensor, labels: Tensor) -> Tensor:
        with borrowed(self.module, trained):
            value = self.loss(self.module, tokens, labels)
        if not isinstance(value, Tensor) or value.dim():
            raise InvalidInput(
                what="the loss is no single number",
                expected="a tensor without dimensions",
                actual=list(value.shape) if isinstance(value, Tensor) else type(value).__name__,
                remedy="Return the mean.",
            )
        return value

    def _cut_off(self, parameter: Parameter, part: Tensor | None) -> Tensor:
        """Returns the gradient with its noise set to zero."""
        assert part is not None
        mask = self.idle.get(parameter.name)
        return part if mask is None else torch.where(mask, 0.0, part)


def lay_out(
    module: nn.Module, is_frozen: Callable[[str], bool] = lambda name: False
) -> tuple[Parameter, ...]:
    """Returns the trained parameters of a module, in its order. Raises InvalidInput if one is not float32, or
    there is none."""
    parameters: list[Parameter] = []
    offset = 0
    for name, tensor in module.named_parameters():
        if tensor.dtype is not torch.float32:
            raise InvalidInput(
                what="a parameter has another type",
                expected="float32",
                actual=str(tensor.dtype),
                where=name,
                remedy="Call module.float().",
            )
        if not is_frozen(name) and tensor.requires_grad:
            parameters.append(Parameter(name, offset, tuple(tensor.shape)))
            offset += tensor.numel()
    if not parameters:
        raise InvalidInput(
            what="there is nothing to train",
            expected="a parameter that is not frozen",
            actual="none",
            remedy="Correct `is_frozen`, or requires_grad of the module's parameters.",
        )
    return tuple(parameters)


def _require_reached(parameters: Sequence[Parameter], parts: Sequence[Tensor | None]) -> None:
    idle = [p.name for p, part in zip(parameters, parts, strict=True) if part is None]
    if idle:
        raise InvalidInput(
            what="the loss does not depend on a parameter",
            expected="a gradient for each trained parameter",
            actual=", ".join(idle),
            remedy="Leave it out of the module, or freeze it: parameter.requires_grad_(False).",
        )
