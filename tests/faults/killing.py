"""Nodes that are killed at each write of their journal: just before the record is on disk, and just after.

A dead node is one whose journal takes nothing any more: whatever it still runs ends there or is cancelled,
and nothing of its memory is used again. Its files are put back as they lay when it died, the database's
write-ahead file with them, and it is started from its home.
"""

import asyncio
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.world import Part, World, join
from touchstone.protocol.adapters.journal import FILE_NAME, Journal
from touchstone.scripts.roles.role_nodes import Member

BEFORE, AFTER = "before", "after"
Write = Callable[[Journal, Any], None]


class Killed(BaseException):
    """The node died: no handler of its own sees this."""


@dataclass
class Mortal:
    """One node and its deaths. deaths: kind of record and side of the write; most: deaths of one kind on one
    side, so that what is written often does not fill the play; kinds: of records, None for all; forget:
    called at each death, so that nobody takes what the dead node last said of itself for its word."""

    home: Path
    most: int
    kinds: frozenset[str] | None = None
    deaths: Counter[tuple[str, str]] = field(default_factory=Counter)
    is_dead: bool = False
    forget: Callable[[], object] = lambda: None
    _passed: set[tuple[int, str]] = field(default_factory=set)
    _died: asyncio.Event = field(default_factory=asyncio.Event)
    _loop: asyncio.AbstractEventLoop | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self) -> None:
        """Another life."""
        self.is_dead, self._died, self._loop = False, asyncio.Event(), asyncio.get_running_loop()

    async def wait_for_death(self) -> None:
        """Returns when it has died."""
        await self._died.wait()

    def append(self, write: Write, journal: Journal, record: Any) -> None:
        """Writes a record, or dies before it or after it: once for each place of the journal. Raises
        Killed."""
        with self._lock:
            if self.is_dead:
                raise Killed
            kind, number = type(record).__name__, journal._count + 1
            self._pass(kind, number, BEFORE)
            write(journal, record)
            self._pass(kind, number, AFTER)

    def _pass(self, kind: str, number: int, side: str) -> None:
        is_new = (number, side) not in self._passed
        self._passed.add((number, side))
        is_chosen = self.kinds is None or kind in self.kinds
        if is_new and is_chosen and self.deaths[kind, side] < self.most:
            self.deaths[kind, side] += 1
            self._die()
            raise Killed

    def _die(self) -> None:
        self.is_dead = True
        self.forget()
        self._get_kept().mkdir(mode=0o700)
        for path in self.home.iterdir():
            if path.is_file():
                shutil.copy2(path, self._get_kept() / path.name)
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._died.set)

    def bury(self) -> None:
        """Its files as they lay when it died."""
        for path in self.home.glob(f"{FILE_NAME}*"):
            path.unlink()
        for path in self._get_kept().iterdir():
            path.replace(self.home / path.name)
        self._get_kept().rmdir()

    def _get_kept(self) -> Path:
        return self.home.with_name(f"{self.home.name} at its death")


def make_mortal_journals(monkeypatch: pytest.MonkeyPatch, mortals: Mapping[Path, Mortal]) -> None:
    """The journals of these homes kill whoever writes them."""
    write: Write = Journal.append

    def append(journal: Journal, record: Any) -> None:
        mortal = mortals.get(journal.path.parent)
        if mortal is None:
            write(journal, record)
        else:
            mortal.append(write, journal, record)

    monkeypatch.setattr(Journal, "append", append)


async def play_lives(mortal: Mortal, world: World, name: str, part: Part) -> None:
    """A part from life to life, until the task is closed. No blocks are skipped while it is dead."""
    mortal.forget = lambda: world.parties.pop(name, None)
    while True:
        mortal.begin()
        with suppress(Killed):
            async with world.open(name, part.role) as node:
                await _play_life(mortal, world, node, name, part)
        if not mortal.is_dead:
            return
        world.lines.append(f"{name}: killed, {sum(mortal.deaths.values())}")
        mortal.bury()


async def _play_life(mortal: Mortal, world: World, node: Member, name: str, part: Part) -> None:
    living = asyncio.create_task(_live(world, node, name, part))
    dying = asyncio.create_task(mortal.wait_for_death())
    try:
        await asyncio.wait({living, dying}, return_when=asyncio.FIRST_COMPLETED)
        if not mortal.is_dead:
            living.result()
    finally:
        for task in (living, dying):
            task.cancel()
        await asyncio.gather(living, dying, return_exceptions=True)


async def _live(world: World, node: Member, name: str, part: Part) -> None:
    await join(world, node, name, part)
    await part.make_loop(node).run()
