"""Exports adapters: added to their matrices, and as PEFT's files beside the weights.

A layer has an adapter if its parameters are named base.weight, lora_A, lora_B and lora_scale
(`touchstone/step/lora.py`). Parameters with other names or shapes are exported unchanged.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from touchstone.node.exports.tensor_file import PIECE_ELEMENTS, Made

SUFFIXES = WEIGHT, A, B, SCALE = (".base.weight", ".lora_A", ".lora_B", ".lora_scale")
BIAS = ".base.bias"
PEFT_PREFIX = "base_model.model."
"""PEFT's name of the module that it wraps."""


@dataclass(frozen=True)
class Adapter:
    """The adapter of the layer `name`. The product b a times scale, [out, in], is added to the layer's
    matrix."""

    name: str
    a: Tensor
    b: Tensor
    scale: float


@dataclass(frozen=True)
class Merged:
    """A matrix with its adapter added, in float32. A few rows are computed at a time."""

    weight: Tensor
    adapter: Adapter

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        return tuple(self.weight.shape)

    def list_pieces(self) -> Iterator[Tensor]:
        """Yields the elements in order, as flat pieces."""
        rows = max(1, PIECE_ELEMENTS // self.weight.shape[1])
        for weight, b in zip(torch.split(self.weight, rows), torch.split(self.adapter.b, rows), strict=True):
            yield (weight + b @ self.adapter.a * self.adapter.scale).reshape(-1)


def find_adapters(tensors: Mapping[str, Tensor]) -> list[Adapter]:
    """Returns the adapters among the parameters of a model, in the order of the parameters."""
    return [one for name in tensors if name.endswith(A) for one in _read(tensors, name.removesuffix(A))]


def _read(tensors: Mapping[str, Tensor], name: str) -> Iterator[Adapter]:
    weight, a, b, scale = (tensors.get(name + suffix) for suffix in SUFFIXES)
    if weight is None or a is None or b is None or scale is None or not a.dim() == b.dim() == 2:
        return
    fits = weight.shape == (b.shape[0], a.shape[1]) and b.shape[1] == a.shape[0] and scale.numel() == 1
    # A tensor with one value everywhere takes no memory; a product would need memory for it.
    fits = fits and a.is_contiguous() and b.is_contiguous()
    is_free = name + ".weight" not in tensors and name + ".bias" not in tensors
    if fits and is_free:
        yield Adapter(name, a, b, float(scale))


def merge(tensors: Mapping[str, Tensor], adapters: list[Adapter]) -> dict[str, Tensor | Made]:
    """Returns the model's parameters without adapters; each adapter is added to its matrix."""
    kept, merged = dict(tensors), dict[str, Tensor | Made]()
    for one in adapters:
        weight, *_ = (kept.pop(one.name + suffix) for suffix in SUFFIXES)
        merged[one.name + ".weight"] = Merged(weight, one)
        if one.name + BIAS in kept:
            merged[one.name + ".bias"] = kept.pop(one.name + BIAS)
    return kept | merged


def name_for_peft(adapters: list[Adapter]) -> dict[str, Tensor | Made]:
    """Returns the tensors of PEFT's `adapter_model.safetensors`."""
    pairs = ((f"{PEFT_PREFIX}{one.name}.lora_{part}.weight", one) for one in adapters for part in "AB")
    return {name: one.a if name.endswith("A.weight") else one.b for name, one in pairs}


def describe_for_peft(adapters: list[Adapter], has_config: bool) -> bytes:
    """Returns PEFT's `adapter_config.json`, with rank and alpha for each layer. `has_config` says that the
    model is one of transformers; for others PEFT must not use functions that only those have."""
    first = adapters[0]
    ranks = {one.name: one.a.shape[0] for one in adapters}
    alphas = {one.name: one.scale * one.a.shape[0] for one in adapters}
    fields = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM" if has_config else None,
        "base_model_name_or_path": "", "bias": "none",
        "fan_in_fan_out": False, "inference_mode": True, "lora_dropout": 0.0, "modules_to_save": None,
        "r": ranks[first.name], "lora_alpha": alphas[first.name], "target_modules": [*ranks],
        "rank_pattern": {name: rank for name, rank in ranks.items() if rank != ranks[first.name]},
        "alpha_pattern": {name: one for name, one in alphas.items() if one != alphas[first.name]},
    }  # fmt: skip
    return json.dumps(fields, indent=2).encode()
