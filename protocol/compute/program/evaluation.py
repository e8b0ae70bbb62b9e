"""Measures the loss on held-out rows, with the part of a program that gives the loss.

So nobody needs the model's code, and the figure is the task's own loss.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from math import fsum, isfinite, nan, sqrt
from statistics import fmean

import torch
from torch import Tensor

from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.program import Outputs, Program, find_needed


@dataclass(frozen=True)
class LossMeasure:
    """A measured loss. `loss` is the mean over `batches` batches, in the unit of the task's loss;
    `standard_error` is that of the mean, 0 for one batch."""

    loss: float
    batches: int
    standard_error: float = 0.0


def cut_loss(program: Program) -> Program:
    """Returns the program without the nodes that only the new state needs. The result no longer trains,
    because it returns W, m and v unchanged."""
    loss = program.outputs.loss
    return replace(program, nodes=find_needed(program, [loss]), outputs=Outputs(loss, 0, 1, 2))


def compute_standard_error(losses: Sequence[float], weights: Sequence[float] | None = None) -> float:
    """Returns the standard error of the mean of independent losses, in their unit; 0 for a single one, NaN if
    one is not finite. `weights` are those of the losses in the mean, as the tokens of a row are; else all
    count alike."""
    if not all(map(isfinite, losses)):
        return nan
    if len(losses) < 2:
        return 0.0
    shares = [1.0] * len(losses) if weights is None else weights
    mean, count = fmean(losses, shares), len(losses)
    spread = fsum((share * (loss - mean)) ** 2 for share, loss in zip(shares, losses, strict=True))
    return sqrt(spread * count / (count - 1)) / fsum(shares)


class Evaluator:
    """Measures losses with one program. `sequences` is the number of rows in a batch."""

    def __init__(self, built: BuiltProgram, sequences: int, numeric_format: str = "float32") -> None:
        program = cut_loss(built.program)
        read = {operand.buffer for node in program.nodes for operand in node.operands}
        constants = {number: values for number, values in built.constants.items() if number in read}
        self._interpreter = Interpreter(program, constants, numeric_format=numeric_format)
        self._sequences = sequences

    def measure(self, weights: Tensor, rows: Iterable[Tensor]) -> LossMeasure:
        """Returns the mean loss of rows of int64 tokens [tokens + 1], in which each token but the first is a
        label. Rows beyond whole batches are left out; if there is less than one batch, rows are repeated.
        Raises InvalidInput if there is no row."""
        losses = [self._compute(weights, batch) for batch in self._stack(rows)]
        if not losses:
            raise InvalidInput(
                what="there is nothing to measure on",
                expected="a row or more",
                actual="none",
                remedy="Give a longer text.",
            )
        return LossMeasure(fmean(losses), len(losses), compute_standard_error(losses))

    def _stack(self, rows: Iterable[Tensor]) -> Iterator[Tensor]:
        batch: list[Tensor] = []
        is_first = True
        for row in rows:
            batch.append(row)
            if len(batch) == self._sequences:
                yield torch.stack(batch)
                batch, is_first = [], False
        if batch and is_first:
            yield torch.stack(list(islice(cycle(batch), self._sequences)))

    def _compute(self, weights: Tensor, batch: Tensor) -> float:
        # Of the vectors and scalars, the loss reads W alone.
        vectors, scalars = (weights, weights, weights), torch.zeros(3)
        tokens, labels = batch[:, :-1].contiguous(), batch[:, 1:].contiguous()
        return float(self._interpreter.run(vectors, tokens, labels, scalars).loss)
