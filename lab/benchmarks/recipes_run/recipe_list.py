"""What people train, in tiny sizes: classes of transformers, a plain module, LoRA, other optimizers."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from lab.benchmarks.recipes_run.plain_decoder import PlainDecoder
from touchstone.step.lora import Lora, add_lora
from touchstone.step.optimizers import SGD, AdamW, Lion, Muon, Optimizer
from touchstone.step.record_step import RecordedStep, Shape, record_step

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

ROWS, TOKENS, VOCABULARY, CHUNK_TERMS = 2, 16, 256, 512
Fields = dict[str, object]
SIZES: Fields = {
    "vocab_size": VOCABULARY, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1,
    "num_attention_heads": 2, "max_position_embeddings": 32, "pad_token_id": None, "bos_token_id": 1,
    "eos_token_id": 2,
}  # fmt: skip
GROUPED: Fields = {**SIZES, "num_key_value_heads": 1}
GPT2: Fields = {
    "vocab_size": VOCABULARY, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 32, "bos_token_id": 1,
    "eos_token_id": 2, "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0,
}  # fmt: skip
CLASSES: dict[str, tuple[str, Fields]] = {
    "Llama": ("LlamaForCausalLM", GROUPED),
    "Qwen3": ("Qwen3ForCausalLM", {**GROUPED, "head_dim": 8}),
    "GPT-2": ("GPT2LMHeadModel", GPT2),
    "Qwen2": ("Qwen2ForCausalLM", GROUPED),
    "Gemma": ("GemmaForCausalLM", {**GROUPED, "head_dim": 8}),
    "Mistral": ("MistralForCausalLM", {**GROUPED, "sliding_window": 8}),
    "Phi": ("PhiForCausalLM", SIZES),
    "Phi3": ("Phi3ForCausalLM", GROUPED),
    "OLMo2": ("Olmo2ForCausalLM", GROUPED),
    "GPT-NeoX": ("GPTNeoXForCausalLM", SIZES),
    "SmolLM3": ("SmolLM3ForCausalLM", GROUPED),
}  # fmt: skip


@dataclass(frozen=True)
class Recipe:
    """A recipe. `make` returns the module."""

    make: Callable[[], nn.Module]
    optimizer: Optimizer = AdamW()

    def record(self, numeric_format: str) -> tuple[RecordedStep, nn.Module]:
        """Records the step; returns it with its module."""
        torch.manual_seed(7)
        module = self.make().eval()
        shape = Shape(ROWS, TOKENS, numeric_format, CHUNK_TERMS)
        fields: Any = getattr(module, "config", None)
        config = fields.to_json_string() if fields else ""
        return record_step(module, shape, optimizer=self.optimizer, config=config), module


def make_class(name: str) -> nn.Module:
    """Makes a fresh model of a class of transformers."""
    import transformers  # noqa: PLC0415

    class_name, fields = CLASSES[name]
    kind = getattr(transformers, class_name)
    model: nn.Module = kind(kind.config_class(**fields))
    return model


def make_plain() -> nn.Module:
    """Makes the plain module."""
    return PlainDecoder(VOCABULARY, 16, 1, 2, TOKENS)


def make_adapted() -> nn.Module:
    """Makes a class of transformers with adapters; the base has more than fifty times as many elements as
    they have."""
    module = make_class("Llama")
    add_lora(module, Lora(1, 2, ("q_proj", "v_proj")))
    return module


RECIPES: dict[str, Recipe] = {
    **{name: Recipe(lambda name=name: make_class(name)) for name in CLASSES},  # type: ignore[misc]
    "plain module": Recipe(make_plain),
    "LoRA": Recipe(make_adapted),
    "SGD": Recipe(make_plain, SGD()),
    "Lion": Recipe(make_plain, Lion()),
    "Muon": Recipe(make_plain, Muon()),
}
