"""A training step of any PyTorch module, as a program."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from protocol.spec.errors import InvalidInput
from protocol.spec.params import PRODUCT_BITS
from protocol.spec.program import DEFAULT_CHUNK_TERMS
from touchstone.step.borrowed_module import borrowed
from touchstone.step.first_weights import describe_weights, flatten
from touchstone.step.optimizers import AdamW, Optimizer, Parameter
from touchstone.step.programs import write_program
from touchstone.step.recorder import record
from touchstone.step.step_folder import StepFiles, save_step

Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""From (module, tokens, labels), int64 [sequences, tokens] each, to a scalar."""


def next_token_loss(module: nn.Module, tokens: Tensor, labels: Tensor) -> Tensor:
    """Mean cross entropy of the labels, in nats. The module gives logits, or a result that has them."""
    has_cache = hasattr(getattr(module, "config", None), "use_cache")
    result = module(tokens, use_cache=False) if has_cache else module(tokens)
    logits = getattr(result, "logits", result)
    return nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


@dataclass(frozen=True)
class Shape:
    """Of a batch: so many sequences of so many tokens. numeric_format: `float32`, or an exact one;
    chunk_terms: no sum of the program has more terms."""

    sequences: int
    tokens: int
    numeric_format: str = "float32"
    chunk_terms: int = DEFAULT_CHUNK_TERMS


@dataclass(frozen=True)
class RecordedStep(StepFiles):
    """A step as a program, with what a task needs beside it; parameters: of W, in their order."""

    parameters: tuple[Parameter, ...]

    def save(self, folder: str | Path) -> None:
        """Writes the step into a folder (`step_folder.py`)."""
        save_step(self, Path(folder))


def record_step(
    module: nn.Module,
    shape: Shape,
    loss: Loss = next_token_loss,
    optimizer: Optimizer | None = None,
    is_frozen: Callable[[str], bool] = lambda name: False,
    config: str = "",
) -> RecordedStep:
    """Records one training step of `module`. is_frozen: by a parameter's name whether it stays as it is, as a
    constant of the program; config: the `config.json` that an export gets, as text. Raises InvalidInput, with
    the line of the module, for what programs do not have."""
    parameters = _lay_out(module, is_frozen)
    optimizer = optimizer or AdamW()
    count = sum(parameter.size for parameter in parameters)
    batch = (shape.sequences, shape.tokens)
    kinds = [torch.float32] * 3 + [torch.int64] * 2 + [torch.float32]
    shapes: list[tuple[int, ...]] = [(count,), (count,), (count,), batch, batch, (3,)]

    def step(
        w: Tensor, m: Tensor, v: Tensor, tokens: Tensor, labels: Tensor, scalars: Tensor
    ) -> Sequence[Tensor]:
        """Forward, backward and the update."""
        trained = {p.name: p.cut(w).detach().requires_grad_() for p in parameters}
        with torch.enable_grad():
            value = _compute_loss(module, trained, loss, tokens, labels)
        parts = torch.autograd.grad(value, list(trained.values()), allow_unused=True)
        _require_reached(parameters, parts)
        gradient = torch.cat([part.reshape(-1) for part in parts])
        return (*optimizer.update(parameters, (w, m, v), gradient, scalars), value.detach())

    recording = record(step, list(zip(shapes, kinds, strict=True)))
    bits = PRODUCT_BITS.get(shape.numeric_format, 0)
    built = write_program(recording, shape.chunk_terms, bits)
    layout = describe_weights(module, parameters, config)
    return RecordedStep(built, layout, flatten(module, parameters), parameters)


def _lay_out(module: nn.Module, is_frozen: Callable[[str], bool]) -> tuple[Parameter, ...]:
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


def _compute_loss(
    module: nn.Module, trained: Mapping[str, Tensor], loss: Loss, tokens: Tensor, labels: Tensor
) -> Tensor:
    with borrowed(module, trained):
        value = loss(module, tokens, labels)
    if value.dim():
        raise InvalidInput(
            what="the loss is no single number",
            expected="a tensor without dimensions",
            actual=list(value.shape),
            remedy="Return the mean.",
        )
    return value


def _require_reached(parameters: Sequence[Parameter], parts: Sequence[Tensor | None]) -> None:
    idle = [p.name for p, part in zip(parameters, parts, strict=True) if part is None]
    if idle:
        raise InvalidInput(
            what="the loss does not depend on a parameter",
            expected="a gradient for each trained parameter",
            actual=", ".join(idle),
            remedy="Freeze it.",
        )
