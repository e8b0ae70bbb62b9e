from hashlib import sha256

import pytest
import torch

from tests.protocol.compute.conftest import TOKENS, build_tiny_training
from tests.task_models import get_model
from tests.training_setting import get_heldout_batch
from touchstone.protocol.compute.batches import (
    Corpus,
    WholeCorpus,
    dataset_root,
    get_batch,
    open_corpus,
    read_known_rows,
)
from touchstone.protocol.spec.data_trees import compute_data_root
from touchstone.protocol.spec.errors import ProtocolFault
from touchstone.protocol.spec.shard_draws import draw_sample_start
from touchstone.protocol.spec.task_spec import TrainingSpec
from touchstone.step.plain_decoder import DecoderConfig

BEACON = sha256(b"beacon").digest()


def test_rows_are_the_drawn_ones_and_labels_the_next_tokens(corpus: Corpus, spec: TrainingSpec) -> None:
    tokens, labels = get_batch(corpus, spec, BEACON, shard=2, inner_step=7)
    assert tokens.dtype == labels.dtype == torch.int64 and tokens.shape == labels.shape == (4, 16)
    for row in range(4):
        start = draw_sample_start(BEACON, 2, 7, row, spec.token_count, 16)
        assert bytes(tokens[row].tolist()) == TOKENS[start : start + 16]
        assert bytes(labels[row].tolist()) == TOKENS[start + 1 : start + 17]


def test_every_part_of_the_key_changes_the_sample(corpus: Corpus, spec: TrainingSpec) -> None:
    keys = [(BEACON, 0, 0), (BEACON, 1, 0), (BEACON, 0, 1), (sha256(b"other").digest(), 0, 0)]
    batches = [get_batch(corpus, spec, *key).tokens_BT for key in keys]
    assert len({bytes(batch.flatten().tolist()) for batch in batches}) == len(keys)


def test_training_never_touches_heldout_tokens() -> None:
    data = bytes(100) + bytes([1]) * 40
    spec = build_tiny_training(token_count=100, heldout_tokens=40, dataset_root=dataset_root(data))
    corpus = open_corpus(data, spec)
    batches = [get_batch(corpus, spec, BEACON, 0, step) for step in range(100)]
    assert not any(bool(labels.any()) for _, labels in batches)
    heldout = get_heldout_batch(corpus, spec, 3)
    assert (
        bool(heldout.tokens_BT.all()) and bool(heldout.labels_BT.all()) and heldout.tokens_BT.shape == (3, 16)
    )


def test_dataset_root_is_the_tree_of_the_spec() -> None:
    for size in (1, 1023, 1024, 1025, 5000):
        data = bytes(i % 251 for i in range(size))
        assert dataset_root(data) == compute_data_root(data)


def test_two_byte_tokens_are_little_endian() -> None:
    data = b"".join(value.to_bytes(2, "little") for value in range(300))
    model = DecoderConfig(300, 32, 48, 1, 2, 2, 16)
    spec = build_tiny_training(
        model=model, token_count=200, heldout_tokens=100, dataset_root=dataset_root(data)
    )
    tokens, labels = get_batch(open_corpus(data, spec), spec, BEACON, 0, 0)
    assert torch.equal(tokens + 1, labels) and int(labels.max()) < 200


@pytest.mark.parametrize("data", [TOKENS[:-1], TOKENS[:-1] + b"\x01"])
def test_another_dataset_is_refused(spec: TrainingSpec, data: bytes) -> None:
    with pytest.raises(ProtocolFault, match="dataset has (another root|the wrong length)"):
        open_corpus(data, spec)


def test_tokens_outside_the_vocabulary_are_refused() -> None:
    data = bytes(99) + bytes([64])
    spec = build_tiny_training(token_count=80, heldout_tokens=20, dataset_root=dataset_root(data))
    with pytest.raises(ProtocolFault, match="vocabulary"):
        open_corpus(data, spec)


def test_too_short_heldout_part_is_refused(corpus: Corpus) -> None:
    with pytest.raises(ValueError, match="held-out"):
        get_heldout_batch(corpus, build_tiny_training(heldout_tokens=16), 2)


def test_an_entry_outside_the_vocabulary_is_token_0_whoever_reads_it(spec: TrainingSpec) -> None:
    """In steps and in `touchstone eval` alike; the last token of the vocabulary stays."""
    vocabulary, length = get_model(spec).vocabulary_size, spec.sequence_tokens
    tokens = torch.full((2 * length + 2,), vocabulary - 1, dtype=torch.uint8)
    tokens[3], tokens[length + 5] = vocabulary, 255
    rows = read_known_rows(WholeCorpus(tokens), spec, (0, length + 1))
    outside = torch.zeros(2, length + 1, dtype=torch.bool)
    outside[0, 3] = outside[1, 4] = True
    assert bool((rows[outside] == 0).all()) and bool((rows[~outside] == vocabulary - 1).all())
