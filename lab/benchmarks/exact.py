"""Do all machines get the same bits, does training learn as well, and what does it cost? The exact formats.

Steps from five stages of training run in every kernel configuration of this machine, in both families of
products and in NumPy, with each other PyTorch that is named: W, m and v are compared after every step. Losses
are compared with those of float32, time with plain PyTorch, an audit with the training of its segment. Where
training is unstable every replay has to be accepted. Writes build/exact/report.json.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lab.benchmarks.exactness.attacking import ARENA, convict_faults, judge_attacks
from lab.benchmarks.exactness.losses import compare_losses, draw_losses
from lab.benchmarks.exactness.speed import compare_speed, measure_audits
from lab.benchmarks.exactness.tracing import compare_elements, plant_bits
from lab.benchmarks.exactness.training import Run
from lab.benchmarks.exactness.walking import NUMPY, Walk, Way, list_ways, start_worker
from lab.benchmarks.referee import measure_sums
from lab.benchmarks.referee_vectors import compare_verdicts, generate_exact_cases
from lab.benchmarks.replays.pairs import PHASES, USUAL
from lab.benchmarks.reports import write_report
from protocol.compute.determinism import pin_kernels
from protocol.spec.params import PRODUCT_BITS

FORMAT = "exact15"
"""Of what is walked in all ways."""
AT_ONCE = 2
"""Workers side by side where nothing is timed."""
FLOOR_RULES = "prague"
"""By which data has a floor (EIP-7623)."""
JUDGED = 3
"""Elements of each node of each step that is compared."""
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
    """How much is done. walks: by model, steps in all ways, steps in a few, and how many those are; losses:
    by model, formats and steps; mean: over so many last steps; unstable: steps of a replay, and replays from
    each phase; timed: by model, steps; attacked: of every so many segments one is attacked; audited: a model,
    None: a tiny one, and how many audits; sums: terms of those of which a proof's gas is measured; judged:
    draws of operands for both referees; traced: which steps, in every so many ways; planted: bits of
    each kind of operation in each format."""

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


# --- Equal bits ---------------------------------------------------------------------------------------------
def compare_walks(plan: Plan, ways: Sequence[Way], folder: Path) -> dict[str, Any]:
    """Steps that were compared, and those after which a way had other bits than the first one."""
    steps, differ = 0, list[str]()
    for size, (in_all, in_few, few) in plan.walks.items():
        run, part = Run(size, FORMAT), in_all // STAGES
        # Later stages lie farther apart, as a model changes less and less.
        starts = [0, *(part * 2**n for n in range(STAGES - 1))]
        start_worker(ways[0], folder, Walk(run, 0, starts[-1], tuple(starts[1:])))
        stages = [Walk(run, start, part) for start in starts]
        long = [*ways[: few - 1], ways[-2]] if few > 1 else ways[:1]
        for chosen, jobs in ((ways, stages), (long, [Walk(run, 0, in_few)])):
            found = _walk_all(chosen, folder, jobs)
            for way, own in zip(chosen, found, strict=True):
                steps += len(own)
                differ += [f"{size} {way.name} step {n}" for n, pair in _differing(own, found[0])]
            _say(f"{size}: {len(chosen)} ways, {len(found[0])} steps each, {len(differ)} differ")
    return {"steps": steps, "bits_differ": len(differ), "first_differing": differ[:10]}


def _walk_all(ways: Iterable[Way], folder: Path, jobs: Sequence[Walk]) -> list[list[tuple[str, float]]]:
    """What each way printed. NumPy is the slowest, and begins first."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        begun = sorted(ways, key=lambda way: way.family != NUMPY)
        told = {way: pool.submit(start_worker, way, folder, *jobs) for way in begun}
        return [told[way].result() for way in ways]


def _differing(
    own: Sequence[tuple[str, float]], right: Sequence[tuple[str, float]]
) -> list[tuple[int, object]]:
    pairs = enumerate(zip(own, right, strict=True))
    return [(n, pair) for n, pair in pairs if pair[0][0] != pair[1][0]]


def replay_unstable(plan: Plan, ways: Sequence[Way], folder: Path) -> dict[str, int]:
    """Replays of unstable phases, and those with another end than the first way's."""
    steps, count = plan.unstable
    replays = rejected = 0
    for phase in PHASES.keys() - {USUAL}:
        run = Run("0.2M", FORMAT, phase=phase)
        starts = [steps * 4 * n for n in range(count)]
        start_worker(ways[0], folder, Walk(run, 0, starts[-1] + steps, tuple(starts[1:])))
        found = _walk_all(ways, folder, [Walk(run, start, steps) for start in starts])
        ends = [[line[0] for line in lines[steps - 1 :: steps]] for lines in found]
        replays += sum(map(len, ends))
        rejected += sum(a != b for own in ends for a, b in zip(own, ends[0], strict=True))
        _say(f"{phase}: {replays} replays, {rejected} rejected")
    return {"replays": replays, "rejected": rejected}


# --- The whole ----------------------------------------------------------------------------------------------
def run(plan: Plan, pythons: tuple[str, ...], parts: Sequence[str]) -> dict[str, Any]:
    """The report's content."""
    ways = list_ways(pythons)
    report: dict[str, Any] = {"configurations": [way.name for way in ways]}
    with tempfile.TemporaryDirectory() as name:
        for part in PARTS:
            if part in parts:
                found = MEASURES[part](plan, ways, Path(name))
                report |= found
                _say(f"{part}: {json.dumps(found)[:SAID]}")
    return report


def measure_speed(plan: Plan) -> dict[str, Any]:
    """`time_vs_plain`, by model and format; and through float64."""
    found: dict[str, dict[str, float]] = {}
    for size, steps in plan.timed.items():
        found[size] = compare_speed(size, steps)
        _say(f"{size}: " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in found[size].items()))
    through = {size: ratios.pop("exact15 through float64") for size, ratios in found.items()}
    return {"time_vs_plain": found, "time_vs_plain_float64": through}


def measure_gas(plan: Plan) -> dict[str, Any]:
    """`gas` of a transaction with the dearest proof of a product sum of each length, and more of it."""
    found = measure_sums(FORMAT, plan.sums, FLOOR_RULES)
    return {"gas": {name: used["largest"] for name, used in found.items()}, "gas_of_sums": found}


def judge_cases(plan: Plan) -> dict[str, Any]:
    """Cases of both referees; not by operation, kind and format."""
    found = compare_verdicts(generate_exact_cases(plan.judged, 1), 1)
    verdicts = found.pop("verdicts")
    return {**found, "faults": verdicts["all fault"], "honest": verdicts["all honest"]}


def _say(text: str) -> None:
    print(f"{time.monotonic() - STARTED:7.0f} s  {text}", file=sys.stderr, flush=True)


STARTED = time.monotonic()
MEASURES: dict[str, Callable[[Plan, Sequence[Way], Path], dict[str, Any]]] = {
    "speed": lambda plan, *_: measure_speed(plan),
    "audit": lambda plan, *_: {"audit": measure_audits(FORMAT, *plan.audited)},
    "bits": compare_walks,
    "unstable": lambda *given: {"unstable": replay_unstable(*given)},
    "zoo": lambda plan, *_: {"zoo": judge_attacks(replace(ARENA, attacked=plan.attacked))},
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
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="a taste of each part, in some minutes")
    parser.add_argument("--python", action="append", default=[], help="an interpreter with another PyTorch")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"some of {','.join(PARTS)}")
    arguments = parser.parse_args()
    pin_kernels(1)
    plan = QUICK if arguments.quick else FULL
    report = run(plan, tuple(arguments.python), arguments.parts.split(","))
    print(write_report(plan.name, report))
    if "loss" in report:
        print(draw_losses(report["loss"], plan.name))


if __name__ == "__main__":
    main()
