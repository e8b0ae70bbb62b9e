"""Computes the root of the model that a run leaves behind, for the comparison with the chain."""

from pathlib import Path

import torch
from safetensors.torch import load_file

from touchstone.node.exports.model_folder import SAFETENSORS_NAME
from touchstone.protocol.compute.digest import tensor_root
from touchstone.protocol.spec.weights_layout import WeightsLayout


def compute_exported_root(folder: Path, layout: WeightsLayout) -> str:
    """Returns the tree root of the exported weights, in the order of W, in hex."""
    tensors = load_file(folder / SAFETENSORS_NAME)
    return tensor_root(torch.cat([tensors[one.name].reshape(-1) for one in layout.parameters])).hex()
