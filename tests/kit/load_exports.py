"""Loads exported folders with the transformers that comes first on the path; a process of its own runs it.

It reads {"folders", "tokens", "out", "is_imported", "models"} as JSON, writes the logits into the file `out`
by the number of the folder, and prints what else it found of each, as JSON. `is_imported`: Touchstone reads
the folders, through this transformers. `models`: folders to write first, with the type and fields of each.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file


def load(folder: Path, tokens: torch.Tensor, *, is_imported: bool) -> tuple[torch.Tensor, Any]:
    """Returns the logits of a folder's model, and the tokens at which it stops."""
    kind: Any = transformers.AutoModelForCausalLM
    if is_imported:
        published: Any = import_module("touchstone.node.exports.published_model")
        model = published.read_published(folder, with_weights=True).module
    else:
        model = kind.from_pretrained(folder, attn_implementation="eager").eval()
    with torch.no_grad():
        logits = model(tokens).logits
    return logits.float().contiguous(), model.generation_config.eos_token_id


def save(folder: str, name: str, fields: dict[str, Any]) -> None:
    """Writes a small model of a type as `save_pretrained` does."""
    torch.manual_seed(4)
    classes: Any = transformers.AutoModelForCausalLM
    model = classes.from_config(transformers.AutoConfig.for_model(name, **fields))
    model.save_pretrained(folder, safe_serialization=True)


given = json.load(sys.stdin)
for model in given["models"]:
    save(*model)
tokens = torch.tensor(given["tokens"])
found: dict[str, torch.Tensor] = {}
said: list[dict[str, Any]] = []
for number, folder in enumerate(given["folders"]):
    one = {"version": transformers.__version__, "error": "", "eos": None}
    try:
        found[str(number)], one["eos"] = load(Path(folder), tokens, is_imported=given["is_imported"])
    except Exception as error:
        one["error"] = f"{type(error).__name__}: {error}"
    said.append(one)
if found:
    save_file(found, given["out"])
print(json.dumps(said))
