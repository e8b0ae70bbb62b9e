"""Writes a model as a folder: weights, config, tokenizer, and a note of its origin."""

import json
import shutil
from pathlib import Path
from typing import Any

from torch import Tensor

from touchstone.node.exports.config_fields import TYPE_FIELDS
from touchstone.node.exports.lora_export import describe_for_peft, find_adapters, merge, name_for_peft
from touchstone.node.exports.model_folder import SAFETENSORS_METADATA, SAFETENSORS_NAME
from touchstone.node.exports.model_note import (
    CONFIG_NAME,
    MAX_CONFIG_BRACKETS,
    NOTE_NAME,
    TOKENIZER_NAME,
    ModelNote,
    format_note,
    format_tokenizer_config,
)
from touchstone.node.exports.rotary_positions import write_both_places
from touchstone.node.exports.tensor_file import Tensors, fill, measure_tensors, save_tensors
from touchstone.node.exports.tensor_names import find_names
from touchstone.protocol.adapters.files.durable_files import replace_file
from touchstone.protocol.compute.program.known_steps import TaskStep
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.weights_layout import encode_layout

LAYOUT_NAME, ADAPTER_FOLDER, GENERATION_NAME = "layout.json", "adapter", "generation_config.json"


STOP, SPECIAL = "eos_token_id", ("bos_token_id", "pad_token_id")
"""Fields of a config.json that generation reads: where a text ends, and numbers of special tokens."""


NOT_WRITTEN = frozenset({
    "auto_map", "custom_pipelines", "attn_implementation", "experts_implementation", "quantization_config",
})  # fmt: skip
"""Fields of a config.json that make transformers load code or another class. They are left out."""


def write_model(
    folder: Path,
    weights: Tensor,
    step: TaskStep,
    note: ModelNote | None = None,
    tokenizer: bytes | None = None,
) -> None:
    """Writes a model into a folder. `model.safetensors` has all parameters, frozen ones too, by their names
    in the module, for `load_state_dict`. The layout, its config.json, where generated text ends, and the
    tokenizer lie beside it, if there are any. Adapters are added to their matrices, and the folder `adapter`
    has them as PEFT does. Raises InvalidInput, before anything is written, if the folder has the model of
    another step or the disk too little room, and OSError if the disk refuses a file."""
    layout = encode_layout(step.layout)
    _refuse_other(folder, layout)
    tensors, config = list_tensors(weights, step), clean_config(step.layout.config)
    large, small = dict[Path, Tensors](), dict[Path, bytes]()
    if adapters := find_adapters(tensors):
        large[folder / ADAPTER_FOLDER / "adapter_model.safetensors"] = name_for_peft(adapters)
        small[folder / ADAPTER_FOLDER / "adapter_config.json"] = describe_for_peft(
            adapters, config is not None
        )
    merged = merge(tensors, adapters)
    renamed = find_names((config or b"").decode()).renamed
    written = {name: new for name, new in renamed.items() if new not in merged}
    large[folder / SAFETENSORS_NAME] = {written.get(name, name): one for name, one in merged.items()}
    small[folder / LAYOUT_NAME] = layout
    if config is not None:
        small[folder / CONFIG_NAME] = config
        if (generation := make_generation_config(config)) is not None:
            small[folder / GENERATION_NAME] = generation
    if note is not None:
        small[folder / NOTE_NAME] = format_note(note)
        if tokenizer is not None:
            small[folder / TOKENIZER_NAME] = tokenizer
            small[folder / "tokenizer_config.json"] = format_tokenizer_config(note.row_tokens)
    large_bytes = sum(measure_tensors(one, SAFETENSORS_METADATA) for one in large.values())
    require_room(folder, large_bytes + sum(map(len, small.values())))
    for path, content in large.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        save_tensors(path, content, SAFETENSORS_METADATA)
    for path, data in small.items():
        replace_file(path, data)


def _refuse_other(folder: Path, layout: bytes) -> None:
    """Raises InvalidInput if the folder has weights of another model. They would stay, and a program would
    read both as one."""
    held = folder / LAYOUT_NAME
    if held.is_file() and (held.stat().st_size != len(layout) or held.read_bytes() != layout):
        raise InvalidInput(
            what="the folder has the model of another task",
            expected=f"a {LAYOUT_NAME} of this task, or none",
            actual=str(held),
            remedy="Name a new folder; nothing was written.",
        )


def list_tensors(weights: Tensor, step: TaskStep) -> dict[str, Tensor]:
    """Returns all parameters of a model by their names in the module, without copies."""
    program, constants = step.built.program, step.built.constants
    frozen = {buffer.constant_root: number for number, buffer in enumerate(program.buffers)}
    tensors = {
        entry.name: weights[offset : offset + entry.size].view(entry.shape)
        for entry, offset in step.layout.list_places()
    }
    for one in step.layout.frozen:
        held = constants[frozen[one.root]].view(one.shape) if one.root else fill(one.number, one.shape)
        tensors[one.name] = held
    return tensors


def clean_config(text: str) -> bytes | None:
    """Returns the config.json of an export, of which transformers 4 and 5 make the same model, without fields
    by which they would load code. `text` comes from a layout, perhaps a stranger's. Returns None if it is no
    JSON table, or has too many tables and lists."""
    if text.count("[") + text.count("{") > MAX_CONFIG_BRACKETS:
        return None
    try:
        content = json.loads(text, object_hook=_drop_fields)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict):
        return None
    if any(content.get(name) is not None for name in TYPE_FIELDS):
        # transformers 5 turns the weights beside it into this type, transformers 4 does not.
        content.update(dict.fromkeys(TYPE_FIELDS, "float32"))
    return json.dumps(write_both_places(content), indent=2).encode() + b"\n"


def make_generation_config(config: bytes) -> bytes | None:
    """Returns the generation_config.json of an export, None if its config.json does not say where a text
    ends. `config` is what `clean_config` returned."""
    content = json.loads(config)
    ends = content.get(STOP)
    if not all(type(one) is int for one in (ends if isinstance(ends, list) else [ends])) or ends == []:
        return None
    found = {STOP: ends} | {name: content[name] for name in SPECIAL if type(content.get(name)) is int}
    return json.dumps(found, indent=2).encode() + b"\n"


def _drop_fields(table: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name.lstrip("_") not in NOT_WRITTEN}


def require_room(folder: Path, needed_bytes: int) -> None:
    """Raises InvalidInput if fewer than `needed_bytes` are free on the disk of a folder. The folder need not
    exist."""
    nearest = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    free_bytes = shutil.disk_usage(nearest).free
    if needed_bytes > free_bytes:
        raise InvalidInput(
            what="the disk has too little room for the model",
            expected=f"{needed_bytes} bytes free",
            actual=f"{free_bytes} bytes",
            where=str(folder),
            remedy="Make room, or name a folder on a larger disk.",
        )
