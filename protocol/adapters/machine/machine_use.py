"""Finds out whether somebody else uses this machine.

It reads what Linux tells every account. It does not read what is typed, by whom, or which programs run:

    /proc/stat, /proc/PID/stat        time that processors spent in programs, less that of the node itself
    /dev/tty*, /dev/pts/*             when somebody last typed in a terminal
    /proc/interrupts, /sys/bus/usb    how often keyboards and mice have reported

The rule (`find_use`) is pure. `MachineUse` keeps what the last looks have found.
"""

import asyncio
import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from touchstone.protocol.spec.errors import EnvironmentFault

log = logging.getLogger(__name__)
LOOK_S = 5.0
FAILED_LOOKS = 3
"""After this many failed looks in a row, the machine counts as used. A single look may fail because too many
files are open."""
LOAD_S = 60.0
"""Load is averaged over this many seconds, or over the operator's idle time if that is less."""
LASTING_S = 1_800.0
"""Use counts as lasting once it was seen this many seconds after its start, without idle time in between."""
FIRST_PIDS = "pid:[4026531836]"
"""The namespace of the machine's own processes; a container has another one."""
HID, KEYBOARD, MOUSE = "03", "01", "02"
"""USB's number of the class of input devices, and of the protocols of keyboards and mice."""
PS2 = "i8042"
"""The controller of PS/2 keyboards and mice; a laptop's built-in ones mostly belong to it."""
PPID, USER_TICKS, USER_TICKS_OF_ENDED = 1, 11, 13
"""Positions after a process's name in its `stat` (man 5 proc): its parent, its processor time, and its ended
children's processor time."""


@dataclass(frozen=True)
class Places:
    """The files in which Linux tells how a machine is used."""

    proc: Path = Path("/proc")
    devices: Path = Path("/dev")
    usb: Path = Path("/sys/bus/usb/devices")


PLACES = Places()


@dataclass(frozen=True)
class UseSeen:
    """The result of one look at the machine's use. `at_s` is the monotonic time. `busy_s` are processor
    seconds of all programs since the machine started, `own_s` the node's. `typed` says, for each terminal,
    when somebody last typed there (Unix time). `reports` counts the reports of keyboard and mouse."""

    at_s: float
    busy_s: float
    own_s: float
    typed: Mapping[str, float] = field(default_factory=dict)
    reports: Mapping[str, int] = field(default_factory=dict)


def see_use(places: Places = PLACES, own: int = 0) -> UseSeen:
    """Looks once at how this machine is used. `own` is the node's process (0: this one); its time and its
    children's time are the node's. Raises OSError, ValueError or LookupError if the system does not tell."""
    at_s, tick_s = time.monotonic(), 1 / os.sysconf("SC_CLK_TCK")
    # Read this before the total, so that work between the two reads counts as another's.
    own_ticks = _count_own_ticks(places.proc, own or os.getpid())
    name, user, low = (places.proc / "stat").read_text().split(maxsplit=3)[:3]
    if name != "cpu":
        raise ValueError(f"{places.proc / 'stat'} begins with {name}")
    typed = dict(_list_typed(places.devices))
    reports = {**_count_interrupts(places.proc), **_count_usb_reports(places.usb)}
    return UseSeen(at_s, tick_s * (int(user) + int(low)), tick_s * own_ticks, typed, reports)


def _count_own_ticks(proc: Path, own: int) -> int:
    """Returns the clock ticks that a process and all its descendants spent in programs."""
    parents, ticks = dict[int, int](), dict[int, int]()
    for path in proc.glob("[0-9]*/stat"):
        # The process has ended meanwhile, or this system hides it.
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            # The name before may contain anything, and ends with the last bracket.
            words = path.read_text(errors="replace").rpartition(")")[2].split()
            number = int(path.parent.name)
            parents[number] = int(words[PPID])
            ticks[number] = int(words[USER_TICKS]) + int(words[USER_TICKS_OF_ENDED])
    family, more = set[int](), {own}
    while more:
        family |= more
        more = {number for number, parent in parents.items() if parent in family} - family
    return sum(ticks[number] for number in family)


def _list_typed(devices: Path) -> Iterator[tuple[str, float]]:
    """Returns for each terminal when somebody last typed there (Unix time)."""
    for path in (*(devices / "pts").glob("[0-9]*"), *devices.glob("tty[0-9]*")):
        # The terminal was closed meanwhile.
        with suppress(OSError):
            yield str(path.relative_to(devices)), path.stat().st_atime


def _count_interrupts(proc: Path) -> dict[str, int]:
    """Returns the interrupts of PS/2 keyboards and mice, summed over processors; none if the system has
    none."""
    found = {}
    with suppress(FileNotFoundError):
        for line in (proc / "interrupts").read_text().splitlines():
            number, *words = line.split() or [""]
            if words and words[-1] == PS2:
                found[f"{PS2} {number}"] = sum(map(int, takewhile(str.isdigit, words)))
    return found


def _count_usb_reports(usb: Path) -> dict[str, int]:
    """Returns the number of transfers of each USB keyboard and mouse: one for each report."""
    found = {}
    for interface in usb.glob("*:*"):
        # The device was pulled out meanwhile.
        with suppress(OSError):
            kind = (interface / "bInterfaceClass").read_text().strip()
            protocol = (interface / "bInterfaceProtocol").read_text().strip()
            if kind == HID and protocol in (KEYBOARD, MOUSE):
                device = interface.name.partition(":")[0]
                found[f"USB {device}"] = int((usb / device / "urbnum").read_text())
    return found


def find_use(seen: Sequence[UseSeen], cores: float, load_s: float) -> str:
    """Describes how somebody uses the machine; empty if nobody does. `seen` are two or more looks, in order.
    The machine is in use if somebody typed or moved a mouse since the last but one look. It is also in use if
    other programs took more than `cores` processors on average since the first look, at least `load_s`
    ago."""
    first, before, last = seen[0], seen[-2], seen[-1]
    # Compare each terminal with itself, and any change counts: its owner can set its time to a later year,
    # and the clock may be set back.
    if any(before.typed.get(name) != typed_s for name, typed_s in last.typed.items()):
        return "somebody types in a terminal"
    moved = [name for name, count in last.reports.items() if count > before.reports.get(name, count)]
    if moved:
        return f"a keyboard or a mouse is used ({moved[0]})"
    past_s = last.at_s - first.at_s
    others_s = last.busy_s - first.busy_s - max(0.0, last.own_s - first.own_s)
    if past_s >= load_s and others_s > cores * past_s:
        return f"other programs take {others_s / past_s:.2f} processors"
    return ""


@dataclass
class MachineUse:
    """Says whether somebody else uses this machine. `idle_s` is how long nobody may have used it before it
    counts as idle; `cores` is how many processors other programs may take meanwhile.

    `is_used` holds from the first seen use until the machine is idle; `is_idle` is the opposite. Before
    enough is known, neither holds. `is_lasting` says that it was still used `LASTING_S` after the first use.
    `reason` is the last use."""

    idle_s: float
    cores: float
    places: Places = field(default_factory=lambda: PLACES)
    is_used: bool = False
    is_idle: bool = False
    is_lasting: bool = False
    reason: str = ""
    _first_s: float = 0.0
    _since_s: float = 0.0
    _seen: list[UseSeen] = field(default_factory=list)

    def require_telling(self) -> None:
        """Raises EnvironmentFault if nothing on this system shows whether somebody uses the machine."""
        try:
            if (found := os.readlink(self.places.proc / "self" / "ns" / "pid")) != FIRST_PIDS:
                raise ValueError(f"a container ({found}), which sees no terminal of its machine")
            if not (self.places.devices / "pts").is_dir():
                raise ValueError(f"no terminals in {self.places.devices}")
            if not see_use(self.places).busy_s:
                raise ValueError("no processor time at all")
        except (OSError, ValueError, LookupError) as error:
            raise EnvironmentFault(
                what="this system does not show whether somebody uses the machine",
                expected=f"Linux, outside of a container, with {self.places.proc} and terminals to be seen",
                actual=f"{sys.platform}: {error}",
                remedy="Start the node without --when-idle, and with when_idle = false in config.toml.",
                retryable=False,
            ) from error

    def take(self, seen: UseSeen) -> None:
        """Takes the result of one more look into account."""
        load_s = min(LOAD_S, self.idle_s)
        self._seen.append(seen)
        if len(self._seen) == 1:
            self._since_s = seen.at_s
            return
        while len(self._seen) > 2 and seen.at_s - self._seen[1].at_s >= load_s:
            del self._seen[0]
        reason = find_use(self._seen, self.cores, load_s)
        if reason:
            self.note(reason, seen.at_s)
        elif seen.at_s - self._since_s >= self.idle_s:
            self.is_used, self.is_lasting, self.is_idle = False, False, True

    def note(self, reason: str, at_s: float) -> None:
        """Notes that somebody uses the machine, at `at_s` (monotonic seconds)."""
        self._first_s = self._first_s if self.is_used else at_s
        self.is_used, self.is_idle, self.reason, self._since_s = True, False, reason, at_s
        self.is_lasting = at_s - self._first_s >= LASTING_S

    async def follow(self) -> None:
        """Looks every few seconds, without end. If several looks in a row fail, the machine counts as used,
        because the person at the machine comes first."""
        failed = 0
        while True:
            try:
                self.take(await asyncio.to_thread(see_use, self.places))
                failed = 0
            except Exception as error:
                # This catches bugs too.
                log.exception("it cannot be told whether somebody uses the machine")
                failed += 1
                if failed >= FAILED_LOOKS:
                    self.note(f"how the system is used cannot be seen any more ({error})", time.monotonic())
            await asyncio.sleep(LOOK_S)
