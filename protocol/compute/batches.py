"""Which tokens a step learns from: a keyed hash of beacon, shard, step and row decides.

So no solver chooses its data. The dataset is raw bytes of little-endian tokens under one root: `token_count`
tokens to train on, then `heldout_tokens` that no sample ever touches (docs/spec.md, section 4). A node need
not have all of it: a `Corpus` says where its rows come from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from touchstone.protocol.compute.digest import build_byte_tree
from touchstone.protocol.compute.program.training_state import Batch
from touchstone.protocol.spec.data_trees import compute_data_root
from touchstone.protocol.spec.errors import ProtocolFault
from touchstone.protocol.spec.openings import LeafProof
from touchstone.protocol.spec.shard_draws import draw_sample_start
from touchstone.protocol.spec.task_spec import TrainingSpec

TOKEN_TYPES = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32}


OUTSIDE_TOKEN = 0
"""What an entry of the dataset stands for that is no token of the vocabulary (docs/spec.md, section 11)."""


class Corpus(Protocol):
    """The tokens of a task, training part first, wherever they lie."""

    def read_rows(self, starts: Sequence[int], length: int) -> Tensor:
        """Returns rows of `length` tokens from these token numbers on, as they stand in the dataset: int64
        [len(starts), length]. If they lie on another machine this waits for it, so no event loop calls it.
        Raises EnvironmentFault if they are not available now."""

    async def prepare(self, starts: Sequence[int], length: int) -> None:
        """Makes these rows available, so that `read_rows` need not wait. Raises EnvironmentFault if they are
        not available now."""

    async def open_leaf(self, leaf: int) -> LeafProof:
        """Returns a leaf of the dataset with its path to the root: it shows what a token is. Raises
        EnvironmentFault if it is not available now."""


@dataclass(frozen=True)
class WholeCorpus:
    """All tokens of a task at hand: one flat tensor, integers of the dataset's width."""

    tokens: Tensor

    def read_rows(self, starts: Sequence[int], length: int) -> Tensor:
        """As `Corpus.read_rows`; nothing is waited for."""
        return torch.stack([self.tokens[start : start + length] for start in starts]).to(torch.int64)

    async def prepare(self, starts: Sequence[int], length: int) -> None:
        """Does nothing: all tokens are here."""

    async def open_leaf(self, leaf: int) -> LeafProof:
        """As `Corpus.open_leaf`; the whole tree is built for it."""
        data, path = build_byte_tree(self.tokens.numpy().tobytes()).open_leaf(leaf)
        return LeafProof(data, tuple(path))


def read_tokens(data: bytes | memoryview, token_bytes: int) -> Tensor:
    """Returns little-endian tokens of 1, 2 or 4 bytes as a flat int64 tensor."""
    return torch.from_numpy(np.frombuffer(data, dtype=f"<u{token_bytes}").astype(np.int64))


def open_corpus(data: bytes, spec: TrainingSpec) -> WholeCorpus:
    """Returns the corpus from its raw bytes. Raises ProtocolFault on another length or root than the task's,
    or a token outside the vocabulary."""
    expected_bytes = (spec.token_count + spec.heldout_tokens) * spec.token_bytes
    _require(
        len(data) == expected_bytes, "the dataset has another length", f"{expected_bytes} bytes", len(data)
    )
    root = dataset_root(data)
    _require(root == spec.dataset_root, "the dataset has another root", spec.dataset_root.hex(), root.hex())
    tokens = torch.frombuffer(bytearray(data), dtype=TOKEN_TYPES[spec.token_bytes])
    largest = int(tokens.to(torch.int64).max())
    vocabulary = spec.vocabulary_size
    _require(largest < vocabulary, "a token lies outside the vocabulary", f"below {vocabulary}", largest)
    return WholeCorpus(tokens)


def _require(condition: bool, what: str, expected: object, actual: object) -> None:
    if not condition:
        raise ProtocolFault(
            what=what, expected=expected, actual=actual, remedy="Fetch the dataset named by the task again."
        )


def dataset_root(data: bytes | memoryview) -> bytes:
    """Returns the root of the tree over the raw bytes, held-out part included."""
    return compute_data_root(data)


def list_starts(spec: TrainingSpec, beacon: bytes, shard: int, steps: Sequence[int]) -> list[int]:
    """Returns the number of the first token of each row, for some inner steps (0-based in the round), step by
    step."""
    place = (spec.token_count, spec.sequence_tokens)
    return [
        draw_sample_start(beacon, shard, step, row, *place)
        for step in steps
        for row in range(spec.sequences_per_step)
    ]


async def prepare_steps(
    corpus: Corpus, spec: TrainingSpec, beacon: bytes, shard: int, steps: Sequence[int]
) -> None:
    """Makes the rows of some inner steps available. Raises as `Corpus.prepare` does."""
    await corpus.prepare(list_starts(spec, beacon, shard, steps), spec.sequence_tokens + 1)


def read_known_rows(corpus: Corpus, spec: TrainingSpec, starts: Sequence[int]) -> Tensor:
    """Returns rows of the task's length and one token more, int64 [len(starts), sequence_tokens + 1]. An
    entry of the dataset outside the vocabulary is OUTSIDE_TOKEN. Raises as `Corpus.read_rows` does."""
    rows = corpus.read_rows(starts, spec.sequence_tokens + 1)
    return rows.where(rows < spec.vocabulary_size, OUTSIDE_TOKEN)


def get_batch(corpus: Corpus, spec: TrainingSpec, beacon: bytes, shard: int, inner_step: int) -> Batch:
    """Returns the rows of one inner step (0-based in the round): int64 tokens and labels,
    [sequences_per_step, sequence_tokens]."""
    rows = read_known_rows(corpus, spec, list_starts(spec, beacon, shard, (inner_step,)))
    return Batch(rows[:, :-1].contiguous(), rows[:, 1:].contiguous())
