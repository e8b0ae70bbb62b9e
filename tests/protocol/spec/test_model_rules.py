"""Sizes of models: published models have their published numbers of parameters, and no cap can be passed."""

from dataclasses import replace

import pytest

from protocol.spec.containers import ModelConfig, RopeScaling
from protocol.spec.model_rules import count_activations, count_parameters, list_model_rules
from scripts.model_table import PRESETS

LLAMA = ModelConfig(64, 32, 48, 2, 4, 2, 16)
GPT2 = PRESETS["gpt2-124m"]


@pytest.mark.parametrize(
    ("name", "count"),
    [("gpt2-124m", 124_439_808), ("smollm2-135m", 134_515_008), ("qwen3-0.6b", 596_049_920)],
)
def test_published_models_have_their_published_numbers_of_parameters(name: str, count: int) -> None:
    assert count_parameters(PRESETS[name]) == count
    assert all(holds for holds, *_ in list_model_rules(PRESETS[name]))


@pytest.mark.parametrize(
    ("changed", "broken"),
    [
        (replace(LLAMA, architecture="bert"), "architecture"),
        (replace(LLAMA, hidden_size=0), "model_sizes"),
        (replace(LLAMA, vocabulary_size=(1 << 32) + 1), "model_sizes"),
        (replace(LLAMA, vocabulary_size=1), "vocabulary_size"),
        (replace(LLAMA, layer_count=257), "layer_count"),
        (replace(LLAMA, tied=2), "tied"),
        (replace(LLAMA, head_count=5, kv_head_count=5), "head_count"),
        (replace(LLAMA, head_size=258), "head_size"),
        (replace(LLAMA, kv_head_count=3), "kv_head_count"),
        (replace(LLAMA, rope_theta=0.5), "model_constants"),
        (replace(LLAMA, norm_epsilon=0.0), "model_constants"),
        (replace(LLAMA, rope_scaling=RopeScaling("yarn")), "rope_scaling"),
        (replace(LLAMA, rope_scaling=RopeScaling("linear", 0.5)), "rope_scaling"),
        (replace(LLAMA, vocabulary_size=1 << 31), "model_too_large"),
    ],
)
def test_a_model_that_nodes_would_refuse_breaks_a_rule(changed: ModelConfig, broken: str) -> None:
    assert all(holds for holds, *_ in list_model_rules(LLAMA))
    assert broken in {name for holds, name, *_ in list_model_rules(changed) if not holds}


def test_the_largest_tensor_of_a_forward_pass_is_counted() -> None:
    """Logits where the vocabulary is large; scores of all heads where rows are long."""
    assert count_activations(GPT2, 2, 1024) == 2 * 1024 * 50_257
    assert count_activations(replace(GPT2, vocabulary_size=256), 2, 1024) == 2 * 1024 * 12 * 1024
