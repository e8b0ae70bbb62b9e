"""The trial of a learning rate: a rate that diverges is told, a usual one is not, and it ends in time."""

import re
from math import inf, nan
from pathlib import Path

import pytest

from touchstone.scripts.tasks.task_example import write_example
from touchstone.scripts.tasks.task_file import TaskFile, read_task_file
from touchstone.scripts.tasks.trial_training import Trial, describe_trial, find_first_peak, try_training


def read_example(folder: Path, rate: str) -> TaskFile:
    """The example task with another rate, and a smaller model."""
    write_example(folder)
    path = folder / "task.toml"
    text = re.sub(r"peak_learning_rate = \S+", f"peak_learning_rate = {rate}", path.read_text())
    path.write_text(re.sub(r"layer_count = \d+", "layer_count = 1", text))
    return read_task_file(path)


def test_a_rate_that_diverges_is_told_before_the_task_is_posted(tmp_path: Path) -> None:
    trial = try_training(read_example(tmp_path, "1.0"))
    assert trial is not None and trial.is_diverging
    assert describe_trial(trial).startswith("WARNING: the learning rate is too high")
    assert "peak_learning_rate" in describe_trial(trial) and f"up to rate {trial.rate:g}" in describe_trial(
        trial
    )


def test_the_usual_rate_is_fine(tmp_path: Path) -> None:
    trial = try_training(read_example(tmp_path, "0.002"))
    assert trial is not None and not trial.is_diverging and trial.rate == pytest.approx(0.002)
    assert "WARNING" not in describe_trial(trial)


def test_a_trial_that_takes_too_long_judges_nothing(tmp_path: Path) -> None:
    assert try_training(read_example(tmp_path, "1.0"), longest_s=0.0) is None
    assert "was not tried" in describe_trial(None)


@pytest.mark.parametrize("losses", [(5.0, nan), (5.0, inf), (5.0, *(6.0,) * 12)])
def test_losses_that_rise_or_are_no_number_diverge(losses: tuple[float, ...]) -> None:
    assert Trial(losses, 1.0).is_diverging


def test_a_task_of_few_steps_is_tried_to_its_end(tmp_path: Path) -> None:
    write_example(tmp_path)
    path = tmp_path / "task.toml"
    text = re.sub(r"layer_count = \d+", "layer_count = 1", path.read_text())
    for key, value in (("rounds", 2), ("inner_steps", 8), ("segment_steps", 2), ("total_steps", 16)):
        text = re.sub(rf"(?m)^{key} = \d+", f"{key} = {value}", text)
    for key, value in (("warmup_steps", 2), ("inner_warmup_steps", 2), ("decay_steps", 4)):
        text = re.sub(rf"(?m)^{key} = \d+", f"{key} = {value}", text)
    path.write_text(text)
    trial = try_training(read_task_file(path))
    assert trial is not None and len(trial.losses) == 16


def test_a_short_task_is_tried_from_its_start(tmp_path: Path) -> None:
    plan = read_example(tmp_path, "0.002").plan
    assert find_first_peak(plan, 32) == plan.schedule.warmup_steps
    assert find_first_peak(plan, plan.schedule.total_steps + 1) == 0
