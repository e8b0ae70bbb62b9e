"""Reads texts for a model, and opens the tokenizer for its tokens."""

from hashlib import sha256
from pathlib import Path

from touchstone.node.exports.byte_tokenizer import make_byte_tokenizer
from touchstone.node.exports.model_note import (
    BYTE_VOCABULARY,
    TOKENIZER_NAME,
    check_tokenizer,
    hash_file,
    read_note,
)
from touchstone.node.exports.published_model import PublishedModel
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.data.tokenizing import ByteTokens, FileTokens, Tokens

MAX_TEXT_BYTES = 64 * 1024 * 1024


def read_text(path: Path) -> str:
    """Returns the contents of a text file. Raises InvalidInput if it is missing, too long or not UTF-8."""
    if not path.is_file() or path.stat().st_size > MAX_TEXT_BYTES:
        raise refuse_input("no text to measure on", f"a file of at most {MAX_TEXT_BYTES} bytes", str(path))
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise refuse_input("the text is not UTF-8", "UTF-8", f"{path}, byte {error.start}") from error


def find_tokenizer(folder: Path, model: PublishedModel) -> str:
    """Returns the SHA-256 of the model's tokenizer.json in hex: the one that the task names, else the
    folder's; empty if tokens are bytes. Raises InvalidInput if there is none and tokens cannot be bytes."""
    note, tokenizer = read_note(folder), folder / TOKENIZER_NAME
    if note is not None:
        return note.tokenizer_sha256
    if tokenizer.is_file():
        found = hash_file(tokenizer)
        return "" if found == sha256(make_byte_tokenizer()).hexdigest() else found
    if model.vocabulary_size != BYTE_VOCABULARY:
        expected = f"{TOKENIZER_NAME}, or a vocabulary of {BYTE_VOCABULARY}"
        raise refuse_input("the folder has no tokenizer", expected, f"{model.vocabulary_size} tokens")
    return ""


def open_tokens(folder: Path, model: PublishedModel) -> Tokens:
    """Returns the model's tokenizer, or bytes as tokens if there is none. Raises InvalidInput if it is
    missing or has another hash."""
    named = find_tokenizer(folder, model)
    if not named:
        return ByteTokens()
    data = check_tokenizer(folder, bytes.fromhex(named))
    return FileTokens(data, str(folder / TOKENIZER_NAME))


def refuse_input(what: str, expected: str, actual: str) -> InvalidInput:
    """Returns the error for an option or a text that does not fit the model."""
    return InvalidInput(
        what=what, expected=expected, actual=actual, remedy="Correct the options; --help has an example."
    )
