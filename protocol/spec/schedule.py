"""Computes learning rate and bias corrections of every step as exact rationals, rounded once.

So all nodes use the same bits. It uses no libm, because a library's `pow` or `cos` differs between machines,
and one ulp of the learning rate changes the computation. The schedule is made of lines (warm-up, stable,
decay: Hu et al., arXiv 2404.06395); beta^t is computed with integers.
"""

from fractions import Fraction

from touchstone.protocol.spec.commitments import compute_schedule_leaf
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.float32 import bits_to_float, float_to_bits, pack_bits, round_to_bits
from touchstone.protocol.spec.merkle import Levels, compute_levels, hash_leaf
from touchstone.protocol.spec.params import LEARNING_RATE_FRACTION_BITS
from touchstone.protocol.spec.task_spec import ScheduleConfig, TaskSpec

FIRST_PRECISION_BITS = 128


def compute_learning_rate(schedule: ScheduleConfig, global_step: int, local_step: int = 0) -> float:
    """Returns the learning rate of the step from (local_step, global_step). Both count steps already done.

    It is peak * outer factor * inner factor, rounded once to float32. Raises InvalidInput outside 0 ..
    total_steps - 1."""
    if not 0 <= global_step < schedule.total_steps or local_step < 0:
        raise InvalidInput(
            what="no such step",
            expected=f"global step below {schedule.total_steps}, local step from 0",
            actual=f"global step {global_step}, local step {local_step}",
            remedy="Compare the state's counters with the task's rounds and inner steps.",
        )
    factor = _outer_factor(schedule, global_step) * _ramp(local_step, schedule.inner_warmup_steps)
    return bits_to_float(round_to_bits(Fraction(schedule.peak_learning_rate) * factor))


def _ramp(step: int, length: int) -> Fraction:
    return Fraction(min(step + 1, length), length) if length else Fraction(1)


def _outer_factor(schedule: ScheduleConfig, step: int) -> Fraction:
    """Returns the warm-up (step + 1)/warmup_steps, then 1, then a line from 1 to final_ratio over
    decay_steps."""
    remaining = schedule.total_steps - step
    if remaining >= schedule.decay_steps:
        return _ramp(step, schedule.warmup_steps)
    final = Fraction(schedule.final_ratio)
    decayed = final + (1 - final) * Fraction(remaining, schedule.decay_steps)
    return min(decayed, _ramp(step, schedule.warmup_steps))


def compute_bias_corrections(beta1: float, beta2: float, local_step: int) -> tuple[float, float]:
    """Returns (1 - beta1^t, 1 - beta2^t) with t = local_step + 1, each the float32 nearest to the exact
    value."""
    exponent = local_step + 1
    return _one_minus_power(beta1, exponent), _one_minus_power(beta2, exponent)


def _one_minus_power(base: float, exponent: int) -> float:
    """Uses Ziv's strategy: raises the precision until lower and upper bound round to the same float32."""
    precision = FIRST_PRECISION_BITS
    while True:
        low, high = _power_bounds(Fraction(base), exponent, precision)
        one = 1 << precision
        upper, lower = (round_to_bits(Fraction(one - bound, one)) for bound in (low, high))
        if upper == lower:
            return bits_to_float(upper)
        precision *= 2


def _power_bounds(base: Fraction, exponent: int, precision: int) -> tuple[int, int]:
    """Returns integers l <= base^exponent * 2^precision <= h for 0 <= base <= 1, by repeated squaring; exact
    once they fit."""
    one = 1 << precision
    low, high = one, one
    square_low = base.numerator * one // base.denominator
    square_high = -(-base.numerator * one // base.denominator)
    while exponent:
        if exponent & 1:
            low, high = low * square_low >> precision, -(-high * square_high >> precision)
        square_low, square_high = square_low**2 >> precision, -(-(square_high**2) >> precision)
        exponent >>= 1
    return low, high


def compute_learning_rate_sum(
    schedule: ScheduleConfig, segment_index: int, segment_steps: int, inner_steps: int
) -> int:
    """Returns the sum of the learning rates of one segment, added exactly, in units of 2^-64, rounded up.

    The inner ramp counts from the round's start, because it is allowed only if moments are reset."""
    first = segment_index * segment_steps
    rates = (
        compute_learning_rate(schedule, step, step % inner_steps)
        for step in range(first, first + segment_steps)
    )
    total = sum((Fraction(rate) for rate in rates), Fraction(0)) * (1 << LEARNING_RATE_FRACTION_BITS)
    return -(-total.numerator // total.denominator)


def compute_schedule_sums(spec: TaskSpec) -> list[int]:
    """Returns the learning rate sums of all rounds * H/k segments of a task."""
    terms = spec.terms
    return [
        compute_learning_rate_sum(spec.training.schedule, index, terms.segment_steps, terms.inner_steps)
        for index in range(terms.rounds * terms.segment_count)
    ]


def compute_schedule_levels(sums: list[int]) -> Levels:
    """Returns the schedule tree of all segments; its root is `TaskTerms.schedule_root`, its paths go with
    openings."""
    return compute_levels([compute_schedule_leaf(index, value) for index, value in enumerate(sums)])


def compute_scalar_leaves(spec: TaskSpec) -> list[bytes]:
    """Returns for every i below rounds * H three float32 in 12 bytes: the learning rate of the step with
    global step i, and the bias corrections of the step with local step i. The inner ramp counts from the
    round's start."""
    training, terms = spec.training, spec.terms
    leaves = []
    for step in range(terms.rounds * terms.inner_steps):
        rate = compute_learning_rate(training.schedule, step, step % terms.inner_steps)
        corrections = compute_bias_corrections(training.beta1, training.beta2, step)
        leaves.append(pack_bits([float_to_bits(value) for value in (rate, *corrections)]))
    return leaves


def compute_scalar_levels(leaves: list[bytes]) -> Levels:
    """Returns the tree over the scalars of all steps; its root is `StepFacts.scalars_root`."""
    return compute_levels([hash_leaf(leaf) for leaf in leaves])
