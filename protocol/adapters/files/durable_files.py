"""Writes files whole or not at all, even if power fails.

A large file that this process will not read soon is written to the disk directly, past the system's cache.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import F_GETFL, F_SETFL, fcntl
from functools import cache
from mmap import MAP_PRIVATE, PAGESIZE, mmap
from pathlib import Path
from threading import Lock

PIECE_BYTES = 1 << 21
"""Bytes of one direct write. A smaller file goes through the cache."""
NOT_DIRECT = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOMEM)
"""Error codes of a system that does not support a direct write, or has no memory for one."""


def replace_file(path: Path, data: bytes) -> None:
    """Writes a file that others may read, whole or not at all: a reader finds the old file or the new one.
    Raises OSError, naming the file, and leaves nothing behind if the disk refuses it."""
    with write_aside(path) as temporary:
        temporary.write_bytes(data)


@contextmanager
def write_aside(path: Path) -> Iterator[Path]:
    """Yields a path beside `path` to write to. The file takes the place of `path` at the end of the `with`
    block; if the block raises, `path` is unchanged. Others may read it. Raises as `replace_file` does."""
    temporary = path.with_name(path.name + ".partial")
    with naming(path):
        try:
            yield temporary
            sync(temporary)
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync(path.parent)


def fill_file(
    handle: int, data: bytes | memoryview, *, is_durable: bool = True, is_cached: bool = True
) -> None:
    """Writes an empty file and closes it. Raises OSError if the disk refuses it.

    `is_durable` makes the bytes survive a power cut. `is_cached` sends them through the system's cache,
    because somebody reads them soon. Otherwise a large file goes to the disk directly if the file system can
    do that: new pages of the cache can cost more than the disk (`docs/decisions/0043-outer-step.md`)."""
    with os.fdopen(handle, "wb") as file:
        written = 0 if is_cached or len(data) < PIECE_BYTES else _write_directly(handle, data)
        file.seek(written)
        file.write(memoryview(data)[written:])
        if is_durable:
            file.flush()
            os.fsync(handle)


def _write_directly(handle: int, data: bytes | memoryview) -> int:
    """Writes whole pages directly and returns the number of written bytes; 0 if the file system cannot do
    that."""
    flags, written, whole = fcntl(handle, F_GETFL), 0, len(data) // PAGESIZE * PAGESIZE
    try:
        fcntl(handle, F_SETFL, flags | os.O_DIRECT)
        with _writing:
            piece = _make_piece()
            while written < whole:
                count = min(PIECE_BYTES, whole - written)
                piece[:count] = data[written : written + count]
                if not (taken := os.pwrite(handle, piece[:count], written)):
                    break  # The rest goes through the cache, which reports errors.
                written += taken
    except OSError as error:
        if error.errno not in NOT_DIRECT:
            raise
    finally:
        fcntl(handle, F_SETFL, flags)
    return written


_writing = Lock()
"""One thread at a time uses the buffer; more would only take turns at the disk."""


@cache
def _make_piece() -> memoryview:
    """Returns the page-aligned buffer that a direct write needs, because a tensor need not begin at a page.
    It is made once, to avoid new pages. A forked process gets its own."""
    return memoryview(mmap(-1, PIECE_BYTES, flags=MAP_PRIVATE))


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Puts the file's name into an OSError inside the `with` block. A full disk names no file, and a
    temporary file's name tells an operator nothing."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def sync(path: Path) -> None:
    """Makes the contents of a file, or the names in a folder, survive a power cut. Raises OSError."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
