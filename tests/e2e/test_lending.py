"""Nodes on machines that are lent while nobody uses them: used, left, served, paid out, idle, joined again.

A solver and a verifier are processes of `touchstone`, typed with `--when-idle`; the others play in this
process. Somebody types at both machines: a terminal is a file, which each process finds where the test says.
"""

import argparse
import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from io import StringIO
from pathlib import Path

import rich.console

from protocol.actions.runtime.chain_state import ChainState
from protocol.actions.runtime.config import PartyConfig
from protocol.adapters.chain.chain_client import GameChain, open_game_chain
from protocol.adapters.chain.contract_events import Event
from protocol.adapters.reports import read_node_state
from protocol.spec.game.fates import find_seat, get_drawn_seat, is_draw_over, list_draws
from protocol.spec.game.logs import LoggedGame
from protocol.spec.game.state import GameRound, SeatRole, SeatStatus
from protocol.spec.game.timing import get_votes_from
from scripts.chain_commands import make_home
from scripts.console import Console
from scripts.devnet import Devnet, DevnetOptions, is_idle, run_devnet
from scripts.home import read_config
from scripts.home_checks import open_config
from scripts.role_commands import Offer, play_role
from scripts.task_creation import create_task
from scripts.task_file import read_task_file
from tests.e2e.demo.clock import DemoClock
from tests.e2e.test_commands import TASK_FILE
from tests.e2e.world import TINY_PLAN, make_dataset
from tests.protocol.adapters.lent_machine import Machine
from tests.scripts.network import ROOT, edit_config

CAST = {
    "solver 0": SeatRole.SOLVER,
    "solver 1": SeatRole.SOLVER,
    "verifier 0": SeatRole.VERIFIER,
    "verifier 1": SeatRole.VERIFIER,
    "verifier 2": SeatRole.VERIFIER,
}
"""Who plays all the time: enough for every round."""
LENT = {"lent solver": "solve", "lent verifier": "verify"}
ROUNDS = 100
"""More than the play takes: windows are over while rounds go on."""
KEYS = {
    "rounds": ROUNDS, "total_steps": 8 * ROUNDS, "solver_seats": 3, "train_min": 17, "train_max": 17,
    "audit_max": 12, "post": 2, "respond": 10, "dispute": 90, "ask": 190,
}  # fmt: skip
"""Of the task file: windows that are short in blocks, of which there are few while somebody is at work."""
IDLE_MINUTES = 0.05
DEADLINE_S = 3_600.0
LOOK_S = 0.1


SLOW_BLOCK_S = 10.0


class SlowClock(DemoClock):
    """Makes a block for each transaction at once, and otherwise one every SLOW_BLOCK_S while somebody is at
    work. No window of a few blocks is over then before a slow machine has moved. While a lent verifier works
    on a vote that it owes, even the transactions of others wait for the slow blocks: its process has the
    lowest priority, and its reserves may vote a third of `audit_max` later."""

    def __init__(self, sight: "Sight", least_parties: int, lent: "Mapping[str, Lent]") -> None:
        super().__init__(sight.chain, None, least_parties)
        self._sight = sight
        self._lent = lent

    async def _is_block_due(self) -> bool:
        is_slow = time.monotonic() - self._last_block_s > SLOW_BLOCK_S
        if is_slow or not await self._count_waiting():
            return is_slow
        head = (await self._chain.head()).number
        if self._sight.state.head_block < head and self._lent:
            return False  # Whether a vote is owed in this block is not known yet.
        owing = [one.account for one in self._lent.values() if self._sight.owes_vote(one.account)]
        return not any([await self._is_at_work(account, head) for account in owing])

    async def _is_at_work(self, account: str, head: int) -> bool:
        """Whether it neither waits for a later block nor has sent something that waits for one."""
        status = await self._ask(self._peers[account])
        count = partial(self._chain.connection.request, "eth_getTransactionCount", account)
        is_waiting = status is not None and is_idle(head, status)
        return not is_waiting and await count("latest") == await count("pending")


@dataclass
class Lent:
    """A node of a lent machine. typing: what somebody does there, while somebody does."""

    machine: Machine
    home: Path
    log: Path
    account: str
    process: "subprocess.Popen[bytes] | None" = None
    typing: "asyncio.Task[None] | None" = None

    def start(self, command: str, task: str) -> None:
        """Type its command."""
        words = [command, task, "--home", str(self.home), "--when-idle", "--yes"]
        module = [sys.executable, "-m", "tests.e2e.lent_node", str(self.machine.folder)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "400"}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*module, *words], cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT
            )

    def use(self) -> None:
        """Somebody comes, and stays."""
        self.typing = asyncio.create_task(self._type())

    async def _type(self) -> None:
        while True:
            self.machine.type_in("pts/1", time.time())
            await asyncio.sleep(LOOK_S)

    def leave_alone(self) -> None:
        """Whoever came goes."""
        assert self.typing is not None
        self.typing.cancel()

    def read(self) -> str:
        """What it has said; it runs."""
        assert self.process is not None and self.process.poll() is None, self.log.read_text()
        return self.log.read_text()

    def stop(self) -> int:
        """Its exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait()


@dataclass
class Sight:
    """What the chain has told so far. rounds: as they were last, also those that the chain has forgotten;
    seated: numbers of seats by account."""

    chain: GameChain
    task: bytes = b""
    state: ChainState = field(init=False)
    events: list[Event] = field(default_factory=list)
    rounds: dict[int, GameRound] = field(default_factory=dict)
    seated: dict[str, set[int]] = field(default_factory=dict)
    missed: set[tuple[str, int, int, int]] = field(default_factory=set)
    """(account, round, slot, draw) of primary draws that are over without their vote."""

    def __post_init__(self) -> None:
        self.state = ChainState.of(self.chain)

    @property
    def game(self) -> LoggedGame:
        return self.state.games[self.task]

    async def run(self) -> None:
        """Follow the chain, for ever."""
        async for batch in self.chain.follow():
            self.state.take(batch)
            self.events += batch.events
            if self.task in self.state.games:
                self.rounds |= self.game.rounds
                for seat in self.game.seats.values():
                    self.seated.setdefault(seat.account, set()).add(seat.number)
                self.missed |= set(self._list_missed())

    def _list_missed(self) -> Iterator[tuple[str, int, int, int]]:
        game, block = self.game, self.state.head_block
        for one in game.rounds.values():
            for slot, draw in list_draws(game, one):
                seat = game.seats.get(get_drawn_seat(game, one, slot, draw, 0) or 0)
                has_voted = 0 in one.votes.get((slot, draw), {})
                if seat is not None and not has_voted and is_draw_over(game, one, slot, draw, block):
                    yield seat.account, one.index, slot, draw

    def owes_vote(self, account: str) -> bool:
        """Whether it is the primary of a draw that takes votes, and its own did not count yet."""
        game = self.state.games.get(self.task)
        if game is None:
            return False
        block = self.state.head_block
        return any(
            0 not in one.votes.get((slot, draw), {})
            and not is_draw_over(game, one, slot, draw, block)
            and (seat := game.seats.get(get_drawn_seat(game, one, slot, draw, 0) or 0)) is not None
            and seat.account == account
            and block >= (get_votes_from(game, one, draw) or block + 1)
            for one in game.rounds.values()
            for slot, draw in list_draws(game, one)
        )

    def list_told(self, name: str, account: str) -> list[int]:
        """The amounts of an account's events of a kind, in wei."""
        column = {"SeatJoined": "stake_wei", "SeatFreed": "stake_wei", "SeatSettled": "fee_wei"}[name]
        told = [event.arguments for event in self.events if event.name == name]
        return [one[column] for one in told if one["seat"] in self.seated.get(account, ())]

    def list_moves(self, account: str) -> list[tuple[str, int]]:
        """How its seats came and went, with blocks."""
        names, seats = ("SeatJoined", "SeatLeft", "SeatFreed"), self.seated.get(account, set())
        told = [one for one in self.events if one.name in names and one.arguments["seat"] in seats]
        return [(one.name, one.block_number) for one in told]

    def list_held(self, account: str) -> list[int]:
        """Rounds whose pools held a seat of the account."""
        numbers = self.seated.get(account, set())
        return [n for n, one in self.rounds.items() if numbers & {*one.pool.solvers, *one.pool.verifiers}]

    def count_claims(self, account: str) -> int:
        """Rounds that it has committed to."""
        return sum(claim.account == account for one in self.rounds.values() for claim in one.claims.values())

    def count_votes(self, account: str) -> int:
        """Votes of its seats that were counted."""
        numbers = self.seated.get(account, set())
        return sum(
            get_drawn_seat(self.game, one, slot, draw, rank) in numbers
            for one in self.rounds.values()
            for (slot, draw), votes in one.votes.items()
            for rank in votes
        )

    def list_unclaimed(self, account: str) -> list[int]:
        """Closed rounds whose pools held a seat of the account, without its claim."""
        numbers = self.seated.get(account, set())
        slots = [
            (one, one.pool.solvers.index(number))
            for one in self.rounds.values()
            for number in numbers & {*one.pool.solvers}
            if one.closed is not None and one.beacon is not None
        ]
        return [one.index for one, slot in slots if slot not in one.claims]


@dataclass
class Play:
    """The network, who plays on it, and what is seen of it."""

    folder: Path
    net: Devnet
    consoles: dict[str, StringIO] = field(default_factory=dict)
    lent: dict[str, Lent] = field(default_factory=dict)
    works: list["asyncio.Task[object]"] = field(default_factory=list)

    async def sit(self, name: str) -> tuple[Path, Console]:
        """`touchstone init --devnet`: a home with money, and its operator's console."""
        home = self.folder / name.replace(" ", "-")
        options = argparse.Namespace(
            home=home, rpc_url=self.net.rpc_url, deployment=self.net.path, listen_host="127.0.0.1",
            listen_port=0, public_url="", threads=1, device="cpu", memory_mb=0,
            password_file=self.folder / "password", limits=None, devnet=True, import_key=None,
        )  # fmt: skip
        self.consoles[name] = StringIO()
        console = Console(rich.console.Console(file=self.consoles[name], width=400))
        await make_home(options, console)
        return home, console

    async def post(self) -> str:
        """A submitter that serves its task; the task's id."""
        home, console = await self.sit("submitter")
        config, file = open_home(home, console), read_task_file(self.folder / "task.toml")
        self.works.append(asyncio.create_task(create_task(config, file, console, is_agreed=True)))
        said = self.consoles["submitter"]
        await self.until(lambda: "posted 0x" in said.getvalue())
        found = re.search(r"posted 0x([0-9a-f]{64})", said.getvalue())
        assert found is not None
        return found[1]

    async def play(self, name: str, role: SeatRole, task: str) -> None:
        """A party of this process."""
        home, console = await self.sit(name)
        work = play_role(open_home(home, console), read_config(home), task, Offer(role, 0, True), console)
        self.works.append(asyncio.create_task(work))

    async def lend(self, name: str, command: str, task: str) -> Lent:
        """A party on a lent machine, in a process of its own."""
        home, _ = await self.sit(name)
        edit_config(home, "idle_minutes", IDLE_MINUTES)
        made = Machine(self.folder / f"machine of {name}")
        one = Lent(made, home, self.folder / f"{name}.log", read_config(home).account.lower())
        self.lent[name] = one
        one.start(command, task)
        return one

    async def stop(self) -> None:
        """Whoever plays in this process, or types, ends."""
        typing = [one.typing for one in self.lent.values() if one.typing is not None]
        for work in (*self.works, *typing):
            work.cancel()
        await asyncio.gather(*self.works, *typing, return_exceptions=True)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until that holds. Fails where somebody has ended."""
        while not holds():
            for work in self.works:
                if work.done():
                    work.result()
                    raise AssertionError("a party has ended")
            for one in self.lent.values():
                one.read()
            await asyncio.sleep(LOOK_S)


def open_home(home: Path, console: Console) -> PartyConfig:
    return open_config(argparse.Namespace(home=home, password_file=None), console)


@asynccontextmanager
async def open_play(folder: Path) -> AsyncIterator[Play]:
    (folder / "password").write_text("secret")
    (folder / "password").chmod(0o600)
    limits, text = "\n".join(f"{name} = {value}" for name, value in vars(TINY_PLAN.limits).items()), TASK_FILE
    for key, value in KEYS.items():
        text, count = re.subn(rf"(?m)^{key} = \d+$", f"{key} = {value}", text)
        assert count == 1, key
    (folder / "task.toml").write_text(text + limits)
    (folder / "corpus.bin").write_bytes(make_dataset())
    options = DevnetOptions(path=folder / "deployment.json", log=folder / "anvil.log")
    async with run_devnet(options, lambda _: None) as net:
        play = Play(folder, net)
        try:
            yield play
        finally:
            await play.stop()
            for one in play.lent.values():
                if one.process is not None and one.process.poll() is None:
                    one.process.kill()
                    one.process.wait()


async def test_lent_machines_leave_without_a_fee_and_train_again_once_they_are_idle(tmp_path: Path) -> None:
    async with asyncio.timeout(DEADLINE_S), open_play(tmp_path) as play, AsyncExitStack() as stack:
        chain = await stack.enter_async_context(open_game_chain(play.net.rpc_url, play.net.deployment))
        sight = Sight(chain)
        clock = await stack.enter_async_context(SlowClock(sight, 1 + len(CAST) + len(LENT), play.lent))
        stack.push_async_callback(play.stop)  # Before what it uses is closed.
        play.works.append(asyncio.create_task(clock.run()))
        task = await play.post()
        sight.task = bytes.fromhex(task)
        play.works.append(asyncio.create_task(sight.run()))
        for name, command in LENT.items():
            await play.lend(name, command, task)
        await wait_for_seats(play, sight)
        for name, role in CAST.items():
            await play.play(name, role, task)
        await work(play, sight)
        await use_and_leave(play, sight)
        await come_back(play, sight)
        await work(play, sight)
        print(f"{sight.game.next_round} rounds were opened by block {sight.state.head_block}")
        check(play, sight)
        assert [one.stop() for one in play.lent.values()] == [130, 130]


def has_seat(sight: Sight, account: str) -> bool:
    return sight.task in sight.state.games and find_seat(sight.game, account) is not None


async def wait_for_seats(play: Play, sight: Sight) -> None:
    """Nobody uses the machines: each node takes a seat by itself, and runs at the lowest priority."""
    await play.until(lambda: all(has_seat(sight, one.account) for one in play.lent.values()))
    for one in play.lent.values():
        assert "waiting until nobody has used the machine for 0.05 minutes" in one.read()
        assert one.process is not None and os.getpriority(os.PRIO_PROCESS, one.process.pid) == 19


async def work(play: Play, sight: Sight) -> None:
    """Until the lent solver has claimed, and the lent verifier has voted, once more."""
    solver, verifier = (play.lent[name].account for name in LENT)
    claims, votes = sight.count_claims(solver), sight.count_votes(verifier)
    await play.until(lambda: sight.count_claims(solver) > claims and sight.count_votes(verifier) > votes)


async def use_and_leave(play: Play, sight: Sight) -> None:
    """Somebody comes to both machines. The seats leave, serve, and are paid out; then the nodes wait, as long
    as somebody is there."""
    for one in play.lent.values():
        one.use()
    await play.until(lambda: all(is_leaving(sight, one.account) for one in play.lent.values()))
    said = "somebody types in a terminal: the seat leaves"
    await play.until(lambda: all(said in one.read() for one in play.lent.values()))
    await play.until(lambda: not any(has_seat(sight, one.account) for one in play.lent.values()))
    await play.until(lambda: all(is_waiting(one) for one in play.lent.values()))


def is_leaving(sight: Sight, account: str) -> bool:
    seat = find_seat(sight.game, account)
    return seat is not None and seat.status == SeatStatus.LEAVING


def is_waiting(one: Lent) -> bool:
    state = read_node_state(one.home)
    return state is not None and state.is_waiting(time.time())


async def come_back(play: Play, sight: Sight) -> None:
    """Whoever came goes: the nodes take their seats again."""
    assert not any(has_seat(sight, one.account) for one in play.lent.values()), "somebody is still there"
    for one in play.lent.values():
        one.leave_alone()
    await play.until(lambda: all(has_seat(sight, one.account) for one in play.lent.values()))


def check(play: Play, sight: Sight) -> None:
    """No fee, the whole stake back, the same stake again, and nothing missed in a round that held a seat."""
    for name, one in play.lent.items():
        print(f"{name}: {sight.list_moves(one.account)}; rounds that held it: {sight.list_held(one.account)}")
        first, second = sight.list_told("SeatJoined", one.account)
        assert first == second > 0 and sight.list_told("SeatFreed", one.account) == [first]
        fees = sight.list_told("SeatSettled", one.account)
        assert fees and not any(fees)
        assert not sight.list_unclaimed(one.account)
        assert not [place for place in sight.missed if place[0] == one.account]
