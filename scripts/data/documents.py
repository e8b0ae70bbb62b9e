"""Reads documents from files.

A document is an independent text: a text file, a line of JSONL, a row of Parquet. A malformed document raises
InvalidInput when it is read, with its place; the next ones can be read all the same. No part of an input is
executed.
"""

import json
import sys
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from touchstone.protocol.adapters.machine.extra_libraries import load_extra
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.data.file_kinds import Kind, guard_reading, open_file
from touchstone.scripts.data.foreign_calls import guard
from touchstone.scripts.data.input_files import InputFile

PIECE_BYTES = 64 * 1024
"""Bytes of a piece of a text file."""
MAX_LINE_BYTES = 64 * 1024 * 1024
"""The most bytes of a line of JSONL or of a text."""
MAX_DEPTH = 2_000
"""The most nested calls of Python while a line is read."""
BATCH_ROWS = 256
"""Rows of Parquet that are read at a time."""
BYTE_ORDER_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"
"""It may begin a text in UTF-8, and is no part of the text."""
HINT = "Correct the input, or leave it out."


@dataclass(frozen=True)
class TextDocument:
    """A document. `where` names its file, and its line or row. `read` yields its text in pieces, and raises
    InvalidInput if the document is malformed."""

    where: str
    read: Callable[[], Iterator[str]]


@dataclass(frozen=True)
class Fields:
    """The names of the text: of a field of a JSONL line, and of a column of Parquet."""

    field: str = "text"
    column: str = "text"


def read_documents(file: InputFile, fields: Fields) -> Iterator[TextDocument]:
    """Yields the documents of a file, malformed ones too; each is to be read before the next one. Raises
    InvalidInput if the file itself is malformed, and if a library is missing."""
    path = file.path
    if file.kind is Kind.JSONL:
        yield from _list_lines(path, fields.field)
    elif file.kind is Kind.PARQUET:
        yield from _list_rows(path, fields.column)
    else:
        yield TextDocument(str(path), partial(_read_text, path))


def _read_text(path: Path) -> Iterator[str]:
    decoder = getincrementaldecoder("utf-8")()
    number = line = 0
    mark = BYTE_ORDER_MARK
    with open_file(path) as file:
        while True:
            part = _read_part(file, path)
            held = len(decoder.getstate()[0])
            with _naming(str(path), number - held):
                text = decoder.decode(part, final=not part)
            line = _measure_line(part, line, path)
            number += len(part)
            if text:
                yield text.removeprefix(mark)
                mark = ""
            if not part:
                return


def _measure_line(part: bytes, line: int, path: Path) -> int:
    """Returns the bytes of the line that a part ends in; `line` is what the line before it has already."""
    if line + len(part) > MAX_LINE_BYTES and line + (part + b"\n").find(b"\n") > MAX_LINE_BYTES:
        raise _refuse("a line of a text is too long", f"at most {MAX_LINE_BYTES} bytes", "more", str(path))
    end = part.rfind(b"\n") + 1
    return len(part) - end + (0 if end else line)


def _read_part(file: BinaryIO, path: Path) -> bytes:
    with guard_reading(path):
        return file.read(PIECE_BYTES)


@contextmanager
def _naming(where: str, first: int = 0) -> Iterator[None]:
    """Names the byte that is not UTF-8; `first` is the place of what is decoded."""
    try:
        yield
    except UnicodeDecodeError as error:
        found = repr(error.object[error.start : error.start + 4])
        raise _refuse(
            "a text is not UTF-8", "UTF-8", found, f"{where}, byte {first + error.start}"
        ) from error


def _list_lines(path: Path, field: str) -> Iterator[TextDocument]:
    with open_file(path) as file:
        number = 0
        while line := _read_line(file, path):
            number += 1
            where = f"{path}, line {number}"
            if line.strip():
                yield TextDocument(where, partial(_read_field, line, field, where))
            while len(line) > MAX_LINE_BYTES:
                line = _read_line(file, path)


def _read_line(file: BinaryIO, path: Path) -> bytes:
    with guard_reading(path):
        return file.readline(MAX_LINE_BYTES + 1)


def _read_field(line: bytes, field: str, where: str) -> Iterator[str]:
    if len(line) > MAX_LINE_BYTES:
        raise _refuse("a line is too long", f"at most {MAX_LINE_BYTES} bytes", "more", where)
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
    yield text.encode("utf-8", "replace").decode("utf-8").removeprefix(BYTE_ORDER_MARK)


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


def _list_rows(path: Path, column: str) -> Iterator[TextDocument]:
    number = 0
    for cells in _read_column(path, column):
        for cell in cells:
            number += 1
            where = f"{path}, row {number}"
            yield TextDocument(where, partial(_read_cell, cell, column, where))


def _read_cell(cell: bytes | None, column: str, where: str) -> Iterator[str]:
    if cell is None:
        raise _refuse("a row has no text", f"a text in the column {column!r}", "null", where)
    with _naming(where):
        text = cell.decode()
    yield text.removeprefix(BYTE_ORDER_MARK)


def _read_column(path: Path, column: str) -> Iterator[list[bytes | None]]:
    """Yields the cells of some rows, as bytes: Arrow does not check that strings are UTF-8."""
    parquet, arrow = (load_extra(name, f"{path.name} (Parquet)") for name in ("pyarrow.parquet", "pyarrow"))
    with guard(partial(_refuse, "a file is no Parquet", "a Parquet file", where=str(path))):
        file = parquet.ParquetFile(path)
        schema = file.schema_arrow
    with file:
        if column not in schema.names:
            raise _refuse(
                "the file has no such column", f"the column {column!r}", ", ".join(schema.names[:8]),
                str(path), "Name it with --column.",
            )  # fmt: skip
        kind = schema.field(column).type
        if not (arrow.types.is_string(kind) or arrow.types.is_large_string(kind)):
            raise _refuse("a column holds no texts", "strings", str(kind), f"{path}, column {column}")
        batches = file.iter_batches(batch_size=BATCH_ROWS, columns=[column])
        while True:
            with guard(partial(_refuse, "a Parquet file is broken", "a whole one", where=str(path))):
                batch = next(batches, None)
                cells = [] if batch is None else batch.column(0).cast(arrow.large_binary()).to_pylist()
            if batch is None:
                return
            yield cells


def _refuse(what: str, expected: str, actual: str, where: str, remedy: str = HINT) -> InvalidInput:
    return InvalidInput(what=what, expected=expected, actual=actual, where=where, remedy=remedy)
