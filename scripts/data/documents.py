"""Reads documents from files, piece by piece.

A document is an independent text. A text file is one document; a long one comes in pieces, cut at line ends.
No part of an input is executed, and malformed input is refused with its file and line.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from touchstone.protocol.adapters.machine.extra_libraries import load_extra
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.data.file_kinds import Kind, guard_reading, open_file
from touchstone.scripts.data.input_files import InputFile

PIECE_BYTES = 64 * 1024
"""Bytes of a piece of a text file."""
MAX_LINE_BYTES = 64 * 1024 * 1024
"""The most bytes of a line of JSONL."""
MAX_DEPTH = 2_000
"""The most nested calls of Python while a line is read."""
BATCH_ROWS = 256
"""Rows of Parquet that are read at a time."""
HINT = "Correct the input, or leave it out."


@dataclass(frozen=True)
class Piece:
    """A piece of a document's text. `is_last` says that the document ends with it."""

    text: str
    is_last: bool = True


@dataclass(frozen=True)
class Fields:
    """The names of the text: of a field of a JSONL line, and of a column of Parquet."""

    field: str = "text"
    column: str = "text"


def read_pieces(file: InputFile, fields: Fields) -> Iterator[Piece]:
    """Yields the documents of a file. Raises InvalidInput, naming the place, if the file is malformed, and if
    a library is missing."""
    if file.kind is Kind.JSONL:
        yield from _read_jsonl(file.path, fields.field)
    elif file.kind is Kind.PARQUET:
        yield from _read_parquet(file.path, fields.column)
    else:
        yield from _read_text(file.path)


def _read_part(file: BinaryIO, path: Path) -> bytes:
    with guard_reading(path):
        return file.read(PIECE_BYTES)


def _read_line(file: BinaryIO, path: Path) -> bytes:
    with guard_reading(path):
        return file.readline(MAX_LINE_BYTES + 1)


def _read_text(path: Path) -> Iterator[Piece]:
    with open_file(path) as file:
        left = b""
        number = 0
        while part := _read_part(file, path):
            left += part
            cut = left.rfind(b"\n") + 1
            if cut == 0 and len(left) < MAX_LINE_BYTES:
                continue
            if cut == 0:
                raise _refuse(
                    "a line of a text is too long", f"at most {MAX_LINE_BYTES} bytes", "more", str(path)
                )
            yield Piece(_decode(left[:cut], path, number), is_last=False)
            left, number = left[cut:], number + cut
        # An empty piece ends a document whose last line was complete.
        yield Piece(_decode(left, path, number))


def _decode(data: bytes, path: Path, first: int) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        place = f"{path}, byte {first + error.start}"
        raise _refuse(
            "a text is not UTF-8", "UTF-8", repr(data[error.start : error.start + 4]), place
        ) from error


def _read_jsonl(path: Path, field: str) -> Iterator[Piece]:
    with open_file(path) as file:
        number = 0
        while line := _read_line(file, path):
            number += 1
            where = f"{path}, line {number}"
            if len(line) > MAX_LINE_BYTES:
                raise _refuse("a line is too long", f"at most {MAX_LINE_BYTES} bytes", "more", where)
            if line.strip():
                yield Piece(_read_field(line, field, where))


def _read_field(line: bytes, field: str, where: str) -> str:
    try:
        with _shallow():
            found: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _refuse("a line is no JSON", "an object", str(error), where) from error
    text = found.get(field) if isinstance(found, dict) else None
    if not isinstance(text, str):
        names = ", ".join(list(found)[:8]) if isinstance(found, dict) else type(found).__name__
        raise _refuse(
            "a line has no such text", f"a text in the field {field!r}", names, where, "Name it with --field."
        )
    # JSON can contain half of a UTF-16 pair alone, which is no character.
    return text.encode("utf-8", "replace").decode("utf-8")


@contextmanager
def _shallow() -> Iterator[None]:
    """Limits recursion while nested JSON is read. A library raises Python's limit so far that the process
    would crash instead of raising RecursionError."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(min(limit, MAX_DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _read_parquet(path: Path, column: str) -> Iterator[Piece]:
    parquet, arrow = (load_extra(name, f"{path.name} (Parquet)") for name in ("pyarrow.parquet", "pyarrow"))
    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            if column not in names:
                raise _refuse(
                    "the file has no such column", f"the column {column!r}", ", ".join(names[:8]), str(path),
                    "Name it with --column.",
                )  # fmt: skip
            kind = file.schema_arrow.field(column).type
            if not (arrow.types.is_string(kind) or arrow.types.is_large_string(kind)):
                raise _refuse("a column holds no texts", "strings", str(kind), f"{path}, column {column}")
            for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=[column]):
                yield from (Piece(text) for text in batch.column(0).to_pylist() if text is not None)
    except arrow.ArrowException as error:
        raise _refuse("a file is no Parquet", "a Parquet file", str(error)[:200], str(path)) from error


def _refuse(what: str, expected: str, actual: str, where: str, remedy: str = HINT) -> InvalidInput:
    return InvalidInput(what=what, expected=expected, actual=actual, where=where, remedy=remedy)
