"""The loop of every role: read new blocks, fold their events, ask the pure rules what is due, perform it.

An action is performed once at a time. Whether it succeeded is asked of the chain alone: it is due no more
when its event is folded. So a killed node needs no recovery of its own: it folds the events again and goes
on with what is still due.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from protocol.actions.party import Party
from protocol.adapters.chain import ContractRefused
from protocol.spec.errors import EnvironmentFault, InvalidInput, ProtocolFault
from protocol.spec.events import Event

MAX_PAUSE_BLOCKS = 16
"""A refused or failed action is tried again after 1, 2, 4, ... blocks, at most this many."""

log = logging.getLogger(__name__)

Action = TypeVar("Action", bound=Hashable)


@dataclass(frozen=True)
class Due(Generic[Action]):
    """What to do now, and the next block in which something may become due."""

    actions: Sequence[Action]
    next_block: int


@dataclass
class Pause:
    """How often an action has failed, and the block from which it may be tried again."""

    failures: int = 0
    until_block: int = 0

    def extend(self, block: int) -> None:
        """One more failure at `block`."""
        self.until_block = block + min(2**self.failures, MAX_PAUSE_BLOCKS)
        self.failures += 1


@dataclass
class Loop(Generic[Action]):
    """`decide` says what is due in the next block, `perform` does one action, `react` is told of each
    event, `is_over` ends it."""

    party: Party
    decide: Callable[[int], Due[Action]]
    perform: Callable[[Action], Awaitable[None]]
    react: Callable[[Event], None]
    is_over: Callable[[], bool]
    running: dict[Action, asyncio.Task[None]] = field(default_factory=dict)
    pauses: dict[Action, Pause] = field(default_factory=dict)

    async def run(self) -> None:
        """Follow the chain until `is_over`. Raises EnvironmentFault when the chain is silent for long."""
        try:
            async for batch in self.party.batches:
                for event in self.party.view.take(batch):
                    self.react(event)
                self._schedule(batch.head.number)
                if self.is_over():
                    return
        finally:
            for task in self.running.values():
                task.cancel()

    def _schedule(self, head_block: int) -> None:
        due = self.decide(head_block + 1)
        waits = [due.next_block]
        for action in due.actions:
            pause = self.pauses.get(action, Pause())
            if pause.until_block > head_block:
                waits.append(pause.until_block + 1)
            elif action not in self.running:
                self.running[action] = asyncio.create_task(self._attempt(action))
        self.party.status.waiting_for_block = head_block if self.running else min(waits)
        self.party.status.processed_block = head_block

    async def _attempt(self, action: Action) -> None:
        try:
            await self.perform(action)
        except ContractRefused as refusal:
            # Somebody was faster, or a window closed: the next fold tells. Not worth a line unless it stays.
            self._fail(action, refusal, logging.DEBUG)
        except (InvalidInput, EnvironmentFault, ProtocolFault) as error:
            self._fail(action, error, logging.WARNING)
        except Exception as error:
            # A bug of ours: the node stays up for its other duties, and says where.
            log.exception("%s failed for a reason that nobody foresaw", action)
            self._fail(action, error, logging.ERROR)
        finally:
            self.running.pop(action, None)

    def _fail(self, action: Action, error: Exception, level: int) -> None:
        pause = self.pauses.setdefault(action, Pause())
        pause.extend(self.party.view.head_block)
        log.log(logging.WARNING if pause.failures > 3 else level, "%s: %s", type(action).__name__, error)
