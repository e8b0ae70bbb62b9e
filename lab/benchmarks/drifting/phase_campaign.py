"""One phase of one model: all pairs judged over segments, and those beyond the limits judged step by step."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import torch

from lab.benchmarks.replays.machines import Worker, name_step
from lab.benchmarks.replays.pairs import Track, compare_pairs, open_track
from protocol.actions.dispute.step_judging import find_false_step
from protocol.compute.audit.compare import judge_state
from protocol.compute.program.step import TrainingState
from protocol.spec.containers import Limits
from scripts.calibrate_commands import Segment, Workplace, make_starts
from tests.training_setting import OUTER_RATES_BITS

SAMPLE_SEED = 37
"""Which pairs beyond the limits are looked at step by step, where there are more than are wanted."""


@dataclass(frozen=True)
class Pair:
    """Numbers of a segment, of the machine that claims it and of the one that verifies it."""

    segment: int
    claimant: int
    verifier: int


@dataclass(frozen=True)
class Dispute:
    """A pair with a step beyond the limits, the first such step, and how far it is beyond."""

    pair: Pair
    step: int
    distance: float


@dataclass
class Found:
    """Counts over ordered pairs of machines.

    unclaimed: pairs whose claimant left the finite numbers, which no solver can commit to; unserved: those
    whose verifier alone did, which costs the claimant a fee; judged: pairs beyond that were looked at step by
    step; excused: those of them with a step beyond that the verifier's own noise covers; disputed: those with
    one that it does not. Of the disputed ones one in each segment is searched as its opener searches; faults:
    what it finds, which convicts the claimant. Distances in limits; of a step, over those looked at."""

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
    """Replays a track on all machines and judges as verifiers do. sample: pairs to be judged step by step."""
    workplace, found = open_track(track, folder), Found()
    make_starts(workplace, *OUTER_RATES_BITS)
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


# --- Over segments ------------------------------------------------------------------------------------------
def _judge_segment(
    workplace: Workplace, names: Sequence[str], number: int, limits: Limits, found: Found
) -> list[Pair]:
    """The pairs beyond the limits."""
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
            beyond += [Pair(number, claimant, verifier)] if verdict.is_beyond else []
    return beyond


def _is_finite(state: TrainingState) -> bool:
    return all(bool(torch.isfinite(vector).all()) for vector in state.vectors)


# --- Step by step -------------------------------------------------------------------------------------------
def _judge_steps(
    track: Track,
    workplace: Workplace,
    workers: Sequence[Worker],
    pairs: Sequence[Pair],
    limits: Limits,
    found: Found,
) -> None:
    """Pairs of one segment: each claimant shows its steps once."""
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
            found.excused += any(one.excess > 1 and not one.is_beyond for one in verdicts)
    found.disputed += len(disputed)
    if disputed:
        _search(track, workers, disputed[0], found)


def _search(track: Track, workers: Sequence[Worker], dispute: Dispute, found: Found) -> None:
    """What the opener of a dispute finds in the trace of the step that it names."""
    pair, step = dispute.pair, dispute.step
    claimant, verifier = workers[pair.claimant], workers[pair.verifier]
    claimant.show_trace(track, pair.segment, step)
    fault = verifier.search_fault(track, pair.segment, step, claimant.machine.name)
    found.searched += 1
    found.faults += bool(fault)
    line = f"{claimant.machine.name} by {verifier.machine.name}, segment {pair.segment}, step {step}"
    found.disputes.append(f"{line}, {dispute.distance:.3g} limits: {fault or 'no fault'}")


def _require_same_end(workplace: Workplace, name: str, segment: Segment) -> None:
    """The shown steps must lead to the claimed end."""
    claimed = workplace.load(name, segment, segment.steps)
    shown = workplace.load(name_step(name, segment.steps), segment, segment.steps)
    if not all(map(torch.equal, claimed.vectors, shown.vectors)):
        raise RuntimeError(f"{name} did not repeat its own bits in segment {segment.name}")


def _forget_steps(workplace: Workplace, segment: Segment) -> None:
    for path in workplace.folder.glob(f"{name_step('*', 0)[:-1]}*-{segment.name}"):
        path.unlink()
