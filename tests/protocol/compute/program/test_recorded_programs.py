"""Programs as they are recorded: one root for one config in every process, and what all programs keep to."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.protocol.compute.conftest import TINY
from tests.protocol.compute.decoders import DECODERS
from tests.protocol.compute.programs import require_single_writers, run_python
from tests.task_models import DecoderStep, build_program, record_decoder
from tests.training_setting import DEMO_MODEL, SEQUENCES_PER_STEP
from touchstone.protocol.compute.determinism import list_cpu_capabilities, pin_kernels
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.spec.data_trees import compute_data_root
from touchstone.protocol.spec.program import CHUNK_TERMS, Role
from touchstone.protocol.spec.program_codec import compute_program_root, decode_program, encode_program
from touchstone.protocol.spec.program_operations import BOUNDED_OPERATIONS, REDUCTIONS
from touchstone.step.optimizers import AdamW
from touchstone.step.plain_decoder import DecoderConfig


def list_configs() -> Iterator[tuple[str, DecoderStep]]:
    for terms in CHUNK_TERMS:
        yield f"tiny 4x16 {terms}", DecoderStep(TINY, AdamW(), 4, 16, terms)
        demo = DecoderStep(DEMO_MODEL, AdamW(), SEQUENCES_PER_STEP, DEMO_MODEL.context_tokens, terms)
        yield f"demo 8x128 {terms}", demo
    for name, model in DECODERS.items():
        yield f"{name} 3x12 128", DecoderStep(model, AdamW(), 3, 12, 128)


CONFIGS = dict(list_configs())
TINY_CONFIG = CONFIGS["tiny 4x16 128"]
LARGE_CONFIG = DecoderStep(DecoderConfig(256, 256, 768, 7, 4, 4, 128), AdamW(), 8, 128, 4096)
"""Six million parameters."""


def root_of(built: BuiltProgram) -> str:
    return compute_program_root(built.program).hex()


def build_again(config: DecoderStep) -> BuiltProgram:
    record_decoder.cache_clear()
    return build_program(config)


# One root
def test_building_twice_gives_the_same_program() -> None:
    first, second = build_again(TINY_CONFIG), build_again(TINY_CONFIG)
    assert first is not second and first.program == second.program
    assert all(torch.equal(values, second.constants[n]) for n, values in first.constants.items())


BUILD_LARGE = """
import sys
from dataclasses import replace
from touchstone.protocol.adapters.files.mapped_files import measure_resident_bytes
from touchstone.protocol.compute.program.tensor_allocator import return_freed
from tests.protocol.compute.program.test_recorded_programs import LARGE_CONFIG, TINY_CONFIG, build_again
from tests.task_models import get_decoder
build_again(TINY_CONFIG)  # Much is loaded the first time.
get_decoder(LARGE_CONFIG.model)
return_freed()
before = measure_resident_bytes()
build_again(replace(LARGE_CONFIG, numeric_format=sys.argv[1]))
if sys.argv[1] == "float32":
    return_freed()
print(measure_resident_bytes() - before)
"""


@pytest.mark.parametrize("numeric_format", ["float32", "exact15"])
def test_a_step_that_was_recorded_leaves_no_memory_behind(numeric_format: str) -> None:
    """It is recorded without values: with them it would take four hundred megabytes. In float formats the
    gradient is computed once to find noise, and its memory is free again."""
    assert int(run_python(BUILD_LARGE, numeric_format)) < 64 << 20


BUILD = """
import torch
from touchstone.protocol.compute.determinism import pin_kernels
from tests.protocol.compute.program.test_recorded_programs import TINY_CONFIG, build_again, root_of
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
    {"model": replace(TINY, norm_epsilon=2.0**-10)}, {"optimizer": AdamW(beta1=0.5)},
    {"optimizer": AdamW(weight_decay=0.25)}, {"sequences": 3}, {"tokens": 15}, {"chunk_terms": 512},
])  # fmt: skip
def test_whatever_a_step_depends_on_changes_the_root(change: dict[str, Any]) -> None:
    assert root_of(build_program(replace(TINY_CONFIG, **change))) != root_of(build_program(TINY_CONFIG))


# What a program is
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
