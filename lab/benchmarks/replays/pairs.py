"""The training whose segments are replayed, its unstable phases, and all ordered pairs of machines on a
segment.

Phases of training in which machines drift apart: high learning rates, and data that hardly change.

The training whose segments are replayed: models, seeds, stages.

A *track* is one run of four rounds from weights and data of its own seed, moments reset at each round's
start and all solvers' models merged at its end, as the demo trains; each of its segments has a start state
that no other has.

How a node judged once that knew a segment's own noise (docs/decisions/0024-conditioning.md); nodes go by
the limits now.

All ordered pairs of machines on a segment: what lies between their results, and what a verifier says of
it.
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
    """What is changed of a run. rate: times the schedule's learning rates; data: a name of `bend_batches`."""

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
    """The schedule with all its learning rates times the phase's factor."""
    return replace(schedule, peak_learning_rate=nearest(phase.rate * schedule.peak_learning_rate))


def bend_batches(get_batch: GetBatch, phase: Phase) -> GetBatch:
    """drawn: the batches as they are; first: each step of a round gets the batch of its first step; constant:
    all tokens are equal."""

    def get_constant(step: int) -> Batch:
        return Batch(*(torch.full_like(part, CONSTANT_TOKEN) for part in get_batch(step)))

    ways = {"drawn": get_batch, "first": lambda step: get_batch(0), "constant": get_constant}
    return ways[phase.data]


def list_segments(slots: int, steps: int) -> tuple[Segment, ...]:
    """Every segment of the demo, by round, solver's slot and place."""
    places = itertools.product(range(ROUNDS), range(slots), range(0, INNER_STEPS, steps))
    return tuple(Segment(r, slot, i, steps, r * INNER_STEPS + i) for r, slot, i in places)


@dataclass(frozen=True)
class Shape:
    """A model, rows of its context's length in a batch, and k."""

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
"""14,000 (also in long segments), 0.17 million and 0.97 million parameters."""


@dataclass(frozen=True)
class Track:
    """A run: what it trains, what it is for ("calibration" or "campaign"), its seed, how many solvers train,
    and in which of PHASES."""

    shape: str
    purpose: str
    seed: int
    solvers: int
    phase: str = USUAL

    @property
    def name(self) -> str:
        """File name of what was measured. Runs that differ in their phase alone have one name and begin
        alike."""
        return f"{self.shape}-{self.purpose}-{self.seed}"


def open_track(track: Track, folder: Path) -> Workplace:
    """The track's training; states are stored under `folder`."""
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
    """Which part of training a segment is of."""
    if segment.inner_step == 0:
        return "zero moments"
    if segment.round == 0:
        return "warm-up"
    is_last = segment.round == ROUNDS - 1 and segment.inner_step >= INNER_STEPS - 2 * segment.steps
    return "end" if is_last else "middle"


def list_tracks(shape: str, purpose: str, count: int, solvers: int) -> Iterator[Track]:
    """`count` runs of a model."""
    return (Track(shape, purpose, seed, solvers) for seed in range(count))


NOISE_CAP = 100.0
"""In limits: noise excuses nothing beyond. Whoever claims a state from which training on its data is
chaos would else be free to claim anything after it; work that was not done lies hundreds of times beyond."""


@dataclass(frozen=True)
class Conditioning:
    """What a node's own two results of a segment differ by, and what two of the same start on other data do:
    the largest distances of W, m and v in limits."""

    own: tuple[float, float, float]
    usual: tuple[float, float, float]

    @property
    def is_ill(self) -> bool:
        """Whether this segment multiplies noise as others do not."""
        pairs = zip(self.own, self.usual, strict=True)
        return any(own > ILL_CONDITIONED_RATIO * usual for own, usual in pairs)


def stands_out(excess: float, conditioning: Conditioning) -> bool:
    """Whether a distance (in limits) cannot be a segment's noise. Where the segment is ill-conditioned it
    has to lie beyond as many times the own noise as the limits lie beyond what honest machines
    showed elsewhere, or beyond NOISE_CAP."""
    own_noise = max(conditioning.own) if conditioning.is_ill else 0.0
    return excess > min(max(1.0, MARGIN * own_noise), NOISE_CAP)


def is_noise(verdict: Verdict, conditioning: Conditioning) -> bool:
    """Whether somebody who knows the segment's conditioning takes what lies beyond the limits for noise."""
    return verdict.exceeds_limits and not stands_out(verdict.excess, conditioning)


QUANTITIES = ("first_moment", "second_moment", "weights")
RATIO_UNIT = 0.4
"""In limits: ratios are told in 4 times the largest distance that was calibrated."""
Result = TypeVar("Result")


@dataclass
class Judged:
    """Counts over pairs; noise: those beyond the limits that are no farther off than the segment's own noise
    lets machines part (`pairs.py`). `ratios`: the distance of each pair in RATIO_UNIT, by quantity, in its
    order."""

    replays: int = 0
    identical: int = 0
    noise: int = 0
    rejected: int = 0
    ratios: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in QUANTITIES})


def measure_pairs(ends: Sequence[TrainingState], rates: float) -> list[Distances]:
    """Distances of all ordered pairs."""
    return [d for _, d in compare_pairs(ends, lambda a, b: measure_distances(a, b, rates, FLOORS))]


def judge_pairs(
    ends: Sequence[TrainingState], rate_sum: int, limits: Limits, noise: tuple[Distances, Distances]
) -> Judged:
    """A claimant and a verifier for each ordered pair of machines. noise: the segment's own, and what is
    usual in its run."""
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
    """Distances in units of tau, by quantity."""
    taus = {"first_moment": limits.tau_m, "second_moment": limits.tau_v, "weights": limits.tau_w}
    return {name: getattr(distances, name) / (tau * 2.0**-64) for name, tau in taus.items()}


def compare_pairs(
    ends: Sequence[TrainingState], look: Callable[[TrainingState, TrainingState], Result]
) -> Iterator[tuple[bool, Result]]:
    """(same bits, what `get_view` says) for each ordered pair. Pairs of the same bits are looked at once."""
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
