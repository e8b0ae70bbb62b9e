"""How many bits of logits change where tokens behind them do: none, in exact programs."""

from typing import NamedTuple

import torch
from torch import Tensor

from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.spec.program_operations import Operation
from touchstone.step.step_folder import StepFiles

SCALARS = torch.tensor([1e-3, 0.1, 0.05])
LARGER = 3
"""Weights are so many times as large as fresh ones, so that attention is not even."""
LEAST_TOKEN = 3


class Changed(NamedTuple):
    """Elements with other bits, of all changes: before the first token that changed, and from it on."""

    earlier: int
    later: int


def find_logits(step: StepFiles, vocabulary: int) -> int:
    """The buffer of which the loss takes the largest number of each row."""
    return next(
        node.operands[0].buffer
        for node in step.built.program.nodes
        if node.operation is Operation.MAXIMUM_OF and node.terms == vocabulary
    )


def change_later_tokens(step: StepFiles, vocabulary: int, most: int, changes: int, seed: int = 7) -> Changed:
    """Computes the logits of a batch again and again, each time with other tokens from a drawn place on.
    vocabulary: of the logits; most: tokens are below."""
    shape, logits = step.shape, find_logits(step, vocabulary)
    rows, length = shape.sequences, shape.tokens
    interpreter = Interpreter(
        step.built.program, step.built.constants, numeric_format=shape.numeric_format, keeps_all=True
    )
    weights = step.weights * LARGER
    zeros = torch.zeros_like(weights)
    generator = torch.Generator().manual_seed(seed)

    def draw(count: int) -> Tensor:
        return torch.randint(LEAST_TOKEN, most, (rows, count), generator=generator)

    def compute(tokens: Tensor) -> Tensor:
        interpreter.run((weights, zeros, zeros), tokens, labels, SCALARS)
        return interpreter.tensors[logits].clone().view(torch.int32).view(rows, length, vocabulary)

    labels, tokens = draw(length), draw(length)
    before, earlier, later = compute(tokens), 0, 0
    for _ in range(changes):
        place = int(torch.randint(1, length, (), generator=generator))
        differs = compute(torch.cat([tokens[:, :place], draw(length - place)], 1)) != before
        earlier += int(differs[:, :place].sum())
        later += int(differs[:, place:].sum())
    return Changed(earlier, later)
