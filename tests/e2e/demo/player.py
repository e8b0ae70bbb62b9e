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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account

from tests.e2e.cheating import allow_cheating, change_duties, make_cheating_solver
from tests.e2e.demo.isolation import confine, is_supported
from tests.e2e.demo.roster import Member
from tests.e2e.planted import make_planting_compute
from tests.e2e.roles import SOLVER, VERIFIER, WATCHER
from tests.e2e.world import Part
from touchstone.node.kit.config import NodeConfig
from touchstone.node.kit.duty import Duty, Room
from touchstone.node.loop.node import Node
from touchstone.node.loop.opening import open_node
from touchstone.node.training import claims
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.spec.errors import TouchstoneError
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.program_operations import Operation
from touchstone.scripts.roles import role_nodes
from touchstone.whistleblower import challenging

ACCUSING = (
    challenging.ReadVotes, challenging.JudgeSteps, challenging.OpenDispute, challenging.QuerySigner,
    challenging.ProveStatement, challenging.ProveWork,
)  # fmt: skip
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
    """The rooms of the member's role, its training timed."""
    patch, part = pytest.MonkeyPatch(), HONEST[order.member.role]
    if not order.member.is_honest:
        allow_cheating(patch)
        part = only_defend(make_cheating_solver(make_planting_compute(Operation[order.fault])))
    patch.setattr(claims, "train_segment", _time(vars(claims)["train_segment"], line))
    return part


def only_defend(part: Part) -> Part:
    """A cheat that gives the answers that it owes, and accuses nobody."""

    def keep(duty: Duty[Any]) -> Duty[Any] | None:
        return None if isinstance(duty, ACCUSING) else duty

    def list_rooms(node: role_nodes.Member) -> Sequence[Room[Any]]:
        return change_duties(part.list_rooms(node), (challenging.next_actions,), keep)

    return replace(part, list_rooms=list_rooms)


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
    """Take out all credit, as `touchstone withdraw` does."""
    if await node.chain.vault.credit_of(node.account):
        await node.chain.vault.withdraw()
