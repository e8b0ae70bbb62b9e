"""How much of their time do honest solvers spend on training that counts?

A real Anvil with blocks of 2 s, of which none is skipped; four solvers, eight verifiers and a whistleblower
as processes. Each round trains real steps of a model of 0.2 M parameters and waits to its training time.
Three phases of one network: all honest; one verifier stopped; one solver false, which defends its claims to
the end. Then a simulation of the round for larger models. Writes build/utilisation/report.json and
docs/utilisation.svg.
"""

import argparse
import asyncio
import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from benchmarks.setting import BUILD
from benchmarks.utilisation_run.network import open_network, run_network
from benchmarks.utilisation_run.phases import FULL, QUICK, Play
from benchmarks.utilisation_run.report import make_report

LIMIT_MIN = 70.0


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="./dev bench utilisation", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="rounds of 12 s, 2 + 1 + 2 of them")
    parser.add_argument("--train-s", type=float, metavar="S", help="seconds that a round trains: 180")
    parser.add_argument("--limit-min", type=float, default=LIMIT_MIN, help="minutes for the network: 70")
    return parser.parse_args(arguments)


def choose_play(options: argparse.Namespace) -> Play:
    """What the command line asks for."""
    play = QUICK if options.quick else FULL
    return play if options.train_s is None else replace(play, train_s=options.train_s)


async def measure(play: Play, limit_s: float) -> dict[str, Any]:
    """Run the network; the report, and whether all phases were over in time."""
    started_s = time.monotonic()

    def say(who: str, line: str) -> None:
        print(f"{time.monotonic() - started_s:7.1f} s  {who:<16} {line}", flush=True)

    async with open_network(play, BUILD / "utilisation", say) as network:
        is_over = await run_network(network, limit_s)
        report = await make_report(network)
    return report | {"is_over": is_over, "minutes": round((time.monotonic() - started_s) / 60, 1)}


def main() -> None:
    """Measures, simulates, writes."""
    options = parse()
    # The submitter shares the machine with all others.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    report = asyncio.run(measure(choose_play(options), 60 * options.limit_min))
    path = BUILD / "utilisation" / "report.json"
    path.write_text(json.dumps(report, indent=1) + "\n")
    print({name: report[name] for name in ("honest", "silent_verifier", "false_solver")})
    print(path)


if __name__ == "__main__":
    main()
