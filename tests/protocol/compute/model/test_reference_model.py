"""The reference model: its parameters, the tables of its positions, and what a fresh one knows."""

from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from itertools import islice
from math import cos, log, pi, sin
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from protocol.compute.digest import tensor_bytes
from protocol.compute.model.batches import Corpus
from protocol.compute.model.position_tables import compute_cos_sin, compute_frequency
from protocol.compute.model.reference_model import (
    Taste,
    build_tables,
    compute_logits,
    compute_loss,
    export_texts,
    generate,
    init_parameters,
    measure_rows,
    parameter_count,
    parameter_layout,
    split_parameters,
)
from protocol.compute.program.step import TrainingState
from protocol.spec.containers import ModelConfig, TrainingSpec
from protocol.spec.errors import InvalidInput
from protocol.spec.float32 import nearest
from tests.training_setting import compute_heldout_loss, get_heldout_batch

INITIAL_DIGEST = "61054c053ee778911702590dbc8e16f94703284473f53a29eb2dda852fb6b447"
"""SHA-256 of the tiny model's initial bytes with seed 5; a change is another protocol version."""


def test_layout_is_the_state_dict_of_transformers(spec: TrainingSpec) -> None:
    model = spec.model
    config = LlamaConfig(
        vocab_size=model.vocabulary_size,
        hidden_size=model.hidden_size,
        intermediate_size=model.intermediate_size,
        num_hidden_layers=model.layer_count,
        num_attention_heads=model.head_count,
        num_key_value_heads=model.kv_head_count,
        tie_word_embeddings=False,
    )
    theirs = [(name, tuple(p.shape)) for name, p in LlamaForCausalLM(config).state_dict().items()]
    assert [(p.name, p.shape) for p in parameter_layout(model)] == theirs
    assert "config.json" in export_texts(model)


def test_layout_is_contiguous(spec: TrainingSpec) -> None:
    end = 0
    for parameter in parameter_layout(spec.model):
        assert parameter.offset == end
        end += parameter.size
    assert end == parameter_count(spec.model)


def test_initial_parameters_have_golden_bits(spec: TrainingSpec) -> None:
    flat = init_parameters(spec.model, 5)
    assert sha256(tensor_bytes(flat)).hexdigest() == INITIAL_DIGEST


def test_initial_parameters_have_the_deviation_of_their_kind() -> None:
    config = ModelConfig(256, 64, 128, 8, 4, 4, 16)
    params = split_parameters(init_parameters(config, 1), config)
    assert float(params["model.embed_tokens.weight"].std()) == pytest.approx(1.0, rel=0.03)
    assert float(params["lm_head.weight"].std()) == pytest.approx(0.02, rel=0.03)
    assert float(params["lm_head.weight"].mean()) == pytest.approx(0, abs=1e-3)
    assert float(params["model.layers.3.mlp.down_proj.weight"].std()) == pytest.approx(0.005, rel=0.03)
    assert torch.equal(params["model.norm.weight"], torch.ones(64))
    assert not torch.equal(
        params["model.layers.0.mlp.up_proj.weight"], params["model.layers.1.mlp.up_proj.weight"]
    )


def test_seeds_differ(spec: TrainingSpec) -> None:
    assert not torch.equal(init_parameters(spec.model, 1), init_parameters(spec.model, 2))


def test_future_tokens_do_not_change_the_past(spec: TrainingSpec) -> None:
    params = split_parameters(init_parameters(spec.model, 1), spec.model)
    tokens = torch.arange(16).view(1, 16)
    changed = tokens.clone()
    changed[0, 9:] = 0
    tables = build_tables(spec.model)
    before, after = (compute_logits(params, t, tables, spec.model) for t in (tokens, changed))
    assert torch.allclose(before[0, :9], after[0, :9], atol=1e-6)
    assert not torch.allclose(before[0, 9], after[0, 9], atol=1e-6)


@pytest.mark.parametrize(
    "change", [{"head_count": 3}, {"kv_head_count": 3}, {"layer_count": 0}, {"hidden_size": 4}]
)
def test_impossible_shapes_are_refused(spec: TrainingSpec, change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="not a shape"):
        parameter_layout(replace(spec.model, **change))


def test_split_refuses_another_length(spec: TrainingSpec) -> None:
    with pytest.raises(InvalidInput, match="does not fit"):
        split_parameters(torch.zeros(7), spec.model)


# --- Tables of positions ------------------------------------------------------------------------------------
@pytest.mark.parametrize("angle", [0.0, 1e-6, 0.5, pi / 4, pi / 2, 1.0, 3.14, 127.0, 4095.0, 100_000.5])
def test_cos_sin_agrees_with_the_library(angle: float) -> None:
    cosine, sine = compute_cos_sin(Fraction(angle))
    assert float(cosine) == pytest.approx(cos(angle), abs=1e-15)
    assert float(sine) == pytest.approx(sin(angle), abs=1e-15)


@pytest.mark.parametrize("i", range(16))
def test_frequency_is_the_float32_nearest_to_the_power(i: int) -> None:
    assert compute_frequency(10_000.0, i, 32) == nearest(10_000.0 ** (-i / 16))


def test_tables_hold_one_row_a_position() -> None:
    config = ModelConfig(256, 32, 48, 1, 2, 2, 9, rope_theta=500.0)
    tables = build_tables(config)
    assert tables.cos_TN.shape == tables.sin_TN.shape == (9, 8)
    assert torch.equal(tables.cos_TN[0], torch.ones(8)) and torch.equal(tables.sin_TN[0], torch.zeros(8))
    angle = nearest(5 * compute_frequency(500.0, 3, 16))
    assert float(tables.cos_TN[5, 3]) == nearest(cos(angle))
    assert float(tables.sin_TN[5, 3]) == nearest(sin(angle))


# --- What the model says of held-out tokens -----------------------------------------------------------------
def test_a_fresh_model_knows_nothing(state: TrainingState, corpus: Corpus, spec: TrainingSpec) -> None:
    loss = compute_heldout_loss(state.weights, get_heldout_batch(corpus, spec, 8), spec.model)
    assert loss == pytest.approx(log(spec.model.vocabulary_size), abs=0.1)


def test_evaluation_leaves_no_gradient_state_behind(
    state: TrainingState, corpus: Corpus, spec: TrainingSpec
) -> None:
    compute_heldout_loss(state.weights, get_heldout_batch(corpus, spec, 2), spec.model)
    assert torch.is_grad_enabled() and not state.weights.requires_grad


MODEL = ModelConfig(40, 32, 48, 1, 2, 2, 8)
WEIGHTS = init_parameters(MODEL, 3) * 4


def go_on(taste: Taste, prompt: list[int], count: int = 12) -> list[int]:
    return list(islice(generate(WEIGHTS, MODEL, prompt, taste), count))


def test_the_loss_is_the_mean_over_all_predicted_tokens() -> None:
    rows = [torch.randint(0, 40, (9,), generator=torch.Generator().manual_seed(n)) for n in range(19)]
    found = measure_rows(WEIGHTS, MODEL, [*rows, torch.tensor([1, 2, 3]), torch.tensor([5])])
    params, tables = split_parameters(WEIGHTS, MODEL), build_tables(MODEL)
    stacked, short = torch.stack(rows), torch.tensor([[1, 2, 3]])
    total = 19 * 8 * compute_loss(params, stacked[:, :-1], stacked[:, 1:], tables, MODEL)
    total = total + 2 * compute_loss(params, short[:, :-1], short[:, 1:], tables, MODEL)
    assert found.tokens == 154 and found.loss == pytest.approx(float(total) / 154, rel=1e-5)


def test_nothing_to_measure_and_unknown_tokens_are_refused() -> None:
    with pytest.raises(InvalidInput, match="nothing to measure"):
        measure_rows(WEIGHTS, MODEL, [torch.tensor([1])])
    with pytest.raises(InvalidInput, match="cannot read"):
        measure_rows(WEIGHTS, MODEL, [torch.tensor([1, 40])])


def test_the_same_seed_writes_the_same_and_another_something_else() -> None:
    taste = Taste(seed=5)
    assert go_on(taste, [1, 2]) == go_on(taste, [1, 2]) != go_on(Taste(seed=6), [1, 2])


def test_no_heat_and_one_choice_take_the_likeliest() -> None:
    params, tables = split_parameters(WEIGHTS, MODEL), build_tables(MODEL)
    tokens = [3]
    for _ in range(12):
        logits = compute_logits(params, torch.tensor([tokens[-8:]]), tables, MODEL)[0, -1]
        tokens.append(int(logits.argmax()))
    assert go_on(Taste(temperature=0), [3]) == tokens[1:] == go_on(Taste(top_k=1, seed=9), [3])


def test_top_k_leaves_the_others_out() -> None:
    params, tables = split_parameters(WEIGHTS, MODEL), build_tables(MODEL)
    likeliest = set(
        compute_logits(params, torch.tensor([[3]]), tables, MODEL)[0, -1].topk(4).indices.tolist()
    )
    drawn = {go_on(Taste(temperature=5, top_k=4, seed=seed), [3], 1)[0] for seed in range(60)}
    assert drawn == likeliest


@pytest.mark.parametrize(
    "taste", [Taste(-1), Taste(float("nan")), Taste(float("inf")), Taste(1, -1), Taste(seed=-1)]
)
def test_other_tastes_are_refused(taste: Taste) -> None:
    with pytest.raises(InvalidInput, match="cannot be chosen so"):
        go_on(taste, [1])


@pytest.mark.parametrize("prompt", [[], [40], [-1]])
def test_other_prompts_are_refused(prompt: list[int]) -> None:
    with pytest.raises(InvalidInput, match="cannot read"):
        go_on(Taste(), prompt)
