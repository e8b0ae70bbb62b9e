"""Files as memory that the process can let go of.

A mapped file counts as this process's memory only while the process holds its pages, and it can let go of
them at any time. The system keeps the pages in its cache as long as no other use needs the memory.
"""

import ctypes
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from mmap import MADV_DONTNEED, MAP_ANONYMOUS, MAP_PRIVATE, PAGESIZE, PROT_READ, PROT_WRITE, mmap
from pathlib import Path
from threading import Lock
from weakref import WeakSet

from touchstone.protocol.spec.errors import EnvironmentFault

STATM = Path("/proc/self/statm")
"""Its second number is the pages that this process holds (man 5 proc)."""
STATM_BYTES = 128
LEAST_PAGES_BYTES = 1 << 28
"""Of mapped pages, whatever else a process holds."""
_mapped: WeakSet[mmap] = WeakSet()
"""All that are still used."""
_lock = Lock()


def map_file(path: Path) -> memoryview:
    """Returns the bytes of a file that no process changes, at least one. What is written to them is lost when
    their pages go. The file is open no longer: a process may map far more files than it may have open."""
    with path.open("rb") as file:
        size_bytes = os.fstat(file.fileno()).st_size
        mapped = mmap(-1, size_bytes, flags=MAP_PRIVATE | MAP_ANONYMOUS)
        # Python's own mapping of a file would hold a second descriptor of it.
        place = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
        flags = MAP_PRIVATE | MAP_FIXED
        if _map()(place, size_bytes, PROT_READ | PROT_WRITE, flags, file.fileno(), 0) != place:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(path))
    return _remember(mapped)


MAP_FIXED = 0x10
"""In the place of what is mapped there: of Linux, BSD and macOS (mmap(2))."""


@cache
def _map() -> Callable[..., int | None]:
    """mmap of the system's C library."""
    found = ctypes.CDLL(None, use_errno=True).mmap
    found.restype = ctypes.c_void_p
    found.argtypes = (
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64,
    )  # fmt: skip
    return found


def map_shared(path: Path) -> memoryview:
    """Returns the bytes of a file of `make_shared`. All its users see what is written to them."""
    with path.open("r+b") as file:
        return _remember(mmap(file.fileno(), 0))


def read_piece(mapped: memoryview, start: int, piece: memoryview) -> None:
    """Fills `piece` with the bytes of a whole mapped file from `start` on, and releases their pages."""
    piece[:] = mapped[start : start + len(piece)]
    first = start // PAGESIZE * PAGESIZE
    file = mapped.obj
    assert isinstance(file, mmap)
    file.madvise(MADV_DONTNEED, first, start + len(piece) - first)


def make_mapped(folder: Path, size_bytes: int) -> memoryview:
    """Returns zero bytes in a file without a name, which is gone with its last user. Raises EnvironmentFault
    if the disk does not take them."""
    path, mapped = make_shared(folder, size_bytes)
    path.unlink()
    return mapped


def make_shared(folder: Path, size_bytes: int, prefix: str = "tmp") -> tuple[Path, memoryview]:
    """Returns zero bytes in a new file that other processes of this account may map too, and its path. Raises
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
        raise _no_room_for_tensor(error, folder, size_bytes) from error


def _no_room_for_tensor(error: OSError, folder: Path, size_bytes: int) -> EnvironmentFault:
    return EnvironmentFault(
        what="a tensor of a step does not fit on the disk",
        expected=f"{size_bytes} bytes free",
        actual=error.strerror,
        where=str(folder),
        remedy="Free some space, or give the node more memory.",
        retryable=False,
    )


@dataclass
class PageLimit:
    """Limits the memory that this process holds. If memory that is not mapped takes all of it, mapped pages
    may take `least_bytes` more: releasing each page as soon as it is touched takes far more time than it
    saves."""

    limit_bytes: int
    least_bytes: int = LEAST_PAGES_BYTES
    _held_bytes: int = 0
    """When all mapped pages were gone last."""

    def keep(self) -> None:
        """Releases all mapped pages, if this process holds too much."""
        if measure_resident_bytes() > max(self.limit_bytes, self._held_bytes + self.least_bytes):
            with _lock:
                mapped = list(_mapped)
            for one in mapped:
                one.madvise(MADV_DONTNEED)
            self._held_bytes = measure_resident_bytes()


def measure_resident_bytes() -> int:
    """Returns what this process holds in memory."""
    return int(os.pread(_open_statm(), STATM_BYTES, 0).split()[1]) * PAGESIZE


@cache
def _open_statm() -> int:
    """Once: it is read many times a second."""
    return os.open(STATM, os.O_RDONLY)


def require_mapping() -> None:
    """Raises EnvironmentFault if a process cannot tell what it holds."""
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
