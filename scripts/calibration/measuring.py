"""Runs a task's own segments on every kernel configuration of this machine, a process each.

starts (trained here once) --> each process: replay every segment --> ends on disk --> all pairs compared
"""

import itertools
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from touchstone.protocol.compute.audit.conditioning import find_usual, is_well_conditioned
from touchstone.protocol.compute.audit.distance_survey import FLOORS, Survey, count_floor_units, name_stage
from touchstone.protocol.compute.audit.kernel_configurations import (
    KernelConfiguration,
    list_devices,
    list_every_configuration,
)
from touchstone.protocol.compute.determinism import list_cpu_capabilities
from touchstone.protocol.compute.outer.nesterov_step import begin_outer, merge
from touchstone.protocol.compute.outer.pseudo_gradients import encode_delta
from touchstone.protocol.compute.program.known_steps import get_step
from touchstone.protocol.compute.program.step import begin_round
from touchstone.protocol.compute.tolerance.compare import Distances, measure_distances
from touchstone.protocol.compute.tolerance.shaking import shake, unshake
from touchstone.protocol.spec.calibration_profile import PROFILE_VERSION, Profile, compute_subject
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.params import LEARNING_RATE_FRACTION_BITS, MAX_SHARDS
from touchstone.protocol.spec.task_spec import TaskSpec
from touchstone.scripts.calibration.calibration_folder import Segment, Workplace, write_workplace

ROOT = Path(__file__).resolve().parents[2]
BYTES_PER_ELEMENT = 12
"""Bytes for W, m and v of a state."""
SEED = 1
"""Decides which way weights are changed."""


def measure(
    folder: Path, spec: TaskSpec, data: bytes, weights: Tensor, segments: Sequence[Segment], operator: str,
    notify: Callable[[str], None],
) -> Profile:  # fmt: skip
    """Returns the profile of this machine. `weights` are those that the task begins with. Raises
    EnvironmentFault if the disk is too small for all ends, or a configuration does not run."""
    configurations = list_every_configuration(list_cpu_capabilities(), list_devices())
    require_disk(folder, spec, len(segments) * (len(configurations) + 1))
    workplace = write_workplace(folder, spec.training, data, segments)
    notify(f"segments: {len(segments)}; kernel configurations: {len(configurations)}")
    terms = spec.terms
    rates = terms.outer_learning_rate, terms.outer_momentum
    kept = keep_well_conditioned(make_starts(workplace, weights, *rates))
    if len(kept) < len(segments):
        notify(f"ill-conditioned segments, left out: {len(segments) - len(kept)}")
    for number, configuration in enumerate(configurations, start=1):
        notify(f"{number} of {len(configurations)}: {configuration.name}")
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
    """Raises EnvironmentFault unless the disk has room for this number of states."""
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
    """Trains all rounds once from `weights`, and stores each segment's start. Returns the own noise of each
    segment. After each round the slots' models are merged by the outer step, as nodes merge them (float32
    bits of its rates, as in `TaskTerms`)."""
    noise, outer = dict[Segment, Distances](), begin_outer(weights)
    for _, of_round in itertools.groupby(workplace.segments, key=lambda segment: segment.round):
        slots = itertools.groupby(of_round, key=lambda segment: segment.slot)
        ends = [_train_slot(workplace, outer.weights, list(segments), noise) for _, segments in slots]
        deltas = [encode_delta(outer.weights, end) for end in ends[:MAX_SHARDS]]
        outer = merge(outer, deltas, learning_rate_bits, momentum_bits)
    return noise


def keep_well_conditioned(noise: Mapping[Segment, Distances]) -> list[Segment]:
    """Returns the segments that limits may use."""
    usual = find_usual(list(noise.values()))
    return [segment for segment, own in noise.items() if is_well_conditioned(own, usual)]


def _train_slot(
    workplace: Workplace, weights: Tensor, segments: Sequence[Segment], noise: dict[Segment, Distances]
) -> Tensor:
    """Trains one solver's round from the model `weights`, and returns the weights at its end. `noise` is
    filled with each segment's own noise."""
    state = begin_round(weights, segments[0].global_step)
    for segment in segments:
        workplace.save("start", segment, state)
        start, state = state, workplace.train(segment, state)
        shaken = unshake(workplace.train(segment, shake(start, SEED)), start, SEED)
        rates = workplace.sum_rates(segment) * 2.0**-LEARNING_RATE_FRACTION_BITS
        noise[segment] = measure_distances(shaken, state, rates, FLOORS)
    return state.weights


def start_worker(workplace: Workplace, configuration: KernelConfiguration) -> None:
    """Runs all replays in a process with the configuration's environment, and waits for it."""
    command = [sys.executable, "-m", "touchstone.scripts.calibration.worker", str(workplace.folder)]
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


def compare_all(
    workplace: Workplace, spec: TaskSpec, segments: Sequence[Segment], names: Sequence[str]
) -> Survey:
    """Returns all ordered pairs of configurations with their distances on some segments."""
    schedule, survey = spec.training.schedule, Survey(get_step(spec.training).layout)
    for segment in segments:
        rates = workplace.sum_rates(segment) * 2.0**-LEARNING_RATE_FRACTION_BITS
        stage = name_stage(schedule, segment.global_step, segment.inner_step, segment.steps)
        ends = [workplace.load(name, segment, segment.steps) for name in names]
        for claimed, replayed in itertools.permutations(ends, 2):
            survey.add(claimed, replayed, rates, stage)
    return survey


def describe_machine() -> str:
    """Describes the kind of processor, and of accelerator if there is one: machines of different kinds may
    have different kernels."""
    parts = [platform.machine(), _read_processor(), *map(torch.cuda.get_device_name, list_devices())]
    text = ", ".join(part for part in parts if part)
    return "".join(c for c in text if c.isascii() and c.isprintable())[:120]


def _read_processor() -> str:
    """Returns the model name of the processor that Linux shows, else Python's."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    fields = dict(line.partition(":")[::2] for line in lines)
    names = {key.strip(): value.strip() for key, value in fields.items()}
    family = " ".join(names.get(key, "") for key in ("cpu family", "model", "stepping")).strip()
    return f"{names.get('model name', platform.processor())} ({family})"
