"""Exact programs do not look ahead: a later token changes no bit of an earlier logit."""

import numpy as np
import pytest
import torch

from tests.causality import SCALARS, change_later_tokens
from tests.protocol.compute.program.numpy_exact import compute_buffers, run_program
from tests.touchstone.step.test_record_step import ROWS, TOKENS, VOCABULARY, make_module
from tests.touchstone.step.test_transformers import make
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.program import Access, Node, Role
from touchstone.protocol.spec.program_operations import Operation
from touchstone.step.record_step import RecordedStep, Shape, record_step

CHANGES = 50
MODELS = ("own", "Llama", "GPT2", "Mistral")
"""Four times fifty changes."""


def record_model(name: str, numeric_format: str) -> tuple[RecordedStep, int]:
    module, vocabulary = (make_module(), VOCABULARY) if name == "own" else (make(name), 97)
    return record_step(module, Shape(ROWS, TOKENS, numeric_format)), vocabulary


@pytest.mark.parametrize("name", MODELS)
def test_later_tokens_change_no_bit_of_earlier_logits(name: str) -> None:
    step, vocabulary = record_model(name, "exact15")
    changed = change_later_tokens(step, vocabulary, VOCABULARY, CHANGES)
    assert changed.earlier == 0 and changed.later > 0, "else the test changes nothing"


@pytest.mark.parametrize("numeric_format", ["exact8", "exact15", "exact20"])
def test_a_step_has_the_bits_that_the_specification_says(numeric_format: str) -> None:
    step, _ = record_model("own", numeric_format)
    program, constants = step.built.program, step.built.constants
    generator = torch.Generator().manual_seed(3)
    tokens, labels = (torch.randint(VOCABULARY, (ROWS, TOKENS), generator=generator) for _ in range(2))
    zeros = torch.zeros_like(step.weights)
    interpreter = Interpreter(program, constants, numeric_format=numeric_format)
    found = interpreter.run((step.weights, zeros, zeros), tokens, labels, SCALARS)
    arrays = {number: values.numpy() for number, values in constants.items()}
    inputs = (step.weights, zeros, zeros, tokens, labels, SCALARS)
    loss, *vectors = run_program(program, arrays, *(one.numpy().reshape(-1) for one in inputs))
    assert float(found.loss) == float(loss)
    for ours, expected in zip(found, vectors, strict=False):
        assert np.array_equal(ours.numpy().view(np.int32), expected.view(np.int32))


def list_by_position(step: RecordedStep) -> list[Node]:
    """QUANTIZE nodes with a scale for each term."""
    return [
        node
        for node in step.built.program.nodes
        if node.operation is Operation.QUANTIZE and node.operands[1].strides[-2:] == (0, 1)
    ]


def test_values_are_quantized_by_position() -> None:
    """Forward, and the gradient of the values: a softmax stands beside both."""
    step, _ = record_model("own", "exact15")
    nodes = list_by_position(step)
    assert len(nodes) == 2
    products = [n for n in step.built.program.nodes if n.operation is Operation.QUANTIZED_PRODUCT_SUM]
    for node in nodes:
        (reader,) = (n for n in products if node.output.buffer in {one.buffer for one in n.operands[:2]})
        place = [one.buffer for one in reader.operands].index(node.output.buffer)
        scale: Access = reader.operands[2 + place]
        assert step.built.program.buffers[scale.buffer].role is Role.CONSTANT and not any(scale.strides)
        values = step.built.constants[scale.buffer]
        assert values[scale.offset] == 1
    assert not list_by_position(record_model("own", "float32")[0])


@pytest.mark.parametrize("scale", [0.0, 2.0**-140, 2.0**-100, 2.0**100, float("nan")])
@pytest.mark.parametrize("numeric_format", ["exact8", "exact15", "exact20"])
def test_scales_of_any_size_give_the_integers_of_the_specification(numeric_format: str, scale: float) -> None:
    """What stands at one position is zeros, tiny, huge or no number; at the others it stays."""
    step, _ = record_model("own", numeric_format)
    program, node = step.built.program, list_by_position(step)[0]
    weights = step.weights.clone()
    place = next(p for p in step.parameters if p.name == "rows.weight")
    weights[place.offset : place.offset + 16] *= scale
    tokens = torch.arange(ROWS * TOKENS).view(ROWS, TOKENS) % 5
    zeros = torch.zeros_like(weights)
    interpreter = Interpreter(program, step.built.constants, numeric_format=numeric_format, keeps_all=True)
    interpreter.run((weights, zeros, zeros), tokens, tokens, SCALARS)
    arrays = {number: values.numpy() for number, values in step.built.constants.items()}
    inputs = [one.numpy().reshape(-1) for one in (weights, zeros, zeros, tokens, tokens, SCALARS)]
    expected = compute_buffers(program, arrays, inputs)[node.output.buffer]
    assert np.array_equal(interpreter.tensors[node.output.buffer].numpy(), expected)


def test_heads_longer_than_a_sum_are_refused() -> None:
    model = make("Llama", head_dim=136, hidden_size=32, num_attention_heads=2)
    assert record_step(model, Shape(ROWS, TOKENS, "exact15", chunk_terms=512)).built.program.nodes
    with pytest.raises(InvalidInput, match="a head of attention.*at most 128 elements, got 136"):
        record_step(model, Shape(ROWS, TOKENS, "exact15", chunk_terms=128))
