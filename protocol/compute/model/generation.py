"""Using a trained model: its loss on held-out rows, and tokens that it goes on with.

Plain PyTorch on the reference model, without the task's program: nothing of it is ever judged.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from protocol.compute.model.reference_model import build_tables, compute_logits, split_parameters
from protocol.spec.containers import ModelConfig
from protocol.spec.errors import InvalidInput

ROWS_AT_ONCE = 8


@dataclass(frozen=True)
class Measure:
    """loss: mean cross entropy in nats a token; tokens: predicted ones."""

    loss: float
    tokens: int


def measure_rows(weights: Tensor, model: ModelConfig, rows: Iterable[Tensor]) -> Measure:
    """The loss over rows of int64 tokens [n], each of 2 to context_tokens + 1: each token but the first of a
    row is predicted from those before it. Raises InvalidInput where there is none, or a token is outside the
    vocabulary."""
    total, count = 0.0, 0
    params, tables = split_parameters(weights, model), build_tables(model)
    with torch.no_grad():
        for batch in _stack(rows):
            if not 0 <= int(batch.min()) <= int(batch.max()) < model.vocabulary_size:
                raise _outside(int(batch.max()), model)
            logits = compute_logits(params, batch[:, :-1], tables, model)
            losses = torch.nn.functional.cross_entropy(
                logits.reshape(-1, model.vocabulary_size), batch[:, 1:].reshape(-1), reduction="sum"
            )
            total, count = total + float(losses), count + batch[:, 1:].numel()
    if not count:
        raise InvalidInput(
            what="there is nothing to measure on",
            expected="a row of two tokens or more",
            actual="none",
            remedy="Give a longer text.",
        )
    return Measure(total / count, count)


def _stack(rows: Iterable[Tensor]) -> Iterator[Tensor]:
    """Rows that follow each other and have one length, some at a time."""
    batch: list[Tensor] = []
    for row in rows:
        if batch and (len(batch) == ROWS_AT_ONCE or row.numel() != batch[0].numel()):
            yield torch.stack(batch)
            batch = []
        if row.numel() > 1:
            batch.append(row)
    if batch:
        yield torch.stack(batch)


@dataclass(frozen=True)
class Taste:
    """How tokens are chosen. temperature: 0 takes the likeliest; top_k: of so many of the likeliest, 0 of
    all; seed: the same one, the same tokens."""

    temperature: float = 1.0
    top_k: int = 0
    seed: int = 0


def generate(weights: Tensor, model: ModelConfig, prompt: Sequence[int], taste: Taste) -> Iterator[int]:
    """Tokens that follow the prompt (one token or more), for ever; each sees the last context_tokens. Raises
    InvalidInput for a prompt that is empty or outside the vocabulary, and for a taste that is none."""
    _require_taste(taste)
    tokens = list(prompt)
    if not tokens or not 0 <= min(tokens) <= max(tokens) < model.vocabulary_size:
        raise _outside(max(tokens, default=-1), model)
    params, tables = split_parameters(weights, model), build_tables(model)
    chance = torch.Generator().manual_seed(taste.seed)
    while True:
        with torch.no_grad():
            seen = torch.tensor([tokens[-model.context_tokens :]])
            logits_V = compute_logits(params, seen, tables, model)[0, -1]
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
            what="tokens cannot be chosen so",
            expected="a temperature of 0 or more, top-k of 0 or more, a seed of 0 or more",
            actual=f"{taste.temperature}, {taste.top_k}, {taste.seed}",
            remedy="Correct the option.",
        )


def _outside(token: int, model: ModelConfig) -> InvalidInput:
    return InvalidInput(
        what="a text that this model cannot read",
        expected=f"one token or more, each below {model.vocabulary_size}",
        actual="none" if token < 0 else token,
        remedy="Give a text, and the tokenizer that the model was trained with.",
    )
