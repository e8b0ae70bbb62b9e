"""Defines the training runs to replay, their unstable phases, and compares all pairs of machines.

A *track* is one run of four rounds from weights and data of its own seed. As in the demo, moments are reset
at each round's start and all solvers' models are merged at its end. Each segment has its own start state. In
unstable phases machines drift apart: high learning rates, and data that hardly change.

A node once judged with a segment's own noise (docs/decisions/0024-conditioning.md); nodes use only the limits
now. The older rule is kept here for comparison.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import torch

from tests.task_models import respecify
from tests.training_setting import (
    DEMO_MODEL,
    INNER_STEPS,
    ROUNDS,
    build_demo_schedule,
    build_training,
    open_demo_corpus,
    read_standard_library,
)
from touchstone.protocol.compute.audit.conditioning import ILL_CONDITIONED_RATIO
from touchstone.protocol.compute.audit.distance_survey import FLOORS
from touchstone.protocol.compute.batches import Corpus, get_batch
from touchstone.protocol.compute.program.training_state import Batch, GetBatch, TrainingState
from touchstone.protocol.compute.tolerance.compare import Distances, Verdict, judge_state, measure_distances
from touchstone.protocol.spec.calibration_rules import MARGIN
from touchstone.protocol.spec.float32 import nearest
from touchstone.protocol.spec.task_spec import Limits, ScheduleConfig, TrainingSpec
from touchstone.scripts.calibration.calibration_folder import Segment, Workplace
from touchstone.step.plain_decoder import DecoderConfig

CONSTANT_TOKEN = 32


@dataclass(frozen=True)
class Phase:
    """Changes of a run. `rate` multiplies the schedule's learning rates; `data` is a name in
    `bend_batches`."""

    rate: int = 1
    data: str = "drawn"


USUAL = "usual"
PHASES = {
    USUAL: Phase(),
    "rate x 5": Phase(rate=5),
    "rate x 10": Phase(rate=10),
    "one batch": Phase(data="first"),
    "constant": Phase(data="constant"),
}


def raise_rates(schedule: ScheduleConfig, phase: Phase) -> ScheduleConfig:
    """Returns the schedule with its learning rates times the phase's factor."""
    return replace(schedule, peak_learning_rate=nearest(phase.rate * schedule.peak_learning_rate))


def bend_batches(get_batch: GetBatch, phase: Phase) -> GetBatch:
    """Returns batches by the phase's `data`. `drawn`: the usual batches; `first`: each step of a round gets
    the batch of its first step; `constant`: all tokens are equal."""

    def get_constant(step: int) -> Batch:
        return Batch(*(torch.full_like(part, CONSTANT_TOKEN) for part in get_batch(step)))

    ways = {"drawn": get_batch, "first": lambda step: get_batch(0), "constant": get_constant}
    return ways[phase.data]


def list_segments(slots: int, steps: int) -> tuple[Segment, ...]:
    """Returns every segment of the demo, by round, solver's slot and place."""
    places = itertools.product(range(ROUNDS), range(slots), range(0, INNER_STEPS, steps))
    return tuple(Segment(r, slot, i, steps, r * INNER_STEPS + i) for r, slot, i in places)


@dataclass(frozen=True)
class Shape:
    """A model, the rows of a batch (of the context's length), and k."""

    model: DecoderConfig
    rows: int
    steps: int


TINY = DecoderConfig(256, 16, 40, 2, 2, 2, 32)
SHAPES = {
    "tiny": Shape(TINY, 4, 5),
    "long": Shape(TINY, 4, 20),
    "small": Shape(DecoderConfig(256, 64, 168, 3, 4, 2, 64), 4, 5),
    "demo": Shape(DEMO_MODEL, 8, 10),
}
"""Models of 14,000 (also in long segments), 0.17 million and 0.97 million parameters."""


@dataclass(frozen=True)
class Track:
    """A run: its shape, its purpose ("calibration" or "campaign"), its seed, the number of solvers, and a
    name in PHASES."""

    shape: str
    purpose: str
    seed: int
    solvers: int
    phase: str = USUAL

    @property
    def name(self) -> str:
        """The file name of its measurements. Runs that differ only in their phase have one name and begin
        alike."""
        return f"{self.shape}-{self.purpose}-{self.seed}"


def open_track(track: Track, folder: Path) -> Workplace:
    """Opens the track's training; states are stored under `folder`."""
    shape, phase = SHAPES[track.shape], PHASES[track.phase]
    spec, corpus = _open_task(track.shape)
    seed = sha256(track.name.encode()).digest()
    schedule = raise_rates(spec.schedule, phase)
    own = replace(spec, initial_seed=int.from_bytes(seed[:4], "big"), schedule=schedule)

    def get_batches(segment: Segment) -> GetBatch:
        beacon = sha256(seed + bytes([segment.round])).digest()
        return bend_batches(lambda step: get_batch(corpus, own, beacon, segment.slot, step), phase)

    return Workplace(folder, own, list_segments(track.solvers, shape.steps), get_batches)


@lru_cache(maxsize=len(SHAPES))
def _open_task(name: str) -> tuple[TrainingSpec, Corpus]:
    shape, data = SHAPES[name], read_standard_library()
    demo = build_training(data, build_demo_schedule())
    tokens = shape.model.context_tokens
    spec = respecify(demo, model=shape.model, sequences_per_step=shape.rows, sequence_tokens=tokens)
    return spec, open_demo_corpus(data, spec)


def name_stage(segment: Segment) -> str:
    """Returns the part of training to which a segment belongs."""
    if segment.inner_step == 0:
        return "zero moments"
    if segment.round == 0:
        return "warm-up"
    is_last = segment.round == ROUNDS - 1 and segment.inner_step >= INNER_STEPS - 2 * segment.steps
    return "end" if is_last else "middle"


def list_tracks(shape: str, purpose: str, count: int, solvers: int) -> Iterator[Track]:
    """Returns `count` runs of a model."""
    return (Track(shape, purpose, seed, solvers) for seed in range(count))


NOISE_CAP = 100.0
"""The largest noise that excuses a distance, in limits. Otherwise a claimant could choose a state from which
training is chaotic, and then claim anything. Work that was not done lies hundreds of times beyond."""


@dataclass(frozen=True)
class Conditioning:
    """The largest distances of W, m and v, in limits: between a node's own two results of a segment, and
    between two from the same start on other data."""

    own: tuple[float, float, float]
    usual: tuple[float, float, float]

    @property
    def is_ill(self) -> bool:
        """Whether this segment multiplies noise more than others do."""
        pairs = zip(self.own, self.usual, strict=True)
        return any(own > ILL_CONDITIONED_RATIO * usual for own, usual in pairs)


def stands_out(excess: float, conditioning: Conditioning) -> bool:
    """Returns whether a distance (in limits) cannot be a segment's noise. In an ill-conditioned segment it
    must exceed the own noise by the margin that limits have over honest machines, or exceed NOISE_CAP."""
    own_noise = max(conditioning.own) if conditioning.is_ill else 0.0
    return excess > min(max(1.0, MARGIN * own_noise), NOISE_CAP)


def is_noise(verdict: Verdict, conditioning: Conditioning) -> bool:
    """Returns whether a distance beyond the limits counts as noise for a judge that knows the segment's
    conditioning."""
    return verdict.exceeds_limits and not stands_out(verdict.excess, conditioning)


QUANTITIES = ("first_moment", "second_moment", "weights")
RATIO_UNIT = 0.4
"""The unit of ratios, in limits: 4 times the largest calibrated distance."""
Result = TypeVar("Result")


@dataclass
class Judged:
    """Counts over pairs. `noise` counts those beyond the limits by no more than the segment's own noise
    allows. `ratios` are the distances of the pairs in RATIO_UNIT, by quantity."""

    replays: int = 0
    identical: int = 0
    noise: int = 0
    rejected: int = 0
    ratios: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in QUANTITIES})


def measure_pairs(ends: Sequence[TrainingState], rates: float) -> list[Distances]:
    """Returns the distances of all ordered pairs."""
    return [d for _, d in compare_pairs(ends, lambda a, b: measure_distances(a, b, rates, FLOORS))]


def judge_pairs(
    ends: Sequence[TrainingState], rate_sum: int, limits: Limits, noise: tuple[Distances, Distances]
) -> Judged:
    """Judges each ordered pair of machines as claimant and verifier. `noise` is the segment's own noise, and
    the usual one in its run."""
    own, usual = (measure_ratios(distances, limits) for distances in noise)
    judged, conditioning = Judged(), Conditioning(_order(own), _order(usual))

    def look(claimed: TrainingState, replayed: TrainingState) -> tuple[Verdict, Distances]:
        verdict = judge_state(claimed, replayed, rate_sum, limits)
        return verdict, measure_distances(claimed, replayed, rate_sum * 2.0**-64, FLOORS)

    for is_identical, (verdict, distances) in compare_pairs(ends, look):
        is_excused = is_noise(verdict, conditioning)
        judged.replays += 1
        judged.identical += is_identical
        judged.noise += is_excused
        judged.rejected += verdict.exceeds_limits and not is_excused
        for name, ratio in measure_ratios(distances, limits).items():
            judged.ratios[name].append(ratio / RATIO_UNIT)
    return judged


def _order(ratios: dict[str, float]) -> tuple[float, float, float]:
    return ratios["weights"], ratios["first_moment"], ratios["second_moment"]


def measure_ratios(distances: Distances, limits: Limits) -> dict[str, float]:
    """Returns each distance as a multiple of its limit (tau_m, tau_v, tau_w): first moment, second moment,
    weights."""
    taus = {"first_moment": limits.tau_m, "second_moment": limits.tau_v, "weights": limits.tau_w}
    return {name: getattr(distances, name) / (tau * 2.0**-64) for name, tau in taus.items()}


def compare_pairs(
    ends: Sequence[TrainingState], look: Callable[[TrainingState, TrainingState], Result]
) -> Iterator[tuple[bool, Result]]:
    """Yields, for each ordered pair, whether the bits are the same, and what `look` returns. Pairs with the
    same bits are looked at once."""
    prints = [_hash(end) for end in ends]
    known: dict[tuple[bytes, bytes], Result] = {}
    for a, b in itertools.permutations(range(len(ends)), 2):
        place = (prints[a], prints[b])
        if place not in known:
            known[place] = look(ends[a], ends[b])
        yield place[0] == place[1], known[place]


def _hash(state: TrainingState) -> bytes:
    vectors = (state.weights, state.first_moment, state.second_moment)
    return b"".join(sha256(vector.numpy().tobytes()).digest() for vector in vectors)
