"""Can a machine with little memory take a large claim to court?

One dispute about a step of a model of 155 million parameters (1,024 wide, 12 layers, 512 tokens), end to end
over a real Anvil, every party a process of its own: a solver that skipped the step and grafts its claim onto
an honest trace of 20 GB, and an honest verifier that replays, compares, disputes, recomputes, looks into the
trace and proves the fault, with a limit on its memory. With `--kernel-rank 1` the verifier computes with
other kernels than the solver: float noise is in all tensors then, and all of the trace has to be fetched.
Writes build/large_dispute/report.json.
"""

import argparse
import asyncio
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.program import LARGE_MODEL
from benchmarks.setting import BUILD, write_report
from node.submit import TaskPlan
from protocol.actions.view import View
from protocol.adapters.chain import open_chain
from protocol.adapters.chain.connection import Connection
from protocol.spec.containers import Windows
from protocol.spec.game_events import DisputeConvicted, DisputeOpened, Slashed
from protocol.spec.params import MIN_VERIFIERS, TOKEN_WEI
from scripts.devnet import fund
from tests.e2e.faults import read_costs
from tests.e2e.party import __file__ as PARTY
from tests.e2e.reading import find
from tests.e2e.report import find_task, read_view
from tests.e2e.roster import Member
from tests.e2e.stage import Actor, Folders, make_actors, make_environment, stake_all
from tests.e2e.world import ONE_ROUND_PLAN, World, open_world, run_world

MEMORY_MB = 1_500
"""What the parties are told to use. A process holds somewhat more at its worst moment: what PyTorch and the
last piece of work take."""
STAKE_WEI = 2_000 * TOKEN_WEI
UNBONDING_BLOCKS = 100_000
WINDOWS = Windows(
    enrol=4_000, delay=2, seal=100, train=2_000, start=500, replay=4_000, show=1_000, open=2_000,
    merge=500, dispute=500, respond=6_000, name=4_000, prove=8_000,
)  # fmt: skip
"""A block takes a quarter of a second at least, a step some minutes where others work beside it."""
PLAN: TaskPlan = replace(
    ONE_ROUND_PLAN,
    model=LARGE_MODEL,
    windows=WINDOWS,
    schedule=replace(ONE_ROUND_PLAN.schedule, warmup_steps=1, total_steps=1),
    inner_steps=1,
    segment_steps=1,
    segment_draws=1,
    amounts=replace(ONE_ROUND_PLAN.amounts, no_show_fee=20 * TOKEN_WEI),
    max_solvers=1,
    sequences_per_step=1,
    sequence_tokens=LARGE_MODEL.context_tokens,
)
DEADLINE_S = 5_400.0
FETCHED = re.compile(r"fetched ([0-9.]+) MB of the trace")
CHEAT = "cheat"
READY = "checked one step"
LOOK_S = 0.5


def list_members(kernel_rank: int) -> list[Member]:
    """The solver, and as many verifiers as a round needs: one is drawn and disputes."""
    verifiers = [
        Member(f"verifier-{number}", "verify", "verifier", True, STAKE_WEI, kernel_rank, MEMORY_MB)
        for number in range(MIN_VERIFIERS)
    ]
    return [Member(CHEAT, "skip", "solver", False, STAKE_WEI, memory_mb=4 * MEMORY_MB), *verifiers]


@dataclass
class Stage:
    """The parties as processes, by name."""

    folders: Folders
    actors: Sequence[Actor]
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    async def direct(self, world: World) -> None:
        """Start one after the other once there is a task: each traces a step before it enrols."""
        while not world.task:
            await asyncio.sleep(LOOK_S)
        for actor in self.actors:
            self.start(actor, world.keys["submitter"].address)
            while READY not in self.find_log(actor.member.name).read_text():
                await asyncio.sleep(LOOK_S)

    def start(self, actor: Actor, submitter: str) -> None:
        """One party's process, from its home."""
        command = [sys.executable, PARTY, actor.member.kind, "--home", str(actor.home)]
        command += ["--submitter", submitter, "--skip", "1"]
        environment = make_environment(self.folders, actor.member.kernel_rank)
        with self.find_log(actor.member.name).open("wb") as log:
            self.processes[actor.member.name] = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def find_log(self, name: str) -> Path:
        """What a party says."""
        return self.folders.logs / f"{name}.log"

    def end(self) -> None:
        """End all of them."""
        for process in self.processes.values():
            process.kill()
            process.wait()


def read_peak_gb(pid: int) -> float:
    """The most that a living process ever held in memory, 10^9 bytes (VmHWM, man 5 proc)."""
    match = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert match is not None
    return int(match[1]) * 1024 / 1e9


async def dispute(folder: Path, kernel_rank: int) -> dict[str, Any]:
    """Play it to the conviction."""
    folders, started = Folders(folder), time.monotonic()
    async with open_world(folder, [], UNBONDING_BLOCKS) as world:
        actors = make_actors(folders, list_members(kernel_rank), world.devnet.rpc_url)
        await endow(world, actors)
        stage = Stage(folders, actors)
        try:
            playing = run_world(world, PLAN, {}, is_convicted, strangers=len(actors), deadline_s=DEADLINE_S)
            await asyncio.gather(playing, stage.direct(world))
            peaks = {name: read_peak_gb(process.pid) for name, process in stage.processes.items()}
        finally:
            stage.end()
        async with open_chain(world.devnet.rpc_url, world.deployment) as chain:
            view, costs = await read_view(chain), await read_costs(chain)
    [convicted] = find(view, DisputeConvicted)
    slashed = {event.account for event in find(view, Slashed)}
    openers = {event.dispute: event.opener for event in find(view, DisputeOpened)}
    names = {actor.account: actor.member.name for actor in actors}
    challenger = names[openers[convicted.dispute]]
    fetched = FETCHED.findall(stage.find_log(challenger).read_text())
    gas = costs[convicted.dispute]
    return {
        "parameters": find_task(view).terms.parameter_count,
        "reason": convicted.reason.rstrip(b"\0").decode(),
        "slashed": [names[account] for account in slashed],
        "challenger_peak_gb": peaks[challenger],
        "claimant_peak_gb": peaks[CHEAT],
        "fetched_mb": max(map(float, fetched), default=0.0),
        "gas": sum(gas),
        "transactions": len(gas),
        "wall_s": round(time.monotonic() - started, 1),
    }


async def endow(world: World, actors: tuple[Actor, ...]) -> None:
    """Coin, tokens and stake for everybody."""
    connection = Connection(world.devnet.rpc_url)
    try:
        await fund(connection, world.deployment, [actor.key.address for actor in actors])
    finally:
        await connection.close()
    await stake_all(world.devnet, actors)


def is_convicted(view: View) -> bool:
    """The end."""
    return bool(find(view, DisputeConvicted))


def main() -> None:
    """Play it, and write down what it took."""
    parser = argparse.ArgumentParser(
        description="Can a machine with little memory take a large claim to court?"
    )
    parser.add_argument("--kernel-rank", type=int, default=0, help="1: the verifier uses lesser kernels")
    options = parser.parse_args()
    folder = BUILD / "large_dispute"
    shutil.rmtree(folder, ignore_errors=True)
    Folders(folder).clear()
    report = asyncio.run(dispute(folder, options.kernel_rank))
    shutil.rmtree(Folders(folder).parties)
    print(report)
    print(write_report("large_dispute", report))


if __name__ == "__main__":
    main()
