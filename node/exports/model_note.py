"""Reads and writes the files beside a model's weights: where it comes from, and its tokenizer."""

from hashlib import file_digest, sha256
from pathlib import Path
from typing import Annotated

import msgspec

from touchstone.node.exports.model_folder import refuse_folder
from touchstone.protocol.spec.errors import InvalidInput

NOTE_NAME = "touchstone.json"


TOKENIZER_NAME = "tokenizer.json"


CONFIG_NAME = "config.json"


MAX_CONFIG_BRACKETS = 256
"""The most tables and lists in a config.json. The parser recurses at each bracket, and may overflow the
stack."""


BYTE_VOCABULARY = 256
"""The size of the vocabulary if tokens are the bytes of a text."""


MAX_NOTE_BYTES = 64 * 1024


MAX_ROW_TOKENS = 1 << 20


Digest = Annotated[str, msgspec.Meta(pattern=r"\A([0-9a-f]{64})?\Z")]


class ModelNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of touchstone.json. `row_tokens` is the number of tokens in a row of the task.
    `tokenizer_sha256` is the SHA-256 of the task's tokenizer.json in hex, empty if tokens are bytes."""

    row_tokens: int
    tokenizer_sha256: Digest = ""


def format_note(note: ModelNote) -> bytes:
    """Returns the text of touchstone.json."""
    return msgspec.json.format(msgspec.json.encode(note)) + b"\n"


def format_tokenizer_config(row_tokens: int) -> bytes:
    """Returns the smallest tokenizer_config.json with which `AutoTokenizer` reads tokenizer.json."""
    content = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": row_tokens,
        "clean_up_tokenization_spaces": False,
    }
    return msgspec.json.format(msgspec.json.encode(content)) + b"\n"


def check_tokenizer(path: Path, expected: bytes) -> bytes:
    """Returns the bytes of a tokenizer.json, given itself or its folder. `expected` is its SHA-256, zero if
    the task names none. Raises InvalidInput if the file is missing or has another hash."""
    file = path / TOKENIZER_NAME if path.is_dir() else path
    data = file.read_bytes() if file.is_file() else b""
    found = sha256(data).digest()
    if not data and not any(expected):
        raise InvalidInput(
            what="there is no tokenizer here, and the task names none",
            expected="a tokenizer.json",
            actual="no such file",
            where=str(file),
            remedy="Leave --tokenizer out if tokens are bytes. Otherwise ask the submitter for the file.",
        )
    if not data or (any(expected) and found != expected):
        raise InvalidInput(
            what="not the tokenizer of this task",
            expected=f"a tokenizer.json with SHA-256 {expected.hex()}",
            actual=found.hex() if data else "no such file",
            where=str(file),
            remedy="Ask the submitter for the folder that `touchstone data pack` wrote, and name it.",
        )
    return data


def hash_file(path: Path) -> str:
    """Returns the SHA-256 of a file of any length, in hex."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def read_note(folder: Path) -> ModelNote | None:
    """Returns the contents of the touchstone.json in a folder, or None if there is none. Raises InvalidInput
    if it is malformed."""
    path = folder / NOTE_NAME
    if not path.exists():
        return None
    if not path.is_file() or path.stat().st_size > MAX_NOTE_BYTES:
        raise refuse_folder(f"a file of at most {MAX_NOTE_BYTES} bytes", "another", path)
    try:
        note = msgspec.json.decode(path.read_bytes(), type=ModelNote)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise refuse_folder("the note of an exported model", str(error), path) from error
    if not 1 <= note.row_tokens <= MAX_ROW_TOKENS:
        raise refuse_folder(f"rows of 1 to {MAX_ROW_TOKENS} tokens", str(note.row_tokens), path)
    return note
