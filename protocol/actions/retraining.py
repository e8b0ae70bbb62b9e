"""What a node trains again to answer for it: one piece at a time, in its own thread, the most urgent first.

    answers in disputes and asks    by the last block of the turn
    AUDITS                          boundaries for auditors, carried moments, proofs, steps of a dispute
    QUESTIONS                       steps that were asked for before a dispute

Several pruned rounds may be disputed at once: one after the other is answered, the earliest clock first.
Threads of asyncio stay free: the server reads its files in them.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import TypeVar

Result = TypeVar("Result")
Turn = tuple[int, int]
"""(the last block for it, which one came first): the least one goes first."""

AUDITS = 1 << 61
"""In place of a block: after all answers."""
QUESTIONS = 1 << 62
"""After all else."""


class Retraining:
    """Who is at work, and who waits for it."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "retrain")
        self._numbers = count()
        self._entered: dict[Turn, asyncio.Event] = {}
        self._holder: Turn | None = None
        self._calm = asyncio.Event()
        self._calm.set()

    @asynccontextmanager
    async def take_turn(self, until: int) -> AsyncIterator[Turn]:
        """Be the one at work inside the block. until: the last block for the answer, or one of the above."""
        turn = (until, next(self._numbers))
        try:
            await self._enter(turn)
            yield turn
        finally:
            self._leave(turn)

    async def give_way(self, turn: Turn) -> None:
        """Between two pieces of work: let the others go first whose answers are due before."""
        if min(self._entered) < turn:
            self._leave(turn)
            await self._enter(turn)

    async def run(self, work: Callable[..., Result], *arguments: object) -> Result:
        """Work of the one whose turn it is."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(work, *arguments))

    async def compute(self, until: int, work: Callable[..., Result], *arguments: object) -> Result:
        """One piece of work in a turn of its own."""
        async with self.take_turn(until):
            return await self.run(work, *arguments)

    async def wait_for_answers(self) -> None:
        """Until nothing is computed for an answer on chain."""
        while not self._calm.is_set():
            await self._calm.wait()

    def close(self) -> None:
        """Let the thread go."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _enter(self, turn: Turn) -> None:
        self._entered[turn] = entered = asyncio.Event()
        self._pass_on()
        await entered.wait()

    def _leave(self, turn: Turn) -> None:
        self._entered.pop(turn, None)
        if self._holder == turn:
            self._holder = None
        self._pass_on()

    def _pass_on(self) -> None:
        if self._holder is None and self._entered:
            self._holder = min(self._entered)
            self._entered[self._holder].set()
        if any(until < AUDITS for until, _ in self._entered):
            self._calm.clear()
        else:
            self._calm.set()
