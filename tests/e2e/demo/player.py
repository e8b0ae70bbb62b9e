"""One party of the demo, in a process of its own that sees its own folder, the chain and its peers.

The honest run the very rooms of their role; a wrapper around the training alone tells how long it took. The
cheat is a solver of `cheating.py`: an operation of every training step errs, and it defends that.
"""

import asyncio
import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account

from tests.e2e.cheating import allow_cheating, make_cheating_solver
from tests.e2e.demo.isolation import confine, is_supported
from tests.e2e.demo.roster import Member
from tests.e2e.planted import make_planting_compute
from tests.e2e.roles import SOLVER, VERIFIER, WATCHER
from tests.e2e.world import Part
from touchstone.node.joining.joining import catch_up, open_task
from touchstone.node.joining.seat_taking import take_seat
from touchstone.node.kit.config import PartyConfig
from touchstone.node.kit.duty import Duty, Wait
from touchstone.node.kit.party import Party
from touchstone.node.loop.node_loop import Loop
from touchstone.node.loop.opening import open_party
from touchstone.node.training import claims
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.spec.errors import TouchstoneError
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.program_operations import Operation
from touchstone.whistleblower import dispute_duties as disputes

LIST = disputes.list_duties
ACCUSING = frozenset({"read votes", "judge steps", "dispute", "ask", "prove"})
"""What a cheat leaves: by its own computation all others err."""
HONEST = {SeatRole.SOLVER: SOLVER, SeatRole.VERIFIER: VERIFIER, SeatRole.WHISTLEBLOWER: WATCHER}


@dataclass(frozen=True)
class Order:
    """What a process is started with. key: hexadecimal; awaited: seats that others take before it takes its
    own; fault: name of the operation in which a cheat errs; kernels: value of ATEN_CPU_CAPABILITY."""

    member: Member
    key: str
    home: Path
    log: Path
    deployment: Path
    rpc_url: str
    awaited: int
    fault: str
    kernels: str


@dataclass(frozen=True)
class Said:
    """A line of a party."""

    line: str


@dataclass(frozen=True)
class Trained:
    """A segment was trained. first_step: global number of its first step."""

    first_step: int
    seconds: float


@dataclass(frozen=True)
class Over:
    """The party is done. error: why it failed, empty where it did not; cpu_s: processor time of its
    process."""

    error: str = ""
    cpu_s: float = 0.0


@dataclass
class Line:
    """The way to the demo; several threads may use it."""

    channel: Connection
    lock: Any

    def send(self, message: Said | Trained | Over) -> None:
        """Tell the demo, unless it has gone."""
        with self.lock:
            try:
                self.channel.send(message)
            except OSError:
                os._exit(0)


MakePart = Callable[[Order, Line], Part]
"""What a party does, from what its process is started with."""


def play(order: Order, channel: Connection, make_own: MakePart | None = None) -> None:
    """What the process runs; ends when the demo closes the channel, or is gone. make_own: what the party
    does, in the place of `make_part`."""
    line = Line(channel, threading.Lock())
    _settle_in(order)
    threading.Thread(target=_end_with, args=(channel,), daemon=True).start()
    try:
        asyncio.run(_take_part(order, line, make_own or make_part))
    except TouchstoneError as error:
        line.send(Over(str(error)))
        raise SystemExit(2) from error


def _settle_in(order: Order) -> None:
    """Own folder, own kernels, own log."""
    os.environ["ATEN_CPU_CAPABILITY"] = order.kernels
    log = os.open(order.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, sys.stdout.fileno())
    os.dup2(log, sys.stderr.fileno())
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s", force=True)
    if is_supported():
        confine(order.home, order.home.parent)


def _end_with(channel: Connection) -> None:
    """Nobody sends anything this way: what comes is the end."""
    with contextlib.suppress(EOFError, OSError):
        channel.recv()
    os._exit(0)


async def _take_part(order: Order, line: Line, make_own: MakePart) -> None:
    def say(text: str) -> None:
        print(text, flush=True)
        line.send(Said(text))

    part = make_own(order, line)
    key = AccountKey(Account.from_key(order.key))
    async with open_party(PartyConfig(order.home, order.deployment, order.rpc_url, key, say=say)) as party:
        await _wait_for_task(party, order)
        await open_task(party, next(iter(party.state.games)))
        part.spoil(party)
        await take_seat(party, part.wish)
        try:
            await Loop(party, part.rooms).run()
        finally:
            party.task.cases.close()
        await withdraw(party)
        line.send(Over(cpu_s=time.process_time()))
        await asyncio.Event().wait()


def make_part(order: Order, line: Line) -> Part:
    """The rooms of the member's role, its training timed."""
    patch, part = pytest.MonkeyPatch(), HONEST[order.member.role]
    if not order.member.is_honest:
        allow_cheating(patch)
        part = make_cheating_solver(make_planting_compute(Operation[order.fault]))
        part = replace(part, rooms=[only_defend if room is LIST else room for room in part.rooms])
    patch.setattr(claims, "train_segment", _time(vars(claims)["train_segment"], line))
    return part


def only_defend(party: Party, block: int) -> Iterator[Duty | Wait]:
    """The answers that a cheat owes, and no accusations of its own."""
    yield from (one for one in LIST(party, block) if isinstance(one, Wait) or one.what not in ACCUSING)


def _time(train: Callable[..., Any], line: Line) -> Callable[..., Any]:
    def timed(state: Any, *others: Any) -> Any:
        first, started_s = state.global_step, time.monotonic()
        trained = train(state, *others)
        line.send(Trained(first, time.monotonic() - started_s))
        return trained

    return timed


async def _wait_for_task(party: Party, order: Order) -> None:
    """Until the task is posted, and until those sit who come first: the first round has all of them."""
    await catch_up(party)
    while not _is_my_turn(party, order):
        party.take(await anext(party.batches))


def _is_my_turn(party: Party, order: Order) -> bool:
    game = next(iter(party.state.games.values()), None)
    return game is not None and len(game.seats) >= order.awaited


async def withdraw(party: Party) -> None:
    """Take out all credit, as `touchstone withdraw` does."""
    if await party.chain.purse.credit_of(party.account):
        await party.chain.purse.withdraw()
