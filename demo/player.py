"""Plays one party of the demo, in a process that sees its own folder, the chain and its peers.

Honest parties run the rooms of their role; a wrapper around the training tells how long it took. The cheat is
a solver of `cheating.py`: an operation of each training step errs, and the cheat defends the result.
"""

import asyncio
import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from eth_account import Account

from touchstone.demo.cheating import leave_accusing, list_cheating_rooms, train_as_told
from touchstone.demo.isolation import confine, is_supported
from touchstone.demo.parts import HONEST, Part
from touchstone.demo.planted import make_planting_compute
from touchstone.demo.roster import Member
from touchstone.node.kit.config import NodeConfig
from touchstone.node.loop.node import Node
from touchstone.node.loop.opening import open_node
from touchstone.node.training import claims
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.spec.errors import TouchstoneError
from touchstone.protocol.spec.program_operations import Operation


@dataclass(frozen=True)
class Order:
    """What a process is started with. `key` is hexadecimal. `awaited` seats are taken by others before this
    one. `fault` names the operation in which a cheat errs. `kernels` is a value of ATEN_CPU_CAPABILITY."""

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
    """A segment was trained. `first_step` is the global number of its first step."""

    first_step: int
    seconds: float


@dataclass(frozen=True)
class Over:
    """The party is done. `error` says why it failed, empty if it did not. `cpu_s` is its process's processor
    time."""

    error: str = ""
    cpu_s: float = 0.0


@dataclass
class Line:
    """The channel to the demo; several threads may use it."""

    channel: Connection
    lock: Any

    def send(self, message: Said | Trained | Over) -> None:
        """Sends a message to the demo. Ends the process if the demo has gone."""
        with self.lock:
            try:
                self.channel.send(message)
            except OSError:
                os._exit(0)


MakePart = Callable[[Order, Line], Part]
"""Makes the part of a party from its order."""


def play(order: Order, channel: Connection, make_own: MakePart | None = None) -> None:
    """Runs the party until the demo closes the channel, or is gone. `make_own` stands for `make_part`."""
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
    def notify(text: str) -> None:
        print(text, flush=True)
        line.send(Said(text))

    part = make_own(order, line)
    key = AccountKey(Account.from_key(order.key))
    config = NodeConfig(order.home, order.deployment, order.rpc_url, key, notify=notify)
    async with open_node(config, part.role) as node:
        await _wait_for_task(node, order)
        await node.join(next(iter(node.state.games)))
        part.spoil(node)
        await node.rooms.seat_taking.take_seat(part.request)
        try:
            await part.make_loop(node).run()
        finally:
            node.rooms.tools.cases.close()
        await withdraw(node)
        line.send(Over(cpu_s=time.process_time()))
        await asyncio.Event().wait()


def make_part(order: Order, line: Line) -> Part:
    """Returns the part of a member's role, its training timed; for a cheat also false."""
    part, train = HONEST[order.member.role], vars(claims)["train_segment"]
    if not order.member.is_honest:
        compute = make_planting_compute(Operation[order.fault])
        part, train = (
            only_defend(replace(part, list_rooms=partial(list_cheating_rooms, compute))),
            train_as_told,
        )
    # This process plays one party, and ends with it.
    vars(claims)["train_segment"] = _time(train, line)
    return part


def only_defend(part: Part) -> Part:
    """Returns the part of a cheat that gives the answers that it owes, and accuses nobody."""
    return replace(part, list_rooms=lambda node: leave_accusing(part.list_rooms(node)))


def _time(train: Callable[..., Any], line: Line) -> Callable[..., Any]:
    def timed(state: Any, *others: Any) -> Any:
        first, started_s = state.global_step, time.monotonic()
        trained = train(state, *others)
        line.send(Trained(first, time.monotonic() - started_s))
        return trained

    return timed


async def _wait_for_task(node: Node, order: Order) -> None:
    """Until the task is posted, and until those sit who come first: the first round has all of them."""
    await node.following.take_next()
    while not _is_my_turn(node, order):
        await node.following.take_next()


def _is_my_turn(node: Node, order: Order) -> bool:
    game = next(iter(node.state.games.values()), None)
    return game is not None and len(game.seats) >= order.awaited


async def withdraw(node: Node) -> None:
    """Takes out all credit, as `touchstone withdraw` does."""
    if await node.chain.vault.credit_of(node.account):
        await node.chain.vault.withdraw()
