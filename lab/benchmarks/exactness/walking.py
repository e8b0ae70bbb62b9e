"""Trains for the benchmark `exact`: in workers, one way of computing each, with states as files.

A worker is a process that trains from a stored state. It prints a line a step: the digest of W, m and v, and
the loss. Its environment and arguments choose the way: threads, oneDNN, the device, and the family of
products, or NumPy instead of the project's own kernels.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from lab.benchmarks.honest import Configuration, list_configurations
from lab.benchmarks.replays.pairs import PHASES, USUAL, bend_batches, raise_rates
from tests.protocol.compute.program.numpy_exact import run_program
from tests.task_models import draw_first, respecify
from tests.training_setting import (
    DEMO_MODEL,
    PEAK_LEARNING_RATE,
    build_training,
    open_demo_corpus,
    read_standard_library,
)
from touchstone.protocol.compute.audit.kernel_configurations import list_devices
from touchstone.protocol.compute.batches import Corpus, get_batch
from touchstone.protocol.compute.determinism import list_cpu_capabilities, pin_kernels
from touchstone.protocol.compute.program.exact.product_families import FAMILIES, force_family
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.step import advance, begin_round, compute_scalars
from touchstone.protocol.compute.program.training_state import GetBatch, TrainingState
from touchstone.protocol.spec.task_spec import ScheduleConfig, TrainingSpec
from touchstone.step.plain_decoder import DecoderConfig

MODELS = {
    "0.2M": DecoderConfig(256, 64, 192, 3, 4, 4, 64),
    "1M": DEMO_MODEL,
    "6M": DecoderConfig(256, 256, 768, 7, 4, 4, 128),
}
ROWS = 2
"""Rows of a batch. Small batches show differences in bits as well as large ones, and allow more steps."""
WARMUP_STEPS = 40
SCHEDULE_STEPS = 10_000
CHUNK_TERMS = 4096


@dataclass(frozen=True)
class Run:
    """A training run. `size` is a name in MODELS, `phase` one in PHASES; `seed` chooses weights and data."""

    size: str
    numeric_format: str
    seed: int = 0
    phase: str = USUAL


@lru_cache(maxsize=4)
def open_run(run: Run) -> tuple[TrainingSpec, GetBatch]:
    """Returns the run's spec, and its batches by step."""
    spec, corpus = _open_task(run.size, run.numeric_format)
    own = replace(spec, initial_seed=run.seed, schedule=raise_rates(spec.schedule, PHASES[run.phase]))
    beacon = sha256(f"{run.size} {run.seed}".encode()).digest()
    return own, bend_batches(lambda step: get_batch(corpus, own, beacon, 0, step), PHASES[run.phase])


@lru_cache(maxsize=8)
def _open_task(size: str, numeric_format: str) -> tuple[TrainingSpec, Corpus]:
    data, model = read_standard_library(), MODELS[size]
    schedule = ScheduleConfig(PEAK_LEARNING_RATE, WARMUP_STEPS, SCHEDULE_STEPS)
    spec = respecify(
        build_training(data, schedule),
        model=model,
        sequences_per_step=ROWS,
        sequence_tokens=model.context_tokens,
        numeric_format=numeric_format,
        chunk_terms=CHUNK_TERMS,
    )
    return spec, open_demo_corpus(data, spec)


def begin(run: Run) -> TrainingState:
    """Returns the state before the first step."""
    spec, _ = open_run(run)
    return begin_round(draw_first(spec), 0)


def digest(state: TrainingState) -> str:
    """Returns sixteen hexadecimal digits of a hash of W, m and v."""
    hashed = sha256()
    for vector in state.vectors:
        hashed.update(vector.cpu().numpy().tobytes())
    return hashed.hexdigest()[:16]


def save(state: TrainingState, path: Path) -> None:
    """Writes a state; its file name ends in the number of steps done."""
    vectors = [vector.cpu() for vector in state.vectors]
    save_file(dict(zip("Wmv", vectors, strict=True)), path)


def load(path: Path) -> TrainingState:
    """Reads a state that `save` wrote."""
    tensors, steps = load_file(path), int(path.name.rsplit("-", 1)[1])
    return TrainingState(tensors["W"], tensors["m"], tensors["v"], steps, steps)


def name_state(folder: Path, run: Run, steps: int) -> Path:
    """Returns the file for the state of a run after `steps` steps."""
    return folder / f"{run.size}-{run.numeric_format}-{run.seed}-{run.phase.replace(' ', '_')}-{steps}"


CPU, DOUBLES = "cpu", "doubles"
NUMPY = "numpy"
"""Stands for a family: the step of the tests, written from the specification."""
Advance = Callable[..., tuple[TrainingState, float]]


@dataclass(frozen=True)
class Way:
    """A way to compute. `family` is a name in FAMILIES, NUMPY, or empty if the machine chooses. `python` is
    the interpreter, perhaps with another PyTorch. `device` is where PyTorch computes."""

    configuration: Configuration
    family: str
    python: str = sys.executable
    device: str = CPU

    @property
    def name(self) -> str:
        """A short, unique name."""
        other = "" if self.python == sys.executable else f"-{Path(self.python).parents[1].name}"
        place = self.configuration.name if self.device == CPU else self.device
        return f"{place}-{self.family or 'chosen'}{other}"

    @property
    def is_kernel_configuration(self) -> bool:
        """Returns whether this is this PyTorch on the processor, in one of its configurations."""
        return (self.python, self.device) == (sys.executable, CPU) and self.family != NUMPY


def list_ways(pythons: tuple[str, ...] = ()) -> list[Way]:
    """Returns every kernel configuration of this machine, both families on its graphics card and with each
    other PyTorch, and NumPy. Configurations with oneDNN alternate between the families; without oneDNN byte
    products are so slow that no machine chooses them."""
    configurations, families = list_configurations(), sorted(FAMILIES)
    turns = ((one, families[n % len(families)]) for n, one in enumerate(configurations))
    ways = [Way(one, family if one.onednn else DOUBLES) for one, family in turns]
    plain = Configuration(list_cpu_capabilities()[0], 1, True, "")
    ways += [Way(plain, family, python) for python in pythons for family in families]
    ways += [Way(plain, family, device=device) for device in list_devices() for family in families]
    return [*ways, Way(plain, NUMPY)]


@dataclass(frozen=True)
class Walk:
    """Steps of a run. `start` is the number of steps after which it begins, from a stored state. After each
    of `kept` more steps the state is stored."""

    run: Run
    start: int
    steps: int
    kept: tuple[int, ...] = ()


# The worker
def walk(job: Walk, folder: Path, step: Advance = advance) -> Iterator[tuple[str, float]]:
    """Yields the digest after each step, and the loss before it."""
    spec, get_batch = open_run(job.run)
    state = load(name_state(folder, job.run, job.start)) if job.start else begin(job.run)
    for number in range(job.start, job.start + job.steps):
        state, loss = step(state, get_batch(number), spec)
        if number + 1 - job.start in job.kept:
            save(state, name_state(folder, job.run, number + 1))
        yield digest(state), loss


def advance_by_numpy(
    state: TrainingState, batch: tuple[torch.Tensor, torch.Tensor], spec: TrainingSpec
) -> tuple[TrainingState, float]:
    """Advances as `step.advance`, by the NumPy step."""
    built = get_program(spec)
    scalars = compute_scalars(spec, state.local_step, state.global_step)
    arrays = (tensor.numpy() for tensor in (*state.vectors, *(part.reshape(-1) for part in batch), scalars))
    constants = {number: tensor.numpy() for number, tensor in built.constants.items()}
    loss, *vectors = run_program(built.program, constants, *arrays)
    weights, first, second = (torch.from_numpy(vector) for vector in vectors)
    return TrainingState(weights, first, second, state.local_step + 1, state.global_step + 1), float(loss)


def main() -> None:
    """Does the walks that the arguments name, one after another."""
    folder, device, family, threads, onednn, *jobs = sys.argv[1:]
    pin_kernels(int(threads), onednn == "True")
    step: Advance = advance_by_numpy if family == NUMPY else advance
    if device != CPU:
        step = partial(advance, device=device)
    if family in FAMILIES:
        force_family(family)
    for text in jobs:
        content = json.loads(text)
        job = Walk(Run(**content.pop("run")), **{**content, "kept": tuple(content["kept"])})
        for line in walk(job, Path(folder), step):
            print(*line, flush=True)


# The benchmark
def start_worker(way: Way, folder: Path, *jobs: Walk) -> list[tuple[str, float]]:
    """Runs a worker to its end; returns what it printed. Raises CalledProcessError if it fails."""
    configuration = way.configuration
    settings = [str(folder), way.device, way.family, str(configuration.threads), str(configuration.onednn)]
    command = [way.python, "-m", "lab.benchmarks.exactness.walking", *settings]
    command += [json.dumps(asdict(job)) for job in jobs]
    done = subprocess.run(
        command, env=configuration.environment, check=True, stdout=subprocess.PIPE, text=True
    )
    lines = (line.split() for line in done.stdout.splitlines())
    return [(found, float(loss)) for found, loss in lines]


if __name__ == "__main__":
    main()
