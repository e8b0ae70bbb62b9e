"""A small world in one process: a real Anvil with the round's contracts, real HTTPS between parties that run
as tasks, a tiny model."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from eth_account import Account

from tests.e2e.clock import RoundClock
from tests.task_plans import make_plan
from touchstone.demo import parts
from touchstone.node.kit.config import NodeConfig
from touchstone.node.kit.duty import Room
from touchstone.node.loop.joined import Joined
from touchstone.node.loop.node import Node
from touchstone.node.loop.opening import open_node
from touchstone.node.submit import RoundPlan, build_task, post_task
from touchstone.node.upkeep import upkeep_duties
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.deployment import GameDeployment, write_game_deployment
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.spec.float32 import nearest
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.terms import GameAmounts, GameWindows
from touchstone.protocol.spec.task_spec import Limits, ScheduleConfig
from touchstone.scripts.network.contract_creation import deploy_game
from touchstone.scripts.network.devnet import fund, give_coin, run_anvil
from touchstone.scripts.roles.role_nodes import Member
from touchstone.step.plain_decoder import DecoderConfig

TINY_MODEL = DecoderConfig(256, 16, 32, 1, 2, 1, 32)
WINDOWS = GameWindows(
    delay=1, draw_grid=2, train_min=130, train_max=240, audit_max=90, post=20, respond=60, dispute=600,
    query=2_100,
)  # fmt: skip
AMOUNTS = GameAmounts(
    solver_stake=2_000, auditor_stake=500, solver_pay=100, audit_pay=10, late_pay=20, dropped_fee=60,
    unserved_fee=70, contest_bond=300, query_bond=40, dispute_bond=80, finder_cap=150,
)  # fmt: skip
TINY_PLAN = make_plan(
    model=TINY_MODEL,
    schedule=ScheduleConfig(nearest(2e-3), warmup_steps=4, total_steps=24),
    windows=WINDOWS,
    amounts=AMOUNTS,
    limits=Limits(2**50, 2**132, 2**50, 2**60, 2**50, 2**42),
    rounds=3,
    inner_steps=8,
    segment_steps=2,
    solver_seats=4,
    draws=1,
    late_chance=1 << 16,
    least_solvers=2,
    least_verifiers=3,
    least_whistleblowers=3,
    carry_moments=1,
    outer_learning_rate=nearest(0.7),
    outer_momentum=nearest(0.9),
    sequences_per_step=2,
    sequence_tokens=16,
    heldout_tokens=1024,
    initial_seed=1,
)
GRANT_WEI = 10**9
LOOK_S = 0.2
KILL_LOOK_S = 0.01
GRANT_COIN_WEI = 1_000 * 10**18


def make_dataset(size_bytes: int = 8_192) -> bytes:
    """Bytes with some structure, the same on every machine."""
    words = [hashlib.sha256(bytes([i])).hexdigest()[: 3 + i % 5].encode() for i in range(40)]
    text = b" ".join(words[(i * i + 3 * i) % 40] for i in range(size_bytes))
    return text[:size_bytes]


Kind = TypeVar("Kind", bound=Node)


class Keeper(Node):
    """A submitter that sends what is due, and nothing more."""

    def list_rooms(self) -> Sequence[Room[Any]]:
        return (Room(upkeep_duties.list_duties, self.rooms.upkeep),)


@dataclass(frozen=True)
class Part(parts.Part):
    """What a party does. is_killed: it is killed, once, when this holds, and started again. plays: who plays
    it instead of the world, given the world, its name and this."""

    is_killed: Callable[[Member], bool] = lambda node: False
    plays: Callable[["World", str, "Part"], Awaitable[None]] | None = None


@dataclass
class World:
    """A running test network. lines: what the parties said, with their names; parties: who is open now;
    unseated: who has no seat yet. Nobody plays before all have one, so the first round has the whole cast;
    endpoints: of the chain, for those who do not ask it directly."""

    rpc_url: str
    deployment: GameDeployment
    path: Path
    folder: Path
    keys: dict[str, AccountKey]
    lines: list[str] = field(default_factory=list)
    parties: dict[str, Node] = field(default_factory=dict)
    task: bytes = b""
    unseated: set[str] = field(default_factory=set)
    all_seated: asyncio.Event = field(default_factory=asyncio.Event)
    endpoints: dict[str, str] = field(default_factory=dict)

    async def wait_for_seats(self, name: str) -> None:
        """`name` has its seat; returns when everybody has."""
        self.unseated.discard(name)
        if not self.unseated:
            self.all_seated.set()
        await self.all_seated.wait()

    def configure(self, name: str) -> NodeConfig:
        """The configuration of the party called `name`."""
        home = self.folder / name
        home.mkdir(mode=0o700, exist_ok=True)
        notify: Callable[[str], None] = lambda line: self.lines.append(f"{name}: {line}")  # noqa: E731
        return NodeConfig(
            home, self.path, self.endpoints.get(name, self.rpc_url), self.keys[name], notify=notify
        )

    @asynccontextmanager
    async def open(self, name: str, role: type[Kind]) -> AsyncIterator[Kind]:
        """The party called `name`, which the clock waits for."""
        async with open_node(self.configure(name), role) as node:
            self.parties[name] = node
            try:
                yield node
            finally:
                self.parties.pop(name, None)


@asynccontextmanager
async def open_world(folder: Path, names: Sequence[str]) -> AsyncIterator[World]:
    """Anvil, contracts and funded accounts for a submitter and `names`."""
    keys = {name: AccountKey(Account.create()) for name in ("submitter", *names)}
    async with run_anvil(0, folder / "anvil.log", options=("--gas-limit", "60000000")) as rpc_url:
        connection = Connection(rpc_url)
        try:
            deployer, path = AccountKey(Account.create()), folder / "deployment.json"
            await give_coin(connection, deployer.address, GRANT_COIN_WEI)
            deployment = await deploy_game(connection, deployer, BOUNDS_LOCAL, report=lambda _: None)
            write_game_deployment(path, deployment)
            accounts = [key.address for key in keys.values()]
            await fund(connection, deployment, accounts, token_wei=GRANT_WEI)
        finally:
            await connection.close()
        yield World(rpc_url, deployment, path, folder, keys)


async def run_world(
    world: World,
    plan: RoundPlan,
    cast: Mapping[str, Part],
    until: Callable[[Node], bool] = lambda submitter: False,
    deadline_s: float = 3_600.0,
    least_parties: int | None = None,
) -> tuple[LoggedGame, Joined]:
    """Post the task and let everybody play it to the end, or until what the chain tells the submitter is
    enough; the task as the submitter knows it then. least_parties: of those that are there idle blocks are
    skipped, all unless some go. Raises TimeoutError after `deadline_s`, and what the first failing party
    raises."""
    async with AsyncExitStack() as stack:
        submitter = await stack.enter_async_context(world.open("submitter", Keeper))
        connection = Connection(world.rpc_url)
        stack.push_async_callback(connection.close)
        clock = RoundClock(connection, world.parties)
        dataset = make_dataset()
        built = build_task(plan, dataset, submitter.account, bytes(32))
        world.task = await post_task(submitter.chain, submitter.store, *built, dataset)
        ticking = asyncio.create_task(clock.run(least_parties or 1 + len(cast)))
        world.unseated = {"submitter", *cast}
        players = [asyncio.create_task(_follow(world, submitter))]
        players += [asyncio.create_task(_start(world, name, part)) for name, part in cast.items()]
        try:
            async with asyncio.timeout(deadline_s):
                await _play_until(players, ticking, lambda: until(submitter))
        finally:
            for task in (ticking, *players):
                task.cancel()
            await asyncio.gather(ticking, *players, return_exceptions=True)
        return submitter.game, submitter.task


async def _follow(world: World, submitter: Keeper) -> None:
    await world.wait_for_seats("submitter")
    await submitter.work_on(world.task)


async def _start(world: World, name: str, part: Part) -> None:
    await (part.plays or _play)(world, name, part)


async def join(world: World, node: Member, name: str, part: Part) -> None:
    """The party takes its seat, and waits until all have theirs."""
    await node.following.take_next()
    await node.join(world.task)
    part.spoil(node)
    await node.rooms.seat_taking.take_seat(part.request)
    await world.wait_for_seats(name)


async def _play(world: World, name: str, part: Part) -> None:
    async with world.open(name, part.role) as node:
        await join(world, node, name, part)
        looping = asyncio.create_task(part.make_loop(node).run())
        while not looping.done() and not part.is_killed(node):
            await asyncio.wait({looping}, timeout=KILL_LOOK_S)
        is_killed = not looping.done()
        looping.cancel()
        await asyncio.gather(looping, return_exceptions=is_killed)
    if is_killed:
        world.lines.append(f"{name}: killed")
        await _play(world, name, replace(part, is_killed=lambda node: False))


async def _play_until(
    players: Sequence[asyncio.Task[None]], ticking: asyncio.Task[None], is_enough: Callable[[], bool]
) -> None:
    while not all(player.done() for player in players) and not is_enough():
        done, _ = await asyncio.wait({*players, ticking}, timeout=LOOK_S, return_when=asyncio.FIRST_EXCEPTION)
        for one in done:
            one.result()
