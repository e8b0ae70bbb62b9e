"""Replays segments honestly on several kernels, and derives the limits for the attacks on them.

One process trains the rounds of a task and keeps the starts of its segments; each kernel configuration
replays all of them in its own process. The limits of an arena come from these honest replays alone.
"""

import argparse
import itertools
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from safetensors.torch import load_file, save_file

from lab.benchmarks.honesty.planted import MODELS as HONESTY_MODELS
from tests.task_models import draw_first, respecify
from tests.training_setting import (
    PEAK_LEARNING_RATE,
    build_training,
    get_heldout_batch,
    list_configurations,
    propose_limits,
    read_standard_library,
)
from touchstone.protocol.compute.audit.distance_survey import FLOORS
from touchstone.protocol.compute.audit.kernel_configurations import KernelConfiguration
from touchstone.protocol.compute.batches import Corpus, get_batch, open_corpus
from touchstone.protocol.compute.determinism import list_cpu_capabilities, pin_kernels
from touchstone.protocol.compute.program.known_steps import get_step
from touchstone.protocol.compute.program.step import begin_round, train_segment
from touchstone.protocol.compute.program.training_state import Batch, GetBatch, TrainingState
from touchstone.protocol.compute.tolerance.compare import measure_distances
from touchstone.protocol.spec.params import LEARNING_RATE_FRACTION_BITS
from touchstone.protocol.spec.program import DEFAULT_CHUNK_TERMS
from touchstone.protocol.spec.schedule import compute_learning_rate_sum
from touchstone.protocol.spec.task_spec import Limits, ScheduleConfig, TrainingSpec
from touchstone.step.plain_decoder import DecoderConfig

MODELS = {"mouse": (DecoderConfig(256, 16, 48, 1, 2, 1, 32), DEFAULT_CHUNK_TERMS), **HONESTY_MODELS}
"""Models of 11,000, 34,000, 0.2 million and 0.97 million parameters, each with its longest sum."""
BATCHES = {"mouse": (8, 32), "tiny": (8, 32), "small": (8, 64), "demo": (8, 128)}
"""Rows and tokens of a step."""
WARMUP_STEPS = 20
INNER_WARMUP_STEPS = 8
CORPUS_BYTES = 1_000_000
HELDOUT_ROWS = 8


@dataclass(frozen=True)
class Arena:
    """A task and its segments. Of every `attacked` segments one is attacked; all of them calibrate."""

    model: str
    segment_steps: int
    inner_steps: int
    rounds: int
    attacked: int = 1
    seed: int = 1
    numeric_format: str = "float32"

    @property
    def name(self) -> str:
        """The name of its files, and its name in the report."""
        return f"{self.model}-k{self.segment_steps}-s{self.seed}"

    def list_stages(self) -> list[int]:
        """Returns the global steps at which segments start."""
        return list(range(0, self.rounds * self.inner_steps, self.segment_steps))

    def list_attacked(self) -> list[int]:
        """Returns the starts of the attacked segments. They are spread over rounds and stages; the first
        segment is one of them."""
        return self.list_stages()[:: self.attacked]


class Ground:
    """An arena with its data, which every process rebuilds from the arena's numbers."""

    def __init__(self, arena: Arena, folder: Path) -> None:
        self.arena, self.folder = arena, folder
        self.spec = build_spec(arena)

    @cached_property
    def corpus(self) -> Corpus:
        """The standard library's text."""
        return open_corpus(read_standard_library(CORPUS_BYTES), self.spec)

    @cached_property
    def heldout(self) -> Batch:
        """Text that nobody trains on."""
        return get_heldout_batch(self.corpus, self.spec, HELDOUT_ROWS)

    @cached_property
    def parameter_count(self) -> int:
        """The number of elements of W."""
        return get_step(self.spec).parameters

    def get_batches(self, stage: int) -> GetBatch:
        """Returns the data that is assigned for the round of a stage."""
        beacon = sha256(bytes([stage // self.arena.inner_steps])).digest()
        return lambda step: get_batch(self.corpus, self.spec, beacon, self.arena.seed, step)

    def get_inner_step(self, stage: int) -> int:
        """Returns the stage's step in its round."""
        return stage % self.arena.inner_steps

    def replay(self, start: TrainingState, stage: int) -> TrainingState:
        """Replays the segment from `start`, honestly."""
        steps, first, batches = self.arena.segment_steps, self.get_inner_step(stage), self.get_batches(stage)
        return train_segment(start, self.spec, batches, first, steps)[0]

    def sum_rates(self, stage: int) -> float:
        """Returns L of the segment, the sum of its learning rates."""
        return self.count_rates(stage, self.arena.segment_steps) * 2.0**-LEARNING_RATE_FRACTION_BITS

    def count_rates(self, stage: int, steps: int) -> int:
        """Returns L of `steps` steps from a multiple of them, in units of 2^-64, as in a schedule leaf."""
        return compute_learning_rate_sum(self.spec.schedule, stage // steps, steps, self.arena.inner_steps)

    # Files
    def save(self, name: str, stage: int, state: TrainingState) -> None:
        """Writes a state's vectors to a safetensors file."""
        vectors = {"w": state.weights, "m": state.first_moment, "v": state.second_moment}
        save_file(vectors, self.folder / f"{self.arena.name}-{name}-{stage}")

    def load(self, name: str, stage: int, done: int) -> TrainingState:
        """Reads a state `done` steps into the segment."""
        tensors = load_file(self.folder / f"{self.arena.name}-{name}-{stage}")
        places = (self.get_inner_step(stage) + done, stage + done)
        return TrainingState(tensors["w"], tensors["m"], tensors["v"], *places)

    def load_start(self, stage: int) -> TrainingState:
        """Reads the state that all start from."""
        return self.load("start", stage, 0)

    def load_end(self, configuration: KernelConfiguration, stage: int) -> TrainingState:
        """Reads the end that a verifier on this configuration computed."""
        return self.load(configuration.name, stage, self.arena.segment_steps)


def build_spec(arena: Arena) -> TrainingSpec:
    """Returns the arena's task: the demo's optimizer, a warm-up, and another warm-up after each reset of the
    moments."""
    config, chunk_terms = MODELS[arena.model]
    total = arena.rounds * arena.inner_steps
    schedule = ScheduleConfig(PEAK_LEARNING_RATE, WARMUP_STEPS, total, inner_warmup_steps=INNER_WARMUP_STEPS)
    rows, tokens = BATCHES[arena.model]
    demo = build_training(read_standard_library(CORPUS_BYTES), schedule)
    return respecify(
        demo,
        model=config,
        chunk_terms=chunk_terms,
        sequences_per_step=rows,
        sequence_tokens=tokens,
        initial_seed=arena.seed,
        numeric_format=arena.numeric_format,
    )


# Honest work
def make_starts(ground: Ground) -> None:
    """Trains all rounds once, with moments reset at each start, and stores the start of every segment."""
    arena = ground.arena
    state = begin_round(draw_first(ground.spec), 0)
    for stage in arena.list_stages():
        if ground.get_inner_step(stage) == 0:
            state = begin_round(state.weights, stage)
        ground.save("start", stage, state)
        state = ground.replay(state, stage)


def run_worker(folder: Path, arenas: Sequence[Arena], configuration: KernelConfiguration) -> None:
    """Replays every segment on this process's kernels and stores its end."""
    pin_kernels(configuration.threads, configuration.onednn)
    for arena in arenas:
        ground = Ground(arena, folder)
        for stage in arena.list_stages():
            ground.save(configuration.name, stage, ground.replay(ground.load_start(stage), stage))


def start_worker(folder: Path, quick: bool, configuration: KernelConfiguration) -> None:
    """Runs `run_worker` in a process with the configuration's environment, and waits for it."""
    environment = {
        **os.environ,
        "ATEN_CPU_CAPABILITY": configuration.cpu_capability,
        "OMP_WAIT_POLICY": "PASSIVE",
    }
    place = [str(folder), str(configuration.threads), str(int(configuration.onednn))]
    options = [*place, *(["--quick"] if quick else [])]
    subprocess.run(
        [sys.executable, "-m", "lab.benchmarks.hunting.arena", *options], env=environment, check=True
    )


@dataclass(frozen=True)
class Calibrated:
    """The limits of an arena, and the number of honest pairs that they rest on."""

    limits: Limits
    pairs: int


def calibrate(ground: Ground, configurations: Sequence[KernelConfiguration]) -> Calibrated:
    """Returns limits from all ordered pairs of configurations on all segments, by the same rule as for a
    task: ten times the largest honest distance."""
    distances = []
    for stage in ground.arena.list_stages():
        ends = [ground.load_end(configuration, stage) for configuration in configurations]
        rates = ground.sum_rates(stage)
        distances += [measure_distances(a, b, rates, FLOORS) for a, b in itertools.permutations(ends, 2)]
    return Calibrated(propose_limits(distances), len(distances))


FULL = (
    Arena("mouse", 2, 20, 4, attacked=4),
    Arena("mouse", 5, 20, 4, attacked=2, seed=2),
    Arena("tiny", 4, 20, 4, attacked=2, seed=3),
    Arena("small", 5, 20, 4, attacked=2, seed=4),
    Arena("small", 10, 20, 4, attacked=4, seed=5),
    Arena("demo", 10, 20, 3, attacked=3),
)
QUICK = (Arena("mouse", 5, 20, 1, attacked=2),)


def list_arenas(quick: bool) -> tuple[Arena, ...]:
    """Returns the arenas."""
    return QUICK if quick else FULL


def list_verifiers(quick: bool) -> tuple[KernelConfiguration, ...]:
    """Returns the kernels that replay: all of this machine, or every second one."""
    every = list_configurations(list_cpu_capabilities())
    return every[::2] if quick and len(every) > 3 else every


def main() -> None:
    """Runs a worker, which replays all segments on one configuration."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("threads", type=int)
    parser.add_argument("onednn", type=int)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    here = KernelConfiguration(options.threads, bool(options.onednn), list_cpu_capabilities()[0])
    run_worker(options.folder, list_arenas(options.quick), here)


if __name__ == "__main__":
    main()
