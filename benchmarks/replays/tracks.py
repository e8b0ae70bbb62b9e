"""The training whose segments are replayed: models, seeds, stages.

A *track* is one run of four rounds from weights and data of its own seed, moments reset at each round's
start and all solvers' models merged at its end, as the demo trains; each of its segments has a start state
that no other has.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from benchmarks.replays.phases import PHASES, USUAL, bend_batches, raise_rates
from benchmarks.setting import (
    DEMO_MODEL,
    INNER_STEPS,
    ROUNDS,
    build_demo_schedule,
    build_training,
    open_demo_corpus,
    read_standard_library,
)
from protocol.compute.model.batches import Corpus, get_batch
from protocol.compute.program.step import GetBatch
from protocol.compute.program.task_program import with_program
from protocol.spec.containers import ModelConfig, TrainingSpec
from scripts.calibrate_commands import Segment, Workplace


def list_segments(slots: int, steps: int) -> tuple[Segment, ...]:
    """Every segment of the demo, by round, solver's slot and place."""
    places = itertools.product(range(ROUNDS), range(slots), range(0, INNER_STEPS, steps))
    return tuple(Segment(r, slot, i, steps, r * INNER_STEPS + i) for r, slot, i in places)


@dataclass(frozen=True)
class Shape:
    """A model, rows of its context's length in a batch, and k."""

    model: ModelConfig
    rows: int
    steps: int


TINY = ModelConfig(256, 16, 40, 2, 2, 2, 32)
SHAPES = {
    "tiny": Shape(TINY, 4, 5),
    "long": Shape(TINY, 4, 20),
    "small": Shape(ModelConfig(256, 64, 168, 3, 4, 2, 64), 4, 5),
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
    spec = replace(demo, model=shape.model, sequences_per_step=shape.rows, sequence_tokens=tokens)
    spec = with_program(spec)
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
