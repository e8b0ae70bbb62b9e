"""Judges hundreds of thousands of honest replays as verifiers do: is an honest machine ever rejected?

Thirteen machines (`replays/machines.py`), each in a process, replay every segment of many training runs from
the same starts; every ordered pair is a claimant and a verifier. Limits come first, by the rule of
docs/spec.md, section 6, from *other* runs of the same model: 10 times the largest distance there. No segment
of the campaign, and no ill-conditioned one, has a part in the limits. Pairs beyond them that the segment's
own noise explains are counted apart, as noise (`lab/benchmarks/replays/pairs.py`).

Each finished run is kept in build/honest-replays/, so that a stopped campaign can go on. A folder belongs to
one plan on one machine; delete it to measure anew. Writes report.json there.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

from lab.benchmarks.replays.machines import Machine, Worker, list_machines, run_workers
from lab.benchmarks.replays.pairs import (
    QUANTITIES,
    RATIO_UNIT,
    SHAPES,
    Track,
    judge_pairs,
    list_tracks,
    measure_pairs,
    name_stage,
    open_track,
)
from lab.benchmarks.reports import BUILD, write_report
from tests.task_models import draw_first
from tests.training_setting import OUTER_RATES_BITS, propose_limits
from touchstone.protocol.compute.audit.conditioning import find_usual, is_well_conditioned
from touchstone.protocol.compute.determinism import describe_kernels, pin_kernels
from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.compute.tolerance.compare import Distances
from touchstone.protocol.spec.calibration_rules import MARGIN
from touchstone.protocol.spec.task_spec import Limits
from touchstone.scripts.calibration.calibration_folder import Segment, Workplace
from touchstone.scripts.calibration.measuring import make_starts

QUANTILES = (0.5, 0.9, 0.99, 0.999, 1.0)
BINS_PER_DECADE = 10
LEAST_DECADE = -4
SOLVERS = 5
"""The number of solvers, as in the demo."""


@dataclass(frozen=True)
class Plan:
    """The machines that replay, the runs of each model (calibration, campaign), and the solvers that train
    one."""

    name: str
    machines: tuple[Machine, ...]
    tracks: dict[str, tuple[int, int]]
    solvers: int

    def list_tracks(self) -> Iterator[Track]:
        """Yields the tracks; of each model the calibration comes first."""
        for shape, counts in self.tracks.items():
            for purpose, count in zip(("calibration", "campaign"), counts, strict=True):
                yield from list_tracks(shape, purpose, count, self.solvers)


def make_plan(quick: bool) -> Plan:
    """Returns the campaign, or a small sample of it."""
    every = list_machines()
    if quick:
        return Plan("honest-replays-quick", (every[0], every[7], every[-1]), {"tiny": (1, 1)}, 2)
    counts = {"tiny": (2, 4), "small": (1, 1), "demo": (1, 1)}
    return Plan("honest-replays", every, counts, SOLVERS)


def run_honest(quick: bool) -> dict[str, Any]:
    """Returns the report's `honest` field: replays, start_states, rejected, noise, configurations, and
    details."""
    plan = make_plan(quick)
    folder = BUILD / plan.name / _identify(plan)
    folder.mkdir(parents=True, exist_ok=True)
    missing = [track for track in plan.list_tracks() if not _find_record(folder, track).exists()]
    if missing:
        _measure_tracks(plan, folder, missing)
    return summarize(plan, {track: _read_record(folder, track) for track in plan.list_tracks()})


def _identify(plan: Plan) -> str:
    """Returns a hash that changes if a kept record would not be valid any more."""
    shapes = {name: asdict(SHAPES[name]) for name in plan.tracks}
    parts = (plan.name, asdict(plan)["machines"], shapes, MARGIN, RATIO_UNIT, torch.__version__)
    kernels = describe_kernels()
    text = json.dumps([*parts, plan.tracks, plan.solvers, kernels.processor, kernels.cpu_capability])
    return sha256(text.encode()).hexdigest()[:16]


# Measuring
def _measure_tracks(plan: Plan, folder: Path, tracks: Sequence[Track]) -> None:
    """Writes a record for each track; states are deleted."""
    started = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as workplace,
        run_workers(plan.machines, Path(workplace)) as workers,
    ):
        for track in tracks:
            limits = None if track.purpose == "calibration" else _propose(plan, folder, track.shape)
            record = measure_track(track, Path(workplace), workers, limits)
            path = _find_record(folder, track)
            path.with_suffix(".part").write_text(json.dumps(record))
            path.with_suffix(".part").rename(path)
            print(f"{track.name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)


def measure_track(
    track: Track, folder: Path, workers: Sequence[Worker], limits: Limits | None
) -> list[dict[str, Any]]:
    """Returns, by segment, distances for a calibration, and verdicts for the campaign."""
    workplace = open_track(track, folder)
    training = workplace.training
    noise = make_starts(workplace, draw_first(training), *OUTER_RATES_BITS)
    for worker in workers:
        worker.replay(track)
    names = [worker.machine.name for worker in workers]
    usual = find_usual(list(noise.values()))
    segments = [
        {
            **_measure_segment(workplace, names, segment, (own, usual), limits),
            "own_noise": astuple(own)[:3],
            "is_ill_conditioned": not is_well_conditioned(own, usual),
        }
        for segment, own in noise.items()
    ]
    for path in folder.iterdir():
        path.unlink()
    return segments


def _measure_segment(
    workplace: Workplace,
    names: Sequence[str],
    segment: Segment,
    noise: tuple[Distances, Distances],
    limits: Limits | None,
) -> dict[str, Any]:
    ends = [workplace.load(name, segment, segment.steps) for name in names]
    start = _hash_start(workplace.load("start", segment, 0))
    place = {"segment": segment.name, "stage": name_stage(segment), "start": start}
    rate_sum = workplace.sum_rates(segment)
    if limits is None:
        measured = measure_pairs(ends, rate_sum * 2.0**-64)
        return {**place, "distances": [asdict(distances) for distances in _keep_largest(measured)]}
    return {**place, **asdict(judge_pairs(ends, rate_sum, limits, noise))}


def _keep_largest(measured: Sequence[Distances]) -> list[Distances]:
    """Returns the largest distance of each quantity; limits depend on these alone."""
    return [max(measured, key=lambda distances: getattr(distances, name)) for name in QUANTITIES]


def _hash_start(state: TrainingState) -> str:
    parts = [sha256(vector.numpy().tobytes()).digest() for vector in state.vectors]
    return sha256(b"".join([*parts, bytes([state.local_step])])).hexdigest()


def _propose(plan: Plan, folder: Path, shape: str) -> Limits:
    """Returns limits from all calibration runs of a model."""
    tracks = list_tracks(shape, "calibration", plan.tracks[shape][0], plan.solvers)
    return propose_from(segment for track in tracks for segment in _read_record(folder, track))


def propose_from(calibrated: Iterable[dict[str, Any]]) -> Limits:
    """Returns limits from the results of `measure_track` for calibration runs, without ill-conditioned
    segments."""
    segments = [segment for segment in calibrated if not segment["is_ill_conditioned"]]
    return propose_limits([Distances(**d) for segment in segments for d in segment["distances"]])


def _find_record(folder: Path, track: Track) -> Path:
    return folder / f"{track.name}.json"


def _read_record(folder: Path, track: Track) -> list[dict[str, Any]]:
    record: list[dict[str, Any]] = json.loads(_find_record(folder, track).read_text())
    return record


# The report
def summarize(plan: Plan, records: dict[Track, list[dict[str, Any]]]) -> dict[str, Any]:
    """Returns the results over all pairs of the campaign; `models` has them by model."""
    campaign = {track: record for track, record in records.items() if track.purpose == "campaign"}
    every = [segment for record in campaign.values() for segment in record]
    models = {
        shape: _summarize_model(
            [segment for track, record in campaign.items() if track.shape == shape for segment in record],
            _count_calibration(records, shape),
        )
        for shape in plan.tracks
    }
    return {
        **_add_up(every),
        "configurations": len(plan.machines),
        "machines": [machine.name for machine in plan.machines],
        "stages": dict(Counter(segment["stage"] for segment in every)),
        "models": models,
        "histogram": _count_decades([max(place) for place in zip(*_join(every).values(), strict=True)]),
    }


def _add_up(segments: Sequence[dict[str, Any]]) -> dict[str, int]:
    counts = {name: sum(segment[name] for segment in segments) for name in ("replays", "rejected", "noise")}
    identical = sum(segment["identical"] for segment in segments)
    return {
        **counts,
        "start_states": len({segment["start"] for segment in segments}),
        "identical_pairs": identical,
        "ill_conditioned": sum(segment["is_ill_conditioned"] for segment in segments),
    }


def _summarize_model(segments: Sequence[dict[str, Any]], calibration: dict[str, Any]) -> dict[str, Any]:
    joined = _join(segments)
    worst = {
        stage: max(max(values) for s in segments if s["stage"] == stage for values in s["ratios"].values())
        for stage in sorted({segment["stage"] for segment in segments})
    }
    return {
        **_add_up(segments),
        **calibration,
        "distance_over_unit": {name: _quantiles(values) for name, values in joined.items()},
        "largest_by_stage": worst,
    }


def _join(segments: Sequence[dict[str, Any]]) -> dict[str, list[float]]:
    return {name: [value for s in segments for value in s["ratios"][name]] for name in QUANTITIES}


def _quantiles(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {str(q): ordered[round(q * (len(ordered) - 1))] for q in QUANTILES}


def _count_decades(values: Sequence[float]) -> dict[str, Any]:
    """Counts the pairs in each tenth of a decade of (largest distance in RATIO_UNIT); smaller ones count in
    the first."""
    tensor = torch.tensor(values, dtype=torch.float64).clamp(min=10.0**LEAST_DECADE)
    places = ((tensor.log10() - LEAST_DECADE) * BINS_PER_DECADE).floor().to(torch.int64)
    return {
        "first_decade": LEAST_DECADE,
        "bins_per_decade": BINS_PER_DECADE,
        "counts": torch.bincount(places).tolist(),
    }


def _count_calibration(records: dict[Track, list[dict[str, Any]]], shape: str) -> dict[str, Any]:
    chosen = [r for track, r in records.items() if (track.shape, track.purpose) == (shape, "calibration")]
    every = [segment for record in chosen for segment in record]
    segments = [segment for segment in every if not segment["is_ill_conditioned"]]
    largest = {
        name: max(d[name] for segment in segments for d in segment["distances"]) for name in QUANTITIES
    }
    left_out = len(every) - len(segments)
    return {
        "calibration_segments": len(segments),
        "calibration_left_out": left_out,
        "calibration_maxima": largest,
    }


def main() -> None:
    """Measures what is missing, writes the report and prints the totals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one model, three machines, one run")
    arguments = parser.parse_args()
    pin_kernels(1)
    report = run_honest(arguments.quick)
    print(json.dumps({k: v for k, v in report.items() if isinstance(v, int)}))
    print(write_report(make_plan(arguments.quick).name, report))


if __name__ == "__main__":
    main()
