"""Classes of transformers: the recorded step has their loss; what routes by data is refused with its line."""

import os
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import transformers
from torch import nn

from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.step.optimizers import AdamW
from touchstone.step.record_step import Shape, record_step

ROWS, TOKENS, VOCABULARY = 2, 16, 97
Fields = dict[str, object]
SHAPE: Fields = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 64, "pad_token_id": None, "bos_token_id": 1,
    "eos_token_id": 2,
}  # fmt: skip
GROUPED: Fields = {**SHAPE, "num_key_value_heads": 2}
GPT2: Fields = {
    "vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 1,
    "eos_token_id": 2,
}  # fmt: skip
OPT: Fields = {**SHAPE, "ffn_dim": 48, "word_embed_proj_dim": 32}
MAMBA: Fields = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}
MODELS: dict[str, tuple[str, Fields]] = {
    "Llama": ("Llama", GROUPED),
    "Llama, tied and scaled": ("Llama", {**GROUPED, "tie_word_embeddings": True, "rope_scaling": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
    }}),
    "Qwen3": ("Qwen3", {**GROUPED, "head_dim": 8}),
    "GPT2": ("GPT2", GPT2),
    "Qwen2": ("Qwen2", GROUPED),
    "Gemma": ("Gemma", {**GROUPED, "head_dim": 8}),
    "Gemma2": ("Gemma2", {**GROUPED, "head_dim": 8, "sliding_window": 8}),
    "Mistral": ("Mistral", {**GROUPED, "sliding_window": 8}),
    "Phi": ("Phi", SHAPE),
    "Phi3": ("Phi3", GROUPED),
    "Olmo2": ("Olmo2", GROUPED),
    "GPTNeoX": ("GPTNeoX", SHAPE),
    "SmolLM3": ("SmolLM3", GROUPED),
    "OPT": ("OPT", OPT),
    "Mamba": ("Mamba", MAMBA),
}  # fmt: skip
LOSS_ERROR = {"float32": 1e-6, "exact15": 1e-5}
GRADIENT_ERROR = {"float32": 1e-5, "exact15": 1e-2}
"""A relu close to zero may turn where products are of 15 bits."""


def make(name: str, **changes: object) -> nn.Module:
    family, fields = MODELS.get(name, (name, GROUPED))
    config = getattr(transformers, f"{family}Config")(**{**fields, **changes})
    kind = "GPT2LMHeadModel" if family == "GPT2" else f"{family}ForCausalLM"
    torch.manual_seed(3)
    model: nn.Module = getattr(transformers, kind)(config).eval()
    return model


@pytest.mark.parametrize("numeric_format", LOSS_ERROR)
@pytest.mark.parametrize("name", MODELS)
def test_the_recorded_loss_is_that_of_the_class(name: str, numeric_format: str) -> None:
    """And the first moment shows its gradient."""
    model = make(name)
    step = record_step(model, Shape(ROWS, TOKENS, numeric_format))
    named = dict(model.named_parameters())
    weights = torch.cat([named[p.name].detach().reshape(-1) for p in step.parameters])
    tokens = torch.arange(ROWS * TOKENS).reshape(ROWS, TOKENS) ** 2 % 91 + 3
    labels = (tokens * 5 + 1) % VOCABULARY
    logits = model(tokens).logits
    loss = F.cross_entropy(logits.reshape(-1, VOCABULARY), labels.reshape(-1))
    parts = torch.autograd.grad(loss, [named[p.name] for p in step.parameters])
    gradient = torch.cat([part.reshape(-1) for part in parts])
    built, zeros = step.built, torch.zeros_like(weights)
    interpreter = Interpreter(built.program, built.constants, numeric_format=numeric_format)
    scalars = torch.tensor([1e-3, 0.1, 0.05])
    found = interpreter.run((weights, zeros, zeros.clone()), tokens, labels, scalars)
    assert abs(float(found.loss - loss)) <= LOSS_ERROR[numeric_format] * float(loss)
    _, first, _ = AdamW().update(step.parameters, (weights, zeros, zeros), gradient, scalars)
    difference = float((found.first_moment - first).norm() / first.norm())
    assert difference < GRADIENT_ERROR[numeric_format]


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_any_attention_of_a_class_may_be_recorded(implementation: str) -> None:
    model = make("Llama", attn_implementation=implementation)
    assert record_step(model, Shape(ROWS, TOKENS)).built.program.nodes


@pytest.mark.parametrize("name", ["Mixtral", "Qwen3Moe"])
def test_experts_that_are_chosen_by_data_are_refused_with_their_line(name: str) -> None:
    with pytest.raises(InvalidInput, match="aten.topk.default. Routing by data") as caught:
        record_step(make(name), Shape(ROWS, TOKENS))
    path, line = caught.value.where.split(" ")[0].rsplit(":", 1)
    assert "transformers/models" in path and "topk" in Path(path).read_text().splitlines()[int(line) - 1]
