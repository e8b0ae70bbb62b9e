"""Learning rates and bias corrections: exact, rounded once, and the same as counting by hand."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.protocol.spec.sample import sample_task
from touchstone.protocol.spec.commitments import compute_schedule_leaf
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.float32 import bits_to_float, float_to_bits, nearest, pack_bits, round_to_bits
from touchstone.protocol.spec.merkle import compute_path, hash_leaf, is_valid_path, verify_path
from touchstone.protocol.spec.schedule import (
    compute_bias_corrections,
    compute_learning_rate,
    compute_learning_rate_sum,
    compute_scalar_leaves,
    compute_scalar_levels,
    compute_schedule_levels,
    compute_schedule_sums,
)
from touchstone.protocol.spec.task_spec import ScheduleConfig

PEAK = nearest(1e-3)
SCHEDULE = ScheduleConfig(PEAK, warmup_steps=4, total_steps=20, decay_steps=5, final_ratio=0.5)


def test_the_schedule_warms_up_stays_and_decays() -> None:
    factors = [Fraction(i, 4) for i in (1, 2, 3, 4)] + [Fraction(1)] * 12
    factors += [Fraction(1, 2) + Fraction(i, 10) for i in (4, 3, 2, 1)]
    expected = [nearest(Fraction(PEAK) * factor) for factor in factors]
    assert [compute_learning_rate(SCHEDULE, step) for step in range(20)] == expected


def test_the_inner_warm_up_multiplies() -> None:
    schedule = replace(SCHEDULE, warmup_steps=0, decay_steps=0, inner_warmup_steps=3)
    rates = [compute_learning_rate(schedule, 10, local_step) for local_step in range(5)]
    assert rates == [nearest(Fraction(PEAK) * f) for f in (Fraction(1, 3), Fraction(2, 3), 1, 1, 1)]


def test_without_warm_up_and_decay_the_rate_is_the_peak() -> None:
    schedule = ScheduleConfig(PEAK, warmup_steps=0, total_steps=3)
    assert [compute_learning_rate(schedule, step) for step in range(3)] == [PEAK] * 3


@pytest.mark.parametrize(("global_step", "local_step"), [(-1, 0), (20, 0), (0, -1)])
def test_steps_outside_the_task_are_refused(global_step: int, local_step: int) -> None:
    with pytest.raises(InvalidInput, match="below 20"):
        compute_learning_rate(SCHEDULE, global_step, local_step)


@settings(deadline=None)
@given(st.floats(0, 1 - 2.0**-13, width=32), st.integers(0, 3_000))
def test_bias_corrections_are_correctly_rounded(beta: float, local_step: int) -> None:
    exact = 1 - Fraction(beta) ** (local_step + 1)
    first, second = compute_bias_corrections(beta, 0.5, local_step)
    assert first == bits_to_float(round_to_bits(exact))
    assert second == nearest(1 - Fraction(1, 2) ** (local_step + 1))


def test_bias_corrections_of_very_late_steps() -> None:
    beta1, beta2 = nearest(0.9), nearest(1 - 2.0**-24)
    first, second = compute_bias_corrections(beta1, beta2, 2**31)
    assert first == second == 1.0
    assert 0.6 < compute_bias_corrections(beta1, beta2, 2**24)[1] < 0.7


def test_sums_are_exact_and_rounded_up() -> None:
    rates = [compute_learning_rate(SCHEDULE, step) for step in range(2, 4)]
    exact = sum(map(Fraction, rates), Fraction(0)) * 2**64
    total = compute_learning_rate_sum(SCHEDULE, 1, 2, 10)
    assert total - 1 < exact <= total
    tiny = ScheduleConfig(nearest(2.0**-80), warmup_steps=0, total_steps=4)
    assert compute_learning_rate_sum(tiny, 0, 2, 4) == 1


def test_sums_restart_the_inner_warm_up_in_every_round() -> None:
    schedule = ScheduleConfig(PEAK, warmup_steps=0, total_steps=20, inner_warmup_steps=4)
    first, second, again = (compute_learning_rate_sum(schedule, i, 5, 10) for i in range(3))
    assert first == again < second


def test_the_schedule_tree_covers_every_segment_of_the_task() -> None:
    spec = sample_task()
    sums = compute_schedule_sums(spec)
    levels = compute_schedule_levels(sums)
    assert len(sums) == 3 * 6
    assert levels[-1] == [spec.terms.schedule_root]
    verify_path(
        spec.terms.schedule_root, compute_schedule_leaf(17, sums[17]), 17, 18, compute_path(levels, 17)
    )


def test_the_scalars_of_a_step_are_those_of_its_counters() -> None:
    schedule = ScheduleConfig(PEAK, warmup_steps=3, total_steps=36, inner_warmup_steps=4)
    task = sample_task()
    spec = replace(task, training=replace(task.training, schedule=schedule))
    leaves, training = compute_scalar_leaves(spec), task.training
    assert len(leaves) == 3 * 12
    for step, leaf in enumerate(leaves):
        # Without carried moments the local step is the step of the round.
        rate = compute_learning_rate(schedule, step, step % 12)
        expected = (rate, *compute_bias_corrections(training.beta1, training.beta2, step))
        assert leaf == pack_bits([float_to_bits(value) for value in expected])
    levels = compute_scalar_levels(leaves)
    assert is_valid_path(levels[-1][0], hash_leaf(leaves[35]), 35, 36, compute_path(levels, 35))
