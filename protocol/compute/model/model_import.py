"""A model's shape from Hugging Face's `config.json`: its family, its sizes, and nothing ignored.

The weights beside it are read in `node/weights_folder.py`.
"""

import json

from protocol.compute.model.config_fields import ConfigFields
from protocol.compute.model.reference_model import FAMILIES
from protocol.spec.containers import ModelConfig
from protocol.spec.errors import InvalidInput
from protocol.spec.model_rules import list_model_rules

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
