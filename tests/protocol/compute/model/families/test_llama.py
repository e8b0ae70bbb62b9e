"""What is Llama's own: no norms of heads, and no biases in the hidden layers."""

import json
from dataclasses import replace

import pytest

from protocol.compute.model.reference_model import export_texts, import_model, parameter_layout
from protocol.spec.errors import InvalidInput
from tests.protocol.compute.model.family_models import LLAMA


def test_a_layer_has_the_parameters_of_its_class_and_no_other() -> None:
    names = [one.name for one in parameter_layout(LLAMA) if one.name.startswith("model.layers.0.")]
    parts = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj")
    assert len(names) == 9 and all(f"model.layers.0.{part}.weight" in names for part in parts)
    assert not any(name.endswith(".bias") or "_norm." in name for name in names)


def test_biases_of_hidden_layers_are_refused() -> None:
    fields = json.loads(export_texts(LLAMA)["config.json"])
    with pytest.raises(InvalidInput, match="mlp_bias"):
        import_model(json.dumps({**fields, "mlp_bias": True}).encode(), "config.json")


def test_a_head_of_its_own_size_is_read_from_head_dim() -> None:
    model = replace(LLAMA, head_size=6)
    assert import_model(export_texts(model)["config.json"].encode(), "config.json") == model
