"""First limits: what six honest kernel configurations differ by, and the cheats that they must reject."""

import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.protocol.compute.conftest import TOKENS, build_tiny_training
from tests.task_models import draw_first
from tests.training_setting import (
    find_maxima,
    list_configurations,
    propose_limits,
    train_plainly,
)
from touchstone.protocol.compute.audit.distance_survey import FLOORS
from touchstone.protocol.compute.audit.kernel_configurations import KernelConfiguration
from touchstone.protocol.compute.batches import get_batch, open_corpus
from touchstone.protocol.compute.determinism import list_cpu_capabilities, pin_kernels
from touchstone.protocol.compute.program.step import begin_round, train_segment
from touchstone.protocol.compute.program.training_state import GetBatch, TrainingState
from touchstone.protocol.compute.tolerance.compare import judge_state, measure_distances
from touchstone.protocol.spec.calibration_rules import LEAST_MAXIMUM, MARGIN
from touchstone.protocol.spec.float32 import nearest
from touchstone.protocol.spec.schedule import compute_learning_rate
from touchstone.protocol.spec.task_spec import Limits, TrainingSpec

STEPS = 5
STAGES = (0, 10, 40)
SPEC = build_tiny_training()
CORPUS = open_corpus(TOKENS, SPEC)
CONFIGURATIONS = list_configurations(list_cpu_capabilities())

REPLAY_PROGRAM = (
    "import sys; from tests.protocol.compute.audit.test_limits import replay_all; replay_all(*sys.argv[1:])"
)


def train(state: TrainingState, steps: int, spec: TrainingSpec = SPEC) -> TrainingState:
    return train_segment(state, spec, get_batches(spec), state.global_step, steps)[0]


def get_batches(spec: TrainingSpec) -> GetBatch:
    return lambda step: get_batch(CORPUS, spec, bytes(32), 0, step)


def read(path: Path, step: int) -> TrainingState:
    tensors = load_file(path)
    return TrainingState(tensors["w"], tensors["m"], tensors["v"], step, step)


def write(path: Path, state: TrainingState) -> None:
    save_file({"w": state.weights, "m": state.first_moment, "v": state.second_moment}, path)


def replay_all(folder: str, name: str, threads: str, onednn: str) -> None:
    """Runs in a process of its own: one segment from each stored start."""
    pin_kernels(int(threads), onednn == "1")
    for stage in STAGES:
        write(Path(folder, f"{name}-{stage}"), train(read(Path(folder, f"start-{stage}"), stage), STEPS))


def start_replay(folder: Path, configuration: KernelConfiguration) -> None:
    arguments = [str(folder), configuration.name, str(configuration.threads), str(int(configuration.onednn))]
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": configuration.cpu_capability}
    subprocess.run([sys.executable, "-c", REPLAY_PROGRAM, *arguments], env=environment, check=True)


@dataclass(frozen=True)
class Measured:
    """The honest starts and ends by stage, and the limits proposed from them."""

    starts: dict[int, TrainingState]
    ends: dict[int, list[TrainingState]]
    limits: Limits


def sum_rates(stage: int) -> float:
    return sum(compute_learning_rate(SPEC.schedule, step, step) for step in range(stage, stage + STEPS))


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    folder = tmp_path_factory.mktemp("limits")
    pin_kernels(1)
    state = begin_round(draw_first(SPEC), 0)
    starts = {}
    for stage in STAGES:
        state = starts[stage] = train(state, stage - state.global_step)
        write(folder / f"start-{stage}", state)
    for configuration in CONFIGURATIONS:
        start_replay(folder, configuration)
    ends = {s: [read(folder / f"{c.name}-{s}", s + STEPS) for c in CONFIGURATIONS] for s in STAGES}
    distances = [
        measure_distances(a, b, sum_rates(stage), FLOORS)
        for stage in STAGES
        for a in ends[stage]
        for b in ends[stage]
    ]
    return Measured(starts, ends, propose_limits(distances))


def judge(measured: Measured, stage: int, claimed: TrainingState) -> set[bool]:
    """Whether a claim lies beyond the limits: what replays on every configuration say."""
    rate = int(sum_rates(stage) * 2**64)
    return {judge_state(claimed, e, rate, measured.limits).exceeds_limits for e in measured.ends[stage]}


def test_the_configurations_really_differ(measured: Measured) -> None:
    assert any(not torch.equal(measured.ends[10][0].weights, end.weights) for end in measured.ends[10])


@pytest.mark.parametrize("stage", STAGES)
def test_honest_replays_are_accepted(measured: Measured, stage: int) -> None:
    for claimed in measured.ends[stage]:
        assert judge(measured, stage, claimed) == {False}


def test_limits_are_at_most_ten_times_the_honest_maximum(measured: Measured) -> None:
    every = [
        measure_distances(a, b, sum_rates(stage), FLOORS)
        for stage in STAGES
        for a in measured.ends[stage]
        for b in measured.ends[stage]
    ]
    taus = (measured.limits.tau_m, measured.limits.tau_v, measured.limits.tau_w)
    assert MARGIN <= 10
    for tau, largest in zip(taus, find_maxima(every), strict=True):
        # Where nothing differs beyond the floor: the least limits that a task may have, in proportion.
        assert tau <= 10 * max(largest, float(LEAST_MAXIMUM)) * 2**64 + 1


@pytest.mark.parametrize("stage", STAGES)
def test_bfloat16_is_rejected(measured: Measured, stage: int) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        claimed = train_plainly(measured.starts[stage], SPEC, get_batches(SPEC), stage, STEPS)
    assert judge(measured, stage, claimed) == {True}


@pytest.mark.parametrize("stage", STAGES)
def test_another_learning_rate_is_rejected(measured: Measured, stage: int) -> None:
    rate = nearest(SPEC.schedule.peak_learning_rate * 0.99)
    spec = replace(SPEC, schedule=replace(SPEC.schedule, peak_learning_rate=rate))
    assert judge(measured, stage, train(measured.starts[stage], STEPS, spec)) == {True}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("skipped", [0, STEPS - 1])
def test_one_skipped_step_is_rejected(measured: Measured, stage: int, skipped: int) -> None:
    state = train(measured.starts[stage], skipped)
    jumped = replace(state, local_step=state.local_step + 1, global_step=state.global_step + 1)
    assert judge(measured, stage, train(jumped, STEPS - skipped - 1)) == {True}
