"""Measures how much of their time honest solvers spend on training that counts.

A real Anvil makes blocks of 2 s, of which none is skipped. Four solvers, eight verifiers and a whistleblower
run as processes. Each round trains real steps of a model of 0.2 M parameters, then waits until its training
time is over. One network plays three phases: all honest; one verifier stopped; one solver false, which
defends its claims to the end. Then rounds of larger models are simulated. Writes
build/utilisation/report.json and docs/utilisation.svg.
"""

import argparse
import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from math import inf
from typing import Any

from lab.benchmarks.reports import BUILD, write_report
from lab.benchmarks.utilisation_model.shortest import CASES, build_chart, make_table, show_case, show_row
from lab.benchmarks.utilisation_model.simulation import (
    Blocks,
    Constants,
    Setting,
    measure_constants,
    simulate,
)
from lab.benchmarks.utilisation_run.network import open_network, run_network
from lab.benchmarks.utilisation_run.plan import (
    DELAY,
    DRAWS,
    FULL,
    GRID,
    MODEL,
    QUICK,
    SEGMENTS,
    SOLVERS,
    Play,
)
from lab.benchmarks.utilisation_run.run_report import make_report
from tests.task_models import parameter_count

LIMIT_MIN = 68.0
"""Minutes for the network; the chain's start and the simulation take less than two."""
CHART = BUILD.parent / "docs" / "utilisation.svg"
NAMES = ("honest", "silent_verifier", "false_solver")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(prog="./dev bench utilisation", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="rounds of 12 s, 2 + 1 + 2 of them")
    parser.add_argument("--train-s", type=float, metavar="S", help="seconds that a round trains (180)")
    parser.add_argument("--limit-min", type=float, default=LIMIT_MIN, help="minutes for the network (68)")
    parser.add_argument("--model-only", action="store_true", help="no network: simulate and draw")
    return parser.parse_args(arguments)


def choose_play(options: argparse.Namespace) -> Play:
    """Returns the play that the command line asks for."""
    play = QUICK if options.quick else FULL
    return play if options.train_s is None else replace(play, train_s=options.train_s)


async def measure(play: Play, limit_s: float) -> dict[str, Any]:
    """Runs the network; returns its report, and whether all phases were over in time."""
    started_s = time.monotonic()

    def notify(who: str, line: str) -> None:
        print(f"{time.monotonic() - started_s:7.1f} s  {who:<16} {line}", flush=True)

    async with open_network(play, BUILD / "utilisation", notify) as network:
        is_over = await run_network(network, limit_s)
        report = await make_report(network)
    return report | {"is_over": is_over, "minutes": round((time.monotonic() - started_s) / 60, 1)}


def simulate_all() -> dict[str, Any]:
    """Returns the table, the cases, the constants behind them and this machine's constants; draws the
    chart."""
    constants = Constants()
    rows = make_table(constants)
    CHART.write_text(build_chart(rows))
    return {
        "model": [show_row(row) for row in rows],
        "cases": [show_case(case, constants) for case in CASES],
        "constants": asdict(constants),
        "constants_now": asdict(measure_constants()),
    }


def simulate_network(play: Play) -> dict[str, float]:
    """Returns the simulated utilisation of the honest phase, with and without speculation. On one machine
    links take no time."""
    blocks = Blocks(play.block_s, DELAY, GRID)
    setting = Setting(
        parameter_count(MODEL), inf, inf, blocks, SOLVERS, SEGMENTS, DRAWS, play.spread, are_ends_equal=True
    )
    names = {"ahead": setting, "not_ahead": replace(setting, is_ahead=False)}
    return {
        name: round(simulate(one, Constants(), play.train_s).utilisation, 3) for name, one in names.items()
    }


def main() -> None:
    """Measures, simulates, and writes the report."""
    options = parse()
    # The submitter shares the machine with all others.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    limit_s = 60 * options.limit_min
    report = {} if options.model_only else asyncio.run(measure(choose_play(options), limit_s))
    report |= {"simulated": simulate_network(choose_play(options)), **simulate_all()}
    print({name: report.get(name) for name in NAMES})
    print(write_report("utilisation-model" if options.model_only else "utilisation", report))


if __name__ == "__main__":
    main()
