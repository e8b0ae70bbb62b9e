"""How a command ends: its exit codes, errors in four lines, and which errors of the system are the disk's."""

import errno
from enum import IntEnum

from protocol.spec.errors import EnvironmentFault, TouchstoneError


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
