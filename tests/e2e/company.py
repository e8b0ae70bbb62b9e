"""The demo's processes: one for each party, started in turn, watched, and ended with the demo."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from protocol.spec.errors import EnvironmentFault
from scripts.devnet import stop
from tests.e2e.stage import HERE, Actor, Folders, confine, make_environment

POLL_S = 0.2
NOTICE_S = 60.0
"""Between two lines that say for whom the demo waits."""


@dataclass
class Company:
    """The running parties. Make one with `open_company`."""

    folders: Folders
    actors: Sequence[Actor]
    options: list[str]
    say: Callable[[str], None]
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def start(self, actor: Actor) -> None:
        """A confined process for this party; what it says goes to its log."""
        name, kind = actor.member.name, actor.member.kind
        program = [sys.executable, str(HERE / "party.py"), kind, "--home", str(actor.home), *self.options]
        command = confine(program, own=actor.home, hidden=self.folders.parties)
        with (self.folders.logs / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT,
                env=make_environment(self.folders, actor.member.kernel_rank),
            )  # fmt: skip

    async def start_all(self, waiting: str) -> None:
        """Everybody; the submitter posts once all have said `waiting`: no window has to hold their start."""
        for actor in self.actors:
            self.start(actor)
        await self.wait_for_line(waiting)
        for process in self.processes.values():
            assert process.stdin is not None
            process.stdin.close()

    async def wait_for_line(self, line: str) -> None:
        """Wait until this is the last that each party has said, however long that takes. Raises
        EnvironmentFault when one ends."""
        notice_s = time.monotonic() + NOTICE_S
        while late := [name for name in self.processes if self.read_last_line(name) != line]:
            self.require_alive()
            if time.monotonic() > notice_s:
                self.say(f"still waiting for {', '.join(late)} to say: {line}")
                notice_s = time.monotonic() + NOTICE_S
            await asyncio.sleep(POLL_S)

    def require_alive(self) -> None:
        """Raises EnvironmentFault naming the first party that has ended before its time."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                raise EnvironmentFault(
                    what=f"{name} has ended before its time",
                    expected="a running process",
                    actual=f"exit status {process.returncode}: {self.read_last_line(name)}",
                    where=str(self.folders.logs / f"{name}.log"),
                    remedy="Read its log.",
                    retryable=False,
                )

    def require_progress(self, silent_blocks: int, limit_blocks: int) -> None:
        """Raises EnvironmentFault when nothing has happened for more than `limit_blocks`. Blocks are counted
        and not seconds, so that a slow machine is not taken for a stuck run."""
        if silent_blocks > limit_blocks:
            raise EnvironmentFault(
                what="the run is stuck",
                expected=f"an event within {limit_blocks} blocks, longer than any round can last",
                actual="; ".join(f"{name}: {self.read_last_line(name)}" for name in self.processes),
                where=str(self.folders.logs),
                remedy="Read the logs of the parties.",
                retryable=False,
            )

    def read_last_line(self, name: str) -> str:
        """The last line of a party's log."""
        lines = (self.folders.logs / f"{name}.log").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""


@contextmanager
def open_company(
    folders: Folders, actors: Sequence[Actor], options: Sequence[str], say: Callable[[str], None]
) -> Iterator[Company]:
    """The parties' processes, none started yet; all are ended with the block. options: more of what
    `party.py` takes; say: shows a line to whoever watches."""
    submitter = next(actor for actor in actors if actor.member.kind == "submit")
    common = ["--submitter", submitter.account, "--model-dir", str(folders.model)]
    company = Company(folders, actors, [*common, *options], say)
    try:
        yield company
    finally:
        for process in company.processes.values():
            process.terminate()
        for process in company.processes.values():
            stop(process)
