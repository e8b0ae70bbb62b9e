"""The trained model in Hugging Face's terms: tensors by name and the texts beside them. The caller writes the
files.

`transformers.LlamaForCausalLM.from_pretrained` loads the folder: `model.safetensors` from `export_tensors`,
every other file from `export_texts`.
"""

import json

from torch import Tensor

from protocol.compute.model.reference_model import split_parameters
from protocol.spec.containers import ModelConfig

SAFETENSORS_NAME = "model.safetensors"
SAFETENSORS_METADATA = {"format": "pt"}
"""What transformers wants in the file's header."""


def export_tensors(weights: Tensor, model: ModelConfig) -> dict[str, Tensor]:
    """Copies of all parameters by their name in `LlamaForCausalLM.state_dict()`, float32."""
    return {name: p.clone() for name, p in split_parameters(weights, model).items()}


def export_texts(model: ModelConfig) -> dict[str, str]:
    """File name to content: `config.json` and `generation_config.json`."""
    return {
        "config.json": _to_json(_build_config(model)),
        "generation_config.json": _to_json({"max_length": model.context_tokens, "do_sample": True}),
    }


def _to_json(content: dict[str, object]) -> str:
    return json.dumps(content, indent=2, sort_keys=True) + "\n"


def _build_config(model: ModelConfig) -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": model.vocabulary_size,
        "hidden_size": model.hidden_size,
        "intermediate_size": model.intermediate_size,
        "num_hidden_layers": model.layer_count,
        "num_attention_heads": model.head_count,
        "num_key_value_heads": model.kv_head_count,
        "head_dim": model.head_size,
        "max_position_embeddings": model.context_tokens,
        # Both places: transformers reads the second from version 5 on.
        "rope_theta": model.rope_theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": model.rope_theta},
        "rms_norm_eps": model.rms_epsilon,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "bos_token_id": None,
        "eos_token_id": None,
    }
