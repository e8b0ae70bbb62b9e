from dataclasses import replace
from hashlib import sha256

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from protocol.compute.digest import tensor_bytes
from protocol.compute.model.model_export import export_texts
from protocol.compute.model.reference_model import (
    build_tables,
    compute_logits,
    init_parameters,
    parameter_count,
    parameter_layout,
    split_parameters,
)
from protocol.spec.containers import ModelConfig, TrainingSpec
from protocol.spec.errors import InvalidInput

INITIAL_DIGEST = "61054c053ee778911702590dbc8e16f94703284473f53a29eb2dda852fb6b447"
"""SHA-256 of the tiny model's initial bytes with seed 5; a change is another protocol version."""


def test_layout_is_the_state_dict_of_transformers(spec: TrainingSpec) -> None:
    model = spec.model
    config = LlamaConfig(
        vocab_size=model.vocabulary_size,
        hidden_size=model.hidden_size,
        intermediate_size=model.intermediate_size,
        num_hidden_layers=model.layer_count,
        num_attention_heads=model.head_count,
        num_key_value_heads=model.kv_head_count,
        tie_word_embeddings=False,
    )
    theirs = [(name, tuple(p.shape)) for name, p in LlamaForCausalLM(config).state_dict().items()]
    assert [(p.name, p.shape) for p in parameter_layout(model)] == theirs
    assert "config.json" in export_texts(model)


def test_layout_is_contiguous(spec: TrainingSpec) -> None:
    end = 0
    for parameter in parameter_layout(spec.model):
        assert parameter.offset == end
        end += parameter.size
    assert end == parameter_count(spec.model)


def test_initial_parameters_have_golden_bits(spec: TrainingSpec) -> None:
    flat = init_parameters(spec.model, 5)
    assert sha256(tensor_bytes(flat)).hexdigest() == INITIAL_DIGEST


def test_initial_parameters_have_the_deviation_of_their_kind() -> None:
    config = ModelConfig(256, 64, 128, 8, 4, 4, 16)
    params = split_parameters(init_parameters(config, 1), config)
    assert float(params["model.embed_tokens.weight"].std()) == pytest.approx(1.0, rel=0.03)
    assert float(params["lm_head.weight"].std()) == pytest.approx(0.02, rel=0.03)
    assert float(params["lm_head.weight"].mean()) == pytest.approx(0, abs=1e-3)
    assert float(params["model.layers.3.mlp.down_proj.weight"].std()) == pytest.approx(0.005, rel=0.03)
    assert torch.equal(params["model.norm.weight"], torch.ones(64))
    assert not torch.equal(
        params["model.layers.0.mlp.up_proj.weight"], params["model.layers.1.mlp.up_proj.weight"]
    )


def test_seeds_differ(spec: TrainingSpec) -> None:
    assert not torch.equal(init_parameters(spec.model, 1), init_parameters(spec.model, 2))


def test_future_tokens_do_not_change_the_past(spec: TrainingSpec) -> None:
    params = split_parameters(init_parameters(spec.model, 1), spec.model)
    tokens = torch.arange(16).view(1, 16)
    changed = tokens.clone()
    changed[0, 9:] = 0
    tables = build_tables(spec.model)
    before, after = (compute_logits(params, t, tables, spec.model) for t in (tokens, changed))
    assert torch.allclose(before[0, :9], after[0, :9], atol=1e-6)
    assert not torch.allclose(before[0, 9], after[0, 9], atol=1e-6)


@pytest.mark.parametrize(
    "change", [{"head_count": 3}, {"kv_head_count": 3}, {"layer_count": 0}, {"hidden_size": 4}]
)
def test_impossible_shapes_are_refused(spec: TrainingSpec, change: dict[str, int]) -> None:
    with pytest.raises(InvalidInput, match="not a shape"):
        parameter_layout(replace(spec.model, **change))


def test_split_refuses_another_length(spec: TrainingSpec) -> None:
    with pytest.raises(InvalidInput, match="does not fit"):
        split_parameters(torch.zeros(7), spec.model)
