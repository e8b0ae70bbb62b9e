"""Restricts a process to its own folder, beside the system's files.

The process sees all that it could before, but below a hidden folder nothing opens except its own folder. So
the demo shows that parties share a chain and HTTP and nothing else. It uses Linux Landlock (kernel 5.19, no
privileges needed; docs.kernel.org/userspace-api/landlock.html).
"""

import ctypes
import os
import struct
from pathlib import Path

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
RULE_PATH_BENEATH = 1
PR_SET_NO_NEW_PRIVS = 38
ALL_ACCESS = (1 << 14) - 1
"""Every access right of the second Landlock version: execute, read, write, create, remove, and move
between folders (without the last a store could not rename a verified blob into its place)."""
FILE_ACCESS = 0b111
"""Rights that make sense on a file: execute, write, read."""

libc = ctypes.CDLL(None, use_errno=True)


def system_call(number: int, *arguments: object) -> int:
    """Makes a raw system call; returns the result. An error number becomes an OSError."""
    result = libc.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(result)


def is_supported() -> bool:
    """Returns whether this kernel enforces Landlock rules, moves between folders included."""
    return bool(libc.syscall(CREATE_RULESET, None, 0, 1) >= 2)


def allow(ruleset: int, path: Path) -> None:
    """Permits everything below `path` that file permissions permit."""
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        access = ALL_ACCESS if path.is_dir() else FILE_ACCESS
        rule = struct.pack("=Qi", access, descriptor)
        system_call(ADD_RULE, ruleset, RULE_PATH_BENEATH, ctypes.create_string_buffer(rule, len(rule)), 0)
    finally:
        os.close(descriptor)


def visible_paths(hidden: Path) -> list[Path]:
    """Returns the fewest paths that hold everything but `hidden`: the siblings of each of its ancestors.

    No links: what they lead to is seen by its own path, and one that leads to an ancestor would show all."""
    paths = []
    while hidden != hidden.parent:
        siblings = (path for path in hidden.parent.iterdir() if not path.is_symlink() and path.exists())
        paths += [sibling for sibling in siblings if sibling != hidden]
        hidden = hidden.parent
    return paths


def confine(own: Path, hidden: Path) -> None:
    """Restricts this process and its children, for good, to `own` and to everything outside `hidden`."""
    attributes = struct.pack("=Q", ALL_ACCESS)
    ruleset = system_call(CREATE_RULESET, ctypes.create_string_buffer(attributes, 8), 8, 0)
    for path in [own.resolve(), *visible_paths(hidden.resolve())]:
        allow(ruleset, path)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    system_call(RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)
