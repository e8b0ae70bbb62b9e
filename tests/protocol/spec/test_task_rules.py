"""Every way in which a submitter could hurt nodes is refused under its own name; the sample tasks pass."""

from dataclasses import replace
from typing import Any

import pytest

from protocol.spec.containers import ModelConfig, RopeScaling, TaskSpec
from protocol.spec.errors import InvalidInput
from protocol.spec.float32 import float_to_bits, nearest
from protocol.spec.params import ARCHITECTURES, PROTOCOL_VERSION
from protocol.spec.task_rules import (
    SIZES,
    Malformation,
    count_activations,
    count_parameters,
    find_size_malformations,
    find_training_malformations,
    list_model_rules,
    refuse_broken,
)
from scripts.model_table import PRESETS
from tests.protocol.spec.sample import sample_task

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
    ("training.model.architecture", "gpt", "architecture"),
    ("training.numeric_format", "float16", "numeric_format"),
    ("training.model.layer_count", 0, "model_sizes"),
    ("training.model.vocabulary_size", 1, "vocabulary_size"),
    ("training.model.hidden_size", 60, "head_count"),
    ("training.model.kv_head_count", 3, "kv_head_count"),
    ("training.model.norm_epsilon", 0.0, "model_constants"),
    ("training.model.norm_epsilon", 2.0**-81, "model_constants"),
    ("training.model.rope_theta", 0.5, "model_constants"),
    ("training.model.layer_count", 257, "layer_count"),
    ("training.model.head_count", 512, "head_count"),
    ("training.model.head_size", 258, "head_size"),
    ("training.model.head_size", 7, "head_count"),
    ("training.model.context_tokens", (1 << 32) + 1, "model_sizes"),
    ("training.model.tied", 2, "tied"),
    ("training.model.tied", 1, "parameter_count"),
    ("training.model.architecture", "qwen3", "parameter_count"),
    ("training.model.architecture", "gpt2", "gpt2_fields"),
    ("training.model.rope_scaling.kind", "yarn", "rope_scaling"),
    ("training.model.rope_scaling", RopeScaling("linear", 0.5), "rope_scaling"),
    ("training.model.rope_scaling", RopeScaling("linear", 2.0, 3.0), "rope_scaling"),
    ("training.model.rope_scaling", RopeScaling("default", 2.0), "rope_scaling"),
    ("training.model.rope_scaling", RopeScaling("llama3", 8.0, 4.0, 4.0), "rope_scaling"),
    ("training.model.rope_scaling", RopeScaling("llama3", 8.0, 0.0), "rope_scaling"),
    ("training.model.rope_scaling", RopeScaling("llama3", 2.0**21), "rope_scaling"),
    ("training.model.rope_scaling", RopeScaling("llama3", 8.0, original_tokens=0), "rope_scaling"),
    ("training.sequences_per_step", (1 << 33) // (64 * 256) + 1, "step_too_large"),
    ("terms.parameter_count", 106_817, "parameter_count"),
    ("training.optimizer.beta1", 1.0, "betas"),
    ("training.optimizer.beta2", -0.5, "betas"),
    ("training.optimizer.epsilon", 0.0, "epsilon"),
    ("training.optimizer.epsilon", 2.0**-149, "epsilon"),
    ("training.optimizer.weight_decay", 1 + 2.0**-23, "weight_decay"),
    ("training.optimizer.clip_norm", 0.0, "clip_norm"),
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
    ("training.sequence_tokens", 129, "sequence_tokens"),
    ("training.token_count", 64, "token_count"),
    ("training.heldout_tokens", 64, "heldout_tokens"),
    ("training.token_count", 1 << 37, "dataset_too_large"),
    ("training.token_count", (1 << 64) - 1, "dataset_too_large"),
    ("training.heldout_tokens", (1 << 64) - 1, "dataset_too_large"),
    ("training.dataset_root", bytes(32), "dataset_root"),
    ("terms.initial_weights_root", bytes(32), "initial_weights_root"),
    ("terms.step_root", bytes(32), "step_root"),
    ("terms.limits.tau_w", (1 << 44) - 1, "limits"),
    ("training.model.layer_count", 100_000, "model_too_large"),
    ("terms.zero_root", b"\1" * 32, "zero_root"),
    ("terms.schedule_root", b"\1" * 32, "schedule_root"),
]


@over(CASES)
def test_each_trap_is_refused_by_name(path: str, value: Any, name: str) -> None:
    broken = find_training_malformations(spoil(path, value))
    assert name in [item.name for item in broken]
    with pytest.raises(InvalidInput, match=name):
        refuse_broken(broken)


EDGES: list[Case] = [
    ("training.model.layer_count", 1, "model_sizes"),
    ("training.model.vocabulary_size", 2, "vocabulary_size"),
    ("training.optimizer.beta1", 0.0, "betas"),
    ("training.optimizer.beta2", 0.0, "betas"),
    ("training.optimizer.weight_decay", 0.0, "weight_decay"),
    ("training.optimizer.weight_decay", 1.0, "weight_decay"),
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
    ("training.sequence_tokens", 128, "sequence_tokens"),
    ("training.token_count", 65, "token_count"),
    ("training.heldout_tokens", 65, "heldout_tokens"),
    ("training.token_count", (1 << 37) - 8_192, "dataset_too_large"),
    ("terms.limits.tau_w", 1 << 44, "limits"),
    ("training.sequences_per_step", (1 << 33) // (64 * 256), "step_too_large"),
    ("training.model.layer_count", 256, "layer_count"),
    ("training.model.head_size", 256, "head_size"),
    ("training.model.head_size", 6, "head_count"),
    ("training.model.norm_epsilon", 2.0**-80, "model_constants"),
    ("training.model.rope_theta", 1.0, "model_constants"),
    ("training.model.rope_scaling", RopeScaling("llama3", 1.0), "rope_scaling"),
    ("training.model.rope_scaling", RopeScaling("linear", 2.0**20), "rope_scaling"),
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


LARGEST = (1 << 64) - 1
HOSTILE: dict[str, Any] = {
    **dict.fromkeys(SIZES, LARGEST), "rope_theta": 3e38, "norm_epsilon": 3e38, "head_size": LARGEST,
    "tied": LARGEST, "architecture": "x", "rope_scaling": RopeScaling("x", 2.0**100, 0.0, 0.0, LARGEST),
}  # fmt: skip


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", HOSTILE)
def test_the_largest_number_anywhere_costs_no_more_than_a_refusal(architecture: str, name: str) -> None:
    """Whatever a text can hold is judged from numbers alone, and nothing is built."""
    model = replace(TASK.training.model, architecture=architecture, kv_head_count=4)
    value: Any = HOSTILE[name]
    changes: dict[str, Any] = {name: nearest(value) if isinstance(value, float) else value}
    changed = replace(model, **changes)
    spoiled = replace(TASK, training=replace(TASK.training, model=changed))
    assert find_training_malformations(spoiled)


def test_parameters_are_counted_as_by_hand() -> None:
    # 2 * 256 * 64 embeddings, 64 final gains, 2 layers of 2 * 64^2 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64.
    assert count_parameters(TASK.training.model) == 2 * 256 * 64 + 64 + 2 * (8_192 + 4_096 + 24_576 + 128)
    assert TASK.terms.outer_momentum == float_to_bits(nearest(0.9))


LLAMA = ModelConfig(64, 32, 48, 2, 4, 2, 16)
GPT2 = PRESETS["gpt2-124m"]


@pytest.mark.parametrize(
    ("name", "count"),
    [("gpt2-124m", 124_439_808), ("smollm2-135m", 134_515_008), ("qwen3-0.6b", 596_049_920)],
)
def test_published_models_have_their_published_numbers_of_parameters(name: str, count: int) -> None:
    assert count_parameters(PRESETS[name]) == count
    assert all(holds for holds, *_ in list_model_rules(PRESETS[name]))


@pytest.mark.parametrize(
    ("changed", "broken"),
    [
        (replace(LLAMA, architecture="bert"), "architecture"),
        (replace(LLAMA, hidden_size=0), "model_sizes"),
        (replace(LLAMA, vocabulary_size=(1 << 32) + 1), "model_sizes"),
        (replace(LLAMA, vocabulary_size=1), "vocabulary_size"),
        (replace(LLAMA, layer_count=257), "layer_count"),
        (replace(LLAMA, tied=2), "tied"),
        (replace(LLAMA, head_count=5, kv_head_count=5), "head_count"),
        (replace(LLAMA, head_size=258), "head_size"),
        (replace(LLAMA, kv_head_count=3), "kv_head_count"),
        (replace(LLAMA, rope_theta=0.5), "model_constants"),
        (replace(LLAMA, norm_epsilon=0.0), "model_constants"),
        (replace(LLAMA, rope_scaling=RopeScaling("yarn")), "rope_scaling"),
        (replace(LLAMA, rope_scaling=RopeScaling("linear", 0.5)), "rope_scaling"),
        (replace(LLAMA, vocabulary_size=1 << 31), "model_too_large"),
    ],
)
def test_a_model_that_nodes_would_refuse_breaks_a_rule(changed: ModelConfig, broken: str) -> None:
    assert all(holds for holds, *_ in list_model_rules(LLAMA))
    assert broken in {name for holds, name, *_ in list_model_rules(changed) if not holds}


def test_the_largest_tensor_of_a_forward_pass_is_counted() -> None:
    """Logits where the vocabulary is large; scores of all heads where rows are long."""
    assert count_activations(GPT2, 2, 1024) == 2 * 1024 * 50_257
    assert count_activations(replace(GPT2, vocabulary_size=256), 2, 1024) == 2 * 1024 * 12 * 1024
