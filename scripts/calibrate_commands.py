"""`touchstone calibrate`: how far the kernel configurations of this machine differ on a task.

It runs a task's own segments on every kernel configuration of this machine, a process each.

    starts (trained here once) --> each process: replay every segment --> ends on disk --> all pairs compared

The folder that parent and processes share holds the training spec, the dataset, the segments and their
states; nothing in it outlives the run.
"""

import argparse
import asyncio
import itertools
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from touchstone.node.exports.tensor_file import save_tensors
from touchstone.node.joining.dataset import fetch_dataset
from touchstone.node.joining.joining import catch_up
from touchstone.node.joining.start_weights import load_start, make_start
from touchstone.node.joining.task_reading import read_spec
from touchstone.node.joining.task_step import StepSource, fetch_step
from touchstone.node.kit.peers import list_peers
from touchstone.node.kit.stored_step import keep_step, open_step
from touchstone.node.loop.opening import open_party
from touchstone.node.submit import build_task
from touchstone.protocol.adapters.signed_profiles import write_profile
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.compute.audit.compare import Distances, measure_distances
from touchstone.protocol.compute.audit.conditioning import find_usual, is_well_conditioned, shake, unshake
from touchstone.protocol.compute.audit.distance_survey import FLOORS, Survey, count_floor_units, name_stage
from touchstone.protocol.compute.audit.kernel_configurations import (
    KernelConfiguration,
    list_devices,
    list_every_configuration,
)
from touchstone.protocol.compute.batches import get_batch, open_corpus
from touchstone.protocol.compute.determinism import list_cpu_capabilities, pin_kernels
from touchstone.protocol.compute.outer.nesterov_step import begin_outer, merge
from touchstone.protocol.compute.outer.pseudo_gradients import encode_delta
from touchstone.protocol.compute.program.known_steps import get_step
from touchstone.protocol.compute.program.step import begin_round, replay_segment
from touchstone.protocol.compute.program.training_state import GetBatch, TrainingState
from touchstone.protocol.spec.calibration_profile import (
    PROFILE_VERSION,
    QUANTITIES,
    Profile,
    compute_subject,
)
from touchstone.protocol.spec.calibration_rules import DEFAULT_SEGMENTS, compute_maxima
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.game.posted_terms import make_spec
from touchstone.protocol.spec.params import LEARNING_RATE_FRACTION_BITS, MAX_SHARDS, PRODUCT_BITS
from touchstone.protocol.spec.schedule import compute_learning_rate_sum
from touchstone.protocol.spec.task_rules import find_training_malformations, refuse_broken
from touchstone.protocol.spec.task_spec import TaskSpec, TrainingSpec
from touchstone.protocol.spec.training_codec import decode_training, encode_training
from touchstone.scripts.command_form import read_path
from touchstone.scripts.console import Console, Document
from touchstone.scripts.home import unlock_key
from touchstone.scripts.home_checks import open_config
from touchstone.scripts.task_file import read_task_file
from touchstone.scripts.wallet import find_game

ROOT = Path(__file__).resolve().parents[1]
BYTES_PER_ELEMENT = 12
"""W, m and v of a state."""
LIMIT_KEYS = ("tau_m", "tau_v", "tau_w")
"""Which limit each of QUANTITIES is compared with."""
SEED = 1
"""Which way weights are shaken."""


@dataclass(frozen=True)
class Segment:
    """A place of training: round, solver's slot, inner steps done, steps to go, steps of the task before."""

    round: int
    slot: int
    inner_step: int
    steps: int
    global_step: int

    @property
    def name(self) -> str:
        """File name of its states."""
        return f"{self.round}-{self.slot}-{self.inner_step}"


def list_segments(spec: TaskSpec, least: int = DEFAULT_SEGMENTS, rounds: int = 0) -> list[Segment]:
    """All segments of the task's first `rounds` rounds (0: of all), of as many slots as give `least`."""
    terms = spec.terms
    length = min(rounds or terms.rounds, terms.rounds)
    slots = -(-least // (length * terms.segment_count))
    places = itertools.product(range(length), range(slots), range(0, terms.inner_steps, terms.segment_steps))
    return [Segment(r, s, i, terms.segment_steps, r * terms.inner_steps + i) for r, s, i in places]


# --- The shared folder --------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Workplace:
    """The folder, and what is in it."""

    folder: Path
    training: TrainingSpec
    segments: tuple[Segment, ...]
    get_batches: Callable[[Segment], GetBatch]

    def save(self, name: str, segment: Segment, state: TrainingState) -> None:
        """Write a state's vectors."""
        vectors = {"w": state.weights, "m": state.first_moment, "v": state.second_moment}
        save_tensors(self.folder / f"{name}-{segment.name}", vectors)

    def load(self, name: str, segment: Segment, done: int) -> TrainingState:
        """Read a state `done` steps into the segment. Moments are reset at each round's start."""
        tensors = load_file(self.folder / f"{name}-{segment.name}")
        places = (segment.inner_step + done, segment.global_step + done)
        return TrainingState(tensors["w"], tensors["m"], tensors["v"], *places)

    def replay(self, segment: Segment) -> TrainingState:
        """The segment's end from its stored start."""
        return self.train(segment, self.load("start", segment, 0))

    def train(self, segment: Segment, start: TrainingState) -> TrainingState:
        """The segment's end from any start, as this process computes it."""
        batches, place = self.get_batches(segment), (segment.inner_step, segment.steps)
        return replay_segment(start, self.training, batches, *place)[0]

    def sum_rates(self, segment: Segment) -> int:
        """L of a segment in units of 2^-64, as the schedule tree holds it."""
        inner_steps = max(one.inner_step + one.steps for one in self.segments)
        index = segment.global_step // segment.steps
        return compute_learning_rate_sum(self.training.schedule, index, segment.steps, inner_steps)


def write_workplace(
    folder: Path, training: TrainingSpec, data: bytes, segments: Sequence[Segment]
) -> Workplace:
    """Fill the folder."""
    (folder / "training").write_bytes(encode_training(training))
    (folder / "dataset").write_bytes(data)
    step = get_step(training)
    (folder / "parameters").write_text(str(step.parameters))
    keep_step(BlobStore(folder / "store", is_durable=False), training, step)
    (folder / "segments.json").write_text(json.dumps([asdict(segment) for segment in segments]))
    return open_workplace(folder)


def open_workplace(folder: Path) -> Workplace:
    """Read what `write_workplace` wrote. Data are drawn as solvers draw theirs, from a beacon of no chain."""
    training = decode_training((folder / "training").read_bytes())
    count = int((folder / "parameters").read_text())
    open_step(BlobStore(folder / "store", is_durable=False), training, count)
    corpus = open_corpus((folder / "dataset").read_bytes(), training)
    segments = tuple(Segment(**item) for item in json.loads((folder / "segments.json").read_text()))

    def get_batches(segment: Segment) -> GetBatch:
        """The batches of one segment, by inner step."""
        beacon = sha256(b"calibration" + segment.round.to_bytes(4, "big")).digest()
        return lambda step: get_batch(corpus, training, beacon, segment.slot, step)

    return Workplace(folder, training, segments, get_batches)


# --- Measuring ----------------------------------------------------------------------------------------------
def measure(
    folder: Path, spec: TaskSpec, data: bytes, weights: Tensor, segments: Sequence[Segment], operator: str,
    say: Callable[[str], None],
) -> Profile:  # fmt: skip
    """The profile of this machine. weights: those that the task begins with. Raises EnvironmentFault where
    the disk is too small for all ends, or a configuration does not run."""
    configurations = list_every_configuration(list_cpu_capabilities(), list_devices())
    require_disk(folder, spec, len(segments) * (len(configurations) + 1))
    workplace = write_workplace(folder, spec.training, data, segments)
    say(f"segments: {len(segments)}; kernel configurations: {len(configurations)}")
    terms = spec.terms
    rates = terms.outer_learning_rate, terms.outer_momentum
    kept = keep_well_conditioned(make_starts(workplace, weights, *rates))
    if len(kept) < len(segments):
        say(f"ill-conditioned segments, left out: {len(segments) - len(kept)}")
    for number, configuration in enumerate(configurations, start=1):
        say(f"{number} of {len(configurations)}: {configuration.name}")
        start_worker(workplace, configuration)
    survey = compare_all(workplace, spec, kept, [configuration.name for configuration in configurations])
    kind = describe_machine()
    return Profile(
        version=PROFILE_VERSION,
        operator=operator,
        subject=compute_subject(spec),
        machine=kind,
        libraries=f"torch {torch.__version__}, Python {platform.python_version()}",
        configurations=tuple(f"{kind}: {configuration.name}" for configuration in configurations),
        segments=len(kept),
        floors=count_floor_units(FLOORS),
        measurements=survey.summarize(),
    )


def require_disk(folder: Path, spec: TaskSpec, states: int) -> None:
    """Raises EnvironmentFault unless so many states have room."""
    needed, free = states * BYTES_PER_ELEMENT * spec.terms.parameter_count, shutil.disk_usage(folder).free
    if needed > free:
        raise EnvironmentFault(
            what="too little disk to calibrate",
            expected=f"{needed / 1e6:,.0f} MB for {states} states",
            actual=f"{free / 1e6:,.0f} MB",
            where=str(folder),
            remedy="Free some, set TMPDIR to another disk, or measure fewer --segments.",
            retryable=False,
        )


def make_starts(
    workplace: Workplace, weights: Tensor, learning_rate_bits: int, momentum_bits: int
) -> dict[Segment, Distances]:
    """Train all rounds once from `weights` and store each segment's start; return how far its own two results
    lie apart. After each round the slots' models are merged by the outer step, as nodes merge them (float32
    bit patterns of its rates, as in `TaskTerms`)."""
    noise, outer = dict[Segment, Distances](), begin_outer(weights)
    for _, of_round in itertools.groupby(workplace.segments, key=lambda segment: segment.round):
        slots = itertools.groupby(of_round, key=lambda segment: segment.slot)
        ends = [_train_slot(workplace, outer.weights, list(segments), noise) for _, segments in slots]
        deltas = [encode_delta(outer.weights, end) for end in ends[:MAX_SHARDS]]
        outer = merge(outer, deltas, learning_rate_bits, momentum_bits)
    return noise


def keep_well_conditioned(noise: Mapping[Segment, Distances]) -> list[Segment]:
    """The segments that limits may rest on."""
    usual = find_usual(list(noise.values()))
    return [segment for segment, own in noise.items() if is_well_conditioned(own, usual)]


def _train_slot(
    workplace: Workplace, weights: Tensor, segments: Sequence[Segment], noise: dict[Segment, Distances]
) -> Tensor:
    """One solver's round from the model `weights`: the weights at its end. `noise` gets each segment's
    own."""
    state = begin_round(weights, segments[0].global_step)
    for segment in segments:
        workplace.save("start", segment, state)
        start, state = state, workplace.train(segment, state)
        shaken = unshake(workplace.train(segment, shake(start, SEED)), start, SEED)
        rates = workplace.sum_rates(segment) * 2.0**-LEARNING_RATE_FRACTION_BITS
        noise[segment] = measure_distances(shaken, state, rates, FLOORS)
    return state.weights


def start_worker(workplace: Workplace, configuration: KernelConfiguration) -> None:
    """Replay everything in a process with the configuration's environment; wait for it."""
    command = [sys.executable, "-m", "touchstone.scripts.calibrate_commands", str(workplace.folder)]
    environment = {**os.environ, **configuration.environment}
    done = subprocess.run(
        [*command, json.dumps(asdict(configuration))], env=environment, cwd=ROOT, check=False
    )
    if done.returncode:
        raise EnvironmentFault(
            what="a kernel configuration does not run on this machine",
            expected="exit status 0",
            actual=done.returncode,
            where=configuration.name,
            remedy="See its output above; calibrate on another machine, or with another build of torch.",
            retryable=False,
        )


def run_worker(folder: Path, configuration: KernelConfiguration) -> None:
    """Replay every segment on this process's kernels and store its end."""
    pin_kernels(configuration.threads, configuration.onednn, configuration.device)
    workplace = open_workplace(folder)
    for segment in workplace.segments:
        workplace.save(configuration.name, segment, workplace.replay(segment))


def compare_all(
    workplace: Workplace, spec: TaskSpec, segments: Sequence[Segment], names: Sequence[str]
) -> Survey:
    """All ordered pairs of configurations on some segments."""
    schedule, survey = spec.training.schedule, Survey(get_step(spec.training).layout)
    for segment in segments:
        rates = workplace.sum_rates(segment) * 2.0**-LEARNING_RATE_FRACTION_BITS
        stage = name_stage(schedule, segment.global_step, segment.inner_step, segment.steps)
        ends = [workplace.load(name, segment, segment.steps) for name in names]
        for claimed, replayed in itertools.permutations(ends, 2):
            survey.add(claimed, replayed, rates, stage)
    return survey


def describe_machine() -> str:
    """The kind of processor, and of accelerator where there is one: what tells machines apart whose kernels
    may differ."""
    parts = [platform.machine(), _read_processor(), *map(torch.cuda.get_device_name, list_devices())]
    text = ", ".join(part for part in parts if part)
    return "".join(c for c in text if c.isascii() and c.isprintable())[:120]


def _read_processor() -> str:
    """The model name that Linux shows, else what Python knows."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    fields = dict(line.partition(":")[::2] for line in lines)
    names = {key.strip(): value.strip() for key, value in fields.items()}
    family = " ".join(names.get(key, "") for key in ("cpu family", "model", "stepping")).strip()
    return f"{names.get('model name', platform.processor())} ({family})"


def main() -> None:
    """With a folder and a configuration in JSON: replay."""
    folder, text = sys.argv[1:]
    run_worker(Path(folder), KernelConfiguration(**json.loads(text)))


if __name__ == "__main__":
    main()


def run_calibrate(options: argparse.Namespace) -> Document:
    """Measure a task on this machine's kernels and write the signed profile."""
    console, key = Console(), unlock_key(options.home, options.password_file)
    operator = key.address.lower()
    if read_path(options.task).is_file():
        spec, data, weights = _read_task(read_path(options.task), operator)
    else:
        spec, data, weights = asyncio.run(_fetch_task(options, console))
    _require_limits(spec.training)
    pin_kernels(1)
    segments = list_segments(spec, options.segments, options.rounds)
    with tempfile.TemporaryDirectory() as folder:
        profile = measure(Path(folder), spec, data, weights, segments, operator, console.say)
    write_profile(options.out, profile, key)
    maxima = [float(value) for value in compute_maxima(profile)]
    for name, limit, value in zip(QUANTITIES, LIMIT_KEYS, maxima, strict=True):
        console.say(f"largest distance of {name}, to be compared with {limit}: {value:.3g}")
    console.say(f"signed by {operator}: {options.out}")
    distances = dict(zip(LIMIT_KEYS, maxima, strict=True))
    return {"profile": str(options.out), "operator": operator, "largest_distances": distances}


def _require_limits(training: TrainingSpec) -> None:
    if training.numeric_format in PRODUCT_BITS:
        raise InvalidInput(
            what="an exact task has no limits to be measured",
            expected="a numeric format whose machines differ",
            actual=training.numeric_format,
            where="numeric_format",
            remedy="Submit the task without [limits]: every machine gets the same bits.",
        )


def _read_task(path: Path, operator: str) -> tuple[TaskSpec, bytes, Tensor]:
    """What a task file would post, with its dataset and its first weights; the limits in it have no part in
    the measurement."""
    file = read_task_file(path)
    data, start = file.dataset.read_bytes(), None if file.weights is None else file.weights.read()
    spec = make_spec(*build_task(file.plan, data, operator, bytes(32), start))
    return spec, data, make_start(spec) if start is None else start


async def _fetch_task(options: argparse.Namespace, console: Console) -> tuple[TaskSpec, bytes, Tensor]:
    """A posted task, its dataset and its first weights."""
    async with open_party(open_config(options, console)) as party:
        await catch_up(party)
        task, _ = find_game(party.state, options.task)
        spec = read_spec(party.state, task)
        refuse_broken(find_training_malformations(spec))
        peers = partial(list_peers, party, task, first=spec.terms.submitter)
        await fetch_step(StepSource(party.store, party.client, peers, party.say), spec)
        return spec, await fetch_dataset(party, task, spec), await load_start(party, task, spec)
