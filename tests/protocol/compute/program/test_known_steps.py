"""A step is found by what its task names, and taken only where it fits the task."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.protocol.compute.conftest import build_tiny_training
from tests.task_models import respecify
from touchstone.protocol.compute.program.known_steps import get_step, knows_step, learn_step, require_fit
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.program import Program
from touchstone.protocol.spec.task_spec import NamedBytes, TrainingSpec
from touchstone.protocol.spec.weights_layout import FrozenEntry, ParameterEntry, Start, WeightsLayout


def judge(spec: TrainingSpec, **changes: Any) -> None:
    """Judge the step of `spec` for a task with these changes. Those of the layout and of the count are not of
    the training."""
    step = get_step(spec)
    layout, count = changes.pop("layout_of_w", step.layout), changes.pop("count", step.parameters)
    require_fit(replace(spec, **changes), step.built.program, layout, count)


@pytest.mark.parametrize("numeric_format", ["float32", "exact15", "exact20"])
def test_a_step_fits_its_task(numeric_format: str) -> None:
    spec = build_tiny_training(numeric_format=numeric_format)
    judge(spec)
    assert knows_step(spec)


@pytest.mark.parametrize(("changes", "where"), [
    ({"program_root": bytes(32)}, "program_root"), ({"count": 7}, "parameter_count"),
    ({"sequences_per_step": 5}, "tokens of a step"), ({"sequence_tokens": 8}, "tokens of a step"),
    ({"vocabulary_size": 65}, "node"), ({"numeric_format": "exact15"}, "numeric_format"),
    ({"layout_of_w": WeightsLayout((ParameterEntry("a", (3,), Start.ONES),))}, "parameters of the layout"),
])  # fmt: skip
def test_a_step_of_another_task_is_refused_by_name(
    spec: TrainingSpec, changes: dict[str, Any], where: str
) -> None:
    with pytest.raises(InvalidInput, match=f"at {where}") as refusal:
        judge(spec, **changes)
    assert "Do not stake" in refusal.value.remedy


@pytest.mark.parametrize(("own", "other"), [
    ("exact15", "float32"), ("exact15", "exact8"), ("exact15", "exact20"), ("float32", "exact20"),
])  # fmt: skip
def test_a_program_of_another_format_is_refused(own: str, other: str) -> None:
    """In an exact task a sum of products without a fixed order would convict honest machines."""
    with pytest.raises(InvalidInput, match="at numeric_format"):
        judge(build_tiny_training(numeric_format=own), numeric_format=other)


def test_a_frozen_parameter_is_a_constant_of_the_program(spec: TrainingSpec) -> None:
    step = get_step(spec)
    number = next(iter(step.built.constants))
    root, size = step.built.program.buffers[number].constant_root, step.built.constants[number].numel()
    judge(spec, layout_of_w=replace(step.layout, frozen=(FrozenEntry("base", (size,), root),)))
    for entry in (FrozenEntry("base", (size + 1,), root), FrozenEntry("base", (size,), bytes(32))):
        with pytest.raises(InvalidInput, match="at base"):
            judge(spec, layout_of_w=replace(step.layout, frozen=(entry,)))


def test_a_step_is_found_by_program_and_layout(spec: TrainingSpec) -> None:
    other = replace(spec, layout=NamedBytes(bytes(32), 9))
    assert not knows_step(other)
    with pytest.raises(InvalidInput, match="not known here"):
        get_step(other)
    step = get_step(spec)
    learn_step(step)
    assert get_step(spec) is step
    larger = respecify(spec, sequences_per_step=2)
    assert get_step(larger).built.program != step.built.program and get_step(larger).layout == step.layout


def test_nothing_of_a_program_is_computed_to_judge_it(spec: TrainingSpec, monkeypatch: Any) -> None:
    monkeypatch.setattr(torch, "empty", None)
    monkeypatch.setattr(torch, "zeros", None)
    judge(spec)


def test_a_program_that_is_no_step_is_refused(spec: TrainingSpec) -> None:
    step = get_step(spec)
    program = step.built.program
    spoiled: Program = replace(program, outputs=replace(program.outputs, weights=program.outputs.loss))
    with pytest.raises(InvalidInput, match="at outputs"):
        require_fit(spec, spoiled, step.layout, step.parameters)
