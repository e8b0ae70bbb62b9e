"""`./dev demo`: strangers train a model over a local chain, cheats are caught and slashed.

Anvil, the contracts, and a process for each party that shares nothing with the others but the chain and HTTP.
When the task is over, `report.py` tells from the chain's logs what happened, and every expectation is judged.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from protocol.actions.view import View
from protocol.adapters.chain import open_chain
from protocol.spec.economics import compute_worst_span_blocks
from protocol.spec.errors import EnvironmentFault, TouchstoneError
from protocol.spec.params import DEVNET
from scripts.devnet import fund
from scripts.toolchain import ROOT
from tests.e2e.company import Company, open_company
from tests.e2e.draw_odds import check_draws
from tests.e2e.first_devnet import Devnet, DevnetOptions, keep_time, run_devnet
from tests.e2e.isolation import is_supported
from tests.e2e.luck import Luck, choose_rounds, compute_run_luck
from tests.e2e.pace import compute_factor, measure_step_s, widen
from tests.e2e.party import SERVING, WAITING
from tests.e2e.plan import LEAST_ROUNDS, WINDOWS, build_plan
from tests.e2e.roster import make_roster
from tests.e2e.screen import Screen
from tests.e2e.stage import (
    HERE,
    Actor,
    Folders,
    confine,
    make_actors,
    make_environment,
    stake_all,
)
from tests.e2e.verdict import compute_exported_root, judge_run

DEFAULT_SKIP = Fraction(1, 3)
VERBS = {"skip": "skips steps", "invent": "invents results"}
NOTICE_S = 60.0
"""Between two lines that say that nothing happened."""


@dataclass(frozen=True)
class Run:
    """What one run is about."""

    folders: Folders
    actors: tuple[Actor, ...]
    rounds: int
    skip: Fraction
    luck: Luck
    step_s: float
    """Seconds of a training step, measured before the run."""

    @property
    def window_factor(self) -> int:
        """How many times as long as the preset's the windows are."""
        return compute_factor(self.step_s, os.cpu_count() or 1, WINDOWS)

    @property
    def worst_span_blocks(self) -> int:
        """More blocks than anything in a round can take."""
        return compute_worst_span_blocks(widen(WINDOWS, self.window_factor))

    @property
    def options(self) -> list[str]:
        """What the parties are started with."""
        numbers = {"rounds": self.rounds, "skip": self.skip, "window-factor": self.window_factor}
        return [word for name, number in numbers.items() for word in (f"--{name}", str(number))]

    @property
    def names(self) -> dict[str, str]:
        """Name by account."""
        return {actor.account: actor.member.name for actor in self.actors}


async def demonstrate(options: argparse.Namespace) -> bool:
    """One whole run; whether every expectation holds."""
    started_s = time.monotonic()
    folders = Folders(ROOT / "build" / "demo")
    with_cheats = options.cheats == "all"
    least = max(options.rounds, LEAST_ROUNDS)
    rounds = choose_rounds(make_roster(least, with_cheats=with_cheats), options.skip, least)
    cast = make_roster(rounds, with_cheats=with_cheats)
    luck = compute_run_luck(build_plan(rounds), cast, options.skip)
    with folders.hold():
        folders.clear()
        step_s = await asyncio.to_thread(measure_step_s)
        run = Run(folders, (), rounds, options.skip, luck, step_s)
        setup = DevnetOptions(
            path=folders.deployment,
            log=folders.logs / "anvil.log",
            unbonding_blocks=max(DEVNET.unbonding_blocks, run.worst_span_blocks + 1),
        )
        async with run_devnet(setup, report=lambda _: None) as devnet:
            run = replace(run, actors=make_actors(folders, cast, devnet.rpc_url))
            await fund_all(devnet, run.actors)
            return await play(run, devnet, started_s, options)


async def fund_all(devnet: Devnet, actors: Sequence[Actor]) -> None:
    """Money from the tap, and everybody's stake."""
    async with open_chain(devnet.rpc_url, devnet.deployment) as chain:
        await fund(chain.connection, devnet.deployment, [actor.key.address for actor in actors])
    await stake_all(devnet, actors)


async def play(run: Run, devnet: Devnet, started_s: float, options: argparse.Namespace) -> bool:
    """Start everybody, watch, report, judge."""
    with Screen(run.names, run.rounds) as screen:
        introduce(run, devnet, screen)
        if options.skip != DEFAULT_SKIP:
            screen.say(str(await check_draws(devnet.rpc_url, devnet.deployment, options.skip)))
        with open_company(run.folders, run.actors, run.options, screen.say) as company:
            await company.start_all(WAITING)
            ticking = asyncio.create_task(keep_time(devnet, None, len(run.actors)))
            try:
                await watch(run, devnet, company, screen, ticking)
                await company.wait_for_line(SERVING)
            finally:
                ticking.cancel()
            report = await make_report(run, devnet, started_s)
    findings = judge_run(report, run.rounds, DEVNET.amounts.solver_pay)
    screen.show_result(report, findings)
    if options.keep:
        screen.say(f"the chain stays at {devnet.rpc_url} until Ctrl-C")
        await asyncio.Event().wait()
    return all(finding.holds for finding in findings)


def introduce(run: Run, devnet: Devnet, screen: Screen) -> None:
    """Who takes part, and how likely the run fails by luck."""
    names = ", ".join(actor.member.name for actor in run.actors)
    screen.say(
        f"chain {devnet.deployment.chain_id} at {devnet.rpc_url}; {len(run.actors)} processes:\n{names}"
    )
    if is_supported():
        screen.say("each process sees only its own folder below build/demo/parties (Landlock)")
    else:
        screen.say(
            "WARNING: this kernel has no Landlock: that parties read only their own folder is not enforced"
        )
    for kind, escape in run.luck.escapes.items():
        screen.say(
            f"chance that no draw in {run.rounds} rounds meets the one who {VERBS[kind]}: {float(escape):.1e}"
        )
    screen.say(f"chance that this run fails by luck: {float(run.luck.total):.2e}, below 1 in 1,000")
    screen.say(
        f"one training step takes {run.step_s:.2f} s now: windows are {run.window_factor} times the preset's"
    )


async def watch(
    run: Run, devnet: Devnet, company: Company, screen: Screen, ticking: "asyncio.Task[None]"
) -> None:
    """Tell what happens until the task is closed. Raises EnvironmentFault when a party dies or nothing
    happens for longer than a round can last, and whatever ended the clock."""
    view = View("", devnet.deployment.chain_id, devnet.deployment.registry)
    last_block, notice_s = 0, time.monotonic() + NOTICE_S
    async with open_chain(devnet.rpc_url, devnet.deployment) as chain:
        async for batch in chain.follow():
            events = view.take(batch)
            screen.tell(events)
            task = next(iter(view.tasks.values()), None)
            if task is not None:
                screen.move(task, batch.head.number)
                if task.is_closed:
                    return
            if events or not last_block:
                last_block, notice_s = batch.head.number, time.monotonic() + NOTICE_S
            if time.monotonic() > notice_s:
                screen.say(f"nothing new since block {last_block}; all parties run; Ctrl-C ends the demo")
                notice_s = time.monotonic() + NOTICE_S
            company.require_alive()
            company.require_progress(batch.head.number - last_block, run.worst_span_blocks)
            if ticking.done():
                ticking.result()


async def make_report(run: Run, devnet: Devnet, started_s: float) -> dict[str, Any]:
    """Let a process that knows only the deployment rebuild the report, then join what only the demo knows."""
    program = [sys.executable, str(HERE / "report.py"), "--deployment", str(run.folders.deployment)]
    program += ["--rpc-url", devnet.rpc_url, "--folder", str(run.folders.observer)]
    command = confine(program, own=run.folders.observer, hidden=run.folders.parties)
    process = await asyncio.create_subprocess_exec(*command, env=make_environment(run.folders))
    status = await process.wait()
    if status:
        raise EnvironmentFault(
            what="the report could not be made", expected="exit status 0", actual=status,
            remedy="Read what it said above.", retryable=False,
        )  # fmt: skip
    report = json.loads((run.folders.observer / "report.json").read_text())
    report = join_report(run, report)
    report["wall_s"] = round(time.monotonic() - started_s, 1)
    run.folders.report.write_text(json.dumps(report, indent=1) + "\n")
    return report


def join_report(run: Run, report: dict[str, Any]) -> dict[str, Any]:
    """The report with names, honesty, luck and the exported model."""
    members = {actor.account: actor.member for actor in run.actors}
    parties = [
        {"name": members[party["account"]].name, "honest": members[party["account"]].honest, **party}
        for party in report["parties"]
    ]
    return {
        **report,
        "parties": parties,
        "model_dir": str(run.folders.model.relative_to(ROOT)),
        "luck": float(run.luck.total),
        "step_s": round(run.step_s, 3),
        "window_factor": run.window_factor,
        "isolated": is_supported(),
        "path": str(run.folders.report.relative_to(ROOT)),
        "exported_weights_root": compute_exported_root(run.folders.model, build_plan(run.rounds).model),
    }


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__)
    parser.add_argument("--cheats", choices=("all", "none"), default="all", help="who takes part")
    parser.add_argument("--rounds", type=int, default=LEAST_ROUNDS, help="at least so many rounds")
    parser.add_argument(
        "--skip", type=Fraction, default=DEFAULT_SKIP, help="share of its steps that a cheat skips: 1/3, 0.05"
    )
    parser.add_argument("--keep", action="store_true", help="keep the chain running at the end")
    options = parser.parse_args(arguments)
    if not 0 < options.skip <= 1:
        parser.error(f"--skip: expected a share above 0 and at most 1, got {options.skip}")
    return options


def main() -> int:
    """Run the demo; 0 only where everything holds."""
    # Asked to end, end as with Ctrl-C: no party outlives the demo.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return 0 if asyncio.run(demonstrate(parse())) else 1
    except TouchstoneError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
