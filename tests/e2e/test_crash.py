"""Solvers and verifiers killed with SIGKILL in mid-round and started again from the same home: they lose
nothing. The test network's clock skips nothing while a party is down."""

import asyncio
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from protocol.actions.view import View
from protocol.adapters.chain import Chain, open_chain
from protocol.adapters.chain.connection import Connection
from protocol.spec.events import Committed, ReplayCommitted, Revealed, StartOpened
from protocol.spec.game_events import FeeBurned, Slashed
from protocol.spec.params import TOKEN_WEI
from protocol.spec.statuses import ClaimStatus
from scripts.devnet import fund
from tests.e2e.money import fold_books
from tests.e2e.reading import find, is_settled, list_rounds
from tests.e2e.report import find_task, read_view
from tests.e2e.roster import Member
from tests.e2e.stage import Actor, Folders, make_actors, stake_all
from tests.e2e.tiny_party import run_party
from tests.e2e.world import ONE_ROUND_PLAN, WINDOWS, World, open_world, run_world

FORKS = get_context("forkserver")
"""Processes of their own, but what all import is imported once, in a process that does nothing else."""
FORKS.set_forkserver_preload(["tests.e2e.tiny_party"])
STAKE_WEI = 2_000 * TOKEN_WEI
MEMBERS = (
    Member("slow-solver", "slow-solve", "solver", True, STAKE_WEI),
    Member("solver", "solve", "solver", True, STAKE_WEI),
    *(Member(f"verifier-{index}", "verify", "verifier", True, STAKE_WEI) for index in range(3)),
)
# Long enough for a process to start in, on a machine that does other things besides.
LONG = replace(WINDOWS, enrol=900, train=600, start=300, replay=500, show=300)
PLAN = replace(ONE_ROUND_PLAN, windows=LONG)
LOOK_S = 0.1


@dataclass
class Troupe:
    """The parties as processes, by name. `lives` counts the starts of each."""

    folders: Folders
    actors: dict[str, Actor]
    task: bytes = b""
    processes: dict[str, ForkServerProcess] = field(default_factory=dict)
    lives: dict[str, int] = field(default_factory=dict)

    def start(self, name: str) -> None:
        """Start a party from its home, for the first time or again."""
        actor, self.lives[name] = self.actors[name], self.lives.get(name, 0) + 1
        words = (actor.member.kind, actor.home, self.task, self.find_log(name, self.lives[name]))
        self.processes[name] = FORKS.Process(target=run_party, args=words, daemon=True)
        self.processes[name].start()

    def find_log(self, name: str, life: int) -> Path:
        return self.folders.logs / f"{name}-{life}.log"

    def read_log(self, name: str, life: int = 1) -> str:
        path = self.find_log(name, life)
        return path.read_text(errors="replace") if path.exists() else ""

    def restart(self, name: str) -> None:
        """SIGKILL, and another start."""
        self.processes[name].kill()
        self.processes[name].join()
        assert self.processes[name].exitcode == -signal.SIGKILL
        self.start(name)

    def name_of(self, account: str) -> str:
        return next(name for name, actor in self.actors.items() if actor.account == account)


@contextmanager
def gather_troupe(folder: Path, rpc_url: str) -> Iterator[Troupe]:
    """Homes for all members; whatever was started is ended with the block."""
    folders = Folders(folder)
    for path in (folders.parties, folders.logs):
        path.mkdir(mode=0o700)
    actors = make_actors(folders, MEMBERS, rpc_url)
    troupe = Troupe(folders, {actor.member.name: actor for actor in actors})
    try:
        yield troupe
    finally:
        for process in troupe.processes.values():
            process.kill()
            process.join()


async def endow(world: World, actors: Sequence[Actor]) -> None:
    """Money and stake for everybody."""
    connection = Connection(world.devnet.rpc_url)
    try:
        await fund(connection, world.deployment, [actor.key.address for actor in actors])
    finally:
        await connection.close()
    await stake_all(world.devnet, actors)


async def direct(world: World, troupe: Troupe) -> None:
    """Start everybody once there is a task, and kill each of three in the middle of what it does."""
    while not world.task:
        await asyncio.sleep(LOOK_S)
    troupe.task = world.task
    for name in troupe.actors:
        troupe.start(name)
    async with open_chain(world.devnet.rpc_url, world.deployment) as chain:
        await asyncio.gather(
            kill_while_training(troupe), kill_after_commit(chain, troupe), kill_while_blind(chain, troupe)
        )


async def kill_while_training(troupe: Troupe) -> None:
    """The slow solver, once it has its first segments behind it."""
    while "trained 4 of 8 steps" not in troupe.read_log("slow-solver"):
        await asyncio.sleep(LOOK_S)
    troupe.restart("slow-solver")


async def kill_after_commit(chain: Chain, troupe: Troupe) -> None:
    """The other solver, when its claim is on chain and nothing of it is opened yet."""
    me, view = troupe.actors["solver"].account, await read_view(chain)
    while not [event for event in find(view, Committed) if event.solver == me]:
        await asyncio.sleep(LOOK_S)
        view = await read_view(chain)
    assert not find(view, StartOpened)
    troupe.restart("solver")


async def kill_while_blind(chain: Chain, troupe: Troupe) -> None:
    """The first verifier that has committed to a result, before anything is revealed."""
    view = await read_view(chain)
    while not find(view, ReplayCommitted):
        await asyncio.sleep(LOOK_S)
        view = await read_view(chain)
    assert not find(view, Revealed)
    troupe.restart(troupe.name_of(find(view, ReplayCommitted)[0].auditor))


async def test_who_is_killed_comes_back_and_loses_nothing(tmp_path: Path) -> None:
    def is_enough(view: View) -> bool:
        return any(map(is_settled, list_rounds(view)))

    async with open_world(tmp_path, []) as world:
        with gather_troupe(tmp_path, world.devnet.rpc_url) as troupe:
            await endow(world, list(troupe.actors.values()))
            playing = run_world(world, PLAN, {}, is_enough, strangers=len(MEMBERS))
            await asyncio.gather(playing, direct(world, troupe))
        async with open_chain(world.devnet.rpc_url, world.deployment) as chain:
            view = await read_view(chain)
        [state], books = find_task(view).rounds, fold_books(view.events)
        killed = [name for name, lives in troupe.lives.items() if lives == 2]
        assert {"slow-solver", "solver"} < set(killed) and len(killed) == 3

        # Both claims stand and are paid, all audits are revealed and paid, nobody lost anything.
        assert [claim.status for claim in state.claims.values()] == 2 * [ClaimStatus.ACCEPTED]
        assert not find(view, Slashed) and not find(view, FeeBurned)
        earned = {name: books[actor.account].earned for name, actor in troupe.actors.items()}
        amounts = PLAN.amounts
        assert earned["solver"]["solver"] == earned["slow-solver"]["solver"] == amounts.solver_pay
        assert sum(one["audit"] for one in earned.values()) == 2 * PLAN.segment_draws * amounts.audit_pay

        # The solver went on at its last boundary: its first segment was never trained again.
        assert "trained 2 of 8 steps" not in troupe.read_log("slow-solver", life=2)
        assert "trained 8 of 8 steps" in troupe.read_log("slow-solver", life=2)
