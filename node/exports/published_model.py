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

from touchstone.node.exports.config_fields import NOT_TAKEN, refuse_config, show_value, take_fields
from touchstone.node.exports.model_folder import WeightsFolder, open_named
from touchstone.node.exports.model_note import CONFIG_NAME, MAX_CONFIG_BRACKETS
from touchstone.node.exports.rotary_positions import find_rotary_fields, read_rotation, write_rotation
from touchstone.node.exports.tensor_names import find_names
from touchstone.protocol.adapters.machine.extra_libraries import load_extra
from touchstone.protocol.spec.params import MAX_PARAMETERS

TRIED = (
    "llama", "qwen2", "qwen3", "gpt2", "gemma", "gemma2", "mistral", "phi", "phi3", "olmo2", "smollm3",
    "opt", "gpt_neox",
)  # fmt: skip
"""Model types whose recorded loss was compared with that of their class."""
MAX_CONFIG_BYTES = 1 << 18


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
        raise refuse_config(str(file), "a config.json", str(error.strerror)) from error
    is_short = len(text) <= MAX_CONFIG_BYTES
    is_short = is_short and text.count(b"[") + text.count(b"{") <= MAX_CONFIG_BRACKETS
    try:
        content = json.loads(text) if is_short else None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise refuse_config(str(file), "a table in JSON", f"{len(text)} bytes that are no such table")
    return content


def _require_runs(module: nn.Module, where: str) -> None:
    """Raises InvalidInput unless the model runs. Older versions of transformers accept any type in a config,
    and fail only at a run."""
    try:
        with torch.no_grad():
            module(torch.zeros((1, 2), dtype=torch.int64))
    except Exception as error:
        # The library's own message.
        raise refuse_config(where, "a config whose model runs", f"{type(error).__name__}: {error}") from error


def _read_config(fields: Mapping[str, Any], where: str) -> tuple[Any, Any, nn.Module]:
    """Returns the config and the class of the model, and the model without memory, for names and shapes."""
    transformers: Any = load_extra("transformers", "a model of Hugging Face", "models")
    auto: Any = import_module("transformers.models.auto.modeling_auto")
    configs: Any = import_module("transformers.models.auto.configuration_auto")

    model_type = fields.get("model_type")
    if model_type not in TRIED:
        raise refuse_config(f"{where}, model_type", " or ".join(TRIED), show_value(model_type))
    config_class = configs.CONFIG_MAPPING[model_type]
    rotary = find_rotary_fields(fields)
    others = {name: value for name, value in fields.items() if name not in rotary}
    taken, rotation = take_fields(config_class(), others, where), read_rotation(fields, where)
    if rotation is not None:
        taken = write_rotation(taken, rotation)
    try:
        # The class also judges the fields that are left out.
        config_class.from_dict({**fields, **taken}, attn_implementation="eager")
        config = config_class.from_dict(taken, attn_implementation="eager")
        kind = auto.MODEL_FOR_CAUSAL_LM_MAPPING[config_class]
        config.architectures = [kind.__name__]
        with torch.device("meta"):
            outline: nn.Module = kind(config)
    except Exception as error:
        # The library may raise anything, since the file may come from anywhere.
        said = f"{type(error).__name__}: {error}"
        raise refuse_config(
            where, f"a config that transformers {transformers.__version__} takes", said
        ) from error
    counts = [sum(one.numel() for one in found) for found in (outline.parameters(), outline.buffers())]
    if max(counts) > MAX_PARAMETERS:
        expected = f"at most {MAX_PARAMETERS} parameters, and numbers in tables"
        raise refuse_config(where, expected, f"{counts[0]}, and {counts[1]}")
    for name, value in config.to_dict().items():
        is_drawn = "drop" in name and name not in NOT_TAKEN
        if is_drawn and isinstance(value, int | float) and value != 0:
            missing = "" if name in fields else " (what transformers takes where the field is missing)"
            raise refuse_config(
                f"{where}, {name}", "0, because programs draw no random numbers", f"{value}{missing}"
            )
    return config, kind, outline


def _open_weights(outline: nn.Module, folder: Path) -> WeightsFolder:
    """Opens the weights of a folder, after their headers were checked against the model."""
    config: Any = outline.config
    named = dict(outline.named_parameters())
    owners = {id(parameter): name for name, parameter in named.items()}
    pairs = outline.named_parameters(remove_duplicate=False)
    tied = {name: owners[id(one)] for name, one in pairs if owners[id(one)] != name}
    shapes = {name: tuple(parameter.shape) for name, parameter in named.items()}
    return open_named(folder, shapes, tied, find_names(config.to_json_string()))


def _take_weights(module: nn.Module, weights: WeightsFolder) -> None:
    """Copies the tensors of a folder into the module."""
    parameters = list(module.parameters())
    pieces = torch.split(weights.read(), [parameter.numel() for parameter in parameters])
    with torch.no_grad():
        for parameter, piece in zip(parameters, pieces, strict=True):
            parameter.copy_(piece.view(parameter.shape))
