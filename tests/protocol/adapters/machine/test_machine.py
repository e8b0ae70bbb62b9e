"""Whether somebody uses the machine: what is read of it, the rule, and what follows over time."""

import asyncio
import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.protocol.adapters.made_machine import Machine
from tests.scripts.network import ROOT
from touchstone.protocol.adapters.machine import machine_use
from touchstone.protocol.adapters.machine.machine_use import (
    FIRST_PIDS,
    MachineUse,
    Places,
    UseSeen,
    find_use,
    see_use,
)
from touchstone.protocol.adapters.machine.process_limits import measure_memory_bytes
from touchstone.protocol.spec.errors import EnvironmentFault

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
MINUTE_S = 60.0


INTERRUPTS = """\
  1:     9     0  IO-APIC   1-edge      i8042
 12:     5     6  IO-APIC  12-edge      i8042
 16:     8     8  PCI-MSI   0-edge      xhci_hcd
NMI:     1     1  Non-maskable interrupts
"""


# What is read
def test_the_time_of_the_node_is_that_of_its_process_and_of_all_that_it_started(tmp_path: Path) -> None:
    """Children that have ended count with whoever waited for them; names may hold anything."""
    made = Machine(tmp_path)
    made.set_busy(user=1_000, low=500)
    made.add_process(10, parent=1, user=100, ended=7)
    made.add_process(11, parent=10, user=30, name="a (b) c")
    made.add_process(12, parent=11, user=2)
    made.add_process(20, parent=1, user=400)
    seen = see_use(made.places, own=10)
    assert seen.busy_s == pytest.approx(1_500 * TICK_S)
    assert seen.own_s == pytest.approx((100 + 7 + 30 + 2) * TICK_S)
    assert see_use(made.places, own=20).own_s == pytest.approx(400 * TICK_S)
    with pytest.raises(LookupError):
        see_use(made.places, own=99)


def test_terminals_keyboards_and_mice_are_looked_at_and_nothing_else(tmp_path: Path) -> None:
    made = Machine(tmp_path)
    made.add_process(10)
    made.type_in("pts/3", at_s=50)
    made.type_in("tty2", at_s=70)
    made.type_in("pts/ptmx", at_s=99)
    made.type_in("random", at_s=99)
    made.write_interrupts(INTERRUPTS)
    made.add_usb("1-1", kind="03", protocol="01", reports=40)
    made.add_usb("1-2", kind="03", protocol="02", reports=41)
    made.add_usb("1-3", kind="03", protocol="00", reports=42)
    made.add_usb("1-4", kind="08", protocol="01", reports=43)
    seen = see_use(made.places, own=10)
    assert seen.typed == {"pts/3": 50, "tty2": 70}
    assert seen.reports == {"i8042 1:": 9, "i8042 12:": 11, "USB 1-1": 40, "USB 1-2": 41}


def test_a_machine_without_keyboards_has_none(tmp_path: Path) -> None:
    made = Machine(tmp_path)
    made.add_process(10)
    seen = see_use(made.places, own=10)
    assert (seen.typed, seen.reports) == ({}, {})


def burn(seconds: float) -> "subprocess.Popen[bytes]":
    """A process that takes so much processor time in a program, says so, and waits."""
    script = (
        "import time, sys\n"
        f"while time.process_time() < {seconds}: sum(range(100_000))\n"
        "print('done', flush=True)\nsys.stdin.read()"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"done\n"
    return process


@pytest.mark.skipif(sys.platform != "linux", reason="it reads what Linux tells")
def test_a_real_process_that_works_is_somebody_elses_unless_the_node_started_it() -> None:
    """This process stands for the node; then another process does, and what this one started is not its."""
    before = see_use()
    process = burn(0.5)
    try:
        after = see_use()
        assert after.busy_s - before.busy_s > 0.4 and after.own_s - before.own_s > 0.4
        of_it = see_use(own=process.pid)
        assert 0.4 < of_it.own_s < after.own_s
    finally:
        process.communicate()
    with pytest.raises(LookupError):
        see_use(own=process.pid)


# The rule
QUIET = UseSeen(
    at_s=0.0, busy_s=100.0, own_s=10.0, typed={"pts/0": 1_000.0, "tty1": 900.0}, reports={"USB 1-1": 5}
)


def look(
    at_s: float, others_s: float = 0.0, own_s: float = 0.0, typed_s: float = 1_000.0, **reports: int
) -> UseSeen:
    """A look so long after QUIET. others_s, own_s: processor time since then; typed_s: in its terminal."""
    found = {"USB 1-1": 5, **{f"USB {name}": count for name, count in reports.items()}}
    typed = {"pts/0": typed_s, "tty1": 900.0}
    return UseSeen(at_s, QUIET.busy_s + others_s + own_s, QUIET.own_s + own_s, typed, found)


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        ([look(60)], ""),
        ([look(60, own_s=240)], ""),  # All that works is the node.
        ([look(60, others_s=29, own_s=200)], ""),
        ([look(60, others_s=31, own_s=200)], "other programs take 0.52 processors"),
        ([look(59, others_s=59)], ""),  # An average over less says nothing.
        ([look(5, typed_s=1_001)], "somebody types"),
        ([replace(look(5), typed={"tty1": 900.0})], ""),  # The terminal that was used last is closed.
        ([replace(look(5), typed={**QUIET.typed, "pts/1": 950.0})], "somebody types"),  # Another is opened.
        ([look(5, typed_s=500)], "somebody types"),  # The clock was set back.
        ([look(5, typed_s=1_001), look(10, typed_s=1_001)], ""),  # It was the look before.
        ([UseSeen(5, 100, 10, {}, {"USB 1-1": 6})], "a keyboard or a mouse is used (USB 1-1)"),
        ([UseSeen(5, 100, 10, {}, {"USB 1-1": 2})], ""),  # Pulled out, and put in again.
        ([look(5, mouse=7)], ""),  # Put in.
        ([UseSeen(60, 125, 0)], ""),  # A child of the node has become another's.
    ],
)  # fmt: skip
def test_the_rule(seen: list[UseSeen], words: str) -> None:
    found = find_use([QUIET, *seen], cores=0.5, load_s=MINUTE_S)
    assert found.startswith(words) and bool(found) == bool(words)


# Over time
def follow(use: MachineUse, *looks: UseSeen) -> list[tuple[bool, bool]]:
    """(used, idle) after each look."""
    found = []
    for seen in looks:
        use.take(seen)
        found.append((use.is_used, use.is_idle))
    return found


def test_nothing_is_known_before_it_was_idle_for_long_enough() -> None:
    use = MachineUse(idle_s=120, cores=0.5)
    assert follow(use, look(0), look(60), look(119), look(120)) == [(False, False)] * 3 + [(False, True)]


def test_the_first_use_ends_it_and_the_idle_time_counts_from_the_last_one() -> None:
    use = MachineUse(idle_s=120, cores=0.5)
    follow(use, look(0), look(120))
    typed = [look(130, typed_s=1_001), look(140, typed_s=1_001), look(150, typed_s=1_009)]
    assert follow(use, *typed, look(269, typed_s=1_009)) == [(True, False)] * 4
    assert use.reason == "somebody types in a terminal"
    assert follow(use, look(270, typed_s=1_009)) == [(False, True)]


def test_use_lasts_where_it_goes_on_for_long_and_the_machine_was_never_idle_between() -> None:
    """One key press is used for as long as it takes to count as idle again, and lasts for no moment."""
    use, typed_s, lasting = MachineUse(idle_s=900, cores=0.5), 1_000, list[int]()
    for at_s in range(0, 6_001, 300):
        # Now and then until 1,200; again from 3,000 on.
        typed_s += at_s in (300, 900, 1_200) or at_s >= 3_000
        follow(use, look(at_s, typed_s=typed_s))
        lasting += [at_s] if use.is_lasting else []
    assert lasting[0] == 3_000 + machine_use.LASTING_S and use.is_used
    follow(use, look(6_900, typed_s=typed_s))
    assert not use.is_lasting and use.is_idle


def test_a_terminal_whose_time_lies_in_a_later_year_hides_no_other() -> None:
    """`touch -d` on one's own terminal: the owner of the machine types in another one."""
    use = MachineUse(idle_s=120, cores=0.5)
    future = {"pts/9": 4e9}
    looks = [replace(one, typed={**one.typed, **future}) for one in (look(0), look(120))]
    assert follow(use, *looks) == [(False, False), (False, True)]
    typed = look(125, typed_s=1_001)
    assert follow(use, replace(typed, typed={**typed.typed, **future})) == [(True, False)]


def test_load_is_the_average_of_the_last_minute() -> None:
    """A short one is none; a long one is seen although all was quiet for hours before."""
    use = MachineUse(idle_s=300, cores=0.5)
    quiet = [look(at_s) for at_s in range(0, 3_600, 5)]
    follow(use, *quiet)
    busy = [look(3_600 + past_s, others_s=past_s + 5) for past_s in range(0, 60, 5)]
    states = follow(use, *busy)
    first = states.index((True, False))
    assert states[:first] == [(False, True)] * first and 4 <= first <= 7
    assert "other programs" in use.reason


async def test_what_cannot_be_told_any_more_counts_as_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_use, "LOOK_S", 0.0)
    made = Machine(tmp_path)
    made.add_process(os.getpid())
    use = MachineUse(idle_s=0.0, cores=0.5, places=made.places)
    following = asyncio.create_task(use.follow())
    while not use.is_idle:
        await asyncio.sleep(0.01)
    (made.places.proc / "stat").unlink()
    while not use.is_used:
        await asyncio.sleep(0.01)
    assert "cannot be seen any more" in use.reason
    following.cancel()


async def test_one_look_that_fails_is_no_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a moment the node has no file free, since strangers have opened connections. The seat left, for a
    day."""
    monkeypatch.setattr(machine_use, "LOOK_S", 0.0)
    made, looks, look = Machine(tmp_path), list[int](), machine_use.see_use
    made.add_process(os.getpid())

    def fail_twice(places: Places) -> UseSeen:
        looks.append(1)
        if len(looks) % 4 in (2, 3):
            raise OSError(errno.EMFILE, "Too many open files")
        return look(places)

    monkeypatch.setattr(machine_use, "see_use", fail_twice)
    use = MachineUse(idle_s=0.0, cores=1e9, places=made.places)
    following = asyncio.create_task(use.follow())
    while len(looks) < 9:
        await asyncio.sleep(0.01)
        assert not use.is_used, use.reason
    following.cancel()


def test_a_process_whose_time_cannot_be_read_fails_the_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a replay of the node was left out, its time counted as somebody else's. What has ended, or is
    hidden, is left out."""
    made, numbers = Machine(tmp_path), [errno.EMFILE]
    made.add_process(os.getpid(), user=5)
    made.add_process(999_999, parent=os.getpid(), user=7)
    read = Path.read_text

    def refuse(path: Path, *words: Any, **options: Any) -> str:
        if path.parent.name == "999999":
            raise OSError(numbers[-1], os.strerror(numbers[-1]))
        return read(path, *words, **options)

    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(OSError, match="Too many open files"):
        see_use(made.places)
    for number in (errno.ENOENT, errno.ESRCH, errno.EACCES):
        numbers.append(number)
        assert see_use(made.places).own_s == pytest.approx(5 * TICK_S)


# Where it cannot tell
def spoil_container(made: Machine) -> None:
    made.place("pid:[4026532300]")


def spoil_terminals(made: Machine) -> None:
    (made.places.devices / "pts").rmdir()


def spoil_stat(made: Machine) -> None:
    (made.places.proc / "stat").unlink()


def spoil_times(made: Machine) -> None:
    made.set_busy(user=0)


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (spoil_container, "container"),
        (spoil_terminals, "no terminals"),
        (spoil_stat, "stat"),
        (spoil_times, "no processor time"),
    ],
)
def test_a_system_that_does_not_tell_is_refused(
    tmp_path: Path, spoil: Callable[[Machine], None], word: str
) -> None:
    made = Machine(tmp_path)
    made.add_process(os.getpid())
    MachineUse(60, 0.5, made.places).require_telling()
    spoil(made)
    with pytest.raises(EnvironmentFault, match=word) as caught:
        MachineUse(60, 0.5, made.places).require_telling()
    assert "without --when-idle" in caught.value.remedy and not caught.value.retryable


def test_the_places_are_those_of_the_system_unless_others_are_named() -> None:
    assert MachineUse(60, 0.5).places == Places() and FIRST_PIDS.startswith("pid:[")


# Memory and priority
def test_memory_is_the_machines_or_what_the_groups_of_processes_may_use(tmp_path: Path) -> None:
    whole = measure_memory_bytes(tmp_path, tmp_path / "none")
    assert whole == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    inner = tmp_path / "groups" / "user" / "node"
    inner.mkdir(parents=True)
    (tmp_path / "cgroup").write_text("0::/user/node\n")
    (inner / "memory.max").write_text("max\n")
    assert measure_memory_bytes(tmp_path / "groups", tmp_path / "cgroup") == whole
    (inner.parent / "memory.max").write_text("1000\n")
    assert measure_memory_bytes(tmp_path / "groups", tmp_path / "cgroup") == 1_000
    (tmp_path / "memory.max").write_text("5\n")
    assert measure_memory_bytes(tmp_path / "groups", tmp_path / "cgroup") == 1_000, "it is outside"


NICED = """
import json, os, sys, threading
from pathlib import Path
from touchstone.node.training.replay_pool import ProcessWorker
from touchstone.node.training.worker_team import get_context
from touchstone.protocol.adapters.machine.process_limits import lower_priority

def ask(connection=None):
    return os.getpriority(os.PRIO_PROCESS, 0)

if __name__ == "__main__":
    asked, told, earlier = threading.Event(), threading.Event(), []
    def wait():
        asked.wait()
        earlier.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
    thread = threading.Thread(target=wait)
    thread.start()
    lower_priority(int(sys.argv[1]))
    lower_priority(0)
    asked.set()
    thread.join()
    worker = ProcessWorker(1, "cpu", Path(sys.argv[2]))
    replays = worker._executor.submit(os.getpriority, os.PRIO_PROCESS, 0).result()
    worker.close()
    with get_context("spawn").Pool(1) as pool:
        (team,) = pool.map(ask, [None])
    print(json.dumps([ask(), earlier[0], replays, team]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads have levels of their own there")
def test_the_nice_level_is_that_of_all_threads_and_of_processes_that_replay_or_train(tmp_path: Path) -> None:
    """Of threads that began before as well. A level that is lower already stays."""
    script = tmp_path / "niced.py"
    script.write_text(NICED)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    said = subprocess.run(
        [sys.executable, str(script), "7", str(tmp_path)], env=environment, check=True, capture_output=True
    )
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert json.loads(said.stdout) == [max(own, 7)] * 4
