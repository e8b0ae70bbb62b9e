"""What people look at: the held-out loss of a global model."""

import torch
from torch import Tensor

from protocol.compute.model.batches import Corpus
from protocol.compute.model.reference_model import build_tables, compute_loss, split_parameters
from protocol.compute.program.step import Batch
from protocol.spec.containers import ModelConfig, TrainingSpec


def get_heldout_batch(corpus: Corpus, spec: TrainingSpec, rows: int) -> Batch:
    """`rows` rows spread evenly over the held-out tokens: the fixed batch on which the global model is
    measured."""
    length = spec.sequence_tokens
    room = spec.heldout_tokens - length - 1
    if room < 0:
        raise ValueError(f"{spec.heldout_tokens} held-out tokens: a row needs more than {length}")
    starts = [spec.token_count + room * row // max(rows - 1, 1) for row in range(rows)]
    cut = torch.stack([corpus.tokens[start : start + length + 1] for start in starts]).to(torch.int64)
    return Batch(cut[:, :-1].contiguous(), cut[:, 1:].contiguous())


def compute_heldout_loss(weights: Tensor, batch: Batch, model: ModelConfig) -> float:
    """Mean cross entropy in nats per token of a batch, in one pass without gradients."""
    with torch.no_grad():
        params = split_parameters(weights, model)
        return float(compute_loss(params, *batch, build_tables(model), model))
