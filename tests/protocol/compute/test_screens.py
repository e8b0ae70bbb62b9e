"""Screens: honest steps pass on every kernel, and what a claim alone betrays is found."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from benchmarks.setting import train_plainly
from protocol.compute import screens
from protocol.compute.data import Corpus, get_batch
from protocol.compute.screens import TensorDistance, measure_tensors, screen_step
from protocol.compute.step import TrainingState, train_segment
from protocol.spec.containers import TrainingSpec
from protocol.spec.errors import InvalidInput
from protocol.spec.float32 import nearest

Change = Callable[[TrainingState], TrainingState]


def find_worst(distances: tuple[TensorDistance, ...]) -> TensorDistance:
    return max(distances, key=lambda distance: distance.worst)


def train(state: TrainingState, spec: TrainingSpec, corpus: Corpus, steps: int) -> TrainingState:
    return train_segment(
        state, spec, lambda step: get_batch(corpus, spec, bytes(32), 0, step), state.global_step, steps
    )[0]


@pytest.fixture
def before(state: TrainingState, spec: TrainingSpec, corpus: Corpus) -> TrainingState:
    return train(state, spec, corpus, 6)


@pytest.fixture
def after(before: TrainingState, spec: TrainingSpec, corpus: Corpus) -> TrainingState:
    return train(before, spec, corpus, 1)


def move(field: str, index: int, factor: float) -> Change:
    def change(state: TrainingState) -> TrainingState:
        vector = getattr(state, field).clone()
        vector[index] *= factor
        return replace(state, **{field: vector})

    return change


def test_screen_step_honest_steps_are_consistent(
    state: TrainingState, spec: TrainingSpec, corpus: Corpus
) -> None:
    for _ in range(12):
        following = train(state, spec, corpus, 1)
        found = screen_step(state, following, spec)
        assert found.is_consistent and not found.is_without_effect, found
        assert 0 < found.implied_norm <= 1.001, "the first gradients are clipped to a norm of 1"
        state = following


def test_screen_step_other_kernels_are_consistent(
    before: TrainingState, spec: TrainingSpec, corpus: Corpus
) -> None:
    batches = [get_batch(corpus, spec, bytes(32), 0, step) for step in range(9)]
    claimed = train_plainly(before, spec, lambda step: batches[step], 6, 1)
    assert screen_step(before, claimed, spec).is_consistent


@pytest.mark.parametrize("index", [0, 999, -1])
def test_screen_step_one_unit_in_the_last_place_of_a_weight_is_found(
    before: TrainingState, after: TrainingState, spec: TrainingSpec, index: int
) -> None:
    claimed = move("weights", index, 1 + 2.0**-22)(after)
    found = screen_step(before, claimed, spec)
    assert (found.wrong_weights, found.wrong_weight_index) == (1, index % len(after.weights))
    assert found.wrong_moments == 0 and not found.is_consistent


@pytest.mark.parametrize("change", [move("second_moment", 7, 1.1), move("second_moment", 7, -1.0)])
def test_screen_step_a_second_moment_that_no_gradient_gives_is_found(
    before: TrainingState, after: TrainingState, spec: TrainingSpec, change: Change
) -> None:
    found = screen_step(before, change(after), spec)
    assert (found.wrong_moments, found.wrong_moment_index) == (1, 7) and not found.is_consistent


def test_screen_step_another_first_moment_is_found(
    before: TrainingState, after: TrainingState, spec: TrainingSpec
) -> None:
    found = screen_step(before, move("first_moment", 9, 1.01)(after), spec)
    assert found.wrong_weight_index == 9 and found.wrong_moment_index == 9


@pytest.mark.parametrize(
    "name, value",
    [("beta1", 0.91), ("beta2", 0.96), ("epsilon", 1.01e-5), ("weight_decay", 0.0), ("weight_decay", 0.101)],
)
def test_screen_step_another_optimizer_is_found(
    before: TrainingState, spec: TrainingSpec, corpus: Corpus, name: str, value: float
) -> None:
    cheating = replace(spec, optimizer=replace(spec.optimizer, **{name: nearest(value)}))
    batches = [get_batch(corpus, spec, bytes(32), 0, step) for step in range(9)]
    claimed = train_plainly(before, cheating, lambda step: batches[step], 6, 1)
    found = screen_step(before, claimed, spec)
    assert not found.is_consistent and found.wrong_weights + found.wrong_moments > 1000


def test_screen_step_a_learning_rate_one_in_ten_thousand_off_is_found(
    before: TrainingState, spec: TrainingSpec, corpus: Corpus
) -> None:
    rate = nearest(spec.schedule.peak_learning_rate * 0.9999)
    cheating = replace(spec, schedule=replace(spec.schedule, peak_learning_rate=rate))
    batches = [get_batch(corpus, spec, bytes(32), 0, step) for step in range(9)]
    claimed = train_plainly(before, cheating, lambda step: batches[step], 6, 1)
    assert screen_step(before, claimed, spec).wrong_weights > 100


def test_screen_step_a_gradient_that_is_not_clipped_is_found(
    before: TrainingState, spec: TrainingSpec, corpus: Corpus
) -> None:
    tight = replace(spec, optimizer=replace(spec.optimizer, clip_norm=nearest(0.01)))
    batches = [get_batch(corpus, spec, bytes(32), 0, step) for step in range(9)]
    claimed = train_plainly(before, spec, lambda step: batches[step], 6, 1)
    found = screen_step(before, claimed, tight)
    assert found.wrong_weights == found.wrong_moments == 0
    assert found.implied_norm > found.norm_limit and not found.is_consistent
    honest = train_plainly(before, tight, lambda step: batches[step], 6, 1)
    assert screen_step(before, honest, tight).is_consistent


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("field", ["weights", "first_moment", "second_moment"])
def test_screen_step_what_is_not_finite_is_found(
    before: TrainingState, after: TrainingState, spec: TrainingSpec, field: str, bad: float
) -> None:
    assert not screen_step(before, move(field, 3, bad)(after), spec).is_consistent


def test_screen_step_a_step_without_effect_is_told(before: TrainingState, spec: TrainingSpec) -> None:
    idle = replace(before, local_step=7, global_step=7)
    found = screen_step(before, idle, spec)
    assert found.is_without_effect and found.is_consistent and found.wrong_weights > 0


def test_screen_step_states_of_other_steps_are_refused(
    before: TrainingState, after: TrainingState, spec: TrainingSpec
) -> None:
    with pytest.raises(InvalidInput, match="one step apart"):
        screen_step(before, replace(after, global_step=8), spec)


def test_screen_step_in_parts_finds_the_same(
    before: TrainingState, after: TrainingState, spec: TrainingSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed = move("second_moment", 5000, 1.1)(after)
    whole = screen_step(before, claimed, spec)
    monkeypatch.setattr(screens, "PART_ELEMENTS", 3000)
    parted = screen_step(before, claimed, spec)
    assert parted.implied_norm == pytest.approx(whole.implied_norm)
    assert replace(parted, implied_norm=0.0) == replace(whole, implied_norm=0.0)
    assert whole.wrong_moment_index == 5000


def test_measure_tensors_names_the_tensor_that_differs(
    state: TrainingState, before: TrainingState, spec: TrainingSpec
) -> None:
    same = measure_tensors(before, before, state, spec.model)
    assert {distance.worst for distance in same} == {0.0}
    last = len(before.weights) - 1
    found = measure_tensors(move("second_moment", last, 2.0)(before), before, state, spec.model)
    worst = find_worst(found)
    assert worst.name == found[-1].name and worst.worst == worst.second_moment > 0
    assert [distance.worst for distance in found[:-1]] == [0.0] * (len(found) - 1)


def test_measure_tensors_are_relative_to_the_update(
    state: TrainingState, before: TrainingState, spec: TrainingSpec
) -> None:
    claimed = replace(before, weights=before.weights + 0.01 * (before.weights - state.weights))
    found = measure_tensors(claimed, before, state, spec.model)
    assert [distance.weights for distance in found] == pytest.approx([0.01] * len(found), rel=1e-3)


def test_measure_tensors_a_frozen_replay_and_nan_are_infinitely_far(
    state: TrainingState, before: TrainingState, spec: TrainingSpec
) -> None:
    frozen = measure_tensors(before, state, state, spec.model)
    broken = measure_tensors(move("weights", 0, float("nan"))(before), before, state, spec.model)
    assert find_worst(frozen).worst == float("inf")
    assert find_worst(broken).worst == float("inf")


def test_measure_tensors_by_pieces_are_the_same_but_for_rounding(
    state: TrainingState, before: TrainingState, spec: TrainingSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(1)
    noise = torch.randn(before.weights.shape, generator=generator)
    claimed = replace(before, weights=before.weights + 1e-3 * noise)
    whole = measure_tensors(claimed, before, state, spec.model)
    monkeypatch.setattr(screens, "NORM_ELEMENTS", 100)
    parted = measure_tensors(claimed, before, state, spec.model)
    assert [one.weights for one in parted] == pytest.approx([one.weights for one in whole], rel=1e-12)
    assert len({one.weights for one in whole}) == len(whole)
