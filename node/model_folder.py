"""A model's folder read back: the model's shape, its weights, and what its tokens mean.

`touchstone.json` of an export has the shape as the task has it, so that no other file has to be understood. A
folder of Hugging Face without it is read by its `config.json`. Nothing of a folder is executed: JSON and
safetensors are data.
"""

from dataclasses import asdict
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Annotated

import msgspec
from torch import Tensor

from node.weights_folder import open_weights
from protocol.compute.model.model_import import MAX_CONFIG_BYTES, import_model
from protocol.compute.model.reference_model import get_family
from protocol.spec.containers import ModelConfig
from protocol.spec.errors import InvalidInput

NOTE_NAME = "touchstone.json"
TOKENIZER_NAME = "tokenizer.json"
CONFIG_NAME = "config.json"
BYTE_VOCABULARY = 256
"""Tokens that are the bytes of a text."""
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
    """Shape and flat float32 weights [parameters] of an exported folder or of one of Hugging Face. Raises
    InvalidInput where a file is missing or malformed, or the weights are not the shape's."""
    has_note = (folder / NOTE_NAME).exists() or not (folder / CONFIG_NAME).is_file()
    note = read_note(folder) if has_note else make_note(folder)
    return note, open_weights(folder, note.model).read()


def make_note(folder: Path) -> ModelNote:
    """What touchstone.json would say of a folder of Hugging Face: its tokenizer is its own. Raises
    InvalidInput where its config.json is malformed or asks for what is not offered, or where there is no
    tokenizer.json and its tokens cannot be bytes."""
    with (folder / CONFIG_NAME).open("rb") as file:
        # One byte more shows that the file is too long.
        model = import_model(file.read(MAX_CONFIG_BYTES + 1), str(folder / CONFIG_NAME))
    tokenizer = folder / TOKENIZER_NAME
    if not tokenizer.is_file():
        if model.vocabulary_size != BYTE_VOCABULARY:
            expected = f"{TOKENIZER_NAME}, or a vocabulary of {BYTE_VOCABULARY}"
            raise _refuse(expected, f"no such file, and {model.vocabulary_size} tokens", folder)
        return ModelNote(model)
    return ModelNote(model, hash_file(tokenizer))


def hash_file(path: Path) -> str:
    """SHA-256 of a file, hex. It may be of any length."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def read_note(folder: Path) -> ModelNote:
    """touchstone.json of a folder. Raises InvalidInput where it is missing or malformed, or its model has a
    shape that no family has: nothing is built for it."""
    path = folder / NOTE_NAME
    if not path.is_file() or path.stat().st_size > MAX_NOTE_BYTES:
        expected = f"a folder that `touchstone export` wrote, or one of Hugging Face, with {CONFIG_NAME}"
        raise _refuse(expected, f"no {NOTE_NAME}", path)
    try:
        note = msgspec.json.decode(path.read_bytes(), type=ModelNote)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _refuse("the note of an exported model", str(error), path) from error
    get_family(note.model)
    return note


def _refuse(expected: str, actual: str, where: Path) -> InvalidInput:
    return InvalidInput(
        what="not the folder of a model",
        expected=expected,
        actual=actual[:300],
        where=str(where),
        remedy="Write it with `touchstone export`, or with save_pretrained of model and tokenizer.",
    )
