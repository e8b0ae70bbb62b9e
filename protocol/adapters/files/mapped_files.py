"""Uses files as memory that the process can release.

A mapped file counts as this process's memory only while the process holds its pages, and it can release them
at any time. The system keeps the pages in its cache as long as nothing else needs the memory.
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
"""The file whose second number says how many pages this process holds (man 5 proc)."""
STATM_BYTES = 128
LEAST_PAGES_BYTES = 1 << 28
"""Mapped pages may always take this many bytes, however much else a process holds."""
_mapped: WeakSet[mmap] = WeakSet()
"""All mappings that are still in use."""
_lock = Lock()


def map_file(path: Path) -> memoryview:
    """Maps a file that no process changes, and returns its bytes, at least one. Writes to them are lost when
    the pages are released. The file is closed again, because a process may map far more files than it may
    have open."""
    with path.open("rb") as file:
        size_bytes = os.fstat(file.fileno()).st_size
        mapped = mmap(-1, size_bytes, flags=MAP_PRIVATE | MAP_ANONYMOUS)
        # Python's mmap would keep a second descriptor of the file.
        place = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
        flags = MAP_PRIVATE | MAP_FIXED
        if _map()(place, size_bytes, PROT_READ | PROT_WRITE, flags, file.fileno(), 0) != place:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(path))
    return _remember(mapped)


MAP_FIXED = 0x10
"""The flag that lets a mapping replace another one, on Linux, BSD and macOS (mmap(2))."""


@cache
def _map() -> Callable[..., int | None]:
    """Calls mmap of the system's C library."""
    found = ctypes.CDLL(None, use_errno=True).mmap
    found.restype = ctypes.c_void_p
    found.argtypes = (
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64,
    )  # fmt: skip
    return found


def map_shared(path: Path) -> memoryview:
    """Maps a file of `make_shared`, and returns its bytes. All users of the file see what is written to the
    bytes."""
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
    """Returns zero bytes in an unnamed file, which is deleted once nobody uses it. Raises EnvironmentFault if
    the disk refuses them."""
    path, mapped = make_shared(folder, size_bytes)
    path.unlink()
    return mapped


def make_shared(folder: Path, size_bytes: int, prefix: str = "tmp") -> tuple[Path, memoryview]:
    """Returns zero bytes in a new file, and its path. Other processes of this account may map it too. Raises
    as `make_mapped` does."""
    try:
        handle, name = tempfile.mkstemp(dir=folder, prefix=prefix)
        try:
            # Reserve the disk space now: if it were missing later, the process would be killed.
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
    """Limits the memory that this process holds. If other memory already takes all of that, mapped pages may
    still take `least_bytes`, because releasing each page at once costs far more time than it saves."""

    limit_bytes: int
    least_bytes: int = LEAST_PAGES_BYTES
    _held_bytes: int = 0
    """The memory held when all mapped pages had last been released."""

    def keep(self) -> None:
        """Releases all mapped pages, if this process holds too much."""
        if measure_resident_bytes() > max(self.limit_bytes, self._held_bytes + self.least_bytes):
            with _lock:
                mapped = list(_mapped)
            for one in mapped:
                one.madvise(MADV_DONTNEED)
            self._held_bytes = measure_resident_bytes()


def measure_resident_bytes() -> int:
    """Returns how many bytes of memory this process holds."""
    return int(os.pread(_open_statm(), STATM_BYTES, 0).split()[1]) * PAGESIZE


@cache
def _open_statm() -> int:
    """Opens the file once, because it is read many times a second."""
    return os.open(STATM, os.O_RDONLY)


def require_mapping() -> None:
    """Raises EnvironmentFault if the system does not report a process's memory."""
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
