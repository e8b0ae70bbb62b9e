"""Tests the exact formats: do all machines get the same bits, does training learn as well, what does it cost?

Steps from five stages of training run in every kernel configuration of this machine, in both families of
products, in NumPy, and with each other PyTorch that is named; W, m and v are compared after every step.
Losses are compared with those of float32, time with plain PyTorch, an audit with the training of its segment.
In unstable training every replay must be accepted. Writes build/exact/report.json.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lab.benchmarks.exactness.attacking import ARENA, convict_faults, judge_attacks
from lab.benchmarks.exactness.losses import compare_losses, draw_losses
from lab.benchmarks.exactness.speed import compare_speed, measure_audits
from lab.benchmarks.exactness.tracing import compare_elements, keep_starts, plant_bits
from lab.benchmarks.exactness.walking import NUMPY, Run, Walk, Way, list_ways, start_worker
from lab.benchmarks.referee import measure_sums
from lab.benchmarks.referee_vectors import compare_verdicts, generate_exact_cases
from lab.benchmarks.replays.pairs import PHASES, USUAL
from lab.benchmarks.reports import write_report
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.spec.params import PRODUCT_BITS

FORMAT = "exact15"
"""The format that is trained in all ways."""
AT_ONCE = 2
"""Workers at the same time if nothing is timed."""
FLOOR_RULES = "prague"
"""The rules under which calldata has a price floor (EIP-7623)."""
JUDGED = 3
"""How many elements of each node are compared, in each step."""
STAGES = 5
SAID = 500
"""Characters of a part's result that are printed at once."""
TRACED = (
    *(Walk(Run("1M", FORMAT), start, 1) for start in (20, 200)),
    *(Walk(Run("0.2M", FORMAT, phase=phase), 40, 1) for phase in PHASES),
    *(Walk(Run("0.2M", name), 0, 1) for name in PRODUCT_BITS if name != FORMAT),
)
"""Steps of which every element is compared."""


@dataclass(frozen=True)
class Plan:
    """How much is done. By model, `walks` are the steps in all ways, the steps in a few ways, and the number
    of those; `losses` are formats and steps; `timed` are steps. `mean` is the number of last steps that a
    loss is averaged over. `unstable` are the steps of a replay, and the replays from each phase. Of every
    `attacked` segments one is attacked. `audited` is a model (None: a tiny one) and the number of audits.
    `sums` are the terms of the sums whose proofs are measured in gas. `judged` is the number of draws of
    operands for both referees. `traced` are steps, each recorded in one of every `ways` ways. `planted`
    counts bits of each kind of operation in each format. One in `share` kernel configurations walks from the
    stages; the others only replay."""

    name: str
    walks: dict[str, tuple[int, int, int]]
    losses: dict[str, tuple[tuple[str, ...], int]]
    mean: int
    unstable: tuple[int, int]
    timed: dict[str, int]
    attacked: int = 1
    disputed: tuple[str | None, Sequence[str]] = ("0.2M", ())
    audited: tuple[str | None, int] = ("1M", 15)
    sums: Sequence[int] = (512, 4096)
    judged: int = 100_000
    traced: Sequence[Walk] = TRACED
    ways: int = 6
    planted: int = 15
    share: int = 1


FULL = Plan(
    "exact",
    {"0.2M": (1000, 10_000, 3), "1M": (200, 1000, 4), "6M": (50, 1000, 2)},
    {
        "0.2M": (("float32", *PRODUCT_BITS), 2000),
        "1M": (("float32", *PRODUCT_BITS), 2000),
        "6M": (("float32", FORMAT), 500),
    },
    200,
    (10, 4),
    {"1M": 15, "6M": 9, "30M": 5},
)
NORMAL = replace(FULL, share=2)
QUICK = Plan(
    "exact-quick",
    {"0.2M": (10, 20, 2)},
    {"0.2M": (("float32", FORMAT), 20)},
    5,
    (2, 1),
    {"1M": 2},
    attacked=16,
    disputed=(None, ("SUM", "QUANTIZE")),
    audited=(None, 1),
    sums=(512,),
    judged=2_000,
    traced=TRACED[-2:],
    ways=20,
    planted=1,
)


# Equal bits
def compare_walks(plan: Plan, ways: Sequence[Way], folder: Path) -> dict[str, Any]:
    """Returns the compared steps, and those after which a way's bits differed from the first way's; replays
    of unstable phases, and those whose end differed from the first way's."""
    stages = [Walk(Run(size, FORMAT), *place) for size, own in plan.walks.items() for place in _cut(own[0])]
    steps, count = plan.unstable
    phases = [Run("0.2M", FORMAT, phase=phase) for phase in PHASES if phase != USUAL]
    unstable = [Walk(run, 4 * steps * n, steps) for run in phases for n in range(count)]
    keep_starts(ways[0], folder, [*stages, *unstable])
    walking = choose_ways(ways, plan.share)
    found = _walk_all(walking, folder, [*stages, *unstable])
    report = Counter(_list_differing(walking, stages, found))
    replays = [own[len(stages) :] for own in found]
    replays += _walk_all([way for way in ways if way not in walking], folder, unstable)
    ends = [[digests[-1] for digests in own] for own in replays]
    rejected = sum(a != b for own in ends for a, b in zip(own, ends[0], strict=True))
    compared = len(walking) * sum(job.steps for job in stages)
    for size, (_, in_few, few) in plan.walks.items():
        chosen, job = [*ways[: few - 1], ways[-2]], Walk(Run(size, FORMAT), 0, in_few)
        report.update(_list_differing(chosen, [job], _walk_all(chosen, folder, [job])))
        compared += len(chosen) * in_few
        _notify(f"{size}: {len(chosen)} ways, {in_few} steps each, {report.total()} differ by now")
    return {
        "walking": [way.name for way in walking],
        "steps": compared,
        "bits_differ": report.total(),
        "first_differing": sorted(report)[:10],
        "unstable": {"replays": sum(map(len, ends)), "rejected": rejected},
    }


def choose_ways(ways: Sequence[Way], share: int) -> list[Way]:
    """Returns the first way, one in `share` of the other kernel configurations (drawn the same way each
    time), and every way with another PyTorch, another device or NumPy."""
    kernels = [way for way in ways if way.is_kernel_configuration]
    drawn = random.Random(1).sample(kernels[1:], len(kernels) // share - 1)
    return [way for way in ways if way in (ways[0], *drawn) or way not in kernels]


def _cut(steps: int) -> list[tuple[int, int]]:
    """Returns (start, steps) of each stage. Later stages lie farther apart, because a model changes less and
    less."""
    part = steps // STAGES
    return [(start, part) for start in (0, *(part * 2**n for n in range(STAGES - 1)))]


Digests = list[list[str]]
"""Digests after each step of each walk."""


def _walk_all(ways: Sequence[Way], folder: Path, jobs: Sequence[Walk]) -> list[Digests]:
    """Returns the digests of each way. NumPy is the slowest, so it begins first."""

    def walk(way: Way) -> Digests:
        """Returns the digests of one way."""
        lines = iter(start_worker(way, folder, *jobs))
        digests = [[next(lines)[0] for _ in range(job.steps)] for job in jobs]
        _notify(way.name)
        return digests

    with ThreadPoolExecutor(AT_ONCE) as pool:
        begun = sorted(ways, key=lambda way: way.family != NUMPY)
        told = {way: pool.submit(walk, way) for way in begun}
        return [told[way].result() for way in ways]


def _list_differing(ways: Sequence[Way], jobs: Sequence[Walk], found: Sequence[Digests]) -> Iterator[str]:
    for way, own in zip(ways, found, strict=True):
        for job, digests, right in zip(jobs, own, found[0], strict=False):
            for n, pair in enumerate(zip(digests, right, strict=True)):
                if pair[0] != pair[1]:
                    yield f"{job.run.size} {way.name} from {job.start} step {n}"


# The whole
def run(plan: Plan, pythons: tuple[str, ...], parts: Sequence[str]) -> dict[str, Any]:
    """Returns the content of the report."""
    ways = list_ways(pythons)
    report: dict[str, Any] = {"configurations": [way.name for way in ways]}
    with tempfile.TemporaryDirectory() as name:
        for part in PARTS:
            if part in parts:
                found = MEASURES[part](plan, ways, Path(name))
                report |= found
                _notify(f"{part}: {json.dumps(found)[:SAID]}")
    return report


def measure_speed(plan: Plan) -> dict[str, Any]:
    """Returns `time_vs_plain` by model and format, and the same through float64."""
    found: dict[str, dict[str, float]] = {}
    for size, steps in plan.timed.items():
        found[size] = compare_speed(size, steps)
        _notify(f"{size}: " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in found[size].items()))
    through = {size: ratios.pop("exact15 through float64") for size, ratios in found.items()}
    return {"time_vs_plain": found, "time_vs_plain_float64": through}


def measure_gas(plan: Plan) -> dict[str, Any]:
    """Returns the gas of a transaction with the most expensive proof of a product sum, by the sum's length,
    and details."""
    found = measure_sums(FORMAT, plan.sums, FLOOR_RULES)
    return {"gas": {name: used["largest"] for name, used in found.items()}, "gas_of_sums": found}


def judge_cases(plan: Plan) -> dict[str, Any]:
    """Compares both referees on generated cases; returns totals over operations, kinds and formats."""
    found = compare_verdicts(generate_exact_cases(plan.judged, 1), 1)
    verdicts = found.pop("verdicts")
    return {**found, "faults": verdicts["all fault"], "honest": verdicts["all honest"]}


def _notify(text: str) -> None:
    print(f"{time.monotonic() - STARTED:7.0f} s  {text}", file=sys.stderr, flush=True)


STARTED = time.monotonic()
MEASURES: dict[str, Callable[[Plan, Sequence[Way], Path], dict[str, Any]]] = {
    "speed": lambda plan, *_: measure_speed(plan),
    "audit": lambda plan, *_: {"audit": measure_audits(FORMAT, *plan.audited)},
    "bits": compare_walks,
    "attacks": lambda plan, *_: {"attacks": judge_attacks(replace(ARENA, attacked=plan.attacked))},
    "disputes": lambda plan, *_: {"dispute": convict_faults(FORMAT, *plan.disputed)},
    "gas": lambda plan, *_: measure_gas(plan),
    "referee": lambda plan, *_: {"referee": judge_cases(plan)},
    "honest": lambda plan, ways, folder: {
        "honest": compare_elements(ways[:: plan.ways], plan.traced, folder, JUDGED)
    },
    "planted": lambda plan, *_: {"planted": plant_bits(tuple(PRODUCT_BITS), plan.planted)},
    "loss": lambda plan, ways, folder: {"loss": compare_losses(plan.losses, plan.mean, ways[0], folder)},
}
"""What each part adds to the report."""
PARTS = tuple(MEASURES)


def main() -> None:
    """Runs the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--full", action="store_true", help="train in all kernel configurations")
    parser.add_argument("--quick", action="store_true", help="a small sample of each part, in some minutes")
    parser.add_argument("--python", action="append", default=[], help="an interpreter with another PyTorch")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"some of {','.join(PARTS)}")
    arguments = parser.parse_args()
    pin_kernels(1)
    plan = QUICK if arguments.quick else FULL if arguments.full else NORMAL
    report = run(plan, tuple(arguments.python), arguments.parts.split(","))
    print(write_report(plan.name, report))
    if "loss" in report:
        print(draw_losses(report["loss"], plan.name))


if __name__ == "__main__":
    main()
