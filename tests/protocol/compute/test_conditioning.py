"""Shaking weights in their last bit, and what follows from how far two results lie apart."""

from dataclasses import replace

import pytest
import torch

from protocol.compute.audit.compare import (
    ILL_CONDITIONED_RATIO,
    PART_ELEMENTS,
    Distances,
    find_usual,
    is_well_conditioned,
    shake,
    unshake,
)
from protocol.compute.program.step import TrainingState
from protocol.spec.calibration_rules import LEAST_MAXIMUM

QUIET = Distances(1e-6, 3e-6, 1e-6, 0, 0, 0)


@pytest.fixture
def start() -> TrainingState:
    generator = torch.Generator().manual_seed(1)
    weights = torch.randn(PART_ELEMENTS + 300, generator=generator)
    weights[::100] = 0.0
    return TrainingState(weights, torch.zeros_like(weights), torch.ones_like(weights), 3, 13)


def test_shake_moves_each_weight_by_one_unit_in_the_last_place_at_most(start: TrainingState) -> None:
    shaken = shake(start, 7)
    moved = shaken.weights.view(torch.int32) - start.weights.view(torch.int32)
    assert set(moved.tolist()) == {-1, 0, 1}
    for part in (moved[:PART_ELEMENTS], moved[PART_ELEMENTS:]):
        assert 0.3 < float((part != 0).float().mean()) < 0.7
    assert not bool(shaken.weights[::100].any())
    assert shaken.first_moment is start.first_moment and shaken.global_step == 13


def test_the_seed_decides_which_way(start: TrainingState) -> None:
    first, again, other = (shake(start, seed).weights for seed in (7, 7, 8))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_unshake_leaves_what_the_steps_made_of_it(start: TrainingState) -> None:
    shaken = shake(start, 7)
    assert torch.equal(unshake(shaken, start, 7).weights, start.weights)
    doubled = replace(shaken, weights=2 * shaken.weights)
    left = unshake(doubled, start, 7).weights - 2 * start.weights
    assert torch.allclose(left, shaken.weights - start.weights, rtol=0.0, atol=2.0**-20)


@pytest.mark.parametrize("name", ["first_moment", "second_moment", "weights"])
def test_limits_rest_on_no_segment_far_above_the_median(name: str) -> None:
    largest = getattr(QUIET, name) * ILL_CONDITIONED_RATIO
    noise = [QUIET, QUIET, replace(QUIET, **{name: 1.01 * largest}), QUIET, replace(QUIET, **{name: largest})]
    usual = find_usual(noise)
    assert [is_well_conditioned(own, usual) for own in noise] == [True, True, False, True, True]


def test_noise_below_what_limits_can_say_makes_no_segment_ill_conditioned() -> None:
    least = ILL_CONDITIONED_RATIO * float(LEAST_MAXIMUM)
    noise = [Distances(0.0, 0.0, 0.0, 0, 0, 0)] * 2 + [Distances(least, least, least, 0, 0, 0)]
    assert all(is_well_conditioned(own, find_usual(noise)) for own in noise)
