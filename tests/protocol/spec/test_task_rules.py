"""Every way in which a submitter could hurt nodes is refused under its own name; the sample tasks pass."""

from dataclasses import replace
from typing import Any

import pytest

from tests.protocol.spec.sample import sample_task
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.float32 import nearest
from touchstone.protocol.spec.params import PROTOCOL_VERSION
from touchstone.protocol.spec.task_rules import (
    Malformation,
    find_size_malformations,
    find_training_malformations,
    refuse_broken,
)
from touchstone.protocol.spec.task_spec import TaskSpec

TASK = sample_task()
NAN, MINUS_ONE, ONE = 0x7FC00000, 0xBF800000, 0x3F800000


def spoil(path: str, value: Any) -> TaskSpec:
    """The sample task with one field, named by its dotted path, replaced."""
    names = path.split(".")
    containers: list[Any] = [TASK]
    for name in names[:-1]:
        containers.append(getattr(containers[-1], name))
    for container, name in zip(reversed(containers), reversed(names), strict=True):
        value = replace(container, **{name: value})
    return value  # type: ignore[no-any-return]


def test_the_sample_task_is_well_formed() -> None:
    assert find_training_malformations(TASK) == []
    refuse_broken([])


Case = tuple[str, Any, str]
"""A field by its dotted path, its value, and the rule that it is about."""


def over(cases: list[Case]) -> pytest.MarkDecorator:
    """The test for each of the cases."""
    names = [f"{path}={value!r:.20}" for path, value, _ in cases]
    return pytest.mark.parametrize(("path", "value", "name"), cases, ids=names)


CASES: list[Case] = [
    ("training.protocol_version", PROTOCOL_VERSION - 1, "protocol_version"),
    ("training.numeric_format", "float16", "numeric_format"),
    ("training.beta1", 1.0, "betas"),
    ("training.beta2", -0.5, "betas"),
    ("training.schedule.peak_learning_rate", 0.0, "peak_learning_rate"),
    ("training.schedule.peak_learning_rate", 1 + 2.0**-23, "peak_learning_rate"),
    ("training.schedule.total_steps", 35, "total_steps"),
    ("training.schedule.warmup_steps", 37, "warmup_steps"),
    ("training.schedule.decay_steps", 37, "decay_steps"),
    ("training.schedule.decay_shape", "cosine", "decay_shape"),
    ("training.schedule.final_ratio", 1 + 2.0**-23, "final_ratio"),
    ("training.schedule.inner_warmup_steps", 13, "inner_warmup_steps"),
    ("terms.rounds", 0, "rounds"),
    ("terms.segment_steps", 0, "segment_steps"),
    ("terms.segment_steps", 21, "segment_steps"),
    ("terms.segment_steps", 5, "inner_steps"),
    ("terms.inner_steps", 0, "inner_steps"),
    ("terms.rounds", 1 << 20, "task_segments"),
    ("terms.carry_moments", 2, "carry_moments"),
    ("terms.outer_learning_rate", 0, "outer_learning_rate"),
    ("terms.outer_learning_rate", 0x40800000, "outer_learning_rate"),
    ("terms.outer_learning_rate", NAN, "outer_learning_rate"),
    ("terms.outer_learning_rate", MINUS_ONE, "outer_learning_rate"),
    ("terms.outer_momentum", ONE, "outer_momentum"),
    ("terms.outer_momentum", 1 << 31, "outer_momentum"),
    ("training.sequences_per_step", 0, "sequences_per_step"),
    ("training.sequence_tokens", 0, "sequence_tokens"),
    ("training.sequence_tokens", 8193, "sequence_tokens"),
    ("training.token_count", 64, "token_count"),
    ("training.heldout_tokens", 64, "heldout_tokens"),
    ("training.token_count", 1 << 37, "dataset_too_large"),
    ("training.token_count", (1 << 64) - 1, "dataset_too_large"),
    ("training.heldout_tokens", (1 << 64) - 1, "dataset_too_large"),
    ("training.dataset_root", bytes(32), "dataset_root"),
    ("terms.initial_weights_root", bytes(32), "initial_weights_root"),
    ("terms.step_root", bytes(32), "step_root"),
    ("terms.limits.tau_w", (1 << 44) - 1, "limits"),
    ("terms.zero_root", b"\1" * 32, "zero_root"),
    ("terms.schedule_root", b"\1" * 32, "schedule_root"),
    ("training.program.size_bytes", 0, "program"),
    ("training.program.size_bytes", (1 << 24) + 1, "program"),
    ("training.layout.size_bytes", (1 << 22) + 1, "layout"),
    ("training.vocabulary_size", 1, "vocabulary_size"),
    ("training.vocabulary_size", 1 << 32, "vocabulary_size"),
    ("terms.parameter_count", 0, "parameter_count"),
    ("terms.parameter_count", (1 << 31) + 1, "parameter_count"),
]


@over(CASES)
def test_each_trap_is_refused_by_name(path: str, value: Any, name: str) -> None:
    broken = find_training_malformations(spoil(path, value))
    assert name in [item.name for item in broken]
    with pytest.raises(InvalidInput, match=name):
        refuse_broken(broken)


EDGES: list[Case] = [
    ("training.beta1", 0.0, "betas"),
    ("training.beta2", 0.0, "betas"),
    ("training.schedule.peak_learning_rate", 1.0, "peak_learning_rate"),
    ("training.schedule.warmup_steps", 36, "warmup_steps"),
    ("training.schedule.decay_steps", 36, "decay_steps"),
    ("training.schedule.final_ratio", 0.0, "final_ratio"),
    ("training.schedule.final_ratio", 1.0, "final_ratio"),
    ("training.schedule.inner_warmup_steps", 12, "inner_warmup_steps"),
    ("terms.rounds", 1, "rounds"),
    ("terms.segment_steps", 1, "segment_steps"),
    ("terms.segment_steps", 20, "segment_steps"),
    ("terms.segment_steps", 1, "inner_steps"),
    ("terms.outer_learning_rate", 1, "outer_learning_rate"),
    ("terms.outer_learning_rate", 0x407FFFFF, "outer_learning_rate"),
    ("terms.outer_momentum", 0, "outer_momentum"),
    ("terms.outer_momentum", ONE - 1, "outer_momentum"),
    ("training.sequences_per_step", 1, "sequences_per_step"),
    ("training.sequence_tokens", 1, "sequence_tokens"),
    ("training.sequence_tokens", 8192, "sequence_tokens"),
    ("training.token_count", 65, "token_count"),
    ("training.heldout_tokens", 65, "heldout_tokens"),
    ("training.token_count", (1 << 37) - 8_192, "dataset_too_large"),
    ("terms.limits.tau_w", 1 << 44, "limits"),
    ("training.program.size_bytes", 1 << 24, "program"),
    ("training.layout.size_bytes", 1 << 22, "layout"),
    ("training.vocabulary_size", 2, "vocabulary_size"),
]


@over(EDGES)
def test_what_is_just_allowed_is_not_refused_by_that_name(path: str, value: Any, name: str) -> None:
    assert name not in [item.name for item in find_training_malformations(spoil(path, value))]


def test_an_inner_warm_up_is_refused_where_moments_carry_over() -> None:
    carried = replace(TASK, terms=replace(TASK.terms, carry_moments=1))
    assert find_training_malformations(carried) == []
    schedule = replace(TASK.training.schedule, inner_warmup_steps=2)
    spoiled = replace(carried, training=replace(TASK.training, schedule=schedule))
    assert [item.name for item in find_training_malformations(spoiled)] == ["inner_warmup_steps"]


def test_sizes_are_judged_without_roots() -> None:
    terms = replace(TASK.terms, schedule_root=b"r" * 32, zero_root=b"r" * 32)
    assert find_size_malformations(replace(TASK, terms=terms)) == []
    [broken] = find_size_malformations(replace(TASK, terms=replace(terms, carry_moments=2)))
    assert broken == Malformation("carry_moments", "0 .. 1", 2)


def test_another_schedule_needs_another_root() -> None:
    schedule = replace(TASK.training.schedule, peak_learning_rate=nearest(2e-3))
    spoiled = replace(TASK, training=replace(TASK.training, schedule=schedule))
    assert [item.name for item in find_training_malformations(spoiled)] == ["schedule_root"]
