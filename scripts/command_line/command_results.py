"""Writes the result of a command as JSON.

With `--json` a command writes one object to standard output and nothing else there; lines, tables and
questions go to standard error. `scripts/documents` has the type of each document.
"""

import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import TextIO, TypeAlias

import msgspec

from touchstone.scripts.documents.document_fields import Document

Put: TypeAlias = Callable[[Document], None]
"""Takes the document of a command that goes on running."""


@dataclass(frozen=True)
class FaultFound:
    """The document of a command that looked for faults and found one. The command ends with status 1."""

    document: Document


class JsonOutput:
    """Writes the document of a command to a stream, if there is one. Only the first document counts: if a
    command writes its result, goes on, then fails, standard error and the exit status say so."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def put(self, document: Document) -> None:
        """Writes the document as one line."""
        if self._stream is not None:
            self._stream.write(json.dumps(msgspec.to_builtins(document)) + "\n")
            self._stream.flush()
            self._stream = None


@contextmanager
def open_output(*, is_json: bool) -> Iterator[JsonOutput]:
    """Opens the output of a command. With `is_json`, everything printed meanwhile, also by a child process,
    goes to standard error."""
    if not is_json:
        yield JsonOutput(None)
        return
    with _keep_stdout() as stream, redirect_stdout(sys.stderr):
        yield JsonOutput(stream)


@contextmanager
def _keep_stdout() -> Iterator[TextIO]:
    """Yields the real standard output, while its file descriptor leads to standard error."""
    stream = sys.stdout
    try:
        number = stream.fileno()
    except io.UnsupportedOperation:
        number = -1
    if number != 1:
        yield stream
        return
    stream.flush()
    kept = os.dup(number)
    os.dup2(2, number)
    try:
        with os.fdopen(os.dup(kept), "w", encoding="utf-8") as own:
            yield own
    finally:
        os.dup2(kept, number)
        os.close(kept)


def ignore(_: Document) -> None:
    """Ignores the document, for callers that need none."""
