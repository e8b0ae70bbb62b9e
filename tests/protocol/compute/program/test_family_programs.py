"""The program of every family is its plain step; each node is in its bound or exactly right, and provable."""

from dataclasses import replace

import pytest
import torch

from protocol.compute.bounds.check import TraceChecker
from protocol.compute.model.reference_model import (
    get_family,
    init_parameters,
    parameter_layout,
)
from protocol.compute.program.costs import count_proof_bytes
from protocol.compute.program.interpreter import Interpreter
from protocol.compute.program.task_program import ProgramConfig, build_program
from protocol.spec.containers import ModelConfig, OptimizerConfig
from protocol.spec.program import BOUNDED_OPERATIONS, CHUNK_TERMS
from tests.protocol.compute.model.family_models import FAMILIES, GPT2, MODELS
from tests.protocol.compute.program.test_exact_kernels import require_elements
from tests.protocol.compute.program.test_interpreter import NAMES, make_inputs, run_plain
from tests.protocol.compute.programs import require_single_writers

NOISE = {"float32": 1e-5, "exact15": 2e-3}
"""How far new weights, moments and loss may lie from the plain step, as a part of what the step moved."""


def configure(model: ModelConfig, numeric_format: str = "float32", tokens: int = 16) -> ProgramConfig:
    bits = {"float32": 0, "exact15": 15}[numeric_format]
    return ProgramConfig(model, OptimizerConfig(), 3, tokens, 128, bits)


@pytest.mark.parametrize("numeric_format", NOISE)
@pytest.mark.parametrize("name", MODELS)
def test_a_step_is_the_plain_step_of_its_family(name: str, numeric_format: str) -> None:
    config = configure(MODELS[name], numeric_format)
    built, inputs = build_program(config), make_inputs(config)
    require_single_writers(built.program)
    ours = Interpreter(built.program, built.constants, numeric_format=numeric_format).run(*inputs)
    before = (*inputs[0], torch.zeros(()))
    for part, a, b, old in zip(NAMES, ours, run_plain(config, inputs), before, strict=True):
        moved = (b - old).norm()
        assert moved > 0 and float((a - b).norm() / moved) < NOISE[numeric_format], part


@pytest.mark.parametrize("name", FAMILIES)
def test_every_node_of_a_step_lies_within_its_bound(name: str) -> None:
    """Of sequences shorter than the context, with sums longer than a chunk."""
    config = configure(replace(FAMILIES[name], vocabulary_size=131, intermediate_size=150), tokens=13)
    built, (vectors, tokens, labels, scalars) = build_program(config), make_inputs(config)
    interpreter = Interpreter(built.program, built.constants, keeps_all=True)
    interpreter.run(vectors, tokens, labels, scalars)
    report = TraceChecker(built.program).check(lambda buffer: interpreter.tensors[buffer])
    assert not report.faults
    assert sum(kind.elements for kind in report.kinds.values()) == sum(
        n.elements for n in built.program.nodes
    )
    assert {node.operation for node in built.program.nodes} <= set(BOUNDED_OPERATIONS)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_node_of_an_exact_step_computes_what_the_specification_says(name: str) -> None:
    config = configure(FAMILIES[name], "exact15", tokens=11)
    built, (vectors, tokens, labels, scalars) = build_program(config), make_inputs(config)
    kept = dict(enumerate((*vectors, tokens.reshape(-1), labels.reshape(-1), scalars))) | dict(
        built.constants
    )
    traced = Interpreter(built.program, built.constants, is_traced=True, numeric_format="exact15")
    traced.run(vectors, tokens, labels, scalars, lambda b, t: kept.update({b: t.clone()}))
    require_elements(built.program, kept, samples=3)


# --- Idle parts ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("numeric_format", NOISE)
def test_only_weight_decay_moves_what_no_gradient_reaches(numeric_format: str) -> None:
    """Its moments are zero in every bit, after several steps as well."""
    config = configure(GPT2, numeric_format, tokens=9)
    built = build_program(config)
    interpreter = Interpreter(built.program, built.constants, numeric_format=numeric_format)
    weights = init_parameters(GPT2, 1) + 0.25
    vectors = (weights, torch.zeros_like(weights), torch.zeros_like(weights))
    rate = torch.tensor([2.0**-6, 0.1, 0.05])
    decayed = weights
    for seed in range(3):
        _, tokens, labels, _ = make_inputs(config, seed)
        stepped = interpreter.run(vectors, tokens, labels, rate)
        vectors = (stepped.weights.clone(), stepped.first_moment.clone(), stepped.second_moment.clone())
        decayed = decayed * (1.0 - rate[0] * config.optimizer.weight_decay)
    slices = {p.name: p for p in parameter_layout(GPT2)}
    idle = [part for part in get_family(GPT2).list_parts(GPT2, 9) if part.is_idle]
    assert len(idle) == 3
    for part in idle:
        place = slices[part.name]
        new, first, second, expected = (
            part.cut(vector[place.offset : place.offset + place.size].view(place.shape))
            for vector in (*vectors, decayed)
        )
        assert not first.view(torch.int32).any() and not second.view(torch.int32).any()
        assert torch.equal(new, expected)


# --- Published sizes ----------------------------------------------------------------------------------------
MOST_PROOF_BYTES = 1 << 17
"""What Ethereum's nodes take as the data of a transaction."""


@pytest.mark.parametrize("chunk_terms", CHUNK_TERMS)
@pytest.mark.parametrize("bits", [0, 15])
def test_a_vocabulary_of_150_000_gives_sums_that_fit_a_transaction(chunk_terms: int, bits: int) -> None:
    """Qwen3-0.6B's vocabulary and hidden size in one layer, recorded without values. `require_valid` has
    accepted it: every sum is of runs."""
    model = replace(
        FAMILIES["qwen3"], vocabulary_size=151_936, hidden_size=1024, intermediate_size=256, layer_count=1,
        head_count=4, kv_head_count=2, head_size=128, context_tokens=64, tied=1,
    )  # fmt: skip
    program = build_program(ProgramConfig(model, OptimizerConfig(), 2, 64, chunk_terms, bits)).program
    assert max(node.terms for node in program.nodes) <= chunk_terms
    assert max(count_proof_bytes(program, node) for node in program.nodes) < MOST_PROOF_BYTES
