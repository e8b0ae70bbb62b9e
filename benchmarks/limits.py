"""How far do honest machines differ? Replays segments on six kernel configurations and proposes limits from
them.

One process trains rounds of the demo's shape on the first configuration, moments reset at each start, and
keeps every boundary; each configuration, a process of its own, replays each segment. All ordered pairs are
compared. Writes build/limits/report.json.
"""

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from safetensors.torch import load_file, save_file

from benchmarks.setting import build_training, open_demo_corpus, read_standard_library, write_report
from protocol.compute.calibrate import (
    CONFIGURATIONS,
    FLOORS,
    KernelConfiguration,
    find_maxima,
    propose_limits,
)
from protocol.compute.compare import Distances, measure_distances
from protocol.compute.data import Corpus, get_batch
from protocol.compute.determinism import pin_kernels
from protocol.compute.model import init_parameters
from protocol.compute.step import TrainingState, begin_round, train_segment
from protocol.spec.containers import TrainingSpec
from protocol.spec.schedule import compute_learning_rate

BEACON = sha256(b"limits").digest()
ROUNDS = 3
INNER_STEPS = 40
TOTAL_STEPS = ROUNDS * INNER_STEPS
PEAK_LEARNING_RATE = 2e-3
WARMUP_STEPS = 40


@dataclass(frozen=True)
class Stage:
    """Where a segment starts: a round, and the inner steps done in it since its moments were zero."""

    round: int
    local_step: int

    @property
    def name(self) -> str:
        """File name of the state."""
        return f"{self.round}-{self.local_step}"

    @property
    def step(self) -> int:
        """The global step."""
        return self.round * INNER_STEPS + self.local_step


def list_stages(steps: int) -> list[Stage]:
    """The start of every segment of `steps` steps."""
    return [Stage(index, step) for index in range(ROUNDS) for step in range(0, INNER_STEPS, steps)]


def train(state: TrainingState, spec: TrainingSpec, corpus: Corpus, steps: int) -> TrainingState:
    """`steps` steps on the data that belongs to the state's place."""
    return train_segment(
        state, spec, lambda i: get_batch(corpus, spec, BEACON, 0, i), state.global_step, steps
    )[0]


def save_state(path: Path, state: TrainingState) -> None:
    """Writes the vectors of a state to a safetensors file."""
    save_file({"w": state.weights, "m": state.first_moment, "v": state.second_moment}, path)


def load_state(path: Path, local_step: int, global_step: int) -> TrainingState:
    """Reads a state that has these counters."""
    tensors = load_file(path)
    return TrainingState(tensors["w"], tensors["m"], tensors["v"], local_step, global_step)


def prepare(inner_warmup_steps: int) -> tuple[TrainingSpec, Corpus]:
    """The demo's spec and text."""
    data = read_standard_library()
    spec = build_training(data, PEAK_LEARNING_RATE, TOTAL_STEPS, WARMUP_STEPS, inner_warmup_steps)
    return spec, open_demo_corpus(data, spec)


def make_starts(folder: Path, steps: int, warmup: int) -> None:
    """Trains the rounds once and stores the state at each stage."""
    spec, corpus = prepare(warmup)
    state = begin_round(init_parameters(spec.model, spec.initial_seed), 0)
    for stage in list_stages(steps):
        if stage.local_step == 0:
            state = begin_round(state.weights, stage.step)
        save_state(folder / f"start-{stage.name}", state)
        state = train(state, spec, corpus, steps)


def run_worker(folder: Path, configuration: KernelConfiguration, steps: int, warmup: int) -> None:
    """Replays one segment from each stored stage on this process's kernels and stores its end."""
    pin_kernels(configuration.threads, configuration.onednn)
    spec, corpus = prepare(warmup)
    for stage in list_stages(steps):
        start = load_state(folder / f"start-{stage.name}", stage.local_step, stage.step)
        save_state(folder / f"{configuration.name}-{stage.name}", train(start, spec, corpus, steps))


def start_worker(folder: Path, index: int, steps: int, warmup: int) -> None:
    """Runs `run_worker` for one configuration in a process with its environment; waits for it."""
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": CONFIGURATIONS[index].cpu_capability}
    worker = ["--worker", str(folder), "--configuration", str(index), "--steps", str(steps)]
    worker += ["--inner-warmup", str(warmup)]
    subprocess.run([sys.executable, "-m", "benchmarks.limits", *worker], env=environment, check=True)


def compare_all(folder: Path, stage: Stage, steps: int, warmup: int) -> list[Distances]:
    """Distances of all ordered pairs of configurations at one stage."""
    spec, _ = prepare(warmup)
    rates = [compute_learning_rate(spec.schedule, stage.step + i, stage.local_step + i) for i in range(steps)]
    places = (stage.local_step + steps, stage.step + steps)
    ends = [load_state(folder / f"{c.name}-{stage.name}", *places) for c in CONFIGURATIONS]
    return [measure_distances(a, b, sum(rates), FLOORS) for a, b in itertools.permutations(ends, 2)]


def calibrate(steps: int, warmup: int) -> dict[str, object]:
    """The report: honest maxima by stage, and the proposal."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_starts(folder, steps, warmup)
        for index, configuration in enumerate(CONFIGURATIONS):
            print(configuration.name, flush=True)
            start_worker(folder, index, steps, warmup)
        measured = {stage.name: compare_all(folder, stage, steps, warmup) for stage in list_stages(steps)}
    every = [distances for pairs in measured.values() for distances in pairs]
    return {
        "k": steps,
        "inner_warmup_steps": warmup,
        "maxima_by_stage": {name: find_maxima(pairs) for name, pairs in measured.items()},
        "maxima": find_maxima(every),
        "floors": asdict(FLOORS),
        "proposal": asdict(propose_limits(every)),
    }


def main() -> None:
    """Measures, writes the report and prints its path; with --worker, replays on one configuration."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10, help="k, steps of a segment")
    parser.add_argument("--inner-warmup", type=int, default=8, help="steps of warm-up after a reset")
    parser.add_argument("--worker", type=Path, metavar="FOLDER", help=argparse.SUPPRESS)
    parser.add_argument("--configuration", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    steps, warmup = arguments.steps, arguments.inner_warmup
    if arguments.worker:
        return run_worker(arguments.worker, CONFIGURATIONS[arguments.configuration], steps, warmup)
    pin_kernels(1)
    print(write_report("limits", calibrate(steps, warmup)))


if __name__ == "__main__":
    main()
