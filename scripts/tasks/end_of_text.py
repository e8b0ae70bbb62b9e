"""Tells a model's config which token ends a text, so that an export of the task stops there.

The note of a packed dataset has the token's name, and the tokenizer.json beside it the number.
"""

import json
import re
from dataclasses import replace
from itertools import accumulate
from typing import Any

from touchstone.node.exports.model_note import TOKENIZER_NAME
from touchstone.scripts.data.packed_dataset import PackedDataset
from touchstone.step.step_folder import StepFiles

END = "eos_token_id"
STRING, OTHERS = re.compile(rb'"(?:[^"\\]|\\.)*"'), bytes(set(range(256)) - set(b"[]{}"))
MAX_DEPTH = 64
"""The most tables and lists in each other. The parser recurses at each, and may overflow the stack."""


def set_end_of_text(step: StepFiles, packed: PackedDataset) -> StepFiles:
    """Returns the step with the dataset's end-of-text token in the config of its layout. The step is returned
    unchanged if the dataset has no such token, if the step has no config, or if the config names the token
    already, alone or among others."""
    number = find_end(packed)
    config = _parse(step.layout.config.encode())
    if number is None or not isinstance(config, dict):
        return step
    named = config.get(END)
    if number in (named if isinstance(named, list) else [named]):
        return step
    text = json.dumps({**config, END: number}, sort_keys=True)
    return replace(step, layout=replace(step.layout, config=text))


def find_end(packed: PackedDataset) -> int | None:
    """Returns the number of the token after each document of a dataset, None if there is none."""
    name = "" if packed.note is None else packed.note.end_of_text
    if not name:
        return None
    return find_token((packed.tokens.parent / TOKENIZER_NAME).read_bytes(), name)


def find_token(tokenizer: bytes, name: str) -> int | None:
    """Returns the number of a token of a tokenizer.json, None if it is not there. Added tokens come first, as
    in the library."""
    content = _parse(tokenizer)
    table = content if isinstance(content, dict) else {}
    added, model = table.get("added_tokens"), table.get("model")
    vocabulary: Any = model.get("vocab") if isinstance(model, dict) else None
    tokens = [one for one in added if isinstance(one, dict)] if isinstance(added, list) else []
    found = [one.get("id") for one in tokens if one.get("content") == name]
    if isinstance(vocabulary, dict):
        found.append(vocabulary.get(name))
    elif isinstance(vocabulary, list):
        # A unigram model has pairs of token and score.
        found += [at for at, one in enumerate(vocabulary) if isinstance(one, list) and one[:1] == [name]]
    return next((one for one in found if isinstance(one, int)), None)


def _parse(text: bytes) -> Any:
    """Returns the value of a text in JSON, None if it is none or too deep."""
    brackets = STRING.sub(b"", text).translate(None, OTHERS)
    if max(accumulate(1 if one in b"[{" else -1 for one in brackets), default=0) > MAX_DEPTH:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
