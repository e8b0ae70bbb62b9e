"""A machine whose use a test makes up: files as Linux shows them, in a folder."""

import os
from dataclasses import dataclass
from pathlib import Path

from touchstone.protocol.adapters.machine.machine_use import FIRST_PIDS, Places


@dataclass(frozen=True)
class Machine:
    """folder: of its files. It has a terminal in which nobody has typed, and a program that has ended."""

    folder: Path

    def __post_init__(self) -> None:
        (self.places.devices / "pts").mkdir(parents=True, exist_ok=True)
        self.places.usb.mkdir(exist_ok=True)
        self.place(FIRST_PIDS)
        self.set_busy(user=1_000)

    @property
    def places(self) -> Places:
        """Where a node is to look."""
        return Places(self.folder / "proc", self.folder / "dev", self.folder / "usb")

    def place(self, link: str) -> None:
        """link: what the system calls the node's group of processes."""
        path = self.places.proc / "self" / "ns" / "pid"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(link)

    def set_busy(self, user: int, low: int = 0) -> None:
        """Clock ticks of all programs so far, those of low priority apart."""
        aside = self.places.proc / "stat.new"
        aside.write_text(f"cpu  {user} {low} 9999 9999 5 0 6 0 0 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n")
        aside.replace(self.places.proc / "stat")

    def add_process(
        self, number: int, parent: int = 1, user: int = 0, ended: int = 0, name: str = "node"
    ) -> None:
        """user, ended: clock ticks in programs of its own, and of its children that have ended."""
        folder = self.places.proc / str(number)
        folder.mkdir()
        words = f"S {parent} 1 1 0 -1 4194304 1 2 3 4 {user} 9999 {ended} 9999 20 0 1 0 5"
        (folder / "stat").write_text(f"{number} ({name}) {words}\n")

    def type_in(self, name: str, at_s: float) -> None:
        """Somebody types in a terminal (Unix time)."""
        path = self.places.devices / name
        path.touch()
        os.utime(path, (at_s, at_s))

    def write_interrupts(self, text: str) -> None:
        """As the system counts them."""
        (self.places.proc / "interrupts").write_text(f"      CPU0  CPU1\n{text}")

    def add_usb(self, name: str, kind: str, protocol: str, reports: int) -> None:
        """A device with one interface. kind: its class."""
        interface = self.places.usb / f"{name}:1.0"
        interface.mkdir()
        (interface / "bInterfaceClass").write_text(f"{kind}\n")
        (interface / "bInterfaceProtocol").write_text(f"{protocol}\n")
        (self.places.usb / name).mkdir()
        (self.places.usb / name / "urbnum").write_text(f"{reports}\n")
