"""The demo's processes: one for each party, forked from a server that has loaded everything, and ended with
the demo."""

import asyncio
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess

from tests.e2e.demo.player import MakePart, Order, Over, Said, Trained, play
from touchstone.protocol.spec.errors import EnvironmentFault

STOP_S = 5.0
Hear = Callable[[str, Said | Trained], None]
"""(name, message): what a party said or did."""


@dataclass
class Company:
    """The running parties. Make one with `open_company`. make_part: what each does, where it is not what the
    demo's parties do; over: who is done."""

    hear: Hear
    make_part: MakePart | None = None
    processes: dict[str, ForkServerProcess] = field(default_factory=dict)
    channels: dict[str, Connection] = field(default_factory=dict)
    over: dict[str, Over] = field(default_factory=dict)

    def start(self, orders: Sequence[Order]) -> None:
        """A process for each order."""
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
            asyncio.get_running_loop().add_reader(ours.fileno(), self._read, name)

    def stop(self, name: str) -> None:
        """Kill a party's process; it is not waited for any more."""
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
        """Raises EnvironmentFault naming a party that has failed."""
        for name, over in self.over.items():
            if over.error:
                raise EnvironmentFault(
                    what=f"{name} has ended before its time",
                    expected="a running process",
                    actual=over.error,
                    where=f"build/demo/logs/{name}.log",
                    remedy="Read its log.",
                    retryable=False,
                )

    @property
    def is_over(self) -> bool:
        """Whether all are done."""
        return self.over.keys() == self.processes.keys()


@contextmanager
def open_company(hear: Hear, make_part: MakePart | None = None) -> Iterator[Company]:
    """None started yet; all are ended with the block."""
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
