"""Files as memory that the process can let go of, and files that are known to be unchanged.

A mapped file counts as this process's memory only while the process holds its pages, and it can let go of
them at any time. The system keeps the pages in its cache as long as no other use needs the memory.

`UnchangedFiles` remembers the files that this process has just written or read through, as long as no process
changes them.
"""

import os
import sys
import tempfile
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from mmap import ACCESS_COPY, MADV_DONTNEED, PAGESIZE, mmap
from pathlib import Path
from threading import Lock
from weakref import WeakSet

from protocol.spec.errors import EnvironmentFault

REMEMBERED_SECONDS = 600.0
"""After that a file is read through again: disks rot."""
MAX_REMEMBERED = 4096

_Print = tuple[int, int, int, int, int]
"""What changes with any write to a file: device, inode, bytes, and when it was written and changed (ns)."""


class UnchangedFiles:
    """What was found good, and when. Safe for several threads."""

    def __init__(self) -> None:
        self._good: OrderedDict[Path, tuple[_Print, float]] = OrderedDict()
        self._lock = Lock()

    @contextmanager
    def remember(self, path: Path) -> Iterator[None]:
        """The file as it is now is good, unless the block raises."""
        found = _take_print(path)
        yield
        if found is not None:
            with self._lock:
                self._good[path] = (found, time.monotonic())
                self._good.move_to_end(path)
                while len(self._good) > MAX_REMEMBERED:
                    self._good.popitem(last=False)

    def knows(self, path: Path) -> bool:
        """Whether the file was good within REMEMBERED_SECONDS, and is still the same."""
        found, at = self._good.get(path, (None, 0.0))
        is_recent = time.monotonic() - at < REMEMBERED_SECONDS
        return found is not None and is_recent and found == _take_print(path)


def _take_print(path: Path) -> _Print | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


STATM = Path("/proc/self/statm")
"""Its second number is the pages that this process holds (man 5 proc)."""
STATM_BYTES = 128
LEAST_PAGES_BYTES = 1 << 28
"""Of mapped pages, whatever else a process holds."""

_mapped: WeakSet[mmap] = WeakSet()
"""All that are still used."""
_lock = Lock()


def map_file(path: Path) -> memoryview:
    """The bytes of a file that no process changes. What is written to them is lost when their pages go."""
    with path.open("rb") as file:
        return _remember(mmap(file.fileno(), 0, access=ACCESS_COPY))


def map_shared(path: Path) -> memoryview:
    """The bytes of a file of `make_shared`: what is written to them all its users see."""
    with path.open("r+b") as file:
        return _remember(mmap(file.fileno(), 0))


def read_piece(mapped: memoryview, start: int, piece: memoryview) -> None:
    """Fill `piece` with the bytes of a whole mapped file from `start` on, and let go of their pages."""
    piece[:] = mapped[start : start + len(piece)]
    first = start // PAGESIZE * PAGESIZE
    file = mapped.obj
    assert isinstance(file, mmap)
    file.madvise(MADV_DONTNEED, first, start + len(piece) - first)


def make_mapped(folder: Path, size_bytes: int) -> memoryview:
    """So many zero bytes in a file without a name: it is gone with its last user. Raises EnvironmentFault
    where the disk does not take them."""
    path, mapped = make_shared(folder, size_bytes)
    path.unlink()
    return mapped


def make_shared(folder: Path, size_bytes: int, prefix: str = "tmp") -> tuple[Path, memoryview]:
    """So many zero bytes in a new file that other processes of this account may map too, and its path. Raises
    as `make_mapped` does."""
    try:
        handle, name = tempfile.mkstemp(dir=folder, prefix=prefix)
        try:
            # Taken now: a page that the disk does not take later ends the process.
            os.posix_fallocate(handle, 0, size_bytes)
            return Path(name), _remember(mmap(handle, size_bytes))
        except OSError:
            os.unlink(name)
            raise
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


@dataclass
class PageLimit:
    """How much this process is to hold. Where what is not mapped takes all of it, mapped pages may take
    `least_bytes` more: to let go of each page as soon as it is touched takes far more time than it saves."""

    limit_bytes: int
    least_bytes: int = LEAST_PAGES_BYTES
    _held_bytes: int = 0
    """When all mapped pages were gone last."""

    def keep(self) -> None:
        """Let go of all mapped pages, if this process holds too much."""
        if measure_resident_bytes() > max(self.limit_bytes, self._held_bytes + self.least_bytes):
            with _lock:
                mapped = list(_mapped)
            for one in mapped:
                one.madvise(MADV_DONTNEED)
            self._held_bytes = measure_resident_bytes()


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


def _remember(mapped: mmap) -> memoryview:
    with _lock:
        _mapped.add(mapped)
    return memoryview(mapped)
