"""Losses by the part of a program that gives the loss: the same number as in a step, in less memory."""

from math import isnan
from statistics import stdev

import pytest
import torch

from tests.protocol.compute.decoders import DECODERS
from tests.protocol.compute.program.test_decoder_programs import configure
from tests.task_models import build_program, init_parameters
from touchstone.protocol.compute.program.evaluation import Evaluator, compute_standard_error, cut_loss
from touchstone.protocol.compute.program.interpreter import Interpreter, measure_arena_bytes
from touchstone.protocol.spec.errors import InvalidInput

ROWS = 3


@pytest.mark.parametrize("numeric_format", ["float32", "exact15"])
@pytest.mark.parametrize("name", DECODERS)
def test_the_loss_is_that_of_a_step(name: str, numeric_format: str) -> None:
    config = configure(DECODERS[name], numeric_format)
    built, weights = build_program(config), init_parameters(config.model, 3)
    rows = torch.arange(ROWS * 17).view(ROWS, 17) ** 2 % config.model.vocabulary_size
    interpreter = Interpreter(built.program, built.constants, numeric_format=numeric_format)
    zeros = torch.zeros_like(weights)
    inputs = (rows[:, :-1].contiguous(), rows[:, 1:].contiguous(), torch.tensor([0.1, 0.1, 0.1]))
    step = interpreter.run((weights, zeros, zeros), *inputs)
    found = Evaluator(built, ROWS, numeric_format).measure(weights, rows)
    assert found.loss == float(step.loss) and found.batches == 1
    cut = cut_loss(built.program)
    assert len(cut.nodes) < len(built.program.nodes) / 2
    assert measure_arena_bytes(cut) < measure_arena_bytes(built.program)


def test_whole_batches_are_measured_and_a_short_one_is_filled() -> None:
    config = configure(DECODERS["grouped"])
    evaluator = Evaluator(build_program(config), ROWS)
    weights = init_parameters(config.model, 3)
    rows = torch.arange(8 * 17).view(8, 17) * 7 % config.model.vocabulary_size
    first, second = (evaluator.measure(weights, rows[n : n + ROWS]).loss for n in (0, ROWS))
    whole = evaluator.measure(weights, rows)
    assert whole.batches == 2 and whole.loss == (first + second) / 2
    assert whole.standard_error == pytest.approx(abs(first - second) / 2)
    single = evaluator.measure(weights, rows[:1])
    assert single.loss == evaluator.measure(weights, rows[:1].expand(ROWS, -1)).loss
    with pytest.raises(InvalidInput, match="nothing to measure"):
        evaluator.measure(weights, [])


def test_the_standard_error_is_that_of_independent_losses() -> None:
    losses = [2.0, 3.5, 2.5, 4.0, 1.0]
    expected = stdev(losses) / 5**0.5
    assert compute_standard_error(losses) == pytest.approx(expected)
    assert compute_standard_error(losses, [7.0] * 5) == pytest.approx(expected)
    assert compute_standard_error([1.0, 2.0, 9.0], [1, 1, 0]) == pytest.approx((0.5 * 3 / 2) ** 0.5 / 2)
    assert compute_standard_error([3.0]) == compute_standard_error([]) == 0
    assert isnan(compute_standard_error([1.0, float("inf")]))
