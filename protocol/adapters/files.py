"""Files that only their owner reads and that outlast a power cut, and the home's bits note.

Keys, salts and states lie in such files. The note is a file beside the journal: it says, by task, which bits
this home's machine computed when it last ran. It holds no secret and nothing that cannot be had again: a
damaged or missing note costs one self-test.
"""

import os
import platform
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from protocol.spec.errors import InvalidInput

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
            _fill(handle, data)
            # A link, unlike a rename, never replaces what is there.
            os.link(temporary, path)
        except FileExistsError:
            raise _wrong_file(path, "a new path", "a file is there", "Choose another path.") from None
        finally:
            os.unlink(temporary)
        sync_folder(path.parent)


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
            sync_file(temporary)
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def _replace(path: Path, handle: int, temporary: str, data: bytes) -> None:
    try:
        _fill(handle, data)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    sync_folder(path.parent)


def _fill(handle: int, data: bytes) -> None:
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """A full disk names no file, and a temporary file's name tells an operator nothing."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` survive a power cut: a file's own fsync does not."""
    _sync(folder)


def sync_file(path: Path) -> None:
    """Make what a file holds survive a power cut; for its name there is `sync_folder`."""
    _sync(path)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _wrong_file(path: Path, expected: str, actual: str, remedy: str) -> InvalidInput:
    what = "a secret's file cannot be used"
    return InvalidInput(what=what, expected=expected, actual=actual, where=str(path), remedy=remedy)
