"""Adds adapters of low rank beside frozen matrices (LoRA, Hu et al., arXiv 2106.09685).

Each chosen linear layer keeps its matrix and gets two narrow ones: W x + (alpha / rank) B A x. B begins at
zero, so the model begins unchanged. An export has each sum as one matrix, and the narrow ones as PEFT's files
(`node/exports/lora_export.py`).
"""

from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor, nn

from touchstone.protocol.spec.errors import InvalidInput


@dataclass(frozen=True)
class Lora:
    """Settings of adapters. `targets` are the last parts of the names of layers to adapt; if empty, all
    linear layers except the last one, which gives logits."""

    rank: int
    alpha: float
    targets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        given: object = self.targets
        if isinstance(given, str):
            raise _refuse("targets as a tuple of names", repr(self.targets))


class LoraLinear(nn.Module):
    """A frozen linear layer with its adapter. `lora_scale` is frozen too; exports find it by name."""

    def __init__(self, base: nn.Linear, rank: int, scale: float) -> None:
        super().__init__()
        self.base = base
        self.lora_scale = nn.Parameter(torch.tensor([scale]), requires_grad=False)
        most = 1 / sqrt(base.in_features)
        self.lora_A = nn.Parameter(torch.empty(rank, base.in_features).uniform_(-most, most))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        """Maps [..., in] to [..., out]."""
        result: Tensor = self.base(x) + x @ self.lora_A.t() @ self.lora_B.t() * self.lora_scale
        return result


def add_lora(module: nn.Module, lora: Lora) -> None:
    """Puts adapters into a module, and freezes all else. Raises InvalidInput if a target is no linear layer,
    if there is none, or if there are adapters already."""
    if any(isinstance(layer, LoraLinear) for layer in module.modules()):
        raise _refuse("a module without adapters", "one that has some")
    if lora.rank < 1 or not lora.alpha > 0:
        raise _refuse("a rank of 1 or more, and an alpha above 0", f"{lora.rank}, {lora.alpha}")
    chosen = [(name, layer) for name, layer in module.named_modules() if _is_chosen(name, layer, lora)]
    unknown = {*lora.targets} - {name.rpartition(".")[2] for name, _ in chosen}
    if unknown:
        raise _refuse("targets that are names of layers", f"no layer named {' or '.join(sorted(unknown))}")
    if not lora.targets:
        chosen = chosen[:-1]
    if not chosen:
        # GPT-2 has a class of its own for them, Conv1D of transformers.
        raise _refuse("two layers or more of torch.nn.Linear: the last one gets no adapter", "fewer")
    own = [one for layer in module.modules() for one in layer.parameters(recurse=False)]
    for name, layer in chosen:
        if not isinstance(layer, nn.Linear):
            raise _refuse("layers of torch.nn.Linear", f"{name} is a {type(layer).__name__}")
        if sum(one is layer.weight for one in own) > 1:
            raise _refuse("layers with a matrix of their own", f"{name} shares one")
        if lora.rank > min(layer.weight.shape):
            raise _refuse(
                "a rank of at most the smaller side of a matrix", f"{name} has {list(layer.weight.shape)}"
            )
    module.requires_grad_(False)
    for name, layer in chosen:
        assert isinstance(layer, nn.Linear)
        module.set_submodule(name, LoraLinear(layer, lora.rank, lora.alpha / lora.rank))


def _is_chosen(name: str, layer: nn.Module, lora: Lora) -> bool:
    return name.rpartition(".")[2] in lora.targets if lora.targets else isinstance(layer, nn.Linear)


def _refuse(expected: str, actual: str) -> InvalidInput:
    return InvalidInput(
        what="adapters cannot be added",
        expected=expected,
        actual=actual,
        remedy="Correct the numbers, or the targets: a target is the last part of a layer's name.",
    )
