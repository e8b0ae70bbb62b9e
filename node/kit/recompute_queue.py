"""What a node trains again to answer for it: one piece at a time, the most urgent first.

    answers in disputes and asks    by the last block of the turn
    boundaries for auditors         by the last block in which these wait
    AUDITS                          carried moments, proofs, steps of a dispute or for an auditor, steps of
                                    others that are judged
    QUESTIONS                       steps that others than auditors ask for: between two own claims

Several pruned rounds may be disputed at once: they are answered one after the other, the earliest clock
first. Meanwhile the node's own claim is trained if there is time. Silence costs the seat and a late claim
only a fee, but a dispute costs little, and must not buy the claims of an honest solver. An answer waits for
the claim as long as its clock leaves room for both. That room counts a whole round of training for the claim,
one for each answer that must be given, and one segment: what the claim trains when an answer becomes urgent.
The clock is read anew whenever one of them goes on, and so is until when others wait for a piece of work:
that may change meanwhile, and who waits for nobody any more stops. The work has a thread of its own, so that
asyncio's threads stay free: the server reads its files in them.
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
"""The last block for a piece of work, or one of the names below; or what tells it now."""

AUDITS = 1 << 61
"""In place of a block: after all answers."""
QUESTIONS = 1 << 62
"""After all else."""
NOBODY = 1 << 63
"""No peer waits for it any more."""


class NotWanted(Exception):
    """No peer waits for this piece of work any more."""


@dataclass(frozen=True, eq=False)
class Turn:
    """A place in the queue. number: the order of arrival; entered: set once it is its turn."""

    until: Until
    number: int
    entered: asyncio.Event = field(default_factory=asyncio.Event)

    def find_until(self) -> int:
        """Returns the last block for it, as of now."""
        return self.until() if callable(self.until) else self.until

    def check(self) -> None:
        """Raises NotWanted if no peer waits for it any more."""
        if self.find_until() >= NOBODY:
            raise NotWanted


class RecomputeQueue:
    """Who is at work, and who waits for it."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "retrain")
        self._numbers = count()
        self._entered: list[Turn] = []
        self._holder: Turn | None = None
        self._changed = asyncio.Event()
        self._own: tuple[Callable[[], int], int, int] | None = None

    @asynccontextmanager
    async def take_turn(self, until: Until) -> AsyncIterator[Turn]:
        """Gives this piece of work its turn inside the block. Raises NotWanted if no peer waits for it once
        it is."""
        turn = Turn(until, next(self._numbers))
        try:
            await self._enter(turn)
            yield turn
        finally:
            self._leave(turn)

    async def give_way(self, turn: Turn) -> None:
        """Lets other work whose answers are due earlier go first, between two pieces of work. Raises
        NotWanted if no peer waits for this one."""
        turn.check()
        if self._find_first() is not turn:
            self._leave(turn)
            await self._enter(turn)

    async def run(self, work: Callable[..., Result], *arguments: object) -> Result:
        """Runs a piece of work whose turn it is."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(work, *arguments))

    async def compute(self, until: Until, work: Callable[..., Result], *arguments: object) -> Result:
        """Performs one piece of work in a turn of its own."""
        async with self.take_turn(until):
            return await self.run(work, *arguments)

    async def let_own_go(self, get_block: Callable[[], int], round_blocks: int, segment_blocks: int) -> None:
        """Waits, before each segment of this node's own claim, for what must be answered first, and holds
        back what can wait, until `end_own`. get_block: the head of the chain now; round_blocks and
        segment_blocks: the longest that training a round, or one of its segments, takes."""
        self._own = (get_block, round_blocks, segment_blocks)
        while True:
            self.look_again()
            if not any(self._is_urgent(turn.find_until()) for turn in self._entered):
                return
            await self._changed.wait()

    def end_own(self) -> None:
        """Notes that this node's own claim is trained, or given up: nothing waits for it any more."""
        self._own = None
        self.look_again()

    def look_again(self) -> None:
        """Starts the next piece of work that may start: the blocks until which others wait may have
        changed."""
        first = self._find_first()
        if self._holder is None and first is not None:
            self._holder = first
            first.entered.set()

    def close(self) -> None:
        """Lets the thread go."""
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
        """Of those that may go the one whose last block comes first."""
        untils = {turn: turn.find_until() for turn in self._entered}
        may_go = [turn for turn, until in untils.items() if self._may_go(until)]
        return min(may_go, key=lambda turn: (untils[turn], turn.number), default=None)

    def _may_go(self, until: int) -> bool:
        """Returns whether a piece of work may start now. Work that auditors wait for runs beside this node's
        own claim, because it is short."""
        return self._own is None or until == AUDITS or self._is_urgent(until)

    def _is_urgent(self, until: int) -> bool:
        """Returns whether the time until this block does not hold this node's own claim and all answers, a
        round each."""
        assert self._own is not None
        get_block, round_blocks, segment_blocks = self._own
        answers = sum(turn.find_until() < AUDITS for turn in self._entered)
        return until < get_block() + (1 + answers) * round_blocks + segment_blocks
