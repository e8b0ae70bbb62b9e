"""Trains pruned steps again to answer for them: one piece of work at a time, the most urgent first.

    answers in disputes, queries    deadline: the last block of the turn
    boundaries for auditors         deadline: the last block in which the auditors wait
    AUDITS                          carried moments, proofs, steps of a dispute or for an auditor, steps of
                                    others that this node judges
    QUESTIONS                       steps for others than auditors, between two claims of this node

If several pruned rounds are disputed at once, they are answered one after the other, the earliest deadline
first. Meanwhile the node trains its own claim if there is time. Silence costs the seat and a late claim only
a fee, but a dispute costs its opener little, so it must not stop an honest solver's claims. So an answer
waits for the claim while its deadline leaves room for both. The room is a whole round of training for the
claim, a round for each answer that is due, and one segment, because a claim is paused only between segments.

Deadlines may change, so they are read again whenever work is resumed. Work that nobody waits for any more
stops. The queue has a thread of its own, because the server needs asyncio's threads to read files.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TypeVar

Result = TypeVar("Result")
Until = int | Callable[[], int]
"""The deadline of a piece of work: its last block, one of the names below, or a function that returns it."""

AUDITS = 1 << 61
"""Takes the place of a deadline (a last block) for work that is less urgent than every answer."""
QUESTIONS = 1 << 62
"""Takes the place of a deadline for work that is less urgent than all other work."""
NOBODY = 1 << 63
"""Takes the place of a deadline for work that no peer waits for any more."""


class NotWanted(Exception):
    """No peer waits for this piece of work any more."""


@dataclass(frozen=True, eq=False)
class Turn:
    """A place in the queue. `number` is the order of arrival; `entered` is set once its turn has come."""

    until: Until
    number: int
    entered: asyncio.Event = field(default_factory=asyncio.Event)

    def find_until(self) -> int:
        """Returns the deadline of the work (its last block), as known now."""
        return self.until() if callable(self.until) else self.until

    def check(self) -> None:
        """Raises NotWanted if no peer waits for the work any more."""
        if self.find_until() >= NOBODY:
            raise NotWanted


class RecomputeQueue:
    """Runs one piece of work at a time, and keeps the order of those that wait."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "retrain")
        self._numbers = count()
        self._entered: list[Turn] = []
        self._holder: Turn | None = None
        self._changed = asyncio.Event()
        self._own: tuple[Callable[[], int], int, int] | None = None

    @asynccontextmanager
    async def take_turn(self, until: Until) -> AsyncIterator[Turn]:
        """Waits for the turn of a piece of work, and holds it inside the `with` block. Raises NotWanted if no
        peer waits for the work by then."""
        turn = Turn(until, next(self._numbers))
        try:
            await self._enter(turn)
            yield turn
        finally:
            self._leave(turn)

    async def give_way(self, turn: Turn) -> None:
        """Lets more urgent work go first, between two pieces of this one. Raises NotWanted if no peer waits
        for this one."""
        turn.check()
        if self._find_first() is not turn:
            self._leave(turn)
            await self._enter(turn)

    async def run(self, work: Callable[..., Result], *arguments: object) -> Result:
        """Runs a piece of work whose turn has come."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(work, *arguments))

    async def compute(self, until: Until, work: Callable[..., Result], *arguments: object) -> Result:
        """Performs one piece of work in a turn of its own."""
        async with self.take_turn(until):
            return await self.run(work, *arguments)

    async def let_own_go(self, get_block: Callable[[], int], round_blocks: int, segment_blocks: int) -> None:
        """Lets this node's own claim train a segment: waits for what must be answered first, and holds back
        what can wait, until `end_own`. `get_block` returns the head. The longest training of a round and of a
        segment takes `round_blocks` and `segment_blocks`."""
        self._own = (get_block, round_blocks, segment_blocks)
        while True:
            self.look_again()
            if not any(self._is_urgent(turn.find_until()) for turn in self._entered):
                return
            await self._changed.wait()

    def end_own(self) -> None:
        """Notes that this node's own claim is trained or given up, so that nothing waits for it."""
        self._own = None
        self.look_again()

    def look_again(self) -> None:
        """Starts the next piece of work that may start, because deadlines may have changed."""
        first = self._find_first()
        if self._holder is None and first is not None:
            self._holder = first
            first.entered.set()

    def close(self) -> None:
        """Ends the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _enter(self, turn: Turn) -> None:
        turn.entered.clear()
        self._entered.append(turn)
        self.look_again()
        await turn.entered.wait()
        turn.check()

    def _leave(self, turn: Turn) -> None:
        if turn in self._entered:
            self._entered.remove(turn)
        if self._holder is turn:
            self._holder = None
        self.look_again()
        self._changed.set()
        self._changed = asyncio.Event()

    def _find_first(self) -> Turn | None:
        """Returns the waiting piece of work with the earliest deadline, of those that may start."""
        untils = {turn: turn.find_until() for turn in self._entered}
        may_go = [turn for turn, until in untils.items() if self._may_go(until)]
        return min(may_go, key=lambda turn: (untils[turn], turn.number), default=None)

    def _may_go(self, until: int) -> bool:
        """Returns whether a piece of work may start now. Work that auditors wait for runs beside this node's
        own claim, because it is short."""
        return self._own is None or until == AUDITS or self._is_urgent(until)

    def _is_urgent(self, until: int) -> bool:
        """Returns whether the time until this deadline is too short for this node's own claim and all
        answers, with a round for each."""
        assert self._own is not None
        get_block, round_blocks, segment_blocks = self._own
        answers = sum(turn.find_until() < AUDITS for turn in self._entered)
        return until < get_block() + (1 + answers) * round_blocks + segment_blocks
