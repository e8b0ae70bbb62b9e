"""The table [model] of a task file: single numbers, a named preset, or a Hugging Face `config.json`.

[model]
preset = "gpt2-124m"            # or
config = "config.json"          # relative to the task file; or all sizes, one by one
weights = "folder"              # the task begins with these: beside any of the above; or alone, as exported
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from node.model_folder import CONFIG_NAME
from protocol.compute.model.reference_model import MAX_CONFIG_BYTES, import_model
from protocol.spec.containers import ModelConfig
from protocol.spec.float32 import nearest
from protocol.spec.params import GIVEN_START
from scripts.command_form import read_path
from scripts.figures import malformed

PRESETS: dict[str, ModelConfig] = {
    "llama-0.2m": ModelConfig(256, 64, 192, 3, 4, 4, 64),
    "llama-6m": ModelConfig(256, 256, 768, 7, 4, 4, 128),
    "gpt2-124m": ModelConfig(50_257, 768, 3072, 12, 12, 12, 1024, architecture="gpt2", tied=1),
    "smollm2-135m": ModelConfig(49_152, 576, 1536, 30, 9, 3, 8192, rope_theta=100_000.0, tied=1),
    "qwen3-0.6b": ModelConfig(
        151_936, 1024, 3072, 28, 16, 8, 40_960, rope_theta=1_000_000.0, norm_epsilon=nearest(1e-6),
        architecture="qwen3", head_size=128, tied=1,
    ),
}  # fmt: skip
"""The first two read bytes. The others have the sizes of openai-community/gpt2, HuggingFaceTB/SmolLM2-135M
and Qwen/Qwen3-0.6B, as their `config.json` gives them; without GPT-2's dropout."""
WAYS = ("preset", "config")
"""Keys that stand for all others."""


def take_weights(document: dict[str, Any], path: Path) -> Path | None:
    """The folder of the weights that a task begins with, taken out of its document; there is a `config` then,
    where nothing else says the sizes, and a seed that stands for it. Raises InvalidInput where the file names
    both a folder and a seed, or the seed that none may name."""
    table, seed = document.get("model"), document.get("initial_seed")
    if seed == GIVEN_START:
        raise malformed(path, "initial_seed", f"0 to {GIVEN_START - 1}", repr(seed))
    if not isinstance(table, dict) or "weights" not in table:
        return None
    if seed is not None:
        raise malformed(path, "initial_seed", "no such key beside model.weights", repr(seed))
    named = table.pop("weights")
    folder = path.parent / read_path(named) if isinstance(named, str) else None
    if folder is None or "\0" in named or not folder.is_dir():
        raise malformed(path, "model.weights", "the path of a folder, relative to this file", repr(named))
    if not table:
        table["config"] = str(folder.absolute() / CONFIG_NAME)
    document["initial_seed"] = GIVEN_START
    return folder


def read_folder_config(folder: Path) -> ModelConfig:
    """The shape of the model in a Hugging Face folder, by its `config.json`. Raises InvalidInput where there
    is none that can be read, or for the first field that asks for what is not offered."""
    return _read_config(CONFIG_NAME, folder / CONFIG_NAME)


def read_model_table(table: Any, path: Path) -> Any:
    """The table with all numbers, where it names a preset or a file; else as it is. Raises InvalidInput that
    names the key, or the field of the `config.json`."""
    stated = [way for way in WAYS if isinstance(table, Mapping) and way in table]
    if not stated:
        return table
    way = stated[0]
    if len(table) > 1:
        others = ", ".join(name for name in table if name != way)
        raise malformed(path, f"model.{way}", f"no other key in the table beside {way}", others)
    return asdict(_find_preset(table[way], path) if way == "preset" else _read_config(table[way], path))


def _find_preset(name: Any, path: Path) -> ModelConfig:
    if not isinstance(name, str) or name not in PRESETS:
        raise malformed(path, "model.preset", f"one of {', '.join(PRESETS)}", repr(name))
    return PRESETS[name]


def _read_config(named: Any, path: Path) -> ModelConfig:
    actual, source = repr(named), path.parent / read_path(named) if isinstance(named, str) else None
    try:
        if source is not None and source.is_file():
            with source.open("rb") as file:
                # One byte more shows that the file is too long.
                return import_model(file.read(MAX_CONFIG_BYTES + 1), str(source))
    except OSError as error:
        actual = str(error.strerror)
    except ValueError as error:
        actual = str(error)
    raise malformed(path, "model.config", "the path of a config.json, relative to this file", actual)
