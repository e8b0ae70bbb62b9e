"""The program of a task: one root for one config on every machine, known roots that do not change unnoticed,
and what a referee is told of the task's steps."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from protocol.compute.determinism import list_cpu_capabilities, pin_kernels
from protocol.compute.program.built_program import BuiltProgram
from protocol.compute.program.task_program import (
    ProgramConfig,
    build_program,
    compute_step_facts,
    describe_program,
    require_program,
    require_step_root,
    with_program,
    with_step_root,
)
from protocol.spec.codec import compute_step_root
from protocol.spec.containers import ModelConfig, OptimizerConfig, ScheduleConfig, TaskSpec, TrainingSpec
from protocol.spec.errors import InvalidInput
from protocol.spec.float32 import nearest
from protocol.spec.merkle import compute_data_root
from protocol.spec.program import BOUNDED_OPERATIONS, CHUNK_TERMS, REDUCTIONS, Role
from protocol.spec.program_codec import compute_program_root, decode_program, encode_program
from protocol.spec.schedule import compute_scalar_leaves, compute_scalar_levels
from tests.protocol.compute.conftest import TINY, build_tiny_training
from tests.protocol.compute.model.family_models import MODELS
from tests.protocol.compute.programs import require_single_writers, run_python
from tests.protocol.spec.sample import sample_task
from tests.training_setting import DEMO_MODEL, SEQUENCES_PER_STEP

GOLDEN = Path(__file__).with_name("golden_program.json")
REWRITE = "TOUCHSTONE_REWRITE_GOLDEN"
CHANGED = f"""\
The program of a training step has changed. Every task whose spec holds an old root is refused by nodes that
run this code, and theirs by nodes that run older code: a change of the protocol, not of the implementation.
Where it is meant, run this test once with {REWRITE}=1, and say in the commit what changed and why."""


def list_configs() -> Iterator[tuple[str, ProgramConfig]]:
    for terms in CHUNK_TERMS:
        yield f"tiny 4x16 {terms}", ProgramConfig(TINY, OptimizerConfig(), 4, 16, terms)
        demo = ProgramConfig(
            DEMO_MODEL, OptimizerConfig(), SEQUENCES_PER_STEP, DEMO_MODEL.context_tokens, terms
        )
        yield f"demo 8x128 {terms}", demo
    for name in ("llama tied", "llama llama3", "qwen3", "qwen3 tied", "gpt2", "gpt2 untied"):
        yield f"{name} 3x12 128", ProgramConfig(MODELS[name], OptimizerConfig(), 3, 12, 128)


CONFIGS = dict(list_configs())
TINY_CONFIG = CONFIGS["tiny 4x16 128"]
LARGE_CONFIG = ProgramConfig(ModelConfig(256, 256, 768, 7, 4, 4, 128), OptimizerConfig(), 8, 128, 4096)
"""Six million parameters."""


def root_of(built: BuiltProgram) -> str:
    return compute_program_root(built.program).hex()


def build_again(config: ProgramConfig) -> BuiltProgram:
    build_program.cache_clear()
    return build_program(config)


def describe(built: BuiltProgram) -> dict[str, Any]:
    counts = Counter(node.operation.name for node in built.program.nodes)
    return {
        "root": root_of(built),
        "nodes": len(built.program.nodes),
        "operations": dict(sorted(counts.items())),
    }


# --- One root -----------------------------------------------------------------------------------------------
def test_programs_are_the_known_ones() -> None:
    found = {name: describe(build_program(config)) for name, config in CONFIGS.items()}
    if os.environ.get(REWRITE) == "1":
        GOLDEN.write_text(json.dumps(found, indent=1) + "\n")
    assert json.loads(GOLDEN.read_text()) == found, CHANGED


def test_building_twice_gives_the_same_program() -> None:
    first, second = build_again(TINY_CONFIG), build_again(TINY_CONFIG)
    assert first is not second and first.program == second.program
    assert all(torch.equal(values, second.constants[n]) for n, values in first.constants.items())


BUILD_LARGE = """
from protocol.adapters.files import measure_resident_bytes
from protocol.compute.program.tensor_allocator import return_freed
from tests.protocol.compute.program.test_task_program import LARGE_CONFIG, TINY_CONFIG, build_again
build_again(TINY_CONFIG)  # Much is loaded the first time.
return_freed()
before = measure_resident_bytes()
build_again(LARGE_CONFIG)
print(measure_resident_bytes() - before)
"""


def test_a_step_that_was_recorded_leaves_no_memory_behind() -> None:
    """It is recorded without values: with them it would take four hundred megabytes."""
    assert int(run_python(BUILD_LARGE)) < 64 << 20


BUILD = """
import sys
import torch
from protocol.compute.determinism import pin_kernels
from tests.protocol.compute.program.test_task_program import TINY_CONFIG, build_again, root_of
print(root_of(build_again(TINY_CONFIG)))
pin_kernels(2)
print(root_of(build_again(TINY_CONFIG)))
torch.set_flush_denormal(True)
torch.set_grad_enabled(False)
print(root_of(build_again(TINY_CONFIG)))
"""


@pytest.mark.parametrize("capability", [list_cpu_capabilities()[-1]])
def test_the_root_depends_on_no_process_thread_count_or_kernel(capability: str) -> None:
    here = root_of(build_again(TINY_CONFIG))
    printed = run_python(BUILD, ATEN_CPU_CAPABILITY=capability, OMP_NUM_THREADS="1", PYTHONHASHSEED="7")
    assert printed.split() == [here] * 3
    pin_kernels(2)
    assert root_of(build_again(TINY_CONFIG)) == here


@pytest.mark.parametrize("change", [
    {"model": replace(TINY, intermediate_size=40)}, {"model": replace(TINY, rope_theta=500.0)},
    {"model": replace(TINY, norm_epsilon=2.0**-10)}, {"optimizer": OptimizerConfig(beta1=0.5)},
    {"optimizer": OptimizerConfig(weight_decay=0.25)}, {"sequences": 3}, {"tokens": 15}, {"chunk_terms": 512},
])  # fmt: skip
def test_whatever_a_step_depends_on_changes_the_root(change: dict[str, Any]) -> None:
    assert root_of(build_program(replace(TINY_CONFIG, **change))) != root_of(build_program(TINY_CONFIG))


# --- What a program is --------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", CONFIGS)
def test_programs_keep_the_rules(name: str) -> None:
    built = build_program(CONFIGS[name])
    task_program = built.program
    require_single_writers(task_program)
    assert decode_program(encode_program(task_program)) == task_program
    longest = max(node.terms for node in task_program.nodes if node.operation in REDUCTIONS)
    assert longest <= task_program.chunk_terms == CONFIGS[name].chunk_terms
    read = {access.buffer for node in task_program.nodes for access in node.operands}
    outputs = task_program.outputs
    results = {outputs.loss, outputs.weights, outputs.first_moment, outputs.second_moment}
    for number, buffer in enumerate(task_program.buffers):
        assert number in read | results, "nobody reads it"
        if buffer.role is Role.CONSTANT:
            values = built.constants[number]
            assert compute_data_root(values.numpy().tobytes()) == buffer.constant_root
    assert built.constants.keys() == {
        n for n, b in enumerate(task_program.buffers) if b.role is Role.CONSTANT
    }
    assert [b.role for b in task_program.buffers[:6]] == [role for role in Role if role < Role.CONSTANT]


def test_a_step_uses_the_whole_vocabulary() -> None:
    used = {node.operation for config in CONFIGS.values() for node in build_program(config).program.nodes}
    assert used == set(BOUNDED_OPERATIONS)


# --- Tasks --------------------------------------------------------------------------------------------------
def test_a_task_with_its_own_program_is_taken(spec: TrainingSpec) -> None:
    require_program(spec)
    assert describe_program(spec) == TINY_CONFIG and spec.program_root.hex() == root_of(
        build_program(TINY_CONFIG)
    )


@pytest.mark.parametrize("change", [
    {"program_root": bytes(32)}, {"chunk_terms": 512}, {"sequences_per_step": 5}, {"sequence_tokens": 8},
    {"optimizer": OptimizerConfig(clip_norm=0.5)}, {"model": replace(TINY, layer_count=1)},
])  # fmt: skip
def test_a_task_with_another_program_is_refused(change: dict[str, Any]) -> None:
    changed = replace(build_tiny_training(), **change)
    with pytest.raises(InvalidInput, match="not the one that its model gives at program_root"):
        require_program(changed)
    require_program(with_program(changed))


# --- Facts: what a referee is told of a task's steps, and that a node takes no other telling ----------------
@pytest.fixture
def task(spec: TrainingSpec) -> TaskSpec:
    terms = replace(sample_task().terms, rounds=2, inner_steps=6, segment_steps=2)
    schedule = ScheduleConfig(nearest(1e-3), warmup_steps=4, total_steps=12)
    return with_step_root(TaskSpec(terms, replace(spec, schedule=schedule)))


def test_facts_are_those_of_program_data_and_schedule(task: TaskSpec) -> None:
    facts, training = compute_step_facts(task), task.training
    program = build_program(describe_program(training)).program
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
        {"optimizer": OptimizerConfig(beta1=nearest(0.8))},
        {"schedule": ScheduleConfig(nearest(1e-3), warmup_steps=5, total_steps=12)},
        {"sequence_tokens": 8},
    ],
)
def test_another_task_needs_another_step_root(task: TaskSpec, change: dict[str, Any]) -> None:
    require_step_root(task)
    changed = replace(task, training=with_program(replace(task.training, **change)))
    expected = compute_step_root(compute_step_facts(changed)).hex()
    with pytest.raises(InvalidInput, match=f"expected {expected}, got {task.terms.step_root.hex()}"):
        require_step_root(changed)
    require_step_root(with_step_root(changed))


def test_a_format_without_bounds_is_refused(task: TaskSpec) -> None:
    changed = replace(task, training=replace(task.training, numeric_format="fp8"))
    with pytest.raises(InvalidInput, match="float32 or tf32 or bf16"):
        compute_step_facts(changed)
