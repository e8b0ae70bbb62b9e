"""The program of a decoder is its plain step; each node is in its bound or exactly right, and provable."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from tests.protocol.compute.bounds.test_live_parameters import TOKENS, VOCABULARY, Attention
from tests.protocol.compute.decoders import DECODERS
from tests.protocol.compute.program.test_exact_kernels import require_elements
from tests.protocol.compute.program.test_interpreter import NAMES, make_inputs, run_plain
from tests.protocol.compute.programs import require_single_writers
from tests.task_models import DecoderStep, build_program, init_parameters, parameter_layout
from touchstone.protocol.compute.bounds.trace_check import TraceChecker
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.costs import count_proof_bytes
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.spec.params import PRODUCT_BITS
from touchstone.protocol.spec.program import CHUNK_TERMS
from touchstone.protocol.spec.program_operations import BOUNDED_OPERATIONS
from touchstone.step.optimizers import AdamW
from touchstone.step.plain_decoder import Decoder, DecoderConfig
from touchstone.step.plain_step import PlainStep, lay_out
from touchstone.step.programs import write_program
from touchstone.step.record_step import Shape, next_token_loss, record_step
from touchstone.step.recorder import record

ROWS = 3
NOISE = {"float32": 1e-5, "exact15": 2e-3}
"""How far new weights, moments and loss may lie from the plain step, as a part of what the step moved."""


def configure(model: DecoderConfig, numeric_format: str = "float32", tokens: int = 16) -> DecoderStep:
    return DecoderStep(model, AdamW(), ROWS, tokens, 128, numeric_format)


@pytest.mark.parametrize("numeric_format", NOISE)
@pytest.mark.parametrize("name", DECODERS)
def test_a_step_is_the_plain_step_of_its_module(name: str, numeric_format: str) -> None:
    config = configure(DECODERS[name], numeric_format)
    built, inputs = build_program(config), make_inputs(config)
    require_single_writers(built.program)
    ours = Interpreter(built.program, built.constants, numeric_format=numeric_format).run(*inputs)
    before = (*inputs[0], torch.zeros(()))
    for part, a, b, old in zip(NAMES, ours, run_plain(config, inputs), before, strict=True):
        moved = (b - old).norm()
        assert moved > 0 and float((a - b).norm() / moved) < NOISE[numeric_format], part


@pytest.mark.parametrize("name", DECODERS)
def test_every_node_of_a_step_lies_within_its_bound(name: str) -> None:
    """Of sequences shorter than the context, with sums longer than a chunk."""
    config = configure(replace(DECODERS[name], vocabulary_size=131, intermediate_size=150), tokens=13)
    built, (vectors, tokens, labels, scalars) = build_program(config), make_inputs(config)
    interpreter = Interpreter(built.program, built.constants, keeps_all=True)
    interpreter.run(vectors, tokens, labels, scalars)
    report = TraceChecker(built.program).check(lambda buffer: interpreter.tensors[buffer])
    assert not report.faults
    assert sum(kind.elements for kind in report.kinds.values()) == sum(
        n.elements for n in built.program.nodes
    )
    assert {node.operation for node in built.program.nodes} <= set(BOUNDED_OPERATIONS)


@pytest.mark.parametrize("name", DECODERS)
def test_every_node_of_an_exact_step_computes_what_the_specification_says(name: str) -> None:
    config = configure(DECODERS[name], "exact15", tokens=11)
    built, (vectors, tokens, labels, scalars) = build_program(config), make_inputs(config)
    kept = dict(enumerate((*vectors, tokens.reshape(-1), labels.reshape(-1), scalars))) | dict(
        built.constants
    )
    traced = Interpreter(built.program, built.constants, is_traced=True, numeric_format="exact15")
    traced.run(vectors, tokens, labels, scalars, lambda b, t: kept.update({b: t.clone()}))
    require_elements(built.program, kept, samples=3)


# Idle parts
def require_decay_alone(
    built: BuiltProgram, weights: Tensor, limit: int, numeric_format: str, idle: slice
) -> None:
    """After three steps on tokens below `limit` the idle part is W decayed, and its moments are zero in every
    bit; most others are not."""
    random = torch.Generator().manual_seed(5)
    interpreter = Interpreter(built.program, built.constants, numeric_format=numeric_format)
    vectors, decayed = (weights, torch.zeros_like(weights), torch.zeros_like(weights)), weights
    rate = torch.tensor([2.0**-6, 0.1, 0.05])
    for _ in range(3):
        tokens, labels = (torch.randint(limit, (ROWS, TOKENS), generator=random) for _ in range(2))
        stepped = interpreter.run(vectors, tokens, labels, rate)
        vectors = (stepped.weights.clone(), stepped.first_moment.clone(), stepped.second_moment.clone())
        decayed = decayed * (1.0 - rate[0] * AdamW().weight_decay)
    new, first, second = vectors
    assert torch.equal(new[idle], decayed[idle]) and weights[idle].all()
    for moment in (first, second):
        assert not moment[idle].view(torch.int32).any() and moment.count_nonzero() > len(weights) // 2


@pytest.mark.parametrize("numeric_format", NOISE)
def test_only_weight_decay_moves_rows_of_tokens_that_do_not_occur(numeric_format: str) -> None:
    model = DECODERS["plain"]
    built = build_program(DecoderStep(model, AdamW(), ROWS, TOKENS, 128, numeric_format))
    embedding = parameter_layout(model)[0]
    assert embedding.shape == (model.vocabulary_size, model.hidden_size)
    idle = slice(embedding.offset + 40 * model.hidden_size, embedding.offset + embedding.size)
    require_decay_alone(built, init_parameters(model, 1), 40, numeric_format, idle)


def test_only_weight_decay_moves_the_bias_of_keys() -> None:
    """In float formats, where its gradient would be noise."""
    torch.manual_seed(0)
    recorded = record_step(Attention("key"), Shape(ROWS, TOKENS, chunk_terms=128))
    bias = next(one for one in recorded.parameters if one.name == "key.bias")
    idle = slice(bias.offset, bias.offset + bias.size)
    require_decay_alone(recorded.built, recorded.weights, VOCABULARY, "float32", idle)


# Published sizes
MOST_PROOF_BYTES = 1 << 17
"""What Ethereum's nodes take as the data of a transaction."""


@pytest.mark.parametrize("chunk_terms", CHUNK_TERMS)
@pytest.mark.parametrize("numeric_format", ["float32", "exact15"])
def test_a_vocabulary_of_150_000_gives_sums_that_fit_a_transaction(
    chunk_terms: int, numeric_format: str
) -> None:
    """Qwen3-0.6B's vocabulary and hidden size in one layer, recorded without values. `require_valid` has
    accepted it: every sum is of runs."""
    decoder = Decoder(DecoderConfig(2, 1024, 256, 1, 8, 4, 64, tied=True))
    rows = nn.Parameter(torch.empty(151_936, 1024, device="meta"))
    decoder.model.embed_tokens.weight = decoder.lm_head.weight = rows
    parameters = lay_out(decoder)
    step = PlainStep(decoder, parameters, next_token_loss, AdamW())
    vector, batch = ((sum(one.size for one in parameters),), torch.float32), ((2, 64), torch.int64)
    recording = record(
        lambda w, m, v, *rest: step.take((w, m, v), *rest),
        [vector, vector, vector, batch, batch, ((3,), torch.float32)],
    )
    program = write_program(recording, chunk_terms, PRODUCT_BITS.get(numeric_format, 0)).program
    assert max(node.terms for node in program.nodes) <= chunk_terms
    assert max(count_proof_bytes(program, node) for node in program.nodes) < MOST_PROOF_BYTES
