from math import log

import pytest
import torch

from protocol.compute.data import Corpus, get_heldout_batch
from protocol.compute.evaluate import compute_heldout_loss, sample_tokens
from protocol.compute.model import split_parameters
from protocol.compute.step import TrainingState
from protocol.spec.containers import TrainingSpec


def test_a_fresh_model_knows_nothing(state: TrainingState, corpus: Corpus, spec: TrainingSpec) -> None:
    loss = compute_heldout_loss(state.weights, get_heldout_batch(corpus, spec, 8), spec.model)
    assert loss == pytest.approx(log(spec.model.vocabulary_size), abs=0.1)


def test_sampling_repeats_and_continues_the_prompt(state: TrainingState, spec: TrainingSpec) -> None:
    first, second = (sample_tokens(state.weights, b"\x01\x02", 30, spec.model, seed=4) for _ in range(2))
    assert first == second and first.startswith(b"\x01\x02") and len(first) == 32
    assert first != sample_tokens(state.weights, b"\x01\x02", 30, spec.model, seed=5)


def test_a_certain_model_repeats_what_it_is_sure_of(state: TrainingState, spec: TrainingSpec) -> None:
    weights = state.weights.clone()
    params = split_parameters(weights, spec.model)
    params["model.embed_tokens.weight"].fill_(1.0)
    params["lm_head.weight"].zero_()
    params["lm_head.weight"][9] = 10.0
    for temperature in (0.0, 0.5):
        assert sample_tokens(weights, b"", 3, spec.model, temperature=temperature)[1:] == b"\x09\x09\x09"


def test_evaluation_leaves_no_gradient_state_behind(
    state: TrainingState, corpus: Corpus, spec: TrainingSpec
) -> None:
    compute_heldout_loss(state.weights, get_heldout_batch(corpus, spec, 2), spec.model)
    assert torch.is_grad_enabled() and not state.weights.requires_grad
