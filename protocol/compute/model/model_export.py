"""The trained model in Hugging Face's terms: tensors by name and the texts beside them.

The caller writes the files. `transformers.AutoModelForCausalLM.from_pretrained` loads the folder:
`model.safetensors` from `export_tensors`, every other file from `export_texts`.
"""

import json

from torch import Tensor

from protocol.compute.model.reference_model import get_family, split_parameters
from protocol.spec.containers import ModelConfig

SAFETENSORS_NAME = "model.safetensors"
SAFETENSORS_METADATA = {"format": "pt"}
"""What transformers wants in the file's header."""


def export_tensors(weights: Tensor, model: ModelConfig) -> dict[str, Tensor]:
    """Copies of all parameters by their name in the class of transformers, float32. A tied output matrix is
    not among them: transformers ties it again."""
    return {name: p.clone() for name, p in split_parameters(weights, model).items()}


def export_texts(model: ModelConfig) -> dict[str, str]:
    """File name to content: `config.json` and `generation_config.json`."""
    family = get_family(model)
    shared = {
        "architectures": [family.class_name],
        "torch_dtype": "float32",
        "bos_token_id": None,
        "eos_token_id": None,
    }
    return {
        "config.json": _to_json({**family.write_config(model), **shared}),
        "generation_config.json": _to_json({"max_length": model.context_tokens, "do_sample": True}),
    }


def _to_json(content: dict[str, object]) -> str:
    return json.dumps(content, indent=2, sort_keys=True) + "\n"
