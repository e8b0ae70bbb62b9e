"""Fields of published config.json files: what changes nothing is taken, all else is refused by name."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from tests.kit.older_transformers import install_oldest, load_with, save_with
from tests.node.exports.test_published_model import MODELS, TOKENS, load, save_model
from touchstone.node.exports.config_fields import WITHOUT_EFFECT
from touchstone.node.exports.published_model import read_published
from touchstone.node.exports.rotary_positions import ROTARY_FIELDS
from touchstone.protocol.spec.errors import InvalidInput

NOISE = 1e-5
GENERATION = {
    "max_length": 20, "min_length": 0, "do_sample": True, "early_stopping": False, "num_beams": 4,
    "temperature": 0.7, "top_k": 40, "top_p": 0.9, "typical_p": 1.0, "repetition_penalty": 1.1,
    "length_penalty": 1.0, "no_repeat_ngram_size": 0, "bad_words_ids": None, "num_return_sequences": 1,
    "forced_bos_token_id": None, "forced_eos_token_id": None, "suppress_tokens": None,
    "begin_suppress_tokens": None, "exponential_decay_length_penalty": None, "output_scores": False,
    "remove_invalid_values": False, "return_dict_in_generate": False, "num_beam_groups": 1,
    "diversity_penalty": 0.0, "encoder_no_repeat_ngram_size": 0, "cache_implementation": "hybrid",
}  # fmt: skip
"""How text is generated: files of transformers 3 and 4 have it."""
ANY: dict[str, Any] = {
    **GENERATION, "gradient_checkpointing": True, "torchscript": False, "use_bfloat16": False,
    "pruned_heads": {}, "is_decoder": False, "is_encoder_decoder": False, "add_cross_attention": False,
    "tie_encoder_decoder": False, "tf_legacy_loss": False, "cross_attention_hidden_size": None,
    "chunk_size_feed_forward": 0, "finetuning_task": "free text", "_num_labels": 1, "sep_token_id": 3,
    "decoder_start_token_id": 4, "unk_token_id": 0, "output_past": True, "unsloth_version": "2024.9",
    "unsloth_fixed": True, "model_max_length": 32, "_commit_hash": "free text",
}  # fmt: skip
"""Of any type."""
KERNELS = {
    "_attn_implementation": "sdpa", "attn_implementation": "flash_attention_2", "_flash_attn_2_enabled": True,
}  # fmt: skip
PUBLISHED: dict[str, dict[str, Any]] = {
    "llama": {
        "rope_interleaved": False, "is_llama_config": True, "pretraining_tp": 1, "max_sequence_length": 32,
        "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16"}}, "sliding_window": None,
        "use_sliding_window": False, "head_dim": None,
    },
    "qwen2": {"use_mrope": False, "attention_bias": False, "head_dim": 8},
    "qwen3": {"use_mrope": False, "mlp_bias": False},
    "gpt2": {"n_ctx": 32, "summary_type": "cls_index", "task_specific_params": {"text-generation": {}}},
    "gemma": {"hidden_act": "gelu", "hidden_activation": "gelu_pytorch_tanh"},
    "gemma2": {"hidden_act": "gelu_pytorch_tanh", "use_bidirectional_attention": False},
    "mistral": {"head_dim": None, "attention_bias": False, "rope_scaling": None},
    "phi": {"partial_rotary_factor": 0.5, "rope_theta": 1e4, "rope_scaling": None},
    "phi3": {"attention_bias": False, "partial_rotary_factor": 1.0, "auto_map": {"AutoModel": "a--b.C"}},
    "olmo2": {"rope_scaling": None, "rope_theta": 1e4, "partial_rotary_factor": 1},
    "smollm3": {"pretraining_tp": 2, "max_window_layers": 28, "mlp_bias": False},
    "opt": {"activation_dropout": 0.0, "prefix": "</s>", "word_embed_proj_dim_original": 16},
    "gpt_neox": {"rotary_pct": 0.5, "partial_rotary_factor": 0.5, "rope_theta": 1e4, "rotary_emb_base": 1e4},
}  # fmt: skip


def write(folder: Path, **fields: Any) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
    return folder


@pytest.mark.parametrize("name", MODELS)
def test_fields_of_published_files_that_change_nothing_are_taken(tmp_path: Path, name: str) -> None:
    """The logits are those of transformers with that very file; and free text is not passed on."""
    folder = write(save_model(name, tmp_path), **PUBLISHED[name])
    expected = load(write(folder, **ANY))(TOKENS).logits.detach()
    found = read_published(write(folder, **KERNELS), with_weights=True)
    with torch.no_grad():
        is_equal = torch.equal(found.module(TOKENS).logits, expected)
    assert is_equal
    assert "free" not in found.config and "flash" not in found.config and "hybrid" not in found.config


ALTERED: list[tuple[str, dict[str, Any]]] = [
    ("gpt2", {"n_ctx": 16}), ("llama", {"max_sequence_length": 64}), ("qwen2", {"head_dim": 4}),
    ("qwen3", {"head_dim": None}), ("gemma", {"head_dim": None}), ("gemma", {"hidden_activation": "relu"}),
    ("gemma2", {"hidden_act": "gelu"}), ("llama", {"hidden_activation": "silu"}),
    ("gemma2", {"hidden_act": None}),  ("qwen2", {"use_mrope": 0}), ("llama", {"pretraining_tp": "2"}),
    ("llama", {"max_window_layers": "2"}), ("llama", {"gradient_checkpointing": "yes"}),
    ("mistral", {"head_dim": "8"}), ("llama", {"n_ctx": 32}), ("llama", {"new": 0}),
    ("opt", {"rope_theta": 1.0}), ("llama", {"partial_rotary_factor": 0.5}), ("phi", {"temperature_2": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "field"), ALTERED)
def test_other_values_are_refused_by_name(tmp_path: Path, name: str, field: dict[str, Any]) -> None:
    folder = write(save_model(name, tmp_path), **field)
    with pytest.raises(InvalidInput, match=next(iter(field))):
        read_published(folder, with_weights=True)


@pytest.mark.parametrize("name", ["llama", "gpt2", "gpt_neox", "olmo2"])
def test_no_other_value_of_a_field_without_effect_is_taken(tmp_path: Path, name: str) -> None:
    """Unless the class itself has the field."""
    folder = save_model(name, tmp_path)
    plain, taken = json.loads((folder / "config.json").read_text()), list[tuple[str, object]]()
    known = {*transformers.AutoConfig.for_model(name).to_dict(), *ROTARY_FIELDS.get(name, ())}
    harmless = {field: values[0] for field, values in WITHOUT_EFFECT.items() if field not in known}
    assert read_published(write(folder, **harmless), with_weights=True).config
    for field in set(WITHOUT_EFFECT) - known:
        for value in (True, 2, 0.5, "text", ["text"]):
            if value in WITHOUT_EFFECT[field]:
                continue
            (folder / "config.json").write_text(json.dumps({**plain, field: value}))
            taken.append((field, value))
            with suppress(InvalidInput):
                read_published(folder, with_weights=True)
                continue
            taken.pop()
    assert not taken


def test_what_the_oldest_transformers_saved_is_read(tmp_path: Path) -> None:
    """All fields that it writes, of each type, give its logits; and of what the newest saved, too."""
    oldest = install_oldest()
    folders = save_with(oldest, MODELS, tmp_path)
    found = load_with(oldest, folders, TOKENS, tmp_path / "logits")
    for folder, one in zip(folders, found, strict=True):
        assert one.version.startswith("4.") and one.logits is not None, one.error
        with torch.no_grad():
            mine = read_published(folder, with_weights=True).module(TOKENS).logits
        assert float((mine - one.logits).abs().max()) < NOISE, folder
    newer = [save_model(name, tmp_path / f"newest {name}") for name in MODELS]
    for folder, one in zip(
        newer, load_with(oldest, newer, TOKENS, tmp_path / "n", is_imported=True), strict=True
    ):
        with torch.no_grad():
            mine = load(folder)(TOKENS).logits
        assert one.logits is not None and float((mine - one.logits).abs().max()) < NOISE, one.error
