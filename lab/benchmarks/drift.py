"""Does an honest machine ever lose anything in an unstable phase, and how many honest claims are voided?

Thirteen machines (`replays/machines.py`), a process each, train the same segments from the same
starts in phases in which they part by far more than hardware does: five and ten times the learning rate, one
batch repeated, constant data. Limits are those of the usual training of the same model. Every ordered pair is
a claimant and a verifier. A pair beyond the limits voids the claim; then the verifier judges each of the
claimant's steps from the claimant's own state before it, as a node does before it disputes (docs/spec.md,
section 13.4). Writes build/drift/report.json; fails where a step is beyond.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from lab.benchmarks.drifting.phase_campaign import Found, judge_phase
from lab.benchmarks.honest_replays import measure_track, propose_from
from lab.benchmarks.replays.machines import Machine, Worker, list_machines, run_workers
from lab.benchmarks.replays.pairs import PHASES, Track
from lab.benchmarks.reports import write_report
from protocol.compute.determinism import pin_kernels
from protocol.spec.containers import Limits


@dataclass(frozen=True)
class Plan:
    """Who replays, which phases, how many solvers train each model: (calibration, phases), and how many pairs
    of a phase of a model are judged step by step."""

    name: str
    machines: tuple[Machine, ...]
    phases: tuple[str, ...]
    solvers: dict[str, tuple[int, int]]
    sample: int


def make_plan(is_quick: bool) -> Plan:
    """The campaign, or a taste of it."""
    every = list_machines()
    if is_quick:
        few = (every[0], every[7], every[-1])
        return Plan("drift-quick", few, tuple(PHASES), {"tiny": (1, 1), "long": (1, 1)}, 50)
    return Plan("drift", every, tuple(PHASES), {"small": (2, 1), "tiny": (2, 1), "long": (2, 2)}, 250)


def run_drift(plan: Plan) -> dict[str, Any]:
    """The report, which is written after each phase of each model."""
    started, models = time.monotonic(), dict[str, dict[str, Found]]()
    limits, report = dict[str, Limits](), dict[str, Any]()
    with tempfile.TemporaryDirectory() as name, run_workers(plan.machines, Path(name)) as workers:
        for shape, (calibrating, training) in plan.solvers.items():
            limits[shape] = calibrate(shape, calibrating, Path(name), workers)
            models[shape] = {}
            for phase in plan.phases:
                track = Track(shape, "campaign", 0, training, phase)
                found = judge_phase(track, Path(name), workers, limits[shape], plan.sample)
                models[shape][phase] = found
                print(f"{shape}, {time.monotonic() - started:.0f} s: {format_line(phase, _add_up([found]))}")
                report = summarize(plan, models, limits)
                write_report(plan.name, report)
    return report


def calibrate(shape: str, solvers: int, folder: Path, workers: Sequence[Worker]) -> Limits:
    """Limits as an operator makes them, from the usual training of another seed."""
    return propose_from(measure_track(Track(shape, "calibration", 0, solvers), folder, workers, None))


# --- The report ---------------------------------------------------------------------------------------------
def summarize(plan: Plan, models: dict[str, dict[str, Found]], limits: dict[str, Limits]) -> dict[str, Any]:
    """What was found so far, by phase and model."""
    return {
        "phases": {phase: _join_models(models, phase) for phase in plan.phases},
        "limits": {shape: asdict(one) for shape, one in limits.items()},
        "machines": [machine.name for machine in plan.machines],
        "sample": plan.sample,
    }


def _join_models(models: dict[str, dict[str, Found]], phase: str) -> dict[str, Any]:
    parts = {shape: found[phase] for shape, found in models.items() if phase in found}
    alone = {shape: _add_up([part]) for shape, part in parts.items()}
    return {**_add_up(list(parts.values())), "models": alone}


def _add_up(parts: Sequence[Found]) -> dict[str, Any]:
    """Sums, largest distances and shares. voided_claims: the share of claims that are lost where two drawn
    audits must accept."""
    total = Found()
    for part in parts:
        for one in fields(Found):
            values = (getattr(total, one.name), getattr(part, one.name))
            setattr(total, one.name, max(values) if one.type is float else values[0] + values[1])
    share = total.beyond / max(1, total.pairs - total.unclaimed)
    return {**asdict(total), "voided_share": share, "voided_claims": 1 - (1 - share) ** 2}


def find_losses(report: dict[str, Any]) -> list[str]:
    """What an honest machine would lose by: disputes (stakes, bonds), and words that cost a fee."""
    return [
        f"{phase}: {count} pairs {name}"
        for phase, found in report["phases"].items()
        for name in ("disputed", "unserved")
        if (count := found[name])
    ]


def format_line(phase: str, found: dict[str, Any]) -> str:
    """For people."""
    return (
        f"{phase:<10} {found['segments']} segments, {found['pairs']:,} pairs, {found['beyond']:,} beyond "
        f"({found['voided_share']:.2%}); {found['judged']:,} judged by steps, {found['excused']} excused "
        f"by own noise, {found['disputed']} disputed, {found['faults']} faults in {found['searched']}; "
        f"{found['largest_segment']:.3g} limits over a segment, {found['largest_step']:.3g} over a step"
    )


def main() -> None:
    """Measures, prints a line for each phase, writes the report; fails where an honest machine loses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="the tiny model alone, three machines, one solver"
    )
    plan = make_plan(parser.parse_args().quick)
    pin_kernels(1)
    report = run_drift(plan)
    for phase, found in report["phases"].items():
        print(format_line(phase, found))
    print(write_report(plan.name, report))
    if losses := find_losses(report):
        sys.exit("an honest machine loses: " + "; ".join(losses))


if __name__ == "__main__":
    main()
