"""Defines the exit codes of commands, and errors in four lines."""

import errno
from enum import IntEnum
from typing import cast

from touchstone.protocol.spec.errors import Declined, EnvironmentFault, TouchstoneError
from touchstone.scripts.documents.home_documents import ErrorDocument, ErrorFacts, FailedStatus


def describe_error(error: TouchstoneError, status: int) -> ErrorDocument:
    """Returns the document of a command that failed. `status` is any exit status but 0."""
    return ErrorDocument(describe_fault(error), cast(FailedStatus, int(status)))


def describe_fault(error: TouchstoneError) -> ErrorFacts:
    """Returns an error as the fields of a JSON document."""
    return ErrorFacts(error.what, str(error.where), str(error.expected), str(error.actual), str(error.remedy))


class ExitCode(IntEnum):
    """The exit status of `touchstone`; docs/commands.md lists them."""

    DONE = 0
    FOUND = 1
    """A command that looks for faults found one."""
    REFUSED = 2
    """An error that the operator can fix, or a wrong option."""
    NOT_NEEDED = 3
    """The node has no seat, and must take none; a service need not try again."""
    BUG = 70
    """EX_SOFTWARE of sysexits.h: a bug, not the operator's fault."""
    INTERRUPTED = 130


class NotNeeded(Declined):
    """A node that has no seat and must take none: its task is over, or the operator left it for good."""


WRITE_ERRORS = frozenset({errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC, errno.EROFS})
"""Error numbers that only a disk gives."""
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
"""Error numbers of a disk if a path is named; a port may be refused with the same ones."""


def is_of_disk(error: OSError) -> bool:
    """Returns whether a disk refused a file or a folder. Then the operator must fix it, and it is no bug."""
    return error.errno in WRITE_ERRORS or (error.errno in PATH_ERRORS and error.filename is not None)


def explain_disk(error: OSError) -> EnvironmentFault:
    """Returns the error for a file or folder that cannot be read or written, naming it if the system does."""
    return EnvironmentFault(
        what="the disk refuses a file or folder",
        expected="a readable and writable place with room",
        actual=error.strerror,
        where=str(error.filename or ""),
        remedy="Make room or correct its permissions, or choose another --home or --out.",
        retryable=False,
    )


def advise(fault: EnvironmentFault, remedy: str) -> EnvironmentFault:
    """Returns the same error with another remedy."""
    return EnvironmentFault(
        what=fault.what,
        expected=fault.expected,
        actual=fault.actual,
        where=fault.where,
        remedy=remedy,
        retryable=fault.retryable,
    )


def render_error(error: TouchstoneError) -> str:
    """Returns four lines: what, expected, actual, what to do."""
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
    """Returns an unexpected error in the same four parts."""
    return EnvironmentFault(
        what="this is a bug of Touchstone",
        expected="a result, or an error that says what to do",
        actual=f"{type(error).__name__}: {error}",
        remedy="Run again with --debug and report the traceback.",
        retryable=False,
    )
