"""How a command ends: its result as JSON, its exit codes, and errors in four lines.

With `--json` a command writes one object to standard output and nothing else there; lines, tables and
questions go to standard error. docs/schemas has a schema for each command, and `error.json` for a command
that failed. Amounts are texts of wei: a number of JSON loses digits in many readers.
"""

import errno
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from enum import IntEnum
from typing import Any, TextIO, TypeAlias

from protocol.spec.errors import EnvironmentFault, TouchstoneError

Document: TypeAlias = Mapping[str, Any]
"""What a command found or did, as JSON has it."""
Put: TypeAlias = Callable[[Document], None]
"""Takes the document of a command that goes on to run."""


class JsonOutput:
    """Where the document of a command goes; nowhere without a stream. The first one counts: a command that
    has told its result and runs on, then fails, says so on standard error and by its exit status."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def put(self, document: Document) -> None:
        """Write the document in one line."""
        if self._stream is not None:
            self._stream.write(json.dumps(document) + "\n")
            self._stream.flush()
            self._stream = None


@contextmanager
def open_output(*, is_json: bool) -> Iterator[JsonOutput]:
    """The output of a command. is_json: as long as this is open, whatever is printed, by a child process too,
    goes to standard error."""
    if not is_json:
        yield JsonOutput(None)
        return
    with _keep_stdout() as stream, redirect_stdout(sys.stderr):
        yield JsonOutput(stream)


@contextmanager
def _keep_stdout() -> Iterator[TextIO]:
    """What standard output was, while its file descriptor leads to standard error."""
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
    """A Put for whom no document matters."""


def describe_error(error: TouchstoneError, status: int) -> Document:
    """The document of a command that failed (docs/schemas/error.json)."""
    names = ("what", "where", "expected", "actual", "remedy")
    return {"error": {name: str(getattr(error, name)) for name in names}, "exit_status": int(status)}


def spell_id(value: bytes) -> str:
    """An id of 32 bytes, whole: `0x` and 64 hexadecimal digits."""
    return f"0x{value.hex()}"


class ExitCode(IntEnum):
    """The exit status of `touchstone`; docs/commands.md lists them."""

    DONE = 0
    FOUND = 1
    """A command that looks for faults found one."""
    REFUSED = 2
    """An error that the operator can mend, or a wrong option."""
    BUG = 70
    """EX_SOFTWARE of sysexits.h: not the operator's fault."""
    INTERRUPTED = 130


WRITE_ERRORS = frozenset({errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC, errno.EROFS})
"""A disk alone answers so."""
PATH_ERRORS = frozenset(
    {
        errno.EACCES,
        errno.EEXIST,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EPERM,
    }  # fmt: skip
)
"""Of a disk where a path is named: a port may be refused in the same words."""


def is_of_disk(error: OSError) -> bool:
    """Whether a disk refused a file or a folder: the operator's to mend, and no bug."""
    return error.errno in WRITE_ERRORS or (error.errno in PATH_ERRORS and error.filename is not None)


def explain_disk(error: OSError) -> EnvironmentFault:
    """The error of a file or folder that cannot be read or written, naming it where the system does."""
    return EnvironmentFault(
        what="the disk refuses a file or folder",
        expected="a readable and writable place with room",
        actual=error.strerror,
        where=str(error.filename or ""),
        remedy="Make room or mend its rights, or choose another --home or --out.",
        retryable=False,
    )


def render_error(error: TouchstoneError) -> str:
    """Four lines: what, expected, actual, what to do."""
    where = f" ({error.where})" if error.where else ""
    return "\n".join(
        (
            f"error:    {error.what}{where}",
            f"expected: {error.expected}",
            f"actual:   {error.actual}",
            f"do:       {error.remedy}",
        )
    )


def explain_bug(error: Exception) -> EnvironmentFault:
    """An error that the code did not foresee, in the same four parts."""
    return EnvironmentFault(
        what="this is a bug of Touchstone",
        expected="a result, or an error that says what to do",
        actual=f"{type(error).__name__}: {error}",
        remedy="Run again with --debug and report the traceback.",
        retryable=False,
    )
