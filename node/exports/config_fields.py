"""Judges the fields of a model's `config.json`: each must be one that the class has, of the right type.

transformers silently accepts fields that it does not know. So a field that is not on a list here, and that
the class does not have, is refused by name.
"""

from typing import Any

import torch

from touchstone.protocol.spec.errors import InvalidInput

HARMLESS = frozenset({
    "pad_token_id", "bos_token_id", "eos_token_id", "use_cache", "return_dict", "output_attentions",
    "output_hidden_states", "initializer_range", "_remove_final_layer_norm", "model_type", "torch_dtype",
    "dtype",
})  # fmt: skip
"""Fields that change neither the parameters nor the logits of a model in float32."""
NOT_TAKEN = frozenset({
    "id2label", "label2id", "classifier_dropout", "summary_type", "summary_use_proj", "summary_activation",
    "summary_first_dropout", "summary_proj_to_labels", "_name_or_path", "_attn_implementation_autoset",
    "architectures", "auto_map", "transformers_version", "transformers.js_config", "tokenizer_class",
    "is_llama_config", "task_specific_params", "problem_type", "prefix", "word_embed_proj_dim_original",
})  # fmt: skip
"""Fields that the class does not need: names, hints for other software, and code of a repository. They are
left out of the model's config."""
TYPE_FIELDS = ("torch_dtype", "dtype")
MAX_LAYERS, MAX_SIZE = 1024, 1 << 32
"""Limits that are checked first, because a class builds its layers one by one before anything can be
counted."""
LAYERS = ("num_hidden_layers", "n_layer")
MAX_SHOWN = 80
REMEDY = "Change the field, or record another model: a field is refused rather than ignored."


def judge_field(plain: Any, name: str, value: Any, where: str) -> None:
    """Raises InvalidInput if the class has no such field, or expects another type. `plain` is the config with
    defaults."""
    place = f"{where}, {show_value(name)}"
    if name in NOT_TAKEN:
        return
    if name in HARMLESS:
        _judge_harmless(name, value, place)
        return
    if name not in {*plain.to_dict(), *plain.attribute_map}:
        raise refuse_config(place, "a field that the class of the model has", show_value(value))
    most = MAX_LAYERS if name in LAYERS else MAX_SIZE
    if isinstance(value, int) and not abs(value) <= most:
        raise refuse_config(place, f"at most {most}", show_value(value))
    default = getattr(plain, name, None)
    if default is None:
        return
    kinds = {bool: bool, int: int, float: int | float, str: str, list: list, dict: dict}
    wanted = kinds.get(type(default), object)
    is_right = isinstance(value, wanted) and (wanted in (bool, object) or not isinstance(value, bool))
    if not is_right:
        raise refuse_config(place, f"a value as {show_value(default)}, the default", show_value(value))


def _judge_harmless(name: str, value: Any, place: str) -> None:
    """Raises InvalidInput for free text, because the field is written into the published config."""
    if name in TYPE_FIELDS:
        is_type = isinstance(value, str) and isinstance(getattr(torch, value, None), torch.dtype)
        if value is not None and not is_type:
            raise refuse_config(place, "the name of a type of PyTorch", show_value(value))
    elif name != "model_type":
        values = value if isinstance(value, list) else [value]
        if not all(one is None or isinstance(one, bool | int | float) for one in values):
            raise refuse_config(place, "a number, true, false or null", show_value(value))


def show_value(value: object) -> str:
    """Returns a value of a config for an error, cut to a line."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "..."


def refuse_config(where: str, expected: str, actual: str) -> InvalidInput:
    """Returns the error that refuses a config."""
    return InvalidInput(
        what="a model's config.json asks for something that is not supported",
        expected=expected,
        actual="".join(one if one.isprintable() else "?" for one in actual[:300]),
        where=where,
        remedy=REMEDY,
    )
