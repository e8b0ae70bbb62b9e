"""A model small enough for a test, and kernels pinned as a node pins them."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.task_models import draw_first, make_training
from touchstone.protocol.compute.batches import Corpus, dataset_root, open_corpus
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.compute.program.step import begin_round
from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.spec.float32 import nearest
from touchstone.protocol.spec.params import PROTOCOL_VERSION
from touchstone.protocol.spec.task_spec import ScheduleConfig, TrainingSpec
from touchstone.step.plain_decoder import DecoderConfig

TINY = DecoderConfig(
    vocabulary_size=64,
    hidden_size=32,
    intermediate_size=48,
    layer_count=2,
    head_count=4,
    kv_head_count=2,
    context_tokens=16,
)
TOKENS = bytes((i * i + i // 7) % 64 for i in range(6000))


def build_tiny_training(**changes: Any) -> TrainingSpec:
    values: dict[str, Any] = {
        "protocol_version": PROTOCOL_VERSION,
        "numeric_format": "float32",
        "chunk_terms": 128,
        "model": TINY,
        "schedule": ScheduleConfig(nearest(3e-3), warmup_steps=4, total_steps=200),
        "sequences_per_step": 4,
        "sequence_tokens": 16,
        "initial_seed": 5,
        "dataset_root": dataset_root(TOKENS),
        "token_count": 5000,
        "heldout_tokens": 1000,
    }
    return make_training(**{**values, **changes})


@pytest.fixture(autouse=True)
def _pinned() -> Iterator[None]:
    pin_kernels(1)
    yield
    pin_kernels(1)


@pytest.fixture
def spec() -> TrainingSpec:
    return build_tiny_training()


@pytest.fixture
def corpus(spec: TrainingSpec) -> Corpus:
    return open_corpus(TOKENS, spec)


@pytest.fixture
def state(spec: TrainingSpec) -> TrainingState:
    return begin_round(draw_first(spec), 0)
