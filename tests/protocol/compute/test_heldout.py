from math import log

import pytest
import torch

from lab.benchmarks.setting import compute_heldout_loss, get_heldout_batch
from protocol.compute.model.batches import Corpus
from protocol.compute.program.step import TrainingState
from protocol.spec.containers import TrainingSpec


def test_a_fresh_model_knows_nothing(state: TrainingState, corpus: Corpus, spec: TrainingSpec) -> None:
    loss = compute_heldout_loss(state.weights, get_heldout_batch(corpus, spec, 8), spec.model)
    assert loss == pytest.approx(log(spec.model.vocabulary_size), abs=0.1)


def test_evaluation_leaves_no_gradient_state_behind(
    state: TrainingState, corpus: Corpus, spec: TrainingSpec
) -> None:
    compute_heldout_loss(state.weights, get_heldout_batch(corpus, spec, 2), spec.model)
    assert torch.is_grad_enabled() and not state.weights.requires_grad
