"""Loss on rows is that of one pass; tokens follow from the seed, and from nothing beyond the context."""

from itertools import islice

import pytest
import torch

from protocol.compute.model.generation import Taste, generate, measure_rows
from protocol.compute.model.reference_model import (
    build_tables,
    compute_logits,
    compute_loss,
    init_parameters,
    split_parameters,
)
from protocol.spec.containers import ModelConfig
from protocol.spec.errors import InvalidInput

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
