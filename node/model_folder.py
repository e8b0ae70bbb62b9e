"""An exported folder read back: the model's shape, its weights, and what its tokens mean.

`touchstone.json` has the shape as the task has it, so that no other file has to be understood. Nothing of a
folder is executed: JSON and safetensors are data.
"""

from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import msgspec
from torch import Tensor

from node.weights_folder import open_weights
from protocol.compute.model.reference_model import get_family
from protocol.spec.containers import ModelConfig
from protocol.spec.errors import InvalidInput

NOTE_NAME = "touchstone.json"
TOKENIZER_NAME = "tokenizer.json"
MAX_NOTE_BYTES = 64 * 1024
Digest = Annotated[str, msgspec.Meta(pattern=r"\A([0-9a-f]{64})?\Z")]


class ModelNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """touchstone.json. model: names and values of `ModelConfig`; tokenizer_sha256: of the tokenizer.json that
    the task names, hex; empty where tokens are bytes."""

    model: ModelConfig
    tokenizer_sha256: Digest = ""


def format_note(model: ModelConfig, tokenizer_sha256: str) -> bytes:
    """touchstone.json."""
    content = {"model": asdict(model), "tokenizer_sha256": tokenizer_sha256}
    return msgspec.json.format(msgspec.json.encode(content)) + b"\n"


def format_tokenizer_config(model: ModelConfig) -> bytes:
    """The least tokenizer_config.json with which `AutoTokenizer` reads tokenizer.json."""
    content = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": model.context_tokens,
        "clean_up_tokenization_spaces": False,
    }
    return msgspec.json.format(msgspec.json.encode(content)) + b"\n"


def check_tokenizer(path: Path, expected: bytes) -> bytes:
    """The bytes of a tokenizer.json, or of the one in a folder. expected: its SHA-256, zero where the task
    names none. Raises InvalidInput where it is missing or another one."""
    file = path / TOKENIZER_NAME if path.is_dir() else path
    data = file.read_bytes() if file.is_file() else b""
    found = sha256(data).digest()
    if not data or (any(expected) and found != expected):
        raise InvalidInput(
            what="not the tokenizer of this task",
            expected=f"a tokenizer.json with SHA-256 {expected.hex()}" if any(expected) else "a file",
            actual=found.hex() if data else "no such file",
            where=str(file),
            remedy="Ask the submitter for the folder that `touchstone data pack` wrote, and name it.",
        )
    return data


def read_model(folder: Path) -> tuple[ModelNote, Tensor]:
    """Shape and flat float32 weights [parameters] of an exported folder. Raises InvalidInput where a file is
    missing or malformed, or the weights are not the shape's."""
    note = read_note(folder)
    return note, open_weights(folder, note.model).read()


def read_note(folder: Path) -> ModelNote:
    """touchstone.json of a folder. Raises InvalidInput where it is missing or malformed, or its model has a
    shape that no family has: nothing is built for it."""
    path = folder / NOTE_NAME
    if not path.is_file() or path.stat().st_size > MAX_NOTE_BYTES:
        raise _refuse("a folder that `touchstone export` wrote", f"no {NOTE_NAME}", path)
    try:
        note = msgspec.json.decode(path.read_bytes(), type=ModelNote)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _refuse("the note of an exported model", str(error), path) from error
    get_family(note.model)
    return note


def _refuse(expected: str, actual: str, where: Path) -> InvalidInput:
    return InvalidInput(
        what="not an exported model",
        expected=expected,
        actual=actual[:300],
        where=str(where),
        remedy="Write it with `touchstone export`.",
    )
