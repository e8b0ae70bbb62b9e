"""Handles files that only their owner may read: keys, salts and states."""

import os
import tempfile
from pathlib import Path

from touchstone.protocol.adapters.files.durable_files import fill_file, naming, sync
from touchstone.protocol.spec.errors import InvalidInput


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
    """Makes a file of mode 0600, whole or not at all. Raises InvalidInput if `path` exists, OSError, naming
    it, if the disk refuses it."""
    with naming(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        try:
            fill_file(handle, data)
            # A link, unlike a rename, never replaces an existing file.
            os.link(temporary, path)
        except FileExistsError:
            raise _wrong_file(path, "a new path", "a file is there", "Choose another path.") from None
        finally:
            os.unlink(temporary)
        sync(path.parent)


def replace_private_file(path: Path, data: bytes) -> None:
    """Writes a private file in place of an earlier one."""
    with naming(path):
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        _replace(path, handle, temporary, data)


def _replace(path: Path, handle: int, temporary: str, data: bytes) -> None:
    try:
        fill_file(handle, data)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    sync(path.parent)


def _wrong_file(path: Path, expected: str, actual: str, remedy: str) -> InvalidInput:
    what = "a file that holds a secret cannot be used"
    return InvalidInput(what=what, expected=expected, actual=actual, where=str(path), remedy=remedy)
