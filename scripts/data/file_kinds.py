"""Finds what a file holds by its name and its first bytes, and opens it, decompressed.

Both must agree. Nothing is guessed: a file of another name is read only as the caller says.
"""

import bz2
import gzip
import lzma
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, cast

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.data.foreign_calls import guard

HEAD_BYTES = 4096


class Kind(StrEnum):
    """What the documents of a file are: the whole text, its lines, or its rows."""

    TEXT = "text"
    JSONL = "jsonl"
    PARQUET = "parquet"


ENDINGS = {
    ".txt": Kind.TEXT,
    ".text": Kind.TEXT,
    ".md": Kind.TEXT,
    ".rst": Kind.TEXT,
    ".jsonl": Kind.JSONL,
    ".ndjson": Kind.JSONL,
    ".parquet": Kind.PARQUET,
}
OPENERS: dict[str, Callable[..., Any]] = {"gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open}
"""The compressions that the standard library reads."""
MAGIC = (
    ("gzip", re.compile(rb"\x1f\x8b\x08")),
    ("bzip2", re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)")),
    ("xz", re.compile(rb"\xfd7zXZ\0")),
    ("Zstandard", re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")),
    ("ZIP", re.compile(rb"PK(\x03\x04|\x05\x06)")),
)
"""First bytes of compressed files."""
COMPRESSED_ENDINGS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "Zstandard", ".zip": "ZIP"}
PARQUET_MAGIC = b"PAR1"
JSON_OBJECT = re.compile(rb'(\xef\xbb\xbf)?\s*\{\s*"')


def get_kind_by_name(path: Path) -> Kind | None:
    """Returns the kind that the file's ending names, before the ending of a compression; None for any other
    name."""
    name = Path(path.stem) if path.suffix.lower() in COMPRESSED_ENDINGS else path
    return ENDINGS.get(name.suffix.lower())


def check_kind(path: Path, kind: Kind, *, is_chosen: bool) -> None:
    """Raises InvalidInput if the first bytes of a file show that it is not of this kind, or if it is
    compressed in a way that is not read. If the caller chose the kind (`is_chosen`), texts may have any
    bytes."""
    compression = find_file_compression(path)
    with open_file(path) as file, guard_reading(path):
        head = file.read(HEAD_BYTES)
    again = find_compression(head) if compression else ""
    if again or (compression and kind is Kind.PARQUET):
        raise _refuse_compressed(f"{again} in {compression}" if again else f"Parquet in {compression}", path)
    found = find_other_kind(head, kind)
    if found and (kind is Kind.PARQUET or not is_chosen):
        raise _refuse_first_bytes(kind, found, path)


def find_other_kind(head: bytes, kind: Kind | None) -> str:
    """Returns what the first bytes of a file show, if that is not `kind`; empty if they may be of it."""
    if kind is Kind.PARQUET:
        return "" if head.startswith(PARQUET_MAGIC) else "no Parquet"
    if head.startswith(PARQUET_MAGIC):
        return "Parquet"
    if kind is not Kind.JSONL and JSON_OBJECT.match(head):
        return "JSON"
    return "bytes that are no text" if kind is not None and b"\0" in head else ""


def find_compression(head: bytes) -> str:
    """Returns the name of the compression that the first bytes of a file show, or an empty text."""
    return next((name for name, pattern in MAGIC if pattern.match(head)), "")


def open_file(path: Path) -> BinaryIO:
    """Opens a file for reading, decompressed. Raises InvalidInput if it is compressed in a way that is not
    read, or if its name says a compression that its first bytes do not show."""
    compression = find_file_compression(path)
    return cast(BinaryIO, OPENERS[compression](path)) if compression else path.open("rb")


def find_file_compression(path: Path) -> str:
    """Returns the name of a file's compression, one of `OPENERS`; empty if there is none. Raises InvalidInput
    as `open_file` does."""
    with path.open("rb") as file:
        found = find_compression(file.read(HEAD_BYTES))
    if found and found not in OPENERS:
        raise _refuse_compressed(found, path)
    named = COMPRESSED_ENDINGS.get(path.suffix.lower(), "")
    if named and found != named:
        raise _refuse_first_bytes(named, found or f"no {named}", path)
    return found


def guard_reading(path: Path) -> AbstractContextManager[None]:
    """Returns a context in which errors of decompression become InvalidInput with the file's name."""

    def refuse(words: str) -> InvalidInput:
        return InvalidInput(
            what="a compressed file is broken",
            expected="a whole one",
            actual=words,
            where=str(path),
            remedy="Fetch it again, or leave it out.",
        )

    return guard(refuse)


def _refuse_first_bytes(expected: str, actual: str, path: Path) -> InvalidInput:
    return InvalidInput(
        what="the first bytes of an input are not those of its name",
        expected=expected,
        actual=actual,
        where=str(path),
        remedy="Rename it, leave it out, or say what it holds: --as text, --as jsonl or --as parquet.",
    )


def _refuse_compressed(compression: str, path: Path) -> InvalidInput:
    return InvalidInput(
        what="an input is compressed in a way that is not read",
        expected="no compression, gzip, bzip2 or xz",
        actual=compression,
        where=str(path),
        remedy="Decompress it first.",
    )
