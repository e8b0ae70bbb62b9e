"""Compares this training with torchft, hivemind, plain PyTorch and synchronous training.

    ./dev bench training [--quick] [--full] [--parts race,plain,...]

Parts: `plain`, the program beside plain PyTorch; `share`, what being verifiable costs; `race`, nodes beside
torchft 0.2.0 and hivemind 1.1.12, whose environments are installed below build/training the first time;
`long`, rounds beside synchronous training (hours: only with --full). Writes build/training/report.json, and
the figures of docs/training.md if at most `long` was left out. docs/training.md explains the method.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.benchmarks.diloco.racing import Race, compare, race_all
from lab.benchmarks.diloco.verifiable import (
    FORMATS,
    Load,
    Long,
    compare_plain,
    compare_synchronous,
    measure_share,
)
from lab.benchmarks.reports import BUILD, write_report
from touchstone.protocol.compute.determinism import describe_kernels, pin_kernels

PAGE = BUILD.parent / "docs" / "training.md"
OPENING, CLOSING = "<!-- figures -->\n", "<!-- end of figures -->\n"


@dataclass(frozen=True)
class Plan:
    """The settings. `plain` are timed steps by model, `loads` are by the name of their line. Losses of the
    first of `races` are compared, and outer steps of the last."""

    name: str
    plain: dict[str, int]
    loads: dict[str, Load]
    races: Sequence[Race]
    long: Long


FULL = Plan(
    "training",
    {"0.2M": 100, "1M": 60, "6M": 25, "30M": 11},
    {"1k": Load("10M", 8, 10, 5), "16k": Load("10M", 128, 3, 3)},
    (Race("1M", 4, 40, 10, 5), Race("6M", 3, 20, 10, 3), Race("30M", 2, 20, 10, 3)),
    Long("1M", 4, 128, 47, 3),
)
QUICK = Plan(
    "training-quick",
    {"0.2M": 2},
    {"1k": Load("0.2M", 8, 1, 1), "16k": Load("0.2M", 16, 1, 1)},
    (Race("0.2M", 1, 4, 2, 1),),
    Long("0.2M", 2, 2, 2, 1, rows=2),
)


# Parts
def measure_plain(plan: Plan) -> dict[str, Any]:
    """Returns `tokens_vs_plain` of float32 by model, and of every format."""
    found = {size: compare_plain(size, steps) for size, steps in plan.plain.items()}
    return {
        "tokens_vs_plain": {size: ratios[FORMATS[0]] for size, ratios in found.items()},
        "tokens_vs_plain_by_format": found,
    }


def measure_shares(plan: Plan) -> dict[str, Any]:
    """Returns `verifiable_share_1k` and `verifiable_share_16k`, and their parts."""
    found = {name: measure_share(load) for name, load in plan.loads.items()}
    shares = {f"verifiable_share_{name}": own["share"] for name, own in found.items()}
    return {**shares, "verifiable": found}


def measure_race(plan: Plan) -> dict[str, Any]:
    """Returns all lines about torchft and hivemind."""
    return compare(*race_all(plan.races, notify))


def measure_long(plan: Plan) -> dict[str, Any]:
    """Returns `loss_vs_synchronous`."""
    found = compare_synchronous(plan.long, BUILD / plan.name / "long", notify)
    return {"loss_vs_synchronous": found["ratio"], "synchronous": found}


MEASURES: dict[str, Callable[[Plan], dict[str, Any]]] = {
    "plain": measure_plain,
    "share": measure_shares,
    "race": measure_race,
    "long": measure_long,
}
PARTS, USUAL = tuple(MEASURES), ("plain", "share", "race")
LINES = (
    "tokens_vs_torchft", "tokens_vs_hivemind", "outer_vs_torchft", "outer_vs_hivemind", "bytes_vs_torchft",
    "memory_vs_torchft", "loss_vs_torchft", "loss_vs_synchronous", "tokens_vs_plain", "verifiable_share_1k",
    "verifiable_share_16k",
)  # fmt: skip
"""Lines of every report; None if a line was not measured."""
MEANINGS = {
    "tokens_vs_torchft": "Tokens a second of inner training, over torchft's, by model",
    "tokens_vs_hivemind": "The same over hivemind's",
    "outer_vs_torchft": "Time of an outer step, over torchft's; largest model",
    "outer_vs_hivemind": "The same over hivemind's",
    "bytes_vs_torchft": "Bytes that a member sends and receives for an outer step, over torchft's",
    "memory_vs_torchft": "Largest memory of a member, over torchft's",
    "loss_vs_torchft": "Mean held-out loss less torchft's, in the range of its seeds' losses; smallest model",
    "loss_vs_synchronous": "Held-out loss over that of synchronous training",
    "tokens_vs_plain": "Tokens a second of the program, over those of plain PyTorch, by model",
    "verifiable_share_1k": "Share of a segment's time that being verifiable costs, 1,024 tokens a step",
    "verifiable_share_16k": "The same, 16,384 tokens a step",
}


def run(plan: Plan, parts: Sequence[str]) -> dict[str, Any]:
    """Returns the content of the report."""
    report: dict[str, Any] = dict.fromkeys(LINES)
    for part in PARTS:
        if part in parts:
            report |= MEASURES[part](plan)
            notify(
                f"{part}: {json.dumps({line: report[line] for line in LINES if report[line] is not None})}"
            )
    return {**report, "parts": [part for part in PARTS if part in parts]}


def notify(text: str) -> None:
    """Prints a line for people."""
    print(f"{time.monotonic() - STARTED:7.0f} s  {text}", file=sys.stderr, flush=True)


STARTED = time.monotonic()
COLUMNS = {"tokens_s": 1, "outer_s": 1, "outer_bytes": 1e6, "peak_bytes": 1e6, "heldout": 1}
"""Fields of a run that the page shows, and the unit of each."""
ROUNDED_FROM = 1000


# The page
def format_page(report: dict[str, Any]) -> str:
    """Returns the figures of a report as Markdown: ratios, the runs behind them, and the machine."""
    machine = describe_kernels()
    on = f"Measured on {machine.processor}, {machine.cpu_capability}, {os.cpu_count()} cores, PyTorch "
    left = "".join(f"{kind} is missing: it failed, see the report. " for kind in report.get("left_out") or ())
    return f"{format_table(report)}\n{format_runs(report)}\n{left}{on}{machine.torch_version}.\n"


def format_table(report: dict[str, Any]) -> str:
    """Returns the lines of a report, all of them ratios."""
    rows = [f"| {MEANINGS[line]} | {format_value(report.get(line))} |\n" for line in LINES]
    exact = {
        size: ratios.get(FORMATS[1]) for size, ratios in report.get("tokens_vs_plain_by_format", {}).items()
    }
    rows.append(
        f"| Tokens a second of an exact program, over those of plain PyTorch | {format_value(exact)} |\n"
    )
    return "".join(["| line | value |\n", "|---|---|\n", *rows])


def format_runs(report: dict[str, Any]) -> str:
    """Returns the runs behind the ratios: medians over the runs of each kind."""
    rows = [
        "| model, kind | tokens a second | outer step, s | MB for it | memory, MB | held-out loss, nats |\n"
    ]
    rows.append("|---|---|---|---|---|---|\n")
    for size, kinds in report.get("runs", {}).items():
        for kind, runs in kinds.items():
            values = [format_value(find_median(runs, name, unit)) for name, unit in COLUMNS.items()]
            rows.append(f"| {size}, {kind} | {' | '.join(values)} |\n")
    return "".join(rows)


def find_median(runs: Sequence[dict[str, Any]], name: str, unit: float) -> float | None:
    """Returns the median over runs in this unit; None if a run lacks the value, or there are none."""
    values = [run[name] for run in runs]
    return None if not values or None in values else statistics.median(values) / unit


def format_value(value: Any) -> str:
    """Returns a number, several by model, or `not measured`."""
    if isinstance(value, dict) and value:
        return ", ".join(f"{size} {format_value(own)}" for size, own in value.items())
    if value is None or value == {}:
        return "not measured"
    return f"{value:,.0f}" if value >= ROUNDED_FROM else f"{value:.3g}"


def fill_table(page: Path, report: dict[str, Any]) -> None:
    """Puts a report's figures between the marks of a page."""
    before, rest = page.read_text().split(OPENING)
    _, after = rest.split(CLOSING)
    page.write_text(before + OPENING + format_page(report) + CLOSING + after)


def main() -> None:
    """Runs the benchmark from the command line."""
    parser = argparse.ArgumentParser(prog="./dev bench training", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="a small sample of each part, in some minutes")
    parser.add_argument("--full", action="store_true", help="`long` as well, which takes hours")
    parser.add_argument("--parts", help=f"some of {','.join(PARTS)}; usually {','.join(USUAL)}")
    arguments = parser.parse_args()
    pin_kernels(1)
    plan = QUICK if arguments.quick else FULL
    usual = PARTS if arguments.full or arguments.quick else USUAL
    parts = arguments.parts.split(",") if arguments.parts else usual
    if unknown := set(parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}; expected some of {', '.join(PARTS)}")
    report = run(plan, parts)
    print(write_report(plan.name, report))
    if plan is FULL and set(USUAL) <= set(parts):
        fill_table(PAGE, report)


if __name__ == "__main__":
    main()
