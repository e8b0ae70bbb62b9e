"""Opens a model of Hugging Face as its class in transformers: config from `config.json`, weights from
safetensors.

transformers is an extra, needed only to record steps. No code of a folder is executed: the class is found by
`model_type` in a list of those that were tried. transformers silently accepts fields that it does not know,
and loads folders that lack tensors. So here each field of a config must be one that the class has, of the
right type, and `model_folder.py` checks the weights and names what is wrong.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import nn

from touchstone.node.exports.model_folder import WeightsFolder, list_file_names, open_named
from touchstone.node.exports.model_note import CONFIG_NAME, MAX_CONFIG_BRACKETS
from touchstone.protocol.adapters.machine.extra_libraries import load_extra
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.params import MAX_PARAMETERS

TRIED = (
    "llama", "qwen2", "qwen3", "gpt2", "gemma", "gemma2", "mistral", "phi", "phi3", "olmo2", "smollm3",
    "opt", "gpt_neox",
)  # fmt: skip
"""Model types whose recorded loss was compared with that of their class."""
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
MAX_CONFIG_BYTES = 1 << 18
MAX_SHOWN = 80
MAX_LAYERS, MAX_SIZE = 1024, 1 << 32
"""Limits that are checked first, because a class builds its layers one by one before anything can be
counted."""
LAYERS = ("num_hidden_layers", "n_layer")
OLD_NUMBERS = {"gpt_neox": {"rotary_pct": (0.0, 1.0), "rotary_emb_base": (1.0, 1e9)}}
"""Fields by the names of older releases, which a class still reads, with the least and the largest value."""
POSITIONS = ("rope_scaling", "rope_parameters")
PART = "partial_rotary_factor"
"""The part of each head that is rotated. It sizes a table, so it is limited."""
ROPE_KEYS: dict[str, frozenset[str]] = {
    "default": frozenset(),
    "linear": frozenset({"factor"}),
    "llama3": frozenset({
        "factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings",
    }),
    "yarn": frozenset({
        "factor", "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow", "mscale",
        "mscale_all_dim", "truncate",
    }),
}  # fmt: skip
"""For each kind of rotary positions, the keys that transformers reads. It ignores other keys."""
REMEDY = "Change the field, or record another model: a field is refused rather than ignored."


@dataclass(frozen=True)
class PublishedModel:
    """A model in evaluation mode, and its `config.json` as transformers writes it, with checked fields
    only."""

    module: nn.Module
    config: str

    @property
    def vocabulary_size(self) -> int:
        """The number of tokens that the model knows."""
        config: Any = self.module.config
        return int(config.vocab_size)

    @property
    def context_tokens(self) -> int:
        """The number of tokens in the longest row that the model reads."""
        config: Any = self.module.config
        return int(config.max_position_embeddings)


def read_published(path: Path, with_weights: bool, seed: int = 0) -> PublishedModel:
    """Returns the model of a folder, or of a `config.json` alone. If `with_weights`, the weights are read
    from the folder; else they are drawn at random as the class does it. Headers are checked before the model
    takes memory. Raises InvalidInput if transformers is not installed, for the first field that is not
    supported, and as `open_named` and `read` do."""
    file = path / CONFIG_NAME if path.is_dir() else path
    config, kind, outline = _read_config(_read_table(file), str(file))
    weights = _open_weights(outline, path) if with_weights else None
    torch.manual_seed(seed)
    module: nn.Module = kind(config).float().eval()
    if weights is not None:
        _take_weights(module, weights)
    _require_runs(module, str(file))
    return PublishedModel(module, config.to_json_string())


def _read_table(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as opened:
            # Reading one byte more shows if the file is too long.
            text = opened.read(MAX_CONFIG_BYTES + 1)
    except OSError as error:
        raise _refuse(str(file), "a config.json", str(error.strerror)) from error
    is_short = len(text) <= MAX_CONFIG_BYTES
    is_short = is_short and text.count(b"[") + text.count(b"{") <= MAX_CONFIG_BRACKETS
    try:
        content = json.loads(text) if is_short else None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise _refuse(str(file), "a table in JSON", f"{len(text)} bytes that are no such table")
    return content


def _require_runs(module: nn.Module, where: str) -> None:
    """Raises InvalidInput unless the model runs. Older versions of transformers accept any type in a config,
    and fail only at a run."""
    try:
        with torch.no_grad():
            module(torch.zeros((1, 2), dtype=torch.int64))
    except Exception as error:
        # The library's own message.
        raise _refuse(where, "a config whose model runs", f"{type(error).__name__}: {error}") from error


def _read_config(fields: Mapping[str, Any], where: str) -> tuple[Any, Any, nn.Module]:
    """Returns the config and the class of the model, and the model without memory, for names and shapes."""
    transformers: Any = load_extra("transformers", "a model of Hugging Face", "models")
    auto: Any = import_module("transformers.models.auto.modeling_auto")
    configs: Any = import_module("transformers.models.auto.configuration_auto")

    model_type = fields.get("model_type")
    if model_type not in TRIED:
        raise _refuse(f"{where}, model_type", " or ".join(TRIED), _show(model_type))
    config_class = configs.CONFIG_MAPPING[model_type]
    for name, value in fields.items():
        _judge_field(config_class(), name, value, where)
    _judge_positions(config_class(), fields, where)
    try:
        # The class also judges the fields that are left out.
        config_class.from_dict(dict(fields), attn_implementation="eager")
        taken = {name: value for name, value in fields.items() if name not in NOT_TAKEN}
        config = config_class.from_dict(taken, attn_implementation="eager")
        kind = auto.MODEL_FOR_CAUSAL_LM_MAPPING[config_class]
        config.architectures = [kind.__name__]
        with torch.device("meta"):
            outline: nn.Module = kind(config)
    except Exception as error:
        # The library may raise anything, since the file may come from anywhere.
        said = f"{type(error).__name__}: {error}"
        raise _refuse(where, f"a config that transformers {transformers.__version__} takes", said) from error
    counts = [sum(one.numel() for one in found) for found in (outline.parameters(), outline.buffers())]
    if max(counts) > MAX_PARAMETERS:
        expected = f"at most {MAX_PARAMETERS} parameters, and numbers in tables"
        raise _refuse(where, expected, f"{counts[0]}, and {counts[1]}")
    for name, value in config.to_dict().items():
        is_drawn = "drop" in name and name not in NOT_TAKEN
        if is_drawn and isinstance(value, int | float) and value != 0:
            missing = "" if name in fields else " (what transformers takes where the field is missing)"
            raise _refuse(
                f"{where}, {name}", "0, because programs draw no random numbers", f"{value}{missing}"
            )
    return config, kind, outline


def _judge_field(plain: Any, name: str, value: Any, where: str) -> None:
    """Raises InvalidInput if the class has no such field, or expects another type. `plain` is the config with
    defaults."""
    place = f"{where}, {_show(name)}"
    if name in NOT_TAKEN:
        return
    if name in HARMLESS:
        _judge_harmless(name, value, place)
        return
    if name in (old := OLD_NUMBERS.get(plain.model_type, {})):
        least, most = old[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not least < value <= most:
            raise _refuse(place, f"a number above {least}, at most {most}", _show(value))
        return
    names = {*plain.to_dict(), *plain.attribute_map, "rope_theta", "rope_scaling", "rope_parameters"}
    if name not in names:
        raise _refuse(place, "a field that the class of the model has", _show(value))
    most = MAX_LAYERS if name in LAYERS else MAX_SIZE
    if isinstance(value, int) and not abs(value) <= most:
        raise _refuse(place, f"at most {most}", _show(value))
    default = getattr(plain, name, None)
    if default is None or name.startswith("rope_"):
        return
    kinds = {bool: bool, int: int, float: int | float, str: str, list: list, dict: dict}
    wanted = kinds.get(type(default), object)
    is_right = isinstance(value, wanted) and (wanted in (bool, object) or not isinstance(value, bool))
    if not is_right:
        raise _refuse(place, f"a value as {_show(default)}, the default", _show(value))


def _judge_harmless(name: str, value: Any, place: str) -> None:
    """Raises InvalidInput for free text, because the field is written into the published config."""
    if name in TYPE_FIELDS:
        is_type = isinstance(value, str) and isinstance(getattr(torch, value, None), torch.dtype)
        if value is not None and not is_type:
            raise _refuse(place, "the name of a type of PyTorch", _show(value))
    elif name != "model_type":
        values = value if isinstance(value, list) else [value]
        if not all(one is None or isinstance(one, bool | int | float) for one in values):
            raise _refuse(place, "a number, true, false or null", _show(value))


def _judge_positions(plain: Any, fields: Mapping[str, Any], where: str) -> None:
    """Raises InvalidInput if rotary positions are given twice, or by a key that transformers ignores. `plain`
    is the config with defaults."""
    own = {"rope_type", "type", "rope_theta", *(getattr(plain, "rope_parameters", None) or {})}
    stated = [name for name in POSITIONS if fields.get(name) is not None]
    if len(stated) > 1:
        raise _refuse(where, f"one of {' and '.join(POSITIONS)}", "both")
    for name in stated:
        table, place = fields[name], f"{where}, {name}"
        if not isinstance(table, dict):
            raise _refuse(place, "a table", _show(table))
        kinds = {table[key] for key in ("rope_type", "type") if isinstance(table.get(key, None), str)}
        kind = next(iter(kinds), "default")
        if len(kinds) > 1 or kind not in ROPE_KEYS:
            raise _refuse(f"{place}, rope_type", " or ".join(ROPE_KEYS), _show(sorted(kinds)))
        for key, value in table.items():
            if key not in own | ROPE_KEYS[kind]:
                raise _refuse(f"{place}, {_show(key)}", f"a key of the kind {kind}", _show(value))
            if key not in ("rope_type", "type") and not isinstance(value, bool | int | float | None):
                raise _refuse(f"{place}, {_show(key)}", "a number, true, false or null", _show(value))
    thetas = [fields.get("rope_theta"), *(fields[name].get("rope_theta") for name in stated)]
    found = [one for one in thetas if one is not None]
    for theta in found:
        is_number = isinstance(theta, int | float) and not isinstance(theta, bool)
        if not is_number or not theta >= 1 or theta != found[0]:
            raise _refuse(f"{where}, rope_theta", "one number of 1 or more", _show(found))
    for table in (fields, *(fields[name] for name in stated)):
        part = table.get(PART)
        is_part = isinstance(part, int | float) and not isinstance(part, bool) and 0 < part <= 1
        if part is not None and not is_part:
            raise _refuse(f"{where}, {PART}", "a number above 0, at most 1", _show(part))


def _open_weights(outline: nn.Module, folder: Path) -> WeightsFolder:
    """Opens the weights of a folder, after their headers were checked against the model."""
    config: Any = outline.config
    written = list_file_names(config.to_json_string())
    named = {written.get(name, name): one for name, one in outline.named_parameters()}
    owners = {id(parameter): name for name, parameter in named.items()}
    pairs = outline.named_parameters(remove_duplicate=False)
    every = {written.get(name, name): owners[id(one)] for name, one in pairs}
    tied = {name: owner for name, owner in every.items() if owner != name}
    shapes = {name: tuple(parameter.shape) for name, parameter in named.items()}
    return open_named(folder, shapes, tied)


def _take_weights(module: nn.Module, weights: WeightsFolder) -> None:
    """Copies the tensors of a folder into the module."""
    parameters = list(module.parameters())
    pieces = torch.split(weights.read(), [parameter.numel() for parameter in parameters])
    with torch.no_grad():
        for parameter, piece in zip(parameters, pieces, strict=True):
            parameter.copy_(piece.view(parameter.shape))


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "..."


def _refuse(where: str, expected: str, actual: str) -> InvalidInput:
    return InvalidInput(
        what="a model's config.json asks for something that is not supported",
        expected=expected,
        actual="".join(one if one.isprintable() else "?" for one in actual[:300]),
        where=where,
        remedy=REMEDY,
    )
