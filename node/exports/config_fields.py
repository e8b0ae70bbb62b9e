"""Judges the fields of a model's `config.json`: each must be one that the class has, of the right type.

transformers silently accepts fields that it does not know. Here a field that the class does not have is
refused by name, unless a list below says why it changes nothing.
"""

from collections.abc import Mapping
from typing import Any

import torch

from touchstone.protocol.spec.errors import InvalidInput

HARMLESS = frozenset({
    "pad_token_id", "bos_token_id", "eos_token_id", "use_cache", "return_dict", "output_attentions",
    "output_hidden_states", "initializer_range", "_remove_final_layer_norm", "model_type", "torch_dtype",
    "dtype",
})  # fmt: skip
"""Fields that change neither the parameters nor the logits of a model in float32."""
NAMES = frozenset({
    "_name_or_path", "_commit_hash", "architectures", "auto_map", "finetuning_task", "id2label",
    "is_llama_config", "label2id", "prefix", "problem_type", "task_specific_params", "tokenizer_class",
    "transformers.js_config", "transformers_version", "unsloth_version", "word_embed_proj_dim_original",
})  # fmt: skip
"""Names, hints for other software, and code of a repository."""
KERNELS = frozenset({
    "_attn_implementation", "_attn_implementation_autoset", "_flash_attn_2_enabled", "attn_implementation",
})  # fmt: skip
"""Which kernel computes attention; here it is always the plain one."""
OTHER_HEADS = frozenset({
    "classifier_dropout", "summary_activation", "summary_first_dropout", "summary_proj_to_labels",
    "summary_type", "summary_use_proj",
})  # fmt: skip
"""About heads that classify: only other classes build them."""
GENERATION = frozenset({
    "bad_words_ids", "begin_suppress_tokens", "cache_implementation", "decoder_start_token_id",
    "diversity_penalty", "do_sample", "early_stopping", "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty", "forced_bos_token_id", "forced_eos_token_id", "length_penalty",
    "max_length", "min_length", "no_repeat_ngram_size", "num_beam_groups", "num_beams",
    "num_return_sequences", "output_scores", "remove_invalid_values", "repetition_penalty",
    "return_dict_in_generate", "sep_token_id", "suppress_tokens", "temperature", "top_k", "top_p",
    "typical_p", "unk_token_id",
})  # fmt: skip
"""How text is drawn from the logits."""
NOT_TAKEN = NAMES | KERNELS | OTHER_HEADS | GENERATION
"""Fields that the class does not need, whatever their values. They are left out of the model's config."""
OFF = (False,)
WITHOUT_EFFECT: dict[str, tuple[object, ...]] = {
    **dict.fromkeys((
        # What only some classes can do.
        "add_cross_attention", "attention_bias", "is_decoder", "is_encoder_decoder", "mlp_bias",
        "rope_interleaved", "tie_encoder_decoder", "use_mrope", "use_sliding_window",
        # What an older transformers could do.
        "tf_legacy_loss", "torchscript", "use_bfloat16",
    ), OFF),
    **dict.fromkeys((
        "activation_dropout", "attention_dropout", "attn_pdrop", "dropout", "embd_pdrop", "hidden_dropout",
        "layerdrop", "resid_pdrop", "chunk_size_feed_forward",
    ), (0,)),
    **dict.fromkeys(("cross_attention_hidden_size", "quantization_config", "sliding_window"), (None,)),
    "use_bidirectional_attention": (None, False),
    "hidden_activation": (None,),
    "partial_rotary_factor": (1,),
    "pruned_heads": ({},),
}  # fmt: skip
"""Fields that a class may lack, each with the values that ask for nothing. Then it is left out."""
NUMBERS = frozenset({
    "_num_labels", "gradient_checkpointing", "max_window_layers", "model_max_length", "output_past",
    "pretraining_tp", "unsloth_fixed",
})  # fmt: skip
"""Numbers, true and false about memory, training, labels and slices of products, which a class may lack. Then
they are left out, whatever their values."""
SAME: dict[str, dict[str, str]] = {
    "gpt2": {"n_ctx": "n_positions"},
    "gemma": {"hidden_activation": "hidden_act"},
    "gemma2": {"hidden_act": "hidden_activation"},
    **dict.fromkeys(("llama", "mistral"), {"max_sequence_length": "max_position_embeddings"}),
}
"""Fields of each model type that must repeat another one. Then they are left out."""
DERIVED_HEADS = ("llama", "mistral")
"""Model types that derive a null `head_dim`. transformers 4 writes null for Mistral."""
OLD_VALUES = {("gemma", "hidden_act", "gelu"): "gelu_pytorch_tanh"}
"""Values of older files that transformers 5 reads as another one, by model type and field."""
TYPE_FIELDS = ("torch_dtype", "dtype")
MAX_LAYERS, MAX_SIZE = 1024, 1 << 32
"""Limits that are checked first, because a class builds its layers one by one before anything can be
counted."""
LAYERS = ("num_hidden_layers", "n_layer")
MAX_SHOWN = 80
REMEDY = "Change the field, or record another model: a field is refused rather than ignored."


def take_fields(plain: Any, fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Returns the fields of a config that its class gets. `plain` is the config with defaults. Raises
    InvalidInput for the first field that the class does not have, unless it is known to change nothing, or
    that has another type than in the class."""
    known, named = {*plain.to_dict(), *plain.attribute_map}, plain.model_type
    taken = dict[str, Any]()
    for name, given in fields.items():
        value = _renew(named, name, given)
        place = f"{where}, {show_value(name)}"
        if name in NOT_TAKEN or (name == "head_dim" and value is None and named in DERIVED_HEADS):
            continue
        if name in HARMLESS:
            _judge_harmless(name, value, place)
        elif name in known:
            _judge_known(plain, name, value, place)
        else:
            _judge_unknown(plain, name, fields, place)
            continue
        taken[name] = value
    return taken


def _renew(named: str, name: str, value: Any) -> Any:
    """Returns the value of a field as transformers 5 reads it."""
    return OLD_VALUES.get((named, name, value), value) if isinstance(value, str) else value


def _judge_known(plain: Any, name: str, value: Any, place: str) -> None:
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


def _judge_unknown(plain: Any, name: str, fields: Mapping[str, Any], place: str) -> None:
    """Raises InvalidInput unless a field that the class lacks is known to change nothing."""
    value = fields[name]
    if name in NUMBERS:
        if not isinstance(value, bool | int | float | None):
            raise refuse_config(place, "a number, true, false or null", show_value(value))
        return
    allowed = [*WITHOUT_EFFECT.get(name, ()), *_list_repeated(plain, name, fields)]
    if not any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in allowed):
        expected = " or ".join(map(show_value, allowed)) or "a field that the class of the model has"
        raise refuse_config(place, expected, show_value(value))


def _list_repeated(plain: Any, name: str, fields: Mapping[str, Any]) -> list[Any]:
    """Returns the value that a field repeats, if it is one that repeats others."""
    other = SAME.get(plain.model_type, {}).get(name)
    if other is not None:
        stated = fields.get(other, getattr(plain, other))
        return [_renew(plain.model_type, other, stated)]
    if name == "head_dim":
        width, heads = (
            fields.get(one, getattr(plain, one)) for one in ("hidden_size", "num_attention_heads")
        )
        if isinstance(width, int) and isinstance(heads, int) and heads > 0:
            return [width // heads]
    return []


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
