"""Models in Hugging Face's terms: a shape from `config.json`, and a trained model's tensors and texts.

The weights beside a `config.json` are read in `node/model_folder.py`.

The trained model in Hugging Face's terms: tensors by name and the texts beside them. The caller writes the
files. `transformers.AutoModelForCausalLM.from_pretrained` loads the folder: `model.safetensors` from
`export_tensors`, every other file from `export_texts`.
"""

import json

from torch import Tensor

from protocol.compute.model.family import ConfigFields
from protocol.compute.model.reference_model import FAMILIES, get_family, split_parameters
from protocol.spec.containers import ModelConfig
from protocol.spec.errors import InvalidInput
from protocol.spec.task_rules import list_model_rules

# --- In -----------------------------------------------------------------------------------------------------
MAX_CONFIG_BYTES = 1 << 18
"""Of a `config.json`; published ones have a few thousand."""
MAX_BRACKETS = 256
"""Tables and lists in it."""
REMEDY = "Pass the config.json of a model of one of these families."


def import_model(text: bytes, where: str) -> ModelConfig:
    """The model of a `config.json`; `where` names the file in errors. Raises InvalidInput where it is no such
    file, or for the first field that asks for what is not offered."""
    fields = ConfigFields(_read_table(text, where), where)
    fields.require("model_type", tuple(FAMILIES), None)
    model = FAMILIES[fields.take_text("model_type")].read_config(fields)
    fields.require_all_taken()
    for holds, name, expected, actual in list_model_rules(model):
        if not holds:
            fields.refuse(name, expected, str(actual))
    return model


def _read_table(text: bytes, where: str) -> dict[str, object]:
    # Python's parser calls itself for each bracket, and may run out of stack.
    is_short = len(text) <= MAX_CONFIG_BYTES and text.count(b"[") + text.count(b"{") <= MAX_BRACKETS
    try:
        content = json.loads(text) if is_short else None
    except (ValueError, RecursionError):
        content = None
    if isinstance(content, dict):
        return content
    raise InvalidInput(
        what="not a model's config.json",
        expected=f"a table in JSON of at most {MAX_CONFIG_BYTES} bytes and {MAX_BRACKETS} brackets",
        actual=f"{len(text)} bytes that are none",
        where=where,
        remedy=REMEDY,
    )


# --- Out ----------------------------------------------------------------------------------------------------
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
