"""Measures what honest machines lose in unstable phases, and how many honest claims are voided.

Thirteen machines (`replays/machines.py`), each in a process, train the same segments from the same starts.
They do so in phases in which they drift apart by far more than real hardware: five and ten times the learning
rate, one batch repeated, constant data. Limits are those of the usual training of the same model. Every
ordered pair is a claimant and a verifier. A pair beyond the limits voids the claim. Then the verifier judges
each of the claimant's steps from the claimant's own state before it, as a node does before it disputes
(docs/spec.md, section 13.4). Writes build/drift/report.json; fails if a step exceeds the limits.
"""

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from random import Random
from typing import Any

import torch

from lab.benchmarks.honest_replays import measure_track, propose_from
from lab.benchmarks.replays.machines import Machine, Worker, list_machines, name_step, run_workers
from lab.benchmarks.replays.pairs import PHASES, Track, compare_pairs, open_track
from lab.benchmarks.reports import write_report
from tests.task_models import draw_first
from tests.training_setting import OUTER_RATES_BITS
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.compute.tolerance.compare import judge_state
from touchstone.protocol.spec.task_spec import Limits
from touchstone.scripts.calibration.calibration_folder import Segment, Workplace
from touchstone.scripts.calibration.measuring import make_starts
from touchstone.whistleblower.step_judging import find_false_step

# One phase of one model
SAMPLE_SEED = 37
"""Chooses which pairs beyond the limits are judged step by step, if there are more than wanted."""


@dataclass(frozen=True)
class Pair:
    """The numbers of a segment, of the machine that claims it and of the one that verifies it."""

    segment: int
    claimant: int
    verifier: int


@dataclass(frozen=True)
class Dispute:
    """A pair with a step beyond the limits, the first such step, and its distance."""

    pair: Pair
    step: int
    distance: float


@dataclass
class Found:
    """Counts over ordered pairs of machines.

    `unclaimed` are pairs whose claimant reached NaN or infinity, which no solver can commit to. `unserved`
    are pairs whose verifier alone reached them, which costs the claimant a fee. `beyond` are pairs beyond the
    limits, and `judged` those of them that were judged step by step. `excused` have a step beyond the limits
    that the verifier's own noise covers; `disputed` have one that it does not cover. One disputed pair in
    each segment is `searched` as its opener would; `faults` counts what that finds, which would convict the
    claimant. Distances are in limits; `largest_step` is over the judged pairs."""

    segments: int = 0
    unfinite_segments: int = 0
    pairs: int = 0
    identical: int = 0
    unclaimed: int = 0
    unserved: int = 0
    beyond: int = 0
    judged: int = 0
    steps: int = 0
    disputed: int = 0
    searched: int = 0
    faults: int = 0
    excused: int = 0
    largest_segment: float = 0.0
    largest_step: float = 0.0
    disputes: list[str] = field(default_factory=list)


def judge_phase(track: Track, folder: Path, workers: Sequence[Worker], limits: Limits, sample: int) -> Found:
    """Replays a track on all machines, and judges as verifiers do. `sample` pairs are judged step by step."""
    workplace, found = open_track(track, folder), Found()
    training = workplace.training
    make_starts(workplace, draw_first(training), *OUTER_RATES_BITS)
    for worker in workers:
        worker.replay(track)
    names = [worker.machine.name for worker in workers]
    beyond = [
        pair
        for number in range(len(workplace.segments))
        for pair in _judge_segment(workplace, names, number, limits, found)
    ]
    found.beyond = len(beyond)
    chosen = Random(SAMPLE_SEED).sample(beyond, min(sample, len(beyond)))
    chosen.sort(key=lambda pair: (pair.segment, pair.claimant))
    for number, pairs in itertools.groupby(chosen, key=lambda pair: pair.segment):
        _judge_steps(track, workplace, workers, list(pairs), limits, found)
        _forget_steps(workplace, workplace.segments[number])
    for path in folder.iterdir():
        path.unlink()
    return found


# Over segments
def _judge_segment(
    workplace: Workplace, names: Sequence[str], number: int, limits: Limits, found: Found
) -> list[Pair]:
    """Returns the pairs of a segment that are beyond the limits."""
    segment, beyond = workplace.segments[number], []
    ends = [workplace.load(name, segment, segment.steps) for name in names]
    rate_sum, are_finite = workplace.sum_rates(segment), [_is_finite(end) for end in ends]
    found.segments += 1
    found.unfinite_segments += not all(are_finite)
    places = itertools.permutations(range(len(ends)), 2)
    verdicts = compare_pairs(ends, lambda a, b: judge_state(a, b, rate_sum, limits))
    for (claimant, verifier), (is_identical, verdict) in zip(places, verdicts, strict=True):
        found.pairs += 1
        found.identical += is_identical
        if not are_finite[claimant]:
            found.unclaimed += 1
        elif not are_finite[verifier]:
            found.unserved += 1
        else:
            found.largest_segment = max(found.largest_segment, verdict.excess)
            beyond += [Pair(number, claimant, verifier)] if verdict.exceeds_limits else []
    return beyond


def _is_finite(state: TrainingState) -> bool:
    return all(bool(torch.isfinite(vector).all()) for vector in state.vectors)


# Step by step
def _judge_steps(
    track: Track,
    workplace: Workplace,
    workers: Sequence[Worker],
    pairs: Sequence[Pair],
    limits: Limits,
    found: Found,
) -> None:
    """Judges the steps of one segment's pairs; each claimant shows its steps once."""
    disputed: list[Dispute] = []
    for claimant, with_it in itertools.groupby(pairs, key=lambda pair: pair.claimant):
        number, name = pairs[0].segment, workers[claimant].machine.name
        workers[claimant].show_steps(track, number)
        _require_same_end(workplace, name, workplace.segments[number])
        for pair in with_it:
            verifier = workers[pair.verifier]
            verdicts = verifier.judge_steps(track, number, name, limits)
            false_step = find_false_step(verdicts)
            found.judged += 1
            found.steps += len(verdicts)
            found.largest_step = max(found.largest_step, *(verdict.excess for verdict in verdicts))
            if false_step is not None:
                disputed.append(Dispute(pair, false_step, verdicts[false_step].excess))
            found.excused += any(one.excess > 1 and not one.exceeds_limits for one in verdicts)
    found.disputed += len(disputed)
    if disputed:
        _search(track, workers, disputed[0], found)


def _search(track: Track, workers: Sequence[Worker], dispute: Dispute, found: Found) -> None:
    """Searches the trace of the named step as the opener of a dispute does."""
    pair, step = dispute.pair, dispute.step
    claimant, verifier = workers[pair.claimant], workers[pair.verifier]
    claimant.show_trace(track, pair.segment, step)
    fault = verifier.search_fault(track, pair.segment, step, claimant.machine.name)
    found.searched += 1
    found.faults += bool(fault)
    line = f"{claimant.machine.name} by {verifier.machine.name}, segment {pair.segment}, step {step}"
    found.disputes.append(f"{line}, {dispute.distance:.3g} limits: {fault or 'no fault'}")


def _require_same_end(workplace: Workplace, name: str, segment: Segment) -> None:
    """Raises RuntimeError unless the shown steps lead to the claimed end."""
    claimed = workplace.load(name, segment, segment.steps)
    shown = workplace.load(name_step(name, segment.steps), segment, segment.steps)
    if not all(map(torch.equal, claimed.vectors, shown.vectors)):
        raise RuntimeError(f"{name} did not repeat its own bits in segment {segment.name}")


def _forget_steps(workplace: Workplace, segment: Segment) -> None:
    for path in workplace.folder.glob(f"{name_step('*', 0)[:-1]}*-{segment.name}"):
        path.unlink()


# The campaign
@dataclass(frozen=True)
class Plan:
    """The machines that replay, the phases, the solvers that train each model (calibration, phases), and how
    many pairs of a phase of a model are judged step by step."""

    name: str
    machines: tuple[Machine, ...]
    phases: tuple[str, ...]
    solvers: dict[str, tuple[int, int]]
    sample: int


def make_plan(is_quick: bool) -> Plan:
    """Returns the campaign, or a small sample of it."""
    every = list_machines()
    if is_quick:
        few = (every[0], every[7], every[-1])
        return Plan("drift-quick", few, tuple(PHASES), {"tiny": (1, 1), "long": (1, 1)}, 50)
    return Plan("drift", every, tuple(PHASES), {"small": (2, 1), "tiny": (2, 1), "long": (2, 2)}, 250)


def run_drift(plan: Plan) -> dict[str, Any]:
    """Returns the report. It is also written after each phase of each model."""
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
    """Returns limits as an operator makes them, from the usual training of another seed."""
    return propose_from(measure_track(Track(shape, "calibration", 0, solvers), folder, workers, None))


# The report
def summarize(plan: Plan, models: dict[str, dict[str, Found]], limits: dict[str, Limits]) -> dict[str, Any]:
    """Returns the results so far, by phase and model."""
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
    """Returns sums, largest distances and shares. `voided_claims` is the share of claims that are lost if two
    drawn audits must accept."""
    total = Found()
    for part in parts:
        for one in fields(Found):
            values = (getattr(total, one.name), getattr(part, one.name))
            setattr(total, one.name, max(values) if one.type is float else values[0] + values[1])
    share = total.beyond / max(1, total.pairs - total.unclaimed)
    return {**asdict(total), "voided_share": share, "voided_claims": 1 - (1 - share) ** 2}


def find_losses(report: dict[str, Any]) -> list[str]:
    """Returns what an honest machine would lose: disputes (stakes, bonds), and verdicts that cost a fee."""
    return [
        f"{phase}: {count} pairs {name}"
        for phase, found in report["phases"].items()
        for name in ("disputed", "unserved")
        if (count := found[name])
    ]


def format_line(phase: str, found: dict[str, Any]) -> str:
    """Returns a line for people."""
    return (
        f"{phase:<10} {found['segments']} segments, {found['pairs']:,} pairs, {found['beyond']:,} beyond "
        f"({found['voided_share']:.2%}); {found['judged']:,} judged by steps, {found['excused']} excused "
        f"by own noise, {found['disputed']} disputed, {found['faults']} faults in {found['searched']}; "
        f"{found['largest_segment']:.3g} limits over a segment, {found['largest_step']:.3g} over a step"
    )


def main() -> None:
    """Measures, prints a line for each phase and writes the report; fails if an honest machine loses."""
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
