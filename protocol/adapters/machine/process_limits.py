"""What this process may take of its machine: memory, and its turn at the processor."""

import os
from contextlib import suppress
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
THREADS, OWN_GROUP = Path("/proc/self/task"), Path("/proc/self/cgroup")


def measure_memory_bytes(groups: Path = GROUPS, own_group: Path = OWN_GROUP) -> int:
    """Returns the memory of this machine, or what this process's control groups may use of it, if that is
    less. own_group: names the group (man 7 cgroups)."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    with suppress(OSError):
        folder = groups / own_group.read_text().partition("::")[2].strip().lstrip("/")
        for group in (folder, *folder.parents):
            if group.is_relative_to(groups):
                # `max` where the group has no limit.
                with suppress(OSError, ValueError):
                    found.append(int((group / "memory.max").read_text()))
    return min(found)


def lower_priority(nice: int) -> None:
    """Gives this process, and all that it starts from now on, a nice level: 0 is the usual one, 19 the lowest
    priority. Threads that already have a lower priority keep it."""
    for name in os.listdir(THREADS) if THREADS.is_dir() else ["0"]:
        # A thread that has ended meanwhile.
        with suppress(ProcessLookupError):
            # On Linux each thread has its own level.
            if os.getpriority(os.PRIO_PROCESS, int(name)) < nice:
                os.setpriority(os.PRIO_PROCESS, int(name), nice)
