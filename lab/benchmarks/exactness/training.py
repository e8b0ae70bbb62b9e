"""The training of the benchmark `exact`: three models on the demo's text, and states as files."""

from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from safetensors.torch import load_file, save_file

from lab.benchmarks.replays.pairs import PHASES, USUAL, bend_batches, raise_rates
from protocol.compute.model.batches import Corpus, get_batch
from protocol.compute.model.reference_model import init_parameters
from protocol.compute.program.step import GetBatch, TrainingState, begin_round
from protocol.compute.program.task_program import with_program
from protocol.spec.containers import ModelConfig, ScheduleConfig, TrainingSpec
from tests.training_setting import (
    DEMO_MODEL,
    PEAK_LEARNING_RATE,
    build_training,
    open_demo_corpus,
    read_standard_library,
)

MODELS = {
    "0.2M": ModelConfig(256, 64, 192, 3, 4, 4, 64),
    "1M": DEMO_MODEL,
    "6M": ModelConfig(256, 256, 768, 7, 4, 4, 128),
}
ROWS = 2
"""Of a batch: bits are as equal in small batches, and more steps fit."""
WARMUP_STEPS = 40
SCHEDULE_STEPS = 10_000
CHUNK_TERMS = 4096


@dataclass(frozen=True)
class Run:
    """What is trained. size: a name in MODELS; seed: of weights and data; phase: a name in PHASES."""

    size: str
    numeric_format: str
    seed: int = 0
    phase: str = USUAL


@lru_cache(maxsize=4)
def open_run(run: Run) -> tuple[TrainingSpec, GetBatch]:
    """The run's spec, and its batches by step."""
    spec, corpus = _open_task(run.size, run.numeric_format)
    own = replace(spec, initial_seed=run.seed, schedule=raise_rates(spec.schedule, PHASES[run.phase]))
    beacon = sha256(f"{run.size} {run.seed}".encode()).digest()
    return own, bend_batches(lambda step: get_batch(corpus, own, beacon, 0, step), PHASES[run.phase])


@lru_cache(maxsize=8)
def _open_task(size: str, numeric_format: str) -> tuple[TrainingSpec, Corpus]:
    data, model = read_standard_library(), MODELS[size]
    schedule = ScheduleConfig(PEAK_LEARNING_RATE, WARMUP_STEPS, SCHEDULE_STEPS)
    spec = replace(
        build_training(data, schedule),
        model=model,
        sequences_per_step=ROWS,
        sequence_tokens=model.context_tokens,
        numeric_format=numeric_format,
        chunk_terms=CHUNK_TERMS,
    )
    return with_program(spec), open_demo_corpus(data, spec)


def begin(run: Run) -> TrainingState:
    """The state before the first step."""
    spec, _ = open_run(run)
    return begin_round(init_parameters(spec.model, spec.initial_seed), 0)


def digest(state: TrainingState) -> str:
    """Sixteen hexadecimal digits of the bits of W, m and v."""
    hashed = sha256()
    for vector in state.vectors:
        hashed.update(vector.cpu().numpy().tobytes())
    return hashed.hexdigest()[:16]


def save(state: TrainingState, path: Path) -> None:
    """Write a state; its name ends in the number of steps done."""
    vectors = [vector.cpu() for vector in state.vectors]
    save_file(dict(zip("Wmv", vectors, strict=True)), path)


def load(path: Path) -> TrainingState:
    """Read a state that `save` wrote."""
    tensors, steps = load_file(path), int(path.name.rsplit("-", 1)[1])
    return TrainingState(tensors["W"], tensors["m"], tensors["v"], steps, steps)


def name_state(folder: Path, run: Run, steps: int) -> Path:
    """Where the state of a run after so many steps is written."""
    return folder / f"{run.size}-{run.numeric_format}-{run.seed}-{run.phase.replace(' ', '_')}-{steps}"
