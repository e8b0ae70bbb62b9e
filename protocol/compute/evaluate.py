"""What people look at: held-out loss of the global model, and a sample of the text it writes."""

from hashlib import shake_128

import torch
from torch import Tensor

from protocol.compute.model import compute_logits, compute_loss, split_parameters
from protocol.compute.step import Batch
from protocol.compute.tables import build_tables
from protocol.spec.containers import ModelConfig

SAMPLE_BITS = 53


def compute_heldout_loss(weights: Tensor, batch: Batch, model: ModelConfig) -> float:
    """Mean cross entropy in nats per token of a batch, in one pass without gradients."""
    with torch.no_grad():
        params = split_parameters(weights, model)
        return float(compute_loss(params, *batch, build_tables(model), model))


def sample_tokens(
    weights: Tensor, prompt: bytes, count: int, model: ModelConfig, seed: int = 0, temperature: float = 0.8
) -> bytes:
    """`prompt` continued by `count` tokens of a byte-level model (vocabulary 256); temperature 0 takes the
    likeliest.

    The same seed gives the same text on the same machine. Nothing is cached: meant for a few hundred
    bytes."""
    tokens = list(prompt or b"\n")
    stream = shake_128(f"touchstone.sample/{seed}".encode()).digest(8 * count)
    params, tables = split_parameters(weights, model), build_tables(model)
    with torch.no_grad():
        for index in range(count):
            window = torch.tensor([tokens[-model.context_tokens :]])
            draw = int.from_bytes(stream[8 * index : 8 * index + 8], "big") >> (64 - SAMPLE_BITS)
            logits = compute_logits(params, window, tables, model)[0, -1]
            tokens.append(_choose(logits, draw / 2**SAMPLE_BITS, temperature))
    return bytes(tokens)


def _choose(logits_V: Tensor, uniform: float, temperature: float) -> int:
    if temperature <= 0:
        return int(logits_V.argmax())
    cumulative = (logits_V.double() / temperature).softmax(dim=0).cumsum(dim=0)
    return min(int((cumulative <= uniform).sum()), logits_V.numel() - 1)
