"""Files as memory: what is mapped counts as this process's only while it holds its pages, and it can let go
of them at any time. The system keeps them in its cache as long as nobody else needs the memory.
"""

import os
import sys
import tempfile
from functools import cache
from mmap import ACCESS_COPY, MADV_DONTNEED, PAGESIZE, mmap
from pathlib import Path
from threading import Lock
from weakref import WeakSet

from protocol.spec.errors import EnvironmentFault

STATM = Path("/proc/self/statm")
"""Its second number is the pages that this process holds (man 5 proc)."""
STATM_BYTES = 128

_mapped: WeakSet[mmap] = WeakSet()
"""All that are still used."""
_lock = Lock()


def map_file(path: Path) -> mmap:
    """The bytes of a file that nobody changes. What is written to them is lost when their pages go."""
    with path.open("rb") as file:
        return _remember(mmap(file.fileno(), 0, access=ACCESS_COPY))


def make_mapped(folder: Path, size_bytes: int) -> mmap:
    """So many zero bytes in a file without a name: it is gone with its last user. Raises EnvironmentFault
    where the disk does not take them."""
    try:
        handle, name = tempfile.mkstemp(dir=folder)
        os.unlink(name)
        try:
            # Taken now: a page that the disk does not take later ends the process.
            os.posix_fallocate(handle, 0, size_bytes)
            return _remember(mmap(handle, size_bytes))
        finally:
            os.close(handle)
    except OSError as error:
        raise EnvironmentFault(
            what="a tensor of a step does not fit on the disk",
            expected=f"{size_bytes} bytes free",
            actual=error.strerror,
            where=str(folder),
            remedy="Free some space, or give the node more memory.",
            retryable=False,
        ) from error


def let_go_above(limit_bytes: int) -> None:
    """Let go of all mapped pages, if this process holds more than `limit_bytes`."""
    if measure_resident_bytes() > limit_bytes:
        with _lock:
            mapped = list(_mapped)
        for one in mapped:
            one.madvise(MADV_DONTNEED)


def measure_resident_bytes() -> int:
    """What this process holds in memory."""
    return int(os.pread(_open_statm(), STATM_BYTES, 0).split()[1]) * PAGESIZE


@cache
def _open_statm() -> int:
    """Once: it is read many times a second."""
    return os.open(STATM, os.O_RDONLY)


def require_mapping() -> None:
    """Raises EnvironmentFault where a process cannot tell what it holds."""
    if not STATM.exists():
        raise EnvironmentFault(
            what="this system does not tell a process how much memory it holds",
            expected=str(STATM),
            actual=sys.platform,
            remedy="Run the node on Linux, or without a limit of memory.",
            retryable=False,
        )


def _remember(mapped: mmap) -> mmap:
    with _lock:
        _mapped.add(mapped)
    return mapped
