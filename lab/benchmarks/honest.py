"""Checks whether an honest machine can exceed its bounds, and whether every planted lie is found.

Kernel configurations, each in a process, imitate other machines. Each computes a million awkward elements of
every kind of operation and records whole traces of a real training run. The checker judges every element, the
referee a sample. Then lies are planted one by one in an honest trace and in single nodes: errors of twice the
bound, and results of wrong wirings. Writes build/honest/report.json.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from lab.benchmarks.honesty.kinds import (
    FUNCTIONS,
    Seen,
    compute_fingerprints,
    measure_kinds,
    measure_trace,
    merge,
)
from lab.benchmarks.honesty.planted import (
    STAGES,
    Tally,
    build_step,
    list_subjects,
    load_step,
    make_single,
    open_training,
    plant_errors,
    plant_wirings,
)
from lab.benchmarks.reports import write_report
from tests.training_setting import read_standard_library
from touchstone.protocol.compute.bounds.trace_check import TraceChecker
from touchstone.protocol.compute.determinism import describe_kernels, list_cpu_capabilities, pin_kernels
from touchstone.protocol.spec.program_operations import BOUNDED_OPERATIONS

MKL_SETTINGS = ("", "COMPATIBLE", "AVX2")
"""Values of MKL_CBWR, which binds MKL's kernels to one kind of processor; empty means not set."""


@dataclass(frozen=True)
class Configuration:
    """One way for this machine to compute."""

    cpu_capability: str
    threads: int
    onednn: bool
    mkl: str

    @property
    def name(self) -> str:
        """A short, unique name."""
        onednn = "onednn" if self.onednn else "native"
        return f"{self.cpu_capability}-{self.threads}-{onednn}-{self.mkl.lower() or 'free'}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its process. Waiting threads do not spin, because the machine may be busy."""
        free = {name: value for name, value in os.environ.items() if name != "MKL_CBWR"}
        chosen = {"ATEN_CPU_CAPABILITY": self.cpu_capability, "OMP_WAIT_POLICY": "PASSIVE"}
        return {**free, **chosen, **({"MKL_CBWR": self.mkl} if self.mkl else {})}


def list_configurations() -> list[Configuration]:
    """Returns all combinations: 24 on a processor with AVX2."""
    places = itertools.product(list_cpu_capabilities(), (1, 2), (True, False), MKL_SETTINGS)
    return [Configuration(*place) for place in places]


@dataclass(frozen=True)
class Plan:
    """How much is done. Single nodes are `shrink` times smaller. `traces` are by model. `errors` counts lies
    of each kind, `wirings` those of each wiring of a kind."""

    name: str
    configurations: Sequence[Configuration]
    shrink: int
    traces: dict[str, int]
    errors: int
    wirings: int


def make_plan(is_short: bool) -> Plan:
    """Returns the campaign, or a small sample of it."""
    every = list_configurations()
    if is_short:
        return Plan("honest-short", [every[0], every[-1]], 64, {"small": 2}, errors=2, wirings=1)
    return Plan("honest", every, 1, {"small": 100, "demo": 6}, errors=60, wirings=15)


# One configuration
@dataclass(frozen=True)
class Job:
    """The work of a worker. `traces` are files of steps, named by model and stage."""

    configuration: Configuration
    seed: int
    shrink: int
    traces: Sequence[str]


def start_worker(folder: Path, job: Job) -> dict[str, Any]:
    """Runs `run_worker` in a process with the configuration's environment, and returns its result."""
    path = folder / f"job-{job.configuration.name}.json"
    path.write_text(json.dumps(asdict(job)))
    command = [sys.executable, "-m", "lab.benchmarks.honest", "--worker", str(path)]
    subprocess.run(command, env=job.configuration.environment, check=True)
    result: dict[str, Any] = json.loads(path.with_suffix(".result").read_text())
    return result


def run_worker(path: Path) -> None:
    """Does a job, and writes the result beside it."""
    job, started = json.loads(path.read_text()), time.monotonic()
    pin_kernels(job["configuration"]["threads"], job["configuration"]["onednn"])
    kinds = measure_kinds(job["seed"], job["shrink"])
    kinds_s = time.monotonic() - started
    traces = []
    for number, name in enumerate(job["traces"]):
        seen = measure_trace(name.split("_")[0], load_step(path.parent / name), job["seed"] + number)
        traces.append({"name": name, "faults": seen.faults, "kinds": _plain(seen.kinds)})
    result = {
        "kernels": asdict(describe_kernels()),
        "kinds": _plain(kinds),
        "fingerprints": compute_fingerprints(),
        "traces": traces,
        "seconds": {"kinds": kinds_s, "traces": time.monotonic() - started - kinds_s},
    }
    path.with_suffix(".result").write_text(json.dumps(result))


def _plain(kinds: Any) -> dict[str, dict[str, Any]]:
    return {name: asdict(seen) for name, seen in kinds.items()}


def _parse(kinds: dict[str, dict[str, Any]]) -> dict[str, Seen]:
    return {name: Seen(**seen) for name, seen in kinds.items()}


# The campaign
def save_steps(folder: Path, plan: Plan, data: bytes) -> list[str]:
    """Trains, and saves the steps that will be traced, one file each. Returns the file names, model by model;
    the stages of training alternate."""
    names = []
    for model, count in plan.traces.items():
        training = open_training(model, data)
        steps = [training.choose(stage, len(range(n, count, len(STAGES)))) for n, stage in enumerate(STAGES)]
        for number in range(count):
            turn, stage = divmod(number, len(STAGES))
            names.append(f"{model}_{STAGES[stage]}_{turn}")
            steps[stage][turn].save(folder / names[-1])
    return names


def deal_jobs(plan: Plan, names: Sequence[str]) -> list[Job]:
    """Distributes traces over configurations, so that each gets all stages."""
    count = len(plan.configurations)
    hands: list[list[str]] = [[] for _ in plan.configurations]
    for number, name in enumerate(names):
        hands[(number + number // count) % count].append(name)
    return [
        Job(configuration, seed, plan.shrink, hand)
        for seed, (configuration, hand) in enumerate(zip(plan.configurations, hands, strict=True))
    ]


def measure_lies(plan: Plan, data: bytes) -> dict[str, dict[str, Tally]]:
    """Plants lies in a late trace of the tiny model and in single nodes; returns counts by kind and lie."""
    built = build_step("tiny")
    buffers = open_training("tiny", data).choose("late", 1)[0].record(built)
    if faults := TraceChecker(built.program).check(buffers.__getitem__).faults:
        raise RuntimeError(f"the trace to plant in is not honest: {faults}")
    traced, random = list_subjects(built.program, buffers), Random(0)
    lies: dict[str, dict[str, Tally]] = {}
    for kind in BOUNDED_OPERATIONS:
        lies[kind.name] = {}
        for place, subjects in (("trace", traced[kind]), ("single", make_single(kind))):
            if subjects:
                errors = {"error": plant_errors(subjects, plan.errors, random)}
                wirings = plant_wirings(subjects, plan.wirings, random)
                lies[kind.name] |= {f"{place}: {lie}": t for lie, t in {**errors, **wirings}.items()}
    return lies


def run_campaign(plan: Plan) -> dict[str, Any]:
    """Returns the report."""
    data = read_standard_library()
    started = time.monotonic()
    lies = measure_lies(plan, data)
    print(f"lies planted: {time.monotonic() - started:.0f} s", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        jobs = deal_jobs(plan, save_steps(folder, plan, data))
        print(f"trained: {time.monotonic() - started:.0f} s", flush=True)
        results = {}
        for job in jobs:
            results[job.configuration.name] = start_worker(folder, job)
            print(f"{job.configuration.name}: {time.monotonic() - started:.0f} s", flush=True)
    return {**summarize(results), "planted": summarize_lies(lies), "seconds": time.monotonic() - started}


# The report
def summarize(results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Returns the results of all configurations. `kinds` counts single nodes and traces together. `variants`
    counts results from the same operands that differ in any bit, `distinct` configurations that differ in
    some kind."""
    traces = [trace for result in results.values() for trace in result["traces"]]
    single = merge(*(_parse(result["kinds"]) for result in results.values()))
    traced = merge(*(_parse(trace["kinds"]) for trace in traces))
    kinds = merge(single, traced)
    prints = {kind: {result["fingerprints"][kind] for result in results.values()} for kind in kinds}
    return {
        **_add_up(kinds),
        "kinds": {
            name: {**asdict(seen), "variants": len(prints[name])} for name, seen in sorted(kinds.items())
        },
        "kinds_in_single_nodes": _plain(single),
        "kinds_in_traces": _plain(traced),
        "distinct": len({tuple(result["fingerprints"].values()) for result in results.values()}),
        "configurations": {name: _describe(result) for name, result in results.items()},
        "traces": {
            **_add_up(traced),
            "count": len(traces),
            "by_stage": dict(Counter(" ".join(trace["name"].split("_")[:2]) for trace in traces)),
            "faults": [fault for trace in traces for fault in trace["faults"]],
        },
    }


def _add_up(kinds: Mapping[str, Seen]) -> dict[str, int]:
    names = ("elements", "outside", "misrounded", "judged", "convicted")
    return {name: sum(getattr(seen, name) for seen in kinds.values()) for name in names}


def _describe(result: dict[str, Any]) -> dict[str, Any]:
    """Describes a configuration: its kernels, and the errors of its functions."""
    seen = {kind.name: result["kinds"][kind.name] for kind in FUNCTIONS}
    return {
        "kernels": result["kernels"],
        "seconds": result["seconds"],
        "traces": len(result["traces"]),
        "worst_ulp": {name: kind["worst_ulp"] for name, kind in seen.items()},
        "worst_ratio": {name: kind["worst_ratio"] for name, kind in seen.items()},
    }


def summarize_lies(lies: dict[str, dict[str, Tally]]) -> dict[str, Any]:
    """Returns totals, and every lie of every kind."""
    every = [tally for tallies in lies.values() for tally in tallies.values()]
    return {
        "tried": sum(tally.tried for tally in every),
        "found": sum(tally.found for tally in every),
        "missed": [line for tally in every for line in tally.missed],
        "per_kind": {
            kind: {
                "tried": sum(tally.tried for tally in tallies.values()),
                "found": sum(tally.found for tally in tallies.values()),
                "lies": {lie: asdict(tally) for lie, tally in tallies.items()},
            }
            for kind, tallies in lies.items()
        },
    }


def print_report(report: dict[str, Any]) -> None:
    """Prints a table by kind, and the totals."""
    planted = report["planted"]
    print(
        f"{'kind':<18}{'elements':>14}{'outside':>8}{'ratio':>8}{'ulp':>7}{'variants':>9}{'lies found':>13}"
    )
    for name, kind in report["kinds"].items():
        lies = planted["per_kind"][name]
        print(
            f"{name.lower():<18}{kind['elements']:>14,}{kind['outside']:>8}{kind['worst_ratio']:>8.3f}"
            f"{kind['worst_ulp']:>7.3f}{kind['variants']:>9}{lies['found']:>7} of {lies['tried']}"
        )
    print(
        f"{report['elements']:,} elements, {report['outside']} outside, {report['misrounded']} misrounded; "
        f"{report['judged']:,} judged, {report['convicted']} convicted; "
        f"{len(report['configurations'])} configurations ({report['distinct']} distinct), "
        f"{report['traces']['count']} traces; "
        f"{planted['found']} of {planted['tried']} lies found"
    )


def main() -> None:
    """Measures, prints a table and writes the report; with --worker, does a job."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="few elements, 2 configurations, 2 traces")
    parser.add_argument("--worker", type=Path, metavar="JOB", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return run_worker(arguments.worker)
    pin_kernels(1)
    plan = make_plan(arguments.short)
    report = run_campaign(plan)
    print_report(report)
    print(write_report(plan.name, report))


if __name__ == "__main__":
    main()
