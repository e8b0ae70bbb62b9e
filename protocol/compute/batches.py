"""Chooses the tokens of each step by a keyed hash of beacon, shard, step and row.

So no solver chooses its data. The dataset is raw bytes of little-endian tokens under one root: `token_count`
tokens to train on, then `heldout_tokens` that no sample ever touches (docs/spec.md, section 4). A node need
not have all of it: a `Corpus` finds the rows.
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
"""Stands for an entry of the dataset outside the vocabulary (docs/spec.md, section 11)."""


class Corpus(Protocol):
    """The tokens of a task, training part first, wherever they are."""

    def read_rows(self, starts: Sequence[int], length: int) -> Tensor:
        """Returns rows of `length` tokens from these token numbers on, as the dataset has them: int64
        [len(starts), length]. It may wait for another machine, so do not call it in an event loop. Raises
        EnvironmentFault if they are not available now."""

    async def prepare(self, starts: Sequence[int], length: int) -> None:
        """Makes these rows available, so that `read_rows` need not wait. Raises EnvironmentFault if they are
        not available now."""

    async def open_leaf(self, leaf: int) -> LeafProof:
        """Returns a leaf of the dataset with its path to the root, as proof of a token. Raises
        EnvironmentFault if it is not available now."""


@dataclass(frozen=True)
class WholeCorpus:
    """All tokens of a task in memory: one flat tensor, integers of the dataset's width."""

    tokens: Tensor

    def read_rows(self, starts: Sequence[int], length: int) -> Tensor:
        """Reads rows as `Corpus.read_rows`, without waiting."""
        return torch.stack([self.tokens[start : start + length] for start in starts]).to(torch.int64)

    async def prepare(self, starts: Sequence[int], length: int) -> None:
        """Does nothing, because all tokens are here."""

    async def open_leaf(self, leaf: int) -> LeafProof:
        """Opens a leaf as `Corpus.open_leaf`; builds the whole tree for it."""
        data, path = build_byte_tree(self.tokens.numpy().tobytes()).open_leaf(leaf)
        return LeafProof(data, tuple(path))


def read_tokens(data: bytes | memoryview, token_bytes: int) -> Tensor:
    """Reads little-endian tokens of 1, 2 or 4 bytes as a flat int64 tensor."""
    return torch.from_numpy(np.frombuffer(data, dtype=f"<u{token_bytes}").astype(np.int64))


def open_corpus(data: bytes, spec: TrainingSpec) -> WholeCorpus:
    """Returns the corpus for its raw bytes. Raises ProtocolFault if their length or root differs from the
    task's, or a token is outside the vocabulary."""
    expected_bytes = (spec.token_count + spec.heldout_tokens) * spec.token_bytes
    _require(
        len(data) == expected_bytes, "the dataset has the wrong length", f"{expected_bytes} bytes", len(data)
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
    """Returns the number of the first token of each row for some inner steps (0-based in the round), step
    after step."""
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
    """Returns rows of the task's length plus one token, int64 [len(starts), sequence_tokens + 1]. An entry of
    the dataset outside the vocabulary becomes OUTSIDE_TOKEN. Raises as `Corpus.read_rows` does."""
    rows = corpus.read_rows(starts, spec.sequence_tokens + 1)
    return rows.where(rows < spec.vocabulary_size, OUTSIDE_TOKEN)


def list_heldout_starts(spec: TrainingSpec, rows: int) -> list[int]:
    """Returns the number of the first token of `rows` held-out rows, spread evenly. There are fewer if fewer
    fit without sharing more than a token; there is at least one."""
    length = spec.sequence_tokens
    count = min(rows, (spec.heldout_tokens - 1) // length)
    last = spec.heldout_tokens - length - 1
    return [spec.token_count + last * row // max(count - 1, 1) for row in range(count)]


def get_batch(corpus: Corpus, spec: TrainingSpec, beacon: bytes, shard: int, inner_step: int) -> Batch:
    """Returns tokens and labels of one inner step (0-based in the round), int64 [sequences_per_step,
    sequence_tokens] each."""
    rows = read_known_rows(corpus, spec, list_starts(spec, beacon, shard, (inner_step,)))
    return Batch(rows[:, :-1].contiguous(), rows[:, 1:].contiguous())
