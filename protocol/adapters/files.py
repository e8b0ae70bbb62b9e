"""Files: for their owner alone and through power cuts; mapped into memory; known to be unchanged.

Keys, salts and states lie in files that only their owner reads. So does a note of bits beside the journal: it
says, by task, which bits this home's machine computed when it last ran. It holds no secret and nothing that
cannot be had again: a damaged or missing note costs one self-test. A large file that this process will not
read soon is written to the disk directly, past the system's cache.

Files as memory that the process can let go of, and files that are known to be unchanged. A mapped file counts
as this process's memory only while the process holds its pages, and it can let go of them at any time. The
system keeps the pages in its cache as long as no other use needs the memory.

`UnchangedFiles` remembers the files that this process has just written or read through, as long as no process
changes them.
"""

import ctypes
import errno
import os
import platform
import sys
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fcntl import F_GETFL, F_SETFL, fcntl
from functools import cache
from hashlib import sha256
from mmap import MADV_DONTNEED, MAP_ANONYMOUS, MAP_PRIVATE, PAGESIZE, PROT_READ, PROT_WRITE, mmap
from pathlib import Path
from threading import Lock
from weakref import WeakSet

import msgspec

from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput

PIECE_BYTES = 1 << 21
"""Written directly at a time. A smaller file goes through the cache."""
NOT_DIRECT = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOMEM)
"""How a system says that it does not take a direct write, or has no memory for one."""
FILE_NAME = "bits.json"
"""In a home."""


class TaskBits(msgspec.Struct, frozen=True):
    """machine: `compute.determinism.describe_bits`; step_root: the state after one known step of the task,
    hex; unlike_until: up to this round statements were computed with other bits, -1 where none were;
    former_root: the same step before the last update that changed the bits, empty where none did."""

    machine: str
    step_root: str
    unlike_until: int = -1
    former_root: str = ""


def read_bits(home: Path) -> dict[str, TaskBits]:
    """What the last runs left, by task id in hex; nothing where the file is missing or damaged."""
    try:
        return msgspec.json.decode((home / FILE_NAME).read_bytes(), type=dict[str, TaskBits])
    except (OSError, msgspec.DecodeError):
        return {}


def write_bits(home: Path, bits: dict[str, TaskBits]) -> None:
    """Leave this for the next run. Raises OSError where the disk does not take it."""
    replace_private_file(home / FILE_NAME, msgspec.json.encode(bits))


def read_processor_model() -> str:
    """The processor's model as the system names it. Its caches decide how kernels cut up a product."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())


@cache
def hash_sources(*folders: Path) -> str:
    """16 hex digits of all Python files below these folders, as they were when this process first asked."""
    found = sha256()
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        found.update(sha256(str(path.name).encode()).digest() + sha256(path.read_bytes()).digest())
    return found.hexdigest()[:16]


def require_private_folder(folder: Path) -> None:
    """Raises InvalidInput when others may read or write `folder`."""
    mode = folder.stat().st_mode & 0o777
    if mode & 0o077:
        raise InvalidInput(
            what="the folder is open to other users",
            expected="mode 0700",
            actual=f"mode {mode:04o}",
            where=str(folder),
            remedy=f"Run: chmod 700 {folder}",
        )


def require_private_file(path: Path) -> None:
    """Raises InvalidInput unless `path` is a regular file that only its owner may read and write."""
    if not path.is_file():
        raise _wrong_file(path, "a file", "nothing there", "Check the path.")
    status = path.stat()
    if status.st_mode & 0o077:
        raise _wrong_file(path, "mode 0600", f"mode {status.st_mode & 0o777:04o}", f"Run: chmod 600 {path}")
    if status.st_uid != os.geteuid():
        raise _wrong_file(path, f"owner {os.geteuid()}", f"owner {status.st_uid}", "Use a file of your own.")


def write_private_file(path: Path, data: bytes) -> None:
    """Make a file of mode 0600, whole or not at all. Raises InvalidInput when `path` exists, OSError naming
    it where the disk does not take it."""
    with _naming(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        try:
            fill_file(handle, data)
            # A link, unlike a rename, never replaces what is there.
            os.link(temporary, path)
        except FileExistsError:
            raise _wrong_file(path, "a new path", "a file is there", "Choose another path.") from None
        finally:
            os.unlink(temporary)
        sync(path.parent)


def replace_private_file(path: Path, data: bytes) -> None:
    """The same, in place of what `path` was before."""
    with _naming(path):
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        _replace(path, handle, temporary, data)


def replace_file(path: Path, data: bytes) -> None:
    """A file that others may read, whole or not at all: a reader finds the old one or the new one. Raises
    OSError naming it, and leaves nothing behind, where the disk does not take it."""
    with write_aside(path) as temporary:
        temporary.write_bytes(data)


@contextmanager
def write_aside(path: Path) -> Iterator[Path]:
    """Where to write a file that others may read: beside `path`, whose place it takes at the end of the
    block. Raises as `replace_file` does; where the block raises, `path` is as it was."""
    temporary = path.with_name(path.name + ".partial")
    with _naming(path):
        try:
            yield temporary
            sync(temporary)
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync(path.parent)


def _replace(path: Path, handle: int, temporary: str, data: bytes) -> None:
    try:
        fill_file(handle, data)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    sync(path.parent)


def fill_file(
    handle: int, data: bytes | memoryview, *, is_durable: bool = True, is_cached: bool = True
) -> None:
    """Write an empty file and close it. Raises OSError where the disk does not take it.

    is_durable: the bytes survive a power cut. is_cached: they go through the system's cache, for somebody
    reads them soon. Otherwise a large file goes to the disk directly, where the file system can do that: new
    pages of the cache can cost more than the disk (`docs/decisions/0043-outer-step.md`)."""
    with os.fdopen(handle, "wb") as file:
        written = 0 if is_cached or len(data) < PIECE_BYTES else _write_directly(handle, data)
        file.seek(written)
        file.write(memoryview(data)[written:])
        if is_durable:
            file.flush()
            os.fsync(handle)


def _write_directly(handle: int, data: bytes | memoryview) -> int:
    """How many bytes are written: whole pages, since no others can be; 0 where the file system cannot."""
    flags, written, whole = fcntl(handle, F_GETFL), 0, len(data) // PAGESIZE * PAGESIZE
    try:
        fcntl(handle, F_SETFL, flags | os.O_DIRECT)
        with _writing:
            piece = _make_piece()
            while written < whole:
                count = min(PIECE_BYTES, whole - written)
                piece[:count] = data[written : written + count]
                if not (taken := os.pwrite(handle, piece[:count], written)):
                    break  # The rest goes through the cache, which tells what is wrong.
                written += taken
    except OSError as error:
        if error.errno not in NOT_DIRECT:
            raise
    finally:
        fcntl(handle, F_SETFL, flags)
    return written


_writing = Lock()
"""One thread at a time uses the piece: more would only take turns at the disk."""


@cache
def _make_piece() -> memoryview:
    """A disk takes memory that begins at a page, as this does and a tensor does not. It is made once: new
    pages are what a direct write is to do without. A process that is forked gets its own."""
    return memoryview(mmap(-1, PIECE_BYTES, flags=MAP_PRIVATE))


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """A full disk names no file, and a temporary file's name tells an operator nothing."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def sync(path: Path) -> None:
    """Make what a file holds, or the names in a folder, survive a power cut. Raises OSError."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _wrong_file(path: Path, expected: str, actual: str, remedy: str) -> InvalidInput:
    what = "a secret's file cannot be used"
    return InvalidInput(what=what, expected=expected, actual=actual, where=str(path), remedy=remedy)


# --- Mapped and unchanged files -----------------------------------------------------------------------------
REMEMBERED_SECONDS = 600.0
"""After that a file is read through again: disks rot."""
MAX_REMEMBERED = 4096

FilePrint = tuple[int, int, int, int, int]
"""What changes with any write to a file: device, inode, bytes, and when it was written and changed (ns)."""


class UnchangedFiles:
    """What was found good, and when. Safe for several threads."""

    def __init__(self) -> None:
        self._good: OrderedDict[Path, tuple[FilePrint, float]] = OrderedDict()
        self._lock = Lock()

    @contextmanager
    def remember(self, path: Path) -> Iterator[None]:
        """The file as it is now is good, unless the block raises."""
        found = take_print(path)
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
        return found is not None and is_recent and found == take_print(path)


def take_print(path: Path) -> FilePrint | None:
    """What tells a file that was written again from the one before; None where there is none."""
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
    """The bytes of a file that no process changes, at least one. What is written to them is lost when their
    pages go. The file is open no longer: a process may map far more files than it may have open."""
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
