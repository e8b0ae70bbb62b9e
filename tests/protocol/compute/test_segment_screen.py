"""The screen of a segment: honest segments of any length and machine pass, what no gradients could do is
found from the two ends."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from benchmarks.setting import train_plainly
from protocol.compute.data import Corpus, get_batch
from protocol.compute.segment_screen import screen_segment
from protocol.compute.step import TrainingState, train_segment
from protocol.spec.containers import TrainingSpec
from protocol.spec.errors import InvalidInput
from protocol.spec.float32 import nearest

STEPS = 5


def train(state: TrainingState, spec: TrainingSpec, corpus: Corpus, steps: int) -> TrainingState:
    return train_segment(
        state, spec, lambda step: get_batch(corpus, spec, bytes(32), 0, step), state.global_step, steps
    )[0]


@pytest.fixture
def before(state: TrainingState, spec: TrainingSpec, corpus: Corpus) -> TrainingState:
    return train(state, spec, corpus, 6)


@pytest.fixture
def after(before: TrainingState, spec: TrainingSpec, corpus: Corpus) -> TrainingState:
    return train(before, spec, corpus, STEPS)


@pytest.mark.parametrize("steps", [1, 2, 5, 13])
def test_screen_segment_honest_segments_are_consistent(
    state: TrainingState, spec: TrainingSpec, corpus: Corpus, steps: int
) -> None:
    for _ in range(3):  # The first one begins from zero moments.
        following = train(state, spec, corpus, steps)
        found = screen_segment(state, following, spec)
        assert found.is_consistent and found.effective == found.steps == steps, found
        assert 0.3 < found.implied_norm <= 1.001, "the first gradients are clipped to a norm of 1"
        state = following


def test_screen_segment_other_kernels_are_consistent(
    before: TrainingState, spec: TrainingSpec, corpus: Corpus
) -> None:
    batches = [get_batch(corpus, spec, bytes(32), 0, step) for step in range(16)]
    claimed = train_plainly(before, spec, lambda step: batches[step], 6, STEPS)
    assert screen_segment(before, claimed, spec).is_consistent


def test_screen_segment_steps_without_effect_are_consistent(
    before: TrainingState, spec: TrainingSpec, corpus: Corpus
) -> None:
    worked = train(before, spec, corpus, 2)
    skipped = replace(worked, local_step=before.local_step + STEPS, global_step=before.global_step + STEPS)
    assert screen_segment(before, skipped, spec).is_consistent
    # As far as gradients of one sign ever drive m against v: only no step at all leaves both as they are.
    ones = torch.ones_like(before.weights) * 1e-5
    steep = replace(before, first_moment=ones, second_moment=ones * ones * 0.75)
    found = screen_segment(steep, replace(steep, local_step=7, global_step=7), spec)
    assert found.is_consistent and (found.steps, found.effective) == (1, 0)


Change = Callable[[TrainingState], TrainingState]


def scale(name: str, factor: float) -> Change:
    return lambda state: replace(state, **{name: getattr(state, name) * factor})


def shift(name: str, by: float) -> Change:
    return lambda state: replace(state, **{name: getattr(state, name) + by})


@pytest.mark.parametrize(
    "change",
    [
        scale("second_moment", 0.3),
        scale("second_moment", -1.0),
        scale("first_moment", 10.0),
        shift("first_moment", 0.1),
        shift("weights", 0.5),
        scale("weights", 2.0),
    ],
)
def test_screen_segment_what_no_gradients_do_is_found(
    before: TrainingState, after: TrainingState, spec: TrainingSpec, change: Change
) -> None:
    found = screen_segment(before, change(after), spec)
    assert not found.is_consistent and found.wrong_moments + found.wrong_weights > 100
    assert found.effective == STEPS


def test_screen_segment_an_invented_end_is_found(
    before: TrainingState, after: TrainingState, spec: TrainingSpec
) -> None:
    noise = torch.randn(after.weights.shape, generator=torch.Generator().manual_seed(1)) * 1e-3
    first, second = before.first_moment + noise, before.second_moment + noise * noise * 1e-3
    found = screen_segment(before, replace(after, first_moment=first, second_moment=second), spec)
    assert not found.is_consistent and found.wrong_moments > 1000


def test_screen_segment_gradients_that_are_not_clipped_are_found(
    before: TrainingState, after: TrainingState, spec: TrainingSpec, corpus: Corpus
) -> None:
    tight = replace(spec, optimizer=replace(spec.optimizer, clip_norm=nearest(0.01)))
    found = screen_segment(before, after, tight)
    assert found.implied_norm > found.norm_limit and not found.is_consistent
    assert screen_segment(before, train(before, tight, corpus, STEPS), tight).is_consistent


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("name", ["weights", "first_moment", "second_moment"])
def test_screen_segment_what_is_not_finite_is_found(
    before: TrainingState, after: TrainingState, spec: TrainingSpec, name: str, bad: float
) -> None:
    vector = getattr(after, name).clone()
    vector[3] = bad
    assert not screen_segment(before, replace(after, **{name: vector}), spec).is_consistent


@pytest.mark.parametrize("change", [{"local_step": 6}, {"global_step": 8}])
def test_screen_segment_states_in_no_order_are_refused(
    before: TrainingState, after: TrainingState, spec: TrainingSpec, change: dict[str, int]
) -> None:
    with pytest.raises(InvalidInput, match="some steps after the first"):
        screen_segment(before, replace(after, **change), spec)  # type: ignore[arg-type]
