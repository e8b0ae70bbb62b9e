"""Which tokens a step learns from: a keyed hash of beacon, shard, step and row decides.

So no solver chooses its data. The dataset is raw bytes of little-endian tokens under one root: `token_count`
tokens to train on, then `heldout_tokens` that no sample ever touches (docs/spec.md, section 4).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from protocol.compute.digest import build_byte_tree
from protocol.compute.program.step import Batch
from protocol.spec.containers import TrainingSpec
from protocol.spec.drawing import draw_sample_start
from protocol.spec.errors import ProtocolFault

TOKEN_TYPES = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32}


@dataclass(frozen=True)
class Corpus:
    """The tokens of a task, integers of the dataset's width, training part first."""

    tokens: Tensor


def open_corpus(data: bytes, spec: TrainingSpec) -> Corpus:
    """The corpus from its raw bytes. Raises ProtocolFault on another length or root than the task's, or a
    token outside the vocabulary."""
    expected_bytes = (spec.token_count + spec.heldout_tokens) * spec.token_bytes
    _require(
        len(data) == expected_bytes, "the dataset has another length", f"{expected_bytes} bytes", len(data)
    )
    root = dataset_root(data)
    _require(root == spec.dataset_root, "the dataset has another root", spec.dataset_root.hex(), root.hex())
    tokens = torch.frombuffer(bytearray(data), dtype=TOKEN_TYPES[spec.token_bytes])
    largest = int(tokens.to(torch.int64).max())
    vocabulary = spec.model.vocabulary_size
    _require(largest < vocabulary, "a token lies outside the vocabulary", f"below {vocabulary}", largest)
    return Corpus(tokens)


def _require(condition: bool, what: str, expected: object, actual: object) -> None:
    if not condition:
        raise ProtocolFault(
            what=what, expected=expected, actual=actual, remedy="Fetch the dataset named by the task again."
        )


def dataset_root(data: bytes) -> bytes:
    """Root of the tree over the raw bytes, held-out part included."""
    return build_byte_tree(data).root


def get_batch(corpus: Corpus, spec: TrainingSpec, beacon: bytes, shard: int, inner_step: int) -> Batch:
    """The rows of one inner step (0-based in the round): int64 tokens and labels, [sequences_per_step,
    sequence_tokens]."""
    length = spec.sequence_tokens
    starts = [
        draw_sample_start(beacon, shard, inner_step, row, spec.token_count, length)
        for row in range(spec.sequences_per_step)
    ]
    rows = torch.stack([corpus.tokens[start : start + length + 1] for start in starts]).to(torch.int64)
    return Batch(rows[:, :-1].contiguous(), rows[:, 1:].contiguous())
