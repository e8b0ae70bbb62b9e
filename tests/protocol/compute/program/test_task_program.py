"""The program of a task: one root for one config on every machine, and known roots that do not change
unnoticed."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from lab.benchmarks.setting import DEMO_MODEL, SEQUENCES_PER_STEP
from protocol.compute.determinism import list_cpu_capabilities, pin_kernels
from protocol.compute.program import task_program
from protocol.compute.program.task_program import (
    BuiltProgram,
    ProgramConfig,
    build_program,
    describe_program,
    require_program,
    with_program,
)
from protocol.spec.containers import OptimizerConfig, TrainingSpec
from protocol.spec.errors import InvalidInput
from protocol.spec.merkle import compute_data_root
from protocol.spec.program import (
    CHUNK_TERMS,
    REDUCTIONS,
    Operation,
    Role,
)
from protocol.spec.program_codec import compute_program_root
from tests.protocol.compute.conftest import TINY, build_tiny_training
from tests.protocol.compute.programs import require_single_writers, run_python
from tests.protocol.spec.program_decoding import decode_program, encode_program

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


CONFIGS = dict(list_configs())
TINY_CONFIG = CONFIGS["tiny 4x16 128"]


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


def test_a_step_recorded_without_values_gives_the_same_program(monkeypatch: pytest.MonkeyPatch) -> None:
    with_values = build_again(TINY_CONFIG)
    monkeypatch.setattr(task_program, "MOST_RECORDED", 0)
    without = build_again(TINY_CONFIG)
    assert root_of(without) == root_of(with_values)
    assert without.constants.keys() == with_values.constants.keys()


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
    {"model": replace(TINY, rms_epsilon=2.0**-10)}, {"optimizer": OptimizerConfig(beta1=0.5)},
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
    assert used == set(Operation)


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
