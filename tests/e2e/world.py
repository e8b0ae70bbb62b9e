"""A small world in one process: a real Anvil, real HTTP between parties that run as tasks, a tiny model.

For tests that look inside a round. The demo has the same parts as processes of their own.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from eth_account import Account

from node.submit import TaskPlan, create_task, follow_task
from protocol.actions.join import catch_up, join_task
from protocol.actions.participant import Participant
from protocol.actions.party import Party, PartyConfig, open_party
from protocol.actions.view import View
from protocol.adapters.chain import Deployment
from protocol.adapters.keys import AccountKey
from protocol.spec.containers import Limits, ModelConfig, ScheduleConfig, Windows
from protocol.spec.float32 import nearest
from protocol.spec.params import DEVNET, TOKEN_WEI
from tests.e2e.first_clock import DevnetClock
from tests.e2e.first_devnet import Devnet, DevnetOptions, run_devnet

TINY_MODEL = ModelConfig(256, 16, 32, 1, 2, 1, 32)
ACCEPT = Limits(2**50, 2**132, 2**50, 2**60, 2**50, 2**42)
REJECT = replace(ACCEPT, tau_m=2**53, tau_v=2**53, tau_w=2**53, tau_r=2**44)
WINDOWS = Windows(
    enrol=240, delay=2, seal=40, train=120, start=40, replay=80, show=40, open=40,
    merge=40, dispute=40, respond=60, name=40, prove=40,
)  # fmt: skip
LONG_WINDOWS = replace(
    WINDOWS, train=400, start=80, replay=160, show=80, open=80, respond=150, name=80, prove=80
)
"""Where dozens of parties work in one process; idle blocks are skipped."""
TINY_PLAN = TaskPlan(
    model=TINY_MODEL,
    schedule=ScheduleConfig(nearest(2e-3), warmup_steps=4, total_steps=16),
    windows=WINDOWS,
    amounts=DEVNET.amounts,
    accept=ACCEPT,
    reject=REJECT,
    rounds=2,
    inner_steps=8,
    segment_steps=2,
    max_solvers=4,
    max_verifiers=6,
    max_whistleblowers=2,
    segment_draws=2,
    leaf_draws=2,
    late_rate=65536,
    carry_moments=1,
    outer_learning_rate=nearest(0.7),
    outer_momentum=nearest(0.9),
    sequences_per_step=2,
    sequence_tokens=16,
    heldout_tokens=1024,
    initial_seed=1,
)
STAKE_WEI = 2_000 * TOKEN_WEI
LOOK_S = 0.2
DEADLINE_S = 1_800.0
"""A world that stands still fails its test instead of holding up all others; a sound one takes a minute."""
ONE_ROUND_PLAN = replace(
    TINY_PLAN,
    rounds=1,
    schedule=replace(TINY_PLAN.schedule, total_steps=8),
    max_whistleblowers=0,
    late_rate=0,
)


def make_dataset(size_bytes: int = 8_192) -> bytes:
    """Bytes with some structure, the same on every machine."""
    words = [hashlib.sha256(bytes([i])).hexdigest()[: 3 + i % 5].encode() for i in range(40)]
    text = b" ".join(words[(i * i + 3 * i) % 40] for i in range(size_bytes))
    return text[:size_bytes]


@dataclass
class World:
    """A running test network with a task on it. `lines`: what the parties said, with their names."""

    devnet: Devnet
    folder: Path
    keys: dict[str, AccountKey]
    lines: list[str]
    task: bytes = b""

    @property
    def deployment(self) -> Deployment:
        """Where the contracts are."""
        return self.devnet.deployment

    def configure(self, name: str) -> PartyConfig:
        """The configuration of the party called `name`."""
        home = self.folder / name
        home.mkdir(mode=0o700, exist_ok=True)
        say: Callable[[str], None] = lambda line: self.lines.append(f"{name}: {line}")  # noqa: E731
        return PartyConfig(home, self.devnet.path, self.devnet.rpc_url, self.keys[name], say=say)


Build = Callable[[Party], Participant]
"""Makes the role that a party plays."""


async def play(world: World, name: str, build: Build) -> None:
    """Stake and take part to the end."""
    async with open_party(world.configure(name)) as party:
        await party.chain.token.approve(party.chain.deployment.vault, STAKE_WEI)
        await party.chain.vault.deposit(STAKE_WEI)
        await catch_up(party)
        await join_task(party, world.task)
        await build(party).run()


@asynccontextmanager
async def open_world(
    folder: Path, names: Sequence[str], unbonding_blocks: int = DEVNET.unbonding_blocks
) -> AsyncIterator[World]:
    """Anvil, contracts and funded accounts for a submitter and `names`. unbonding_blocks: more than all
    windows of its tasks."""
    keys = {name: AccountKey(Account.create()) for name in ("submitter", *names)}
    options = DevnetOptions(
        path=folder / "deployment.json",
        log=folder / "anvil.log",
        fund=tuple(key.address for key in keys.values()),
        unbonding_blocks=unbonding_blocks,
    )
    async with run_devnet(options, report=lambda _: None) as devnet:
        yield World(devnet, folder, keys, [])


async def run_world(
    world: World,
    plan: TaskPlan,
    cast: dict[str, Build],
    until: Callable[[View], bool] | None = None,
    strangers: int = 0,
    deadline_s: float = DEADLINE_S,
) -> None:
    """Post the task and let everybody play it to the end, or until what the chain tells is enough; idle
    blocks are skipped. strangers: how many more parties the caller starts. Raises TimeoutError after
    `deadline_s`."""
    least = 1 + len(cast) + strangers
    async with AsyncExitStack() as stack:
        submitter = await stack.enter_async_context(open_party(world.configure("submitter")))
        clock = await stack.enter_async_context(DevnetClock(submitter.chain, least_parties=least))
        world.task = await create_task(submitter, plan, make_dataset(), bytes(32))
        ticking = asyncio.create_task(clock.run())
        players = [asyncio.create_task(play(world, name, build)) for name, build in cast.items()]
        players.append(asyncio.create_task(follow_task(submitter, world.task)))
        try:
            async with asyncio.timeout(deadline_s):
                await _play_until(players, ticking, lambda: until is not None and until(submitter.view))
        finally:
            for task in (ticking, *players):
                task.cancel()
            await asyncio.gather(ticking, *players, return_exceptions=True)


async def _play_until(
    players: Sequence[asyncio.Task[None]], ticking: asyncio.Task[None], is_enough: Callable[[], bool]
) -> None:
    """Wait for all players or for `is_enough`. Raises what the first failing player, or the clock, raises."""
    while not all(player.done() for player in players) and not is_enough():
        done, _ = await asyncio.wait({*players, ticking}, timeout=LOOK_S, return_when=asyncio.FIRST_EXCEPTION)
        for one in done:
            one.result()
