"""A taste of the campaign: honest machines part, none is convicted; a false step is disputed and found."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from lab.benchmarks import drift
from lab.benchmarks.drift import Found, judge_phase
from lab.benchmarks.replays.machines import (
    TRACE,
    Machine,
    judge_steps,
    list_machines,
    name_step,
    run_workers,
    show_trace,
)
from lab.benchmarks.replays.pairs import PHASES, Track, bend_batches, open_track
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.step import train_segment
from touchstone.protocol.compute.program.training_state import Batch, TrainingState
from touchstone.protocol.compute.tolerance.compare import Verdict
from touchstone.protocol.spec.task_spec import Limits
from touchstone.scripts.calibration.calibration_folder import Segment, Workplace

TRACK = Track("long", "campaign", 2, 1, "rate x 10")
SEGMENTS = 8
FALSE_STEP = 7


class Liar:
    """A claimant in this process: all its weights are one per cent too large after one step of each segment;
    as a verifier it is honest."""

    machine = replace(list_machines()[0], sums="false")

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def replay(self, track: Track) -> None:
        workplace = open_track(track, self._folder)
        for segment in workplace.segments:
            *_, end = self._train(workplace, segment)
            workplace.save(self.machine.name, segment, end)

    def show_steps(self, track: Track, number: int) -> None:
        workplace = open_track(track, self._folder)
        for step, state in enumerate(self._train(workplace, workplace.segments[number])):
            workplace.save(name_step(self.machine.name, step), workplace.segments[number], state)

    def show_trace(self, track: Track, number: int, step: int) -> None:
        workplace = open_track(track, self._folder)
        show_trace(workplace, self.machine.name, workplace.segments[number], step)
        output = get_program(workplace.training).program.outputs.weights
        buffers = load_file(self._folder / TRACE)
        buffers[str(output)] = 1.01 * buffers[str(output)]
        save_file(buffers, self._folder / TRACE)

    def judge_steps(self, track: Track, number: int, claimant: str, limits: Limits) -> list[Verdict]:
        workplace = open_track(track, self._folder)
        return judge_steps(workplace, claimant, workplace.segments[number], limits)

    def _train(self, workplace: Workplace, segment: Segment) -> Iterator[TrainingState]:
        state, batches = workplace.load("start", segment, 0), workplace.get_batches(segment)
        yield state
        for step in range(segment.steps):
            place = segment.inner_step + step
            state, _ = train_segment(state, workplace.training, batches, place, 1)
            if step == FALSE_STEP:
                state = replace(state, weights=1.01 * state.weights)
            yield state


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Found, Found]:
    """What honest machines give, and what one of them and a liar do."""
    pin_kernels(1)
    folder, every = tmp_path_factory.mktemp("drift"), list_machines()
    chosen: tuple[Machine, ...] = (every[0], every[7], every[-1])
    with run_workers(chosen, folder) as workers:
        limits = drift.calibrate("long", 1, folder, workers)
        honest = judge_phase(TRACK, folder, workers, limits, 100)
        mixed: Any = [workers[0], Liar(folder)]
        return honest, judge_phase(TRACK, folder, mixed, limits, 100)


def test_honest_machines_part_and_none_is_convicted(measured: tuple[Found, Found]) -> None:
    honest, _ = measured
    assert honest.segments == SEGMENTS and honest.pairs == SEGMENTS * 6
    assert 0 < honest.beyond == honest.judged < honest.pairs and honest.largest_segment > 1
    assert honest.unfinite_segments == honest.unserved == honest.unclaimed == honest.faults == 0
    # Where honest steps part (docs/decisions/0037-drift.md), the verifier's own noise says so.
    assert honest.disputed == 0


def test_a_false_step_is_disputed_and_found(measured: tuple[Found, Found]) -> None:
    _, mixed = measured
    # The liar's claims and its honest looks at the other's: all part, and its claims alone are false.
    assert mixed.pairs == mixed.beyond == mixed.judged == 2 * SEGMENTS
    assert mixed.disputed == mixed.searched == mixed.faults == SEGMENTS
    assert all(f"step {FALSE_STEP}," in line for line in mixed.disputes)
    assert mixed.largest_step > 100


def test_the_report_adds_up_and_names_losses() -> None:
    plan = drift.make_plan(is_quick=True)
    found = {phase: Found(segments=1, pairs=10, beyond=2, largest_step=0.5) for phase in PHASES}
    models = {"tiny": found, "long": {**found, "one batch": Found(pairs=10, disputed=3, largest_step=2.0)}}
    report = drift.summarize(plan, models, {})
    assert report["phases"]["usual"]["voided_share"] == 0.2
    assert report["phases"]["usual"]["voided_claims"] == pytest.approx(0.36)
    assert report["phases"]["one batch"]["largest_step"] == 2.0
    assert report["phases"]["one batch"]["models"]["tiny"]["disputed"] == 0
    assert drift.find_losses(report) == ["one batch: 3 pairs disputed"]


def test_phases_change_what_they_name() -> None:
    batches = {step: Batch(torch.tensor([[step, 1]]), torch.tensor([[1, step]])) for step in range(3)}
    first, constant = (bend_batches(batches.__getitem__, PHASES[name]) for name in ("one batch", "constant"))
    assert torch.equal(first(2).tokens_BT, batches[0].tokens_BT)
    assert len({int(value) for part in constant(2) for value in part.flatten()}) == 1
    peaks = {
        name: open_track(replace(TRACK, phase=name), Path()).training.schedule.peak_learning_rate
        for name in PHASES
    }
    assert peaks["rate x 5"] == pytest.approx(5 * peaks["usual"])
    assert peaks["rate x 10"] == pytest.approx(10 * peaks["one batch"])
