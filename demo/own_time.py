"""Measures time as the programs of a run have it: what they spend waiting for a processor does not count.

On a busy machine a solver may take minutes for what takes a second elsewhere. A clock that makes blocks by
the time of day would let its deadlines pass meanwhile.
"""

import os
import time
from pathlib import Path

NANOSECONDS = 1e9
PROC = Path("/proc")


class OwnTime:
    """A clock for this process and all that it has started. Where the system does not tell how long they
    waited (Linux does, in /proc), it runs by the time of day."""

    def __init__(self) -> None:
        self._passed_s = 0.0
        self._read_s = time.monotonic()
        self._waited_s = _read_waits_s()

    def now_s(self) -> float:
        """Returns the time since the clock was made, in seconds."""
        now_s, waited_s = time.monotonic(), _read_waits_s()
        # A thread that began since the last look has waited since then only.
        lost_s = sum(at_s - self._waited_s.get(thread, 0.0) for thread, at_s in waited_s.items())
        self._passed_s += max(0.0, now_s - self._read_s - lost_s)
        self._read_s, self._waited_s = now_s, waited_s
        return self._passed_s


def _list_threads(process: str) -> list[Path]:
    """The folders of a process's threads; none where it has ended."""
    try:
        return list((PROC / process / "task").iterdir())
    except OSError:
        return []


def _read_waits_s() -> dict[str, float]:
    """How long each thread has waited for a processor so far."""
    waits_s = {}
    processes = [str(os.getpid())]
    for process in processes:
        for thread in _list_threads(process):
            try:
                waits_s[thread.name] = int((thread / "schedstat").read_text().split()[1]) / NANOSECONDS
                processes += (thread / "children").read_text().split()
            except (OSError, IndexError):
                continue
    return waits_s
