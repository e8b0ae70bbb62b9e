"""Containers: the structs of the contracts in their order, and no number that machines could read apart."""

import re
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from typing import Any

import pytest

from tests.architecture.solidity import list_files, read_declarations
from tests.protocol.spec.sample import sample_task
from touchstone.protocol.spec import float32, openings, signed_reports, state_headers, task_spec
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.signed_reports import MILLIONTHS_MAX, to_millionths
from touchstone.protocol.spec.task_spec import TaskSpec

TASK = sample_task()
MODULES = (task_spec, state_headers, openings, signed_reports)
CONTAINERS = {name: kind for module in MODULES for name, kind in vars(module).items() if is_dataclass(kind)}
STRUCTS = {
    one.name: tuple(re.sub("[A-Z]", lambda match: "_" + match[0].lower(), name) for name in one.parameters)
    for path in list_files()
    for one in read_declarations(path)
    if one.kind == "struct" and one.name in CONTAINERS
}


def test_shared_containers_are_the_contracts_structs_field_by_field() -> None:
    """What is hashed and what is sent is read by place: two fields that change places change every root."""
    own = {name: tuple(field.name for field in fields(CONTAINERS[name])) for name in STRUCTS}
    assert own == STRUCTS
    needed = {"Limits", "StateHeader", "StepFacts", "StepContext", "NodeProof", "BufferOpening", "TraceProof"}
    assert needed <= set(STRUCTS)


FLOATS = [
    (config, field.name)
    for config in (TASK.training, TASK.training.schedule)
    for field in fields(config)
    if field.type is float
]


@pytest.mark.parametrize("value", [0.1, 1e-46, 1e39, float("inf"), float("nan"), "1.0"], ids=repr)
@pytest.mark.parametrize(("config", "name"), FLOATS, ids=[name for _, name in FLOATS])
def test_a_number_that_float32_does_not_hold_is_refused_by_its_field(
    config: Any, name: str, value: Any
) -> None:
    """Else two machines would round it apart, and train two models."""
    with pytest.raises(InvalidInput, match="not exactly a float32") as refusal:
        replace(config, **{name: value})
    assert refusal.value.where == name and refusal.value.actual == repr(value)
    assert getattr(replace(config, **{name: float32.nearest(0.1)}), name) == float32.nearest(0.1)


@pytest.mark.parametrize(
    ("vocabulary", "size"), [(2, 1), (256, 1), (257, 2), (1 << 16, 2), ((1 << 16) + 1, 4), (1 << 31, 4)]
)
def test_a_token_has_the_fewest_bytes_that_hold_the_vocabulary(vocabulary: int, size: int) -> None:
    """The largest token is one less than the vocabulary."""
    training = replace(TASK.training, vocabulary_size=vocabulary)
    assert training.token_bytes == size and vocabulary - 1 < 1 << 8 * size


@pytest.mark.parametrize(("inner_steps", "segment_steps", "count"), [(12, 2, 6), (12, 12, 1), (20, 1, 20)])
def test_segments_are_whole_parts_of_a_round(inner_steps: int, segment_steps: int, count: int) -> None:
    terms = replace(TASK.terms, inner_steps=inner_steps, segment_steps=segment_steps)
    assert terms.segment_count == count and terms.segment_count * segment_steps == inner_steps


@pytest.mark.parametrize(
    ("terms", "training", "found"),
    [
        (TASK.training, TASK.terms, "TrainingSpec and TaskTerms"),
        (TASK.terms, None, "TaskTerms and NoneType"),
        (TASK, TASK.training, "TaskSpec and TrainingSpec"),
        (TASK.training, TASK.training, "TrainingSpec and TrainingSpec"),
    ],
    ids=["swapped", "missing", "nested", "twice"],
)
def test_a_task_of_other_parts_is_refused_with_what_was_found(terms: Any, training: Any, found: str) -> None:
    with pytest.raises(InvalidInput, match="a task is terms and training") as refusal:
        TaskSpec(terms, training)
    assert refusal.value.actual == found


def test_a_task_is_known_by_its_values_and_cannot_change() -> None:
    """Nodes keep what they have computed by its task."""
    same = sample_task()
    assert same == TASK and same is not TASK and {same: 1}[TASK] == 1
    assert replace(TASK, terms=replace(TASK.terms, rounds=4)) != TASK
    for container in (TASK, TASK.terms, TASK.terms.limits, TASK.training, TASK.training.schedule):
        with pytest.raises(FrozenInstanceError):
            setattr(container, fields(container)[0].name, None)


@pytest.mark.parametrize(
    ("value", "millionths"),
    [(0.0, 0), (-1e-9, 0), (1e-6, 1), (3.058, 3_058_000), (1e9, MILLIONTHS_MAX), (1e300, MILLIONTHS_MAX),
     (float("inf"), MILLIONTHS_MAX), (float("nan"), MILLIONTHS_MAX), (float("-inf"), 0)],
)  # fmt: skip
def test_a_figure_of_a_report_is_finite(value: float, millionths: int) -> None:
    assert to_millionths(value) == millionths
