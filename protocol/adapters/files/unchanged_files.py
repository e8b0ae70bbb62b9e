"""Remembers files that this process has just written or checked, while nobody changes them."""

import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

REMEMBERED_SECONDS = 600.0
"""Seconds after which a file is checked again, because disks lose data."""
MAX_REMEMBERED = 4096
FilePrint = tuple[int, int, int, int, int]
"""Identifies a version of a file: device, inode, bytes, and times of writing and changing (ns)."""


class UnchangedFiles:
    """Remembers which files were checked and found good, and when. Safe for several threads."""

    def __init__(self) -> None:
        self._good: OrderedDict[Path, tuple[FilePrint, float]] = OrderedDict()
        self._lock = Lock()

    @contextmanager
    def remember(self, path: Path) -> Iterator[None]:
        """Notes that the file in its present version is good, unless the `with` block raises."""
        found = take_print(path)
        yield
        if found is not None:
            with self._lock:
                self._good[path] = (found, time.monotonic())
                self._good.move_to_end(path)
                while len(self._good) > MAX_REMEMBERED:
                    self._good.popitem(last=False)

    def knows(self, path: Path) -> bool:
        """Returns whether the file was good within REMEMBERED_SECONDS, and is still the same."""
        found, at = self._good.get(path, (None, 0.0))
        is_recent = time.monotonic() - at < REMEMBERED_SECONDS
        return found is not None and is_recent and found == take_print(path)


def take_print(path: Path) -> FilePrint | None:
    """Returns a fingerprint of a file, which changes when the file is written again; None if there is no
    file."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
