"""Uses a trained model of transformers: measures its loss on held-out rows, and generates tokens.

It runs plain PyTorch instead of the task's program, because these results are never audited.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from touchstone.node.exports.published_model import PublishedModel
from touchstone.protocol.compute.program.evaluation import compute_standard_error
from touchstone.protocol.spec.errors import InvalidInput

ROWS_AT_ONCE = 8


@dataclass(frozen=True)
class Measure:
    """A measured loss. `loss` is the mean cross entropy in nats for each token; `tokens` is the number of
    predicted tokens. `standard_error` is that of the mean over rows, in nats; None if there is one row."""

    loss: float
    tokens: int
    standard_error: float | None = None


@dataclass(frozen=True)
class Taste:
    """How the next token is chosen. `temperature` 0 takes the likeliest token. `top_k` is how many of the
    likeliest tokens to choose among, 0 for all. The same `seed` gives the same tokens."""

    temperature: float = 1.0
    top_k: int = 0
    seed: int = 0


def compute_logits(model: PublishedModel, tokens: Tensor) -> Tensor:
    """Returns logits, float32 [sequences, tokens, vocabulary], of tokens, int64 [sequences, tokens]."""
    module: Any = model.module
    with torch.no_grad():
        logits: Tensor = module(tokens, use_cache=False).logits
    return logits


def measure_rows(model: PublishedModel, rows: Iterable[Tensor]) -> Measure:
    """Returns the loss over rows of int64 tokens [n]. Each token but the first of a row is predicted from
    those before it. Raises InvalidInput if there is none, or a token is outside the vocabulary."""
    losses, tokens = list[float](), list[int]()
    for batch in _stack(rows):
        if not 0 <= int(batch.min()) <= int(batch.max()) < model.vocabulary_size:
            raise _outside(int(batch.max()), model)
        logits, labels = compute_logits(model, batch[:, :-1]), batch[:, 1:]
        each = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
        losses += each.view_as(labels).double().mean(dim=1).tolist()
        tokens += [labels.shape[1]] * len(labels)
    if not losses:
        raise InvalidInput(
            what="there is nothing to measure on",
            expected="a row of two tokens or more",
            actual="none",
            remedy="Give a longer text.",
        )
    error = compute_standard_error(losses, tokens) if len(losses) > 1 else None
    return Measure(fmean(losses, tokens), sum(tokens), error)


def _stack(rows: Iterable[Tensor]) -> Iterator[Tensor]:
    """Yields batches of successive rows that have the same length."""
    batch: list[Tensor] = []
    for row in rows:
        if batch and (len(batch) == ROWS_AT_ONCE or row.numel() != batch[0].numel()):
            yield torch.stack(batch)
            batch = []
        if row.numel() > 1:
            batch.append(row)
    if batch:
        yield torch.stack(batch)


def generate(model: PublishedModel, prompt: Sequence[int], taste: Taste) -> Iterator[int]:
    """Yields tokens that follow the prompt (one token or more), without end. Each depends on the tokens
    before it, up to the model's context length. Raises InvalidInput if the prompt is empty or outside the
    vocabulary, or the options are out of range."""
    _require_taste(taste)
    tokens = list(prompt)
    if not tokens or not 0 <= min(tokens) <= max(tokens) < model.vocabulary_size:
        raise _outside(max(tokens, default=-1), model)
    chance = torch.Generator().manual_seed(taste.seed)
    while True:
        logits_V = compute_logits(model, torch.tensor([tokens[-model.context_tokens :]]))[0, -1]
        tokens.append(_choose(logits_V, taste, chance))
        yield tokens[-1]


def _choose(logits_V: Tensor, taste: Taste, chance: torch.Generator) -> int:
    if taste.temperature == 0:
        return int(logits_V.argmax())
    if 0 < taste.top_k < logits_V.numel():
        least = logits_V.topk(taste.top_k).values[-1]
        logits_V = logits_V.masked_fill(logits_V < least, float("-inf"))
    chances_V = (logits_V.double() / taste.temperature).softmax(dim=0)
    return int(torch.multinomial(chances_V, 1, generator=chance))


def _require_taste(taste: Taste) -> None:
    if not (0 <= taste.temperature < float("inf")) or taste.top_k < 0 or not 0 <= taste.seed < 1 << 63:
        raise InvalidInput(
            what="these options cannot choose tokens",
            expected="a temperature of 0 or more, top-k of 0 or more, a seed of 0 or more",
            actual=f"{taste.temperature}, {taste.top_k}, {taste.seed}",
            remedy="Correct the option.",
        )


def _outside(token: int, model: PublishedModel) -> InvalidInput:
    return InvalidInput(
        what="a text that this model cannot read",
        expected=f"one token or more, each below {model.vocabulary_size}",
        actual="none" if token < 0 else token,
        remedy="Give a text, and the tokenizer that the model was trained with.",
    )
