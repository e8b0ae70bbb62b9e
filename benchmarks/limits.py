"""How far do honest machines differ? Replays segments on six kernel configurations, proposes limits from
them, and lays cheats beside these.

One process trains solvers' rounds of the demo, moments reset at each start, and keeps every boundary; each
configuration, a process of its own, replays each segment. All ordered pairs are compared. Then the cheats:
the same segments in bfloat16, at another learning rate, with one step left out; their excess is the largest
distance in units of the reject limit, and above 1 is rejected. Writes build/limits/report.json.
"""

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from benchmarks.setting import (
    INNER_STEPS,
    ROUNDS,
    SEGMENT_STEPS,
    build_demo_schedule,
    build_training,
    open_demo_corpus,
    read_standard_library,
    train_plainly,
    write_report,
)
from protocol.compute.calibrate import (
    FLOORS,
    KernelConfiguration,
    Proposal,
    find_maxima,
    list_configurations,
    propose_limits,
)
from protocol.compute.compare import Distances, compute_excess, measure_distances
from protocol.compute.data import Corpus, get_batch
from protocol.compute.determinism import list_cpu_capabilities, pin_kernels
from protocol.compute.model import init_parameters
from protocol.compute.step import GetBatch, TrainingState, begin_round, train_segment
from protocol.spec.containers import TrainingSpec
from protocol.spec.float32 import nearest
from protocol.spec.params import LEARNING_RATE_FRACTION_BITS
from protocol.spec.schedule import compute_learning_rate

RATE_FACTOR = 0.99


@dataclass(frozen=True)
class Stage:
    """A segment: the solver's round and slot, and the inner steps done when it starts."""

    round: int
    slot: int
    inner_step: int

    @property
    def name(self) -> str:
        """File name of the state, and name in the report."""
        return f"{self.round}-{self.slot}-{self.inner_step}"

    @property
    def global_step(self) -> int:
        """Steps of the task before it."""
        return self.round * INNER_STEPS + self.inner_step


@dataclass(frozen=True)
class Bench:
    """The demo's training, and how long a segment is."""

    folder: Path
    spec: TrainingSpec
    corpus: Corpus
    slots: int
    steps: int
    seed: bytes = b""
    """Of the data."""

    def list_stages(self) -> list[Stage]:
        """Every segment of every solver and round."""
        places = itertools.product(range(ROUNDS), range(self.slots), range(0, INNER_STEPS, self.steps))
        return [Stage(*place) for place in places]

    def train(
        self, state: TrainingState, stage: Stage, steps: int, spec: TrainingSpec | None = None
    ) -> TrainingState:
        """`steps` steps from a state within the stage's segment, on the data of its place."""
        used, inner_step = spec or self.spec, state.global_step - stage.round * INNER_STEPS
        return train_segment(state, used, self.get_batches(stage, used), inner_step, steps)[0]

    def get_batches(self, stage: Stage, spec: TrainingSpec) -> GetBatch:
        """The data of the stage's place."""
        beacon = sha256(self.seed + bytes([stage.round])).digest()
        return lambda step: get_batch(self.corpus, spec, beacon, stage.slot, step)

    def sum_rates(self, stage: Stage) -> float:
        """L of the segment."""
        places = ((stage.global_step + i, stage.inner_step + i) for i in range(self.steps))
        return sum(compute_learning_rate(self.spec.schedule, *place) for place in places)

    def save(self, name: str, stage: Stage, state: TrainingState) -> None:
        """Writes a state's vectors to a safetensors file."""
        vectors = {"w": state.weights, "m": state.first_moment, "v": state.second_moment}
        save_file(vectors, self.folder / f"{name}-{stage.name}")

    def load(self, name: str, stage: Stage, done: int) -> TrainingState:
        """Reads a state `done` steps into the segment."""
        tensors = load_file(self.folder / f"{name}-{stage.name}")
        places = (stage.inner_step + done, stage.global_step + done)
        return TrainingState(tensors["w"], tensors["m"], tensors["v"], *places)

    def load_start(self, stage: Stage) -> TrainingState:
        """The state that all replays of the segment start from."""
        return self.load("start", stage, 0)

    def load_end(self, configuration: KernelConfiguration, stage: Stage) -> TrainingState:
        """What one configuration made of it."""
        return self.load(configuration.name, stage, self.steps)


def open_bench(folder: Path, slots: int, steps: int) -> Bench:
    """The demo's spec and text."""
    data = read_standard_library()
    spec = build_training(data, build_demo_schedule())
    return Bench(folder, spec, open_demo_corpus(data, spec), slots, steps)


def make_starts(bench: Bench) -> None:
    """Trains all rounds once, each from the model of the last slot of the round before; stores each start."""
    weights = init_parameters(bench.spec.model, bench.spec.initial_seed)
    state = begin_round(weights, 0)
    for stage in bench.list_stages():
        if stage.inner_step == 0:
            weights = state.weights if stage.slot == 0 else weights
            state = begin_round(weights, stage.global_step)
        bench.save("start", stage, state)
        state = bench.train(state, stage, bench.steps)


def run_worker(bench: Bench, configuration: KernelConfiguration) -> None:
    """Replays every segment on this process's kernels and stores its end."""
    pin_kernels(configuration.threads, configuration.onednn)
    for stage in bench.list_stages():
        bench.save(configuration.name, stage, bench.train(bench.load_start(stage), stage, bench.steps))


def start_worker(bench: Bench, configuration: KernelConfiguration) -> None:
    """Runs `run_worker` in a process with the configuration's environment; waits for it."""
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": configuration.cpu_capability}
    worker = [str(bench.folder), str(configuration.threads), str(int(configuration.onednn))]
    options = ["--steps", str(bench.steps), "--slots", str(bench.slots), "--worker", *worker]
    subprocess.run([sys.executable, "-m", "benchmarks.limits", *options], env=environment, check=True)


def compare_all(
    bench: Bench, configurations: tuple[KernelConfiguration, ...], stage: Stage
) -> list[Distances]:
    """Distances of all ordered pairs of configurations on one segment."""
    ends = [bench.load_end(configuration, stage) for configuration in configurations]
    rates = bench.sum_rates(stage)
    return [measure_distances(a, b, rates, FLOORS) for a, b in itertools.permutations(ends, 2)]


# --- Cheats -------------------------------------------------------------------------------------------------
def train_in_bfloat16(bench: Bench, stage: Stage) -> TrainingState:
    """Matrix products in bfloat16."""
    batches = bench.get_batches(stage, bench.spec)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return train_plainly(bench.load_start(stage), bench.spec, batches, stage.inner_step, bench.steps)


def train_at_another_rate(bench: Bench, stage: Stage) -> TrainingState:
    """The learning rate one percent lower."""
    schedule = bench.spec.schedule
    rate = nearest(schedule.peak_learning_rate * RATE_FACTOR)
    spec = replace(bench.spec, schedule=replace(schedule, peak_learning_rate=rate))
    return bench.train(bench.load_start(stage), stage, bench.steps, spec)


def skip_step(bench: Bench, stage: Stage, skipped: int) -> TrainingState:
    """All steps of the segment but one."""
    state = bench.train(bench.load_start(stage), stage, skipped)
    jumped = replace(state, local_step=state.local_step + 1, global_step=state.global_step + 1)
    return bench.train(jumped, stage, bench.steps - skipped - 1)


CHEATS: dict[str, Callable[[Bench, Stage], TrainingState]] = {
    "bfloat16": train_in_bfloat16,
    "learning rate x 0.99": train_at_another_rate,
    "first step skipped": lambda bench, stage: skip_step(bench, stage, 0),
    "last step skipped": lambda bench, stage: skip_step(bench, stage, bench.steps - 1),
}


def measure_cheats(
    bench: Bench, configurations: tuple[KernelConfiguration, ...], proposal: Proposal
) -> dict[str, dict[str, float]]:
    """By cheat and stage of one slot: how far beyond the reject limit, seen by the configuration that sees
    least of it."""
    found: dict[str, dict[str, float]] = {name: {} for name in CHEATS}
    for stage in (stage for stage in bench.list_stages() if stage.slot == 0):
        ends = [bench.load_end(configuration, stage) for configuration in configurations]
        rate = int(bench.sum_rates(stage) * 2**LEARNING_RATE_FRACTION_BITS)
        for name, cheat in CHEATS.items():
            claimed = cheat(bench, stage)
            seen = [compute_excess(claimed, end, rate, proposal.reject).max() for end in ends]
            found[name][stage.name] = float(min(seen))
    return found


def calibrate(bench: Bench) -> dict[str, object]:
    """The report: honest maxima by stage, the proposal, and the cheats under it."""
    configurations = list_configurations(list_cpu_capabilities())
    make_starts(bench)
    for configuration in configurations:
        print(configuration.name, flush=True)
        start_worker(bench, configuration)
    measured = {stage.name: compare_all(bench, configurations, stage) for stage in bench.list_stages()}
    every = [distances for pairs in measured.values() for distances in pairs]
    proposal = propose_limits(every)
    cheats = measure_cheats(bench, configurations, proposal)
    return {
        "k": bench.steps,
        "H": INNER_STEPS,
        "configurations": [configuration.name for configuration in configurations],
        "segments": len(measured),
        "maxima": find_maxima(every),
        "floors": asdict(FLOORS),
        "proposal": asdict(proposal),
        "least_excess": {name: min(stages.values()) for name, stages in cheats.items()},
        "excess_by_stage": cheats,
        "maxima_by_stage": {name: find_maxima(pairs) for name, pairs in measured.items()},
    }


def main() -> None:
    """Measures, writes the report and prints its path; with --worker, replays on one configuration."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=SEGMENT_STEPS, help="k, steps of a segment")
    parser.add_argument("--slots", type=int, default=2, help="solvers whose rounds are replayed")
    parser.add_argument("--worker", nargs=3, metavar=("FOLDER", "THREADS", "ONEDNN"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        folder, threads, onednn = arguments.worker
        here = KernelConfiguration(int(threads), onednn == "1", list_cpu_capabilities()[0])
        return run_worker(open_bench(Path(folder), arguments.slots, arguments.steps), here)
    pin_kernels(1)
    with tempfile.TemporaryDirectory() as folder:
        bench = open_bench(Path(folder), arguments.slots, arguments.steps)
        print(write_report("limits", calibrate(bench)))


if __name__ == "__main__":
    main()
