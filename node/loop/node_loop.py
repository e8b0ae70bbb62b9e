"""Runs a role on one task: join, take a seat, perform duties until the task closes.

The loop of every role reads new blocks, folds their events, asks the rooms what is due, and performs it. No
duty runs twice at a time. Only the chain and the journal tell whether a duty succeeded: once its event is
folded, it is not listed any more. So a killed node needs no recovery: it folds the events again and performs
what is still due.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from touchstone.node.health.money_news import MoneyNews
from touchstone.node.health.task_news import list_news
from touchstone.node.kit.config import FAR, Notify
from touchstone.node.kit.duty import Duty, Room, Wait, find_round, name_duty
from touchstone.node.kit.following import Following
from touchstone.node.kit.view import FindView, View
from touchstone.node.upkeep.upkeep_duties import find_next_block, is_gathering
from touchstone.protocol.adapters.chain.follower import LogBatch
from touchstone.protocol.adapters.chain.gate import GateShut
from touchstone.protocol.adapters.chain.refusals import ContractRefused
from touchstone.protocol.adapters.log_facts import about_round
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput, ProtocolFault
from touchstone.protocol.spec.game.enums import SeatStatus
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.open_questions import has_bond
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.state import GameState, Seat
from touchstone.protocol.spec.game.timing import REORG_BLOCKS, is_over

MAX_PAUSE_BLOCKS = 16
"""A refused or failed duty is tried again after 1, 2, 4, ... blocks, at most this many."""

log = logging.getLogger(__name__)


@dataclass
class Pause:
    """How often a duty has failed, until which block it waits, and the last failure."""

    failures: int = 0
    until_block: int = 0
    reason: str = ""

    def extend(self, block: int) -> None:
        """Counts one more failure, seen at the head `block`."""
        self.until_block = block + min(2**self.failures, MAX_PAUSE_BLOCKS)
        self.failures += 1


@dataclass
class Loop:
    """Performs the duties of one node's rooms. `finished` gives, for each duty that ran, the head until which
    it is not started again: the next block shows what it did, and a node behind the chain could otherwise
    open a query or dispute twice. If `is_seated`, the node ends when its seat is paid out. If `is_bound`, it
    has no seat and ends when its bond is free. `bond_block` is the last head at which the account had a bond.
    `seat` is as last seen, None after a reorg. `told` and `money` are the news that the operator knows."""

    following: Following
    find_view: FindView
    account: str
    notify: Notify
    rooms: Sequence[Room[Any]]
    is_seated: bool = False
    is_bound: bool = False
    bond_block: int = -REORG_BLOCKS - 1
    seat: Seat | None = None
    told: set[str] = field(default_factory=set)
    money: MoneyNews = field(default_factory=MoneyNews)
    running: dict[Duty[Any], asyncio.Task[None]] = field(default_factory=dict)
    pauses: dict[Duty[Any], Pause] = field(default_factory=dict)
    finished: dict[Duty[Any], int] = field(default_factory=dict)
    unlisted: Counter[str] = field(default_factory=Counter)
    """How often in a row each room failed to list its duties, by the room's name."""

    async def run(self) -> bool:
        """Follows the chain until the task is closed (True), or until the seat has left and is paid out
        (False). Raises EnvironmentFault if the events of the chain cannot be folded."""
        try:
            self._look_at_seat()
            while not self._is_over():
                self._notify_news()
                self._schedule()
                if max(self.unlisted.values(), default=0) >= 2:
                    await self.following.fold_anew(
                        f"{self.unlisted.most_common(1)[0][0]} cannot list its duties"
                    )
                    self.unlisted.clear()
                    self._forget_seat()
                    self._look_at_seat()
                    continue
                following = self.following.read()
                changed = asyncio.ensure_future(self.following.changed.wait())
                both: set[asyncio.Future[Any]] = {following, changed}
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                self.following.changed.clear()
                if following.done():
                    await self._take(following.result())
        finally:
            self.following.stop_reading()
            await self._stop()
        view = self.find_view()
        return view is not None and view.game.is_closed

    def _look_at_seat(self) -> None:
        view = self.find_view()
        if view is not None:
            self.seat = find_seat(view.game, self.account) or self.seat
            if has_bond(view.game, self.account):
                self.bond_block = view.head_block

    def _notify_news(self) -> None:
        view = self.find_view()
        if view is None:
            return
        for line in list_news(view.game, self.account):
            if line not in self.told:
                self.told.add(line)
                self.notify(line)
        for line in self.money.list_lines(view, self.following.chain):
            self.notify(line)

    def _is_over(self) -> bool:
        """Returns whether nothing is left to wait for. A reorg may remove the block in which the task was
        posted; then its transaction is mined again, so the node waits."""
        view = self.find_view()
        return view is not None and (view.game.is_closed or self._has_left(view.game))

    def _has_left(self, game: LoggedGame) -> bool:
        """Returns whether the seat is paid out and nothing is left to do. The node stays to close a task that
        is over, and while it has a bond, until no reorg can undo the end."""
        head = self.following.state.head_block
        is_free = head > self.bond_block + REORG_BLOCKS
        if self.is_bound and find_seat(game, self.account) is None:
            return is_free
        if not self.is_seated or self.seat is None or not _is_paid_out(game, self.seat):
            return False
        is_closing = is_over(game, head + 1) and not is_gathering(game)
        return self.seat.status != SeatStatus.CONVICTED and is_free and not is_closing

    async def _take(self, batch: LogBatch) -> None:
        refolds = self.following.meter.refolds
        await self.following.take(batch)
        if batch.forget_from is not None or self.following.meter.refolds > refolds:
            self._forget_seat()
        self._look_at_seat()
        head = self.following.state.head_block
        self.finished = {duty: block for duty, block in self.finished.items() if block >= head}
        # Forget failures of duties that are not due any more. A duty that runs counts as due.
        since = head - MAX_PAUSE_BLOCKS
        self.pauses = {
            duty: pause
            for duty, pause in self.pauses.items()
            if duty in self.running or pause.until_block >= since
        }

    def _forget_seat(self) -> None:
        """Forgets the seat unless it was paid out. The chain may lack the join now: a reorg undid it, or all
        was read again from an endpoint that is behind. The seat number may be another account's there."""
        if not self._is_still_paid_out():
            self.seat = None

    def _is_still_paid_out(self) -> bool:
        """Returns whether the block in which the seat was paid out is still in the chain."""
        view = self.find_view()
        if self.seat is None or view is None:
            return False
        former = view.game.former.get(self.seat.number)
        place = (self.seat.account, self.seat.joined)
        return former is not None and (former.account, former.joined) == place

    async def _stop(self) -> None:
        for task in self.running.values():
            task.cancel()
        await asyncio.gather(*self.running.values(), return_exceptions=True)

    def _schedule(self) -> None:
        """Starts the duties that are due; none while the chain does not have the task."""
        view = self.find_view()
        if view is None:
            return
        head = view.head_block
        waits = [find_next_block(view.game, head + 1) or FAR]
        if self.bond_block < head <= self.bond_block + REORG_BLOCKS:
            waits.append(self.bond_block + REORG_BLOCKS + 1)
        due = self._list(view, head + 1, waits)
        self.following.meter.due = Counter(map(name_duty, due))
        # Start each counter at 0: if it appeared at its first failure, Prometheus would see no increase.
        self.following.meter.failures.update(dict.fromkeys(self.following.meter.due, 0))
        for duty, tools in due.items():
            pause = self.pauses.get(duty, Pause())
            if pause.until_block > head:
                waits.append(pause.until_block + 1)
            elif self.finished.get(duty, -1) >= head:
                waits.append(self.finished[duty] + 1)
            elif duty not in self.running:
                self.running[duty] = asyncio.create_task(self._attempt(duty, tools))
        self.following.status.waiting_for_block = head if self.running else min(waits)
        self.following.status.processed_block = head

    def _list(self, view: View, block: int, waits: list[int]) -> dict[Duty[Any], Any]:
        """Returns what is due in `block`, with the tools that it needs. Adds the blocks to wait for to
        `waits`."""
        found: dict[Duty[Any], Any] = {}
        for room in self.rooms:
            lists = getattr(room.list_duties, "func", room.list_duties)
            name = f"{lists.__module__}.{getattr(lists, '__qualname__', lists)}"
            try:
                listed = list(room.list_duties(view, block))
            except Exception:
                # A bug or a wrong fold: the other rooms go on, and this room is asked again later.
                log.exception("%s cannot list its duties", name)
                self.unlisted[name] += 1
                continue
            self.unlisted.pop(name, None)
            waits += [max(block + 1, duty.block) for duty in listed if isinstance(duty, Wait)]
            for duty in listed:
                if not isinstance(duty, Wait):
                    found.setdefault(duty, room.tools)
        return found

    async def _attempt(self, duty: Duty[Any], tools: Any) -> None:
        with about_round(find_round(duty)):
            await self._perform(duty, tools)

    async def _perform(self, duty: Duty[Any], tools: Any) -> None:
        try:
            await duty.perform(tools)
            self.pauses.pop(duty, None)
        except GateShut as shut:
            # It may still be due; the next block shows that.
            log.debug("%s: %s", type(duty).__name__, shut)
        except ContractRefused as refusal:
            # Another account was faster, or a window closed, as the next fold shows. Logged only if it
            # repeats.
            self._fail(duty, refusal, logging.DEBUG)
        except EnvironmentFault as fault:
            # Usually the peer has not read the chain so far, and the next try works.
            self._fail(duty, fault, logging.INFO if fault.retryable else logging.WARNING)
        except (InvalidInput, ProtocolFault) as error:
            self._fail(duty, error, logging.WARNING)
        except Exception as error:
            if self.find_view() is None:
                log.debug("%s failed while the chain lacks the task: %r", type(duty).__name__, error)
                return
            # A bug: the node goes on with other duties, and logs where.
            log.exception("%s failed with an unexpected error", duty)
            self._fail(duty, error, logging.ERROR)
        finally:
            self.running.pop(duty, None)
            head, mined = self.following.state.head_block, self.following.chain.mined_block - 1
            # An endpoint may invent the block of a receipt, so no duty waits longer for it than for a
            # failure.
            self.finished[duty] = max(head, min(mined, head + MAX_PAUSE_BLOCKS))
            self.following.notify_loop()

    def _fail(self, duty: Duty[Any], error: Exception, level: int) -> None:
        pause = self.pauses.setdefault(duty, Pause())
        pause.extend(self.following.state.head_block)
        self.following.meter.failures[name_duty(duty)] += 1
        # Logged again at the 8th, 16th, 32nd time, so that a failure that lasts days does not fill the log.
        is_told = str(error) != pause.reason or pause.failures.bit_count() == 1
        pause.reason = str(error)
        if pause.failures > 3 and is_told:
            log.warning("%s, tried %d times: %s", name_duty(duty), pause.failures, error)
        elif pause.failures <= 3:
            log.log(level, "%s: %s", name_duty(duty), error)


def _is_paid_out(game: GameState, seat: Seat) -> bool:
    """Returns whether a known seat was paid out. Its number is used again only after that. If the seat
    vanished without a payment, a reorg undid its join."""
    is_held = find_seat(game, seat.account) is not None
    return not is_held and (seat.number in game.former or seat.number in game.seats)
