"""A dataset as a folder: the tokens of a task, and a note of how they were made.

    tokens.bin       tokens to train on, then held-out ones: little-endian, 1, 2 or 4 bytes by the vocabulary
    dataset.json     what is in it and how it was made (`DatasetNote`)
    tokenizer.json   a copy of the tokenizer, if there was one

A task may also have a raw file of tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from touchstone.node.exports.model_note import BYTE_VOCABULARY, TOKENIZER_NAME
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.task_spec import count_token_bytes
from touchstone.scripts.data.file_kinds import (
    HEAD_BYTES,
    Kind,
    find_compression,
    find_other_kind,
    get_kind_by_name,
)

TOKENS_NAME, NOTE_NAME = "tokens.bin", "dataset.json"
FORMAT = 1
READ_BYTES = 1 << 22
MAX_NOTE_BYTES = 16 * 1024 * 1024
Count = Annotated[int, msgspec.Meta(ge=0)]
Hex = Annotated[str, msgspec.Meta(pattern=r"\A([0-9a-f]{64})?\Z")]


class DatasetNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of dataset.json. `token_count` is the number of tokens to train on. `root` is the root of
    the tree over tokens.bin, in hex. The other fields say how the dataset was made. `end_of_text` is the
    token after each document, `begin_of_text` the one before it; both are empty if there is none. `sources`
    are names of the files that were read, with their sizes in bytes."""

    format: int
    vocabulary_size: Annotated[int, msgspec.Meta(ge=2, le=1 << 32)]
    token_bytes: int
    token_count: Count
    heldout_tokens: Count
    root: Hex
    tokenizer_sha256: Hex = ""
    end_of_text: str = ""
    documents: Count = 0
    sources: Sequence[tuple[str, int]] = ()
    field: str = ""
    column: str = ""
    heldout: float = 0.0
    made_with: str = ""
    begin_of_text: str = ""


def format_note(note: DatasetNote) -> bytes:
    """Returns the text of dataset.json. Without a `begin_of_text` earlier versions read it too."""
    content = msgspec.to_builtins(note)
    if not note.begin_of_text:
        del content["begin_of_text"]
    return msgspec.json.format(msgspec.json.encode(content)) + b"\n"


@dataclass(frozen=True)
class PackedDataset:
    """The file of tokens, and its note. A raw file has no note, and one byte for each token."""

    tokens: Path
    size_bytes: int
    note: DatasetNote | None = None

    @property
    def vocabulary_size(self) -> int:
        """All tokens are below this number."""
        return BYTE_VOCABULARY if self.note is None else self.note.vocabulary_size

    @property
    def token_bytes(self) -> int:
        """The bytes of one token."""
        return count_token_bytes(self.vocabulary_size)

    @property
    def tokenizer_sha256(self) -> str:
        """The SHA-256 of the tokenizer.json in hex; empty if tokens are bytes."""
        return "" if self.note is None else self.note.tokenizer_sha256


def open_dataset(path: Path) -> PackedDataset:
    """Opens a packed folder, or a raw file of one-byte tokens. Raises InvalidInput if it is neither, or a
    file of the folder does not fit its note. Files of JSONL or Parquet, and compressed ones, are refused,
    because their bytes are not meant as tokens. The root is not computed here."""
    if path.is_file():
        if found := _find_format(path):
            raise _refuse("a packed dataset", found, path)
        return PackedDataset(path, path.stat().st_size)
    note = read_note(path / NOTE_NAME)
    tokens, tokenizer = path / TOKENS_NAME, path / TOKENIZER_NAME
    size, expected = _measure(tokens), (note.token_count + note.heldout_tokens) * note.token_bytes
    if note.token_bytes != count_token_bytes(note.vocabulary_size) or size != expected:
        raise _refuse(f"{expected} bytes", "no such file" if size < 0 else f"{size} bytes", tokens)
    if note.tokenizer_sha256:
        found = sha256(tokenizer.read_bytes()).hexdigest() if tokenizer.is_file() else "no such file"
        if found != note.tokenizer_sha256:
            raise _refuse(f"SHA-256 {note.tokenizer_sha256}", found, tokenizer)
    return PackedDataset(tokens, size, note)


def _find_format(path: Path) -> str:
    """Returns the format of texts that the name or the first bytes of a file show; empty for raw tokens."""
    if (kind := get_kind_by_name(path)) in (Kind.JSONL, Kind.PARQUET):
        return f"a file named as {kind}"
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    return find_compression(head) or find_other_kind(head, None)


def find_largest_token(dataset: PackedDataset) -> int:
    """Returns the largest token of the whole file, read in parts; -1 if there is none."""
    largest = -1
    with dataset.tokens.open("rb") as file:
        while part := file.read(READ_BYTES):
            largest = max(largest, int(np.frombuffer(part, f"<u{dataset.token_bytes}").max()))
    return largest


def _measure(path: Path) -> int:
    return path.stat().st_size if path.is_file() else -1


def read_note(path: Path) -> DatasetNote:
    """Returns the contents of dataset.json. Raises InvalidInput if it is missing, malformed or of another
    version."""
    if not 0 <= _measure(path) <= MAX_NOTE_BYTES:
        raise _refuse("the note of a packed dataset", "no such file", path)
    try:
        note = msgspec.json.decode(path.read_bytes(), type=DatasetNote)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _refuse("the note of a packed dataset", str(error), path) from error
    if note.format != FORMAT:
        raise _refuse(f"format {FORMAT}", f"format {note.format}", path)
    return note


def _refuse(expected: str, actual: str, where: Path) -> InvalidInput:
    return InvalidInput(
        what="not a packed dataset",
        expected=expected,
        actual=actual,
        where=str(where),
        remedy="Pack the texts with `touchstone data pack`, or name a raw file of one byte a token.",
    )
