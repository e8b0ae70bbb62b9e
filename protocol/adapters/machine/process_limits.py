"""Limits what this process may use of its machine: memory and processor time."""

import os
from contextlib import suppress
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
THREADS, OWN_GROUP = Path("/proc/self/task"), Path("/proc/self/cgroup")


def measure_memory_bytes(groups: Path = GROUPS, own_group: Path = OWN_GROUP) -> int:
    """Returns the bytes of memory of this machine, or the limit of this process's control groups if that is
    less. `own_group` is the file that names the group (man 7 cgroups)."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    with suppress(OSError):
        folder = groups / own_group.read_text().partition("::")[2].strip().lstrip("/")
        for group in (folder, *folder.parents):
            if group.is_relative_to(groups):
                # The file says `max` if the group has no limit.
                with suppress(OSError, ValueError):
                    found.append(int((group / "memory.max").read_text()))
    return min(found)


def lower_priority(nice: int) -> None:
    """Sets the nice level of this process and of everything that it starts from now on: 0 is usual, 19 the
    lowest priority. Threads with a lower priority keep theirs."""
    for name in os.listdir(THREADS) if THREADS.is_dir() else ["0"]:
        # The thread has ended meanwhile.
        with suppress(ProcessLookupError):
            # On Linux each thread has its own level.
            if os.getpriority(os.PRIO_PROCESS, int(name)) < nice:
                os.setpriority(os.PRIO_PROCESS, int(name), nice)
