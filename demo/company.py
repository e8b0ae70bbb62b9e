"""Runs a process for each party of the demo.

The processes are forked from a server that has loaded everything, and end with the demo.
"""

import asyncio
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from touchstone.demo.player import MakePart, Order, Over, Said, Trained, play
from touchstone.protocol.spec.errors import EnvironmentFault

STOP_S = 5.0
Hear = Callable[[str, Said | Trained], None]
"""Takes (name, message): what a party said or did."""


@dataclass
class Company:
    """The running parties; `open_company` makes it. `make_part` stands for `player.make_part`. `over` has the
    parties that are done, `logs` the file of each, by name."""

    hear: Hear
    make_part: MakePart | None = None
    processes: dict[str, ForkServerProcess] = field(default_factory=dict)
    channels: dict[str, Connection] = field(default_factory=dict)
    over: dict[str, Over] = field(default_factory=dict)
    logs: dict[str, Path] = field(default_factory=dict)

    def start(self, orders: Sequence[Order]) -> None:
        """Starts a process for each order."""
        # One thread a party, also in the server that all are forked from.
        os.environ.update({"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"})
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([play.__module__])
        for order in orders:
            name = order.member.name
            ours, theirs = context.Pipe()
            process = context.Process(
                target=play, args=(order, theirs, self.make_part), name=name, daemon=True
            )
            process.start()
            theirs.close()
            self.processes[name], self.channels[name] = process, ours
            self.logs[name] = order.log
            asyncio.get_running_loop().add_reader(ours.fileno(), self._read, name)

    def stop(self, name: str) -> None:
        """Kills a party's process; it is not waited for any more."""
        channel, process = self.channels.pop(name), self.processes.pop(name)
        asyncio.get_running_loop().remove_reader(channel.fileno())
        process.kill()
        process.join(STOP_S)
        channel.close()

    def _read(self, name: str) -> None:
        channel = self.channels[name]
        try:
            while channel.poll():
                message = channel.recv()
                if isinstance(message, Over):
                    self.over[name] = message
                else:
                    self.hear(name, message)
        except (EOFError, OSError):
            asyncio.get_running_loop().remove_reader(channel.fileno())
            self.over.setdefault(name, Over("its process has ended"))

    def require_alive(self) -> None:
        """Raises EnvironmentFault if a party has failed, and names the party."""
        for name, over in self.over.items():
            if over.error:
                raise EnvironmentFault(
                    what=f"{name} has ended before its time",
                    expected="a running process",
                    actual=over.error,
                    where=str(self.logs[name]),
                    remedy="Read its log.",
                    retryable=False,
                )

    @property
    def is_over(self) -> bool:
        """Returns whether all are done."""
        return self.over.keys() == self.processes.keys()


@contextmanager
def open_company(hear: Hear, make_part: MakePart | None = None) -> Iterator[Company]:
    """Yields a company of which nobody is started; ends all with the block."""
    company = Company(hear, make_part)
    try:
        yield company
    finally:
        for channel in company.channels.values():
            asyncio.get_running_loop().remove_reader(channel.fileno())
            channel.close()
        for process in company.processes.values():
            process.join(STOP_S)
            if process.is_alive():
                process.kill()
