"""What a referee is told of a task's steps, and that a node takes no other telling."""

from dataclasses import replace
from typing import Any

import pytest

from tests.protocol.spec.sample import sample_task
from tests.task_models import respecify
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.step_facts import (
    compute_step_facts,
    require_step_root,
    with_step_root,
)
from touchstone.protocol.spec.commitments import compute_step_root
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.float32 import nearest
from touchstone.protocol.spec.schedule import compute_scalar_leaves, compute_scalar_levels
from touchstone.protocol.spec.task_spec import ScheduleConfig, TaskSpec, TrainingSpec
from touchstone.step.optimizers import AdamW


@pytest.fixture
def task(spec: TrainingSpec) -> TaskSpec:
    terms = replace(sample_task().terms, rounds=2, inner_steps=6, segment_steps=2)
    schedule = ScheduleConfig(nearest(1e-3), warmup_steps=4, total_steps=12)
    return with_step_root(TaskSpec(terms, replace(spec, schedule=schedule)))


def test_facts_are_those_of_program_data_and_schedule(task: TaskSpec) -> None:
    facts, training = compute_step_facts(task), task.training
    program = get_program(training).program
    assert task.terms.step_root == compute_step_root(facts)
    assert (facts.program_root, facts.dataset_root) == (training.program_root, training.dataset_root)
    assert (facts.program_nodes, facts.program_buffers) == (len(program.nodes), len(program.buffers))
    assert (facts.sequences_per_step, facts.sequence_tokens) == (4, 16)
    assert (facts.token_bytes, facts.token_count, facts.dataset_bytes) == (1, 5000, 6000)
    assert (facts.numeric_format, facts.scalar_count, facts.vocabulary_size) == (0, 12, 64)
    assert facts.scalars_root == compute_scalar_levels(compute_scalar_leaves(task))[-1][0]


@pytest.mark.parametrize(
    "change",
    [
        {"dataset_root": bytes(32)},
        {"token_count": 5001},
        {"heldout_tokens": 999},
        {"optimizer": AdamW(beta1=nearest(0.8))},
        {"schedule": ScheduleConfig(nearest(1e-3), warmup_steps=5, total_steps=12)},
        {"sequence_tokens": 8},
    ],
)
def test_another_task_needs_another_step_root(task: TaskSpec, change: dict[str, Any]) -> None:
    require_step_root(task)
    changed = replace(task, training=respecify(task.training, **change))
    expected = compute_step_root(compute_step_facts(changed)).hex()
    with pytest.raises(InvalidInput, match=f"expected {expected}, got {task.terms.step_root.hex()}"):
        require_step_root(changed)
    require_step_root(with_step_root(changed))


def test_a_format_that_there_is_not_is_refused(task: TaskSpec) -> None:
    changed = replace(task, training=replace(task.training, numeric_format="bf16"))
    with pytest.raises(InvalidInput, match="float32 or exact8 or exact15"):
        compute_step_facts(changed)
