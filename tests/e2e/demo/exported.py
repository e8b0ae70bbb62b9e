"""The model that a run leaves behind, against the root on chain."""

from pathlib import Path

import torch
from safetensors.torch import load_file

from protocol.compute.digest import tensor_root
from protocol.compute.model.reference_model import SAFETENSORS_NAME, parameter_layout
from protocol.spec.containers import ModelConfig


def compute_exported_root(folder: Path, model: ModelConfig) -> str:
    """The tree root of the exported weights, in canonical order."""
    tensors = load_file(folder / SAFETENSORS_NAME)
    return tensor_root(torch.cat([tensors[p.name].reshape(-1) for p in parameter_layout(model)])).hex()
